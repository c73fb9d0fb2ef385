"""A card is revoked, and its door learns of it only from cards: it is open work until its bound, on every page and in every answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.stage import House, Stay, World
from tests.support.stage.house import Artifact

Houses = Callable[..., House]
CARDS = {"kinds": ["rfid_card"], "default_areas": [], "late_grace_minutes": 0}
LIST = "/console/credentials/keycredential/"


def a_card(world: World, house: Houses, vendor: str) -> tuple[House, Stay, Artifact]:
    """Return a guest with a written card for a door that nobody reaches."""
    hotel = house({"101": vendor}, stand_alone=["101"], policy=CARDS)
    if vendor == "generic-wiegand":
        hotel.seat_desk()
    stay = hotel.book(["101"])
    card = stay.encode()
    assert card is not None
    assert hotel.use("101", card)
    return hotel, stay, card


def a_card_at_a_door_out_of_reach(world: World, house: Houses, product: str) -> tuple[House, Stay, Artifact]:
    """Return a guest with a written card for a door on the network, which was cut off since."""
    hotel = house({"101": "assa-abloy", "102": "assa-abloy"}, policy=CARDS)
    if product == "visionline":
        hotel.speak_visionline(named=True)
    stay = hotel.book(["101"])
    card = stay.encode()
    assert card is not None
    world.control("assa-abloy").set_reach(hotel.doors["101"], is_reachable=False)
    return hotel, stay, card


def revoke(hotel: House, key_id: str) -> None:
    """Revoke a key for security, as a supervisor."""
    answer = hotel.caller("front_desk_supervisor").post(f"/lock/v1/credentials/{key_id}/revoke", {"reason": "security"})
    assert answer.status_code in (200, 202), answer.content
    hotel.world.settle()


def listed(hotel: House, key_id: str) -> tuple[bool, bool]:
    """Say whether the console lists a key among the doors still open, and among those where all doors agree."""
    browser = hotel.console("front_desk_supervisor")
    pages = [browser.get(LIST, {"open": value}) for value in ("1", "0")]
    assert [page.status_code for page in pages] == [200, 200]
    still_open, agree = (key_id in page.content.decode() for page in pages)
    return still_open, agree


def tile(hotel: House) -> str:
    """Return the number that the front page shows for doors still open."""
    page = hotel.console("front_desk_supervisor").get("/console/").content.decode()
    return page.split("?open=1")[1].split("</a>")[0]


def verdict_of(stay: Stay) -> dict[str, Any]:
    """Return what the API says of the stay's only door."""
    (door,) = stay.told()["verdict"]["doors"]
    return dict(door)


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy", "generic-wiegand"])
def test_a_revoked_card_is_a_door_still_open_until_its_bound(world: World, house: Houses, vendor: str) -> None:
    hotel, stay, card = a_card(world, house, vendor)
    key_id = stay.key()["id"]
    assert listed(hotel, key_id) == (False, True)
    revoke(hotel, key_id)
    assert hotel.opens("101", card)
    key = stay.key()
    assert (key["state"], key["propagation"], "retry" in key["allowedActions"]) == ("revoked", "propagating", False)
    assert listed(hotel, key_id) == (True, False)
    door = verdict_of(stay)
    assert (door["answer"], door["why"]) == ("shut", "still_opens")
    assert "still opens" in hotel.page_of_stay(stay)
    bound = datetime.fromisoformat(door["until"])
    world.advance_to(bound + timedelta(minutes=2))
    assert not hotel.opens("101", card)
    assert listed(hotel, key_id) == (False, True)
    assert stay.key()["propagation"] == "confirmed"


def test_a_card_that_a_reached_door_knows_of_is_not_open_any_more(world: World, house: Houses) -> None:
    hotel = house({"101": "assa-abloy"}, policy=CARDS)
    stay = hotel.book(["101"])
    card = stay.encode()
    assert card is not None
    key_id = stay.key()["id"]
    revoke(hotel, key_id)
    assert not hotel.opens("101", card)
    assert listed(hotel, key_id) == (False, True)
    assert verdict_of(stay)["why"] == "key_ended"


@pytest.mark.parametrize("product", ["vostio", "visionline"])
def test_a_networked_door_out_of_reach_has_not_heard_of_a_revocation(world: World, house: Houses, product: str) -> None:
    hotel, stay, card = a_card_at_a_door_out_of_reach(world, house, product)
    key_id = stay.key()["id"]
    revoke(hotel, key_id)
    assert hotel.opens("101", card)
    assert listed(hotel, key_id) == (True, False)
    door = verdict_of(stay)
    assert (door["answer"], door["why"]) == ("shut", "still_opens")
    world.advance_to(datetime.fromisoformat(door["until"]) + timedelta(minutes=2))
    assert not hotel.opens("101", card)
    assert listed(hotel, key_id) == (False, True)


@pytest.mark.parametrize("product", ["vostio", "visionline"])
def test_a_networked_door_out_of_reach_has_not_heard_of_a_suspension(world: World, house: Houses, product: str) -> None:
    hotel, stay, card = a_card_at_a_door_out_of_reach(world, house, product)
    path = f"/lock/v1/credentials/{stay.key()['id']}/suspend"
    assert hotel.caller("front_desk_supervisor").post(path, {"reason": "manual"}).status_code in (200, 202)
    world.settle()
    assert hotel.opens("101", card)
    assert (stay.key()["state"], stay.key()["propagation"]) == ("suspended", "propagating")
    assert [door["isConfirmed"] for door in stay.key()["doors"]] == [False]


@pytest.mark.parametrize("product", ["vostio", "visionline"])
def test_a_networked_door_out_of_reach_that_is_left_is_still_open(world: World, house: Houses, product: str) -> None:
    hotel, stay, card = a_card_at_a_door_out_of_reach(world, house, product)
    stay.change(rooms=["102"])
    assert hotel.opens("101", card)
    assert listed(hotel, stay.key()["id"]) == (True, False)


@pytest.mark.parametrize("kind", ["rfid_card", "mobile_app"])
def test_a_networked_door_out_of_reach_learns_of_a_gained_room_from_the_card_or_phone(
    world: World, house: Houses, kind: str
) -> None:
    hotel = house({"101": "assa-abloy", "102": "assa-abloy"}, policy=CARDS | {"kinds": [kind]})
    stay = hotel.book(["101"], contact={"phoneE164": "+93700000001"})
    card = stay.encode() if kind == "rfid_card" else None
    world.control("assa-abloy").set_reach(hotel.doors["102"], is_reachable=False)
    stay.change(rooms=["101", "102"])
    if card is not None:
        assert [warning["code"] for warning in stay.key()["warnings"]] == ["CARD_MUST_BE_UPDATED"]
        assert [stay.opens(room) for room in ("101", "102")] == [True, False]
        hotel.encode(stay.key()["id"])
    assert [stay.opens(room) for room in ("101", "102")] == [True, True]


def test_the_front_page_counts_a_card_that_cannot_be_taken_back(world: World, house: Houses) -> None:
    hotel, stay, _ = a_card(world, house, "salto")
    before = tile(hotel)
    revoke(hotel, stay.key()["id"])
    assert tile(hotel) != before
