"""Counts requests that left for vendors, per installation and month of the vendor's quota.

One rule: counted when recorded, in the transaction of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import connection

QUOTA_ZONE = timedelta(hours=8)
"""TTLock's quota resets on the 1st of the month in UTC+8 (fact sheet §6, confidence A); no other vendor here has one."""


def month_of(instant: datetime) -> str:
    """Returns the quota month, `YYYY-MM`."""
    return (instant + QUOTA_ZONE).strftime("%Y-%m")


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
