"""Passage mode: hours during which a lock stays open for everybody. Two pairs of calls, an older and a newer one.

One rule: the hours read back are the hours that were set, and the door keeps them by its own clock.
Source: the vendor's pages on passage mode; answers of the older call as a public Home Assistant integration recorded them
(README).
"""

from __future__ import annotations

from .context import Context
from .door import Door, PassageHours
from .errcodes import VendorError, success_body
from .model import Lock
from .params import INVALID
from .radio import BY_GATEWAY, BY_PHONE

PASSAGE_BIT = 22
UNSUPPORTED = -4043
ON, OFF = 1, 2
DAY_MIN = 24 * 60
MAX_PERIODS = 5


async def configure(context: Context) -> dict[str, object]:
    """lock/configPassageMode, the older call: one row of hours, `startDate` and `endDate` in minutes after midnight."""
    hours = []
    if context.params.has("isAllDay") or context.params.has("startDate"):
        days = _days(context.params.json("weekDays"))
        is_all_day = context.params.choice("isAllDay", (ON, OFF), OFF) == ON
        start, end = (0, 0) if is_all_day else (context.params.integer("startDate"), context.params.integer("endDate"))
        hours = [_checked(PassageHours(start, end, days, is_all_day))]
    return await _set(context, hours)


async def configure_periods(context: Context) -> dict[str, object]:
    """lock/configurePassageMode, the newer call: up to five rows of hours in `cyclicConfig`."""
    rows = context.params.json("cyclicConfig")
    if rows is None:
        rows = []
    if not isinstance(rows, list) or len(rows) > MAX_PERIODS:
        raise VendorError(INVALID)
    return await _set(context, [_period(row) for row in rows])


async def read(context: Context) -> dict[str, object]:
    """lock/getPassageModeConfig, the older call. Hours are missing from a row that is all day, and null before any were set."""
    lock = context.admin_lock()
    answer: dict[str, object] = {"passageMode": _mode(lock), "autoUnlock": lock.passage_auto_unlock}
    if not lock.door.passage_hours:
        return answer | {"startDate": None, "endDate": None, "isAllDay": ON, "weekDays": list(range(1, 8))}
    hours = lock.door.passage_hours[0]
    answer |= {"isAllDay": ON if hours.all_day else OFF, "weekDays": hours.days}
    return answer if hours.all_day else answer | {"startDate": hours.start, "endDate": hours.end}


async def read_periods(context: Context) -> dict[str, object]:
    """lock/getPassageModeConfiguration, the newer call: rows sorted by start and end, those that are all day first."""
    lock = context.admin_lock()
    rows = sorted(lock.door.passage_hours, key=lambda hours: (not hours.all_day, hours.start, hours.end))
    listed = [
        {"isAllDay": ON if row.all_day else OFF, "startTime": row.start, "endTime": row.end, "weekDays": row.days}
        for row in rows
    ]
    return {"passageMode": _mode(lock), "cyclicConfig": listed, "autoUnlock": lock.passage_auto_unlock}


async def _set(context: Context, hours: list[PassageHours]) -> dict[str, object]:
    lock = context.admin_lock()
    if not lock.has_feature(PASSAGE_BIT):
        raise VendorError(UNSUPPORTED)
    is_on = context.params.choice("passageMode", (ON, OFF)) == ON
    auto_unlock = context.params.choice("autoUnlock", (ON, OFF), OFF)
    way = context.params.choice("type", (BY_PHONE, BY_GATEWAY), BY_PHONE)

    def act(door: Door) -> None:
        door.passage_mode = is_on
        if is_on:
            door.passage_hours = hours

    await context.write(lock, way, act)
    lock.passage_auto_unlock = auto_unlock
    return success_body()


def _mode(lock: Lock) -> int:
    return ON if lock.door.passage_mode else OFF


def _period(row: object) -> PassageHours:
    if not isinstance(row, dict):
        raise VendorError(INVALID)
    is_all_day = row.get("isAllDay") == ON
    start, end = (0, 0) if is_all_day else (row.get("startTime"), row.get("endTime"))
    if not isinstance(start, int) or not isinstance(end, int):
        raise VendorError(INVALID)
    return _checked(PassageHours(start, end, _days(row.get("weekDays")), is_all_day))


def _checked(hours: PassageHours) -> PassageHours:
    if not hours.all_day and not 0 <= hours.start < hours.end <= DAY_MIN:
        raise VendorError(INVALID)
    return hours


def _days(value: object) -> list[int]:
    """Read week days, Monday being 1; every day where none are named."""
    if value is None:
        return list(range(1, 8))
    if not isinstance(value, list) or not value or not all(type(day) is int and 1 <= day <= 7 for day in value):
        raise VendorError(INVALID)
    return sorted(set(value))
