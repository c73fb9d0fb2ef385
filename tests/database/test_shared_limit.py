"""The shared rate limit over a real Valkey: burst plus refill never exceed what the vendor allows; security keeps its share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis
from pytest_django import Settings

from devices.limits import SharedLimit
from lockservice.core import wake
from lockservice.embedded import valkey
from lockservice.embedded.local import LocalDirectory
from vendors.port.errors import Reason, VendorUnreachable
from vendors.port.ids import new_id


def _taken(limit: SharedLimit, priority: int, seconds: float) -> int:
    taken, ends = 0, time.monotonic() + seconds
    refusals: list[tuple[bool, Reason, bool]] = []
    while time.monotonic() < ends:
        try:
            limit.acquire(1, priority)
            taken += 1
        except VendorUnreachable as refused:
            refusals.append((refused.throttled, refused.reason, (refused.retry_after_s or 0) > 0))
            time.sleep(0.005)
    assert set(refusals) <= {(True, Reason.RATE, True)}
    return taken


def test_two_processes_share_one_bucket_and_no_minute_is_exceeded(embedded_servers: object) -> None:
    installation = new_id("vad")
    first, second = SharedLimit("mock", installation, 100), SharedLimit("mock", installation, 100)
    # a burst of a fifth, then four fifths a minute: in 1.5 s at most 20 + 2
    assert 16 <= _taken(first, 2, 0.75) + _taken(second, 2, 0.75) <= 22


def test_a_fifth_of_the_bucket_is_kept_for_security(embedded_servers: object) -> None:
    limit = SharedLimit("mock", new_id("vad"), 100)
    ordinary = _taken(limit, 2, 0.2)
    assert ordinary == 16
    assert _taken(limit, 0, 0.2) == 4


def test_a_vendor_that_counts_seconds_sees_no_second_with_more(embedded_servers: object) -> None:
    limit = SharedLimit("mock", new_id("vad"), 1500, calls_per_second=30)
    assert _taken(limit, 0, 1.0) <= 30


def test_a_process_that_starts_without_redis_has_its_part_and_no_burst(embedded_servers: object, settings: Settings) -> None:
    wake.client.cache_clear()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    try:
        limit = SharedLimit("mock", new_id("vad"), 6000)  # 80 calls a second, of which each of four processes has 20
        assert 1 <= _taken(limit, 0, 0.5) <= 10
    finally:
        wake.client.cache_clear()


@pytest.fixture
def another_valkey(tmp_path: Path, settings: Settings) -> Iterator[LocalDirectory]:
    local = LocalDirectory(tmp_path)
    valkey.start(local)
    wake.client.cache_clear()
    settings.REDIS_URL = valkey.endpoint(local).url()
    yield local
    valkey.stop(local, kill=True)
    wake.client.cache_clear()


def test_a_redis_that_starts_anew_gives_no_second_burst(another_valkey: LocalDirectory) -> None:
    # whether a process asks that spoke to the one before, or one that did not
    began, limit = time.monotonic(), SharedLimit("mock", new_id("vad"), 100)
    taken = _taken(limit, 0, 0.1)
    valkey.stop(another_valkey, kill=True)
    valkey.start(another_valkey)
    taken += _taken(limit, 0, 0.1) + _taken(SharedLimit("mock", new_id("vad"), 100), 0, 0.1)
    assert taken <= (time.monotonic() - began) * 100 / 60


def _counts_for_long(local: LocalDirectory) -> None:
    with _client(local) as server:
        server.hset("limit:since", mapping={"run": server.info("server")["run_id"], "at": 0})


def _client(local: LocalDirectory) -> redis.Redis:
    return redis.Redis.from_url(valkey.endpoint(local).url())


def _burst(limit: SharedLimit) -> int:
    """Takes until it is refused."""
    taken = 0
    with suppress(VendorUnreachable):
        while True:
            limit.acquire(1, 0)
            taken += 1
    return taken


def test_a_redis_that_brings_back_what_it_saved_gives_no_second_burst(another_valkey: LocalDirectory) -> None:
    _counts_for_long(another_valkey)
    installation = new_id("vad")
    with _client(another_valkey) as server:
        server.save()
    assert _burst(SharedLimit("mock", installation, 100)) >= 20
    began = time.monotonic()
    valkey.stop(another_valkey, kill=True)
    valkey.start(another_valkey)
    with _client(another_valkey) as server:
        assert server.exists("limit:since")
    assert _burst(SharedLimit("mock", installation, 100)) <= (time.monotonic() - began) * 100 / 60


def test_a_redis_that_was_emptied_gives_no_second_burst(another_valkey: LocalDirectory) -> None:
    _counts_for_long(another_valkey)
    limit = SharedLimit("mock", new_id("vad"), 100)
    assert _burst(limit) >= 20
    began = time.monotonic()
    with _client(another_valkey) as server:
        server.flushall()
    assert _burst(limit) <= (time.monotonic() - began) * 100 / 60


def test_the_first_call_to_a_redis_that_has_been_up_for_a_while_waits_for_nothing(another_valkey: LocalDirectory) -> None:
    with _client(another_valkey) as server:
        while server.info("server")["uptime_in_seconds"] < 4:
            time.sleep(0.1)
    assert _burst(SharedLimit("mock", new_id("vad"), 6000)) >= 80  # 80 have come in a second, and 2.5 s of them are others'
