"""A house's hours on the two nights its clocks are set."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import pytest

from lockservice.core.places import Property

DAYS = [
    # zone, day, the house's hour, guests come from, guests are gone by
    ("Asia/Kabul", "2027-01-10", "14:00", "2027-01-10T09:30", "2027-01-10T09:30"),
    ("Europe/Berlin", "2027-03-28", "14:00", "2027-03-28T12:00", "2027-03-28T12:00"),
    ("Europe/Berlin", "2027-03-28", "02:30", "2027-03-28T01:00", "2027-03-28T01:00"),
    ("Europe/Berlin", "2027-03-28", "03:00", "2027-03-28T01:00", "2027-03-28T01:00"),
    ("Europe/Berlin", "2027-10-31", "02:30", "2027-10-31T00:30", "2027-10-31T01:30"),
    ("Europe/Berlin", "2027-10-31", "03:00", "2027-10-31T02:00", "2027-10-31T02:00"),
    ("America/New_York", "2027-11-07", "01:00", "2027-11-07T05:00", "2027-11-07T06:00"),
    ("Australia/Lord_Howe", "2027-10-03", "02:15", "2027-10-02T15:30", "2027-10-02T15:30"),
    ("Australia/Lord_Howe", "2027-04-04", "01:45", "2027-04-03T14:45", "2027-04-03T15:15"),
    ("Africa/Cairo", "2027-04-30", "00:30", "2027-04-29T22:00", "2027-04-29T22:00"),
]


@pytest.mark.parametrize(("zone", "day", "hour", "come", "gone"), DAYS)
def test_guests_come_when_the_clock_first_shows_the_hour_and_are_gone_when_it_last_does(
    zone: str, day: str, hour: str, come: str, gone: str
) -> None:
    house = Property(time_zone=zone, check_in_time=time.fromisoformat(hour), check_out_time=time.fromisoformat(hour))
    told = (house.arrival(date.fromisoformat(day)), house.departure(date.fromisoformat(day)))
    assert told == tuple(datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (come, gone))
