"""What is wrong on the bus is kept with its reason, stops nobody else, and can be handled again once its cause is gone."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from credentials.models import KeyCredential, Reservation
from lockservice.core.places import Property, Tenant
from lockservice.core.tenancy import queues, tenant
from sagas import acts
from sagas.bus.port import BusMessage
from sagas.bus.redis_streams import RedisStreamsBus
from sagas.consumer import Consumer
from sagas.events.registry import spec
from sagas.models import DeadLetter, InboxMessage, OutboxEvent, Saga
from tests.chaos.conftest import mock_hotel
from tests.support.hotel import Hotel, full_subject
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

CONFIRMED = "booking.confirmed"
TOPIC = spec(full_subject(CONFIRMED)).topic or ""
ACTOR = acts.Actor("usr_support")


@pytest.fixture
def hotel(database: str, locks: MockLocks) -> Hotel:
    return mock_hotel(locks)


@pytest.fixture
def bus(valkey_url: str) -> Iterator[RedisStreamsBus]:
    link = RedisStreamsBus(valkey_url, prefix=f"{{bad-{uuid.uuid4().hex[:8]}}}")
    yield link
    link.close()


def _changed(hotel: Hotel, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """A sound event as JSON, with one thing wrong."""
    document = json.loads(hotel.event(CONFIRMED, hotel.booking(new_id("rsv"), 1, ["101"])))
    change(document)
    return json.dumps(document, ensure_ascii=False).encode()


def _too_big(hotel: Hotel) -> bytes:
    return _changed(hotel, lambda event: event["data"].update(note="ب" * 1_000_000))


def _with_bad_bytes(hotel: Hotel) -> bytes:
    return _changed(hotel, lambda event: event["data"].update(note="QQQQ")).replace(b"QQQQ", b"\xff\xfe\xc3\x28")


def _of_another_tenant(hotel: Hotel) -> bytes:
    """A tenant that exists here names a property that is not hers."""
    other = new_id("tnt")
    with tenant(other):
        Tenant.objects.create(tenant_id=other, name="Neighbours")
    return _changed(hotel, lambda event: event.update(tenantId=other))


def _inverted(event: dict[str, Any]) -> None:
    data = event["data"]
    data["validFrom"], data["validUntil"] = data["validUntil"], data["validFrom"]


BAD: dict[str, tuple[Callable[[Hotel], bytes], str]] = {
    "a tenant that nobody knows": (
        lambda hotel: _changed(hotel, lambda event: event.update(tenantId=new_id("tnt"))), "UNKNOWN_TENANT"
    ),
    "a tenant with another's property": (_of_another_tenant, "UNKNOWN_PROPERTY"),
    "an unknown subject": (
        lambda hotel: _changed(hotel, lambda event: event.update(subject="melmastoon.reservation.booking.sung.v1", type=None)),
        "UNKNOWN_SUBJECT",
    ),
    "an unknown version": (
        lambda hotel: _changed(
            hotel, lambda event: event.update(subject="melmastoon.reservation.booking.confirmed.v9", type=None)
        ),
        "UNKNOWN_VERSION",
    ),
    "an event of our own": (
        lambda hotel: _changed(hotel, lambda event: event.update(subject="melmastoon.lock.credential.issued.v1", type=None)),
        "NOT_INBOUND",
    ),
    "a missing field": (lambda hotel: _changed(hotel, lambda event: event["data"].pop("version")), "MISSING_FIELD"),
    "a missing id": (lambda hotel: _changed(hotel, lambda event: event.pop("id")), "MISSING_FIELD"),
    "an instant without a zone": (
        lambda hotel: _changed(hotel, lambda event: event["data"].update(validFrom="2026-05-01T18:30:00")), "NO_TIME_ZONE"
    ),
    "a time without a zone": (
        lambda hotel: _changed(hotel, lambda event: event.update(time="2026-05-01T18:30:00")), "NO_TIME_ZONE"
    ),
    "a window that ends before it starts": (lambda hotel: _changed(hotel, _inverted), "WINDOW_INVERTED"),
    "too many bytes": (_too_big, "PAYLOAD_TOO_LARGE"),
    "bytes that are no UTF-8": (_with_bad_bytes, "INVALID_UTF8"),
    "no JSON": (lambda hotel: f"not json {uuid.uuid4()}".encode(), "INVALID_JSON"),
    "a property of nobody": (
        lambda hotel: _changed(hotel, lambda event: event["data"].update(propertyId=new_id("ppt"))), "UNKNOWN_PROPERTY"
    ),
}  # fmt: skip


def _consume(bus: RedisStreamsBus, *bodies: bytes) -> None:
    bus.publish([BusMessage(TOPIC, f"key-{number}", body) for number, body in enumerate(bodies)])
    Consumer(bus, topics=[TOPIC]).run(until=lambda: False, drain=True)


def _letters(body: bytes) -> list[DeadLetter]:
    digest = hashlib.sha256(body).hexdigest()
    with queues():
        return list(DeadLetter.objects.filter(digest=digest).order_by("id"))


@pytest.mark.parametrize("wrong", BAD)
def test_what_is_wrong_is_kept_with_its_reason_and_stops_nobody(wrong: str, hotel: Hotel, bus: RedisStreamsBus) -> None:
    make, code = BAD[wrong]
    body = make(hotel)
    neighbours = [new_id("rsv"), new_id("rsv")]
    first, last = (
        hotel.event(CONFIRMED, hotel.booking(stay, 1, [room])) for stay, room in zip(neighbours, ("102", "103"), strict=True)
    )
    _consume(bus, first, body, last)
    (letter,) = _letters(body)
    assert (letter.code, letter.source, letter.topic, letter.count) == (code, "inbox", TOPIC, 1)
    assert bytes(letter.body) == body
    assert letter.detail
    with tenant(hotel.tenant_id):
        stays = set(Reservation.objects.filter(tenant_id=hotel.tenant_id).values_list("reservation_id", flat=True))
        assert stays == set(neighbours)
        assert KeyCredential.objects.filter(tenant_id=hotel.tenant_id).count() == 2
        assert Saga.objects.filter(tenant_id=hotel.tenant_id).count() == 2
        assert OutboxEvent.objects.filter(tenant_id=hotel.tenant_id).count() == 2
        assert InboxMessage.objects.filter(tenant_id=hotel.tenant_id, outcome="applied").count() == 2
    assert bus.depth(TOPIC, "lock-integration-service") == 0
    # The same message again is counted, not kept twice.
    _consume(bus, body)
    assert [row.count for row in _letters(body)] == [2]


def test_the_reason_never_repeats_what_was_sent(hotel: Hotel, bus: RedisStreamsBus) -> None:
    secret = "+93700123456"
    body = _changed(hotel, lambda event: event["data"]["guest"].update(contact={"phoneE164": [secret]}))
    _consume(bus, body)
    (letter,) = _letters(body)
    assert letter.code == "SCHEMA_VIOLATION"
    assert secret not in letter.detail


def test_a_letter_is_handled_once_its_cause_is_gone(hotel: Hotel, bus: RedisStreamsBus) -> None:
    property_id, stay = new_id("ppt"), new_id("rsv")
    data = hotel.booking(stay, 1, ["101"]) | {"propertyId": property_id}
    body = hotel.event(CONFIRMED, data)
    _consume(bus, body)
    (letter,) = _letters(body)
    assert acts.replay_dead_letter(hotel.tenant_id, letter.id, ACTOR) == "buried"  # nothing was repaired
    (again,) = _letters(body)
    assert (again.id, again.count, again.replayed_at, again.code) == (letter.id, 2, None, "UNKNOWN_PROPERTY")
    with tenant(hotel.tenant_id):
        Property.objects.create(
            tenant_id=hotel.tenant_id, property_id=property_id, name="House next door", time_zone="Asia/Kabul"
        )
    hotel.tell("melmastoon.tenant.config_updated.v1", {"propertyId": property_id, "keys": ["property"]})
    assert acts.replay_dead_letter(hotel.tenant_id, again.id, ACTOR) == "applied"
    with pytest.raises(acts.Refused, match="NOT_FOUND"):
        acts.replay_dead_letter(hotel.tenant_id, again.id, ACTOR)
