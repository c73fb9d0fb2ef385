"""A hotel on the mock vendor, hands that change its doors behind our back, and what comparisons found."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lockservice.core.tenancy import tenant
from sagas.models import Alert, Finding, Lane, Saga
from sagas.reconcile.run import Report, reconcile
from sagas.runner import Runner
from tests.flows.conftest import make_hotel
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id


@pytest.fixture(scope="session")
def locks() -> Iterator[MockLocks]:
    """Give the mock vendor's process of this session."""
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture
def hotel(database: str, locks: MockLocks) -> Hotel:
    """Give a hotel with rooms 101, 102 and 103, without a shared door."""
    return make_hotel(locks, shared={})


class Hands:
    """Somebody with the vendor's own app: she plants, takes and changes keys that nobody asked us about."""

    def __init__(self, locks: MockLocks, hotel: Hotel) -> None:
        self.locks, self.hotel = locks, hotel

    def plant(self, label: str, value: str = "904512", **key: Any) -> str:
        now = datetime.now(UTC)
        body = {
            "kind": "pin_code",
            "from": (now - timedelta(hours=1)).isoformat(),
            "until": (now + timedelta(days=2)).isoformat(),
        }
        return str(self.locks.ask("/plant", {**body, "device": self.hotel.doors[label], "value": value, **key})["ref"])

    def drop(self, label: str, ref: str | None = None) -> None:
        door = self.hotel.doors[label]
        self.locks.ask("/drop", {"device": door, "ref": ref or self.locks.keys_at(door)[0]["ref"]})

    def alter(self, label: str, **change: Any) -> None:
        door = self.hotel.doors[label]
        self.locks.ask("/alter", {"device": door, "ref": self.locks.keys_at(door)[0]["ref"], **change})


@pytest.fixture
def hands(hotel: Hotel, locks: MockLocks) -> Hands:
    """Give hands at the hotel's doors."""
    return Hands(locks, hotel)


def book(hotel: Hotel, room: str, **extra: Any) -> str:
    """Confirms a booking, lets its key be given, and returns the reservation's id."""
    stay = new_id("rsv")
    assert hotel.tell("booking.confirmed", hotel.booking(stay, 1, [room], **extra)) == "applied"
    settle(hotel)
    return stay


def settle(hotel: Hotel) -> int:
    """Lets the hotel's work run to its end, what waits for a rate limit included."""
    with tenant(hotel.tenant_id):
        lanes = list(Lane.objects.filter(tenant_id=hotel.tenant_id).values_list("key", flat=True))

    def is_done() -> bool:
        with tenant(hotel.tenant_id):
            return not Saga.objects.filter(tenant_id=hotel.tenant_id, status__in=["due", "running", "retry"]).exists()

    return Runner(only=lanes).run(until=is_done, max_s=30)


def look(hotel: Hotel, **options: Any) -> Report:
    """Compares the hotel's installation with its doors."""
    return reconcile(hotel.tenant_id, hotel.installation_id, **options)


def found(hotel: Hotel, status: str = "open") -> list[Finding]:
    """Returns the hotel's findings of a status, oldest first."""
    with tenant(hotel.tenant_id):
        return list(Finding.objects.filter(tenant_id=hotel.tenant_id, status=status).order_by("id"))


def kinds(hotel: Hotel) -> list[str]:
    """Returns the kinds of the open findings in order."""
    return sorted(row.kind for row in found(hotel))


def alert_codes(hotel: Hotel) -> list[str]:
    """Returns the codes of the hotel's alerts in order."""
    with tenant(hotel.tenant_id):
        return sorted(Alert.objects.filter(tenant_id=hotel.tenant_id).values_list("code", flat=True))
