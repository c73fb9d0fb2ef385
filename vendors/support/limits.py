"""Computes a token bucket: pure arithmetic over a frozen state, which the caller keeps where all its processes see it.

One rule: the reserved share of a bucket is touched by priority 0 alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

RESERVED_SHARE = 0.2
"""Part of each bucket kept for priority 0 (security, lost, cancellation, deactivation)."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The state: calls that may be made now, and the real-time second it was last computed at. Both may be fractions."""

    level: float
    at_s: float


@dataclass(frozen=True, slots=True)
class Rate:
    """The limit: `per_minute` calls, of which `burst` may come at once (a minute's worth where not given)."""

    per_minute: float
    burst: float | None = None

    @property
    def capacity(self) -> float:
        """How many calls the full bucket holds."""
        return self.per_minute if self.burst is None else self.burst


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer: the new state, and 0 or the seconds after which asking again can succeed (nothing was taken then)."""

    bucket: Bucket
    wait_s: float

    @property
    def granted(self) -> bool:
        """Says whether the calls may be made."""
        return self.wait_s == 0


def full(rate: Rate, now_s: float) -> Bucket:
    """Returns a bucket nobody has taken from."""
    return Bucket(rate.capacity, now_s)


def take(bucket: Bucket, rate: Rate, calls: int, priority: int, now_s: float) -> Taken:
    """Takes the calls out of the bucket, leaving the reserved share to priority 0.

    A clock that ran backwards refills nothing. Raises ValueError when the calls could never fit.
    """
    floor = 0.0 if priority == 0 else rate.capacity * RESERVED_SHARE
    if calls < 0 or calls > rate.capacity - floor:
        raise ValueError(f"{calls} calls never fit a bucket of {rate.capacity:g} above {floor:g}")
    level = min(rate.capacity, bucket.level + max(0.0, now_s - bucket.at_s) * rate.per_minute / 60)
    now_s = max(now_s, bucket.at_s)
    if level - calls >= floor - 1e-9:
        return Taken(Bucket(level - calls, now_s), 0.0)
    missing = floor + calls - level
    return Taken(Bucket(level, now_s), missing * 60 / rate.per_minute)


def seconds_to_next_month(now: datetime, utc_offset_hours: float = 0) -> float:
    """Returns the seconds until the 1st of the next month begins at that offset: when a monthly quota starts anew."""
    zone = timezone(timedelta(hours=utc_offset_hours))
    local = now.astimezone(zone)
    year, month = (local.year + 1, 1) if local.month == 12 else (local.year, local.month + 1)
    return (datetime(year, month, 1, tzinfo=zone) - local).total_seconds()
