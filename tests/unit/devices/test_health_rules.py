"""Each threshold is told once, whatever trembles around it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from devices.health_rules import Crossing, Reading, Source, is_missed, is_offline, weigh, window_by_clocks
from vendors.port.types import Window


def _run(readings: Iterable[Reading], minimum: str = "") -> tuple[dict[str, Any], list[list[tuple[str, str]]]]:
    """Weighs readings one after the other; returns what stands at the end and (what, severity) of each step."""
    standing: dict[str, Any] = {}
    steps = []
    for reading in readings:
        standing, crossings = weigh(standing, reading, minimum)
        steps.append([(item.what.value, item.severity) for item in crossings])
    return standing, steps


def _battery(*percents: int) -> list[list[tuple[str, str]]]:
    return _run(Reading(Source.LIST, battery_percent=percent) for percent in percents)[1]


def _clock(*seconds: float) -> list[list[tuple[str, str]]]:
    return _run(Reading(Source.CHECK, clock_skew_ms=int(s * 1000)) for s in seconds)[1]


def _reach(*readings: tuple[Source, bool]) -> list[list[tuple[str, str]]]:
    return _run(Reading(source, online=online) for source, online in readings)[1]


LOW, EMPTY = [("battery_low", "warning")], [("battery_low", "critical")]
WARN, ALERT = [("clock_skew", "warning")], [("clock_skew", "critical")]
GONE, BACK = [("offline", "warning")], [("online", "info")]


def test_a_battery_is_told_at_twenty_five_and_at_ten_percent() -> None:
    assert _battery(26, 25, 18, 11, 10, 3) == [[], LOW, [], [], EMPTY, []]
    assert _battery(8) == [EMPTY]


def test_a_battery_that_trembles_is_told_once_and_again_after_a_new_one() -> None:
    assert _battery(25, 26, 25, 29, 24) == [LOW, [], [], [], []]
    assert _battery(25, 30, 25) == [LOW, [], LOW]
    assert _battery(9, 12, 9) == [EMPTY, [], []]


def test_a_clock_warns_beyond_three_hundred_seconds_and_alerts_beyond_six_hundred() -> None:
    assert _clock(300, 300.001, 600, 600.001, 1800) == [[], WARN, [], ALERT, []]
    assert _clock(-301, -601) == [WARN, ALERT]


def test_a_clock_that_trembles_is_told_once_and_again_after_it_was_set() -> None:
    assert _clock(301, 299, 301, 241, 305) == [WARN, [], [], [], []]
    assert _clock(612, 500, 612, 240, 301) == [ALERT, [], [], [], WARN]


def test_the_crossing_carries_the_figures_of_the_document() -> None:
    _, found = weigh({}, Reading(Source.CHECK, clock_skew_ms=612_000))
    assert found[0].metric == {"clockSkewMs": 612_000}
    assert found[0].threshold == {"warnAtMs": 300_000, "alertAtMs": 600_000}
    assert isinstance(found[0], Crossing)


def test_a_lock_is_offline_after_two_misses_in_a_row_and_online_at_once() -> None:
    check = Source.CHECK
    assert _reach((check, False), (check, True), (check, False)) == [[], [], []]
    assert _reach((check, False), (check, False), (check, False), (check, True)) == [[], GONE, [], BACK]


def test_the_vendors_list_does_not_outweigh_a_live_check() -> None:
    check, listed = Source.CHECK, Source.LIST
    assert _reach((check, False), (listed, True), (check, False), (listed, True)) == [[], [], GONE, []]
    assert _reach((listed, False), (listed, False), (listed, True)) == [[], GONE, BACK]
    assert _reach((check, False), (check, False), (Source.PUSH, True)) == [[], GONE, BACK]


def test_a_lock_missed_last_time_is_known_as_such() -> None:
    standing, _ = weigh({}, Reading(Source.CHECK, online=False))
    assert (is_missed(standing), is_offline(standing)) == (True, False)
    standing, _ = weigh(standing, Reading(Source.CHECK, online=True))
    assert standing == {}


@pytest.mark.parametrize(
    ("firmware", "old"), [("6.4.9", True), ("v6.5", False), ("6.5.0", False), ("6.10", False), ("5.99.99", True)]
)
def test_firmware_is_compared_number_by_number(firmware: str, old: bool) -> None:
    _, steps = _run([Reading(Source.LIST, firmware=firmware)] * 2, "6.5")
    assert steps == [[("firmware_out_of_date", "info")] if old else [], []]


def test_what_a_reading_does_not_say_changes_nothing() -> None:
    standing, _ = _run([Reading(Source.CHECK, False, 5, 700_000, "1.0")] * 2, "2.0")
    assert weigh(standing, Reading(Source.PUSH), "2.0") == (standing, [])
    assert standing == {
        "battery": "critical", "clock": "critical", "firmware": "info", "missed": 2, "missed_by": "check", "offline": True,
    }  # fmt: skip


START = datetime(2026, 5, 1, 14, tzinfo=UTC)
STAY = Window(START, START + timedelta(days=2))
HALF = 1_800_000


@pytest.mark.parametrize(
    ("skews", "cut_start", "cut_end"),
    [
        ([], 0, 0),
        ([None, 0, 300_000, -300_000], 0, 0),
        ([HALF], 30, 0),
        ([-HALF], 0, 30),
        ([HALF, -HALF, 2 * HALF], 60, 30),
    ],
)
def test_a_window_is_cut_where_a_wrong_clock_would_let_it_reach_too_far(
    skews: list[int | None], cut_start: int, cut_end: int
) -> None:
    given = window_by_clocks(STAY, skews)
    assert given.valid_from - STAY.valid_from == timedelta(minutes=cut_start)
    assert STAY.valid_until - given.valid_until == timedelta(minutes=cut_end)


@pytest.mark.parametrize("skew_ms", [HALF, -HALF])
def test_a_lock_that_is_off_opens_at_no_true_instant_outside_of_the_window(skew_ms: int) -> None:
    given = window_by_clocks(STAY, [skew_ms])
    opens = [
        START + timedelta(minutes=minute)
        for minute in range(-120, 2 * 24 * 60 + 120)
        if given.contains(START + timedelta(minutes=minute, milliseconds=skew_ms))
    ]
    assert all(STAY.contains(instant) for instant in opens)
    assert len(opens) == 2 * 24 * 60 - 30
    assert given.contains(START + timedelta(days=1))  # and after somebody set the clock


def test_a_stay_shorter_than_the_clock_is_off_keeps_its_window() -> None:
    short = Window(START, START + timedelta(minutes=20))
    assert window_by_clocks(short, [HALF]) == short
