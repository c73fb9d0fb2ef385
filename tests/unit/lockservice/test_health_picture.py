"""The picture of a lock's health: where curves and spans lie, where nothing is drawn, and that it is mirrored for right-to-left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lockservice.console import health_picture
from lockservice.console.health_picture import LEFT, STRIP, WIDTH, Picture, draw

UNTIL = datetime(2026, 5, 11, tzinfo=UTC)
SINCE = UNTIL - timedelta(days=10)
DAY = timedelta(days=1)


@dataclass
class Reading:
    at: datetime
    online: bool | None = None
    battery_percent: int | None = None
    clock_skew_ms: int | None = None


def _draw(*readings: Reading, mirrored: bool = False) -> Picture:
    found = draw(readings, SINCE, UNTIL, "Asia/Kabul", mirrored=mirrored)
    assert found is not None
    return found


def test_without_a_reading_in_the_span_there_is_no_picture() -> None:
    assert draw([], SINCE, UNTIL, "UTC") is None
    assert draw([Reading(SINCE - DAY, battery_percent=50)], SINCE, UNTIL, "UTC") is None


def test_a_battery_that_runs_down_is_one_line_from_its_level_to_its_level() -> None:
    picture = _draw(Reading(SINCE, battery_percent=100), Reading(SINCE + DAY, battery_percent=50))
    assert picture.battery.curves == (f"{LEFT}.0,0.0 {LEFT + (WIDTH - LEFT) / 10},{STRIP / 2}",)
    assert picture.battery.last == "50 %"
    assert picture.clock.curves == ()
    assert picture.clock.last == ""


def test_over_a_gap_nothing_is_drawn_and_a_lone_reading_is_a_dot() -> None:
    days = (0, 1, 5, 8, 9)
    picture = _draw(*(Reading(SINCE + DAY * day, battery_percent=80) for day in days))
    assert len(picture.battery.curves) == 2
    assert picture.battery.dots == ((LEFT + (WIDTH - LEFT) / 2, 16.8),)


def test_of_many_readings_in_one_pixel_the_worst_is_shown() -> None:
    minutes = [Reading(SINCE + timedelta(minutes=n), battery_percent=90 - n, clock_skew_ms=-n * 1000) for n in range(10)]
    picture = _draw(*minutes, Reading(SINCE + DAY, battery_percent=81, clock_skew_ms=0))
    (battery,), (clock,) = picture.battery.curves, picture.clock.curves
    assert battery.split()[0] == f"{LEFT}.0,{round(STRIP - 81 / 100 * STRIP, 1)}"
    assert clock.split()[0].startswith(f"{LEFT}.0,")
    assert float(clock.split()[0].split(",")[1]) > float(clock.split()[1].split(",")[1])  # slow lies below


def test_a_clock_far_off_widens_its_scale_and_stays_inside_the_strip() -> None:
    picture = _draw(Reading(SINCE, clock_skew_ms=7_200_000), Reading(SINCE + DAY, clock_skew_ms=-7_200_000))
    ys = [float(point.split(",")[1]) for point in picture.clock.curves[0].split()]
    assert all(picture.clock.top < y < picture.clock.top + STRIP for y in ys)
    assert picture.clock.last == "-7200 s"


def test_reach_is_spans_of_one_colour_up_to_the_next_reading_and_not_past_a_gap() -> None:
    picture = _draw(
        Reading(SINCE, online=True), Reading(SINCE + DAY, online=True), Reading(SINCE + DAY * 2, online=False),
        Reading(SINCE + DAY * 3, online=True),
    )  # fmt: skip
    tenth = (WIDTH - LEFT) / 10
    assert [(span.is_reached, round(span.x - LEFT), round(span.width)) for span in picture.reach] == [
        (True, 0, round(tenth * 2)), (False, round(tenth * 2), round(tenth)), (True, round(tenth * 3), round(tenth * 2)),
    ]  # fmt: skip


def test_right_to_left_is_the_same_picture_in_a_mirror() -> None:
    readings = [Reading(SINCE, True, 100, 0), Reading(SINCE + DAY, False, 40, 200_000)]
    plain, mirrored = _draw(*readings), _draw(*readings, mirrored=True)
    points = [[p.split(",") for p in picture.battery.curves[0].split()] for picture in (plain, mirrored)]
    for (x, y), (mirrored_x, mirrored_y) in zip(*points, strict=True):
        assert float(mirrored_x) == round(WIDTH - float(x), 1)
        assert mirrored_y == y
    assert (mirrored.left, mirrored.right, mirrored.anchor) == (0, WIDTH - LEFT, "start")


def test_the_axis_names_days_of_the_house_and_hours_in_a_short_span() -> None:
    assert next(tick.text for tick in _draw(Reading(SINCE, True)).ticks) == "02.05."
    short = draw([Reading(UNTIL, True)], UNTIL - DAY, UNTIL, "Asia/Kabul")
    assert short is not None
    assert next(tick.text for tick in short.ticks) == "06:30"  # Kabul is 4 h 30 ahead
    assert len(short.ticks) == health_picture.MARKS
