"""The random codes that cloud and lock compute alike, so that a lock opens with one it was never told by radio.

One rule: a code follows from the lock's secret, its type, its window and its ordinal, and from nothing else. The vendor's real
algorithm is secret; the digits here are a keyed hash, and the lock's ability to recompute them is stood for by
`Door.learn_random`. Lengths by window are assumed (the vendor: 6 to 9, by type and period); see the README.
"""

from __future__ import annotations

import hashlib
import hmac
import time

from .door import DAY_MS, HOUR_MS, ONCE, PERIOD, PERMANENT, Door, RandomCode
from .errcodes import VendorError
from .model import Lock
from .params import INVALID

ORDINALS = {ONCE: 200, PERMANENT: 20}
YEAR_MS = 366 * DAY_MS
USED_UP = -1026


def floor_hour(instant: int, lock: Lock) -> int:
    """Cuts an instant to the whole hour, on the lock's local clock or in UTC as the lock's switch says."""
    offset = lock.timezone_raw_offset if lock.hour_floor == "local" else 0
    return instant - (instant + offset) % HOUR_MS


def code_length(code_type: int, start: int, end: int) -> int:
    """Returns how many digits the window gets: 6 up to a week, 7 up to 31 days, 8 up to a year, 9 beyond; permanent 9."""
    if code_type == PERMANENT:
        return 9
    if code_type != PERIOD:
        return 8
    span = end - start
    return next((n for n, limit in ((6, 7 * DAY_MS), (7, 31 * DAY_MS), (8, YEAR_MS)) if span <= limit), 9)


def make_code(lock: Lock, door: Door, code_type: int, start: int, end: int) -> tuple[RandomCode, str]:
    """Makes the next code of a window and its window mark. Start and end are true instants already cut to the hour.

    Raises VendorError(-1026) when this window's code was handed out and deleted, or its supply is spent.
    """
    for ordinal in range(ORDINALS.get(code_type, 1)):
        mark = f"{code_type}:{start}:{end}:{ordinal}"
        taken = any(passcode.window == mark for passcode in lock.passcodes.values())
        if taken or mark in lock.withdrawn_windows:
            continue
        wall_start, wall_end = lock.wall_window(start, end)
        digits = _digits(lock, door, mark, code_length(code_type, start, end))
        return RandomCode(digits, code_type, wall_start, wall_end), mark
    raise VendorError(USED_UP)


def check_long_period(lock: Lock, start: int, end: int) -> None:
    """Beyond a year only whole months are given: same day and hour at both ends. Raises VendorError(-3)."""
    if end - start > YEAR_MS:
        offset = lock.timezone_raw_offset
        if _day_and_hour(start + offset) != _day_and_hour(end + offset):
            raise VendorError(INVALID)


def _day_and_hour(wall: int) -> tuple[int, int]:
    stamp = time.gmtime(wall / 1000)
    return stamp.tm_mday, stamp.tm_hour


def _digits(lock: Lock, door: Door, mark: str, length: int) -> str:
    for salt in range(1000):
        seed = hmac.new(lock.secret.encode(), f"{mark}:{salt}".encode(), hashlib.sha256).digest()
        digits = "".join(door.digits[byte % len(door.digits)] for byte in seed[:length])
        in_cloud = any(passcode.code == digits for passcode in lock.passcodes.values())
        if not in_cloud and not door.holds_code(digits) and len(set(digits)) > 1:
            return digits
    raise VendorError(USED_UP)
