"""Keys of one kind at one lock: give, change, rest, wake, take, and look, in as few requests as the vendor allows.

One rule: look before a repeat. TTLock keeps no idempotency key of any name, so our mark in the key's name is all there is.

Requests a door costs, when nothing goes wrong: give 1, change 1, rest 1, wake 1, take 2 (delete, and one list, since the
vendor also answers success for a delete of something unknown). A second attempt of a give costs one list more.

"Not found" is not proof. The same digits, or the same card, may lie there under another id, or at the lock alone where no list
shows them. So a key that is not found is looked for by its value, and taken by its value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
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

RECORD_ONLY = 1
"""deleteType of a record that is known to be nowhere at the lock."""

PAGE_SIZE = 200
LIST_PAGES_MAX = 10
STATUS_RUNNING = frozenset({4, 6, 8})  # adding, changing, deleting
STATUS_FAILED = frozenset({5, 7, 9})
_RESTING_ENDED_AGO = timedelta(hours=24)
_RESTING_LENGTH = timedelta(hours=24)


@dataclass(slots=True)
class Work:
    """What one verb does at its doors. `username` and `issued_pin` are learnt on the way, for the artifact. `was_here` says of
    the door at hand that the key is known to have been there."""

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
    was_here: bool = False
    warnings: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Held:
    """A key as the cloud lists it. `code` is the PIN of a passcode, `number` that of a card."""

    id: int
    name: str
    start_ms: int
    end_ms: int
    status: int
    custom: bool
    code: Pin | None = None
    number: CardNumber | None = None
    username: str | None = None


@dataclass(frozen=True, slots=True)
class Wire:
    """How one kind is spoken of: paths, field names, and whether the lock itself must be reached to change it.
    `take_path` deletes by value (digits, a card's number), which travels as `value_field`; empty where there is none."""

    kind: CredentialKind
    ref_kind: str
    list_path: str
    id_field: str
    name_field: str
    change_path: str
    delete_path: str
    at_lock: bool
    take_path: str = ""
    value_field: str = ""


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
            return self._changed_elsewhere(work, door, ref)
        except Unclear as unclear:
            return self._read_back(work, door, ref, unclear, work.window)
        return self.done(door, ref)

    def rest(self, work: Work, door: Door) -> DoorResult:
        """Stops the key: its period becomes one that ended a day ago, out of reach of a lock clock that is hours off. Where the
        vendor refuses that, the key is deleted, to be made anew by `wake`."""
        ref = self.ref_at(door)
        if ref is None:
            return self.take(work, door)
        ended = ended_before(self.clock.now())
        try:
            self._move(work, ref, to_ms(ended.valid_from), to_ms(ended.valid_until))
        except Refused as refused:
            if refused.code in GONE:
                self._see_gone(work, door, [ref.id], None, missing=True, was_here=True)
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
        """Delete the key and see that nothing of it is left. Without a reference, what carries the credential's tag goes."""
        ref = self.ref_at(door)
        ids = self.ids_to_take(work, door, ref)
        unclear: Unclear | None = None
        missing = not ids
        for key_id in ids:
            try:
                self._delete(work, door, key_id)
            except Refused as refused:
                if refused.code not in GONE:
                    raise
                missing = True
            except Unclear as error:
                unclear, missing = error, True  # that no list shows it proves no more than after a delete that found nothing
        self._see_gone(work, door, ids, unclear, missing=missing, was_here=ref is not None)
        return self.gone(work, door)

    def ids_to_take(self, work: Work, door: Door, ref: Ref | None) -> list[int]:
        """Return the ids to delete: the reference's, else those of all that carries the credential's tag."""
        return [ref.id] if ref else [held.id for held in self.find(work, door)]

    def find(self, work: Work, door: Door) -> list[Held]:
        """Returns what carries the credential's tag at the door. One request. Raises Refused or Unclear."""
        return [h for h in self.search(work, door, work.tag) if tag_in(h.name) == work.tag]

    def marked(self, work: Work, door: Door) -> Held | None:
        """Returns what carries this effect's mark at the door. One request. Raises Refused or Unclear."""
        held = self.search(work, door, work.mark)
        return next((h for h in held if mark_in(h.name) == work.mark), None)

    def value_of(self, work: Work) -> str | None:
        """Return what opens the door: digits, or a card's number; None where it is not known or there is none."""
        return None

    def with_value(self, work: Work, door: Door, *, thorough: bool) -> list[Held]:
        """Return what the list has of the credential's value, under whatever name. `thorough` reads the whole list where the
        vendor searches no values; without it, and where no value is known, the credential's tag is looked for."""
        return self.find(work, door)

    def unlisted(self, work: Work, door: Door) -> None:
        """Take the credential's value from the lock, where it may lie though no list shows it.

        Raises KeyRevokeFailed when it is there and stays there, or when that cannot be told.
        """

    def search(self, work: Work, door: Door, text: str, page: int = 1) -> list[Held]:
        """Searches the lock's list: fuzzy on names, exact on passcodes; newest first, one page."""
        fields: dict[str, object] = {
            "lockId": door.external_id,
            "pageNo": page,
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
        code, number = row.get("keyboardPwd"), row.get("cardNumber")
        return Held(
            id=key_id,
            name=str(row.get(self.wire.name_field) or ""),
            start_ms=to_int(row.get("startDate")) or 0,
            end_ms=to_int(row.get("endDate")) or 0,
            status=to_int(row.get("status")) or 1,
            custom=to_int(row.get("isCustom")) != 0,
            code=Pin(str(code)) if code is not None else None,
            number=CardNumber(str(number)) if number is not None else None,
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

    def _delete(self, work: Work, door: Door, key_id: int, way: int = BY_GATEWAY) -> None:
        fields: dict[str, object] = {"lockId": door.external_id, self.wire.id_field: key_id}
        if self.wire.at_lock:
            fields["deleteType"] = way
        self.client.ask(work.call, self.wire.delete_path, fields, gateway=self.wire.at_lock)

    def take_by_value(self, work: Work, door: Door, value: str) -> bool:
        """Delete by value through the gateway; False where the vendor says that there is no such thing."""
        fields: dict[str, object] = {
            "lockId": door.external_id,
            self.wire.value_field: value,
            "deleteType": BY_GATEWAY,
        }
        try:
            self.client.ask(work.call, self.wire.take_path, fields, gateway=True)
        except Refused as refused:
            if refused.code not in GONE:
                raise
            return False
        return True

    def clear(self, work: Work, door: Door, key_id: int) -> None:
        """Drop the record of a key that the lock does not have. Some locks refuse to delete what they do not have."""
        try:
            self._delete(work, door, key_id)
        except Refused as refused:
            if refused.code not in GONE:
                raise
            self._drop_record(work, door, key_id)

    def _drop_record(self, work: Work, door: Door, key_id: int) -> None:
        try:
            self._delete(work, door, key_id, RECORD_ONLY)
        except Refused as refused:
            if refused.code not in GONE:
                raise

    def _changed_elsewhere(self, work: Work, door: Door, ref: Ref) -> DoorResult:
        """Change a key that is not found under its id. It may have been entered again by hand, under another id; or the lock
        lost it and the list did not, and then the record goes and the key is given again."""
        work.was_here = True
        for held in self._own(work, self.with_value(work, door, thorough=True)):
            if held.id != ref.id:
                moved = self.ref_of(door, held)
                try:
                    self._move(work, moved, to_ms(work.window.valid_from), to_ms(work.window.valid_until))
                except Refused as refused:
                    if refused.code not in GONE:
                        raise
                else:
                    return self.done(door, moved)
            if self.can_add(work):
                self.clear(work, door, held.id)
        return self._anew(work, door)

    def _own(self, work: Work, held: list[Held]) -> list[Held]:
        """Leave out what carries the tag of another credential of ours."""
        return [h for h in held if tag_in(h.name) in (None, work.tag)]

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

    def _see_gone(
        self, work: Work, door: Door, ids: list[int], unclear: Unclear | None, *, missing: bool, was_here: bool
    ) -> None:
        """Look for what may be left of a key, by its value, and take it.

        `missing` says that a delete found nothing, `was_here` that the key is known to have been here. Without that, what
        carries the same value and not our tag is a stranger's. Raises Unclear while the list still holds the key or cannot be
        read, and KeyRevokeFailed where the lock itself may still hold it.
        """
        work.was_here = was_here
        left, others = self._left(work, door, ids, thorough=missing)
        if left and unclear is None:
            for held in left:
                self.clear(work, door, held.id)
            left, others = self._left(work, door, ids, thorough=missing)
        if left:
            raise unclear or Unclear(KeyRevokeFailed(MANIFEST.code, "the key is still listed"))
        if others and was_here:
            raise KeyRevokeFailed(MANIFEST.code, "another key has the same digits or card at this lock")
        if others or not missing or not self.wire.take_path or not door.has_remote:
            return
        if self.value_of(work) is not None:
            self.unlisted(work, door)
        elif not was_here and work.call.meta.attempt > 1:
            raise Unclear(KeyRevokeFailed(MANIFEST.code, "whether the lock holds the key cannot be told without its value"))

    def _left(self, work: Work, door: Door, ids: list[int], *, thorough: bool) -> tuple[list[Held], list[Held]]:
        """Return what is listed of the key, and what else has its value."""
        if self.value_of(work) is None:
            return [held for held in self.find(work, door) if held.id in ids or thorough], []
        listed = self.with_value(work, door, thorough=thorough)
        own = self._own(work, listed)
        left = [held for held in own if held.id in ids or tag_in(held.name) == work.tag or work.was_here]
        return left, [held for held in listed if held not in left]

    def _quietly(self, look: Callable[[], Held | None]) -> Held | None:
        """Looks, where not being able to look leaves the outcome unknown."""
        try:
            return look()
        except (Refused, Unclear, LockError):
            return None


def ended_before(now: datetime) -> Window:
    """Return a period that ended a day ago, out of reach of a lock clock that is hours off."""
    end = now - _RESTING_ENDED_AGO
    return Window(end - _RESTING_LENGTH, end)


def rows_in(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of a list answer. Raises Unclear when there is no list in it."""
    try:
        return rows_of(document)
    except AnswerLost as error:
        raise Unclear(unreachable(str(error))) from error
