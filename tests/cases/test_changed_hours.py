"""A property's changed hours or zone move the windows of stays given as days; those given as instants stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.support.stage import House, Stay, World

NewHouse = Callable[..., House]


def _tell(hotel: House) -> None:
    hotel.emit("tenant.config_updated", {"propertyId": hotel.property_id, "keys": ["property.hours"]})
    hotel.world.settle()


def _window(stay: Stay) -> tuple[str, str]:
    told = stay.told()
    return told["validFrom"], told["validUntil"]


@pytest.mark.parametrize("vendor", ["ttlock", "mock"])
def test_changed_hours_move_the_key_of_a_stay_given_as_days(world: World, house: NewHouse, vendor: str) -> None:
    hotel = house({"101": vendor}, policy={"late_grace_minutes": 0})
    hotel.change_property(check_in_time="14:00", check_out_time="11:00")
    world.advance_to(hotel.local(2027, 3, 9, 20))
    stay = hotel.book(["101"], checkIn="2027-03-10", checkOut="2027-03-12")
    pin = stay.artifact()
    hotel.change_property(check_in_time="12:00", check_out_time="13:00")
    _tell(hotel)
    world.advance_to(hotel.local(2027, 3, 10, 12, 30))
    assert hotel.opens("101", pin)
    world.advance_to(hotel.local(2027, 3, 12, 12, 30))
    assert hotel.opens("101", pin)
    world.advance_to(hotel.local(2027, 3, 12, 13, 30))
    assert not hotel.opens("101", pin)
    assert len(stay.keys()) == 1
    (updated,) = hotel.events("credential.updated")
    assert {"validFrom", "validUntil"} <= set(updated["data"]["changes"])


def test_a_changed_zone_moves_the_window_of_days_and_leaves_instants(world: World, house: NewHouse) -> None:
    hotel = house({"101": "mock", "102": "mock"}, policy={"late_grace_minutes": 0})
    hotel.change_property(check_in_time="14:00", check_out_time="11:00")
    days = hotel.book(["101"], checkIn="2027-03-10", checkOut="2027-03-12")
    start = hotel.local(2027, 3, 10, 14)
    instants = hotel.book(["102"], start=start, end=start + timedelta(days=2))
    before = _window(instants)
    key = instants.key()["window"]
    hotel.change_property(time_zone="Asia/Dushanbe")
    _tell(hotel)
    assert _window(days) == ("2027-03-10T09:00:00.000Z", "2027-03-12T06:00:00.000Z")
    assert days.key()["window"] == {"validFrom": "2027-03-10T09:00:00.000Z", "validUntil": "2027-03-12T06:00:00.000Z"}
    assert (_window(instants), instants.key()["window"]) == (before, key)


def test_changed_hours_bring_back_a_key_that_the_old_ones_had_ended(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"}, policy={"late_grace_minutes": 0})
    hotel.change_property(check_in_time="14:00", check_out_time="11:00")
    world.advance_to(hotel.local(2027, 3, 10, 15))
    stay = hotel.book(["101"], checkIn="2027-03-10", checkOut="2027-03-11")
    world.advance_to(hotel.local(2027, 3, 11, 11, 30))
    assert stay.key()["state"] == "revoked"
    hotel.change_property(check_out_time="18:00")
    _tell(hotel)
    assert stay.opens("101")


def test_a_stay_that_was_cancelled_or_is_long_over_is_left_alone(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"})
    world.advance_to(hotel.local(2027, 3, 10, 15))
    cancelled = hotel.book(["101"], checkIn="2027-03-10", checkOut="2027-03-12")
    cancelled.cancel()
    over = hotel.book(["101"], checkIn="2027-03-01", checkOut="2027-03-02")
    before, windows = hotel.footprint(), (_window(cancelled), _window(over))
    hotel.change_property(check_in_time="10:00", check_out_time="18:00")
    _tell(hotel)
    assert hotel.footprint() == before
    assert (_window(cancelled), _window(over)) == windows


def test_settings_that_move_no_hours_move_no_key(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"}, zone="Pacific/Apia")
    stay = hotel.book(["101"], checkIn="2027-03-10", checkOut="2027-03-12")
    before = _window(stay)
    _tell(hotel)
    assert _window(stay) == before
