"""Turns instants into the property's wall time as Visionline writes it, and back.

One rule: outside this module every instant is aware UTC.
Source: `yyyyMMdd'T'HHmm`, property-local, no zone (public clients, README, Sources C1, C2; high confidence).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from vendors.port.errors import KeyIssueFailed
from vendors.port.types import Window

from .manifest import MANIFEST

_MINUTE = timedelta(minutes=1)
_FORMAT = "%Y%m%dT%H%M"
_OFFSET = re.compile(r"UTC(?:([+-])(\d{2}):(\d{2}))?")


def read_zone(name: str) -> tzinfo:
    """Reads an IANA name or `UTC±HH:MM`. Raises ValueError for anything else."""
    found = _OFFSET.fullmatch(name)
    if found:
        minutes = int(found[2] or 0) * 60 + int(found[3] or 0)
        return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError("setting time_zone is no time zone") from error


def to_wall(instant: datetime, zone: tzinfo) -> str:
    """Returns the instant as wall time in whole minutes, such as `20260101T1430`; seconds are cut off."""
    return instant.astimezone(zone).strftime(_FORMAT)


def from_wall(text: str, zone: tzinfo) -> datetime:
    """Reads wall time as an instant; the earlier one where the clock shows a time twice. Raises ValueError."""
    return datetime.strptime(text, _FORMAT).replace(tzinfo=zone).astimezone(UTC)


def window_from_wall(start: str, end: str, zone: tzinfo) -> Window:
    """Reads a key's wall times, as `on_wall` had them written: where the clock shows a time twice the start is the earlier one
    and the end the later, since nothing else is ever written and a lock that compares wall times opens until then."""
    ends = datetime.strptime(end, _FORMAT).replace(tzinfo=zone, fold=1).astimezone(UTC)
    return Window(from_wall(start, zone), ends)


def is_twice(instant: datetime, zone: tzinfo) -> bool:
    """Says whether the wall clock shows this time twice (the night summer time ends): the lock cannot tell which is meant."""
    local = instant.astimezone(zone)
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()


def on_wall(window: Window, zone: tzinfo) -> Window:
    """Returns the window as a wall clock can tell it: whole minutes, and without the part that it shows twice, since the lock
    may take the other one. Raises KeyIssueFailed when nothing is left.

    Example: a start at 2027-10-31 01:30Z in Europe/Berlin (02:30 for the second time) becomes 02:00Z, 03:00 on the wall.
    """
    whole = whole_minutes(window)
    start, end = whole.valid_from, whole.valid_until
    while start.astimezone(zone).fold:
        start += _MINUTE
    while is_twice(end, zone) and not end.astimezone(zone).fold:
        end -= _MINUTE
    if end <= start:
        raise KeyIssueFailed(MANIFEST.code, "nothing is left of the window but an hour that comes twice", retriable=False)
    return Window(start, end)


def whole_minutes(window: Window) -> Window:
    """Returns the window cut to whole minutes so that the key never opens outside it: the start is rounded up, the end down.
    A window that holds no whole minute becomes the minute it ends in."""
    start, end = window.valid_from, window.valid_until
    if start.second or start.microsecond:
        start = start.replace(second=0, microsecond=0) + timedelta(minutes=1)
    end = end.replace(second=0, microsecond=0)
    if end <= start:
        start = end - timedelta(minutes=1)
    return Window(start, end)
