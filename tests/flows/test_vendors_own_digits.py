"""A lock system that draws PINs itself, one for each window of a door: no two guests are given the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from credentials import pin_slots
from credentials.models import KeyCredential, PinSlot
from lockservice.core.tenancy import tenant
from sagas.models import SagaStep
from tests.flows.conftest import alerts, doors, keys, make_hotel, pin_of
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id
from vendors.port.secrets import Pin

Settle = Callable[..., int]


@pytest.fixture
def drawing(database: str, locks: MockLocks) -> Hotel:
    """Give a hotel whose vendor draws PINs itself."""
    return make_hotel(locks, "draws=1", shared={}, policy={"kinds": ["pin_code", "mobile_app"]})


def book(hotel: Hotel, settle: Settle) -> tuple[str, KeyCredential]:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel, now=True, rounds=3)
    return stay, keys(hotel, stay)[-1]


def test_digits_that_the_vendor_draws_are_the_guests(drawing: Hotel, locks: MockLocks, settle: Settle) -> None:
    _, key = book(drawing, settle)
    assert key.state == "active"
    assert len(pin_of(drawing, key)) == 8
    assert locks.opens(drawing.doors["101"], pin_of(drawing, key))


def test_digits_of_another_key_are_given_to_nobody_and_taken_from_nobody(
    drawing: Hotel, locks: MockLocks, settle: Settle
) -> None:
    _, first = book(drawing, settle)
    stay, second = book(drawing, settle)
    assert (second.state, second.kind) == ("active", "mobile_app")
    assert [warning["code"] for warning in second.warnings] == ["STAYS_OVERLAP", "KIND_CHANGED"]
    drawing.tell("booking.cancelled", drawing.booking(stay, 2, ["101"], status="cancelled"))
    settle(drawing, now=True, rounds=3)
    assert keys(drawing, stay)[-1].open_work is False
    assert locks.opens(drawing.doors["101"], pin_of(drawing, first))
    assert [code for code, _ in alerts(drawing)] == ["STAYS_OVERLAP"]


def test_a_key_refused_for_its_digits_leaves_its_door_without_doubt(drawing: Hotel, locks: MockLocks, settle: Settle) -> None:
    book(drawing, settle)
    hotel = drawing
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"], preferredKinds=["pin_code"]))
    settle(hotel)
    (key, *_) = keys(hotel, stay)
    door = doors(hotel, key)["101"]
    with tenant(hotel.tenant_id):
        steps = SagaStep.objects.filter(tenant_id=hotel.tenant_id, credential_id=key.id).order_by("id")
        assert list(steps.values_list("verb", flat=True))[:2] == ["issue", "issue"]
    assert (door.state, door.verb) == ("present", "")
    assert [held["kind"] for held in locks.keys_at(hotel.doors["101"])].count("pin_code") == 1


def test_digits_that_were_drawn_stay_taken_while_they_may_open(drawing: Hotel, locks: MockLocks, settle: Settle) -> None:
    _, key = book(drawing, settle)
    digits = Pin(pin_of(drawing, key))
    with tenant(drawing.tenant_id):
        assert not pin_slots.take_at(drawing.tenant_id, "key_other", digits, [drawing.devices["101"]])
        assert pin_slots.take_at(drawing.tenant_id, key.id, digits, [drawing.devices["101"]])
        assert PinSlot.objects.filter(tenant_id=drawing.tenant_id, credential_id=key.id).count() == 1
