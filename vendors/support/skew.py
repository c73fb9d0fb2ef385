"""Bounds what a lock's clock may be off by, as the port carries it.

One rule: a lock that lost its time is still told of; further off than can be told it is as far off as can be told.
"""

from __future__ import annotations

MAX_SKEW_MS = 2**31 - 1
"""Nearly 25 days. A lock whose battery was changed may stand at the year 2000, which is farther."""


def bounded_skew_ms(skew_ms: float) -> int:
    """Returns the whole milliseconds, at most MAX_SKEW_MS before or after. Raises ValueError for what is no number (NaN)."""
    if skew_ms != skew_ms:  # noqa: PLR0124 - NaN alone is not equal to itself
        raise ValueError("a clock off by no number")
    return round(min(max(skew_ms, -MAX_SKEW_MS), MAX_SKEW_MS))
