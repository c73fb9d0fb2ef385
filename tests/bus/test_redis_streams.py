"""What only the Redis Streams bus does: repair of an emptied server, trimming, leftovers of the same consumer."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Iterator

import pytest
import redis

from sagas.bus import redis_streams
from sagas.bus.port import BusMessage, BusMisconfigured, BusUnavailable, Delivery
from sagas.bus.redis_streams import RedisStreamsBus
from tests.support.brokers import ValkeyBroker, new_topic

GROUP = "group"


@pytest.fixture
def bus(redis_broker: ValkeyBroker) -> Iterator[RedisStreamsBus]:
    made = RedisStreamsBus(redis_broker.url, prefix=redis_broker.description["prefix"], lease_s=2, unread_kept=100)
    yield made
    made.close()


@pytest.fixture
def server(redis_broker: ValkeyBroker) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(redis_broker.url, protocol=2)
    yield client
    client.close()


def _length(server: redis.Redis, redis_broker: ValkeyBroker, topic: str) -> int:
    return int(server.xlen(f"{redis_broker.description['prefix']}:{topic}"))


def _take(bus: RedisStreamsBus, topic: str, count: int, consumer: str = "c1", group: str = GROUP) -> list[Delivery]:
    return bus.receive([topic], group, consumer, count, 2.0)


def test_a_server_emptied_under_a_live_bus_is_repaired_without_an_error(bus: RedisStreamsBus, server: redis.Redis) -> None:
    topic = new_topic()
    bus.publish([BusMessage(topic, "k", b"before")])
    [held] = _take(bus, topic, 1)
    server.flushall()
    bus.acknowledge(GROUP, [held])
    bus.publish([BusMessage(topic, "k", b"after")])
    assert [one.message.body for one in _take(bus, topic, 10)] == [b"after"]
    server.flushall()
    bus.reject(GROUP, [held], 0.0)
    assert bus.depth(topic, GROUP) == 0
    assert bus.trim(topic) == 0


def test_the_groups_of_all_topics_are_made_by_one_receive(bus: RedisStreamsBus, server: redis.Redis) -> None:
    topics = [new_topic(), new_topic(), new_topic()]
    bus.publish([BusMessage(topic, "k", topic.encode()) for topic in topics])
    got = bus.receive(topics, GROUP, "c1", 10, 1.0)
    assert [one.message.topic for one in got] == topics
    assert [bus.depth(topic, GROUP) for topic in topics] == [1, 1, 1]
    bus.acknowledge(GROUP, got)
    assert [bus.depth(topic, GROUP) for topic in topics] == [0, 0, 0]


def test_a_killed_consumers_messages_are_on_their_second_attempt(bus: RedisStreamsBus, redis_broker: ValkeyBroker) -> None:
    topic = new_topic()
    bus.publish([BusMessage(topic, f"k{number}", str(number).encode()) for number in range(20)])
    child = redis_broker.child("hold", topic, GROUP, "doomed", "20")
    assert child.stdout is not None
    assert len(json.loads(child.stdout.readline())) == 20
    child.kill()
    child.wait(10)
    child.stdout.close()
    assert bus.receive([topic], GROUP, "heir", 20, 0.5) == [], "they came before the lease was over"
    again = bus.receive([topic], GROUP, "heir", 20, 5.0)
    assert sorted((int(one.message.body), one.attempt) for one in again) == [(number, 2) for number in range(20)]


def test_a_consumer_that_comes_back_under_its_name_gets_its_leftovers_at_once_and_first(
    bus: RedisStreamsBus, redis_broker: ValkeyBroker
) -> None:
    topic = new_topic()
    bus.publish([BusMessage(topic, "k", str(number).encode()) for number in range(6)])
    child = redis_broker.child("hold", topic, GROUP, "c1", "3")
    assert child.stdout is not None
    child.stdout.readline()
    child.kill()
    child.wait(10)
    child.stdout.close()
    got = bus.receive([topic], GROUP, "c1", 10, 0.0)
    assert [(int(one.message.body), one.attempt) for one in got] == [(0, 2), (1, 2), (2, 2), (3, 1), (4, 1), (5, 1)]


def test_a_rejected_message_outlives_the_bus_that_rejected_it(bus: RedisStreamsBus, redis_broker: ValkeyBroker) -> None:
    topic = new_topic()
    first = RedisStreamsBus(redis_broker.url, prefix=redis_broker.description["prefix"], lease_s=0.2)
    first.publish([BusMessage(topic, "k", b"later")])
    first.reject(GROUP, _take(first, topic, 1), 1.0)
    first.close()
    assert bus.depth(topic, GROUP) == 1
    rejected_at = time.monotonic()
    [again] = bus.receive([topic], GROUP, "c2", 1, 5.0)
    assert time.monotonic() - rejected_at > 0.8, "the dead consumer's lease must not cut the delay short"
    assert (again.message.body, again.attempt) == (b"later", 2)


def test_a_message_waiting_behind_a_rejected_one_has_not_been_attempted(bus: RedisStreamsBus) -> None:
    topic = new_topic()
    bus.publish([BusMessage(topic, "k", b"first")])
    bus.reject(GROUP, _take(bus, topic, 1), 0.3)
    bus.publish([BusMessage(topic, "k", b"second")])
    assert bus.receive([topic], GROUP, "c1", 10, 0.0) == []
    got = _take(bus, topic, 10)
    assert [(one.message.body, one.attempt) for one in got] == [(b"first", 2), (b"second", 1)]


def test_a_long_shelf_is_handed_out_in_pieces_and_in_order(bus: RedisStreamsBus) -> None:
    topic = new_topic()
    bus.publish([BusMessage(topic, "k", str(number).encode()) for number in range(250)])
    bus.reject(GROUP, _take(bus, topic, 100)[:1], 0.0)
    numbers: list[int] = []
    while len(numbers) < 250:
        got = _take(bus, topic, 30)
        bus.acknowledge(GROUP, got)
        numbers += [int(one.message.body) for one in got]
    assert numbers == list(range(250))
    assert bus.depth(topic, GROUP) == 0


def test_trimming_waits_for_the_slowest_group(bus: RedisStreamsBus, server: redis.Redis, redis_broker: ValkeyBroker) -> None:
    topic = new_topic()
    for group in ("service", "observer"):
        bus.subscribe([topic], group)
    bus.publish([BusMessage(topic, "k", str(number).encode()) for number in range(10)])
    bus.acknowledge("service", _take(bus, topic, 10, group="service"))
    assert (bus.trim(topic), _length(server, redis_broker, topic)) == (0, 10)
    observed = _take(bus, topic, 6, group="observer")
    bus.acknowledge("observer", observed[:4])
    assert (bus.trim(topic), _length(server, redis_broker, topic)) == (4, 6)
    bus.acknowledge("observer", observed[4:])
    assert [one.message.body for one in _take(bus, topic, 10, group="observer")] == [b"6", b"7", b"8", b"9"]
    assert (bus.trim(topic), bus.depth(topic, "service"), bus.depth(topic, "observer")) == (2, 0, 4)


def test_a_busy_stream_stays_small_by_itself(bus: RedisStreamsBus, server: redis.Redis, redis_broker: ValkeyBroker) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    for _ in range(30):
        bus.publish([BusMessage(topic, "k", b"x")] * 100)
        bus.acknowledge(GROUP, _take(bus, topic, 100))
    assert _length(server, redis_broker, topic) <= redis_streams.TRIM_EVERY_MESSAGES


def test_a_topic_without_a_group_keeps_only_its_last_messages(
    bus: RedisStreamsBus, server: redis.Redis, redis_broker: ValkeyBroker
) -> None:
    topic = new_topic()
    for start in range(0, 1000, 100):
        bus.publish([BusMessage(topic, "k", str(number).encode()) for number in range(start, start + 100)])
    assert _length(server, redis_broker, topic) == 100
    assert _take(bus, topic, 1)[0].message.body == b"900"


def test_depth_is_right_when_the_server_cannot_tell_the_lag(bus: RedisStreamsBus, server: redis.Redis) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    bus.publish([BusMessage(topic, "k", str(number).encode()) for number in range(5)])
    _take(bus, topic, 1)
    stream = next(key for key in server.scan_iter(match=f"*{topic}") if server.type(key) == b"stream")
    server.xdel(stream, server.xrange(stream)[3][0])
    assert server.xinfo_groups(stream)[0]["lag"] is None
    assert bus.depth(topic, GROUP) == 4


def test_a_frozen_server_is_given_up_after_two_seconds(bus: RedisStreamsBus, redis_broker: ValkeyBroker) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    redis_broker.freeze()
    try:
        started = time.monotonic()
        with pytest.raises(BusUnavailable):
            bus.receive([topic], GROUP, "c1", 1, 30.0)
        assert time.monotonic() - started < 10
    finally:
        redis_broker.thaw()
    assert bus.receive([topic], GROUP, "c1", 1, 0.1) == []


def test_a_full_server_is_unavailable_and_takes_nothing_of_the_batch(bus: RedisStreamsBus, server: redis.Redis) -> None:
    topic = new_topic()
    bus.subscribe([topic], GROUP)
    server.config_set("maxmemory", "1")
    try:
        with pytest.raises(BusUnavailable) as failure:
            bus.publish([BusMessage(topic, "k", b"one"), BusMessage(topic, "k", b"two")])
        assert failure.value.retriable is True
    finally:
        server.config_set("maxmemory", "0")
    assert bus.depth(topic, GROUP) == 0


def test_a_server_that_forgets_scripts_again_and_again_is_unavailable_and_loses_nothing(
    bus: RedisStreamsBus, redis_broker: ValkeyBroker
) -> None:
    """A script is loaded and run by two calls; a server that restarts in between does not know it."""
    topic, over = new_topic(), threading.Event()

    def forget() -> None:
        client = redis.Redis.from_url(redis_broker.url, protocol=2)
        while not over.is_set():
            client.script_flush()
        client.close()

    forgetful = [threading.Thread(target=forget) for _ in range(3)]
    for thread in forgetful:
        thread.start()
    sent, refused = 0, 0
    while not (sent >= 20 and refused):
        try:
            bus.publish([BusMessage(topic, "k", str(sent).encode())])
            sent += 1
        except BusUnavailable:
            refused += 1
    over.set()
    for thread in forgetful:
        thread.join()
    got: list[int] = []
    while sent - 1 not in got:
        got += [int(one.message.body) for one in _take(bus, topic, sent)]
    # What was refused may have been carried out, so a message may lie there twice in a row; none is missing or out of order.
    assert [body for body, before in zip(got, [-1, *got], strict=False) if body != before] == list(range(sent))


def test_a_wrong_password_is_a_matter_of_configuration(redis_broker: ValkeyBroker) -> None:
    wrong = RedisStreamsBus(redis_broker.url.replace("redis://:", "redis://:not-"), prefix="{wrong}")
    with pytest.raises(BusMisconfigured) as failure:
        wrong.publish([BusMessage("t", "k", b"x")])
    wrong.close()
    assert failure.value.retriable is False
    assert redis_broker.url.split(":")[2].split("@")[0] not in str(failure.value)


def test_an_entry_written_by_somebody_else_is_handed_out_as_it_is(
    bus: RedisStreamsBus, server: redis.Redis, redis_broker: ValkeyBroker
) -> None:
    topic = new_topic()
    server.xadd(f"{redis_broker.description['prefix']}:{topic}", {"b": b"\xff\xfe", "a:name": b"\xff", "stray": "x"})
    [got] = _take(bus, topic, 1)
    assert dataclasses.replace(got.message, attributes=dict(got.message.attributes)) == BusMessage(
        topic, "", b"\xff\xfe", {"name": "\ufffd"}
    )


def test_a_consumer_with_nothing_open_is_forgotten_after_long_silence(server: redis.Redis, redis_broker: ValkeyBroker) -> None:
    topic, prefix = new_topic(), redis_broker.description["prefix"]
    bus = RedisStreamsBus(redis_broker.url, prefix=prefix, consumer_forgotten_after_s=0.05)
    bus.publish([BusMessage(topic, "k", b"x")])
    [held] = _take(bus, topic, 1, "holds one")
    bus.receive([topic], GROUP, "idle", 1, 0.0)
    time.sleep(0.1)
    bus.trim(topic)
    assert [one["name"] for one in server.xinfo_consumers(f"{prefix}:{topic}", GROUP)] == [b"holds one"]
    bus.acknowledge(GROUP, [held])
    bus.close()
