"""Counts requests that left for vendors, per installation and month of the vendor's quota.

One rule: counted when recorded, in the transaction of the answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import connection

from devices.models import CallCount
from devices.selectors import InstallationFacts

QUOTA_ZONE = timedelta(hours=8)
"""TTLock's quota resets on the 1st of the month in UTC+8 (fact sheet §6, confidence A); no other vendor here has one."""

KEEP_S = 2.0
KEPT_MAX = 10_000
_kept: dict[tuple[str, str, str], tuple[float, int]] = {}


def month_of(instant: datetime) -> str:
    """Returns the quota month, `YYYY-MM`."""
    return (instant + QUOTA_ZONE).strftime("%Y-%m")


def is_spent(tenant_id: str, facts: InstallationFacts, limit: int | None, now: datetime) -> bool:
    """Says whether the installation's calls of this month are used up; `limit` None means there is no such limit.

    Known for two seconds per process. Inside the tenant's block.
    """
    if limit is None:
        return False
    key = (tenant_id, facts.id, month_of(now))
    held = _kept.get(key)
    if held is None or time.monotonic() - held[0] > KEEP_S:
        row = CallCount.objects.filter(tenant_id=tenant_id, installation_id=facts.id, month=key[2]).first()
        held = (time.monotonic(), row.calls if row else 0)
        if len(_kept) > KEPT_MAX:
            _kept.clear()
        _kept[key] = held
    return held[1] >= limit


def add(tenant_id: str, calls: Mapping[str, int], now: datetime) -> None:
    """Adds calls per installation. Inside the tenant's block."""
    rows = [(installation, count) for installation, count in sorted(calls.items()) if count and installation]
    if not rows:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO devices_callcount (tenant_id, installation_id, month, calls)"
            " SELECT %s, i, %s, c FROM unnest(%s::text[], %s::bigint[]) AS v(i, c)"
            " ON CONFLICT (tenant_id, installation_id, month) DO UPDATE SET calls = devices_callcount.calls + EXCLUDED.calls",
            [tenant_id, month_of(now), [row[0] for row in rows], [row[1] for row in rows]],
        )
