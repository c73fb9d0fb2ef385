"""Bookings for a whole estate, from a producer that keeps a record of what it sent, and the questions asked afterwards.

Rule: the producer knows nothing of what was consumed; after a loss it sends everything again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import timedelta

from credentials.models import KeyCredential
from lockservice.core.tenancy import queues, tenant
from sagas.bus.port import BusMessage, BusUnavailable, EventBus
from sagas.bus.topology import SERVICE_GROUP
from sagas.consumer import topics_by_urgency
from sagas.events.registry import spec
from sagas.models import OutboxEvent, Saga, SagaStep
from tests.chaos.conftest import mock_doors
from tests.chaos.estate import Estate, eventually
from tests.support.checkers import check
from tests.support.hotel import Hotel, full_subject
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

CONFIRMED = spec(full_subject("booking.confirmed")).topic or ""
STAY = timedelta(days=3)


class Producer:
    """The reservation service: `count` bookings over the hotels, `per_second` of them a second, from a thread of its own.

    `after` bookings were made by others before: no two of all these are in a room at one time.
    """

    def __init__(
        self, bus: EventBus, hotels: Sequence[Hotel], count: int, per_second: float = 1000.0, *, after: int = 0
    ) -> None:
        self._bus = bus
        self._pause_s = 1 / per_second
        self.record: list[BusMessage] = []
        for number in range(after, after + count):
            hotel, stay = hotels[number % len(hotels)], new_id("rsv")
            before, place = divmod(number // len(hotels), len(hotel.rooms))
            start = hotel.opened_at + before * STAY
            body = hotel.event(
                "booking.confirmed", hotel.booking(stay, 1, [sorted(hotel.rooms)[place]], start=start, end=start + STAY)
            )
            self.record.append(BusMessage(CONFIRMED, stay, body))
        bus.subscribe(topics_by_urgency(), SERVICE_GROUP)
        self._thread = threading.Thread(target=self.send, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, within_s: float = 120.0) -> None:
        self._thread.join(within_s)
        assert not self._thread.is_alive()

    def send(self) -> None:
        for message in self.record:
            self._publish([message])
            time.sleep(self._pause_s)

    def send_again(self) -> None:
        self._publish(self.record)

    def _publish(self, messages: list[BusMessage]) -> None:
        while True:
            try:
                self._bus.publish(messages)
                return
            except BusUnavailable:
                time.sleep(0.2)


def steps_done(hotels: Sequence[Hotel]) -> int:
    """Vendor calls recorded so far."""
    with queues():
        return SagaStep.objects.filter(tenant_id__in=[hotel.tenant_id for hotel in hotels]).count()


def claimed(hotels: Sequence[Hotel]) -> int:
    """Sagas whose call is under way."""
    with queues():
        return Saga.objects.filter(tenant_id__in=[hotel.tenant_id for hotel in hotels], status="running").count()


def open_work(hotels: Sequence[Hotel]) -> int:
    """Sagas that are not final."""
    with queues():
        rows = Saga.objects.filter(tenant_id__in=[hotel.tenant_id for hotel in hotels])
        return rows.exclude(status__in=("done", "dead")).count()


def issued(hotels: Sequence[Hotel]) -> int:
    """Keys that are active."""
    total = 0
    for hotel in hotels:
        with tenant(hotel.tenant_id):
            total += KeyCredential.objects.filter(tenant_id=hotel.tenant_id, state="active").count()
    return total


def unpublished(hotels: Sequence[Hotel]) -> int:
    with queues():
        rows = OutboxEvent.objects.filter(tenant_id__in=[hotel.tenant_id for hotel in hotels], published_at__isnull=True)
        return rows.count()


def told(hotels: Sequence[Hotel]) -> int:
    """Events that are on the bus."""
    with queues():
        rows = OutboxEvent.objects.filter(tenant_id__in=[hotel.tenant_id for hotel in hotels], published_at__isnull=False)
        return rows.count()


def wait_for_the_end(estate: Estate, hotels: Sequence[Hotel], keys: int, within_s: float) -> None:
    """Waits until all is consumed, worked and told."""
    bus = estate.bus()
    eventually(lambda: issued(hotels) == keys, within_s, f"{keys} keys issued")
    eventually(lambda: open_work(hotels) == 0, within_s, "no open saga")
    eventually(lambda: unpublished(hotels) == 0, within_s, "no event unpublished")
    eventually(lambda: not any(bus.depth(topic, SERVICE_GROUP) for topic in topics_by_urgency()), within_s, "bus empty")
    bus.close()


def nothing_lost_or_doubled(hotels: Sequence[Hotel], locks: MockLocks, keys: int) -> None:
    """One key for each booking, made once at its door; all else as `checkers` demand."""
    assert issued(hotels) == keys
    created = {row["device"]: row["created"] for row in locks.ask("/dump")["doors"]}
    assert sum(created.get(door, 0) for hotel in hotels for door in hotel.doors.values()) == keys
    for hotel in hotels:
        check(hotel, mock_doors(locks, hotel))
