"""The list of cancelled cards at the locks fills up: people are told while a lost card can still be cancelled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.stage import House, World

Houses = Callable[..., House]
CARDS = {"kinds": ["rfid_card"], "default_areas": []}
CODE = "DENY_LIST_FILLING"
PLACES = 20


def lose_cards(hotel: House, count: int) -> None:
    """Let guests leave before their time, whose cards go on the list."""
    for _ in range(count):
        stay = hotel.book(["101"])
        card = stay.encode()
        assert card is not None
        stay.cancel()
        assert not hotel.opens("101", card)


def severities(hotel: House) -> list[str]:
    return sorted(alert["severity"] for alert in hotel.alerts(CODE))


@pytest.fixture
def hotel(house: Houses) -> House:
    hotel = house({"101": "salto", "102": "salto"}, policy=CARDS)
    hotel.configure("salto", deny_list_places=PLACES)
    return hotel


def test_a_filling_list_is_told_at_80_and_95_percent(hotel: House) -> None:
    lose_cards(hotel, 15)
    hotel.poll_health()
    assert severities(hotel) == []
    lose_cards(hotel, 1)
    hotel.poll_health()
    assert severities(hotel) == ["warning"]
    (alert,) = hotel.alerts(CODE)
    assert alert["runbook"] == "lock/deny-list"
    hotel.poll_health()
    assert severities(hotel) == ["warning"]
    lose_cards(hotel, 3)
    hotel.poll_health()
    assert severities(hotel) == ["critical", "warning"]


def test_a_list_that_was_nearly_full_from_the_start_is_told_by_the_command(world: World, hotel: House) -> None:
    lose_cards(hotel, 2)
    hotel.configure("salto", deny_list_places=2)
    hotel.command("poll_health", hotel.tenant_id, hotel.installations["salto"])
    assert severities(hotel) == ["critical", "warning"]


@pytest.mark.parametrize("wrong", [0, -1, 65_536, "many", 1.5, True])
def test_a_size_that_no_list_has_is_refused(hotel: House, wrong: object) -> None:
    hotel.configure("salto", deny_list_places=wrong)
    before = hotel.vendor_calls()
    lines = hotel.command("poll_health", hotel.tenant_id, hotel.installations["salto"])
    assert "deny_list_places" in lines or "settings" in lines
    assert (hotel.vendor_calls(), hotel.alerts(CODE)) == (before, [])


def test_other_lock_systems_have_no_such_list(world: World, house: Houses) -> None:
    hotel = house({"101": "assa-abloy", "102": "ttlock"}, policy=CARDS)
    hotel.poll_health()
    assert hotel.alerts(CODE) == []
