"""What a reading of a lock means: which thresholds it crosses, in pure decisions over what was known before.

| what | told | told again only after |
|---|---|---|
| battery | at 25 % or less, and once more at 10 % or less | it was 30 % or more |
| clock against true time | beyond 300 s as a warning, beyond 600 s as an alert | it was within 240 s |
| distance from UTC, as the vendor has it | one that the property's zone never has | they agree, or the clock is read right |
| not reached | after two readings in a row | it was reached |
| firmware | below what the installation asks for | it was at or above it |

One rule: a crossing is told once; a value that trembles around a threshold tells nothing new. What a reading does not say
changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo

from vendors.port.types import Window

BATTERY_LOW_PERCENT: Final = 25
BATTERY_CRITICAL_PERCENT: Final = 10
BATTERY_WELL_PERCENT: Final = 30
SKEW_WARN_MS: Final = 300_000
SKEW_ALERT_MS: Final = 600_000
SKEW_WELL_MS: Final = 240_000
"""Document 09 §14: a warning beyond 300 s, an alert beyond 600 s. The other numbers are ours."""
MISSES: Final = 2
_AROUND_THE_YEAR: Final = (0, *range(-360, 361, 30))
"""Days around an instant at which a zone's distance from UTC is looked at: its summer and its winter time are among them."""

_RANK = {"": 0, "warning": 1, "critical": 2}


class Source(StrEnum):
    """Where a reading comes from: the vendor's list (its cloud's belief), a live check, or a push of the lock itself."""

    LIST = "list"
    CHECK = "check"
    PUSH = "push"


class Crossed(StrEnum):
    """What was crossed; the words of `device.health_alert.v1`, and `online`, which has an event of its own. A wrong distance
    from UTC is a clock that is off, and goes under that word."""

    BATTERY = "battery_low"
    CLOCK = "clock_skew"
    ZONE = "time_zone"
    OFFLINE = "offline"
    ONLINE = "online"
    FIRMWARE = "firmware_out_of_date"


@dataclass(frozen=True, slots=True)
class Reading:
    """A lock as read once; None where the source does not say. `clock_skew_ms` is lock minus true time; `utc_offset_s` is how
    far from UTC the vendor takes the lock's clock to be."""

    source: Source
    online: bool | None = None
    battery_percent: int | None = None
    clock_skew_ms: int | None = None
    firmware: str | None = None
    utc_offset_s: int | None = None


@dataclass(frozen=True, slots=True)
class Crossing:
    """One threshold crossed. severity: info, warning or critical."""

    what: Crossed
    severity: str
    metric: Mapping[str, Any]
    threshold: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Zone:
    """A property's time zone at an instant. Raises nothing for a zone that nobody has told: it then agrees with everything."""

    name: str
    at: datetime

    def shift_s(self, utc_offset_s: int | None) -> int:
        """Return how far the zone's time is ahead of a lock's that counts with a fixed distance from UTC; 0 where that is a
        distance the zone has, now or at another time of the year.

        A lock knows no summer time. Set once to one of its zone's times, it and its vendor go on reckoning alike.
        """
        if utc_offset_s is None or not self.name:
            return 0
        zone = ZoneInfo(self.name)
        offsets = [(self.at + timedelta(days=days)).astimezone(zone).utcoffset() for days in _AROUND_THE_YEAR]
        seconds = [int(offset.total_seconds()) for offset in offsets if offset is not None]
        return 0 if any(abs(found - utc_offset_s) < 60 for found in seconds) else seconds[0] - utc_offset_s


UNTOLD = Zone("", datetime.min.replace(tzinfo=UTC))


def believed_skew_ms(clock_skew_ms: int | None, utc_offset_s: int | None, zone: Zone) -> int | None:
    """Return how far a lock's clock is off, as far as can be known: as read, else what its distance from UTC suggests.

    A lock whose vendor reckons with another zone's time may show the property's time all the same: whoever paired it set the
    clock, and only the distance is wrong. Nobody knows until the clock is read.
    """
    if clock_skew_ms is not None:
        return clock_skew_ms
    return zone.shift_s(utc_offset_s) * 1000 or None


def weigh(
    standing: Mapping[str, Any],
    reading: Reading,
    firmware_minimum: str = "",
    zone: Zone = UNTOLD,
    clock_skew_ms: int | None = None,
) -> tuple[dict[str, Any], list[Crossing]]:
    """Returns what stands now and what was crossed. `standing` is what the last call returned, empty at first.

    `clock_skew_ms` is how far the clock was off when it was last read.
    """
    now = dict(standing)
    crossings: list[Crossing] = []
    _weigh_reach(now, reading, crossings)
    if reading.battery_percent is not None:
        _weigh_battery(now, reading.battery_percent, crossings)
    if reading.clock_skew_ms is not None:
        _weigh_clock(now, reading.clock_skew_ms, crossings)
    if reading.utc_offset_s is not None:
        _weigh_zone(now, reading.utc_offset_s, zone, clock_skew_ms, crossings)
    if reading.firmware and firmware_minimum:
        _weigh_firmware(now, reading.firmware, firmware_minimum, crossings)
    return {name: value for name, value in now.items() if value}, crossings


