"""Keys of a Visionline server: made, read, found, withdrawn. The wire's paths and field names stand here and nowhere else.

| call | confidence |
|---|---|
| `POST /api/v1/cards?action=encode&encoder=…` with `override`, `autoJoin`, `overwriteValidCard` | high |
| flag `sendOnline` | medium |
| `POST /api/v1/cards?autoJoin=true` with `serialNumbers` | high |
| `GET /api/v1/cards?guestDoor=&validTime=`, `?serialNumber=` | medium |
| `GET` and `DELETE /api/v1/cards/{id}`, `action=mobile`, `joins` | low: in the manual's contents, spelling assumed |
| `GET /api/v1/cards?action=read&encoder=`: the card on an encoder | low: the older interface reads cards, spelling assumed |

One rule: Visionline keeps no idempotency key, so every key carries our label and is looked for before it is asked for
again.
Source: public clients of the web API, and Seam's guide to it (README, Sources C1, C2, S1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any
from urllib.parse import quote

from vendors.port.errors import Reason
from vendors.port.secrets import VendorRef
from vendors.port.types import CredentialKind, Window
from vendors.support.marks import tag_of

from .calls import Call
from .errors import DOOR_UNKNOWN, GONE, NO_CONTENT, Refused, Unclear, unreachable
from .keys import Listed, tag_in
from .local_time import on_wall, to_wall, window_from_wall
from .reading import names_in, reading, rows_in
from .settings import VisionlineSettings
from .visionline_client import VisionlineClient
from .visionline_rows import VALID, number_or_text, status_of

CARDS_PATH = "/api/v1/cards"
CARD_FORMAT = "rfid48"
_REF = "vln:"


@dataclass(frozen=True, slots=True)
class Card:
    """A key as the server tells it; a phone's key is one too. `serial` is the card's number where the server knows it;
    `is_numbered` says that the server counts its keys, so that their ids travel as numbers."""

    id: str
    status: str
    kind: CredentialKind
    doors: Listed
    window: Window
    label: str
    serial: str | None = field(default=None, repr=False)
    endpoint_id: str | None = None
    invitation_code: str | None = None
    is_delivered: bool = False
    is_numbered: bool = False

    @property
    def id_sent(self) -> str | int:
        """Returns the id as the server gave it, a number or a text."""
        return int(self.id) if self.is_numbered else self.id

    @property
    def ref(self) -> VendorRef:
        """Returns it as the port carries it."""
        return VendorRef(f"{_REF}{self.id}")

    @property
    def is_live(self) -> bool:
        """Says whether it can open now or later."""
        return self.status == VALID

    @property
    def tag(self) -> str | None:
        """Returns our credential's tag; None on a stranger's key."""
        return tag_in(self.label)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A key to make. `joins` names the key whose stay it shares; without one it overrides or joins the running stay.
    `rewrites` says that the card on the encoder is to be written though its number is known; `overwrites_card` that the valid
    key it holds may be lost, because that is the own one or a person has confirmed it."""

    kind: CredentialKind
    doors: Listed
    window: Window
    label: str
    overrides: bool = False
    joins: str | int | None = None
    rewrites: bool = False
    overwrites_card: bool = False
    serial: str | None = field(default=None, repr=False)
    receiver: Mapping[str, str] = field(default_factory=dict, repr=False)


