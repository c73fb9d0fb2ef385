"""PIN keys. Custom passcodes through a gateway or Wi-Fi; where neither reaches the lock, random ones the cloud computes.

One rule: a code is never guessed at. A taken code is ours only if our mark is on it.

A random code must be used within 24 hours of its start, has whole hours, cannot be chosen, and cannot be changed or deleted
until used: the guest is warned. Source: the vendor's passcode pages; the 24-hour rule also by several integrators.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

from vendors.port.clock import Clock
from vendors.port.errors import KeyIssueFailed, Reason
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
from vendors.support.marks import mark_in

from .client import TtlockClient
from .door_keys import BY_GATEWAY, DoorKeys, Held, Wire, Work
from .errors import PIN_TAKEN, SLEEPING, WINDOW_SPENT, Refused, Unclear, unreachable
from .manifest import MANIFEST
from .refs import PIN, RANDOM_PIN, Ref
from .wire import from_ms, to_int, to_ms

PERIOD = 3
WHEN_IT_WAKES = 4
"""addType for a Wi-Fi lock that sleeps: the cloud hands the code over later."""

FIRST_USE = timedelta(hours=24)
MAX_OFFSET_MS = 18 * 3_600_000
"""No wall clock is further from UTC than 14 hours; more than this is no distance at all."""
_HOUR = timedelta(hours=1)


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
        )
        super().__init__(wire, client, clock)
        self._offsets: dict[str, timedelta] = {}
        self._offsets_lock = threading.Lock()

    def can_add(self, work: Work) -> bool:
        """A custom code needs its digits."""
        return work.pin is not None

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

    def _add_custom(self, work: Work, pin: Pin, door: Door, add_type: int) -> Ref:
        fields: dict[str, object] = {
            "lockId": door.external_id,
            "keyboardPwd": pin.reveal(),
            "keyboardPwdName": work.name,
            "keyboardPwdType": PERIOD,
            "startDate": to_ms(work.window.valid_from),
            "endDate": to_ms(work.window.valid_until),
            "addType": add_type,
            "clientNonce": work.mark,
        }
        answer = self.client.ask(work.call, "keyboardPwd/add", fields, gateway=True)
        return Ref(door.external_id, PIN, new_id(answer, "keyboardPwdId"))

    def _taken(self, work: Work, pin: Pin, door: Door, refused: Refused) -> DoorResult:
        """The lock or the cloud has these digits. Ours: adopt. A stranger's: other digits. On a later attempt, digits that no
        list shows sit at the lock unrecorded since the earlier one: they are deleted by code before other digits are drawn."""
        listed = [h for h in self.search(work, door, pin.reveal()) if h.code == pin]
        for held in listed:
            if mark_in(held.name) == work.mark:
                return self.adopt(work, door, held)
        if not listed and work.call.meta.attempt > 1:
            fields: dict[str, object] = {
                "lockId": door.external_id,
                "keyboardPwd": pin.reveal(),
                "deleteType": BY_GATEWAY,
            }
            self.client.ask(work.call, "keyboardPwd/deleteByCode", fields, gateway=True)
        raise refused

    def _add_random(self, work: Work, door: Door) -> DoorResult:
        offset = self._offset_of(work, door)
        start, end = whole_hours(work.window, self.clock.now(), offset)
        try:
            answer = self._get_random(work, door, start, end)
        except Refused as refused:
            if refused.code != WINDOW_SPENT:
                raise
            # This window's code was given and deleted before, and is spent for good: one hour more is another window.
            answer = self._get_random(work, door, start, end + _HOUR)
        digits = answer.get("keyboardPwd")
        if not isinstance(digits, str | int) or not (str(digits).isascii() and str(digits).isdigit()):
            raise Unclear(KeyIssueFailed(MANIFEST.code, "no passcode in the answer"))
        work.issued_pin = Pin(str(digits))
        self._warn_first_use(work, start)
        ref = Ref(door.external_id, RANDOM_PIN, new_id(answer, "keyboardPwdId"))
        return DoorResult(door.device_id, Outcome.DONE, ref=ref.text)

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
        """The lock's fixed distance from UTC, as stored when it was paired; read once per lock and adapter."""
        with self._offsets_lock:
            known = self._offsets.get(door.external_id)
        if known is not None:
            return known
        detail = self.client.ask(work.call, "lock/detail", {"lockId": door.external_id})
        offset_ms = to_int(detail.get("timezoneRawOffset")) or 0
        if abs(offset_ms) > MAX_OFFSET_MS:
            raise unreachable("the lock's distance from UTC is none", Reason.TIMEOUT)
        offset = timedelta(milliseconds=offset_ms)
        with self._offsets_lock:
            self._offsets[door.external_id] = offset
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


def _floor_hour(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)
