"""Rows become events in time order, valid by the consumer's own reading, the same every time."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockservice.replay.bookings import Booking, Status, read_file
from lockservice.replay.generate import generate
from lockservice.replay.guests import guest_of
from lockservice.replay.stays import Step, story_of
from lockservice.replay.timeline import Names, endings, message, plan, reservation_id
from sagas.events import envelope
from sagas.events.inbound import ReservationEvent, parse

NAMES = Names("tnt_replay", "ppt_replay", "Europe/Lisbon", lambda number: f"rmu_{number}")
REAL_FILE = Path(__file__).parents[3] / "shared" / "data" / "hotel_bookings_resort.csv.gz"

bookings = st.builds(
    Booking,
    number=st.integers(1, 10_000),
    lead_days=st.integers(0, 800),
    arrival=st.dates(date(2015, 1, 1), date(2017, 12, 31)),
    nights=st.integers(0, 60),
    party=st.integers(0, 10),
    country=st.sampled_from(("PRT", "")),
    reserved_type=st.sampled_from("AD"),
    assigned_type=st.sampled_from("AD"),
    changes=st.integers(0, 20),
    status=st.sampled_from(Status),
    status_date=st.dates(date(2013, 1, 1), date(2018, 12, 31)),
)


def of(**changes: object) -> Booking:
    plain = Booking(
        number=1, lead_days=10, arrival=date(2026, 3, 10), nights=3, party=2, country="PRT", reserved_type="A", assigned_type="A",
        changes=0, status=Status.CHECK_OUT, status_date=date(2026, 3, 13),
    )  # fmt: skip
    return replace(plain, **changes)


@given(bookings)
def test_a_story_begins_confirmed_ends_as_the_row_says_and_goes_forward_in_time_and_version(booking: Booking) -> None:
    story = story_of(booking)
    assert story[0].step is Step.CONFIRMED
    assert [item.version for item in story] == list(range(1, len(story) + 1))
    assert all(one.at + timedelta(minutes=1) <= other.at for one, other in pairwise(story))
    ends = {Status.CANCELED: Step.CANCELLED, Status.NO_SHOW: Step.NO_SHOW, Status.CHECK_OUT: Step.CHECKED_OUT}
    assert story[-1].step is ends[booking.status]
    changes = [item for item in story if item.step is Step.DATES_CHANGED and not item.is_move]
    assert len(changes) == booking.changes
    assert sum(item.is_move for item in story) <= int(booking.is_moved)
    assert (story[-1].span.first, story[-1].span.last) == (booking.arrival, booking.departure)
    assert all(item.span.start < item.span.end for item in story)


@given(bookings)
def test_every_event_of_any_row_is_one_the_consumer_takes(booking: Booking) -> None:
    for item in plan([booking], "Europe/Lisbon").planned:
        sent = message(item, NAMES)
        event = parse(envelope.decode(sent.body))
        assert isinstance(event, ReservationEvent)
        assert event.is_whole
        assert (event.reservation_id, event.version) == (sent.key, item.happening.version)
        assert event.rooms == (f"rmu_{item.room}",)


def test_a_plain_stay_is_booked_by_lead_time_and_checked_out_on_its_day() -> None:
    first, last = story_of(of())
    assert (first.at.date(), last.at.date()) == (date(2026, 2, 28), date(2026, 3, 13))
    assert (str(first.span.start), str(first.span.end)) == ("2026-03-10 14:00:00", "2026-03-13 11:00:00")
    assert last.at < first.span.end


def test_a_row_without_nights_is_day_use_with_a_window_of_its_own() -> None:
    booking = of(nights=0, lead_days=0, status_date=date(2026, 3, 10))
    first, last = story_of(booking)
    assert (first.span.start.time(), first.span.end.time()) == (time(9), time(18))
    assert first.at < first.span.start < last.at < first.span.end
    (sent, _) = (message(item, NAMES) for item in plan([booking], "Asia/Kabul").planned)
    data = envelope.decode(sent.body).data
    assert (data["validFrom"], data["validUntil"]) == ("2026-03-10T09:00:00.000Z", "2026-03-10T18:00:00.000Z")


def test_another_type_of_room_is_a_move_on_the_day_of_arrival() -> None:
    booking = of(assigned_type="C")
    booked, moved, _ = plan([booking], "UTC").planned
    assert moved.happening.is_move
    assert moved.happening.at.date() == booking.arrival
    assert moved.happening.at < moved.happening.span.start
    assert moved.room != booked.room


def test_a_booking_cancelled_before_it_arrives_is_never_moved() -> None:
    story = story_of(of(assigned_type="C", status=Status.CANCELED, status_date=date(2026, 3, 5)))
    assert [item.step for item in story] == [Step.CONFIRMED, Step.CANCELLED]


def test_a_no_show_is_told_on_the_evening_of_the_arrival() -> None:
    story = story_of(of(status=Status.NO_SHOW, status_date=date(2026, 3, 10)))
    assert str(story[-1].at) == "2026-03-10 22:00:00"


@given(st.lists(bookings, min_size=1, max_size=12, unique_by=lambda booking: booking.number))
def test_the_house_never_has_two_bookings_in_one_room(rows: list[Booking]) -> None:
    """Goes through the events as told and keeps its own book of who holds what."""
    timeline = plan(rows, "UTC")
    holding: dict[int, tuple[int, datetime, datetime]] = {}
    for item in timeline.planned:
        number, span = item.booking.number, item.happening.span
        if item.happening.step in (Step.CANCELLED, Step.CHECKED_OUT):
            holding.pop(number, None)
            continue
        if item.happening.step is Step.NO_SHOW:
            continue
        others = [held for other, held in holding.items() if other != number and held[0] == item.room]
        assert all(end <= span.start or span.held_until <= start for _, start, end in others)
        holding[number] = (item.room, span.start, span.held_until)
    assert timeline.rooms_count <= len(rows) * 2


def test_the_same_rows_give_the_same_bytes_and_no_id_twice() -> None:
    rows = generate(200, 7)
    one, other = ([message(item, NAMES) for item in plan(rows, "Europe/Lisbon").planned] for _ in range(2))
    assert one == other
    ids = Counter(sent.attributes["eventId"] for sent in one)
    assert max(ids.values()) == 1
    assert len({sent.key for sent in one}) == 200


def test_two_equal_rows_are_two_bookings() -> None:
    first, second = of(number=1), of(number=2)
    assert reservation_id(first) != reservation_id(second)


def test_a_group_holds_one_hour_and_no_booking_twice() -> None:
    timeline = plan(generate(300, 3), "Europe/Lisbon")
    groups = list(timeline.hours())
    assert [item for group in groups for item in group] == list(timeline.planned)
    for group in groups:
        assert len({item.at.replace(minute=0) for item in group}) == 1
        assert len({item.booking.number for item in group}) == len(group)


def test_each_booking_ends_with_its_last_event() -> None:
    rows = generate(100, 5)
    by_booking: dict[str, int] = defaultdict(int)
    timeline = plan(rows, "Europe/Lisbon")
    for item in timeline.planned:
        by_booking[reservation_id(item.booking)] += 1
    assert {key: ending.version for key, ending in endings(timeline).items()} == dict(by_booking)


def test_guests_write_in_three_scripts_and_stay_who_they_are() -> None:
    digests = [booking.digest for booking in generate(300, 2)]
    names = [guest_of(digest, "gst_1") for digest in digests]
    assert names == [guest_of(digest, "gst_1") for digest in digests]
    scripts = {"latin" if guest.name[0] < "ʰ" else "cyrillic" if guest.name[0] < "\u0530" else "arabic" for guest in names}
    assert scripts == {"latin", "cyrillic", "arabic"}
    assert {guest.locale for guest in names} == {"en", "prs", "ps", "tg", "ru"}


@pytest.mark.skipif(not REAL_FILE.exists(), reason="the public bookings file is not on this machine")
def test_the_first_two_thousand_real_rows_need_144_rooms_and_tell_4730_events() -> None:
    timeline = plan(read_file(REAL_FILE, 2000), "Europe/Lisbon")
    assert (timeline.bookings_count, len(timeline.planned), timeline.rooms_count) == (2000, 4730, 144)
    steps = Counter(item.happening.step for item in timeline.planned)
    assert (steps[Step.CONFIRMED], steps[Step.CANCELLED], steps[Step.NO_SHOW], steps[Step.CHECKED_OUT]) == (2000, 722, 12, 1266)