class Cards:
    """The server's keys. Every call raises Refused, Unclear or a LockError (see VisionlineClient.ask)."""

    def __init__(self, client: VisionlineClient, settings: VisionlineSettings) -> None:
        self._client = client
        self._settings = settings

    @property
    def zone(self) -> tzinfo:
        """The property's wall time."""
        return self._settings.zone

    def make(self, call: Call, wanted: Wanted) -> Card:
        """Makes a key: on the card lying on the encoder, for a card whose number is known, or for a phone."""
        flags: dict[str, str] = {}
        if wanted.overrides:
            flags["override"] = "true"
        elif wanted.joins is None:
            flags["autoJoin"] = "true"
        window = on_wall(wanted.window, self.zone)
        operations = [{"operation": "guest", "doors": list(wanted.doors.guest)}]
        if wanted.doors.common:
            operations.append({"operation": "common", "doors": list(wanted.doors.common)})
        body: dict[str, object] = {
            "startTime": to_wall(window.valid_from, self.zone),
            "expireTime": to_wall(window.valid_until, self.zone),
            "format": CARD_FORMAT,
            "doorOperations": operations,
            "label": wanted.label,
        }
        if wanted.joins is not None:
            body["joins"] = [wanted.joins]
        limit_s = None
        if wanted.kind is CredentialKind.MOBILE_APP:
            flags["action"] = "mobile"
            body["endpoint"] = dict(wanted.receiver)
        elif wanted.serial is not None:
            flags["sendOnline"] = "true"
            body["serialNumbers"] = [wanted.serial]
        else:
            if self._settings.encoder is None:
                raise Refused(0, "encoder_unknown", "setting encoder is missing")
            flags |= {"action": "encode", "encoder": self._settings.encoder}
            limit_s = self._settings.encode_timeout_s
        if wanted.overwrites_card:
            flags["overwriteValidCard"] = "true"
        body["keyKind"] = wanted.kind.value
        answer = self._client.ask(call, "POST", CARDS_PATH, query=flags, body=body, limit_s=limit_s)
        return self._read(answer.body, is_new=True)

    def on_encoder(self, call: Call) -> list[Card]:
        """Returns the valid keys on the card that a person lays on the encoder, none for a blank one."""
        query = {"action": "read", "encoder": self._settings.encoder or ""}
        answer = self._client.ask(call, "GET", CARDS_PATH, query=query, limit_s=self._settings.encode_timeout_s)
        return [card for card in map(self._read, rows_in(answer.body)) if card.is_live]

    def of_number(self, call: Call, serial: str) -> list[Card]:
        """Returns the valid keys of a card's number."""
        rows = rows_in(self._client.ask(call, "GET", CARDS_PATH, query={"serialNumber": serial}).body)
        return [card for card in map(self._read, rows) if card.is_live]

    def read(self, call: Call, card_id: str) -> Card | None:
        """Reads one key; None for one that is not there."""
        try:
            return self._read(self._client.ask(call, "GET", _path(card_id)).body)
        except Refused as refused:
            if refused.code in GONE:
                return None
            raise

    def at_door(self, call: Call, door: str, at: datetime) -> list[Card]:
        """Returns the keys valid for a room at an instant. Raises Refused `door_unknown`."""
        query = {"guestDoor": door, "validTime": to_wall(at, self.zone)}
        return [self._read(row) for row in rows_in(self._client.ask(call, "GET", CARDS_PATH, query=query).body)]

    def carried_until(self, call: Call, card: Card) -> datetime:
        """Returns when the last of a credential's keys ends that its card may carry: a card in a guest's pocket can be older
        than the server's books."""
        if card.serial is None:
            return card.window.valid_until
        rows = rows_in(self._client.ask(call, "GET", CARDS_PATH, query={"serialNumber": card.serial}).body)
        ends = [c.window.valid_until for c in map(self._read, rows) if c.tag == card.tag]
        return max([card.window.valid_until, *ends])

    def of_credential(self, call: Call, credential_id: str, doors: Sequence[str], window: Window) -> list[Card]:
        """Looks at each room for the credential's live keys: at the window's start, and at its end where that shows none."""
        tag = tag_of(credential_id)
        found: dict[str, Card] = {}
        for door in doors:
            for at in (window.valid_from, window.valid_until):
                try:
                    rows = [c for c in self.at_door(call, door, _within(at, window)) if c.tag == tag and c.is_live]
                except Refused as refused:
                    if refused.code != DOOR_UNKNOWN:
                        raise
                    break
                found |= {card.id: card for card in rows}
                if rows:
                    break
        return list(found.values())

    def withdraw(self, call: Call, card: Card) -> None:
        """Cancels a key; one that is not there counts as cancelled."""
        try:
            answer = self._client.ask(call, "DELETE", _path(card.id), query={"sendOnline": "true"})
        except Refused as refused:
            if refused.code not in GONE:
                raise
            return
        if answer.status != NO_CONTENT:  # the manual does not say what else may be told: the key itself does
            left = self.read(call, card.id)
            if left is not None and left.is_live:
                raise Unclear(unreachable("the key stands though its end was answered", Reason.TIMEOUT))

    def invite(self, call: Call, card: Card, receiver: Mapping[str, str]) -> tuple[str | None, str | None]:
        """Mints an invitation for a phone whose earlier one was lost: endpoint and code."""
        body = self._client.ask(call, "POST", "/api/v1/endpoints", body=receiver).body
        return _text(body, "endpointId"), _text(body, "invitationCode")

    def _read(self, row: Mapping[str, Any], *, is_new: bool = False) -> Card:
        with reading():
            operations = {str(op["operation"]): names_in(op["doors"]) for op in row.get("doorOperations") or []}
            serials = row.get("serialNumbers") or []
            mobile = row.get("endpoint") or {}
            card_id = number_or_text(row, "id")
            return Card(
                id=str(card_id),
                status=status_of(row, is_new=is_new),
                kind=CredentialKind(row["keyKind"]) if row.get("keyKind") else CredentialKind.RFID_CARD,
                doors=Listed(operations.get("guest", ()), operations.get("common", ())),
                window=window_from_wall(str(row["startTime"]), str(row["expireTime"]), self.zone),
                label=str(row.get("label") or ""),
                serial=str(serials[0]) if serials else None,
                endpoint_id=_text(mobile, "endpointId"),
                invitation_code=_text(mobile, "invitationCode"),
                is_delivered=bool(mobile.get("delivered")),
                is_numbered=isinstance(card_id, int),
            )


def card_id_in(ref: VendorRef | None) -> str | None:
    """Reads a reference; None for none, and for one that is not Visionline's."""
    text = ref.reveal() if ref is not None else ""
    return text.removeprefix(_REF) if text.startswith(_REF) else None


def _path(card_id: str) -> str:
    return f"{CARDS_PATH}/{quote(card_id, safe='')}"


def _within(at: datetime, window: Window) -> datetime:
    """Keeps an instant inside a window of whole minutes."""
    return at if at < window.valid_until else window.valid_until - (window.valid_until - window.valid_from) / 2


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    return str(value) if value else None
