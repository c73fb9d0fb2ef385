"""PIN keys. Custom passcodes through a gateway or Wi-Fi; where neither reaches the lock, random ones the cloud computes.

One rule: a code is never guessed at. A taken code is ours only if our mark or our tag is on it.

A random code must be used within 24 hours of its start, has whole hours, cannot be chosen, and cannot be changed or deleted
until used: the guest is warned. A lock has one random code for each window, so two guests with one window would get the same
digits: the second gets another window. Source: the vendor's passcode pages; the 24-hour rule also by several integrators.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from vendors.port.clock import Clock
from vendors.port.errors import KeyIssueFailed, KeyRevokeFailed, Reason
from vendors.port.secrets import Pin
from vendors.port.types import (
    CredentialKind,
    Door,
    DoorResult,
    Outcome,
    Propagation,
    Warning,  # noqa: A004 - the port calls it so
    Window,
)
from vendors.support.marks import mark_in, tag_in

from .client import TtlockClient
from .door_keys import BY_GATEWAY, DoorKeys, Held, Wire, Work, ended_before
from .errors import PIN_TAKEN, SLEEPING, WINDOW_SPENT, Refused, Unclear, unreachable
from .manifest import MANIFEST
from .refs import PIN, RANDOM_PIN, Ref
from .wire import MAX_OFFSET_MS, from_ms, to_int, to_ms

PERIOD = 3
WHEN_IT_WAKES = 4
"""addType for a Wi-Fi lock that sleeps: the cloud hands the code over later."""

FIRST_USE = timedelta(hours=24)
_HOUR = timedelta(hours=1)
_LEFT_FOR_FIRST_USE = timedelta(hours=18)
STARTS_MAX = 4
OFFSET_KEPT_S = 600.0
NEVER_TAKEN = frozenset({-2032, -3006})
"""Digits that no lock takes: too simple, or of the wrong length."""


class PinKeys(DoorKeys):
    """Passcodes of the locks."""

    def __init__(self, client: TtlockClient, clock: Clock) -> None:
        wire = Wire(
            kind=CredentialKind.PIN_CODE,
            ref_kind=PIN,
            list_path="lock/listKeyboardPwd",
            id_field="keyboardPwdId",
            name_field="keyboardPwdName",
            change_path="keyboardPwd/change",
            delete_path="keyboardPwd/delete",
            at_lock=True,
            take_path="keyboardPwd/deleteByCode",
            value_field="keyboardPwd",
        )
        super().__init__(wire, client, clock)
        self._offsets: dict[str, tuple[float, timedelta]] = {}
        self._offsets_lock = threading.Lock()

    def can_add(self, work: Work) -> bool:
        """A custom code needs its digits."""
        return work.pin is not None

    def value_of(self, work: Work) -> str | None:
        """Return the digits."""
        return work.pin.reveal() if work.pin is not None else None

    def with_value(self, work: Work, door: Door, *, thorough: bool) -> list[Held]:
        """Return what the list has of the credential's digits, under whatever name."""
        if work.pin is None:
            return self.find(work, door)
        return [held for held in self.search(work, door, work.pin.reveal()) if held.code == work.pin]

    def unlisted(self, work: Work, door: Door) -> None:
        """Take the digits from the lock. Where the vendor finds none, the lock is asked: it takes no digits twice."""
        pin = work.pin
        if pin is None or self.take_by_value(work, door, pin.reveal()):
            return
        try:
            probe = self._add_custom(work, pin, door, BY_GATEWAY, ended_before(self.clock.now()))
        except Refused as refused:
            if refused.code in NEVER_TAKEN:
                return
            if refused.code != PIN_TAKEN:
                raise
            message = "the lock holds the digits, no list shows them, and the vendor does not take them by code"
            raise KeyRevokeFailed(MANIFEST.code, message) from refused
        self.clear(work, door, probe.id)

    def ids_to_take(self, work: Work, door: Door, ref: Ref | None) -> list[int]:
        """Return the ids to delete. Raise KeyRevokeFailed for a random code whose digits another credential has as well."""
        if ref is not None and ref.kind == PIN:
            return [ref.id]
        held = [h for h in self.find(work, door) if ref is None or h.id == ref.id]
        for one in held:
            if one.custom or one.code is None:
                continue
            same = [h for h in self.search(work, door, one.code.reveal()) if h.code == one.code]
            if any(tag_in(h.name) not in (None, work.tag) for h in same):
                raise KeyRevokeFailed(MANIFEST.code, "another key has the same digits at this lock")
        return [ref.id] if ref else [h.id for h in held]

    def marked(self, work: Work, door: Door) -> Held | None:
        """Return what carries this effect's mark at the door; no random code that somebody else has too."""
        held = super().marked(work, door)
        if held is not None and not held.custom and held.code is not None and self._is_anothers(work, door, held.code, held.id):
            return None
        return held

    def add(self, work: Work, door: Door) -> DoorResult:
        """Adds the credential's own digits, or gets random ones where no network reaches the lock."""
        if not door.has_remote:
            return self._add_random(work, door)
        if work.pin is None:
            raise KeyIssueFailed(MANIFEST.code, "a PIN key needs digits", retriable=False)
        try:
            return self.done(door, self._add_custom(work, work.pin, door, BY_GATEWAY))
        except Refused as refused:
            if refused.code == PIN_TAKEN:
                return self._taken(work, work.pin, door, refused)
            if refused.code != SLEEPING:
                raise
        ref = self._add_custom(work, work.pin, door, WHEN_IT_WAKES)
        return DoorResult(
            door.device_id,
            Outcome.DEFERRED,
            ref=ref.text,
            propagation=Propagation.PROPAGATING,
            effective_not_after=work.window.valid_until,
        )

    def adopt(self, work: Work, door: Door, held: Held) -> DoorResult:
        """Takes over a code of ours; a random one brings its digits with it."""
        if not held.custom:
            work.issued_pin = held.code
            self._warn_first_use(work, from_ms(held.start_ms) or work.window.valid_from)
        return super().adopt(work, door, held)

    def differs(self, work: Work, held: Held) -> bool:
        """A random code's window is the vendor's; a custom one must have our window and our digits."""
        if not held.custom:
            return False
        return super().differs(work, held) or (work.pin is not None and held.code != work.pin)

    def ref_of(self, door: Door, held: Held) -> Ref:
        """Random and custom codes live by different rules, so the reference says which it is."""
        return Ref(door.external_id, PIN if held.custom else RANDOM_PIN, held.id)

    def _correct(self, work: Work, ref: Ref) -> None:
        fields: dict[str, object] = {
            "lockId": ref.lock_id,
            "keyboardPwdId": ref.id,
            "startDate": to_ms(work.window.valid_from),
            "endDate": to_ms(work.window.valid_until),
            "newKeyboardPwd": work.pin.reveal() if work.pin else None,
            "changeType": BY_GATEWAY,
        }
        self.client.ask(work.call, self.wire.change_path, fields, gateway=True)

    def _add_custom(self, work: Work, pin: Pin, door: Door, add_type: int, window: Window | None = None) -> Ref:
        window = window or work.window
        fields: dict[str, object] = {
            "lockId": door.external_id,
            "keyboardPwd": pin.reveal(),
            "keyboardPwdName": work.name,
            "keyboardPwdType": PERIOD,
            "startDate": to_ms(window.valid_from),
            "endDate": to_ms(window.valid_until),
            "addType": add_type,
            "clientNonce": work.mark,
        }
        answer = self.client.ask(work.call, "keyboardPwd/add", fields, gateway=True)
        return Ref(door.external_id, PIN, new_id(answer, "keyboardPwdId"))

    def _taken(self, work: Work, pin: Pin, door: Door, refused: Refused) -> DoorResult:
        """Settle what it means that the lock or the cloud has these digits.

        Listed under our mark: adopt. Under our tag: left by an earlier effect, so it is cleared and given again. A stranger's:
        other digits. Digits that no list shows lie at the lock unrecorded, if the key was here or an earlier attempt may have
        left them: they are taken by code. A key that was here keeps its digits; another is given other ones.
        """
        listed = [h for h in self.search(work, door, pin.reveal()) if h.code == pin]
        for held in listed:
            if mark_in(held.name) == work.mark:
                return self.adopt(work, door, held)
        ours = [held for held in listed if tag_in(held.name) == work.tag]
        for held in ours:
            self.clear(work, door, held.id)
        unrecorded = not listed and (work.was_here or work.call.meta.attempt > 1)
        if unrecorded and not self.take_by_value(work, door, pin.reveal()):
            raise Unclear(KeyIssueFailed(MANIFEST.code, "the lock holds the digits, and no list shows them"))
        if ours or (unrecorded and work.was_here):
            return self.done(door, self._add_custom(work, pin, door, BY_GATEWAY))
        raise refused

    def _add_random(self, work: Work, door: Door) -> DoorResult:
        offset = self._offset_of(work, door)
        spent: Refused | None = None
        for start, end in windows_to_ask(work.window, self.clock.now(), offset):
            try:
                answer = self._get_random(work, door, start, end)
            except Refused as refused:
                if refused.code != WINDOW_SPENT:
                    raise
                spent = refused  # this window's code was given and deleted before
                continue
            digits = answer.get("keyboardPwd")
            if not isinstance(digits, str | int) or not (str(digits).isascii() and str(digits).isdigit()):
                raise Unclear(KeyIssueFailed(MANIFEST.code, "no passcode in the answer"))
            pin, code_id = Pin(str(digits)), new_id(answer, "keyboardPwdId")
            if self._is_anothers(work, door, pin, code_id):
                continue
            work.issued_pin = pin
            self._warn_first_use(work, start)
            if end > work.window.valid_until + _HOUR:
                longer = f"Another key has the lock's code of this window, so the code opens until {end.isoformat()}."
                work.warnings.append(Warning("CODE_OPENS_LONGER", longer))
            return DoorResult(door.device_id, Outcome.DONE, ref=Ref(door.external_id, RANDOM_PIN, code_id).text)
        raise spent or KeyIssueFailed(
            MANIFEST.code,
            "every code this window could have is another key's",
            retriable=False,
            reason=Reason.KIND_UNSUPPORTED,
        )

    def _is_anothers(self, work: Work, door: Door, pin: Pin, code_id: int) -> bool:
        """Say whether somebody else has a random code's digits at the door. A second record of them in our name is dropped."""
        listed = [held for held in self.search(work, door, pin.reveal()) if held.code == pin]
        if not any(self._is_strange(work, held) for held in listed):
            return False
        if any(held.id == code_id and not self._is_strange(work, held) for held in listed):
            self._drop_record(work, door, code_id)
        return True

    def _is_strange(self, work: Work, held: Held) -> bool:
        return tag_in(held.name) != work.tag

    def _get_random(self, work: Work, door: Door, start: datetime, end: datetime) -> dict[str, Any]:
        fields: dict[str, object] = {
            "lockId": door.external_id,
            "keyboardPwdType": PERIOD,
            "keyboardPwdName": work.name,
            "startDate": to_ms(start),
            "endDate": to_ms(end),
            "clientNonce": work.mark,
        }
        return self.client.ask(work.call, "keyboardPwd/get", fields)

    def _offset_of(self, work: Work, door: Door) -> timedelta:
        """The lock's fixed distance from UTC, as stored when it was paired; read anew after a while, since it may be mended."""
        with self._offsets_lock:
            read_at, known = self._offsets.get(door.external_id, (0.0, None))
        if known is not None and time.monotonic() - read_at < OFFSET_KEPT_S:
            return known
        detail = self.client.ask(work.call, "lock/detail", {"lockId": door.external_id})
        offset_ms = to_int(detail.get("timezoneRawOffset")) or 0
        if abs(offset_ms) > MAX_OFFSET_MS:
            raise unreachable("the lock's distance from UTC is none", Reason.TIMEOUT)
        offset = timedelta(milliseconds=offset_ms)
        with self._offsets_lock:
            self._offsets[door.external_id] = (time.monotonic(), offset)
        return offset

    def _warn_first_use(self, work: Work, start: datetime) -> None:
        deadline = (start + FIRST_USE).isoformat(timespec="minutes")
        detail = f"The code must be used at the door before {deadline}, or it never opens."
        work.warnings.append(Warning("FIRST_USE_24H", detail))


