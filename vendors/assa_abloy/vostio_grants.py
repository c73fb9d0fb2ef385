"""Grants of a Vostio environment: read, found, made, changed, withdrawn. The wire's field names stand here and nowhere else.

One rule: a grant is found by our credential's tag, so that a lost answer never makes a second one.
Contract: not public, assumed (low confidence); furthest from anything seen: `validFrom` and `overrideGuestDoors` in a change,
`issuingRequestId` on a grant that is still being issued, and the grant that a card carries: `grantId` in the error
`card_in_use`, `overwriteGrantIds` in a request, `overwrote` on a grant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from vendors.port.errors import CardKey
from vendors.port.secrets import VendorRef
from vendors.port.types import CredentialHandle, CredentialKind, Propagation, Window
from vendors.support.card_check import name_of
from vendors.support.marks import tag_of

from .calls import Call
from .errors import GONE, NO_CONTENT, Answer, Refused, Unclear
from .keys import CARD_KINDS, Listed, mark_in, tag_in
from .reading import names_in, reading, rows_in, text_in
from .vostio_client import VostioClient

SUSPENDED = "suspended"
LIVE = ("issuing", "active", SUSPENDED)
PAGE_SIZE = 100
MAX_PAGES = 50
_REF = "vst:"


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant as the environment tells it."""

    id: str
    status: str
    version: int
    kind: CredentialKind
    doors: Listed
    window: Window
    label: str
    tag: str
    endpoint_id: str | None = None
    endpoint_status: str | None = None
    invitation_code: str | None = None
    is_delivered: bool = False
    issuing_request_id: str | None = None
    overwrote: str | None = None

    @property
    def ref(self) -> VendorRef:
        """Returns it as the port carries it."""
        return VendorRef(f"{_REF}{self.id}")

    @property
    def is_live(self) -> bool:
        """Says whether it can open now or later."""
        return self.status in LIVE


def instant_text(instant: datetime) -> str:
    """Returns an instant as the wire has it, such as `2026-01-01T14:30:00Z`; parts of a second are cut off."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Issuing:
    """How far an issuing request has come. `card_grant_id` is the grant that the card carries, where that is in the way."""

    status: str
    code: str | None
    card_grant_id: str | None


class Grants:
    """The environment's grants. Every call raises Refused, Unclear or a LockError (see VostioClient.ask)."""

    def __init__(self, client: VostioClient) -> None:
        self._client = client

    def make(self, call: Call, body: Mapping[str, object], key: str) -> Answer:
        """Asks for a grant: 201 made, 202 being made."""
        return self._client.ask(call, "POST", "/access-grants", body=body, key=key)

    def read(self, call: Call, grant_id: str) -> Grant | None:
        """Reads one grant; None for one that is not there."""
        try:
            return read_grant(self._client.ask(call, "GET", f"/access-grants/{grant_id}").body)
        except Refused as refused:
            if refused.code in GONE:
                return None
            raise

    def list_all(self, call: Call, query: Mapping[str, str]) -> list[Grant]:
        """Reads every page of a list."""
        found: list[Grant] = []
        token: str | None = None
        for _ in range(MAX_PAGES):
            page, token = self.page(call, query, token)
            found += page
            if token is None:
                break
        return found

    def page(self, call: Call, query: Mapping[str, str], token: str | None) -> tuple[list[Grant], str | None]:
        """Reads one page of a list of live grants, and the token of the next."""
        asked = {"status": ",".join(LIVE), "pageSize": str(PAGE_SIZE), **query}
        if token:
            asked["pageToken"] = token
        body = self._client.ask(call, "GET", "/access-grants", query=asked).body
        after = body.get("nextPageToken")
        return [read_grant(row) for row in rows_in(body)], str(after) if after else None

    def of_credential(self, call: Call, credential_id: str) -> list[Grant]:
        """Returns the live grants of a credential of ours: one, none, or more where something went wrong before."""
        return [g for g in self.list_all(call, {"externalRef": tag_of(credential_id)}) if g.is_live]

    def first_of(self, call: Call, credential_id: str) -> Grant | None:
        """Returns the live grant of a credential of ours, None where there is none."""
        return next(iter(self.of_credential(call, credential_id)), None)

    def of_handle(self, call: Call, handle: CredentialHandle) -> list[Grant]:
        """Returns the live grants behind a handle: by reference, else by the credential's tag. A grant that is not found by its
        reference may have been made anew under another."""
        ids = {ref for door in handle.doors if (ref := grant_id_in(door.ref))}
        found = [grant for grant_id in sorted(ids) if (grant := self.read(call, grant_id)) is not None and grant.is_live]
        if ids and len(found) == len(ids):
            return found
        named = {grant.id for grant in found}
        return found + [grant for grant in self.of_credential(call, handle.credential_id) if grant.id not in named]

    def change(self, call: Call, grant: Grant, fields: Mapping[str, object]) -> Grant:
        """Changes a grant. When somebody changed it in between, reads it anew and asks once more."""
        try:
            return self._patched(call, grant, fields)
        except Refused as refused:
            if refused.code != "version_stale":
                raise
        fresh = self.read(call, grant.id)
        if fresh is None:
            raise Refused(404, "not_found")
        return self._patched(call, fresh, fields)

    def withdraw(self, call: Call, grant: Grant, reason: str) -> datetime | None:
        """Withdraws a grant. Returns until when a card may go on opening locks that are not on the network, None where the
        environment names no such instant. A grant that is not there counts as withdrawn."""
        try:
            answer = self._client.ask(call, "DELETE", f"/access-grants/{grant.id}", query={"reason": reason})
        except Refused as refused:
            if refused.code in GONE:
                return None
            raise
        not_after = answer.body.get("notAfter")
        with reading():
            if answer.status != NO_CONTENT and "effective" not in answer.body:
                raise LookupError("neither withdrawn nor refused")
            return datetime.fromisoformat(str(not_after)).astimezone(UTC) if not_after else None

    def invite(self, call: Call, receiver: Mapping[str, str]) -> tuple[str | None, str | None]:
        """Mints an invitation for a phone whose earlier one was lost: endpoint and code."""
        body = self._client.ask(call, "POST", "/endpoints", body=receiver).body
        return _text(body, "endpointId"), _text(body, "invitationCode")

    def issuing(self, call: Call, request_id: str) -> Issuing:
        """Asks after a request: its status, and where it failed the error's code and the grant that the card carries."""
        body = self._client.ask(call, "GET", f"/issuing-requests/{request_id}").body
        error = body.get("error")
        told = error if isinstance(error, dict) else {}
        return Issuing(str(body.get("status")), _text(told, "code"), _text(told, "grantId"))

    def key_on_card(self, call: Call, grant_id: str | None) -> CardKey:
        """Returns the key of a grant that a card carries; without a name where the environment does not say which."""
        try:
            grant = self.read(call, grant_id) if grant_id else None
        except (Refused, Unclear):
            grant = None
        return on_card(grant) if grant is not None else CardKey(name_of(grant_id) if grant_id else "")

    def made_in_vain(self, call: Call, credential_id: str, label: str) -> int:
        """Counts the grants of this intended effect that ended before a card was written."""
        query = {"externalRef": tag_of(credential_id), "status": "failed"}
        return sum(grant.label == label for grant in self.list_all(call, query))

    def _patched(self, call: Call, grant: Grant, fields: Mapping[str, object]) -> Grant:
        path = f"/access-grants/{grant.id}"
        return read_grant(self._client.ask(call, "PATCH", path, body=fields, version=grant.version).body)


