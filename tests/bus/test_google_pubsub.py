"""What only the Pub/Sub bus does: leases, dead letters, missing topics, a server that fails on purpose."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from google.cloud import pubsub_v1

from sagas.bus.google_pubsub import GooglePubSubBus
from sagas.bus.port import BusMessage, BusMisconfigured, BusUnavailable, Delivery
from sagas.bus.pubsub_clients import PubSubClients
from sagas.bus.topology import SubscriptionDeclaration, Topology
from tests.support.brokers import LEASE_S, PROJECT, PubSubBroker, new_topic
from tests.support.pubsub_servers import own_server

GROUP = "group"


def _make(broker: PubSubBroker, topology: Topology | None = None, *, make_missing: bool = True) -> GooglePubSubBus:
    return GooglePubSubBus(
        PROJECT,
        topology=topology or Topology((), ()),
        emulator_host=broker.host,
        lease_s=LEASE_S,
        publish_timeout_s=2.0,
        make_missing=make_missing,
    )


@pytest.fixture
def bus(pubsub_broker: PubSubBroker) -> Iterator[GooglePubSubBus]:
    made = _make(pubsub_broker)
    yield made
    made.close()


def _take_one(bus: GooglePubSubBus, topic: str, wait_s: float = 10.0) -> Delivery:
    [delivery] = bus.receive([topic], GROUP, "c1", 1, wait_s)
    return delivery


def test_a_slow_consumer_keeps_its_message_as_long_as_it_lives(bus: GooglePubSubBus, pubsub_broker: PubSubBroker) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bus.publish([BusMessage(topic, "k", b"slow")])
    held = _take_one(bus, topic)
    other = _make(pubsub_broker)
    assert other.receive([topic], GROUP, "c2", 1, 2.5 * LEASE_S) == []
    bus.acknowledge(GROUP, [held])
    assert other.receive([topic], GROUP, "c2", 1, LEASE_S) == []
    other.close()


def test_messages_taken_ahead_go_back_when_the_bus_closes(bus: GooglePubSubBus, pubsub_broker: PubSubBroker) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bus.publish([BusMessage(topic, f"k{number}", str(number).encode()) for number in range(20)])
    early = _make(pubsub_broker)
    early.acknowledge(GROUP, [_take_one(early, topic)])
    assert early.depth(topic, GROUP) > 0
    early.close()
    bodies: set[bytes] = set()
    until = time.monotonic() + 20
    while len(bodies) < 19 and time.monotonic() < until:
        got = bus.receive([topic], GROUP, "c2", 20, 1.0)
        bus.acknowledge(GROUP, got)
        bodies |= {one.message.body for one in got}
    assert len(bodies) == 19


def test_a_message_rejected_too_often_ends_in_the_dead_letter_topic(pubsub_broker: PubSubBroker) -> None:
    topic = new_topic()
    dead = f"{topic}.dlq"
    poisoned = SubscriptionDeclaration(
        topic, GROUP, dead_letter_topic=dead, max_delivery_attempts=5, minimum_backoff_s=0.01, maximum_backoff_s=0.01
    )
    bus = _make(pubsub_broker, Topology((topic, dead), (poisoned, SubscriptionDeclaration(dead, GROUP, ordered=False))))
    bus.subscribe([topic, dead], GROUP)
    bus.publish([BusMessage(topic, "k", b"poison", {"eventId": "evt_1"})])
    attempts = []
    for _ in range(5):
        delivery = _take_one(bus, topic)
        attempts.append(delivery.attempt)
        bus.reject(GROUP, [delivery], 0.0)
    letter = _take_one(bus, dead)
    bus.acknowledge(GROUP, [letter])
    assert bus.receive([topic], GROUP, "c1", 1, 0.3) == []
    bus.close()
    assert attempts == [1, 2, 3, 4, 5]
    assert (letter.message.body, letter.message.key, letter.message.attributes["eventId"]) == (b"poison", "k", "evt_1")
    assert letter.message.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"
    assert letter.message.attributes["CloudPubSubDeadLetterSourceSubscription"] == poisoned.name


def test_without_provisioning_the_missing_topic_is_named_and_not_made(pubsub_broker: PubSubBroker) -> None:
    topic = new_topic()
    strict = _make(pubsub_broker, make_missing=False)
    with pytest.raises(BusMisconfigured) as refusal:
        strict.publish([BusMessage(topic, "k", b"x")])
    assert (refusal.value.retriable, topic in str(refusal.value)) == (False, True)
    with pytest.raises(BusMisconfigured):
        strict.subscribe([topic], GROUP)
    with pytest.raises(BusMisconfigured):
        strict.receive([topic], GROUP, "c1", 1, 5.0)
    strict.close()
    clients = PubSubClients(pubsub_broker.host)
    topics = {one.name for one in clients.publisher.list_topics(request={"project": f"projects/{PROJECT}"})}
    clients.close()
    assert f"projects/{PROJECT}/topics/{topic}" not in topics


@pytest.fixture
def faulty() -> Iterator[PubSubBroker]:
    started = PubSubBroker(own_server("publish_unavailable=0.1,publish_answer_lost=0.1,acknowledge_unavailable=0.1", seed=7))
    yield started
    started.stop()


def _publish_until_taken(bus: GooglePubSubBus, batch: list[BusMessage]) -> int:
    for failures in range(1000):
        try:
            bus.publish(batch)
        except BusUnavailable:
            continue
        return failures
    raise AssertionError("never taken")


def test_a_server_that_refuses_and_loses_answers_costs_repetitions_but_no_order(faulty: PubSubBroker) -> None:
    topic, bus = new_topic(), _make(faulty)
    bus.subscribe([topic], GROUP)
    failures = 0
    for start in range(0, 60, 6):
        failures += _publish_until_taken(
            bus, [BusMessage(topic, f"k{number % 3}", str(number).encode()) for number in range(start, start + 6)]
        )
    seen: dict[str, list[int]] = {"k0": [], "k1": [], "k2": []}
    refused_acknowledgements = 0
    until = time.monotonic() + 30
    while sum(map(len, seen.values())) < 60 and time.monotonic() < until:
        for delivery in bus.receive([topic], GROUP, "c1", 20, 1.0):
            number = int(delivery.message.body)
            if number not in seen[delivery.message.key]:
                seen[delivery.message.key].append(number)
            try:
                bus.acknowledge(GROUP, [delivery])
            except BusUnavailable:
                refused_acknowledgements += 1
                bus.reject(GROUP, [delivery], 0.0)
    bus.close()
    assert seen == {f"k{remainder}": list(range(remainder, 60, 3)) for remainder in range(3)}
    assert failures > 0
    assert refused_acknowledgements > 0


def test_a_consumer_killed_while_holding_loses_nothing_to_the_dead_letter_topic(
    bus: GooglePubSubBus, pubsub_broker: PubSubBroker
) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bus.publish([BusMessage(topic, f"k{number}", str(number).encode()) for number in range(5)])
    child = pubsub_broker.child("hold", topic, GROUP, "doomed", "5")
    assert child.stdout is not None
    assert len(json.loads(child.stdout.readline())) == 5
    child.kill()
    child.wait(10)
    child.stdout.close()
    bodies: set[bytes] = set()
    until = time.monotonic() + 20
    while len(bodies) < 5 and time.monotonic() < until:
        got = bus.receive([topic], GROUP, "heir", 5, 1.0)
        bus.acknowledge(GROUP, got)
        bodies |= {one.message.body for one in got}
    assert bodies == {b"0", b"1", b"2", b"3", b"4"}


def test_an_outsider_with_the_plain_client_reads_what_the_bus_published(
    bus: GooglePubSubBus, pubsub_broker: PubSubBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bus.publish([BusMessage(topic, "key_1", b"{}", {"tenantId": "tnt_1"})])
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub_broker.host)
    with pubsub_v1.SubscriberClient() as client:
        path = client.subscription_path(PROJECT, f"{topic}.{GROUP}")
        [received] = client.pull(request={"subscription": path, "max_messages": 10}, timeout=10).received_messages
        client.acknowledge(request={"subscription": path, "ack_ids": [received.ack_id]})
    message = received.message
    assert (message.data, message.ordering_key, dict(message.attributes)) == (b"{}", "key_1", {"tenantId": "tnt_1"})
