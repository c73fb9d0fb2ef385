"""One life of the service on a stage: consumer, runner and publisher worked in turn by one thread, with crash points.

Rule: the parts are the product's own; only their seams are ours (the bus handed in, the pool that makes vendor calls, the
database backend). Worked in turn, a flow reaches the same points every time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from credentials import artifacts
from credentials.models import CredentialDoor, KeyCredential, Reservation
from lockservice.core.tenancy import queues, tenant
from sagas.bus.port import BusMessage, Delivery, EventBus
from sagas.bus.redis_streams import RedisStreamsBus
from sagas.bus.topology import SERVICE_GROUP
from sagas.consumer import Consumer, topics_by_urgency
from sagas.events.registry import spec
from sagas.models import InboxMessage, OutboxEvent, Saga
from sagas.publisher import Publisher
from sagas.runner import Runner
from tests.support import crash_points
from tests.support.hotel import Hotel, full_subject

QUIET_S = 40.0


class NotQuiet(AssertionError):
    """Work was left after QUIET_S."""


class SweepBus(RedisStreamsBus):
    """The bus with one question more."""

    def depths(self, topics: Sequence[str]) -> dict[str, int]:
        """Return the depth of each topic in one round trip. Each has been subscribed to."""
        pipeline = self._redis.pipeline(transaction=False)
        for topic in topics:
            pipeline.xinfo_groups(self._stream(topic))
        return {topic: self._depth(topic, groups) for topic, groups in zip(topics, pipeline.execute(), strict=True)}

    def _depth(self, topic: str, groups: list[dict[str, Any]]) -> int:
        (group,) = [row for row in groups if row["name"] == SERVICE_GROUP.encode()]
        if group["lag"] is None:  # the server cannot tell after some deletions
            return self.depth(topic, SERVICE_GROUP)
        return int(group["pending"]) + int(group["lag"])


class CountedBus:
    """A bus with a crash point around each publish and each acknowledgement."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self.depth_is_exact = bus.depth_is_exact

    def publish(self, messages: Sequence[BusMessage]) -> None:
        crash_points.reach("before publish")
        self._bus.publish(messages)
        crash_points.leave_trace()
        crash_points.reach("after publish")

    def receive(self, topics: Sequence[str], group: str, consumer: str, max_messages: int, wait_s: float) -> list[Delivery]:
        crash_points.leave_trace()  # what is received belongs to this consumer
        return self._bus.receive(topics, group, consumer, max_messages, wait_s)

    def acknowledge(self, group: str, deliveries: Iterable[Delivery]) -> None:
        self._bus.acknowledge(group, deliveries)
        crash_points.leave_trace()
        crash_points.reach("after acknowledge")

    def reject(self, group: str, deliveries: Iterable[Delivery], delay_s: float = 0.0) -> None:
        self._bus.reject(group, deliveries, delay_s)
        crash_points.leave_trace()

    def subscribe(self, topics: Sequence[str], group: str) -> None:
        self._bus.subscribe(topics, group)

    def depth(self, topic: str, group: str) -> int:
        return self._bus.depth(topic, group)

    def close(self) -> None:
        self._bus.close()


class CallsInTurn(Executor):
    """Makes each vendor call at once, with a crash point before and after it. `while_out` runs once while the answer to the
    first call of its verb is still out."""

    def __init__(self) -> None:
        self.while_out: dict[str, Callable[[], None]] = {}
        self.made = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        verb = str(args[0].verb)
        crash_points.working_as("act")
        crash_points.reach(f"before {verb}")
        answer = fn(*args, **kwargs)
        crash_points.leave_trace()
        self.made += 1
        interruption = self.while_out.pop(verb, None)
        if interruption is not None:
            interruption()
        crash_points.working_as("act")
        crash_points.reach(f"after {verb}")
        crash_points.working_as("runner")
        done: Future[Any] = Future()
        done.set_result(answer)
        return done


