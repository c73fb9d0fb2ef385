"""The filler of whoever needs size writes what the service itself would have left."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

import pytest

from credentials import artifacts
from credentials.models import Artifact, KeyCredential, Reservation, Transition
from credentials.reservations import holder_of
from credentials.services import KeyBatch
from credentials.targets import is_settled
from lockservice.core import clock
from lockservice.core.tenancy import queues, tenant
from lockservice.embedded import roles
from lockservice.embedded.local import LocalDirectory
from sagas import claims
from sagas.events import envelope, validate
from sagas.housekeeping import sweep
from sagas.models import OutboxEvent, Saga
from tests.support import own_database
from tests.support.estate import Estate, Size, fill

SIZE = Size(tenants=2, rooms=9, past=60, waiting=4)


@pytest.fixture(scope="module")
def estate(database: str, embedded_servers: LocalDirectory) -> Iterator[Estate]:
    name = own_database.copy(embedded_servers)
    with own_database.turned_to(name):
        yield fill(embedded_servers, SIZE)
    roles.drop_database(embedded_servers, name)


def test_every_house_has_stays_that_are_over_run_and_come(estate: Estate) -> None:
    for house in estate.houses:
        with tenant(house.tenant_id):
            stays = Reservation.objects.filter(tenant_id=house.tenant_id)
            over = stays.filter(valid_until__lte=estate.now).count()
            running = stays.filter(valid_from__lte=estate.now, valid_until__gt=estate.now).count()
            assert (over, running, stays.count()) == (60, 6, 60 + 6 + 9 + 4)


def test_no_two_stays_share_a_room_at_one_time(estate: Estate) -> None:
    house = estate.houses[0]
    with tenant(house.tenant_id):
        rows = Reservation.objects.filter(tenant_id=house.tenant_id).exclude(status="cancelled")
        stays = sorted((row.rooms[0], row.valid_from, row.valid_until) for row in rows)
    assert all(one[0] != next_[0] or one[2] <= next_[1] for one, next_ in pairwise(stays))


def test_doors_say_what_their_key_does(estate: Estate) -> None:
    for house in estate.houses:
        with tenant(house.tenant_id):
            keys = list(KeyCredential.objects.filter(tenant_id=house.tenant_id))
            batch = KeyBatch.load(house.tenant_id, [key.id for key in keys], clock.now())
            assert all(len(batch.doors_at(key)) == 2 for key in keys)
            assert [key.id for key in keys if key.open_work == is_settled(key, batch.doors_at(key))] == []
            states = [(key.state, key.open_work) for key in keys]
    assert {state for state in states if state[1]} == {("revoked", True), ("requested", True)}


def test_each_move_of_a_key_has_its_event_in_order(estate: Estate) -> None:
    house = estate.houses[0]
    with tenant(house.tenant_id):
        for key in KeyCredential.objects.filter(tenant_id=house.tenant_id):
            moves = list(Transition.objects.filter(tenant_id=house.tenant_id, credential_id=key.id).order_by("sequence"))
            events = OutboxEvent.objects.filter(tenant_id=house.tenant_id, ordering_key=key.id).order_by("sequence")
            assert [(move.sequence, move.event_id) for move in moves] == [(event.sequence, event.id) for event in events]
            assert (len(moves), moves[-1].target) == (key.event_sequence, key.state)


def test_events_are_those_that_the_service_would_send(estate: Estate) -> None:
    house = estate.houses[1]
    with tenant(house.tenant_id):
        rows = list(OutboxEvent.objects.filter(tenant_id=house.tenant_id))
    for row in rows:
        event = envelope.decode(bytes(row.body))
        validate.validate(event.subject, event.data)
        assert envelope.encode(event) == bytes(row.body)
        assert (event.id, event.subject, event.tenant_id, event.sequence) == (row.id, row.subject, row.tenant_id, row.sequence)
    assert len({row.subject for row in rows}) == 5


def test_what_is_sealed_opens(estate: Estate) -> None:
    house = estate.houses[0]
    stay, key_id = next(iter(house.keys.items()))
    with tenant(house.tenant_id):
        guest = holder_of(Reservation.objects.get(tenant_id=house.tenant_id, reservation_id=stay))
        pin = artifacts.open_pin(Artifact.objects.get(tenant_id=house.tenant_id, credential_id=key_id))
    assert guest.display_name
    assert pin is not None
    assert pin.reveal().isdigit()


def test_nothing_of_it_is_due(estate: Estate) -> None:
    with queues():
        assert claims.wake_due() == 0
        assert claims.claim_lanes("nobody", 10, []) == {}
        assert OutboxEvent.objects.filter(published_at__isnull=True).count() == 0
        waiting = dict(Saga.objects.filter(status="retry").values_list("id", "due_at"))
    assert len(waiting) == SIZE.tenants * SIZE.waiting
    assert set(waiting.values()) == {estate.now + timedelta(hours=1)}
    assert sweep() == 0
