"""A Visionline server in the house, in either shape in which it tells of cards and doors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.stage import House, World

Houses = Callable[..., House]
CARDS = {"kinds": ["rfid_card"], "default_areas": []}
PHONES = {"kinds": ["mobile_app"], "default_areas": []}
SHAPES = pytest.mark.parametrize("named", [False, True], ids=["by id", "by name"])


def on_visionline(house: Houses, *, named: bool, policy: dict[str, list[str]]) -> House:
    """Put up two rooms on a Visionline server."""
    hotel = house({"101": "assa-abloy", "102": "assa-abloy"}, policy=policy)
    hotel.speak_visionline(named=named)
    return hotel


def add_door(hotel: House, name: str, kind: str) -> None:
    """Let somebody put up a door at the vendor's own program."""
    number = f"{hotel.code}-{name}"
    hotel.world.simulator("assa-abloy").post(
        "/seed", {"code": hotel.code, "doors": [{"doorId": number, "name": name, "type": kind}]}
    )


@SHAPES
def test_a_visionline_guests_card_opens_until_she_has_left(world: World, house: Houses, named: bool) -> None:
    hotel = on_visionline(house, named=named, policy=CARDS)
    stay = hotel.book(["101"])
    card = stay.encode()
    assert card is not None
    assert (hotel.use("101", card), hotel.use("102", card)) == (True, False)
    stay.check_out()
    assert not hotel.use("101", card)


@SHAPES
def test_a_card_that_visionline_shows_as_overridden_is_told(world: World, house: Houses, named: bool) -> None:
    hotel = on_visionline(house, named=named, policy=CARDS)
    stay = hotel.book(["101"])
    card = stay.encode()
    assert card is not None
    assert hotel.use("101", card)
    hotel.walk_in("101")
    assert not hotel.use("101", card)
    hotel.reconcile()
    alerts = hotel.alerts("DRIFT_KEY_MISSING")
    assert [(alert["severity"], alert["key"]) for alert in alerts] == [("critical", stay.key()["id"])]
    assert "differs" in {door["why"] for door in stay.told()["verdict"]["doors"]}


@SHAPES
def test_a_phone_that_visionline_shows_as_overridden_gets_in_again(world: World, house: Houses, named: bool) -> None:
    hotel = on_visionline(house, named=named, policy=PHONES)
    stay = hotel.book(["101"])
    assert stay.opens("101")
    walk_in = hotel.walk_in("101")
    assert not stay.opens("101")
    hotel.reconcile()
    assert [alert["severity"] for alert in hotel.alerts("DRIFT_KEY_MISSING")] == ["critical"]
    assert (stay.opens("101"), hotel.use("101", walk_in)) == (True, True)


@SHAPES
def test_a_card_written_over_for_another_guest_is_told(world: World, house: Houses, named: bool) -> None:
    hotel = on_visionline(house, named=named, policy=CARDS)
    stay = hotel.book(["101"])
    card = stay.encode()
    assert card is not None
    world.simulator("assa-abloy").post("/overwrite", {"device": hotel.doors["102"], "serial": card.value})
    assert not hotel.opens("101", card)
    hotel.reconcile()
    assert [alert["key"] for alert in hotel.alerts("DRIFT_KEY_MISSING")] == [stay.key()["id"]]


@SHAPES
def test_a_door_of_unknown_type_is_refused_by_name_and_the_others_come(world: World, house: Houses, named: bool) -> None:
    hotel = on_visionline(house, named=named, policy=CARDS)
    add_door(hotel, "10358Z", "77")
    add_door(hotel, "Gym", "common")
    before = hotel.footprint()
    lines = hotel.command("import_devices", hotel.tenant_id, hotel.installations["assa-abloy"]).splitlines()
    (refused,) = [line for line in lines if line.startswith("refused")]
    assert "10358Z" in refused
    assert "77" in refused
    assert len([line for line in lines if line.startswith(("same", "changed"))]) == 2
    assert [line.split()[1] for line in lines if line.startswith("unmapped")] == [
        "common:Gym" if named else f"common:{hotel.code}-Gym"
    ]
    assert hotel.footprint() == before | {"vendor calls": hotel.vendor_calls()}
    assert "new" not in {line.split()[0] for line in lines[:-2]}


def test_a_vostio_door_of_unknown_type_is_refused_by_name(world: World, house: Houses) -> None:
    hotel = house({"101": "assa-abloy"}, policy=CARDS)
    add_door(hotel, "101 annex", "SaunaDoor")
    lines = hotel.command("import_devices", hotel.tenant_id, hotel.installations["assa-abloy"]).splitlines()
    assert [line for line in lines if line.startswith("refused") and "101 annex" in line and "SaunaDoor" in line]
    assert not [line for line in lines if line.startswith("new")]