class Stage:
    """The service's processes and the hotel it works for."""

    def __init__(self, hotel: Hotel, memo: dict[str, Any], bus: SweepBus) -> None:
        self.hotel = hotel
        self.memo = memo
        self.raw_bus = bus
        self.bus = CountedBus(bus)
        self.calls = CallsInTurn()
        self.runner = Runner(pool=self.calls, release_s=0)
        self.publisher = Publisher(self.bus)

    # -- the world outside

    def tell(self, subject: str, data: dict[str, Any]) -> None:
        """Another service publishes an event of this hotel."""
        topic = spec(full_subject(subject)).topic or ""
        key = str(data.get("reservationId", data.get("propertyId", "")))
        self.raw_bus.publish([BusMessage(topic, key, self.hotel.event(subject, data))])

    def keys(self) -> list[KeyCredential]:
        with tenant(self.hotel.tenant_id):
            return list(KeyCredential.objects.filter(tenant_id=self.hotel.tenant_id).order_by("id"))

    # -- the service

    def settle(self, topics: Sequence[str] | None = None) -> None:
        """Works until nothing is left: no message (of the topics), no open saga, no unpublished event.

        Part after part, and retries only when nothing else is left, so that a slower machine changes no order.
        """
        ends = time.monotonic() + QUIET_S
        while self._left(topics):
            self.consume_all(topics or topics_by_urgency())
            self._work("runner", self.runner.round, self._open_sagas, ends)
            self._work("publisher", lambda: bool(self.publisher.round()), self._unpublished, ends)
        crash_points.working_as("runner")
        self.runner.run(until=lambda: True)
        crash_points.working_as("publisher")
        self.publisher.run(until=lambda: True)
        self.runner = Runner(pool=self.calls, release_s=0)
        self.publisher = Publisher(self.bus)

    def consume_all(self, topics: Sequence[str]) -> None:
        """Takes what waits in the topics, for as long as it takes a dead consumer's share to come back."""
        consumer = Consumer(self.bus, topics=topics)
        crash_points.working_as("consumer")
        while self._waiting(topics):
            consumer.round(0.05)

    def _work(self, part: str, work: Callable[[], bool], left: Callable[[], list[str]], ends: float) -> None:
        crash_points.working_as(part)
        while work() or left():
            if time.monotonic() > ends:
                raise NotQuiet(f"left after {QUIET_S} s: {left()}")
            if part == "runner":
                with crash_points.paused():
                    self._hold_retries(let_go=all(" is retry" in saga for saga in left()))

    def _hold_retries(self, *, let_go: bool) -> None:
        """Retries (fractions of a second to minutes in life) come when nothing else is left and never by themselves, so that no
        run differs from another because the machine is slower."""
        waiting = {"tenant_id": self.hotel.tenant_id, "due_at__isnull": False}
        due_at = self.hotel.opened_at if let_go else datetime.now(UTC) + timedelta(days=1)
        with queues():
            Saga.objects.filter(**waiting, status="retry").update(due_at=due_at)
        if let_go:
            with tenant(self.hotel.tenant_id):
                CredentialDoor.objects.filter(**waiting).update(due_at=due_at)

    def _left(self, topics: Sequence[str] | None) -> list[str]:
        return self._waiting(topics or topics_by_urgency()) + self._open_sagas() + self._unpublished()

    def _waiting(self, topics: Sequence[str]) -> list[str]:
        """The topics with messages that are not acknowledged; asked in one go, since it is asked so often."""
        with crash_points.paused():
            return [topic for topic, count in self.raw_bus.depths(topics).items() if count]

    def _open_sagas(self) -> list[str]:
        with tenant(self.hotel.tenant_id):
            rows = Saga.objects.filter(tenant_id=self.hotel.tenant_id).exclude(status__in=("done", "dead"))
            return [f"{flow} is {status}" for flow, status in rows.values_list("flow", "status")]

    def _unpublished(self) -> list[str]:
        with tenant(self.hotel.tenant_id):
            rows = OutboxEvent.objects.filter(tenant_id=self.hotel.tenant_id, published_at__isnull=True)
            return [f"unpublished {subject}" for subject in rows.values_list("subject", flat=True)]


