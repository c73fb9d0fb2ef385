"""A guest who loses one room's lock after another: each loss is told, each is told once, and each gets its own way in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from devices import selectors
from devices.models import LockDevice, VendorInstallation
from lockservice.core.tenancy import tenant
from sagas import acts, device_acts
from sagas.models import Alert, Saga, SagaStatus
from tests.flows.conftest import alerts, keys, make_hotel, pin_of, sagas
from tests.support.hotel import Hotel, build_hotel
from tests.support.mock_locks import MockLocks
from tests.support.push_site import own_secrets
from vendors.port.ids import new_id

Settle = Callable[..., int]
MANAGER = acts.Actor("usr_manager")


@pytest.fixture
def place(database: str, locks: MockLocks) -> Hotel:
    return make_hotel(locks, secrets=own_secrets())


@pytest.fixture(scope="module")
def other() -> Iterator[MockLocks]:
    """Give a second lock system's process."""
    mock = MockLocks()
    yield mock
    mock.stop()


def _retire(hotel: Hotel, settle: Settle, label: str) -> None:
    device_acts.decommission_device(hotel.tenant_id, hotel.devices[label], MANAGER)
    settle(hotel, now=True, rounds=3)


def test_the_second_room_that_one_key_loses_is_told_too_and_each_once(place: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    place.tell("booking.confirmed", place.booking(stay, 1, ["101", "102", "103"]))
    settle(place)
    _retire(place, settle, "101")
    assert alerts(place) == [("ROOM_WITHOUT_LOCK", "critical")]
    _retire(place, settle, "102")
    (key,) = keys(place, stay)
    assert (key.state, key.rooms) == ("active", [place.rooms["103"]])
    assert alerts(place) == [("ROOM_WITHOUT_LOCK", "critical")] * 2
    with tenant(place.tenant_id):
        told = Alert.objects.filter(tenant_id=place.tenant_id).values_list("credential_id", "detail")
        assert list(told) == [(key.id, told[0][1])] * 2
        Saga.objects.filter(tenant_id=place.tenant_id, flow="decommission").update(
            status=SagaStatus.DUE, finished_at=None
        )  # the same walks again
    settle(place, now=True, rounds=3)
    assert len(alerts(place)) == 2
    assert locks.opens(place.doors["103"], pin_of(place, key))


def test_two_rooms_that_move_to_another_lock_system_one_after_the_other_get_a_key_each(
    place: Hotel, locks: MockLocks, other: MockLocks, settle: Settle
) -> None:
    first = place.installation_id
    build_hotel(
        vendor="mock", settings={"url": other.setting}, secrets=own_secrets(), rooms={}, shared={}, into=place,
    )  # fmt: skip
    stay = new_id("rsv")
    place.tell("booking.confirmed", place.booking(stay, 1, ["101", "102", "103"]))
    settle(place)
    with tenant(place.tenant_id):
        second = VendorInstallation.objects.exclude(id=first).get(tenant_id=place.tenant_id)
    for count, label in enumerate(("101", "102"), start=1):
        new = _hang(place, label, second.id)
        _retire(place, settle, label)
        (made,) = [key for key in keys(place, stay) if key.rooms == [place.rooms[label]]]
        assert (made.state, made.installation_id, made.ordinal) == ("active", second.id, count - 1)
        assert other.opens(new, pin_of(place, made))
        assert alerts(place) == [("KEY_MOVED_TO_OTHER_LOCKS", "warning")] * count
    assert {status for flow, status in sagas(place) if flow == "decommission"} == {"done"}


def _hang(hotel: Hotel, label: str, installation_id: str) -> str:
    """Puts up a lock of another installation at the room of a label; returns its external id."""
    external = new_id("lck")
    with tenant(hotel.tenant_id):
        row = LockDevice.objects.get(tenant_id=hotel.tenant_id, id=hotel.devices[label])
        row.pk, row.external_id, row.label, row._state.adding = new_id("lck"), external, f"{label} new", True
        row.installation_id = installation_id
        row.save(force_insert=True)
    selectors.forget()
    return external
