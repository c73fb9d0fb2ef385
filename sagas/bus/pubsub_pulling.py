"""Pulls one subscription each into a small buffer and keeps the leases of everything this process holds.

Rule: a message in this process is always under a live lease, or it is thrown away and left to the broker.

Why long unary pulls, not the client's streaming pull: a stream can fall silent without an error and then needs a
watchdog, a pull has an end; the buffer is ours, so its size is the flow control and its contents can be given back when
an earlier message of the same key is rejected; and one thread per topic is all it takes.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Condition, Event, Thread
from typing import Any

from google.api_core import exceptions as api

from sagas.bus.held import receipt_of, reference_of
from sagas.bus.port import BusError, BusMessage, Delivery
from sagas.bus.pubsub_clients import PubSubClients, bus_error

log = logging.getLogger(__name__)

PULL_TIMEOUT_S = 100.0
"""Above what the service waits itself (about 90 s; assumed, it is not documented as a number), so that no answer is on
its way when we hang up: such messages would wait for their whole deadline."""

CALL_TIMEOUT_S = 5.0
IDS_PER_CALL = 500
"""An acknowledgement request may have 512 KiB; an id takes up to about 200 bytes."""

LONGEST_HOLD_S = 600.0
"""A consumer that holds a delivery longer than this hangs; its messages go to another."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0


@dataclass(slots=True)
class Lease:
    """The right to one delivery until ``until`` (monotonic seconds)."""

    ack_id: str
    taken_at: float
    until: float


@dataclass(slots=True)
class Waiting:
    """A pulled delivery that nobody has been given yet."""

    delivery: Delivery
    lease: Lease


@dataclass(frozen=True, slots=True)
class Awaited:
    """A rejected message that must come before anything else of its key. Monotonic seconds.

    Answers to a pull may be under way while a message is rejected, and they hold later messages of its key. They are
    turned back until the rejected one is here, or until ``given_up_at``: another process may have got it.
    """

    reference: str
    due_at: float
    given_up_at: float


class LeaseKeeper:
    """Extends the leases of all messages that this process holds, every third of their length."""

    def __init__(self, clients: PubSubClients, lease_s: int) -> None:
        self._clients = clients
        self._lease_s = lease_s
        self._changed = Condition()
        self._leases: dict[str, dict[str, Lease]] = {}
        self._closing = Event()
        self._thread: Thread | None = None

    def take(self, subscription: str, ack_ids: list[str]) -> list[Lease]:
        """Puts fresh deliveries under our own lease length. Raises what the client raises."""
        now = time.monotonic()
        self.set_deadline(subscription, ack_ids, self._lease_s)
        leases = [Lease(ack_id, now, now + self._lease_s) for ack_id in ack_ids]
        with self._changed:
            self._leases.setdefault(subscription, {}).update((lease.ack_id, lease) for lease in leases)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="bus-leases", daemon=True)
                self._thread.start()
        return leases

    def drop(self, subscription: str, ack_ids: Iterable[str]) -> None:
        with self._changed:
            held = self._leases.get(subscription, {})
            for ack_id in ack_ids:
                held.pop(ack_id, None)

    def set_deadline(self, subscription: str, ack_ids: list[str], seconds: int) -> None:
        """Zero seconds gives the messages back at once. Raises what the client raises."""
        for ids in in_parts(ack_ids):
            self._clients.subscriber.modify_ack_deadline(
                request={"subscription": subscription, "ack_ids": ids, "ack_deadline_seconds": seconds},
                timeout=CALL_TIMEOUT_S,
                retry=None,
            )

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * CALL_TIMEOUT_S)

    def _run(self) -> None:
        while not self._closing.wait(self._lease_s / 3):
            for subscription in list(self._leases):
                try:
                    self._extend(subscription)
                except Exception:
                    # Leases that are not extended end, and the broker hands their messages out again.
                    log.exception("bus leases not extended", extra={"subscription": subscription})

    def _extend(self, subscription: str) -> None:
        now = time.monotonic()
        with self._changed:
            held = self._leases[subscription]
            for lease in [one for one in held.values() if now - one.taken_at > LONGEST_HOLD_S]:
                del held[lease.ack_id]
            leases = list(held.values())
        if not leases:
            return
        try:
            self.set_deadline(subscription, [lease.ack_id for lease in leases], self._lease_s)
        except api.GoogleAPICallError as failure:
            # Not ours to repair: the broker hands these messages out again, which at least once allows for.
            log.warning("bus leases not extended", extra={"subscription": subscription, "error": type(failure).__name__})
            return
        for lease in leases:
            lease.until = now + self._lease_s


