"""Edges of time and number at every vendor: zones of half hours, both nights on which clocks change, midnight, thirty-three rooms.

What is asked of time: outside its window a key never opens, whatever clock the lock keeps; well inside it always does.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.vendors.asking import all_done, answered, enlarged, issue, meta
from tests.vendors.site import Site, handle_for, request_for, stay
from vendors.port.errors import KeyIssueFailed
from vendors.port.types import CredentialKind, RevokeReason, SuspendReason, UpdateInput, Window

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
SURE = timedelta(minutes=90)
"""This far inside a window a key must open, on a night with one hour twice or not at all as on any other."""

NIGHTS = {
    "half an hour: Kabul, over midnight": ("Asia/Kabul", "2027-01-10T22:30", "2027-01-11T01:30"),
    "half an hour: Kolkata, from midnight": ("Asia/Kolkata", "2027-01-11T00:00", "2027-01-12T11:00"),
    "three quarters: Kathmandu, to midnight": ("Asia/Kathmandu", "2027-01-10T14:00", "2027-01-11T00:00"),
    "west by half an hour: St John's, clocks back": ("America/St_Johns", "2027-11-06T15:00", "2027-11-07T11:00"),
    "clocks forward: Berlin": ("Europe/Berlin", "2027-03-27T15:00", "2027-03-28T11:00"),
    "clocks forward: New York, one hour after it": ("America/New_York", "2027-03-14T03:00", "2027-03-14T06:30"),
    "clocks back: Berlin": ("Europe/Berlin", "2027-10-30T15:00", "2027-10-31T11:00"),
    "clocks back: Berlin, ends before it": ("Europe/Berlin", "2027-10-30T15:00", "2027-10-31T01:30"),
    "the end of a year: Kabul": ("Asia/Kabul", "2026-12-31T20:00", "2027-01-01T11:00"),
    "a leap day: Tehran": ("Asia/Tehran", "2028-02-28T14:00", "2028-03-01T11:00"),
}


def _window(night: str) -> tuple[str, Window]:
    zone, start, end = NIGHTS[night]
    begins, ends = (datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for text in (start, end))
    return zone, Window(begins, ends)


def _opens_where_it_may(site: Site, kind: CredentialKind, value: str, window: Window) -> None:
    door = site.doors[0]
    outside = [window.valid_from - HOUR, window.valid_from - SECOND, window.valid_until + SECOND, window.valid_until + HOUR]
    inside = [window.valid_from + SURE, window.valid_until - SURE]
    assert [site.opens(door, kind, value, at) for at in outside] == [False, False, False, False]
    assert [site.opens(door, kind, value, at) for at in inside] == [True, True]


@pytest.mark.parametrize("night", NIGHTS)
def test_a_key_opens_inside_its_window_and_never_outside_on_any_night(site: Site, kind: CredentialKind, night: str) -> None:
    zone, window = _window(night)
    house = site.in_zone(zone)
    request, result = issue(house, kind, doors=house.doors[:1], window=window, time_zone=zone)
    _opens_where_it_may(house, kind, house.presented(result, request), window)


@pytest.mark.parametrize("offset_h", [0.0, 0.5, 1.0, 1.5])
def test_a_window_that_ends_in_the_hour_that_comes_twice_opens_no_minute_too_long(
    site: Site, kind: CredentialKind, offset_h: float
) -> None:
    begins = datetime(2027, 10, 30, 12, 0, tzinfo=UTC)
    window = Window(begins, datetime(2027, 10, 31, 0, 0, tzinfo=UTC) + timedelta(hours=offset_h))
    house = site.in_zone("Europe/Berlin")
    request, result = issue(house, kind, doors=house.doors[:1], window=window, time_zone="Europe/Berlin")
    value, door = house.presented(result, request), house.doors[0]
    after = [window.valid_until + SECOND + timedelta(minutes=15 * n) for n in range(10)]
    assert [house.opens(door, kind, value, at) for at in after] == [False] * 10
    assert house.opens(door, kind, value, begins + SURE)


@pytest.mark.parametrize("offset_h", [0.0, 0.5, 1.0, 1.5])
def test_a_window_that_begins_in_the_hour_that_comes_twice_opens_no_minute_too_early(
    site: Site, kind: CredentialKind, offset_h: float
) -> None:
    begins = datetime(2027, 10, 31, 0, 0, tzinfo=UTC) + timedelta(hours=offset_h)
    window = Window(begins, datetime(2027, 10, 31, 9, 0, tzinfo=UTC))
    house = site.in_zone("Europe/Berlin")
    request, result = issue(house, kind, doors=house.doors[:1], window=window, time_zone="Europe/Berlin")
    value, door = house.presented(result, request), house.doors[0]
    early = [begins - SECOND - timedelta(minutes=15 * n) for n in range(10)]
    assert [house.opens(door, kind, value, at) for at in early] == [False] * 10
    assert house.opens(door, kind, value, window.valid_until - SURE)


@pytest.mark.parametrize(
    ("begins", "ends"), [("2027-10-30T12:00", "2027-10-31T00:30"), ("2027-10-31T01:30", "2027-10-31T12:00")]
)
def test_a_key_that_rested_opens_no_minute_outside_its_window_where_an_hour_comes_twice(
    site: Site, kind: CredentialKind, begins: str, ends: str
) -> None:
    """Both are 02:30 on the wall: the first one ends there in the hour's first coming, the second begins in its second."""
    window = Window(*(datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (begins, ends)))
    house = site.in_zone("Europe/Berlin")
    request, result = issue(house, kind, doors=house.doors[:1], window=window, time_zone="Europe/Berlin")
    rested = house.port.suspend_credential(handle_for(request, result), SuspendReason.MANUAL, meta())
    woken = house.port.unsuspend_credential(handle_for(request, rested), meta())
    assert all_done(woken)
    value, door, quarter = house.presented(result, request), house.doors[0], timedelta(minutes=15)
    outside = [window.valid_from - SECOND - quarter * n for n in range(10)]
    outside += [window.valid_until + SECOND + quarter * n for n in range(10)]
    assert [house.opens(door, kind, value, at) for at in outside] == [False] * 20
    assert [house.opens(door, kind, value, at) for at in (window.valid_from + SURE, window.valid_until - SURE)] == [True, True]


