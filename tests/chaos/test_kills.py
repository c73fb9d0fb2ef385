"""Servers and processes are killed under load: nothing is lost, nothing done twice, and work goes on within ten seconds.

Rule: these are the real processes on servers of their own. The longest time without a step is measured and printed.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Callable

import pytest

from lockservice.core.tenancy import queues
from sagas.bus.redis_streams import RedisStreamsBus
from sagas.events import registry
from sagas.models import InboxMessage, SagaStep
from tests.chaos.conftest import mock_hotel
from tests.chaos.estate import Estate, Progress, eventually
from tests.chaos.load import (
    Producer,
    claimed,
    issued,
    nothing_lost_or_doubled,
    open_work,
    steps_done,
    told,
    unpublished,
    wait_for_the_end,
)
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.proxy import TcpProxy

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

Record = Callable[[str, object], None]
GOES_ON_WITHIN_S = 10.0
LATENCY = "latencyMs=200"


def _hotels(locks: MockLocks, count: int, query: str = LATENCY) -> list[Hotel]:
    return [mock_hotel(locks, query, rooms=20) for _ in range(count)]


def _under_load(
    estate: Estate, locks: MockLocks, per_second: int, begun: int = 20
) -> tuple[list[Hotel], RedisStreamsBus, Producer]:
    """All four processes, and 300 bookings of two hotels on their way to them; `begun` steps are done."""
    hotels = _hotels(locks, 2)
    for start in (estate.consumer, estate.publisher, estate.runner, estate.worker):
        start()
    bus = estate.bus()
    producer = Producer(bus, hotels, 300, per_second=per_second)
    producer.start()
    eventually(lambda: steps_done(hotels) >= begun, 60, "work has begun")
    return hotels, bus, producer


def _report(record_property: Record, what: str, progress: Progress) -> None:
    record_property(
        "figure",
        f"{what}: longest time without a step {progress.longest_gap_s:.1f} s ({progress.longest_real_s:.1f} by the clock)",
    )


def test_valkey_killed_and_emptied_under_load(estate: Estate, locks: MockLocks, record_property: Record) -> None:
    hotels, bus, producer = _under_load(estate, locks, per_second=100)
    with Progress(lambda: steps_done(hotels)) as progress:
        estate.empty_valkey()
        before = steps_done(hotels)
        left = open_work(hotels)
        eventually(lambda: steps_done(hotels) >= before + left, 30, "what was taken goes on without Valkey")
        estate.start_valkey()
        producer.join()
        producer.send_again()
        wait_for_the_end(estate, hotels, 300, 60)
    _report(record_property, "Valkey killed and emptied", progress)
    nothing_lost_or_doubled(hotels, locks, 300)
    with queues():
        assert InboxMessage.objects.filter(tenant_id__in=[h.tenant_id for h in hotels], outcome="applied").count() == 300
    assert progress.longest_gap_s < GOES_ON_WITHIN_S
    bus.close()


def test_work_goes_on_while_valkey_stays_away(estate: Estate, locks: MockLocks, record_property: Record) -> None:
    hotels = _hotels(locks, 1, "latencyMs=400")
    consumer = estate.consumer()
    bus = estate.bus()
    producer = Producer(bus, hotels, 200)
    producer.send()
    eventually(lambda: open_work(hotels) == 200, 60, "all bookings taken")
    consumer.kill()
    runner = estate.runner()
    eventually(lambda: steps_done(hotels) >= 16, 60, "work has begun")
    with Progress(lambda: steps_done(hotels)) as progress:
        estate.empty_valkey()
        eventually(lambda: steps_done(hotels) >= 60, 60, "steps without a broker")
        runner.kill()
        runner.start()
        eventually(lambda: issued(hotels) == 200, 120, "all keys issued without a broker")
    _report(record_property, "Valkey away, runner killed once", progress)
    assert progress.longest_gap_s < GOES_ON_WITHIN_S
    estate.start_valkey()
    estate.publisher()
    eventually(lambda: unpublished(hotels) == 0, 30, "told once the bus is back")
    nothing_lost_or_doubled(hotels, locks, 200)
    bus.close()


def test_postgres_stopped_immediately_under_load_and_again_while_it_recovers(
    estate: Estate, locks: MockLocks, record_property: Record
) -> None:
    hotels, bus, producer = _under_load(estate, locks, per_second=60)
    with Progress(lambda: steps_done(hotels)) as progress:
        for pause_s in (1.0, 0.3, 2.0):  # the second stop falls into the first sweep after the restart
            estate.crash_postgres()
            time.sleep(0.5)
            estate.start_postgres()
            progress.begin_anew()
            time.sleep(pause_s)
        producer.join()
        wait_for_the_end(estate, hotels, 300, 90)
    _report(record_property, "PostgreSQL stopped immediately three times, after its restart", progress)
    nothing_lost_or_doubled(hotels, locks, 300)
    assert progress.longest_gap_s < GOES_ON_WITHIN_S
    bus.close()


def test_postgres_away_for_half_a_minute(estate: Estate, locks: MockLocks, record_property: Record) -> None:
    """However long the outage, nobody's patience has grown so long that work waits for it afterwards."""
    hotels, bus, producer = _under_load(estate, locks, per_second=100)
    with Progress(lambda: steps_done(hotels)) as progress:
        estate.crash_postgres()
        time.sleep(30)
        estate.start_postgres()
        progress.begin_anew()
        producer.join()
        wait_for_the_end(estate, hotels, 300, 90)
    _report(record_property, "PostgreSQL away for 30 s, after its return", progress)
    nothing_lost_or_doubled(hotels, locks, 300)
    assert progress.longest_gap_s < GOES_ON_WITHIN_S
    bus.close()


