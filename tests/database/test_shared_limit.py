"""The shared rate limit over a real Valkey: burst plus refill never exceed what the vendor allows; security keeps its share."""

from __future__ import annotations

import time

from pytest_django import Settings

from devices.limits import SharedLimit
from lockservice.core import wake
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


def test_without_redis_half_a_bucket_holds_the_limit(embedded_servers: object, settings: Settings) -> None:
    wake.client.cache_clear()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    try:
        limit = SharedLimit("mock", new_id("vad"), 100)
        assert 1 <= _taken(limit, 0, 0.3) <= 11
    finally:
        wake.client.cache_clear()
