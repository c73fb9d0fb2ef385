"""Instants on the property's wall clock: half-hour zones, both nights the clocks change, seconds."""

# ruff: noqa: DTZ001 - wall clocks have no zone
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vendors.port.errors import KeyIssueFailed
from vendors.port.types import Window
from vendors.salto.local_time import instant_of, wall_end, wall_start, wall_window

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ["Asia/Kabul", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def test_kabul_is_four_and_a_half_hours_ahead() -> None:
    window = Window(utc(2026, 11, 1, 5, 30), utc(2026, 11, 3, 16, 0))
    assert wall_window(window, ZoneInfo("Asia/Kabul")) == (datetime(2026, 11, 1, 10, 0), datetime(2026, 11, 3, 20, 30))


def test_seconds_are_cut_so_that_the_window_gets_shorter() -> None:
    window = Window(utc(2026, 6, 1, 10, 0, 1), utc(2026, 6, 1, 12, 0, 59))
    assert wall_window(window, ZoneInfo("UTC")) == (datetime(2026, 6, 1, 10, 1), datetime(2026, 6, 1, 12, 0))


def test_a_window_within_a_minute_has_no_card() -> None:
    with pytest.raises(KeyIssueFailed):
        wall_window(Window(utc(2026, 6, 1, 10, 0, 1), utc(2026, 6, 1, 10, 0, 59)), ZoneInfo("UTC"))


def test_the_hour_that_comes_twice_gives_less_rather_than_more() -> None:
    """25 October 2026, 03:00 summer time becomes 02:00: 00:30Z is the first 02:30, 01:30Z the second."""
    first, second = utc(2026, 10, 25, 0, 30), utc(2026, 10, 25, 1, 30)
    assert wall_end(first, BERLIN) == datetime(2026, 10, 25, 1, 59)
    assert wall_end(second, BERLIN) == datetime(2026, 10, 25, 2, 30)
    assert wall_start(first, BERLIN) == datetime(2026, 10, 25, 2, 30)
    assert wall_start(second, BERLIN) == datetime(2026, 10, 25, 3, 0)


def test_the_hour_that_is_left_out_is_no_trouble() -> None:
    assert wall_start(utc(2026, 3, 29, 1, 0), BERLIN) == datetime(2026, 3, 29, 3, 0)
    assert wall_end(utc(2026, 3, 29, 0, 59), BERLIN) == datetime(2026, 3, 29, 1, 59)


def test_a_wall_time_that_comes_twice_is_bounded_by_its_later_instant() -> None:
    assert instant_of(datetime(2026, 10, 25, 2, 30), BERLIN) == utc(2026, 10, 25, 1, 30)


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC)),
    st.integers(1, 3 * 24 * 60),
    st.sampled_from(ZONES),
    st.integers(0, 3 * 24 * 60),
)
def test_a_lock_that_compares_wall_clocks_never_opens_outside_the_window(
    start: datetime, minutes: int, zone_name: str, probe: int
) -> None:
    zone = ZoneInfo(zone_name)
    window = Window(start, start + timedelta(minutes=minutes))
    try:
        starts, ends = wall_window(window, zone)
    except KeyIssueFailed:
        return
    for instant in (start - timedelta(minutes=probe + 1), window.valid_until + timedelta(minutes=probe)):
        wall = instant.astimezone(zone).replace(tzinfo=None)
        assert not starts <= wall < ends