def test_backends_terminated_each_second(estate: Estate, locks: MockLocks, record_property: Record) -> None:
    hotels, bus, producer = _under_load(estate, locks, per_second=50, begun=10)
    ended = 0
    with Progress(lambda: steps_done(hotels)) as progress:
        for _ in range(8):
            ended += estate.terminate_backends()
            time.sleep(1)
        producer.join()
        wait_for_the_end(estate, hotels, 300, 90)
    _report(record_property, f"{ended} backends terminated", progress)
    assert ended > 20
    nothing_lost_or_doubled(hotels, locks, 300)
    assert progress.longest_gap_s < GOES_ON_WITHIN_S
    bus.close()


def test_the_line_to_the_database_cut_at_commit(estate: Estate, locks: MockLocks, record_property: Record) -> None:
    """The server commits, and nobody hears of it: whether it did is found in the rows, not assumed."""
    hotels = _hotels(locks, 2, "")
    proxy = TcpProxy("127.0.0.1", estate.postgres_port)
    commits = itertools.count(1)
    proxy.cut_behind = lambda piece: b"COMMIT" in piece and next(commits) % 23 == 0
    through = {"LOCK_DB_HOST": "127.0.0.1", "LOCK_DB_PORT": str(proxy.port)}
    bus = estate.bus()
    for start in (estate.consumer, estate.publisher, estate.runner):
        start(**through)
    producer = Producer(bus, hotels, 200, per_second=40)
    producer.start()
    eventually(lambda: steps_done(hotels) >= 1, 60, "work has begun")
    with Progress(lambda: steps_done(hotels)) as progress:
        eventually(lambda: issued(hotels) >= 150, 120, "most issued")
        proxy.cut_behind = lambda piece: False
        producer.join()
        wait_for_the_end(estate, hotels, 200, 60)
    _report(record_property, f"{proxy.cuts} connections cut at COMMIT", progress)
    assert proxy.cuts >= 10
    nothing_lost_or_doubled(hotels, locks, 200)
    assert progress.longest_gap_s < GOES_ON_WITHIN_S
    bus.close()
    estate.kill_all()
    proxy.stop()


def test_workers_killed_again_and_again_during_500_bookings(estate: Estate, locks: MockLocks, record_property: Record) -> None:
    hotels = _hotels(locks, 5)
    estate.consumer()
    estate.publisher()
    estate.beat()
    workers = [estate.runner(), estate.worker("worker-1"), estate.worker("worker-2")]
    bus = estate.bus()
    with Progress(lambda: steps_done(hotels)) as progress:
        for kills in range(5):
            producer = Producer(bus, hotels, 100, per_second=40, after=100 * kills)
            before = steps_done(hotels)
            progress.begin_anew()  # the round before may be over since a while
            producer.start()
            eventually(lambda: steps_done(hotels) >= before + 10, 60, "work has begun")  # noqa: B023
            victim = workers[kills % len(workers)]
            victim.kill()
            at_death = steps_done(hotels)
            victim.start()  # under the same name, as a rolling restart would
            eventually(lambda: steps_done(hotels) >= at_death + 15, 30, "others go on with the dead one's work")  # noqa: B023
            # The next one dies when this one is back: with all three on their way up, the gap is that of a start.
            eventually(lambda: estate.is_at_work(victim), 60, "the dead one is back")  # noqa: B023
            producer.join()
        wait_for_the_end(estate, hotels, 500, 120)
    _report(record_property, "workers killed 5 times during 500 bookings", progress)
    nothing_lost_or_doubled(hotels, locks, 500)
    assert progress.longest_gap_s < GOES_ON_WITHIN_S
    bus.close()


