"""A process that was paused inside a transaction finds its session ended; it begins anew, and nothing is given up for it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from lockservice.core.tenancy import queues, tenant
from lockservice.embedded.local import LocalDirectory
from sagas.bus.port import BusMessage
from sagas.bus.redis_streams import RedisStreamsBus
from sagas.consumer import Consumer
from sagas.events.registry import spec
from sagas.models import DeadLetter, Lane, OutboxEvent, RelayShard
from sagas.publisher import Publisher, ensure_shards
from sagas.runner import Runner
from tests.flows.conftest import alerts, events, keys, pin_of, sagas
from tests.support.hotel import Hotel, full_subject
from tests.support.mock_locks import MockLocks
from tests.support.paused import Pauses, paused_here
from vendors.port.ids import new_id

OWN_SHARD = 99
CONFIRMED = spec(full_subject("booking.confirmed")).topic or ""


@pytest.fixture
def bus(valkey_url: str) -> Iterator[RedisStreamsBus]:
    made = RedisStreamsBus(valkey_url, prefix=f"{{paused-{uuid.uuid4().hex[:8]}}}", lease_s=2.0)
    yield made
    made.close()


@pytest.fixture
def pauses(database: str, embedded_servers: LocalDirectory, hotel: Hotel) -> Iterator[Pauses]:
    with paused_here(embedded_servers) as line:
        yield line


def _letters(hotel: Hotel) -> list[str]:
    with tenant(hotel.tenant_id):
        return list(DeadLetter.objects.filter(tenant_id=hotel.tenant_id).values_list("detail", flat=True))


def _lanes(hotel: Hotel) -> list[str]:
    with tenant(hotel.tenant_id):
        return list(Lane.objects.filter(tenant_id=hotel.tenant_id).values_list("key", flat=True))


def _run(hotel: Hotel) -> None:
    Runner(only=_lanes(hotel)).run(until=lambda: False, drain=True, max_s=30)


def _book(hotel: Hotel, *rooms: str) -> str:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, rooms))
    return stay


def _opens_once(hotel: Hotel, locks: MockLocks, stay: str) -> None:
    (key,) = keys(hotel, stay)
    assert key.state == "active"
    assert locks.opens(hotel.doors["101"], pin_of(hotel, key))
    assert locks.created_at(hotel.doors["101"]) == 1
    assert events(hotel, key) == ["credential.requested", "credential.pending", "credential.issued"]
    assert {status for _, status in sagas(hotel)} == {"done"}
    assert (alerts(hotel), _letters(hotel)) == ([], [])


@pytest.mark.parametrize("mark", [b"sagas_inboxmessage", b"credentials_reservation", b"sagas_saga"])
def test_a_booking_whose_transaction_was_paused_is_taken_on_the_next_delivery(
    mark: bytes, hotel: Hotel, locks: MockLocks, pauses: Pauses, bus: RedisStreamsBus
) -> None:
    stay = new_id("rsv")
    body = hotel.event("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    bus.publish([BusMessage(CONFIRMED, stay, body)])
    pauses.at(mark)
    consumer = Consumer(bus, group="paused", topics=[CONFIRMED])
    consumer.run(until=lambda: consumer.handled >= 1)
    assert pauses.taken == 1
    _run(hotel)
    _opens_once(hotel, locks, stay)


def test_bookings_that_share_a_paused_transaction_are_all_taken(
    hotel: Hotel, locks: MockLocks, pauses: Pauses, bus: RedisStreamsBus
) -> None:
    stays = {label: new_id("rsv") for label in ("101", "102", "103")}
    for label, stay in stays.items():
        bus.publish([BusMessage(CONFIRMED, stay, hotel.event("booking.confirmed", hotel.booking(stay, 1, [label])))])
    pauses.at(b"sagas_inboxmessage")
    consumer = Consumer(bus, group="paused", topics=[CONFIRMED])
    consumer.run(until=lambda: consumer.handled >= 3)
    assert pauses.taken == 1
    _run(hotel)
    assert [key.state for stay in stays.values() for key in keys(hotel, stay)] == ["active"] * 3
    assert [locks.created_at(hotel.doors[label]) for label in stays] == [1, 1, 1]
    assert _letters(hotel) == []


@pytest.mark.parametrize(
    "mark", [b"credential.pending", b"credentials_credentialdoor", b"credential.issued", b"sagas_sagastep"]
)
def test_a_key_whose_step_was_paused_in_plan_or_record_is_given_once(
    mark: bytes, hotel: Hotel, locks: MockLocks, pauses: Pauses
) -> None:
    stay = _book(hotel, "101")
    pauses.at(mark)
    _run(hotel)
    assert pauses.taken == 1
    _opens_once(hotel, locks, stay)


def test_a_key_whose_revoke_was_paused_in_every_transaction_is_gone_from_the_door(
    hotel: Hotel, locks: MockLocks, pauses: Pauses
) -> None:
    stay = _book(hotel, "101")
    _run(hotel)
    (key,) = keys(hotel, stay)
    pin = pin_of(hotel, key)
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    pauses.at(b"credentials_credentialdoor")
    pauses.at(b"sagas_sagastep")
    _run(hotel)
    assert pauses.taken == 2
    assert not locks.opens(hotel.doors["101"], pin)
    assert [row.state for row in keys(hotel, stay)] == ["revoked"]
    assert {status for _, status in sagas(hotel)} == {"done"}
    assert alerts(hotel) == []


@pytest.mark.parametrize("mark", [b"LATERAL", b"SET published_at"])
def test_events_whose_relay_was_paused_are_all_published(
    mark: bytes, hotel: Hotel, pauses: Pauses, bus: RedisStreamsBus
) -> None:
    _book(hotel, "101")
    _run(hotel)
    topics = sorted({event.topic for event in _outbox(hotel)})
    bus.subscribe(topics, "paused")
    with _own_shard(hotel):
        pauses.at(mark)
        Publisher(bus).run(until=lambda: all(event.published_at for event in _outbox(hotel)))
    assert pauses.taken == 1
    assert not any(event.blocked for event in _outbox(hotel))
    heard = [json.loads(item.message.body) for item in bus.receive(topics, "paused", "one", 50, 1.0)]
    assert {event["id"] for event in heard} == {event.id for event in _outbox(hotel)}


def _outbox(hotel: Hotel) -> list[OutboxEvent]:
    with queues():
        return list(OutboxEvent.objects.filter(tenant_id=hotel.tenant_id))


@contextmanager
def _own_shard(hotel: Hotel) -> Iterator[None]:
    """Puts the hotel's events on a shard of their own, and lets nobody take another: the database is shared with other tests."""
    with queues():
        ensure_shards()
        RelayShard.objects.get_or_create(shard=OWN_SHARD, defaults={"token": 0, "owner": ""})
        RelayShard.objects.exclude(shard=OWN_SHARD).update(owner="elsewhere", lease_until=Now() + timedelta(hours=1))
        OutboxEvent.objects.filter(tenant_id=hotel.tenant_id).update(shard=OWN_SHARD)
    yield
    with queues():
        RelayShard.objects.filter(owner="elsewhere").update(owner="", lease_until=None)