@pytest.mark.parametrize("offset_h", [0.0, 0.5, 1.0, 1.5])
def test_a_key_asked_for_again_is_the_one_that_was_made_where_its_end_comes_twice(
    site: Site, kind: CredentialKind, offset_h: float
) -> None:
    ends = datetime(2027, 10, 31, 0, 0, tzinfo=UTC) + timedelta(hours=offset_h)
    house = site.in_zone("Europe/Berlin")
    window = Window(ends - 12 * HOUR, ends)
    request, made = issue(house, kind, doors=house.doors[:1], window=window, time_zone="Europe/Berlin")
    before = house.keys_at(house.doors[0])
    again = house.port.issue_credential(replace(request, meta=replace(request.meta, attempt=2)))
    assert [door.ref for door in again.doors] == [door.ref for door in made.doors]
    assert house.keys_at(house.doors[0]) == before


@pytest.mark.parametrize("night", ["clocks forward: Berlin", "clocks back: Berlin", "half an hour: Kabul, over midnight"])
def test_a_stay_that_grows_into_such_a_night_opens_to_its_new_end(site: Site, kind: CredentialKind, night: str) -> None:
    zone, window = _window(night)
    house = site.in_zone(zone)
    before = Window(window.valid_from, window.valid_from + 2 * HOUR)
    request, result = issue(house, kind, doors=house.doors[:1], window=before, time_zone=zone)
    update = UpdateInput(handle_for(request, result, window=window), meta(), time_zone=zone)
    assert all_done(house.port.update_credential(update))
    _opens_where_it_may(house, kind, house.presented(result, request), window)


# --- many doors


@enlarged
def test_thirty_three_rooms_get_one_key_or_a_refusal_without_a_call(site: Site, kind: CredentialKind) -> None:
    house = site.enlarged(33)
    request = request_for(house, kind, window=stay(), rooms=tuple(f"rmu_{n}" for n in range(33)))
    before = house.request_count()
    result, refused = answered(lambda: house.port.issue_credential(request))
    if result is None:
        assert isinstance(refused, KeyIssueFailed)
        assert not refused.retriable
        assert house.request_count() == before
        assert [house.keys_at(door) for door in house.doors] == [0] * 33
        return
    assert all_done(result)
    assert [door.device_id for door in house.doors] == sorted(door.device_id for door in result.doors)
    value = house.presented(result, request)
    assert [house.opens(door, kind, value) for door in house.doors] == [True] * 33
    assert all_done(house.port.revoke_credential(handle_for(request, result), RevokeReason.CHECKOUT, meta()))
    assert [house.keys_at(door) for door in house.doors] == [0] * 33