def test_a_runner_frozen_past_its_lease_writes_nothing_late(estate: Estate, locks: MockLocks, record_property: Record) -> None:
    hotels = _hotels(locks, 1, "latencyMs=1500")
    estate.consumer()
    estate.publisher()
    frozen = estate.runner("frozen")
    bus = estate.bus()
    producer = Producer(bus, hotels, 16)
    producer.send()
    # What is claimed is with the vendor for a second and a half. That a call has come there, the vendor says only as it answers.
    eventually(lambda: claimed(hotels) >= 1, 60, "a call is out")
    frozen.freeze()
    other = estate.runner("other")
    with Progress(lambda: steps_done(hotels)) as progress:
        eventually(lambda: issued(hotels) == 16, 60, "the other finishes")
        _report(record_property, "runner frozen in its calls", progress)
        with queues():
            steps = SagaStep.objects.filter(tenant_id=hotels[0].tenant_id).count()
        frozen.thaw()
        eventually(lambda: frozen.said("runner.fenced") >= 1, 20, "the late write is refused")
        time.sleep(1)
    with queues():
        assert SagaStep.objects.filter(tenant_id=hotels[0].tenant_id).count() == steps
    assert other.said("runner.fenced") == 0
    wait_for_the_end(estate, hotels, 16, 30)
    nothing_lost_or_doubled(hotels, locks, 16)
    assert progress.longest_gap_s < GOES_ON_WITHIN_S + 1.5
    bus.close()


def test_relay_and_consumer_killed_again_and_again_lose_and_double_nothing(
    estate: Estate, locks: MockLocks, record_property: Record
) -> None:
    hotels = _hotels(locks, 2, "")
    bus = estate.bus()
    topics = [spec.topic for spec in registry.produced() if spec.topic and spec.subject.startswith("melmastoon.lock.")]
    bus.subscribe(topics, "listener")
    victims = [estate.consumer(), estate.publisher()]
    estate.runner()
    producer = Producer(bus, hotels, 200, per_second=20)
    producer.start()
    eventually(lambda: steps_done(hotels) >= 5, 60, "work has begun")
    with Progress(lambda: told(hotels)) as progress:
        for round_ in range(8):
            victim = victims[round_ % 2]
            victim.kill()
            progress.begin_anew()  # each kill may take the rest of a lease that was just taken
            victim.start()
            time.sleep(1.2)
        producer.join()
        wait_for_the_end(estate, hotels, 200, 60)
    _report(record_property, "relay and consumer killed four times each, after a kill", progress)
    nothing_lost_or_doubled(hotels, locks, 200)
    with queues():
        assert InboxMessage.objects.filter(tenant_id__in=[h.tenant_id for h in hotels]).count() == 200
    heard: dict[str, list[int]] = defaultdict(list)
    while deliveries := bus.receive(topics, "listener", "one", 500, 0.5):
        for delivery in deliveries:
            event = json.loads(delivery.message.body)
            if event["tenantId"] in {hotel.tenant_id for hotel in hotels}:
                heard[event["orderingKey"]].append(event["sequence"])
        bus.acknowledge("listener", deliveries)
    assert len(heard) == 200
    # Again is allowed, out of order is not: what is heard for the first time comes in sequence.
    assert {tuple(dict.fromkeys(sequences)) for sequences in heard.values()} == {(1, 2, 3)}
    bus.close()


def test_a_lane_is_kept_through_a_call_longer_than_its_lease(estate: Estate, locks: MockLocks) -> None:
    hotels = _hotels(locks, 1, "latencyMs=11000")  # a lease lasts 8 s, a call may last 60
    estate.consumer()
    runners = [estate.runner("one"), estate.runner("two")]
    bus = estate.bus()
    producer = Producer(bus, hotels, 4)
    producer.send()
    eventually(lambda: issued(hotels) == 4, 60, "issued")
    doors = list(hotels[0].doors.values())
    assert [call["attempt"] for call in locks.calls(*doors)] == [1, 1, 1, 1]
    assert [runner.said("runner.fenced") for runner in runners] == [0, 0]
    estate.publisher()
    wait_for_the_end(estate, hotels, 4, 30)
    nothing_lost_or_doubled(hotels, locks, 4)
    bus.close()
