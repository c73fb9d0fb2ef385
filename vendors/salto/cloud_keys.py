"""Makes and changes keys over the cloud's contract: one key over all doors for a card or phone, one key a door for a PIN.

One rule: an attempt after the first looks before it asks again, because a repeated *new* would kill the key it made before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from vendors.port.errors import LockError, Reason
from vendors.port.secrets import Pin, VendorRef
from vendors.port.types import CredentialKind as Kind
from vendors.port.types import Door, DoorResult, Intent, IssueInput, Outcome, Propagation, Window
from vendors.support.card_check import in_use, require_writable
from vendors.support.marks import mark_of

from .answers import is_live, key_on_card, moment, places_in, results
from .client import Call, SaltoClient, path_of
from .errors import CARD_IN_USE, CLOUD, Refused, Unclear, refused_issue, translate, unreachable
from .manifest_code import CODE
from .places import places_of
from .reading import MAX_PAGES, checked_key, checked_listed, rows_in
from .settings import Settings

Row = Mapping[str, Any]
T = TypeVar("T")


class CloudKeys:
    """Keys at the vendor. Safe from several threads."""

    def __init__(self, client: SaltoClient, settings: Settings) -> None:
        self._client = client
        self._settings = settings

    def of_credential(self, call: Call, credential_id: str) -> list[Row]:
        """Returns every key ever made for the credential, dead ones included."""
        return self.listed(call, {"reservationRef": credential_id})

    def listed(self, call: Call, query: Mapping[str, str | None]) -> list[Row]:
        """Returns all pages of a list. Raises LockError, also for a list that has no end."""
        rows: list[Row] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = self._asked(call, "GET", path_of("keys"), query={**query, "cursor": cursor})
            rows += _understood(lambda: [checked_listed(row) for row in rows_in(page)])  # noqa: B023 - done at once
            cursor = page.get("next")
            if cursor is None:
                return rows
        raise unreachable("a list without end", Reason.TIMEOUT)

    def mode(self, call: Call, request: IssueInput) -> str:
        """Says whether a card's or phone's key starts a stay (`new`) or joins it (`copy`). Raises LockError.

        A replacement joins, and the lost key is on the deny list by name; only where it is not, because keys cannot be
        cancelled or the list was full, it starts a new generation, which kills companions' keys too.
        """
        if request.intent is not Intent.REPLACEMENT:
            return "new" if request.intent is Intent.NEW else "copy"
        return "new" if not self._settings.cancellable or self._goes_on_opening(call, request) else "copy"

    def make_carried(self, call: Call, request: IssueInput, kind: Kind, mode: str) -> Row:
        """Makes a card's or phone's key over all doors, or finds the one an earlier attempt made and completes it. `mode` is
        what `mode` said.

        Raises LockError, Unclear.
        """
        places = places_of(request.doors)
        dead_count = 0
        if request.meta.attempt > 1:
            mine = self._mine(call, request, kind)
            alive = next((row for row in mine if is_live(row)), None)
            if alive is not None:
                return self._completed(call, alive, request, mode)
            dead_count = len(mine)
        body = self._body(request, kind) | {"rooms": list(places.rooms), "mode": mode}
        body["authorizations"] = {"grant": list(places.grants), "deny": []}
        starts = mode if mode == "new" and request.intent is Intent.REPLACEMENT else ""
        idempotency_key = digest(request.meta.idempotency_key, f"{dead_count or ''}{starts}")
        try:
            return self._posted(call, request, body, idempotency_key)
        except Refused as refused:
            if refused.code == "idempotency_mismatch":
                alive = next((row for row in self._mine(call, request, kind) if is_live(row)), None)
                if alive is not None:
                    return self._completed(call, alive, request, mode)
            if refused.code == "room_checked_out" and request.intent is Intent.REPLACEMENT and body["mode"] == "copy":
                return self._started_anew(call, request, body, idempotency_key)
            raise self.error(refused, request.doors) from None

    def _started_anew(self, call: Call, request: IssueInput, body: Mapping[str, object], idempotency_key: str) -> Row:
        """Gives a lost key's successor where the lost one was the last of its stay: there is nothing to join, and nobody else
        whom a new generation could shut out."""
        try:
            return self._posted(call, request, {**body, "mode": "new"}, digest(idempotency_key, "new"))
        except Refused as refused:
            raise self.error(refused, request.doors) from None

    def _posted(self, call: Call, request: IssueInput, body: Mapping[str, object], idempotency_key: str) -> Row:
        """Asks for a key. The server reads the card before it writes; where that carries another live key, it is asked again
        with that very key to be overwritten, if a person has confirmed it. Raises Refused, Unclear, LockError."""
        is_card = body["kind"] == Kind.RFID_CARD.value

        def post(sent: Mapping[str, object], key: str) -> Row:
            return checked_key(self._client.ask(call, "POST", path_of("keys"), sent, idempotency_key=key, is_card=is_card))

        try:
            return post(body, idempotency_key)
        except Refused as refused:
            if refused.code != CARD_IN_USE:
                raise
            held = key_on_card(refused.card)
            require_writable(CODE, [held], request)
            reference = str(refused.card.get("cardRef") or "")
            if not reference:
                raise in_use(CODE, held) from None
            return post({**body, "overwrite": [reference]}, digest(idempotency_key, f"over {reference}"))

    def make_pin(self, call: Call, order: PinOrder, door: Door) -> DoorResult:
        """Makes a PIN at one door, or finds the one an earlier attempt made. Raises LockError."""
        places = places_of([door])
        body = {
            "propertyId": self._settings.property_ref,
            "reservationRef": order.credential_id,
            "operator": order.mark,
            "kind": Kind.PIN_CODE.value,
            "mode": "copy",
            "pin": order.pin.reveal(),
            "rooms": list(places.rooms),
            "authorizations": {"grant": list(places.grants), "deny": []},
            **_window(order.window),
        }
        key = digest(call.meta.idempotency_key, door.external_id)
        try:
            found = self._pin_there(call, order, door) if call.meta.attempt > 1 else None
            if found is None:
                found = checked_key(self._client.ask(call, "POST", path_of("keys"), body, idempotency_key=key))
            elif moved := _moved(found, order.window):
                found = self.change(call, VendorRef(str(found["cardRef"])), moved)
            return results(found, [door])[0]
        except Refused as refused:
            raise self.error(refused, [door]) from None
        except Unclear as unclear:
            return unknown(door, unclear.error)

    def change(self, call: Call, ref: VendorRef, body: Mapping[str, object]) -> Row:
        """Changes a key. Raises Refused, Unclear, LockError."""
        return checked_key(self._client.ask(call, "PATCH", path_of("keys", ref.reveal()), body))

    def write_again(self, call: Call, ref: VendorRef) -> Row:
        """Writes the record onto the guest's card, which lies on the encoder. Proposed, as the whole contract; the vendor's
        host interface knows *update current key*. Raises Refused, Unclear, LockError."""
        key = digest(call.meta.idempotency_key, f"encode {ref.reveal()}")
        body = {"encoderId": self._settings.encoder}
        path = path_of("keys", ref.reveal(), "encode")
        return checked_key(self._client.ask(call, "POST", path, body, idempotency_key=key, is_card=True))

    def take(self, call: Call, ref: VendorRef, strategy: str, credential_id: str) -> Row:
        """Takes a key of a credential back: `denylist` or `checkout`. Raises Refused, Unclear, LockError.

        The vendor answers *cancelled* for a reference it does not know as well. That answer does not name our reservation, and
        is `unknown_key` here.
        """
        path = path_of("keys", ref.reveal())
        row = checked_key(self._client.ask(call, "DELETE", path, query={"strategy": strategy}))
        if row.get("reservationRef") != credential_id:
            raise Refused("unknown_key")
        return row

    def operation(self, call: Call, name: str) -> Row:
        """Reads an encode job and the key it is for. Raises LockError."""
        job = self._asked(call, "GET", path_of("operations", name))
        return {**job, "key": _understood(lambda: checked_key(job.get("key")))}

    def error(self, refused: Refused, doors: Sequence[Door], *, revoking: bool = False) -> LockError:
        """Builds the port's error for a refusal, at the door it names where it names one."""
        named = next((door.device_id for door in doors if door.external_id in refused.rooms), None)
        device_id = named or (doors[0].device_id if len(doors) == 1 else None)
        return translate(CLOUD, refused.code, revoking=revoking, device_id=device_id, retry_after_s=refused.retry_after_s)

    def _asked(self, call: Call, method: str, path: str, query: Mapping[str, str | None] | None = None) -> dict[str, Any]:
        try:
            return self._client.ask(call, method, path, query=query)
        except Refused as refused:
            raise translate(CLOUD, refused.code, revoking=call.revoking, retry_after_s=refused.retry_after_s) from None
        except Unclear as unclear:
            raise unclear.error from None

    def _mine(self, call: Call, request: IssueInput, kind: Kind) -> list[Row]:
        mark = mark_of(request.meta.idempotency_key)
        rows = self.of_credential(call, request.credential_id)
        return [row for row in rows if row.get("operator") == mark and row["kind"] == kind.value]

    def _completed(self, call: Call, row: Row, request: IssueInput, mode: str) -> Row:
        """Gives what an earlier attempt made the doors and the window that are wanted by this one, in this one's mode: the
        rooms may be others by now, and another guest in them."""
        there = set(places_in(row))
        missing = [door.external_id for door in request.doors if door.external_id not in there]
        change = _moved(row, request.window) | ({"addRooms": missing, "mode": mode} if missing else {})
        if not change or row["status"] == "waiting_card":
            return row
        try:
            return self.change(call, VendorRef(str(row["cardRef"])), change)
        except Refused as refused:
            if not missing:
                raise self.error(refused, request.doors) from None
            refusals = [{"room": name, "code": refused.code} for name in missing]
            return {**row, "refused": refusals}

    def _pin_there(self, call: Call, order: PinOrder, door: Door) -> Row | None:
        rows = self.of_credential(call, order.credential_id)
        fits = (row for row in rows if is_live(row) and row["kind"] == Kind.PIN_CODE.value)
        return next((row for row in fits if door.external_id in places_in(row)), None)

    def _body(self, request: IssueInput, kind: Kind) -> dict[str, object]:
        body: dict[str, object] = {
            "propertyId": self._settings.property_ref,
            "reservationRef": request.credential_id,
            "operator": mark_of(request.meta.idempotency_key),
            "kind": kind.value,
            "cancellable": self._settings.cancellable,
            **_window(request.window),
        }
        if kind is Kind.RFID_CARD:
            body["encoderId"] = self._settings.encoder
        else:
            body["phone"] = request.holder.phone_e164
        return body

    def _goes_on_opening(self, call: Call, request: IssueInput) -> bool:
        """Says whether the key that is replaced is on a card, and was taken off the list without being put on the deny list."""
        if request.replaces is None:
            return False
        rows = self.of_credential(call, request.replaces.credential_id)
        return any(row["status"] == "cancelled" and row.get("carriedVersion") for row in rows)


