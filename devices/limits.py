"""An installation's rate limit, shared by all processes through Redis, and kept per process when Redis is away.

One rule: no minute (and no second, where the vendor counts those) sees more calls than allowed.
The bucket holds a fifth of the minute's calls and refills with the other
four fifths, so burst plus refill never exceed the limit. A fifth of the bucket is kept for priority 0.
"""

from __future__ import annotations

import threading
import time

import redis

from lockservice.core import wake
from vendors.port.errors import Reason, VendorUnreachable

_TAKE = """
local now = redis.call('TIME'); local t = tonumber(now[1]) + tonumber(now[2]) / 1000000
local capacity, rate, calls, keep = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local held = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = math.min(capacity, (tonumber(held[1]) or capacity) + (t - (tonumber(held[2]) or t)) * rate)
local wait = 0
if tokens - keep >= calls then tokens = tokens - calls else wait = (calls + keep - tokens) / rate end
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens), 'at', tostring(t)); redis.call('EXPIRE', KEYS[1], 120)
return tostring(wait)
"""
AWAY_S = 2.0


class SharedLimit:
    """A CallLimiter over one installation's calls per minute. Safe in threads."""

    def __init__(self, vendor: str, installation_id: str, calls_per_minute: int, calls_per_second: int | None = None) -> None:
        self._vendor = vendor
        self._key = f"limit:{installation_id}"
        self._capacity = max(1.0, calls_per_minute / 5)
        self._rate = max(1.0, calls_per_minute - self._capacity) / 60
        if calls_per_second is not None:  # the same cut over a second: burst plus refill stay below its limit
            self._capacity = min(self._capacity, max(1.0, calls_per_second / 5))
            self._rate = min(self._rate, max(1.0, calls_per_second - self._capacity))
        self._lock = threading.Lock()
        self._tokens = self._capacity / 2
        self._at = time.monotonic()
        self._away_until = 0.0

    def acquire(self, calls: int, priority: int) -> None:
        """Takes the calls, or raises VendorUnreachable (throttled, reason RATE) with the wait in seconds."""
        keep = 0.0 if priority == 0 else min(self._capacity / 5, self._capacity - calls)
        wait_s = self._wait(float(calls), max(0.0, keep))
        if wait_s > 0:
            raise VendorUnreachable(
                self._vendor, "our own rate limit", reason=Reason.RATE, retry_after_s=wait_s, throttled=True
            )

    def _wait(self, calls: float, keep: float) -> float:
        if time.monotonic() >= self._away_until:
            try:
                args = [self._capacity, self._rate, calls, keep]
                return float(wake.client().eval(_TAKE, 1, self._key, *args))
            except redis.RedisError:
                self._away_until = time.monotonic() + AWAY_S  # the local half-bucket below holds the limit meanwhile
        return self._wait_locally(calls, keep)

    def _wait_locally(self, calls: float, keep: float) -> float:
        with self._lock:
            now = time.monotonic()
            self._tokens = min(self._capacity / 2, self._tokens + (now - self._at) * self._rate / 2)
            self._at = now
            if self._tokens - keep / 2 >= calls:
                self._tokens -= calls
                return 0.0
            return (calls + keep / 2 - self._tokens) / (self._rate / 2)