@dataclass(slots=True)
class Puller:
    """One thread that fills the buffer of one subscription. All shared state is guarded by ``news``."""

    clients: PubSubClients
    keeper: LeaseKeeper
    topic: str
    subscription: str
    buffer_size: int
    news: Condition
    make_missing: Callable[[], None] | None
    failure: BusError | None = None
    buffer: deque[Waiting] = field(default_factory=deque)
    awaited: dict[str, Awaited] = field(default_factory=dict)
    _closing: bool = False
    _thread: Thread | None = None

    def start(self) -> None:
        self._thread = Thread(target=self._run, name=f"bus-pull-{self.topic}", daemon=True)
        self._thread.start()

    def take(self, room: int) -> list[Delivery]:
        """Up to ``room`` buffered deliveries whose lease is alive. Call while holding ``news``."""
        taken: list[Delivery] = []
        now = time.monotonic()
        while self.buffer and len(taken) < room:
            waiting = self.buffer.popleft()
            if waiting.lease.until > now:
                taken.append(waiting.delivery)
            else:
                self.keeper.drop(self.subscription, [waiting.lease.ack_id])
        if taken:
            self.news.notify_all()  # there is room again
        return taken

    def withdraw(self, key: str, awaited: Awaited) -> list[str]:
        """Removes buffered messages of a key and lets none in before the awaited one; returns the acknowledgement ids of
        what was removed. Call while holding ``news``."""
        self.awaited[key] = awaited
        withdrawn = [waiting for waiting in self.buffer if waiting.delivery.message.key == key]
        for waiting in withdrawn:
            self.buffer.remove(waiting)
        return [waiting.lease.ack_id for waiting in withdrawn]

    def stop(self) -> list[str]:
        """Asks the thread to end; returns the acknowledgement ids of what was buffered."""
        with self.news:
            self._closing = True
            left = [waiting.lease.ack_id for waiting in self.buffer]
            self.buffer.clear()
            self.news.notify_all()
        return left

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while (room := self._wait_for_room()) > 0:
            try:
                self._pull(room)
            except api.DeadlineExceeded:
                self._report(None)  # nothing came in all that time
            except api.NotFound as failure:
                self._report(self._repair(failure))
            except (api.GoogleAPICallError, ValueError) as failure:  # ValueError: the channel was closed under us
                self._report(bus_error(failure, f"receiving from {self.topic}"))
            except Exception as failure:  # the consumer is told, and the thread goes on
                log.exception("bus pull failed", extra={"topic": self.topic})
                self._report(bus_error(failure, f"receiving from {self.topic}"))
            else:
                self._report(None)
            pause_s = FIRST_PAUSE_S if self.failure is None else min(LONGEST_PAUSE_S, 2 * pause_s)
            self._pause(pause_s)

    def _wait_for_room(self) -> int:
        """Room in the buffer, waiting until half of it is free; 0 when closing."""
        with self.news:
            self.news.wait_for(lambda: self._closing or len(self.buffer) <= self.buffer_size // 2)
            return 0 if self._closing else self.buffer_size - len(self.buffer)

    def _pull(self, room: int) -> None:
        answer = self.clients.subscriber.pull(
            request={"subscription": self.subscription, "max_messages": room}, timeout=PULL_TIMEOUT_S, retry=None
        )
        received = type(answer).pb(answer).received_messages  # the raw messages: wrapping each costs more than all else
        if not received:
            return
        leases = self.keeper.take(self.subscription, [one.ack_id for one in received])
        turned_back: dict[int, list[str]] = {}
        with self.news:
            for one, lease in zip(received, leases, strict=True):
                delivery = delivery_from(self.topic, one)
                wait_s = self._must_wait_s(delivery)
                if wait_s is None and not self._closing:
                    self.buffer.append(Waiting(delivery, lease))
                else:
                    turned_back.setdefault(wait_s or 0, []).append(lease.ack_id)
            self.news.notify_all()
        for wait_s, ack_ids in turned_back.items():
            self.keeper.drop(self.subscription, ack_ids)
            self.keeper.set_deadline(self.subscription, ack_ids, wait_s)

    def _must_wait_s(self, delivery: Delivery) -> int | None:
        """Whole seconds after which to come again, for a message that would overtake a rejected one; else None."""
        awaited = self.awaited.get(delivery.message.key)
        if awaited is None:
            return None
        now = time.monotonic()
        if now > awaited.given_up_at or reference_of(delivery.receipt) == awaited.reference:
            del self.awaited[delivery.message.key]
            return None
        return max(0, math.ceil(awaited.due_at - now))

    def _repair(self, failure: api.NotFound) -> BusError | None:
        if self.make_missing is None:
            return bus_error(failure, f"receiving from {self.topic}, run provision_pubsub")
        try:
            self.make_missing()
        except BusError as second:
            return second
        except Exception as second:
            log.exception("bus repair failed", extra={"topic": self.topic})
            return bus_error(second, f"making the subscription to {self.topic}")
        return None

    def _report(self, failure: BusError | None) -> None:
        with self.news:
            self.failure = None if self._closing else failure
            self.news.notify_all()

    def _pause(self, pause_s: float) -> None:
        if self.failure is not None:
            with self.news:
                self.news.wait_for(lambda: self._closing, timeout=pause_s)


def delivery_from(topic: str, received: Any) -> Delivery:
    """A delivery from a raw ``ReceivedMessage``. Without a dead-letter policy the service does not count attempts."""
    message = received.message
    return Delivery(
        BusMessage(topic, message.ordering_key, message.data, dict(message.attributes)),
        receipt_of(message.message_id, received.ack_id),
        max(1, received.delivery_attempt),
    )


def in_parts(ids: list[str]) -> Iterable[list[str]]:
    return (ids[start : start + IDS_PER_CALL] for start in range(0, len(ids), IDS_PER_CALL))
