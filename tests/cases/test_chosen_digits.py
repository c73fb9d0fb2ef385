"""Digits that the desk chooses are the ones that open, whatever was under way at the doors meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.stage import House, World

Houses = Callable[..., House]
PIN = {"kinds": ["pin_code"], "default_areas": []}


@pytest.mark.parametrize("vendor", ["mock", "ttlock", "salto"])
@pytest.mark.parametrize("rooms", [["101"], ["102", "103"]], ids=["moved", "stayed"])
def test_digits_chosen_while_an_answer_is_lost_are_the_ones_that_open(
    world: World, house: Houses, vendor: str, rooms: list[str]
) -> None:
    hotel = house({"101": vendor, "102": vendor, "103": vendor}, policy=PIN)
    stay = hotel.book(["102", "103"], settle=False)
    world.break_calls(vendor, "lost", None)
    world.work_without_retries()
    if rooms == ["101"]:
        stay.emit("booking.dates_changed", settle=False, rooms=rooms)
        world.work_without_retries()
    assert stay.key()["state"] == "pending"
    path, chosen = f"/lock/v1/credentials/{stay.key()['id']}/pin", {"pin": "827994", "reason": "she asked for these"}
    assert hotel.caller("gm").post(path, chosen).status_code == 202
    world.work_without_retries()
    world.heal()
    world.let_breakers_ask()
    world.settle()
    pin = stay.artifact()
    assert pin.value == "827994"
    assert [hotel.opens(room, pin) for room in ("101", "102", "103")] == [room in rooms for room in ("101", "102", "103")]