def arrived(grant: Grant) -> tuple[Propagation, datetime | None]:
    """Returns how far a new key has got. A card opens at once, a phone once it has fetched it."""
    if grant.kind in CARD_KINDS or grant.is_delivered:
        return Propagation.CONFIRMED, None
    return Propagation.PROPAGATING, grant.window.valid_until


def on_card(grant: Grant) -> CardKey:
    """Returns a grant as the key that a card carries."""
    return CardKey(name_of(grant.id), mark_in(grant.label), tag_in(grant.label), grant.window.valid_until)


def overlaps(grant: Grant, window: Window) -> bool:
    """Says whether a grant is good at some instant of the window."""
    return grant.window.valid_from < window.valid_until and window.valid_from < grant.window.valid_until


def grant_id_in(ref: VendorRef | None) -> str | None:
    """Reads a reference; None for none, and for one that is not Vostio's."""
    text = ref.reveal() if ref is not None else ""
    return text.removeprefix(_REF) if text.startswith(_REF) else None


def read_grant(row: Mapping[str, Any]) -> Grant:
    """Reads a grant of the wire. Raises Unclear for one that lacks a part or makes no sense."""
    with reading():
        mobile = row.get("mobile") or {}
        return Grant(
            id=text_in(row, "grantId"),
            status=text_in(row, "status"),
            version=int(row["version"]),
            kind=CredentialKind(row["kind"]),
            doors=Listed(names_in(row.get("guestDoors")), names_in(row.get("commonDoors"))),
            window=Window(datetime.fromisoformat(row["validFrom"]), datetime.fromisoformat(row["validUntil"])),
            label=str(row.get("label") or ""),
            tag=str(row.get("externalRef") or ""),
            endpoint_id=_text(mobile, "endpointId"),
            endpoint_status=_text(mobile, "status"),
            invitation_code=_text(mobile, "invitationCode"),
            is_delivered=bool(mobile.get("delivered")),
            issuing_request_id=_text(row, "issuingRequestId"),
            overwrote=_text(row, "overwrote"),
        )


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    return str(value) if value else None
