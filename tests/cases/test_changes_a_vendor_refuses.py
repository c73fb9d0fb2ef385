"""A stay grows longer and the lock system will not change the key: the guest gets in all the same, or somebody is told how."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.support.stage import House, World

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
