"""A guest who has come is no no-show: her key is kept, and somebody is told that booking and door disagree."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.support.stage import House, Stay, World

TOLD = "NO_SHOW_CONTRADICTED"
CARDS = {"kinds": ["rfid_card"], "default_areas": []}

NewHouse = Callable[..., House]


def _arrive_by_door(stay: Stay) -> None:
    assert stay.house.use("101", stay.artifact())
    stay.house.read_logs()


def _arrive_by_check_in(stay: Stay) -> None:
    stay.house.emit("melmastoon.reservation.checked_in.v1", {"reservationId": stay.id, "propertyId": stay.house.property_id})


def _arrive_by_desk(stay: Stay) -> None:
    answer = stay.house.caller().post(f"/lock/v1/reservations/{stay.id}/arrived")
    assert (answer.status_code, answer.json()["arrivedAt"] is not None) == (200, True)
    stay.house.world.settle()


SIGNS = {"door": _arrive_by_door, "check-in": _arrive_by_check_in, "desk": _arrive_by_desk}


def _is_kept_and_told(stay: Stay) -> None:
    stay.house.world.advance(hours=6, minutes=5)
    assert (stay.key()["state"], stay.opens("101")) == ("active", True)
    (alert,) = stay.house.alerts(TOLD)
    assert (alert["severity"], alert["stay"]) == ("warning", stay.id)
    assert alert["detail"].startswith("Hotel Silk, Kabul, room 101: the booking says no-show, but ")
    assert [warning["code"] for warning in stay.told()["warnings"]] == [TOLD]
    assert stay.told()["arrivedAt"] is not None


@pytest.mark.parametrize("sign", SIGNS)
def test_a_guest_who_came_before_the_no_show_keeps_her_key(world: World, house: NewHouse, sign: str) -> None:
    stay = house({"101": "ttlock"}).book(["101"])
    SIGNS[sign](stay)
    stay.no_show()
    assert len(stay.house.alerts(TOLD)) == 1
    _is_kept_and_told(stay)


@pytest.mark.parametrize("sign", SIGNS)
def test_a_guest_who_comes_within_the_delay_keeps_her_key(world: World, house: NewHouse, sign: str) -> None:
    stay = house({"101": "ttlock"}).book(["101"])
    stay.no_show()
    world.advance(hours=3)
    assert stay.house.alerts(TOLD) == []
    SIGNS[sign](stay)
    assert len(stay.house.alerts(TOLD)) == 1
    _is_kept_and_told(stay)


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy", "mock"])
def test_a_guest_for_whom_a_card_was_written_keeps_her_key(world: World, house: NewHouse, vendor: str) -> None:
    stay = house({"101": vendor}, policy=CARDS).book(["101"])
    assert stay.encode() is not None
    stay.no_show()
    _is_kept_and_told(stay)


def test_a_check_in_that_comes_before_its_booking_counts(world: World, house: NewHouse) -> None:
    stay = Stay(house({"101": "ttlock"}), "rsv_early")
    _arrive_by_check_in(stay)
    _arrive_by_check_in(stay)
    stay.emit("booking.confirmed", rooms=["101"])
    stay.no_show()
    _is_kept_and_told(stay)


@pytest.mark.parametrize("sign", ["check-in", "desk"])
def test_a_guest_who_comes_after_her_key_was_suspended_is_told_of(world: World, house: NewHouse, sign: str) -> None:
    stay = house({"101": "ttlock"}).book(["101"])
    stay.collect()
    stay.no_show()
    world.advance(hours=6, minutes=5)
    assert (stay.key()["suspendReason"], stay.opens("101")) == ("no_show", False)
    SIGNS[sign](stay)
    (alert,) = stay.house.alerts(TOLD)
    assert (alert["severity"], alert["key"], stay.key()["state"]) == ("critical", stay.key()["id"], "suspended")
    assert "resume the key" in alert["detail"]
    supervisor = stay.house.caller("front_desk_supervisor")
    assert supervisor.post(f"/lock/v1/credentials/{stay.key()['id']}/unsuspend").status_code == 202
    world.settle()
    assert (stay.key()["state"], stay.opens("101")) == ("active", True)


def test_who_resumes_a_no_shows_key_says_that_the_guest_is_there(world: World, house: NewHouse) -> None:
    stay = house({"101": "ttlock"}).book(["101"])
    stay.collect()
    stay.no_show()
    world.advance(hours=6, minutes=5)
    stay.house.caller("front_desk_supervisor").post(f"/lock/v1/credentials/{stay.key()['id']}/unsuspend")
    world.settle()
    stay.no_show()
    world.advance(hours=6, minutes=5)
    assert (stay.key()["state"], stay.opens("101")) == ("active", True)
    assert [alert["severity"] for alert in stay.house.alerts(TOLD)] == ["warning", "warning"]  # once for each no-show told


def test_who_has_not_come_is_suspended_whoever_else_comes(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock"})
    absent, present = hotel.book(["101"]), hotel.book(["102"])
    absent.collect()
    assert hotel.use("102", present.artifact())
    assert not hotel.use("102", absent.artifact())
    absent.no_show()
    hotel.read_logs()
    world.advance(hours=6, minutes=5)
    assert (absent.key()["suspendReason"], absent.opens("101"), present.opens("102")) == ("no_show", False, True)
    assert hotel.alerts(TOLD) == []
    assert (absent.told()["arrivedAt"], absent.told()["warnings"]) == (None, [])


def test_a_corrected_booking_takes_the_warning_off(world: World, house: NewHouse) -> None:
    stay = house({"101": "ttlock"}).book(["101"])
    _arrive_by_check_in(stay)
    stay.no_show()
    stay.reinstate()
    assert (stay.told()["warnings"], stay.told()["status"]) == ([], "confirmed")
    world.advance(hours=7)
    assert (stay.key()["state"], stay.opens("101")) == ("active", True)


def test_a_sign_of_an_earlier_booking_of_the_stay_does_not_count(world: World, house: NewHouse) -> None:
    stay = house({"101": "ttlock"}).book(["101"])
    _arrive_by_check_in(stay)
    stay.cancel()
    stay.reinstate()
    stay.no_show()
    world.advance(hours=6, minutes=5)
    assert (stay.key()["suspendReason"], stay.opens("101")) == ("no_show", False)


def test_a_clerk_says_on_the_stays_page_that_the_guest_is_there(world: World, house: NewHouse) -> None:
    stay = house({"101": "ttlock"}).book(["101"])
    stay.no_show()
    clerk = stay.house.console("front_desk")
    listed = clerk.get("/console/credentials/reservation/").content.decode()
    (address,) = re.findall(r'href="(/console/credentials/reservation/[0-9]+/change/)"', listed)
    page = clerk.get(address).content.decode()
    assert "The guest is here" in page
    pressed = clerk.post(address.replace("change/", "arrived/"), {"reason": "she stands before me"})
    assert pressed.status_code == 302
    world.settle()
    assert "The guest is here</button>" not in clerk.get(address).content.decode()
    _is_kept_and_told(stay)


def test_an_arrival_is_not_noted_for_strangers_or_for_a_stay_that_ended(world: World, house: NewHouse) -> None:
    stay = house({"101": "ttlock"}).book(["101"])
    nobody = stay.house.caller("booking_app").post(f"/lock/v1/reservations/{stay.id}/arrived")
    assert nobody.status_code == 403
    assert stay.house.caller().post("/lock/v1/reservations/rsv_none/arrived").status_code == 404
    elsewhere = house({"101": "ttlock"}).caller().post(f"/lock/v1/reservations/{stay.id}/arrived")
    assert elsewhere.status_code == 404
    assert stay.told()["arrivedAt"] is None
    stay.check_out()
    ended = stay.house.caller().post(f"/lock/v1/reservations/{stay.id}/arrived")
    assert (ended.status_code, ended.json()["code"]) == (409, "MELMASTOON.LOCK.STAY_ENDED")
    assert stay.told()["arrivedAt"] is None


@pytest.mark.parametrize("room", ["101", "102"])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_no_show_who_is_booked_again_into_a_room_gets_in_with_her_phone(
    world: World, house: NewHouse, vendor: str, room: str
) -> None:
    hotel = house({"101": vendor, "102": vendor}, policy={"kinds": ["mobile_app"], "default_areas": []})
    stay = hotel.book(["101"], contact={"phoneE164": "+93700000001"})
    stay.no_show()
    world.advance(hours=6, minutes=5)
    assert (stay.key()["suspendReason"], stay.opens("101")) == ("no_show", False)
    stay.change(status="confirmed", rooms=[room])
    assert (stay.key()["state"], stay.told()["verdict"]["answer"]) == ("active", "opens")
    assert {door: stay.opens(door) for door in ("101", "102")} == {"101": room == "101", "102": room == "102"}


@pytest.mark.parametrize("sign", sorted(SIGNS))
@pytest.mark.parametrize("comes", ["before the move", "after the move"])
def test_a_room_whose_guest_came_in_spite_of_a_no_show_is_not_kept_for_who_moves_out(
    world: World, house: NewHouse, comes: str, sign: str
) -> None:
    hotel = house({"101": "salto", "201": "mock"}, policy={"kinds": ["pin_code"], "default_areas": []})
    absent = hotel.book(["101"])
    absent.no_show()
    guest = hotel.book(["101"])
    pin = guest.artifact()
    world.hang_up("mock")
    if comes == "before the move":
        SIGNS[sign](absent)
    guest.change(rooms=["201"])
    if comes == "after the move":
        assert hotel.opens("101", pin)
        SIGNS[sign](absent)
    assert absent.opens("101")
    assert not hotel.opens("101", pin)
    assert [alert["severity"] for alert in hotel.alerts("ROOM_MOVE_UNFINISHED")] == ["critical"]
