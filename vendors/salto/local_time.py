"""Turns instants into the property's wall clock, as cards and locks of this vendor keep it: whole minutes, no zone.

One rule: a card never opens outside its window. Where the clocks are set back and an hour comes twice, the card gets less
rather than more.
Source: ten digits without zone on the wire (high); that locks compare wall clocks through both hours: assumed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from vendors.port.types import Window

from .errors import refused_issue

MINUTE = timedelta(minutes=1)


def wall_window(window: Window, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Returns start and end on the wall clock, without zone. Raises KeyIssueFailed when nothing is left between them.

    Example: 2026-11-01 05:30Z to 2026-11-03 16:00Z in Asia/Kabul (+04:30) gives 10:00 and, two days later, 20:30.
    """
    start, end = wall_start(window.valid_from, zone), wall_end(window.valid_until, zone)
    if end <= start:
        raise refused_issue("the window is too short for a card, which knows whole minutes only")
    return start, end


def clipped(window: Window, zone: ZoneInfo | None) -> Window:
    """Returns the window without the part that a wall clock shows twice: a lock that compares wall clocks would open in the
    hour's other coming as well. Without a zone the window as it is. Raises KeyIssueFailed when nothing is left.

    Example: an end at 2027-10-31 00:30Z in Europe/Berlin (02:30, and 02:30 again an hour later) becomes 00:00Z.
    """
    if zone is None:
        return window
    start, end = window.valid_from.astimezone(UTC), window.valid_until.astimezone(UTC)
    if start.astimezone(zone).fold:
        start = wall_start(start, zone).replace(tzinfo=zone).astimezone(UTC)
    if not end.astimezone(zone).fold and end.astimezone(zone).replace(fold=1).utcoffset() != end.astimezone(zone).utcoffset():
        end = wall_end(end, zone).replace(tzinfo=zone).astimezone(UTC)
    if end <= start:
        raise refused_issue("nothing is left of the window but an hour that comes twice")
    return Window(start, end)


def wall_start(instant: datetime, zone: ZoneInfo) -> datetime:
    """Returns the first whole minute from the instant on. In an hour's second coming: the end of that hour, since the card
    would take the first one."""
    start = instant.astimezone(UTC)
    floor = start.replace(second=0, microsecond=0)
    start = floor if floor == start else floor + MINUTE
    local = start.astimezone(zone)
    while local.fold:
        start += MINUTE
        local = start.astimezone(zone)
    return local.replace(tzinfo=None)


def wall_end(instant: datetime, zone: ZoneInfo) -> datetime:
    """Returns the last whole minute up to the instant. In an hour's first coming: the start of that hour, since the card would
    open again in the second."""
    end = instant.astimezone(UTC).replace(second=0, microsecond=0)
    local = end.astimezone(zone)
    while not local.fold and local.replace(fold=1).utcoffset() != local.utcoffset():
        end -= MINUTE
        local = end.astimezone(zone)
    return local.replace(tzinfo=None)


def instant_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """Returns the instant of a wall-clock time; of two the later, so that a bound is never too early."""
    return wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
