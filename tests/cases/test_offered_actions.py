"""What a key's `allowedActions` offers works: whatever state the key is in, no offered action answers 409."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.stage import House, Stay, World

NewHouse = Callable[..., House]
Build = Callable[[World, NewHouse], Stay]

PINS: dict[str, Any] = {"policy": {"late_grace_minutes": 0, "default_areas": []}}
CARDS: dict[str, Any] = {"policy": {"kinds": ["rfid_card"], "late_grace_minutes": 0, "default_areas": []}}


def _act(stay: Stay, action: str, key: dict[str, Any]) -> Any:
    """Ask for an action as a manager of the house would, with input that fits."""
    caller = stay.house.caller("gm", subject="usr_boss")
    path = f"/lock/v1/credentials/{key['id']}"
    if action == "update":
        return caller.patch(path, {"validUntil": (stay.house.world.now + timedelta(days=3)).isoformat()})
    if action == "choose_pin":
        digits = "".join(secrets.choice("24679") for _ in range(4)) + "53"
        return caller.post(f"{path}/pin", {"pin": digits, "reason": "she asked for these"})
    body = {"suspend": {"reason": "manual"}, "revoke": {"reason": "checkout"}, "encode": {"cardNumber": "2147483999"}}
    sent = body.get(action)
    if action == "encode" and stay.house.vendors["101"] not in ("ttlock", "mock"):
        sent = None
    return caller.post(f"{path}/{action.replace('_', '-')}", sent)


def _active(world: World, house: NewHouse) -> Stay:
    return house({"101": "ttlock"}, **PINS).book(["101"])


def _arriving(world: World, house: NewHouse) -> Stay:
    hotel = house({"101": "ttlock"}, policy=PINS["policy"] | {"issue_lead_hours": 1})
    return hotel.book(["101"], start=world.now + timedelta(days=1), end=world.now + timedelta(days=2))


def _waiting_for_room(world: World, house: NewHouse) -> Stay:
    return house({"101": "ttlock"}, **PINS).book([])


def _waiting_for_desk(world: World, house: NewHouse) -> Stay:
    return house({"101": "salto"}, **CARDS).book(["101"])


def _waiting_for_id(world: World, house: NewHouse) -> Stay:
    return house({"101": "ttlock"}, policy=PINS["policy"] | {"require_id_verification": True}).book(["101"])


def _at_the_vendor(world: World, house: NewHouse) -> Stay:
    hotel = house({"101": "ttlock"}, **PINS)
    world.hang_up("ttlock")
    stay = hotel.book(["101"], settle=False)
    world.work_without_retries()
    return stay


def _failed(world: World, house: NewHouse) -> Stay:
    hotel = house({"101": "ttlock"}, policy=PINS["policy"] | {"kinds": ["pin_code"]})
    world.control("ttlock").set_reach(hotel.doors["101"], is_reachable=False)
    stay = hotel.book(["101"])
    world.heal()
    assert stay.key()["state"] == "failed"
    return stay


def _failed_and_issued_anew(world: World, house: NewHouse) -> Stay:
    stay = _failed(world, house)
    stay.house.caller().post(f"/lock/v1/credentials/{stay.key()['id']}/retry")
    world.settle()
    return stay


def _failed_and_cancelled(world: World, house: NewHouse) -> Stay:
    stay = _failed(world, house)
    stay.cancel()
    return stay


def _failed_and_over(world: World, house: NewHouse) -> Stay:
    stay = _failed(world, house)
    world.advance(days=4)
    return stay


def _failed_and_without_a_lock(world: World, house: NewHouse) -> Stay:
    stay = _failed(world, house)
    stay.house.change_lock("101", rooms=[])
    stay.house.emit("tenant.config_updated", {"propertyId": stay.house.property_id, "keys": ["locks"]})
    return stay


def _suspended(world: World, house: NewHouse) -> Stay:
    stay = _active(world, house)
    stay.house.caller().post(f"/lock/v1/credentials/{stay.key()['id']}/suspend", {"reason": "manual"})
    world.settle()
    return stay


def _suspended_and_over(world: World, house: NewHouse) -> Stay:
    stay = _suspended(world, house)
    world.stop_clock(stay.end + timedelta(seconds=1))
    return stay


def _active_and_over(world: World, house: NewHouse) -> Stay:
    stay = _active(world, house)
    world.stop_clock(stay.end + timedelta(seconds=1))
    return stay


def _revoked(world: World, house: NewHouse) -> Stay:
    stay = _active(world, house)
    stay.house.caller().post(f"/lock/v1/credentials/{stay.key()['id']}/revoke", {"reason": "checkout"})
    world.settle()
    return stay


def _ended_by_time(world: World, house: NewHouse) -> Stay:
    stay = _active(world, house)
    world.advance(days=3)
    return stay


def _ended_by_time_and_extended(world: World, house: NewHouse) -> Stay:
    stay = _ended_by_time(world, house)
    stay.change(end=world.now + timedelta(days=2))
    return stay


def _revoked_with_an_open_door(world: World, house: NewHouse) -> Stay:
    stay = _active(world, house)
    world.hang_up("ttlock")
    stay.house.caller().post(f"/lock/v1/credentials/{stay.key()['id']}/revoke", {"reason": "checkout"})
    world.work_without_retries()
    return stay


def _active_with_a_door_missing(world: World, house: NewHouse) -> Stay:
    hotel = house({"101": "mock", "102": "mock"}, **PINS)
    stay = hotel.book(["101"])
    world.control("mock").set_reach(hotel.doors["102"], is_reachable=False)
    stay.change(rooms=["101", "102"])
    return stay


def _moving(world: World, house: NewHouse) -> Stay:
    hotel = house({"101": "mock", "102": "mock"}, **PINS)
    stay = hotel.book(["101"])
    world.control("mock").set_reach(hotel.doors["102"], is_reachable=False)
    stay.change(rooms=["102"])
    return stay


def _without_a_lock(world: World, house: NewHouse) -> Stay:
    stay = _active(world, house)
    stay.house.change_lock("101", rooms=[])
    stay.house.emit("tenant.config_updated", {"propertyId": stay.house.property_id, "keys": ["locks"]})
    return stay


def _house_closed(world: World, house: NewHouse) -> Stay:
    stay = _active(world, house)
    stay.house.change_property(active=False)
    return stay


def _under_review(world: World, house: NewHouse) -> Stay:
    stay = _active(world, house)
    stay.emit("booking.fraud_flagged", status="fraud_flagged")
    return stay


def _card(vendor: str) -> Build:
    def build(world: World, house: NewHouse) -> Stay:
        stay = house({"101": vendor, "102": vendor}, **CARDS).book(["101"])
        assert stay.encode() is not None
        return stay

    return build


def _card_to_be_updated(vendor: str) -> Build:
    def build(world: World, house: NewHouse) -> Stay:
        stay = _card(vendor)(world, house)
        stay.change(end=stay.end + timedelta(days=1), rooms=["101", "102"])
        return stay

    return build


STATES: dict[str, Build] = {
    "active": _active,
    "arriving later": _arriving,
    "waiting for a room": _waiting_for_room,
    "waiting for the desk": _waiting_for_desk,
    "waiting for papers": _waiting_for_id,
    "at the vendor": _at_the_vendor,
    "failed": _failed,
    "failed, issued anew": _failed_and_issued_anew,
    "failed, cancelled": _failed_and_cancelled,
    "failed, over": _failed_and_over,
    "failed, lock gone": _failed_and_without_a_lock,
    "suspended": _suspended,
    "suspended, over": _suspended_and_over,
    "active, over": _active_and_over,
    "revoked": _revoked,
    "ended by time": _ended_by_time,
    "ended by time, extended": _ended_by_time_and_extended,
    "revoked, door open": _revoked_with_an_open_door,
    "a door missing": _active_with_a_door_missing,
    "moving": _moving,
    "lock gone": _without_a_lock,
    "house closed": _house_closed,
    "under review": _under_review,
    "salto card": _card("salto"),
    "vostio card": _card("assa-abloy"),
    "salto card to be updated": _card_to_be_updated("salto"),
    "vostio card to be updated": _card_to_be_updated("assa-abloy"),
}
NOTHING = {"revoked", "ended by time", "failed, cancelled", "failed, over", "failed, lock gone"}


@pytest.mark.parametrize("state", STATES)
def test_every_action_that_is_offered_works(world: World, house: NewHouse, state: str) -> None:
    stay = STATES[state](world, house)
    offered = stay.key()["allowedActions"]
    assert bool(offered) is (state not in NOTHING), offered
    for number, action in enumerate(offered):
        if number:  # each in the state as it was built
            world.heal()
            stay = STATES[state](world, house)
        answer = _act(stay, action, stay.key())
        assert answer.status_code in (200, 201, 202), (action, answer.status_code, answer.content)
        world.heal()
        world.settle()


@pytest.mark.parametrize("state", sorted(NOTHING))
def test_what_is_not_offered_is_refused_and_changes_nothing(world: World, house: NewHouse, state: str) -> None:
    stay = STATES[state](world, house)
    before = stay.house.footprint()
    answer = _act(stay, "retry", stay.key())
    assert answer.status_code == 409
    assert stay.house.footprint() == before


@pytest.mark.parametrize("state", ["revoked", "active", "ended by time", "failed, cancelled", "waiting for papers"])
def test_a_keys_page_offers_what_its_callers_are_offered(world: World, house: NewHouse, state: str) -> None:
    stay = STATES[state](world, house)
    key = stay.key()
    page = stay.house.console("gm").get(f"/console/credentials/keycredential/{key['id']}/change/").content.decode()
    shown = set(re.findall(r'action="[^"]*/act/([a-z_]+)/"', page)) - {"confirm", "reveal"}
    assert shown == set(key["allowedActions"])


def test_a_lost_key_is_taken_back_though_nothing_can_take_its_place(world: World, house: NewHouse) -> None:
    stay = _active(world, house)
    pin = stay.artifact()
    stay.house.change_lock("101", rooms=[])
    stay.house.emit("tenant.config_updated", {"propertyId": stay.house.property_id, "keys": ["locks"]})
    assert "replace" not in stay.key()["allowedActions"]
    answer = stay.house.caller().post(f"/lock/v1/credentials/{pin.key_id}/revoke", {"reason": "lost"})
    assert answer.status_code == 202
    world.settle()
    assert (stay.key()["state"], stay.house.opens("101", pin)) == ("revoked", False)
    assert [alert["severity"] for alert in stay.house.alerts("KEY_ISSUE_FAILED")] == ["critical"]


def test_a_repair_starts_the_work_that_nobody_does(world: World, house: NewHouse) -> None:
    stay = _revoked_with_an_open_door(world, house)
    pin = stay.key()["id"]
    stay.house.forget_work()
    world.heal()
    world.settle()
    assert stay.house.held("101") != []
    assert "retry" in stay.key()["allowedActions"]
    assert stay.house.caller().post(f"/lock/v1/credentials/{pin}/retry").status_code == 202
    world.settle()
    assert stay.house.held("101") == []