def window_by_clocks(window: Window, skews_ms: Iterable[int | None]) -> Window:
    """Returns the window to give to locks whose clocks are off, so that the key opens at no true instant outside of its own.

    A lock that is fast gets a later start, one that is slow an earlier end. The start of the one and the end of the other are
    then right to the minute; at its other end the key loses as much as the clock is off. It is right too after the clock was
    set. Clocks within SKEW_WARN_MS count as right; a window shorter than what would be cut off is given as it is.
    """
    off = [timedelta(milliseconds=skew) for skew in skews_ms if skew is not None and abs(skew) > SKEW_WARN_MS]
    start = window.valid_from + max([*off, timedelta(0)])
    end = window.valid_until + min([*off, timedelta(0)])
    return Window(start, end) if start < end else window


def is_missed(standing: Mapping[str, Any]) -> bool:
    """Says whether the last reading did not reach the lock, so that it should be looked at first."""
    return bool(standing.get("missed"))


def is_clock_off(standing: Mapping[str, Any]) -> bool:
    """Says whether the lock's clock counts as off, as read or by its distance from UTC."""
    return bool(standing.get("clock") or standing.get("zone"))


def utc_text(offset_s: int) -> str:
    """Return a distance from UTC as people write it, such as `UTC+04:30`."""
    sign, minutes = "+" if offset_s >= 0 else "-", abs(offset_s) // 60
    return f"UTC{sign}{minutes // 60:02d}:{minutes % 60:02d}"


def hours_text(seconds: int) -> str:
    """Return a span as people say it, such as `3 h 30 min`."""
    hours, minutes = divmod(abs(seconds) // 60, 60)
    return " ".join(part for part in (f"{hours} h" if hours else "", f"{minutes} min" if minutes else "") if part)


def is_offline(standing: Mapping[str, Any]) -> bool:
    """Says whether the lock counts as offline."""
    return bool(standing.get("offline"))


def _weigh_reach(now: dict[str, Any], reading: Reading, crossings: list[Crossing]) -> None:
    """A live check that failed outweighs the vendor's list, which only knows that a gateway is up."""
    if reading.online is None:
        return
    if not reading.online:
        now["missed"] = min(int(now.get("missed", 0)) + 1, MISSES)
        if reading.source is Source.CHECK or not now.get("missed_by"):
            now["missed_by"] = reading.source.value
        if now["missed"] >= MISSES and not now.get("offline"):
            now["offline"] = True
            crossings.append(Crossing(Crossed.OFFLINE, "warning", {"missedReadings": MISSES}, {"missedReadings": MISSES}))
        return
    if reading.source is Source.LIST and now.get("missed_by") == Source.CHECK:
        return
    now["missed"], now["missed_by"] = 0, ""
    if now.pop("offline", False):
        crossings.append(Crossing(Crossed.ONLINE, "info", {}, {}))


def _weigh_battery(now: dict[str, Any], percent: int, crossings: list[Crossing]) -> None:
    level = "critical" if percent <= BATTERY_CRITICAL_PERCENT else "warning" if percent <= BATTERY_LOW_PERCENT else ""
    if percent >= BATTERY_WELL_PERCENT:
        now["battery"] = ""
    elif _RANK[level] > _RANK[now.get("battery", "")]:
        now["battery"] = level
        thresholds = {"warnAtPct": BATTERY_LOW_PERCENT, "alertAtPct": BATTERY_CRITICAL_PERCENT}
        crossings.append(Crossing(Crossed.BATTERY, level, {"batteryPct": percent}, thresholds))


def _weigh_clock(now: dict[str, Any], skew_ms: int, crossings: list[Crossing]) -> None:
    off_ms = abs(skew_ms)
    level = "critical" if off_ms > SKEW_ALERT_MS else "warning" if off_ms > SKEW_WARN_MS else ""
    if off_ms <= SKEW_WELL_MS:
        now["clock"] = ""
    elif _RANK[level] > _RANK[now.get("clock", "")]:
        now["clock"] = level
        thresholds = {"warnAtMs": SKEW_WARN_MS, "alertAtMs": SKEW_ALERT_MS}
        crossings.append(Crossing(Crossed.CLOCK, level, {"clockSkewMs": skew_ms}, thresholds))


def _weigh_zone(
    now: dict[str, Any], utc_offset_s: int, zone: Zone, clock_skew_ms: int | None, crossings: list[Crossing]
) -> None:
    """A clock that was read and is right proves that lock and vendor reckon alike, whatever they count with."""
    shift_s = zone.shift_s(utc_offset_s)
    if shift_s == 0 or (clock_skew_ms is not None and abs(clock_skew_ms) <= SKEW_WELL_MS):
        now["zone"] = 0
    elif now.get("zone") != shift_s:
        now["zone"] = shift_s
        metric = {"utcOffsetSeconds": utc_offset_s, "clockSkewMs": shift_s * 1000}
        crossings.append(Crossing(Crossed.ZONE, "critical", metric, {"utcOffsetSeconds": utc_offset_s + shift_s}))


def _weigh_firmware(now: dict[str, Any], firmware: str, minimum: str, crossings: list[Crossing]) -> None:
    if _version(firmware) >= _version(minimum):
        now["firmware"] = ""
    elif not now.get("firmware"):
        now["firmware"] = "info"
        crossings.append(Crossing(Crossed.FIRMWARE, "info", {"firmware": firmware[:64]}, {"minimum": minimum[:64]}))


def _version(text: str) -> tuple[int, ...]:
    """Reads `v6.0.3` as (6, 0, 3); trailing zeros count as nothing, so that 6.5 equals 6.5.0."""
    numbers = [int(number) for number in re.findall(r"\d{1,9}", text)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
