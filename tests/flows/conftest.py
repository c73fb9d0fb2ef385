"""A hotel on the mock vendor for each test, and a way to let all due work run to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from credentials import artifacts
from credentials.models import KeyCredential
from lockservice.core.tenancy import queues, tenant
from sagas.models import Alert, OutboxEvent, Saga
from sagas.runner import Runner
from tests.support.hotel import Hotel, build_hotel
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
    """Give a hotel with rooms 101, 102 and 103 and a street door, on one installation."""
    return make_hotel(locks)


def make_hotel(locks: MockLocks, query: str = "", **options: Any) -> Hotel:
    """Builds a hotel on the mock; `query` are failures of the mock's address."""
    url = locks.setting + (f"?{query}" if query else "")
    rooms = options.pop("rooms", {label: new_id("lck") for label in ("101", "102", "103")})
    shared = options.pop("shared", {"lobby": new_id("lck")})
    return build_hotel(vendor="mock", settings={"url": url}, rooms=rooms, shared=shared, **options)


@pytest.fixture
def settle() -> Callable[..., int]:
    """Give a function that runs a hotel's due work to its end; with `now=True` waiting retries are made due first."""

    def run(hotel: Hotel, *, now: bool = False, rounds: int = 1) -> int:
        steps = 0
        for _ in range(rounds):
            if now:
                _make_due(hotel)
            steps += Runner(only=_lanes(hotel)).run(until=lambda: False, drain=True, max_s=30)
        return steps

    return run


def _lanes(hotel: Hotel) -> list[str]:
    from sagas.models import Lane

    with tenant(hotel.tenant_id):
        return list(Lane.objects.filter(tenant_id=hotel.tenant_id).values_list("key", flat=True))


def _make_due(hotel: Hotel) -> None:
    from credentials.models import CredentialDoor

    with tenant(hotel.tenant_id):
        Saga.objects.filter(tenant_id=hotel.tenant_id, status="retry").update(status="due", due_at=None)
        CredentialDoor.objects.filter(tenant_id=hotel.tenant_id).update(due_at=None)


def fire_timers(hotel: Hotel) -> None:
    """Lets the hotel's timers of one tenant ring, as if the hotel's clock had come that far."""
    with queues():
        Saga.objects.filter(tenant_id=hotel.tenant_id, status="timer").update(status="due", hotel_due_at=None)


def keys(hotel: Hotel, reservation_id: str | None = None) -> list[KeyCredential]:
    """Returns the hotel's credentials, oldest first."""
    with tenant(hotel.tenant_id):
        rows = KeyCredential.objects.filter(tenant_id=hotel.tenant_id).order_by("id")
        return list(rows.filter(reservation_id=reservation_id) if reservation_id else rows)


def doors(hotel: Hotel, key: KeyCredential) -> dict[str, Any]:
    """Returns a key's doors by the label they have in the hotel."""
    labels = {device: label for label, device in hotel.devices.items()}
    with tenant(hotel.tenant_id):
        return {labels[door.device_id]: door for door in key.doors.all()}


def pin_of(hotel: Hotel, key: KeyCredential) -> str:
    """Returns the digits the guest was given."""
    with tenant(hotel.tenant_id):
        row = artifacts.current(hotel.tenant_id, [key.id])[key.id]
        pin = artifacts.open_pin(row)
    assert pin is not None
    return pin.reveal()


def events(hotel: Hotel, key: KeyCredential) -> list[str]:
    """Returns the short names of a key's events in order, after checking that their sequence has no gap."""
    with tenant(hotel.tenant_id):
        rows = list(OutboxEvent.objects.filter(tenant_id=hotel.tenant_id, ordering_key=key.id).order_by("sequence"))
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
    return [row.subject.removeprefix("melmastoon.lock.").removesuffix(".v1") for row in rows]


def sagas(hotel: Hotel) -> list[tuple[str, str]]:
    """Returns (flow, status) of the hotel's sagas in order."""
    with tenant(hotel.tenant_id):
        return list(Saga.objects.filter(tenant_id=hotel.tenant_id).order_by("position").values_list("flow", "status"))


def alerts(hotel: Hotel) -> list[tuple[str, str]]:
    """Returns (code, severity) of the hotel's alerts."""
    with tenant(hotel.tenant_id):
        return list(Alert.objects.filter(tenant_id=hotel.tenant_id).order_by("id").values_list("code", "severity"))