def whole_hours(window: Window, now: datetime, offset: timedelta) -> tuple[datetime, datetime]:
    """Widens a window outward to whole hours of a lock's local time; a start in the past moves up to the present hour, since
    the 24 hours for the first use count from it. Both in UTC.

    At +4:30 the window 10:10 to 12:00 UTC (14:40 to 16:30 local) becomes 09:30 to 12:30 UTC (14:00 to 17:00 local).
    """
    late_start = max(window.valid_from, min(now, window.valid_until - _HOUR))
    start = _floor_hour(late_start + offset) - offset
    end = _floor_hour(window.valid_until + offset) - offset
    return start, end if end == window.valid_until else end + _HOUR


def new_id(answer: dict[str, Any], name: str) -> int:
    """Reads the id a creation answers. Raises Unclear without one: then nobody knows what was made."""
    value = to_int(answer.get(name))
    if value is None:
        raise Unclear(KeyIssueFailed(MANIFEST.code, "no id in the answer", reason=Reason.TIMEOUT))
    return value


def windows_to_ask(window: Window, now: datetime, offset: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """Yield the windows of whole hours whose random code will do, the plain one first; all in UTC.

    None opens more than an hour too early, or two hours too late. Where the wanted window has begun, earlier starts within it
    will do too, as long as most of the 24 hours for the first use are left.
    """
    start, end = whole_hours(window, now, offset)
    earliest = max(window.valid_from - _HOUR, now - FIRST_USE + _LEFT_FOR_FIRST_USE)
    starts = [start]
    while starts[-1] - _HOUR >= earliest and len(starts) < STARTS_MAX:
        starts.append(starts[-1] - _HOUR)
    for until in (end, end + _HOUR):
        for since in starts:
            yield since, until


def _floor_hour(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)
