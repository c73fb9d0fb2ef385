"""Keys of one kind at one lock: give, change, rest, wake, take, and look, in as few requests as the vendor allows.

One rule: look before a repeat. TTLock keeps no idempotency key of any name, so our mark in the key's name is all there is.

Requests a door costs, when nothing goes wrong: give 1, change 1, rest 1, wake 1, take 2 (delete, and one list, since the
vendor also answers success for a delete of something unknown). A second attempt of a give costs one list more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from vendors.port.clock import Clock
from vendors.port.errors import KeyIssueFailed, KeyRevokeFailed, LockError
from vendors.port.secrets import CardNumber, Pin, VendorRef
from vendors.port.types import (
    CredentialKind,
    Door,
    DoorResult,
    FoundKey,
    Outcome,
    Propagation,
    Window,
)
from vendors.support.http import AnswerLost
from vendors.support.marks import mark_in, tag_in

from .client import Call, TtlockClient
from .errors import GONE, NEVER_USED, TABLE, Refused, Unclear, unreachable
from .manifest import MANIFEST
from .refs import Ref, read_ref
from .wire import from_ms, rows_of, to_int, to_ms

BY_GATEWAY = 2
"""addType, changeType, deleteType: through gateway or Wi-Fi. Left out it means 1, *already done over BLE*: the cloud then
writes it down and the lock never hears of it."""

PAGE_SIZE = 200
STATUS_RUNNING = frozenset({4, 6, 8})  # adding, changing, deleting
STATUS_FAILED = frozenset({5, 7, 9})
_RESTING_ENDED_AGO = timedelta(hours=24)
_RESTING_LENGTH = timedelta(hours=24)


@dataclass(slots=True)
class Work:
    """What one verb does at its doors. `username` and `issued_pin` are learnt on the way, for the artifact."""

    call: Call
    credential_id: str
    mark: str
    tag: str
    name: str
    window: Window
    pin: Pin | None = None
    card_number: CardNumber | None = None
    username: str | None = None
    issued_pin: Pin | None = None
    warnings: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Held:
    """A key as the cloud lists it. `code` is the PIN of a passcode."""

    id: int
    name: str
    start_ms: int
    end_ms: int
    status: int
    custom: bool
    code: Pin | None = None
    username: str | None = None


@dataclass(frozen=True, slots=True)
class Wire:
    """How one kind is spoken of: paths, field names, and whether the lock itself must be reached to change it."""

    kind: CredentialKind
    ref_kind: str
    list_path: str
    id_field: str
    name_field: str
    change_path: str
    delete_path: str
    at_lock: bool


class DoorKeys:
    """The kinds' common part. A kind brings its Wire and how it adds."""

    def __init__(self, wire: Wire, client: TtlockClient, clock: Clock) -> None:
        self.wire = wire
        self.client = client
        self.clock = clock

    def add(self, work: Work, door: Door) -> DoorResult:
        """Gives a new key at the door. Raises Refused or Unclear."""
        raise KeyIssueFailed(MANIFEST.code, "no such kind", retriable=False)

    def can_add(self, work: Work) -> bool:
        """Says whether all is there that a new key needs."""
        return True

    def give(self, work: Work, door: Door) -> DoorResult:
        """Gives the key, or adopts the one an earlier attempt left there."""
        if work.call.meta.attempt > 1:
            found = self.marked(work, door)
            if found is not None:
                return self.adopt(work, door, found)
        try:
            return self.add(work, door)
        except Unclear as unclear:
            return self._after_unclear(work, door, unclear)

    def change(self, work: Work, door: Door) -> DoorResult:
        """Brings the key's period to the work's window; makes the key anew when it is gone and can be made."""
        ref = self.ref_at(door)
        if ref is None:
            held = self.find(work, door)
            if not held:
                return self._anew(work, door)
            ref = self.ref_of(door, held[0])
        try:
            self._move(work, ref, to_ms(work.window.valid_from), to_ms(work.window.valid_until))
        except Refused as refused:
            if refused.code not in GONE:
                raise
            return self._anew(work, door)
        except Unclear as unclear:
            return self._read_back(work, door, ref, unclear, work.window)
        return self.done(door, ref)

    def rest(self, work: Work, door: Door) -> DoorResult:
        """Stops the key: its period becomes one that ended a day ago, out of reach of a lock clock that is hours off. Where the
        vendor refuses that, the key is deleted, to be made anew by `wake`."""
        ref = self.ref_at(door)
        if ref is None:
            return self.take(work, door)
        end = self.clock.now() - _RESTING_ENDED_AGO
        ended = Window(end - _RESTING_LENGTH, end)
        try:
            self._move(work, ref, to_ms(ended.valid_from), to_ms(ended.valid_until))
        except Refused as refused:
            if refused.code in GONE:
                return DoorResult(door.device_id, Outcome.DONE)
            if refused.code == NEVER_USED or TABLE[refused.code].retriable:
                raise
            return self.take(work, door)
        except Unclear as unclear:
            return self._read_back(work, door, ref, unclear, ended)
        return self.done(door, ref)

    def wake(self, work: Work, door: Door) -> DoorResult:
        """Makes a resting key open again within the work's window."""
        return self.change(work, door)

    def take(self, work: Work, door: Door) -> DoorResult:
        """Deletes the key and sees that it is gone. Without a reference, what carries the credential's tag is deleted."""
        ref = self.ref_at(door)
        ids = [ref.id] if ref else [held.id for held in self.find(work, door)]
        unclear: Unclear | None = None
        proven = True
        for key_id in ids:
            try:
                self._delete(work, door, key_id)
                proven = False
            except Refused as refused:
                if refused.code not in GONE:
                    raise
            except Unclear as error:
                unclear, proven = error, False
        if not proven:
            self._see_gone(work, door, ids, unclear)
        return self.gone(work, door)

    def find(self, work: Work, door: Door) -> list[Held]:
        """Returns what carries the credential's tag at the door. One request. Raises Refused or Unclear."""
        return [h for h in self.search(work, door, work.tag) if tag_in(h.name) == work.tag]

    def marked(self, work: Work, door: Door) -> Held | None:
        """Returns what carries this effect's mark at the door. One request. Raises Refused or Unclear."""
        held = self.search(work, door, work.mark)
        return next((h for h in held if mark_in(h.name) == work.mark), None)

    def search(self, work: Work, door: Door, text: str) -> list[Held]:
        """Searches the lock's list: fuzzy on names, exact on passcodes; newest first, one page."""
        fields: dict[str, object] = {
            "lockId": door.external_id,
            "pageNo": 1,
            "pageSize": PAGE_SIZE,
            "searchStr": text,
            "orderBy": 1,
        }
        document = self.client.ask(work.call, self.wire.list_path, fields)
        return [h for row in rows_in(document) if (h := self.read_row(row)) is not None]

    def read_row(self, row: dict[str, Any]) -> Held | None:
        """Reads one row of the list; None for a row without an id."""
        key_id = to_int(row.get(self.wire.id_field))
        if key_id is None:
            return None
        code = row.get("keyboardPwd")
        return Held(
            id=key_id,
            name=str(row.get(self.wire.name_field) or ""),
            start_ms=to_int(row.get("startDate")) or 0,
            end_ms=to_int(row.get("endDate")) or 0,
            status=to_int(row.get("status")) or 1,
            custom=to_int(row.get("isCustom")) != 0,
            code=Pin(str(code)) if code is not None else None,
            username=row.get("username") if isinstance(row.get("username"), str) else None,
        )

    def adopt(self, work: Work, door: Door, held: Held) -> DoorResult:
        """Takes over a key of ours that an earlier call left at the door, and gives it today's window."""
        ref = self.ref_of(door, held)
        if held.status in STATUS_FAILED:
            self._delete(work, door, held.id)
            raise KeyIssueFailed(MANIFEST.code, "the lock did not take the key")
        if held.status in STATUS_RUNNING:
            return DoorResult(
                door.device_id,
                Outcome.DEFERRED,
                ref=ref.text,
                propagation=Propagation.PROPAGATING,
                effective_not_after=work.window.valid_until,
            )
        if self.differs(work, held):
            self._correct(work, ref)
        return self.done(door, ref)

    def differs(self, work: Work, held: Held) -> bool:
        """Says whether an adopted key must be changed to be the one asked for."""
        wanted = (to_ms(work.window.valid_from), to_ms(work.window.valid_until))
        return (held.start_ms, held.end_ms) != wanted

    def found_key(self, door: Door, held: Held) -> FoundKey:
        """Returns a listed key as the port shows it."""
        start, end = from_ms(held.start_ms), from_ms(held.end_ms)
        window = Window(start, end) if start and end and start < end else None
        return FoundKey(
            device_external_id=door.external_id,
            ref=self.ref_of(door, held).text,
            kind=self.wire.kind,
            window=window,
            nonce=mark_in(held.name),
            tag=tag_in(held.name),
            label=held.name,
            pin=held.code,
        )

    def ref_at(self, door: Door) -> Ref | None:
        """Reads the door's reference; None when there is none, or it belongs to another lock (paired anew since)."""
        ref = read_ref(door.ref)
        return ref if ref is not None and ref.lock_id == door.external_id else None

    def ref_of(self, door: Door, held: Held) -> Ref:
        """Makes the reference of a listed key."""
        return Ref(door.external_id, self.wire.ref_kind, held.id)

    def done(self, door: Door, ref: Ref) -> DoorResult:
        """The vendor confirmed; for what goes through a gateway, so did the lock."""
        return DoorResult(door.device_id, Outcome.DONE, ref=ref.text)

    def gone(self, work: Work, door: Door) -> DoorResult:
        """Nothing of the credential is there any more."""
        return DoorResult(door.device_id, Outcome.DONE)

    def unknown(self, door: Door, error: LockError, ref: VendorRef | None = None) -> DoorResult:
        """The answer was lost and looking did not settle it."""
        return DoorResult(
            door.device_id,
            Outcome.UNKNOWN,
            ref=ref or door.ref,
            propagation=Propagation.UNKNOWN,
            error=error,
        )

    def _move(self, work: Work, ref: Ref, start_ms: int, end_ms: int) -> None:
        # Both dates always: with the end alone the vendor answers success and changes nothing.
        fields: dict[str, object] = {
            "lockId": ref.lock_id,
            self.wire.id_field: ref.id,
            "startDate": start_ms,
            "endDate": end_ms,
        }
        if self.wire.at_lock:
            fields["changeType"] = BY_GATEWAY
        self.client.ask(work.call, self.wire.change_path, fields, gateway=self.wire.at_lock)

    def _correct(self, work: Work, ref: Ref) -> None:
        self._move(work, ref, to_ms(work.window.valid_from), to_ms(work.window.valid_until))

    def _delete(self, work: Work, door: Door, key_id: int) -> None:
        fields: dict[str, object] = {"lockId": door.external_id, self.wire.id_field: key_id}
        if self.wire.at_lock:
            fields["deleteType"] = BY_GATEWAY
        self.client.ask(work.call, self.wire.delete_path, fields, gateway=self.wire.at_lock)

    def _anew(self, work: Work, door: Door) -> DoorResult:
        if not self.can_add(work):
            raise KeyIssueFailed(MANIFEST.code, "the key is not at the lock", retriable=False)
        return self.give(work, door)

    def _after_unclear(self, work: Work, door: Door, unclear: Unclear) -> DoorResult:
        found = self._quietly(lambda: self.marked(work, door))
        if found is not None:
            return self.adopt(work, door, found)
        if not unclear.error.retriable:
            raise unclear.error
        return self.unknown(door, unclear.error)

    def _read_back(self, work: Work, door: Door, ref: Ref, unclear: Unclear, window: Window) -> DoorResult:
        held = self._quietly(lambda: next((h for h in self.find(work, door) if h.id == ref.id), None))
        if held is None or (held.start_ms, held.end_ms) != (
            to_ms(window.valid_from),
            to_ms(window.valid_until),
        ):
            return self.unknown(door, unclear.error, ref.text)
        return self.done(door, ref)

    def _see_gone(self, work: Work, door: Door, ids: list[int], unclear: Unclear | None) -> None:
        """Raises Unclear while the lock's list still holds one of the ids, or cannot be read."""
        left = {held.id for held in self.find(work, door)} & set(ids)
        if left:
            raise unclear or Unclear(KeyRevokeFailed(MANIFEST.code, "the key is still listed"))

    def _quietly(self, look: Callable[[], Held | None]) -> Held | None:
        """Looks, where not being able to look leaves the outcome unknown."""
        try:
            return look()
        except (Refused, Unclear, LockError):
            return None


def rows_in(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of a list answer. Raises Unclear when there is no list in it."""
    try:
        return rows_of(document)
    except AnswerLost as error:
        raise Unclear(unreachable(str(error))) from error
