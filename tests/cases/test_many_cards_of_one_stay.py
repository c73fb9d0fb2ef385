"""A family wants a card for everyone, and the desk presses the buttons in the worst order: the house goes on all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.stage import House, Stay, World

Houses = Callable[..., House]
CARDS = {"kinds": ["rfid_card"], "default_areas": []}
COMPANIONS = 9


def family_at_the_desk(hotel: House) -> Stay:
    """Book a stay with a card for each of its companions, and press *encode* for all of them, the stay's first key last."""
    stay = hotel.book(["101"])
    first = stay.key()["id"]
    for _ in range(COMPANIONS):
        body = {"reservationId": stay.id, "preferredKinds": ["rfid_card"]}
        assert hotel.caller().post("/lock/v1/credentials", body).status_code in (201, 202)
    hotel.world.settle()
    waiting = [key["id"] for key in stay.keys()]  # noqa: SIM118 - asks the API
    for key_id in [*(key_id for key_id in waiting if key_id != first), first]:
        hotel.encode(key_id, settle=False)
    return stay


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_stays_many_cards_and_the_next_guests_are_all_written(world: World, house: Houses, vendor: str) -> None:
    hotel = house({"101": vendor, "102": vendor}, policy=CARDS)
    with world.retries_shortened(0.01):  # what waits is looked at so often that it would fill every turn of the lane
        family = family_at_the_desk(hotel)
        neighbour = hotel.book(["102"], settle=False)
        world.work_without_retries()
        card = neighbour.encode()
        assert card is not None
        assert hotel.opens("102", card)
        world.settle()
    states = [key["state"] for key in family.keys()]  # noqa: SIM118 - asks the API
    assert states == ["active"] * (COMPANIONS + 1)
    assert len(hotel.held("101")) == COMPANIONS + 1
    assert world.waiting() == []
