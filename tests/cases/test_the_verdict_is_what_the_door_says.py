"""The verdict of a stay is green only where its guest is known to get in; *Tonight*, the stay's page and the API say the same.

Each test asks the door first, and then what is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.support.stage import House, Stay, World
from tests.support.stage.faults import Fault, break_calls

GREEN = "gets in"


@pytest.fixture
def hotel(house: Callable[..., House]) -> House:
    return house({"101": "ttlock", "103": "ttlock"}, shared={"lobby": "ttlock"})


def _told(stay: Stay) -> tuple[str, str]:
    """The API's verdict, once it is sure that both pages say the same."""
    found = stay.told()["verdict"]
    is_green = found["answer"] == "opens"
    browser = stay.house.console("front_desk_supervisor")
    page = browser.get("/console/").content.decode()
    rows = [row for row in re.findall(r"<tr>.*?</tr>", page, re.DOTALL) if stay.guest in row]
    assert [GREEN in row for row in rows] == [is_green] * len(rows)
    link = re.search(r'href="(/console/credentials/reservation/[^"]+)"', rows[0]) if rows else None
    if link is not None:
        headline = browser.get(link.group(1)).content.decode().partition("Does she get in?")[0]
        assert (GREEN in headline) == is_green
    return found["answer"], found["why"]


def _doors(stay: Stay) -> dict[str, tuple[str, str]]:
    return {door["label"]: (door["answer"], door["why"]) for door in stay.told()["verdict"]["doors"]}


def test_a_guest_whose_doors_all_open_is_green(hotel: House) -> None:
    stay = hotel.book(["101"], guest="Amal Haddad")
    assert stay.opens("101")
    assert stay.opens("lobby")
    assert _told(stay) == ("opens", "")
    assert _doors(stay) == {"101": ("opens", ""), "lobby": ("opens", "")}


def test_a_key_moved_to_another_room_does_not_let_the_guest_into_hers(world: World, hotel: House) -> None:
    other = hotel.book(["101"], guest="Rana Aziz")
    stay = hotel.book(["103"], guest="Amal Haddad")
    path = f"/lock/v1/credentials/{stay.key()['id']}"
    assert hotel.caller().patch(path, {"rooms": [hotel.rooms["101"]]}).status_code in (200, 202)
    world.settle()
    assert not stay.opens("103")
    assert _told(stay) == ("shut", "other_room")
    assert _told(other) == ("doubt", "occupied")


def test_a_lock_four_hours_behind_is_green_on_nobodys_verdict(world: World, hotel: House) -> None:
    stay = hotel.book(["101"], start=world.now - timedelta(minutes=30), guest="Amal Haddad")
    world.control("ttlock").set_door_clock(hotel.doors["101"], -4 * 3600)
    assert not stay.opens("101")
    hotel.poll_health()
    assert _told(stay)[0] in ("shut", "doubt")
    assert _doors(stay)["101"][1] == "clock_off"
    assert _doors(stay)["lobby"] == ("opens", "")


LIMITS = {"calls_per_minute": 1000}
"""The poll asks no lock once a lane has used up its minute."""


@pytest.mark.parametrize("order", [("101", "lobby"), ("lobby", "101")], ids="-".join)
@pytest.mark.parametrize("vendor", ["ttlock", "mock"])
def test_locks_whose_clocks_come_right_one_after_the_other_open_again_each(
    world: World, house: Callable[..., House], vendor: str, order: tuple[str, str]
) -> None:
    hotel = house({"101": vendor}, shared={"lobby": vendor}, policy={"kinds": ["pin_code"]}, limits=LIMITS)
    for door, hours in (("101", -4), ("lobby", 4)):
        world.control(vendor).set_door_clock(hotel.doors[door], hours * 3600)
    hotel.poll_health()
    stay = hotel.book(["101"], start=world.now - timedelta(hours=1), guest="Amal Haddad")
    stay.collect()
    for door in order:
        world.control(vendor).set_door_clock(hotel.doors[door], 0)
        hotel.poll_health()
    assert [stay.opens("101"), stay.opens("lobby")] == [True, True]
    assert _doors(stay) == {"101": ("opens", ""), "lobby": ("opens", "")}
    assert "CLOCK_SKEW" not in [warning["code"] for warning in stay.key()["warnings"]]


@pytest.mark.parametrize("vendor", ["ttlock", "mock"])
def test_one_lock_whose_clock_is_off_costs_the_other_doors_nothing(
    world: World, house: Callable[..., House], vendor: str
) -> None:
    hotel = house({"101": vendor}, shared={"lobby": vendor}, policy={"kinds": ["pin_code"]}, limits=LIMITS)
    world.control(vendor).set_door_clock(hotel.doors["101"], 4 * 3600)
    hotel.poll_health()
    stay = hotel.book(["101"], start=world.now - timedelta(hours=1), guest="Amal Haddad")
    assert stay.opens("lobby")
    assert _doors(stay)["lobby"] == ("opens", "")
    assert _doors(stay)["101"][1] == "clock_off"
    stay.change(end=stay.end + timedelta(hours=8))
    assert [stay.opens("lobby"), stay.opens("lobby", at=stay.end - timedelta(minutes=5))] == [True, True]
    world.heal()
    hotel.poll_health()
    assert _doors(stay) == {"101": ("opens", ""), "lobby": ("opens", "")}
    assert [stay.opens("101"), stay.opens("lobby")] == [True, True]


