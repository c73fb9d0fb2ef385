"""An installation's rate limit, shared by all processes through Redis, and divided among them while Redis is away.

One rule: no minute (and no second, where the vendor counts those) sees more calls than allowed, whatever becomes of Redis.
The bucket holds a fifth of the minute's calls and refills with the other four fifths, so burst plus refill never exceed the
limit. A fifth of the bucket is kept for priority 0.

Losing Redis must not give the burst a second time:
- while it is away each process takes its part of the refill, and none of the burst: the calls before were Redis's to count,
  also those before this process began;
- a Redis that started anew, was emptied or took over has forgotten what was called. It notes since when it counts, under its
  run id: since its start, or, found without any note by a process that had spoken to one, since then. No bucket holds more than
  what has come in since: none grants anything until the last process has found it, and all are full after a refill's time.
"""

from __future__ import annotations

import threading
import time
import uuid

import redis
from django.conf import settings

from lockservice.core import wake
from vendors.port.errors import Reason, VendorUnreachable

_SINCE = "limit:since"
_TAKE = """
local now = redis.call('TIME'); local t = tonumber(now[1]) + tonumber(now[2]) / 1000000
local capacity, rate, calls, keep = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local info = redis.call('INFO', 'server')
local run, noted = string.match(info, 'run_id:(%w+)') or '', redis.call('HGET', KEYS[3], 'run')
if noted ~= run then
  local up = (noted or ARGV[7] == '') and tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or '0') or 0
  redis.call('HSET', KEYS[3], 'run', run, 'at', tostring(t - up))
end
local most = math.min(capacity, (t - tonumber(redis.call('HGET', KEYS[3], 'at')) - tonumber(ARGV[6])) * rate)
local held = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = math.min(most, (tonumber(held[1]) or most) + (t - (tonumber(held[2]) or t)) * rate)
local wait = 0
if tokens - keep >= calls then tokens = tokens - calls else wait = (calls + keep - tokens) / rate end
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens), 'at', tostring(t)); redis.call('EXPIRE', KEYS[1], 120)
redis.call('ZADD', KEYS[2], t, ARGV[5]); redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, t - 120); redis.call('EXPIRE', KEYS[2], 120)
return {tostring(wait), redis.call('ZCARD', KEYS[2]), run}
"""
AWAY_S = 2.0
"""How long a process that did not reach Redis goes by its own part before it asks again."""
_PROCESS = uuid.uuid4().hex


class SharedLimit:
    """A CallLimiter over one installation's calls per minute. Safe in threads."""

    def __init__(self, vendor: str, installation_id: str, calls_per_minute: int, calls_per_second: int | None = None) -> None:
        self._vendor = vendor
        self._keys = (f"limit:{{{installation_id}}}", f"limit:{{{installation_id}}}:sharers", _SINCE)
        self._capacity = max(1.0, calls_per_minute / 5)
        self._rate = max(1.0, calls_per_minute - self._capacity) / 60
        if calls_per_second is not None:  # the same cut over a second: burst plus refill stay below its limit
            self._capacity = min(self._capacity, max(1.0, calls_per_second / 5))
            self._rate = min(self._rate, max(1.0, calls_per_second - self._capacity))
        self._lock = threading.Lock()
        self._sharers = max(1, settings.LIMIT_SHARERS)
        self._tokens = 0.0
        self._at = time.monotonic()
        self._away_until = 0.0
        self._was_shared = False
        self._run: str | bytes = ""  # the Redis last spoken to; empty: none

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
                return self._wait_shared(calls, keep)
            except redis.RedisError:
                self._note_away()
        return self._wait_alone(calls, keep)

    def _wait_shared(self, calls: float, keep: float) -> float:
        args: list[str | bytes | float] = [self._capacity, self._rate, calls, keep, _PROCESS, AWAY_S * 1.25, self._run]
        wait_s, sharers, self._run = wake.client().eval(_TAKE, len(self._keys), *self._keys, *args)
        self._sharers = max(self._sharers, int(sharers))
        self._was_shared = True
        return float(wait_s)

    def _note_away(self) -> None:
        """Redis is left alone for a while. What it had granted so far is unknown here, so the own part starts at nothing."""
        with self._lock:
            if self._was_shared:
                self._tokens, self._at, self._was_shared = 0.0, time.monotonic(), False
        self._away_until = time.monotonic() + AWAY_S

    def _wait_alone(self, calls: float, keep: float) -> float:
        rate, most = self._rate / self._sharers, max(calls, self._capacity / 2 / self._sharers)
        keep = keep / self._sharers if most > calls else 0.0
        with self._lock:
            now = time.monotonic()
            self._tokens = min(most, self._tokens + (now - self._at) * rate)
            self._at = now
            if self._tokens - keep >= calls - 1e-9:
                self._tokens -= calls
                return 0.0
            return (calls + keep - self._tokens) / rate
