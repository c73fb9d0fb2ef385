"""What every bus promises, shown on Redis Streams, on our own Pub/Sub server and on Google's emulator."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import pytest

from sagas.bus.port import MAX_MESSAGE_BYTES, BusMessage, BusUnavailable, Delivery, EventBus, MessageRefused
from tests.support.brokers import LEASE_S, Broker, new_topic

GROUP = "group"
PATIENCE_S = 30.0


def _bodies(deliveries: Iterable[Delivery]) -> list[bytes]:
    return [delivery.message.body for delivery in deliveries]


def _receive(bus: EventBus, topic: str, count: int, *, group: str = GROUP, consumer: str = "c1") -> list[Delivery]:
    """Exactly ``count`` deliveries, acknowledged by nobody yet."""
    got: list[Delivery] = []
    until = time.monotonic() + PATIENCE_S
    while len(got) < count and time.monotonic() < until:
        got += bus.receive([topic], group, consumer, count - len(got), 1.0)
    assert len(got) == count
    return got


def _drain(bus: EventBus, topic: str, count: int, *, group: str = GROUP) -> list[bytes]:
    """Bodies of the next ``count`` deliveries, acknowledged as they come."""
    bodies: list[bytes] = []
    until = time.monotonic() + PATIENCE_S
    while len(bodies) < count and time.monotonic() < until:
        got = bus.receive([topic], group, "c1", 100, 1.0)
        bus.acknowledge(group, got)
        bodies += _bodies(got)
    return bodies


def _nothing_comes(bus: EventBus, topic: str, *, for_s: float = 0.4, group: str = GROUP) -> bool:
    return bus.receive([topic], group, "c1", 10, for_s) == []


def _until_it_works(act: Callable[[], object]) -> float:
    """Seconds until ``act`` stops raising BusUnavailable."""
    started = time.monotonic()
    while True:
        try:
            act()
        except BusUnavailable:
            assert time.monotonic() - started < PATIENCE_S
            time.sleep(0.05)
        else:
            return time.monotonic() - started


def test_a_message_arrives_as_it_was_sent_and_once(bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    sent = BusMessage(topic, "rsv_1", b'{"a":1}', {"eventId": "evt_1", "tenantId": "tnt_1", "name": "نور"})
    bus.publish([sent])
    [got] = _receive(bus, topic, 1)
    assert (got.message, got.attempt) == (sent, 1)
    bus.acknowledge(GROUP, [got])
    assert _nothing_comes(bus, topic, for_s=LEASE_S + 1.0)
    assert bus.depth(topic, GROUP) == 0


def test_an_empty_batch_sends_nothing_and_an_idle_topic_gives_nothing(bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bus.publish([])
    started = time.monotonic()
    assert bus.receive([topic], GROUP, "c1", 10, 0.5) == []
    assert 0.4 < time.monotonic() - started < 5.0


def test_a_waiting_consumer_gets_a_new_message_at_once(bus: EventBus) -> None:
    topic = new_topic()
    _nothing_comes(bus, topic)
    received_at: list[float] = []

    def consume() -> None:
        bus.acknowledge(GROUP, bus.receive([topic], GROUP, "c1", 1, 10.0))
        received_at.append(time.monotonic())

    consumer = threading.Thread(target=consume)
    consumer.start()
    time.sleep(0.5)
    published_at = time.monotonic()
    bus.publish([BusMessage(topic, "k", b"now")])
    consumer.join(10)
    assert received_at[0] - published_at < 0.5


def test_binary_bodies_of_a_megabyte_arrive_whole(bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bodies = [bytes(range(256)), os.urandom(1_000_000), os.urandom(5_000_000), b"\x00"]
    bus.publish([BusMessage(topic, "big", body) for body in bodies])
    assert _drain(bus, topic, 4) == bodies


@pytest.mark.parametrize(
    "refused",
    [
        BusMessage("t", "k", b"x" * (MAX_MESSAGE_BYTES + 1)),
        BusMessage("t", "k" * 1025, b"x"),
        BusMessage("t", "k", b""),
        BusMessage("t", "k", b"x", {"goog-secret": "1"}),
        BusMessage("t", "k", b"x", {"topic": "1"}),
        BusMessage("t", "k", b"x", {"name": "v" * 1025}),
        BusMessage("t", "k", b"x", {f"n{number}": "v" for number in range(101)}),
        BusMessage("", "k", b"x"),
    ],
    ids=["body", "key", "empty", "google's name", "client's name", "long value", "101 attributes", "no topic"],
)
def test_a_message_beyond_the_limits_is_refused_and_its_neighbours_are_not_sent(bus: EventBus, refused: BusMessage) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    with pytest.raises(MessageRefused) as refusal:
        bus.publish([BusMessage(topic, "k", b"neighbour"), refused])
    assert refusal.value.retriable is False
    assert _nothing_comes(bus, topic, for_s=0.2)


def test_messages_stay_in_order_per_key_with_one_rejected_in_the_middle(bus: EventBus) -> None:
    topic, keys = new_topic(), [f"rsv_{number}" for number in range(5)]
    bus.subscribe([topic], GROUP)
    messages = [BusMessage(topic, key, str(number).encode()) for number in range(200) for key in keys]
    for start in range(0, len(messages), 100):
        bus.publish(messages[start : start + 100])
    accepted: dict[str, list[int]] = defaultdict(list)
    rejections = 0
    until = time.monotonic() + PATIENCE_S
    while sum(map(len, accepted.values())) < 1000 and time.monotonic() < until:
        waiting_keys: set[str] = set()
        for delivery in bus.receive([topic], GROUP, "c1", 50, 1.0):
            key, number = delivery.message.key, int(delivery.message.body)
            if key in waiting_keys:
                continue
            if (key, number) == ("rsv_2", 100) and not rejections:
                bus.reject(GROUP, [delivery], 0.0)
                rejections += 1
                waiting_keys.add(key)
                continue
            # Pub/Sub may bring acknowledged messages of a rejected key once more, but never leaves one out.
            if number not in accepted[key]:
                accepted[key].append(number)
            bus.acknowledge(GROUP, [delivery])
    assert rejections == 1
    assert accepted == {key: list(range(200)) for key in keys}


def test_later_messages_of_a_rejected_key_go_back_behind_it(bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bus.publish([BusMessage(topic, "k", str(number).encode()) for number in range(5)])
    first = bus.receive([topic], GROUP, "c1", 5, 5.0)
    bus.reject(GROUP, first[:1], 0.0)
    bus.acknowledge(GROUP, first[1:])  # void receipts: nothing is lost, nothing overtakes
    assert _drain(bus, topic, 5) == [b"0", b"1", b"2", b"3", b"4"]
    assert _nothing_comes(bus, topic)


def test_a_new_message_waits_behind_a_rejected_one_of_its_key(bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bus.publish([BusMessage(topic, "k", b"first")])
    bus.reject(GROUP, _receive(bus, topic, 1), 2.0)
    bus.publish([BusMessage(topic, "k", b"second"), BusMessage(topic, "other", b"unhindered")])
    assert _drain(bus, topic, 3) == [b"unhindered", b"first", b"second"]


def test_a_rejected_message_comes_back_after_its_delay(bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bus.publish([BusMessage(topic, "k", b"later")])
    [first] = _receive(bus, topic, 1)
    rejected_at = time.monotonic()
    bus.reject(GROUP, [first], 2.0)
    [second] = _receive(bus, topic, 1)
    waited_s = time.monotonic() - rejected_at
    bus.acknowledge(GROUP, [second])
    assert second.attempt == 2
    assert 1.8 < waited_s < 6.0


def test_attempts_are_counted(bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bus.publish([BusMessage(topic, "k", b"again")])
    attempts = []
    for _ in range(4):
        [delivery] = _receive(bus, topic, 1)
        attempts.append(delivery.attempt)
        bus.reject(GROUP, [delivery], 0.0)
    assert attempts == [1, 2, 3, 4]
    assert _drain(bus, topic, 1) == [b"again"]


def test_a_stale_receipt_settles_nothing(bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bus.publish([BusMessage(topic, "k", b"x")])
    [first] = _receive(bus, topic, 1)
    bus.reject(GROUP, [first], 0.0)
    [second] = _receive(bus, topic, 1)
    bus.acknowledge(GROUP, [first])
    bus.reject(GROUP, [second], 0.0)
    assert _drain(bus, topic, 1) == [b"x"]
    bus.acknowledge(GROUP, [second])
    assert _nothing_comes(bus, topic)


def test_groups_are_independent(bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], "service")
    bus.subscribe([topic], "observer")
    bodies = [str(number).encode() for number in range(50)]
    bus.publish([BusMessage(topic, "k", body) for body in bodies])
    assert _drain(bus, topic, 50, group="service") == bodies
    assert _drain(bus, topic, 50, group="observer") == bodies


def test_what_a_killed_consumer_held_comes_to_another(broker: Broker, bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bodies = [f"m{number}" for number in range(10)]
    bus.publish([BusMessage(topic, body, body.encode()) for body in bodies])
    child = broker.child("hold", topic, GROUP, "doomed", "10")
    assert child.stdout is not None
    held = json.loads(child.stdout.readline())
    child.kill()
    child.wait(10)
    child.stdout.close()
    again = _receive(bus, topic, 10, consumer="heir")
    bus.acknowledge(GROUP, again)
    assert sorted(held) == bodies
    assert sorted(body.decode() for body in _bodies(again)) == bodies
    assert min(delivery.attempt for delivery in again) >= 2


def test_a_bus_made_before_a_fork_works_on_both_sides(broker: Broker, bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    forking = broker.child("fork", topic)
    assert forking.wait(30) == 0
    assert forking.stdout is not None
    forking.stdout.close()
    assert sorted(_drain(bus, topic, 2)) == [b"child", b"parent"]


def test_two_consumers_share_the_work_and_nothing_is_done_twice(broker: Broker) -> None:
    topic, count = new_topic(), 400
    buses = [broker.bus(), broker.bus()]
    buses[0].subscribe([topic], GROUP)
    done: list[list[bytes]] = [[], []]
    finished = threading.Event()

    def consume(number: int) -> None:
        while not finished.is_set():
            got = buses[number].receive([topic], GROUP, f"c{number}", 10, 0.2)
            time.sleep(0.005)
            buses[number].acknowledge(GROUP, got)
            done[number] += _bodies(got)

    consumers = [threading.Thread(target=consume, args=(number,)) for number in range(2)]
    for consumer in consumers:
        consumer.start()
    for start in range(0, count, 50):
        buses[0].publish([BusMessage(topic, f"k{n % 40}", str(n).encode()) for n in range(start, start + 50)])
    until = time.monotonic() + PATIENCE_S
    while len(done[0]) + len(done[1]) < count and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.3)
    finished.set()
    for consumer in consumers:
        consumer.join(10)
    for one in buses:
        one.close()
    assert Counter(done[0] + done[1]) == Counter(str(n).encode() for n in range(count))
    assert min(len(done[0]), len(done[1])) > 20


def test_an_urgent_topic_is_served_first_while_ten_thousand_others_wait(bus: EventBus) -> None:
    urgent, crowd = new_topic("revoked"), new_topic("confirmed")
    topics = [urgent, crowd]
    for topic in topics:
        bus.subscribe([topic], GROUP)
    messages = [BusMessage(crowd, f"k{number % 20}", str(number).encode()) for number in range(10_000)]
    for start in range(0, len(messages), 1000):
        bus.publish(messages[start : start + 1000])
    bus.acknowledge(GROUP, bus.receive(topics, GROUP, "c1", 10, 5.0))
    published_at, others = time.monotonic(), 0
    bus.publish([BusMessage(urgent, "k", b"revoke")])
    while True:
        got = bus.receive(topics, GROUP, "c1", 10, 5.0)
        bus.acknowledge(GROUP, got)
        if got[0].message.topic == urgent:
            break
        others += len(got)
    assert time.monotonic() - published_at < 5.0
    assert others < 2000


def test_a_killed_and_emptied_broker_is_told_and_forgiven(broker: Broker, bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bus.publish([BusMessage(topic, "k", b"lost")])
    _receive(bus, topic, 1)
    broker.kill_and_empty()
    started = time.monotonic()
    with pytest.raises(BusUnavailable) as failure:
        bus.publish([BusMessage(topic, "k", b"unsent")])
    assert failure.value.retriable is True
    with pytest.raises(BusUnavailable):
        _receive(bus, topic, 1)
    assert time.monotonic() - started < 5.0
    broker.restart()
    _until_it_works(lambda: bus.receive([topic], GROUP, "c1", 1, 0.1))
    assert _until_it_works(lambda: bus.publish([BusMessage(topic, "k", b"after")])) < 10.0
    assert _drain(bus, topic, 1) == [b"after"]


def test_a_batch_sent_again_after_a_failure_leaves_every_key_in_order(broker: Broker, bus: EventBus) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    batch = [BusMessage(topic, f"k{number % 5}", str(number).encode()) for number in range(100)]
    bus.publish([BusMessage(topic, "k0", b"-1")])
    broker.freeze()
    started = time.monotonic()
    try:
        with pytest.raises(BusUnavailable):
            bus.publish(batch)
        assert time.monotonic() - started < 5.0
    finally:
        broker.thaw()
    _until_it_works(lambda: bus.publish(batch))
    first_seen: dict[str, list[int]] = defaultdict(list)
    until = time.monotonic() + PATIENCE_S
    while sum(map(len, first_seen.values())) < 101 and time.monotonic() < until:
        got = bus.receive([topic], GROUP, "c1", 50, 1.0)
        bus.acknowledge(GROUP, got)
        for delivery in got:
            number = int(delivery.message.body)
            if number not in first_seen[delivery.message.key]:
                first_seen[delivery.message.key].append(number)
    expected = {f"k{remainder}": list(range(remainder, 100, 5)) for remainder in range(5)}
    expected["k0"].insert(0, -1)
    assert first_seen == expected
