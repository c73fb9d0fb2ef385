"""Events doubled, reversed, late and old end like events that came once and in order."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from credentials.models import KeyCredential, Reservation
from lockservice.core.tenancy import queues, tenant
from sagas.bus.port import BusMessage
from sagas.bus.topology import SERVICE_GROUP
from sagas.consumer import topics_by_urgency
from sagas.events.registry import spec
from sagas.models import InboxMessage, Lane, OutboxEvent, Saga
from sagas.runner import Runner
from tests.chaos.conftest import mock_doors, mock_hotel
from tests.chaos.estate import Estate, eventually
from tests.support.checkers import check
from tests.support.hotel import Hotel, full_subject
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

CONFIRMED, CHANGED, CHECKED_OUT, CANCELLED = (
    f"booking.{name}" for name in ("confirmed", "dates_changed", "checked_out", "cancelled")
)
DAY = timedelta(days=1)


def _message(hotel: Hotel, subject: str, data: dict[str, Any], event_id: str | None = None) -> BusMessage:
    body = hotel.event(subject, data, event_id)
    return BusMessage(spec(full_subject(subject)).topic or "", data["reservationId"], body)


def _is_quiet(hotel: Hotel) -> bool:
    with tenant(hotel.tenant_id):
        return not Saga.objects.filter(tenant_id=hotel.tenant_id).exclude(status__in=("done", "dead")).exists()


def _is_told(hotel: Hotel) -> bool:
    with tenant(hotel.tenant_id):
        return not OutboxEvent.objects.filter(tenant_id=hotel.tenant_id, published_at__isnull=True).exists()


@pytest.mark.timeout(180)
def test_a_hundred_duplicates_on_four_consumers_make_one_key(estate: Estate, locks: MockLocks) -> None:
    hotel, stay = mock_hotel(locks), new_id("rsv")
    data = hotel.booking(stay, 1, ["101"])
    bus = estate.bus()
    bus.subscribe(topics_by_urgency(), SERVICE_GROUP)
    same = [_message(hotel, CONFIRMED, data, "evt_once") for _ in range(100)]
    told_anew = [_message(hotel, CONFIRMED, data) for _ in range(20)]
    # Without a key: with one, a bus may keep them in order for one consumer, and nothing would race.
    bus.publish([BusMessage(item.topic, "", item.body) for item in same + told_anew])
    for number in range(4):
        estate.consumer(f"consumer-{number}")
    estate.runner()
    estate.publisher()
    topic = same[0].topic
    eventually(lambda: bus.depth(topic, SERVICE_GROUP) == 0, 60, "all consumed")
    eventually(lambda: _is_quiet(hotel) and _is_told(hotel), 30, "quiet")
    with tenant(hotel.tenant_id):
        assert KeyCredential.objects.filter(tenant_id=hotel.tenant_id).count() == 1
        inbox = InboxMessage.objects.filter(tenant_id=hotel.tenant_id)
        assert inbox.filter(event_id="evt_once").count() == 1
        assert inbox.filter(outcome="applied").count() == 1
        assert inbox.count() == 21
    assert [call["verb"] for call in locks.calls(hotel.doors["101"])] == ["issue"]
    assert locks.created_at(hotel.doors["101"]) == 1
    check(hotel, mock_doors(locks, hotel))


def _story(hotel: Hotel, stay: str, last: str) -> list[tuple[str, dict[str, Any]]]:
    start = hotel.opened_at
    status = {CHECKED_OUT: "checked_out", CANCELLED: "cancelled"}[last]
    return [
        (CONFIRMED, hotel.booking(stay, 1, ["101"], end=start + 3 * DAY)),
        (CHANGED, hotel.booking(stay, 2, ["102"], end=start + 4 * DAY)),
        (CHANGED, hotel.booking(stay, 3, ["103"], end=start + 5 * DAY)),
        (last, hotel.booking(stay, 4, ["103"], end=start + 5 * DAY, status=status)),
    ]


def _work(hotel: Hotel) -> None:
    with tenant(hotel.tenant_id):
        lanes = list(Lane.objects.filter(tenant_id=hotel.tenant_id).values_list("key", flat=True))
    if lanes:
        Runner(only=lanes).run(until=lambda: False, drain=True, max_s=20)


def _end(hotel: Hotel, stay: str) -> dict[str, Any]:
    with tenant(hotel.tenant_id):
        row = Reservation.objects.get(tenant_id=hotel.tenant_id, reservation_id=stay)
        rooms = {room: label for label, room in hotel.rooms.items()}
        states = sorted(
            KeyCredential.objects.filter(tenant_id=hotel.tenant_id, reservation_id=stay).values_list("state", flat=True)
        )
    return {
        "status": row.status,
        "version": row.version,
        "incarnation": row.incarnation,
        "rooms": [rooms[room] for room in row.rooms],
        "window": (row.valid_from - hotel.opened_at, row.valid_until - hotel.opened_at),
        "payment": row.payment_status,
        "keys": states,
    }


@pytest.mark.parametrize("last", [CHECKED_OUT, CANCELLED])
@pytest.mark.parametrize("meanwhile", ["works between the events", "works after them all"])
def test_all_24_orders_of_a_stay_end_alike_with_no_key_at_any_door(
    database: str, locks: MockLocks, last: str, meanwhile: str
) -> None:
    ends: list[dict[str, Any]] = []
    for order in itertools.permutations(range(4)):
        hotel, stay = mock_hotel(locks), new_id("rsv")
        story = _story(hotel, stay, last)
        for number in order:
            subject, data = story[number]
            assert hotel.tell(subject, data) in ("applied", "ignored")
            if meanwhile == "works between the events":
                _work(hotel)
        _work(hotel)
        end = _end(hotel, stay)
        assert len(end["keys"]) <= 1, order
        assert not set(end.pop("keys")) & {"requested", "pending", "active", "suspended"}, order
        ends.append(end)
        assert [locks.keys_at(door) for door in hotel.doors.values()] == [[], [], []], order
        check(hotel, mock_doors(locks, hotel), published=False)
    assert len(ends) == 24
    assert all(end == ends[0] for end in ends), ends
    assert (ends[0]["version"], ends[0]["rooms"], ends[0]["incarnation"]) == (4, ["103"], 1)


@pytest.mark.timeout(180)
def test_all_24_orders_raced_by_four_consumers_end_with_no_key_at_any_door(estate: Estate, locks: MockLocks) -> None:
    hotel, bus = mock_hotel(locks), estate.bus()
    bus.subscribe(topics_by_urgency(), SERVICE_GROUP)
    stays = [new_id("rsv") for _ in range(24)]
    for stay, order in zip(stays, itertools.permutations(range(4)), strict=True):
        story = _story(hotel, stay, CHECKED_OUT)
        bus.publish([_message(hotel, *story[number]) for number in order])
    for number in range(4):
        estate.consumer(f"consumer-{number}")
    estate.runner()
    estate.publisher()
    eventually(lambda: not any(bus.depth(topic, SERVICE_GROUP) for topic in topics_by_urgency()), 60, "all consumed")
    eventually(lambda: _is_quiet(hotel) and _is_told(hotel), 60, "quiet")
    for stay in stays:
        end = _end(hotel, stay)
        assert (end["status"], end["version"], end["rooms"], end["incarnation"]) == ("checked_out", 4, ["103"], 1)
        assert len(end["keys"]) <= 1
        assert set(end["keys"]) <= {"revoked", "failed"}
    assert [locks.keys_at(door) for door in hotel.doors.values()] == [[], [], []]
    check(hotel, mock_doors(locks, hotel))


@pytest.mark.parametrize("after", ["while the key lives", "after the stay"])
def test_a_confirmation_thirty_days_old_changes_nothing(database: str, locks: MockLocks, after: str) -> None:
    hotel, stay = mock_hotel(locks), new_id("rsv")
    first = hotel.booking(stay, 1, ["101"])
    hotel.tell(CONFIRMED, first, "evt_first")
    _work(hotel)
    if after == "after the stay":
        hotel.tell(CHECKED_OUT, hotel.booking(stay, 2, ["101"], status="checked_out"))
        _work(hotel)
    with tenant(hotel.tenant_id):
        rows_before = OutboxEvent.objects.filter(tenant_id=hotel.tenant_id).count()
    calls_before = len(locks.calls(hotel.doors["101"]))
    with queues():  # the same event came a month ago by this service's own record
        InboxMessage.objects.filter(tenant_id=hotel.tenant_id).update(received_at=hotel.opened_at - 30 * DAY)
    assert hotel.tell(CONFIRMED, first, "evt_first") == "duplicate"
    assert hotel.tell(CONFIRMED, first) == "ignored"  # the same booking under another event's id
    _work(hotel)
    with tenant(hotel.tenant_id):
        assert OutboxEvent.objects.filter(tenant_id=hotel.tenant_id).count() == rows_before
        assert KeyCredential.objects.filter(tenant_id=hotel.tenant_id).count() == 1
    assert len(locks.calls(hotel.doors["101"])) == calls_before
    check(hotel, mock_doors(locks, hotel), published=False)
