"""The plainest stay at every vendor: the guest gets in inside her window and at no other time, and nobody after she has left."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.support.stage import House, World

WITH_PINS = ("ttlock", "mock")


@pytest.mark.parametrize("vendor", WITH_PINS)
def test_a_booked_guest_opens_her_room_until_she_has_left(world: World, house: Callable[..., House], vendor: str) -> None:
    hotel = house({"101": vendor, "102": vendor}, shared={"lobby": vendor})
    stay = hotel.book(["101"], start=world.now + timedelta(hours=1), end=world.now + timedelta(days=1))
    pin = stay.artifact()
    assert pin.kind == "pin_code"
    assert not hotel.opens("101", pin)
    world.advance(hours=1)
    assert [hotel.opens(door, pin) for door in ("101", "lobby", "102")] == [True, True, False]
    stay.check_out()
    assert [hotel.opens(door, pin) for door in ("101", "lobby")] == [False, False]
    assert stay.key()["state"] == "revoked"
    assert [row["subject"].split(".")[-2] for row in hotel.events("credential.")][-1] == "revoked"
    assert world.waiting() == []


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy", "mock"])
def test_a_guest_with_a_card_opens_her_room_once_the_desk_wrote_it(
    world: World, house: Callable[..., House], vendor: str
) -> None:
    hotel = house({"101": vendor, "102": vendor}, policy={"kinds": ["rfid_card"], "default_areas": []})
    stay = hotel.book(["101"])
    assert stay.key()["waitingFor"] == "desk"
    card = stay.encode()
    assert card is not None
    assert [hotel.opens(door, card) for door in ("101", "102")] == [True, False]
    stay.check_out()
    assert stay.key()["state"] == "revoked"
    world.advance(days=3)
    assert not hotel.opens("101", card)


def test_a_desk_of_the_house_writes_a_card(world: World, house: Callable[..., House]) -> None:
    hotel = house({"101": "generic-wiegand", "102": "generic-wiegand"}, policy={"kinds": ["rfid_card"], "default_areas": []})
    hotel.seat_desk()
    stay = hotel.book(["101"])
    card = stay.encode()
    assert card is not None
    assert [hotel.opens(door, card) for door in ("101", "102")] == [True, False]
    stay.check_out()
    assert not hotel.opens("101", card)
