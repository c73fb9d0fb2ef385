"""Counts requests that left for vendors, and keys confirmed given and taken back, by installation and the vendor's month.

One rule: counted when recorded, in the transaction of the answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from devices import adapters, selectors
from devices.models import CallCount
from devices.selectors import InstallationFacts
from sagas.alerts import NewAlert, raise_alerts
from vendors.port.errors import LockError, Reason

RUNBOOK = "lock/vendor-quota"
LOOK_AGAIN_S = 600.0
"""How soon a vendor that says so is asked again though the month's calls are used up."""
VENDOR_SAYS = "the vendor says that the month's calls are used up"
KEEP_S = 2.0
KEPT_MAX = 10_000
_kept: dict[tuple[str, str, str], tuple[float, int]] = {}


@dataclass(slots=True)
class Counted:
    """What one installation's calls came to: requests that left, and doors at which a key was confirmed given or gone."""

    calls: int = 0
    issues: int = 0
    revokes: int = 0


def month_of(instant: datetime, vendor: str | None = None) -> str:
    """Returns the month `YYYY-MM` of the vendor's quota; of UTC where no vendor is named. Raises UnknownVendor."""
    offset_h = adapters.manifest(vendor).quota_utc_offset_h if vendor else 0
    return (instant + timedelta(hours=offset_h)).strftime("%Y-%m")


def is_spent(tenant_id: str, facts: InstallationFacts, limit: int | None, now: datetime) -> bool:
    """Says whether the installation's calls of this month are used up; `limit` None means there is no such limit.

    Known for two seconds per process. Inside the tenant's block.
    """
    if limit is None:
        return False
    key = (tenant_id, facts.id, month_of(now, facts.vendor))
    held = _kept.get(key)
    if held is None or time.monotonic() - held[0] > KEEP_S:
        row = CallCount.objects.filter(tenant_id=tenant_id, installation_id=facts.id, month=key[2]).first()
        held = (time.monotonic(), row.calls if row else 0)
        if len(_kept) > KEPT_MAX:
            _kept.clear()
        _kept[key] = held
    return held[1] >= limit


def spent_alert(facts: InstallationFacts, now: datetime, detail: str) -> NewAlert:
    """Build the alert that an installation's calls of this month are used up, by our count or by the vendor's word."""
    key = f"quota:{facts.id}:{month_of(now, facts.vendor)}"
    return NewAlert(key, "VENDOR_QUOTA_SPENT", "critical", detail, RUNBOOK, facts.property_id)


def wait_s(error: LockError) -> float:
    """Return how long a vendor is left alone after a refusal, 0 where it does not matter.

    More calls may be bought any minute, so the end of the month is too far to wait for.
    """
    return LOOK_AGAIN_S if error.reason is Reason.QUOTA else error.retry_after_s or 0.0


def note_refusal(tenant_id: str, facts: InstallationFacts, error: LockError, now: datetime) -> None:
    """Raise that alert where a vendor refuses a question because the month's calls are used up. Inside the tenant's block."""
    if error.reason is Reason.QUOTA:
        raise_alerts(tenant_id, [spent_alert(facts, now, VENDOR_SAYS)], now)


def add(tenant_id: str, counted: Mapping[str, Counted], now: datetime) -> None:
    """Adds to each installation's month. Inside the tenant's block. Raises UnknownDevice for an installation not there."""
    rows = [
        (installation, c) for installation, c in sorted(counted.items()) if installation and (c.calls or c.issues or c.revokes)
    ]
    if not rows:
        return
    months = [month_of(now, selectors.installation(tenant_id, installation).vendor) for installation, _ in rows]
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO devices_callcount (tenant_id, installation_id, month, calls, issues, revokes)"
            " SELECT %s, i, m, c, g, t FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])"
            " AS v(i, m, c, g, t)"
            " ON CONFLICT (tenant_id, installation_id, month) DO UPDATE SET calls = devices_callcount.calls + EXCLUDED.calls,"
            " issues = devices_callcount.issues + EXCLUDED.issues, revokes = devices_callcount.revokes + EXCLUDED.revokes",
            [
                tenant_id,
                [installation for installation, _ in rows],
                months,
                [c.calls for _, c in rows],
                [c.issues for _, c in rows],
                [c.revokes for _, c in rows],
            ],
        )