def let_leases_run_out() -> None:
    """Time passes: whatever a dead process held is free (eight seconds in life)."""
    with queues(), connection.cursor() as cursor:
        for table in ("sagas_lane", "sagas_relayshard"):
            cursor.execute(
                f"UPDATE {table} SET lease_until = clock_timestamp() - interval '1 second' WHERE lease_until IS NOT NULL"
            )


def project(stage: Stage) -> dict[str, Any]:
    """The state of one hotel as far as it must not depend on where a process died: no ids, no instants, no counters of tries."""
    hotel, since = stage.hotel, stage.hotel.opened_at
    labels = {device: label for label, device in hotel.devices.items()}
    rooms = {room: label for label, room in hotel.rooms.items()}
    with tenant(hotel.tenant_id):
        keys = list(KeyCredential.objects.filter(tenant_id=hotel.tenant_id))
        order = {key.id: number for number, key in enumerate(sorted(keys, key=_birth))}
        current = artifacts.current(hotel.tenant_id, order)
        story: dict[str, list[str]] = {}
        for row in OutboxEvent.objects.filter(tenant_id=hotel.tenant_id).order_by("ordering_key", "sequence"):
            story.setdefault(row.ordering_key, []).append(row.subject.removeprefix("melmastoon.lock."))
        told = InboxMessage.objects.filter(tenant_id=hotel.tenant_id).values_list("consumer", "subject", "outcome")
        return {
            "credentials": [
                {
                    "installation": _labels_of(hotel, key, labels),
                    "state": key.state,
                    "kind": key.kind,
                    "waiting": key.waiting_for,
                    "incarnation": key.incarnation,
                    "rooms": sorted(rooms[room] for room in key.rooms),
                    "window": _window(since, key.valid_from, key.valid_until),
                    "reasons": [key.suspend_reason, key.revoke_reason, key.failure_code],
                    "propagation": key.propagation,
                    "open": key.open_work,
                    "resuming": key.resuming,
                    "replaces": order.get(key.replaces or ""),
                    "replacedBy": order.get(key.replaced_by or ""),
                    "warnings": sorted(warning["code"] for warning in key.warnings),
                    "artifact": key.id in current,
                    "events": story.get(key.id, []),
                    "doors": sorted(
                        [labels[door.device_id], door.state, door.dropped, door.verb, *_carried(since, door)]
                        for door in key.doors.all()
                    ),
                }
                for key in sorted(keys, key=_birth)
            ],
            "bookings": [
                [row.status, row.version, row.incarnation, sorted(rooms[r] for r in row.rooms), row.payment_status]
                for row in Reservation.objects.filter(tenant_id=hotel.tenant_id)
            ],
            "sagas": sorted(Saga.objects.filter(tenant_id=hotel.tenant_id).values_list("flow", "status")),
            "inbox": sorted(told),
        }


def _birth(key: KeyCredential) -> tuple[Any, ...]:
    return (key.incarnation, key.replaces is not None, sorted(key.rooms), key.id)


def _labels_of(hotel: Hotel, key: KeyCredential, labels: dict[str, str]) -> list[str]:
    return sorted(labels[door.device_id] for door in key.doors.all() if not door.dropped)


def _window(since: datetime, start: datetime | None, end: datetime | None) -> list[float] | None:
    if start is None or end is None:
        return None
    return [(start - since) / timedelta(seconds=1), (end - since) / timedelta(seconds=1)]


def _carried(since: datetime, door: Any) -> list[Any]:
    return [_window(since, door.carried_from, door.carried_until), door.propagation, door.error_code]