class PinOrder:
    """A PIN to make at doors: digits, window, whose it is, and the mark of the intended effect."""

    __slots__ = ("credential_id", "mark", "pin", "window")

    def __init__(self, credential_id: str, idempotency_key: str, pin: Pin | None, window: Window) -> None:
        if pin is None:
            raise refused_issue("a PIN key needs digits")
        self.credential_id = credential_id
        self.mark = mark_of(idempotency_key)
        self.pin = pin
        self.window = window


def digest(key: str, part: str) -> str:
    """Returns 64 hex digits for the header: the key itself where it is one and nothing is added, else a SHA-256."""
    is_digest = len(key) == 64 and not set(key) - set("0123456789abcdef")
    if is_digest and not part:
        return key
    return hashlib.sha256(f"{key}\x1f{part}".encode()).hexdigest()


def _understood(read: Callable[[], T]) -> T:
    """Reads the answer to a question: one that makes no sense changed nothing, and is asked again."""
    try:
        return read()
    except Unclear as unclear:
        raise unclear.error from None


def unknown(door: Door, error: LockError) -> DoorResult:
    """Returns the result of a door nobody can speak for."""
    return DoorResult(door.device_id, Outcome.UNKNOWN, ref=door.ref, propagation=Propagation.UNKNOWN, error=error)


def postponed(door: Door) -> DoorResult:
    """Returns the result of an old door that is kept while a new one failed."""
    error = unreachable("kept until the new door has the key", Reason.BUSY)
    error.device_id = door.device_id
    return DoorResult(door.device_id, Outcome.FAILED, ref=door.ref, error=error)


def _moved(row: Row, window: Window) -> dict[str, object]:
    """What must change at a key for it to have this window: nothing where it has."""
    there = (moment(str(row["validFrom"])), moment(str(row["validUntil"])))
    return {} if there == (window.valid_from, window.valid_until) else dict(_window(window))


def _window(window: Window) -> dict[str, str]:
    return {"validFrom": window.valid_from.isoformat(), "validUntil": window.valid_until.isoformat()}
