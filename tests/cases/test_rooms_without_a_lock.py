"""A room that we have no lock for costs only itself: the rest of the booking is followed, and the hotel is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.stage import House, Stay, World

NO_LOCK, NO_KIND = "ROOM_WITHOUT_LOCK", "NO_KIND_FITS"
CARDS = {"kinds": ["rfid_card"], "default_areas": []}

NewHouse = Callable[..., House]


def _tell_of_new_settings(hotel: House) -> None:
    hotel.emit("tenant.config_updated", {"propertyId": hotel.property_id, "keys": ["lock.devices"]})
    hotel.world.settle()


@pytest.mark.parametrize("vendor", ["ttlock", "mock"])
def test_the_good_room_of_a_booking_opens_though_another_has_no_lock(world: World, house: NewHouse, vendor: str) -> None:
    hotel = house({"101": vendor, "102": vendor})
    stay = hotel.book(["101", "rmu_annex"])
    assert [stay.opens("101"), stay.opens("102")] == [True, False]
    assert hotel.dead_letters() == []
    (alert,) = hotel.alerts(NO_LOCK)
    assert (alert["severity"], alert["stay"]) == ("critical", stay.id)
    assert alert["detail"].startswith("Hotel Silk, Kabul, room 101, rmu_annex: no lock is known for room rmu_annex;")
    assert [(warning["code"], "rmu_annex" in warning["detail"]) for warning in stay.told()["warnings"]] == [(NO_LOCK, True)]
    assert stay.told()["rooms"] == [hotel.rooms["101"], "rmu_annex"]


def test_a_room_without_a_lock_costs_neither_of_two_lock_systems(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock", "201": "assa-abloy"}, policy={"kinds": ["pin_code", "rfid_card"], "default_areas": []})
    stay = hotel.book(["rmu_annex", "201", "101"])
    assert stay.opens("101")
    assert stay.encode() is not None
    assert stay.opens("201")
    assert len(hotel.alerts(NO_LOCK)) == 1


@pytest.mark.parametrize("vendor", ["ttlock", "mock"])
def test_a_change_with_such_a_room_keeps_its_new_end(world: World, house: NewHouse, vendor: str) -> None:
    hotel = house({"101": vendor})
    stay = hotel.book(["101"])
    stay.change(rooms=["101", "rmu_annex"], end=stay.end + timedelta(days=2))
    assert stay.opens("101", stay.end - timedelta(hours=1))
    assert (len(stay.keys()), hotel.dead_letters()) == (1, [])
    stay.change(guest="Zahra A. Ahmadi")
    assert len(hotel.alerts(NO_LOCK)) == 1
    stay.change(rooms=["101"])
    assert stay.told()["warnings"] == []


def test_a_guest_who_is_to_move_to_a_room_without_a_lock_keeps_the_old_one(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock"}, shared={"lobby": "ttlock"})
    stay = hotel.book(["101"])
    stay.change(rooms=["rmu_annex"], end=stay.end + timedelta(days=1))
    assert [stay.opens("101"), stay.opens("lobby"), stay.opens("102")] == [True, True, False]
    assert stay.opens("101", stay.end - timedelta(hours=1))
    assert [warning["code"] for warning in stay.told()["warnings"]] == [NO_LOCK]
    stay.change(rooms=["102"])
    assert [stay.opens("101"), stay.opens("102"), stay.told()["warnings"]] == [False, True, []]


def test_a_stay_whose_only_room_has_no_lock_gets_its_key_once_one_is_known(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock"})
    hotel.change_lock("102", rooms=[])
    stay = hotel.book(["102"])
    assert (stay.keys(), hotel.vendor_calls(), hotel.dead_letters()) == ([], 0, [])
    assert [alert["severity"] for alert in hotel.alerts(NO_LOCK)] == ["critical"]
    hotel.change_lock("102", rooms=[hotel.rooms["102"]])
    _tell_of_new_settings(hotel)
    assert (stay.opens("102"), stay.told()["warnings"]) == (True, [])


def test_an_import_of_locks_gives_a_waiting_stay_its_key(world: World, house: NewHouse, tmp_path: Any) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock"})
    hotel.change_lock("102", rooms=[], areas=["gym"], shared=True)
    stay = hotel.book(["101", "102"])
    pin = stay.artifact()
    assert [hotel.opens("101", pin), hotel.opens("102", pin)] == [True, False]
    table = tmp_path / "doors.csv"
    rows = [f"{hotel.doors['101']},101,101,,no", f"{hotel.doors['102']},102,102,,no"]
    table.write_text("\n".join(["external_id,label,rooms,areas,shared", *rows]) + "\n")
    hotel.command("import_devices", hotel.tenant_id, hotel.installations["ttlock"], table=str(table))
    world.settle()
    assert [stay.opens("101"), stay.opens("102"), stay.told()["warnings"]] == [True, True, []]


def test_a_house_without_any_lock_system_is_told_once_for_all_of_its_stays(world: World, house: NewHouse) -> None:
    hotel = house({})
    first, second = hotel.book(["rmu_one"]), hotel.book(["rmu_two"])
    assert (first.keys(), second.keys(), hotel.dead_letters()) == ([], [], [])
    assert [(alert["severity"], alert["stay"]) for alert in hotel.alerts(NO_LOCK)] == [("warning", "")]
    assert [warning["code"] for warning in first.told()["warnings"]] == [NO_LOCK]


def test_a_lock_that_takes_none_of_the_kinds_costs_only_its_own_room(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock", "201": "assa-abloy"}, policy={"kinds": ["pin_code"], "default_areas": []})
    stay = hotel.book(["101", "201"])
    assert stay.opens("101")
    (alert,) = hotel.alerts(NO_KIND)
    assert (alert["severity"], alert["stay"], "room 201" in alert["detail"]) == ("critical", stay.id, True)
    assert [warning["code"] for warning in stay.told()["warnings"]] == [NO_KIND]
    assert hotel.dead_letters() == []


def test_another_key_policy_gives_what_no_kind_fitted(world: World, house: NewHouse) -> None:
    hotel = house({"101": "ttlock", "201": "assa-abloy"}, policy={"kinds": ["pin_code"], "default_areas": []})
    stay = hotel.book(["101", "201"])
    manager = hotel.console("gm")
    address = f"/console/credentials/keypolicyrow/{hotel.property_id}/change/"
    form = _form_of(manager.get(address).content.decode())
    answer = manager.post(address, form | {"kind_1": "pin_code", "kind_2": "rfid_card", "reason": "cards for the annex"})
    assert answer.status_code == 302
    world.settle()
    assert stay.encode() is not None
    assert [stay.opens("101"), stay.opens("201"), stay.told()["warnings"]] == [True, True, []]


def test_the_keys_of_a_stay_that_ended_leave_no_warning(world: World, house: NewHouse) -> None:
    stay: Stay = house({"101": "ttlock"}).book(["101", "rmu_annex"])
    stay.check_out()
    assert stay.told()["warnings"] == []


def _form_of(page: str) -> dict[str, str]:
    """What a browser would send of the page's form as it stands."""
    import re

    found = dict(re.findall(r'<input type="(?:hidden|number|text)" name="([a-z_0-9]+)" value="([^"]*)"', page))
    for name, body in re.findall(r'<select name="([a-z_0-9]+)".*?>(.*?)</select>', page, re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', body)
        found[name] = chosen[1] if chosen else ""
    found.pop("csrfmiddlewaretoken", None)
    return found
