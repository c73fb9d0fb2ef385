"""Bookings that cannot be followed as told: nothing is given or taken by them, and the hotel is told which stay it is about."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.stage import House, Stay, World

STATUS_UNKNOWN, CONFLICT, NOT_READ = "BOOKING_STATUS_UNKNOWN", "BOOKING_CONFLICT", "BOOKING_NOT_READ"
CONFIRMED = "melmastoon.reservation.booking.confirmed.v1"

NewHouse = Callable[..., House]


# -- a status that nobody knows


@pytest.mark.parametrize("subject", ["booking.dates_changed", "booking.confirmed"])
def test_an_unknown_status_does_not_bring_a_cancelled_stay_back(world: World, house: NewHouse, subject: str) -> None:
    hotel = house({"101": "ttlock"})
    stay = hotel.book(["101"])
    stay.collect()
    stay.cancel()
    before = hotel.footprint()
    stay.emit(subject, status="rejected")
    assert hotel.footprint() == before
    assert (stay.told()["status"], stay.told()["version"], stay.opens("101")) == ("cancelled", 2, False)
    (alert,) = hotel.alerts(STATUS_UNKNOWN)
    assert (alert["severity"], alert["stay"]) == ("warning", stay.id)
    assert alert["detail"].startswith("Hotel Silk, Kabul, room 101: version 3 of the booking says a status that is not known")
    assert hotel.dead_letters() == []


def test_an_unknown_status_changes_neither_dates_nor_rooms(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock"})
    stay = hotel.book(["101"])
    before = hotel.footprint()
    stay.change(status="on-hold", rooms=["102"], end=world.now + timedelta(days=9))
    assert hotel.footprint() == before
    assert [stay.opens("101"), stay.opens("102")] == [True, False]
    assert [(row["severity"], row["stay"]) for row in hotel.alerts(STATUS_UNKNOWN)] == [("critical", stay.id)]
    assert [warning["code"] for warning in stay.told()["warnings"]] == [STATUS_UNKNOWN]
    stay.change(status="confirmed")
    assert [stay.opens("101"), stay.opens("102")] == [False, True]
    assert stay.told()["warnings"] == []


def test_a_stay_first_heard_of_with_an_unknown_status_gets_nothing_and_is_named(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"})
    stay = Stay(hotel, "rsv_new")
    stay.emit("booking.confirmed", rooms=["101"], status="waitlisted", guest="Zahra Ahmadi")
    assert (stay.keys(), hotel.footprint()["keys"], hotel.vendor_calls()) == ([], 0, 0)
    (alert,) = hotel.alerts(STATUS_UNKNOWN)
    assert alert["detail"].startswith("Hotel Silk, Kabul, room 101: ")
    assert _guest_on_the_page(hotel, alert["id"], "front_desk") == "Zahra Ahmadi"
    assert _guest_on_the_page(hotel, alert["id"], "support") == "●●●"
    stay.emit("booking.confirmed", version=1, status="confirmed")
    assert stay.opens("101")


@pytest.mark.parametrize("word", ["Confirmed", "CHECKED-IN", "in house", "dates_changed", "modified"])
def test_words_for_a_booking_that_stands_are_understood(world: World, house: NewHouse, word: str) -> None:
    hotel = house({"101": "ttlock"})
    stay = hotel.book(["101"])
    stay.change(status=word, end=world.now + timedelta(days=4))
    assert stay.opens("101", world.now + timedelta(days=3))
    assert hotel.alerts() == []


@pytest.mark.parametrize("word", ["cancelled", "Canceled", "checked-out"])
def test_a_confirmation_whose_own_words_say_it_is_over_gives_no_key(world: World, house: NewHouse, word: str) -> None:
    hotel = house({"101": "ttlock"})
    stay = Stay(hotel, "rsv_over")
    stay.emit("booking.confirmed", rooms=["101"], status=word)
    assert (stay.keys(), hotel.vendor_calls(), hotel.alerts()) == ([], 0, [])


@pytest.mark.parametrize("held_back", ["no_show", "fraud_flagged"])
def test_a_stay_that_has_ended_is_not_begun_again_by_a_word_that_holds_back(
    world: World, house: NewHouse, held_back: str
) -> None:
    hotel = house({"101": "ttlock"})
    stay = hotel.book(["101"])
    stay.collect()
    stay.cancel()
    stay.emit(f"booking.{held_back}", status=held_back)
    world.advance(hours=7)
    assert (stay.opens("101"), len(stay.keys())) == (False, 1)
    stay.reinstate()
    assert stay.opens("101")
    assert len(stay.keys()) == 2


# -- one version with two contents


@pytest.mark.parametrize(
    "other", [{"end": timedelta(days=9)}, {"rooms": ["102"]}, {"guest": "Omid Rahimi"}, {"status": "cancelled"}], ids=str
)
def test_the_same_version_with_other_content_is_told_and_changes_nothing(
    world: World, house: NewHouse, other: dict[str, Any]
) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock"})
    stay = hotel.book(["101"])
    stay.collect()
    before = hotel.footprint()
    if "end" in other:
        other = {"end": world.now + other["end"]}
    for _ in range(2):
        stay.emit("booking.dates_changed", version=1, **other)
    assert hotel.footprint() == before
    assert [stay.opens("101"), stay.opens("102")] == [True, False]
    assert not stay.opens("101", world.now + timedelta(days=5))
    (alert,) = hotel.alerts(CONFLICT)
    assert (alert["severity"], alert["stay"]) == ("warning", stay.id)
    assert "version 1 of the booking came twice with different content" in alert["detail"]
    assert [warning["code"] for warning in stay.told()["warnings"]] == [CONFLICT]


def test_a_cancellation_and_a_change_of_one_version_are_told(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"})
    stay = hotel.book(["101"])
    stay.collect()
    stay.cancel()
    stay.change(version=2, status="confirmed")
    assert (stay.opens("101"), len(hotel.alerts(CONFLICT))) == (False, 1)
    stay.reinstate()
    assert (stay.opens("101"), stay.told()["warnings"]) == (True, [])


def test_the_same_content_again_is_no_conflict(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock"})
    stay = hotel.book(["101", "102"])
    stay.emit("booking.confirmed", version=1)
    stay.emit("booking.confirmed", version=1, rooms=["102", "101"])
    stay.emit("booking.confirmed", version=0, rooms=["101"])
    stay.version = 1
    stay.cancel()
    thin = {name: stay.data()[name] for name in ("reservationId", "propertyId", "version", "status")}
    hotel.emit("booking.cancelled", thin)
    assert (hotel.alerts(), stay.told()["warnings"]) == ([], [])


# -- an event that nobody can read


def test_a_booking_that_cannot_be_read_names_its_stay(world: World, house: NewHouse) -> None:
    hotel = house({"301": "ttlock"})
    stay = Stay(hotel, "rsv_unread")
    stay.emit("booking.confirmed", rooms=["301", "Annex-7"], end=stay.start - timedelta(days=1))
    assert [letter["code"] for letter in hotel.dead_letters()] == ["WINDOW_INVERTED"]
    (alert,) = hotel.alerts(NOT_READ)
    assert (alert["severity"], alert["stay"]) == ("critical", "rsv_unread")
    assert alert["detail"].startswith("Hotel Silk, Kabul, room 301, Annex-7: an event about the booking could not be read")
    assert "her keys do not follow it" in alert["detail"]
    assert _guest_on_the_page(hotel, alert["id"], "front_desk") == "Zahra Ahmadi"
    assert _guest_on_the_page(hotel, alert["id"], "support") == "●●●"
    assert (stay.keys(), hotel.vendor_calls()) == ([], 0)


def test_an_ending_that_cannot_be_read_says_that_the_key_stays(world: World, house: NewHouse) -> None:
    hotel = house({"301": "ttlock"})
    stay = hotel.book(["301"])
    hotel.emit("booking.cancelled", {"reservationId": stay.id, "propertyId": hotel.property_id, "status": "cancelled"})
    (alert,) = hotel.alerts(NOT_READ)
    assert "what it should end stays as it is" in alert["detail"]
    assert alert["detail"].startswith("Hotel Silk, Kabul, room 301: ")
    assert stay.opens("301")


@pytest.mark.parametrize("subject", ["melmastoon.payment.captured.v1", "melmastoon.reservation.checked_in.v1"])
def test_other_events_of_a_stay_that_cannot_be_read_are_told_too(world: World, house: NewHouse, subject: str) -> None:
    hotel = house({"301": "ttlock"})
    stay = hotel.book(["301"])
    hotel.emit(subject, {"reservationId": stay.id})
    (alert,) = hotel.alerts(NOT_READ)
    assert (alert["severity"], alert["stay"], alert["detail"].split(":")[0]) == (
        "warning", stay.id, "Hotel Silk, Kabul, room 301",
    )  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        {"tenantId": "{tenant}", "data": {"reservationId": "rsv_x", "propertyId": "{property}", "rooms": ["301"]}},
        {"tenantId": "{tenant}", "data": {"reservationId": 7, "rooms": ["30\x001", {"a": 1}, "\ud800"], "guest": [1]}},
        {"tenantId": "{tenant}", "data": [1, 2]},
        {"tenantId": "{tenant}"},
    ],
    ids=["named", "nonsense", "a list", "bare"],
)
def test_a_booking_without_a_good_envelope_is_told_to_its_hotel(world: World, house: NewHouse, body: dict[str, Any]) -> None:
    hotel = house({"301": "ttlock"})
    text = json.dumps(body).replace("{tenant}", hotel.tenant_id).replace("{property}", hotel.property_id)
    world.publish(CONFIRMED, "rsv_x", text.encode())
    world.settle()
    (alert,) = hotel.alerts(NOT_READ)
    assert alert["severity"] == "critical"
    assert hotel.vendor_calls() == 0


def test_the_same_unread_message_is_told_once(world: World, house: NewHouse) -> None:
    hotel = house({"301": "ttlock"})
    stay = Stay(hotel, "rsv_unread")
    for _ in range(2):
        stay.emit("booking.confirmed", version=1, event_id="evt_same", rooms=["301"], end=stay.start - timedelta(days=1))
    assert len(hotel.alerts(NOT_READ)) == 1


# -- day use


@pytest.mark.parametrize("vendor", ["ttlock", "mock"])
def test_a_stay_within_one_day_is_that_day_by_the_house_hours(world: World, house: NewHouse, vendor: str) -> None:
    hotel = house({"101": vendor}, policy={"late_grace_minutes": 0})
    hotel.change_property(check_in_time="09:00", check_out_time="18:00")
    day = hotel.local(2027, 3, 10)
    stay = hotel.book(["101"], checkIn="2027-03-10", checkOut="2027-03-10")
    assert hotel.dead_letters() == []
    assert _open_hours(world, hotel, stay, day) == list(range(9, 18))


def test_a_day_use_ends_with_the_day_where_the_house_checks_out_in_the_morning(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"}, policy={"late_grace_minutes": 0})
    hotel.change_property(check_in_time="14:00", check_out_time="11:00")
    stay = hotel.book(["101"], checkIn="2027-03-10", checkOut="2027-03-10")
    assert _open_hours(world, hotel, stay, hotel.local(2027, 3, 10)) == list(range(14, 24))


def test_a_stay_of_nights_can_become_a_day_use(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"}, policy={"late_grace_minutes": 0})
    hotel.change_property(check_in_time="14:00", check_out_time="11:00")
    stay = hotel.book(["101"], checkIn="2027-03-10", checkOut="2027-03-12")
    stay.change(checkOut="2027-03-10")
    assert _open_hours(world, hotel, stay, hotel.local(2027, 3, 10)) == list(range(14, 24))


def _open_hours(world: World, hotel: House, stay: Stay, day: Any) -> list[int]:
    world.advance_to(day)
    pin = stay.artifact()
    return [hour for hour in range(36) if hotel.opens("101", pin, day + timedelta(hours=hour, minutes=30))]


def _guest_on_the_page(hotel: House, alert_id: str, role: str) -> str:
    page = hotel.console(role).get(f"/console/sagas/alert/{alert_id}/change/").content.decode()
    (shown,) = re.findall(r"<dt>Guest</dt><dd>(.*?)</dd>", page)
    return re.sub(r"<[^>]+>", "", shown)
