"""Lays out a lock's health over time: battery, clock and reach, one strip below the other on one axis of time.

One rule: nothing is drawn that was not read. Between two readings a line is straight, and over
a gap longer than GAP it is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from devices.health_rules import BATTERY_CRITICAL_PERCENT, BATTERY_LOW_PERCENT, SKEW_WARN_MS

WIDTH, LEFT, STRIP, APART, FOOT = 720, 46, 84, 16, 22
REACH = 14
GAP = timedelta(days=2)
"""A lock is looked at at least once in a few hours; over two days nobody knows how it was."""
LEAST_SKEW_S = 360.0
MARKS = 6
CROWDED = 2.5


class ReadingView(Protocol):
    """The part of a reading this module draws."""

    at: datetime
    online: bool | None
    battery_percent: int | None
    clock_skew_ms: int | None


@dataclass(frozen=True, slots=True)
class Line:
    """A horizontal mark: where, what it says, and whether it is a threshold."""

    y: float
    text: str
    is_threshold: bool = False


@dataclass(frozen=True, slots=True)
class Strip:
    """One measure: the box's top, its lines, and its curve as point lists (`x,y x,y`); last is the newest value as people read
    it, empty when nothing was read."""

    top: int
    lines: tuple[Line, ...]
    curves: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]
    last: str


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which the lock was reached, or not."""

    x: float
    width: float
    is_reached: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the axis of time."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """What the template draws."""

    battery: Strip
    clock: Strip
    reach_top: int
    reach: tuple[Span, ...]
    ticks: tuple[Tick, ...]
    left: int
    right: int
    anchor_x: int
    anchor: str
    strip: int = STRIP
    reach_height: int = REACH
    width: int = WIDTH
    height: int = 2 * (STRIP + APART) + REACH + FOOT
    foot_y: int = 2 * (STRIP + APART) + REACH + 16

    @property
    def strips(self) -> tuple[Strip, Strip]:
        """The measures that have a curve."""
        return self.battery, self.clock

    @property
    def across(self) -> int:
        """The width of a strip."""
        return self.right - self.left


@dataclass(frozen=True, slots=True)
class _Axis:
    """The axis of time, in the reading direction."""

    since: datetime
    until: datetime
    mirrored: bool

    def x(self, at: datetime) -> float:
        share = (at - self.since) / (self.until - self.since)
        along = share * (WIDTH - LEFT)
        return round(WIDTH - LEFT - along if self.mirrored else LEFT + along, 1)


def draw(
    readings: Sequence[ReadingView], since: datetime, until: datetime, zone: str, *, mirrored: bool = False
) -> Picture | None:
    """Returns the picture of readings (oldest first) in a span; None when there is none in it. Mirrored for right-to-left."""
    seen = [reading for reading in readings if since <= reading.at <= until]
    if not seen:
        return None
    axis = _Axis(since, until, mirrored)
    left, right = (0, WIDTH - LEFT) if mirrored else (LEFT, WIDTH)
    clock_top = STRIP + APART
    reach_top = 2 * (STRIP + APART)
    return Picture(
        battery=_battery(seen, axis),
        clock=_clock(seen, axis, clock_top),
        reach_top=reach_top,
        reach=tuple(_reach(seen, axis)),
        ticks=tuple(_ticks(axis, zone)),
        left=left,
        right=right,
        anchor_x=WIDTH - LEFT + 6 if mirrored else LEFT - 6,
        anchor="start" if mirrored else "end",
    )


def _battery(seen: Sequence[ReadingView], axis: _Axis) -> Strip:
    def y(percent: float) -> float:
        return round(STRIP - percent / 100 * STRIP, 1)

    points = [(reading.at, float(reading.battery_percent)) for reading in seen if reading.battery_percent is not None]
    lines = (
        Line(y(100), "100 %"),
        Line(y(BATTERY_LOW_PERCENT), f"{BATTERY_LOW_PERCENT} %", is_threshold=True),
        Line(y(BATTERY_CRITICAL_PERCENT), f"{BATTERY_CRITICAL_PERCENT} %", is_threshold=True),
    )
    curves, dots = _curves(points, axis, y, min)
    return Strip(0, lines, curves, dots, f"{points[-1][1]:.0f} %" if points else "")


def _clock(seen: Sequence[ReadingView], axis: _Axis, top: int) -> Strip:
    points = [(reading.at, reading.clock_skew_ms / 1000) for reading in seen if reading.clock_skew_ms is not None]
    most = max([LEAST_SKEW_S, *(abs(value) * 1.1 for _, value in points)])
    warn = SKEW_WARN_MS / 1000

    def y(seconds: float) -> float:
        return round(top + STRIP / 2 - seconds / most * STRIP / 2, 1)

    furthest = max((value for _, value in points), key=abs, default=0.0)
    is_crowded = most > CROWDED * warn  # then the thresholds lie too close to the middle for their names
    lines = [Line(y(0), "0")]
    lines += [Line(y(sign * warn), "" if is_crowded else _minutes(sign * warn), is_threshold=True) for sign in (1, -1)]
    if is_crowded:
        lines.append(Line(y(furthest), _minutes(furthest)))
    curves, dots = _curves(points, axis, y, lambda values: max(values, key=abs))
    return Strip(top, tuple(lines), curves, dots, f"{points[-1][1]:+.0f} s" if points else "")


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:+.0f} min".replace("-", "−")


def _curves(
    points: Sequence[tuple[datetime, float]],
    axis: _Axis,
    y: Callable[[float], float],
    worst: Callable[[list[float]], float],
) -> tuple[tuple[str, ...], tuple[tuple[float, float], ...]]:
    """Joins points to curves, broken over gaps. Of several in one pixel's time the worst is shown; a lone point is a dot."""
    step = (axis.until - axis.since) / (WIDTH - LEFT)
    runs: list[list[tuple[datetime, float]]] = []
    for at, values in _columns(points, step):
        if not runs or at - runs[-1][-1][0] > GAP:
            runs.append([])
        runs[-1].append((at, worst(values)))
    curves = tuple(" ".join(f"{axis.x(at)},{y(value)}" for at, value in run) for run in runs if len(run) > 1)
    dots = tuple((axis.x(run[0][0]), y(run[0][1])) for run in runs if len(run) == 1)
    return curves, dots


