"""The bus over Google Pub/Sub: production, and any server that speaks its wire.

Rule: the client's own silence is not trusted. Every publish waits for its answer, every failed key is resumed before the
error is told, every message held has a lease that is being extended.

publish      ordering keys on; no retry inside the client (with ordering it would retry for ever). A failed key is paused by
             the client, so nothing of it overtakes, and resumed here once all answers are in
receive      one long pull per topic into a small buffer; buffers are drained by priority
acknowledge  unary; the inbox row is the truth anyway
reject       the acknowledgement deadline is set to the delay (whole seconds), which also keeps the key waiting there
depth        a lower bound: what this process holds. The service tells the backlog only through Cloud Monitoring
             (``subscription/num_undelivered_messages``)

Topics and subscriptions come from ``topology``; in production ``provision_pubsub`` makes them, with local servers (which
forget everything) the bus makes what is missing on the way.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Sequence
from concurrent import futures
from threading import Condition

from google.api_core import exceptions as api
from google.cloud.pubsub_v1.publisher import exceptions as publishing  # type: ignore[import-untyped]

from sagas.bus import provisioning
from sagas.bus.held import Held, HeldDeliveries, handle_of
from sagas.bus.port import BusError, BusMessage, BusUnavailable, Delivery, check_messages
from sagas.bus.pubsub_clients import PubSubClients, bus_error, failures_named
from sagas.bus.pubsub_pulling import CALL_TIMEOUT_S, Awaited, LeaseKeeper, Puller, in_parts
from sagas.bus.topology import Topology, subscription_name

LONGEST_DELAY_S = 600
"""The longest acknowledgement deadline that Pub/Sub grants (Source: google.pubsub.v1 ModifyAckDeadlineRequest)."""


CANCELLED = "Batch cancelled"
"""How google-cloud-pubsub 2.44 begins the RuntimeError of a batch that was cancelled behind a failed one."""


class GooglePubSubBus:
    """See the module; implements ``sagas.bus.port.EventBus``.

    ``lease_s`` (whole seconds, 1 to 600): how long after its death a consumer's messages stay away.
    ``buffer_messages``: how many messages per topic this process takes ahead of its consumer.
    """

    depth_is_exact = False

    def __init__(
        self,
        project: str,
        *,
        topology: Topology,
        emulator_host: str | None = None,
        lease_s: int = 30,
        publish_timeout_s: float = 5.0,
        buffer_messages: int = 100,
        make_missing: bool = False,
    ) -> None:
        self._project = project
        self._topology = topology
        self._clients = PubSubClients(emulator_host)
        self._lease_s = lease_s
        self._publish_timeout_s = publish_timeout_s
        self._buffer_messages = buffer_messages
        self._make_missing = make_missing
        self._open()

    def _open(self) -> None:
        self._process = os.getpid()
        self._news = Condition()
        self._held = HeldDeliveries()
        self._keeper = LeaseKeeper(self._clients, self._lease_s)
        self._pullers: dict[tuple[str, str], Puller] = {}

    def _attend(self) -> None:
        """After a fork the child begins anew: the parent's threads and channels did not come along."""
        if self._process != os.getpid():
            self._open()

    # -- the protocol -------------------------------------------------------------------------------------------

    def publish(self, messages: Sequence[BusMessage]) -> None:
        self._attend()
        check_messages(messages)
        failures = self._publish_once(messages)
        if failures and self._make_missing and all(isinstance(one, api.NotFound) for one in failures.values()):
            for topic in {topic for topic, _ in failures}:
                self._make_topic(topic)
            failures = self._publish_once([one for one in messages if (one.topic, one.key) in failures])
        for (topic, _), failure in failures.items():
            raise bus_error(failure, f"publishing to {topic}") from failure

    def receive(self, topics: Sequence[str], group: str, consumer: str, max_messages: int, wait_s: float) -> list[Delivery]:
        self._attend()
        if not topics or max_messages < 1:
            raise ValueError("receive needs at least one topic and room for one message")
        pullers = [self._puller(topic, group) for topic in topics]
        until = time.monotonic() + wait_s
        with self._news:
            while True:
                deliveries = _take_by_priority(pullers, max_messages)
                if deliveries:
                    break
                for puller in pullers:
                    if puller.failure is not None:
                        raise puller.failure
                left_s = until - time.monotonic()
                if left_s <= 0:
                    return []
                self._news.wait(left_s)
            for delivery in deliveries:
                self._held.add(group, delivery)
        return deliveries

    def acknowledge(self, group: str, deliveries: Iterable[Delivery]) -> None:
        self._attend()
        by_topic: dict[str, list[Held]] = {}
        for delivery in deliveries:
            held = self._held.current(group, delivery)
            if held is not None:
                by_topic.setdefault(held.topic, []).append(held)
        for topic, all_held in by_topic.items():
            subscription = self._subscription_path(topic, group)
            ack_ids = [handle_of(held.receipt) for held in all_held]
            with failures_named(f"acknowledging for {topic}"):
                for ids in in_parts(ack_ids):
                    self._clients.subscriber.acknowledge(
                        request={"subscription": subscription, "ack_ids": ids}, timeout=CALL_TIMEOUT_S, retry=None
                    )
            self._let_go(group, subscription, all_held)

    def reject(self, group: str, deliveries: Iterable[Delivery], delay_s: float = 0.0) -> None:
        self._attend()
        seconds = min(LONGEST_DELAY_S, math.ceil(delay_s))
        for delivery in deliveries:
            topic = delivery.message.topic
            subscription = self._subscription_path(topic, group)
            with self._news:
                back = self._held.rejected_with_followers(group, delivery)
                if not back:
                    continue
                unseen = self._bar_the_key(group, back[0], seconds)
            ack_ids = [handle_of(held.receipt) for held in back] + unseen
            self._keeper.drop(subscription, ack_ids)
            with failures_named(f"rejecting for {topic}"):
                self._keeper.set_deadline(subscription, ack_ids, seconds)
            self._let_go(group, subscription, back)

    def subscribe(self, topics: Sequence[str], group: str) -> None:
        self._attend()
        for topic in topics:
            if self._make_missing:
                self._make_subscription(topic, group)
            else:
                with failures_named(f"looking for the subscription to {topic}, run provision_pubsub"):
                    self._clients.subscriber.get_subscription(
                        request={"subscription": self._subscription_path(topic, group)}, timeout=CALL_TIMEOUT_S, retry=None
                    )

    def depth(self, topic: str, group: str) -> int:
        self._attend()
        puller = self._puller(topic, group)
        with self._news:
            if puller.failure is not None:
                raise puller.failure
            return len(puller.buffer) + self._held.count(group, topic)

    def close(self) -> None:
        if self._process != os.getpid():
            return
        for (topic, group), puller in self._pullers.items():
            unseen = puller.stop()
            if unseen:
                self._give_back(self._subscription_path(topic, group), unseen)
        self._keeper.close()
        self._clients.close()
        for puller in self._pullers.values():
            puller.join()
        self._pullers.clear()

    # -- publishing ---------------------------------------------------------------------------------------------

    def _publish_once(self, messages: Sequence[BusMessage]) -> dict[tuple[str, str], BaseException]:
        """The first failure of each ``(topic, key)``. When this returns, every answer is in and no key is paused."""
        publisher = self._clients.publisher
        sent = [
            (
                (message.topic, message.key),
                publisher.publish(
                    self._topic_path(message.topic),
                    message.body,
                    ordering_key=message.key,
                    retry=None,
                    timeout=self._publish_timeout_s,
                    **message.attributes,
                ),
            )
            for message in messages
        ]
        failures: dict[tuple[str, str], BaseException] = {}
        until = time.monotonic() + 2 * self._publish_timeout_s
        for place, future in sent:
            try:
                future.result(timeout=max(0.001, until - time.monotonic()))
            except (api.GoogleAPICallError, publishing.PublishToPausedOrderingKeyException) as failure:
                failures.setdefault(place, failure)
            except RuntimeError as failure:
                # the client's bare word for a message that waited behind a failed one of its key and was not sent
                if CANCELLED not in str(failure):
                    raise
                failures.setdefault(place, publishing.PublishToPausedOrderingKeyException(place[1]))
            except futures.TimeoutError as failure:
                raise BusUnavailable(f"publishing to {place[0]}: no answer") from failure
        for topic, key in failures:
            if key:
                publisher.resume_publish(self._topic_path(topic), key)
        return failures

    # -- receiving ----------------------------------------------------------------------------------------------

    def _puller(self, topic: str, group: str) -> Puller:
        with self._news:
            puller = self._pullers.get((topic, group))
            if puller is None:
                puller = Puller(
                    self._clients,
                    self._keeper,
                    topic,
                    self._subscription_path(topic, group),
                    self._buffer_messages,
                    self._news,
                    (lambda: self._make_subscription(topic, group)) if self._make_missing else None,
                )
                self._pullers[topic, group] = puller
                puller.start()
            return puller

    def _bar_the_key(self, group: str, rejected: Held, seconds: int) -> list[str]:
        """Nothing of the key is handed out before the rejected message; returns what was buffered of it."""
        puller = self._pullers.get((rejected.topic, group))
        if puller is None or not rejected.key:
            return []
        due_at = time.monotonic() + seconds
        return puller.withdraw(rejected.key, Awaited(rejected.reference, due_at, due_at + self._lease_s))

    def _let_go(self, group: str, subscription: str, all_held: Iterable[Held]) -> None:
        for held in all_held:
            self._held.settle(group, held)
            self._keeper.drop(subscription, [handle_of(held.receipt)])

    def _give_back(self, subscription: str, ack_ids: list[str]) -> None:
        try:
            with failures_named("closing"):
                self._keeper.set_deadline(subscription, ack_ids, 0)
        except BusError:
            # Closing must not fail for it: the leases end by themselves and the messages come again.
            return

    # -- names and missing things -------------------------------------------------------------------------------

    def _topic_path(self, topic: str) -> str:
        return provisioning.topic_path(self._project, topic)

    def _subscription_path(self, topic: str, group: str) -> str:
        return provisioning.subscription_path(self._project, subscription_name(topic, group))

    def _make_topic(self, topic: str) -> None:
        wanted = [one for one in self._topology.subscriptions if one.topic == topic]
        self._provision(Topology((topic,), tuple(wanted)))

    def _make_subscription(self, topic: str, group: str) -> None:
        wanted = self._topology.subscription(topic, group)
        topics = {topic} | ({wanted.dead_letter_topic} if wanted.dead_letter_topic else set())
        self._provision(Topology(tuple(sorted(topics)), (wanted,)))

    def _provision(self, part: Topology) -> None:
        with failures_named("making what is missing"):
            provisioning.provision(part, self._clients, self._project)


def _take_by_priority(pullers: Sequence[Puller], room: int) -> list[Delivery]:
    taken: list[Delivery] = []
    for puller in pullers:
        taken += puller.take(room - len(taken))
        if len(taken) >= room:
            break
    return taken
