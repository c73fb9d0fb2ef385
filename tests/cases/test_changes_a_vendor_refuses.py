"""A stay grows longer and the lock system will not change the key: the guest gets in all the same, or somebody is told how."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.support.stage import House, Stay, World

Houses = Callable[..., House]
PIN = {"kinds": ["pin_code"]}
NEVER_USED = -3008


def refuse_changes(hotel: House, vendor: str, door: str = "101") -> None:
    """Let a vendor refuse for good to change the period of what a door holds; what it gives and takes goes through."""
    rules = {
        "ttlock": {"path": "keyboardPwd/change", "errcode": NEVER_USED, "times": None},
        "salto": {"surface": "rest", "method": "PATCH", "path": "keys", "code": "key_ended"},
        "mock": {"profile": "fail=update&error=KEY_ISSUE_FAILED&retriable=0"},
    }
    rule = rules[vendor]
    if vendor == "ttlock":
        rule["lockId"] = int(hotel.doors[door])
    hotel.fault(vendor, rule)


@pytest.mark.parametrize("vendor", ["ttlock", "salto", "mock"])
def test_a_code_that_cannot_be_changed_is_given_again_with_the_same_digits(world: World, house: Houses, vendor: str) -> None:
    hotel = house({"101": vendor, "102": vendor}, policy=PIN | {"default_areas": []})
    stay = hotel.book(["101", "102"])
    pin = stay.artifact()
    refuse_changes(hotel, vendor)
    stay.change(end=stay.end + timedelta(days=2))
    world.advance(days=3)
    assert [hotel.opens(door, pin) for door in ("101", "102")] == [True, True]
    assert len(stay.collect()) == 1
    assert (stay.key()["warnings"], hotel.alerts(), world.waiting()) == ([], [], [])


def test_while_a_code_is_given_again_at_one_door_the_other_opens(world: World, house: Houses) -> None:
    hotel = house({"101": "mock"}, shared={"lobby": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    hotel.fault("mock", {"profile": "fail=update,issue&error=KEY_ISSUE_FAILED&retriable=0"})
    stay.change(end=stay.end + timedelta(days=2))
    assert sorted(hotel.opens(door, pin) for door in ("101", "lobby")) == [False, True]
    assert hotel.opens("101", pin)
    assert "DOORS_MISSING" in [warning["code"] for warning in stay.key()["warnings"]]


def test_a_change_that_cannot_be_made_at_all_is_told_with_the_door_and_its_end(world: World, house: Houses) -> None:
    hotel = house({"101": "mock"}, policy=PIN | {"default_areas": []})
    stay = hotel.book(["101"], end=world.now + timedelta(hours=5))
    pin = stay.artifact()
    hotel.fault("mock", {"profile": "fail=update,revoke&error=KEY_ISSUE_FAILED&retriable=0"})
    stay.change(end=stay.end + timedelta(days=2))
    (alert,) = hotel.alerts()
    assert (alert["code"], alert["severity"], alert["key"]) == ("CHANGE_REFUSED", "critical", pin.key_id)
    assert "101" in alert["detail"]
    assert "Replace" in alert["detail"]
    assert "CHANGE_REFUSED" in [warning["code"] for warning in stay.key()["warnings"]]
    assert hotel.opens("101", pin)
    world.heal()
    assert hotel.caller().post(f"/lock/v1/credentials/{pin.key_id}/retry").status_code in (200, 202)
    world.advance(days=1)
    assert hotel.opens("101", pin)
    assert stay.key()["warnings"] == []


def test_a_phones_key_that_cannot_be_changed_is_given_again(world: World, house: Houses) -> None:
    hotel = house({"101": "assa-abloy"}, policy={"kinds": ["mobile_app"], "default_areas": []})
    stay = hotel.book(["101"])
    phone = stay.artifact()
    hotel.fault(
        "assa-abloy", {"method": "PATCH", "path": "access-grants", "code": "grant_overridden", "status": 409, "times": 1}
    )
    stay.change(end=stay.end + timedelta(days=2))
    world.advance(days=3)
    assert stay.opens("101")
    assert (stay.key()["id"], stay.key()["state"]) == (phone.key_id, "active")


def test_a_shortened_stay_that_the_lock_does_not_learn_of_is_told(world: World, house: Houses) -> None:
    hotel = house({"101": "mock"}, policy=PIN | {"default_areas": []})
    stay = hotel.book(["101"], end=world.now + timedelta(days=4))
    stay.artifact()
    hotel.fault("mock", {"profile": "fail=update,revoke&error=KEY_ISSUE_FAILED&retriable=0"})
    stay.change(end=world.now + timedelta(days=1))
    assert [alert["code"] for alert in hotel.alerts()] == ["CHANGE_REFUSED"]


@pytest.fixture(params=["vostio", "visionline"])
def stay_with_one_door_gone(request: pytest.FixtureRequest, world: World, house: Houses) -> Stay:
    """A guest's phone opens 101; her other room, 103, was taken out of the lock system since. 102 is free."""
    policy = {"kinds": ["mobile_app"], "default_areas": [], "late_grace_minutes": 0}
    hotel = house(dict.fromkeys(("101", "102", "103"), "assa-abloy"), policy=policy)
    if request.param == "visionline":
        hotel.speak_visionline(named=False)
    stay = hotel.book(["101", "103"])
    assert stay.opens("101")
    world.simulator("assa-abloy").post("/doors", {"device": hotel.doors["103"], "removed": True})
    return stay


