"""A key that ended by time, or by a wrong date, comes back with its booking. Only a person's revoke holds a stay shut."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.stage import House, Stay, World
from tests.support.stage.desk import SYSTEMS, house_by

HELD = "KEY_REVOKED_BY_PERSON"
CARDS = {"kinds": ["rfid_card"], "default_areas": []}
PHONES = {"kinds": ["mobile_app"], "default_areas": []}
GUEST = {"phoneE164": "+93700000001"}

NewHouse = Callable[..., House]


def _short(hotel: House, rooms: list[str], **options: Any) -> Stay:
    now = hotel.world.now
    return hotel.book(rooms, start=now - timedelta(days=1), end=now + timedelta(seconds=30), **options)


def _act(stay: Stay, verb: str, key_id: str, body: dict[str, str] | None = None) -> None:
    answer = stay.house.caller("gm").post(f"/lock/v1/credentials/{key_id}/{verb}", body)
    assert answer.status_code in (200, 202), answer.content
    stay.house.world.settle()


def _live(stay: Stay) -> list[str]:
    known = stay.keys()
    return [key["state"] for key in known if key["state"] not in ("revoked", "failed")]


@pytest.mark.parametrize("vendor", ["ttlock", "mock"])
def test_a_stay_extended_after_its_key_ended_opens_its_door_again(world: World, house: NewHouse, vendor: str) -> None:
    hotel = house({"101": vendor}, shared={"lobby": vendor}, policy={"late_grace_minutes": 0})
    stay = _short(hotel, ["101"])
    stay.collect()
    world.advance(minutes=1)
    assert (stay.key()["state"], stay.opens("101")) == ("revoked", False)
    stay.change(end=world.now + timedelta(days=2))
    assert [stay.opens("101"), stay.opens("lobby")] == [True, True]
    new, old = stay.keys()
    assert (new["state"], new["replaces"], old["replacedBy"]) == ("active", old["id"], new["id"])
    assert _live(stay) == ["active"]
    world.advance(days=1, hours=23)
    assert stay.opens("101")
    world.advance(hours=2)
    assert not stay.opens("101")


def test_a_stay_may_be_extended_again_and_again(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"}, policy={"late_grace_minutes": 0})
    stay = _short(hotel, ["101"])
    for _ in range(3):
        world.advance(hours=2)
        assert _live(stay) == []
        stay.change(end=world.now + timedelta(hours=1))
        assert (stay.opens("101"), _live(stay)) == (True, ["active"])


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy", "mock"])
def test_a_card_that_ended_by_time_is_written_anew_for_the_extended_stay(world: World, house: NewHouse, vendor: str) -> None:
    hotel = house({"101": vendor}, policy=CARDS | {"late_grace_minutes": 0})
    stay = hotel.book(["101"], end=world.now + timedelta(hours=1))
    assert stay.encode() is not None
    world.advance(hours=26)
    assert stay.key()["state"] == "revoked"
    stay.change(end=world.now + timedelta(days=2))
    assert stay.key()["waitingFor"] == "desk"
    assert stay.encode() is not None
    assert stay.opens("101")


def test_a_key_that_was_never_fetched_waits_again_for_the_extended_stay(world: World, house: NewHouse) -> None:
    hotel = house({"101": "salto"}, policy=CARDS | {"late_grace_minutes": 0})
    stay = hotel.book(["101"], end=world.now + timedelta(hours=1))
    world.advance(hours=2)
    assert stay.key()["state"] == "failed"
    stay.change(end=world.now + timedelta(days=1))
    assert (stay.key()["waitingFor"], len(stay.keys())) == ("desk", 2)


@pytest.mark.parametrize("vendor", ["ttlock", "mock"])
def test_a_wrong_date_that_ended_the_key_can_be_corrected(world: World, house: NewHouse, vendor: str) -> None:
    hotel = house({"101": vendor})
    stay = hotel.book(["101"], start=world.now - timedelta(days=3), end=world.now + timedelta(days=3))
    stay.collect()
    stay.change(end=world.now - timedelta(days=2))
    assert (stay.opens("101"), _live(stay)) == (False, [])
    stay.change(end=world.now + timedelta(days=3))
    assert (stay.opens("101"), _live(stay)) == (True, ["active"])


def test_both_keys_of_a_stay_on_two_lock_systems_come_back(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock", "201": "mock"}, policy={"late_grace_minutes": 0})
    stay = _short(hotel, ["101", "201"])
    world.advance(minutes=1)
    assert _live(stay) == []
    stay.change(end=world.now + timedelta(days=1))
    assert [stay.opens("101"), stay.opens("201"), len(_live(stay))] == [True, True, 2]


def test_a_companions_key_comes_back_with_the_stay_and_a_shorter_one_does_not(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"}, policy={"late_grace_minutes": 0})
    stay = hotel.book(["101"], end=world.now + timedelta(hours=3))
    clerk = hotel.caller()
    body = {"reservationId": stay.id, "holderId": "gst_companion"}
    assert clerk.post("/lock/v1/credentials", body).status_code == 202
    until = (world.now + timedelta(hours=1)).isoformat()
    assert clerk.post("/lock/v1/credentials", body | {"holderId": "gst_visitor", "validUntil": until}).status_code == 202
    world.settle()
    assert len(_live(stay)) == 3
    world.advance(hours=4)
    assert _live(stay) == []
    stay.change(end=world.now + timedelta(days=1))
    known = stay.keys()
    holders = [key["holderId"] for key in known if key["state"] == "active"]
    assert sorted(holders) == sorted([f"gst_{stay.id[-8:]}", "gst_companion"])
    world.advance(hours=1)
    assert all(hotel.opens("101", pin) for pin in stay.collect()[-2:])


@pytest.mark.parametrize("how", ["its time", "a wrong date", "its time, and a wrong date later"])
@pytest.mark.parametrize("vendor", ["ttlock", "mock"])
def test_a_companions_key_comes_back_though_a_person_revoked_the_first(
    world: World, house: NewHouse, vendor: str, how: str
) -> None:
    hotel = house({"101": vendor}, policy={"late_grace_minutes": 0})
    stay = hotel.book(["101"], start=world.now - timedelta(days=2), end=world.now + timedelta(hours=3))
    first, body = stay.artifact(), {"reservationId": stay.id, "holderId": "gst_companion"}
    until = (world.now + timedelta(hours=1)).isoformat()
    for more in ({}, {"holderId": "gst_visitor", "validUntil": until}):
        assert hotel.caller().post("/lock/v1/credentials", body | more).status_code == 202
    world.settle()
    _act(stay, "revoke", first.key_id, {"reason": "checkout"})
    if how.startswith("its time"):
        world.advance(hours=4)
    else:
        world.advance(hours=2)
    if how.endswith(("a wrong date", "later")):
        stay.change(end=world.now - timedelta(days=1))
    assert _live(stay) == []
    stay.change(end=world.now + timedelta(days=1))
    known = stay.keys()
    (live,) = (key for key in known if key["state"] == "active")
    assert live["holderId"] == "gst_companion"
    assert (stay.opens("101"), hotel.opens("101", first)) == (True, False)
    _act(stay, "revoke", live["id"], {"reason": "checkout"})
    stay.change(end=world.now + timedelta(days=2))
    assert (stay.opens("101"), _live(stay), stay.told()["warnings"][0]["code"]) == (False, [], HELD)


def test_a_suspended_key_that_ended_by_time_comes_back_suspended(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"}, policy={"late_grace_minutes": 0})
    stay = hotel.book(["101"], end=world.now + timedelta(hours=1))
    stay.collect()
    hotel.caller().post(f"/lock/v1/credentials/{stay.key()['id']}/suspend", {"reason": "manual"})
    world.advance(hours=2)
    stay.change(end=world.now + timedelta(days=1))
    assert (stay.key()["state"], stay.key()["suspendReason"], stay.opens("101")) == ("suspended", "manual", False)
    hotel.caller("front_desk_supervisor").post(f"/lock/v1/credentials/{stay.key()['id']}/unsuspend")
    world.settle()
    assert (stay.key()["state"], stay.opens("101")) == ("active", True)


@pytest.mark.parametrize("vendor", ["ttlock", "mock"])
def test_a_guest_whose_key_was_resumed_is_not_suspended_by_her_next_extension(
    world: World, house: NewHouse, vendor: str
) -> None:
    hotel = house({"101": vendor}, policy={"late_grace_minutes": 0})
    stay = hotel.book(["101"], end=world.now + timedelta(hours=1))
    supervisor = hotel.caller("front_desk_supervisor")
    supervisor.post(f"/lock/v1/credentials/{stay.key()['id']}/suspend", {"reason": "manual"})
    world.advance(hours=2)
    stay.change(end=world.now + timedelta(hours=1))
    assert (stay.key()["state"], stay.opens("101")) == ("suspended", False)
    supervisor.post(f"/lock/v1/credentials/{stay.key()['id']}/unsuspend")
    for _ in range(2):
        world.advance(hours=2)
        stay.change(end=world.now + timedelta(hours=1))
        assert (stay.key()["state"], stay.key()["suspendReason"], stay.opens("101")) == ("active", None, True)


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_resumed_guest_whose_stay_ended_and_goes_on_gets_a_card_that_opens(
    world: World, house: NewHouse, vendor: str
) -> None:
    hotel = house({"101": vendor}, policy=CARDS | {"late_grace_minutes": 0})
    stay = hotel.book(["101"], end=world.now + timedelta(hours=1))
    stay.encode()
    supervisor = hotel.caller("front_desk_supervisor")
    supervisor.post(f"/lock/v1/credentials/{stay.key()['id']}/suspend", {"reason": "manual"})
    for resumed in (True, False):
        world.advance(hours=2)
        stay.change(end=world.now + timedelta(hours=1))
        stay.encode()
        world.settle()
        if resumed:
            assert stay.key()["state"] == "suspended"
            supervisor.post(f"/lock/v1/credentials/{stay.key()['id']}/unsuspend")
            world.settle()
    assert (stay.key()["state"], stay.opens("101")) == ("active", True)


@pytest.mark.parametrize("rooms", [["102"], ["102", "103"]])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_suspended_phone_that_moved_opens_the_new_rooms_once_resumed(
    world: World, house: NewHouse, vendor: str, rooms: list[str]
) -> None:
    hotel = house(dict.fromkeys(("101", "102", "103"), vendor), policy=PHONES)
    stay = hotel.book(["101"], contact=GUEST)
    assert stay.opens("101")
    verbs, supervisor = f"/lock/v1/credentials/{stay.key()['id']}", hotel.caller("front_desk_supervisor")
    assert supervisor.post(f"{verbs}/suspend", {"reason": "manual"}).status_code in (200, 202)
    world.settle()
    stay.change(rooms=rooms)
    assert not any(stay.opens(room) for room in ("101", *rooms))
    assert supervisor.post(f"{verbs}/unsuspend").status_code in (200, 202)
    world.settle()
    assert (stay.key()["state"], stay.opens("101")) == ("active", False)
    assert all(stay.opens(room) for room in rooms)


def test_what_was_paid_after_the_key_ended_does_not_suspend_the_next(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"}, policy={"late_grace_minutes": 0})
    stay = hotel.book(["101"], end=world.now + timedelta(hours=1))
    supervisor = hotel.caller("front_desk_supervisor")
    supervisor.post(f"/lock/v1/credentials/{stay.key()['id']}/suspend", {"reason": "overdue_payment"})
    world.advance(hours=2)
    paid = {"reservationId": stay.id, "paymentStatus": "captured", "capturedAt": world.now.isoformat()}
    hotel.emit("payment.captured", paid)
    stay.change(end=world.now + timedelta(days=1))
    assert (stay.key()["state"], stay.opens("101")) == ("active", True)


def test_a_suspended_guest_stays_so_when_her_house_leaves_and_comes_back(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"})
    stay = hotel.book(["101"])
    _act(stay, "suspend", stay.key()["id"], {"reason": "manual"})
    hotel.emit("tenant.property.deactivated", {"propertyId": hotel.property_id})
    hotel.change_property(active=True)
    stay.change(end=stay.end + timedelta(days=1))
    assert (stay.key()["suspendReason"], stay.opens("101")) == ("manual", False)


def test_a_companions_suspension_is_hers_alone_when_the_stay_is_extended(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"}, policy={"late_grace_minutes": 0})
    stay = hotel.book(["101"], end=world.now + timedelta(hours=1))
    body = {"reservationId": stay.id, "holderId": "gst_companion"}
    assert hotel.caller().post("/lock/v1/credentials", body).status_code == 202
    world.settle()
    known = stay.keys()
    _act(stay, "suspend", next(key["id"] for key in known if key["holderId"] == "gst_companion"), {"reason": "manual"})
    world.advance(hours=2)
    stay.change(end=world.now + timedelta(days=1))
    known = stay.keys()
    states = {key["holderId"]: key["state"] for key in known if key["state"] != "revoked"}
    assert states == {f"gst_{stay.id[-8:]}": "active", "gst_companion": "suspended"}


@pytest.mark.parametrize(("rooms", "which"), [(["201", "101"], "ttlock"), (["101", "201"], "mock")])
def test_of_two_rooms_the_suspended_one_is_so_after_an_extension(
    world: World, house: NewHouse, rooms: list[str], which: str
) -> None:
    hotel = house({"101": "ttlock", "201": "mock"}, policy={"late_grace_minutes": 0})
    stay = hotel.book(rooms, end=world.now + timedelta(hours=1))
    known = stay.keys()
    _act(stay, "suspend", next(key["id"] for key in known if key["vendor"] == which), {"reason": "manual"})
    before = [stay.opens("101"), stay.opens("201")]
    world.advance(hours=2)
    stay.change(end=world.now + timedelta(days=1))
    assert [stay.opens("101"), stay.opens("201")] == before


def test_a_suspended_guest_stays_so_in_each_room_that_her_stay_comes_back_to(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock", "201": "mock"}, policy={"late_grace_minutes": 0})
    stay = hotel.book(["101"], end=world.now + timedelta(hours=1))
    _act(stay, "suspend", stay.key()["id"], {"reason": "manual"})
    world.advance(hours=2)
    stay.change(rooms=["101", "201"], end=world.now + timedelta(days=1))
    assert [stay.opens("101"), stay.opens("201")] == [False, False]
    known = stay.keys()
    for key in known:
        if key["state"] == "suspended":
            _act(stay, "unsuspend", key["id"])
    assert [stay.opens("101"), stay.opens("201")] == [True, True]
    stay.change(end=world.now + timedelta(days=2))
    assert [stay.opens("101"), stay.opens("201")] == [True, True]


def test_a_guest_who_was_resumed_after_a_move_is_not_suspended_once_she_is_back(world: World, house: NewHouse) -> None:
    stay = house({"101": "ttlock", "201": "mock"}, policy={"late_grace_minutes": 0}).book(["101"])
    _act(stay, "suspend", stay.key()["id"], {"reason": "manual"})
    stay.change(rooms=["201"])
    assert not stay.opens("201")
    _act(stay, "unsuspend", stay.key()["id"])
    stay.change(rooms=["101"])
    assert stay.opens("101")
    world.advance(days=3)
    stay.change(end=world.now + timedelta(days=1))
    assert stay.opens("101")


@pytest.mark.parametrize("reason", ["checkout", "security"])
def test_a_persons_revoke_holds_the_stay_shut_and_says_who(world: World, house: NewHouse, reason: str) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock"})
    stay = hotel.book(["101"])
    stay.collect()
    supervisor = hotel.caller("front_desk_supervisor", subject="usr_farida")
    assert supervisor.post(f"/lock/v1/credentials/{stay.key()['id']}/revoke", {"reason": reason}).status_code == 202
    world.settle()
    before = hotel.footprint()
    stay.change(end=world.now + timedelta(days=5))
    stay.change(rooms=["102"])
    assert hotel.footprint() == before
    assert (stay.opens("101"), stay.opens("102"), _live(stay)) == (False, False, [])
    (warning,) = stay.told()["warnings"]
    assert (warning["code"], "usr_farida" in warning["detail"]) == (HELD, True)
    issued = hotel.caller().post("/lock/v1/credentials", {"reservationId": stay.id})
    assert issued.status_code == 202
    world.settle()
    assert (stay.opens("102"), stay.told()["warnings"]) == (True, [])


@pytest.mark.parametrize("is_left", [True, False])
def test_a_persons_revoke_at_a_lock_system_that_the_guest_has_left_is_not_said_of_her_stay(
    world: World, house: NewHouse, is_left: bool
) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock", "201": "mock"})
    stay = hotel.book(["101"])
    supervisor = hotel.caller("front_desk_supervisor", subject="usr_farida")
    assert supervisor.post(f"/lock/v1/credentials/{stay.key()['id']}/revoke", {"reason": "checkout"}).status_code == 202
    world.settle()
    stay.change(rooms=["201"] if is_left else ["102", "201"])
    assert (stay.opens("201"), stay.opens("102"), stay.opens("101")) == (True, False, False)
    assert [warning["code"] for warning in stay.told()["warnings"]] == ([] if is_left else [HELD])


def test_the_stays_page_says_who_revoked_its_key(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"})
    stay = hotel.book(["101"])
    hotel.caller("front_desk_supervisor", subject="usr_farida").post(
        f"/lock/v1/credentials/{stay.key()['id']}/revoke", {"reason": "checkout"}
    )
    world.settle()
    page = hotel.page_of_stay(stay)
    assert (HELD in page, "usr_farida" in page) == (True, True)


def test_a_booking_confirmed_again_gets_a_key_though_a_person_had_revoked_the_last(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock"})
    stay = hotel.book(["101"])
    hotel.caller().post(f"/lock/v1/credentials/{stay.key()['id']}/revoke", {"reason": "checkout"})
    world.settle()
    stay.cancel()
    stay.reinstate()
    assert (stay.opens("101"), stay.told()["warnings"]) == (True, [])


def _suspended_in_two_rooms(house: NewHouse, vendor: str) -> tuple[House, Stay, Any]:
    hotel = house(dict.fromkeys(("101", "102", "103"), vendor), policy=CARDS)
    stay = hotel.book(["101", "102"])
    card = stay.encode()
    assert card is not None
    assert all(hotel.use(room, card) for room in ("101", "102"))
    answer = hotel.caller("gm").post(f"/lock/v1/credentials/{stay.key()['id']}/suspend", {"reason": "manual"})
    assert answer.status_code in (200, 202)
    hotel.world.settle()
    return hotel, stay, card


@pytest.mark.parametrize("rooms", [["102"], ["102", "103"]])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_suspended_card_that_leaves_one_of_two_rooms_opens_the_others_once_resumed(
    world: World, house: NewHouse, vendor: str, rooms: list[str]
) -> None:
    hotel, stay, card = _suspended_in_two_rooms(house, vendor)
    stay.change(rooms=rooms)
    assert (stay.key()["state"], stay.key()["doors"][0]["state"]) == ("suspended", "suspended")
    hotel.caller("gm").post(f"/lock/v1/credentials/{stay.key()['id']}/unsuspend")
    world.settle()
    key = stay.key()
    assert (key["state"], [door["state"] for door in key["doors"]]) == ("active", ["present"] * len(rooms)), key["doors"]
    if "encode" in key["allowedActions"]:  # the card must be written again
        hotel.encode(key["id"])
    assert [room for room in ("101", "102", "103") if hotel.opens(room, card)] == rooms


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_suspended_card_that_moved_waits_for_the_desk_once_resumed(world: World, house: NewHouse, system: str) -> None:
    hotel = house_by(house, system, CARDS)
    stay = hotel.book(["101"])
    stay.encode()
    verbs, supervisor = f"/lock/v1/credentials/{stay.key()['id']}", hotel.caller("front_desk_supervisor")
    assert supervisor.post(f"{verbs}/suspend", {"reason": "manual"}).status_code in (200, 202)
    world.settle()
    stay.change(rooms=["102"])
    assert supervisor.post(f"{verbs}/unsuspend").status_code in (200, 202)
    world.settle()
    assert (stay.key()["waitingFor"], stay.told()["verdict"]["why"]) == ("desk", "waits_for_desk")
    assert not stay.opens("102")
    stay.encode()
    assert (stay.key()["state"], stay.told()["verdict"]["answer"], stay.opens("102")) == ("active", "opens", True)