@pytest.mark.parametrize("verb", ["issue", "dates", "resume"])
@pytest.mark.parametrize("vendor", ["ttlock", "mock", "salto"])
def test_a_window_that_was_cut_for_a_clock_is_not_green_and_grows_with_the_right_clock(
    world: World, house: Callable[..., House], vendor: str, verb: str
) -> None:
    hotel = house({"101": vendor}, policy={"kinds": ["pin_code"], "default_areas": []}, limits=LIMITS)
    stay = None if verb == "issue" else hotel.book(["101"], start=world.now - timedelta(hours=1), guest="Amal Haddad")
    path = f"/lock/v1/credentials/{stay.key()['id']}" if stay else ""
    if verb == "resume":
        assert hotel.caller().post(f"{path}/suspend", {"reason": "manual"}).status_code == 202
        world.settle()
    world.control(vendor).set_door_clock(hotel.doors["101"], 4 * 3600)
    hotel.poll_health()
    if verb == "resume":
        assert hotel.caller("front_desk_supervisor").post(f"{path}/unsuspend", {}).status_code == 202
        world.settle()
    elif stay is not None:
        stay.change(start=world.now - timedelta(minutes=30))
    else:
        stay = hotel.book(["101"], start=world.now - timedelta(hours=1), guest="Amal Haddad")
    assert stay is not None
    assert _doors(stay)["101"][0] != "opens"
    assert "CLOCK_SKEW" in [warning["code"] for warning in stay.key()["warnings"]]
    world.heal()
    hotel.poll_health()
    assert stay.opens("101")
    assert _doors(stay) == {"101": ("opens", "")}


def test_a_lock_with_a_flat_battery_or_out_of_reach_is_not_green(hotel: House) -> None:
    stay = hotel.book(["101"], guest="Amal Haddad")
    hotel.change_lock("101", battery_percent=8)
    assert _told(stay) == ("doubt", "battery_flat")
    hotel.change_lock("101", battery_percent=80, online=False)
    assert _told(stay) == ("doubt", "out_of_reach")


def test_a_lock_nobody_heard_of_for_a_day_is_not_green(world: World, hotel: House) -> None:
    stay = hotel.book(["101"], guest="Amal Haddad")
    hotel.poll_health()
    assert _told(stay) == ("opens", "")
    world.advance(hours=25)
    assert stay.told()["verdict"]["answer"] == "doubt"
    assert _doors(stay)["101"] == ("doubt", "not_heard_of")


def test_a_guest_who_has_left_needs_nobody(hotel: House) -> None:
    stay = hotel.book(["101"])
    stay.check_out()
    assert not stay.opens("101")
    assert (stay.told()["verdict"]["answer"], stay.told()["verdict"]["why"]) == ("over", "")


def test_a_suspended_key_and_a_revoked_one_are_not_green(world: World, hotel: House) -> None:
    stay = hotel.book(["101"], guest="Amal Haddad")
    path = f"/lock/v1/credentials/{stay.key()['id']}"
    hotel.caller().post(f"{path}/suspend", {"reason": "manual"})
    world.settle()
    assert _told(stay) == ("shut", "suspended")
    hotel.caller().post(f"{path}/revoke", {"reason": "checkout"})
    world.settle()
    assert not stay.opens("101")
    assert _told(stay) == ("shut", "key_ended")


def test_a_card_that_waits_at_the_desk_is_coming_and_then_green(house: Callable[..., House]) -> None:
    hotel = house({"101": "salto"}, policy={"kinds": ["rfid_card"], "default_areas": []})
    stay = hotel.book(["101"], guest="Amal Haddad")
    assert _told(stay) == ("coming", "waits_for_desk")
    card = stay.encode()
    assert card is not None
    assert hotel.opens("101", card)
    assert _told(stay) == ("opens", "")


def test_a_dead_vendor_is_not_green_while_its_doors_are_not_known(world: World, hotel: House) -> None:
    break_calls(world, "ttlock", Fault.ERROR)
    stay = hotel.book(["101"], settle=False, guest="Amal Haddad")
    world.work_without_retries()
    assert not any(hotel.held("101"))
    assert _told(stay)[0] != "opens"
    world.heal()
    world.settle()
    assert stay.opens("101")
    assert _told(stay) == ("opens", "")


def test_a_stay_shortened_at_the_door_is_not_green(world: World, hotel: House) -> None:
    stay = hotel.book(["101"], guest="Amal Haddad")
    path = f"/lock/v1/credentials/{stay.key()['id']}"
    until = (world.now + timedelta(hours=3)).isoformat()
    assert hotel.caller().patch(path, {"validUntil": until}).status_code in (200, 202)
    world.settle()
    assert not stay.opens("101", world.now + timedelta(hours=4))
    assert _told(stay) == ("doubt", "ends_early")