def act(stay: Stay, verb: str, **body: str) -> None:
    """Let the desk do something with the stay's key."""
    answer = stay.house.caller("gm").post(f"/lock/v1/credentials/{stay.key()['id']}/{verb}", body)
    assert answer.status_code in (200, 202), answer.content
    stay.house.world.settle()


def is_green(stay: Stay) -> bool:
    """Say whether the desk is told that the guest gets in everywhere."""
    return bool(stay.told()["verdict"]["answer"] == "opens")


def test_a_suspension_reaches_the_other_doors_of_a_key_that_names_a_removed_one(stay_with_one_door_gone: Stay) -> None:
    stay = stay_with_one_door_gone
    act(stay, "suspend", reason="fraud_review")
    assert (stay.opens("101"), stay.key()["state"]) == (False, "suspended")
    act(stay, "unsuspend")
    assert (stay.opens("101"), is_green(stay)) == (True, False)
    stay.change(rooms=["102", "103"])
    assert ([stay.opens("101"), stay.opens("102")], is_green(stay)) == ([False, True], False)
    stay.check_out()
    assert not stay.opens("102")


def test_new_dates_reach_the_other_doors_of_a_key_that_names_a_removed_one(stay_with_one_door_gone: Stay) -> None:
    stay = stay_with_one_door_gone
    old, hotel = stay.end, stay.house
    stay.change(end=hotel.world.now + timedelta(hours=2))
    assert [stay.opens("101"), stay.opens("101", at=old - timedelta(hours=1))] == [True, False]
    stay.change(end=old + timedelta(days=2))
    assert [stay.opens("101", at=stay.end - timedelta(hours=1)), is_green(stay)] == [True, False]
    assert {alert["code"] for alert in hotel.alerts()} == {"CHANGE_REFUSED"}
    back = {"doorId": hotel.doors["103"], "name": "103", "online": True}
    hotel.world.simulator("assa-abloy").post("/seed", {"code": hotel.code, "doors": [back]})
    stay.change(end=stay.end + timedelta(days=1))
    assert ([stay.opens("101"), stay.opens("103")], is_green(stay)) == ([True, True], True)


@pytest.mark.parametrize("rooms", [["102", "103"], ["102"]])
def test_a_move_is_made_with_a_key_that_names_a_removed_door(stay_with_one_door_gone: Stay, rooms: list[str]) -> None:
    stay = stay_with_one_door_gone
    stay.change(rooms=rooms)
    assert [stay.opens("101"), stay.opens("102"), is_green(stay)] == [False, True, rooms == ["102"]]
    stay.check_out()
    assert not stay.opens("102")


def test_a_guest_left_with_a_removed_door_keeps_the_other_until_she_leaves(stay_with_one_door_gone: Stay) -> None:
    stay = stay_with_one_door_gone
    stay.change(rooms=["103"])
    assert [stay.opens("101"), is_green(stay)] == [True, False]
    stay.check_out()
    assert not stay.opens("101")