def _columns(points: Sequence[tuple[datetime, float]], step: timedelta) -> Iterator[tuple[datetime, list[float]]]:
    start: datetime | None = None
    values: list[float] = []
    for at, value in points:
        if start is not None and at - start < step:
            values.append(value)
            continue
        if start is not None:
            yield start, values
        start, values = at, [value]
    if start is not None:
        yield start, values


def _reach(seen: Sequence[ReadingView], axis: _Axis) -> Iterator[Span]:
    """Spans of equal reach, each up to the next reading; not past a gap."""
    known = [(reading.at, reading.online) for reading in seen if reading.online is not None]
    begin = 0
    for index, (at, online) in enumerate(known):
        is_last = index + 1 == len(known)
        following = axis.until if is_last else known[index + 1][0]
        is_broken = following - at > GAP
        if not is_last and not is_broken and known[index + 1][1] == online:
            continue
        end = at + GAP if is_broken else following
        edges = sorted((axis.x(known[begin][0]), axis.x(end)))
        yield Span(edges[0], max(1.0, round(edges[1] - edges[0], 1)), bool(online))
        begin = index + 1


def _ticks(axis: _Axis, zone: str) -> Iterator[Tick]:
    span = axis.until - axis.since
    form = "%H:%M" if span <= timedelta(days=2) else "%d.%m."
    for number in range(MARKS):
        at = axis.since + span * (number + 0.5) / MARKS
        yield Tick(axis.x(at), at.astimezone(ZoneInfo(zone)).strftime(form))
