"""Counts, over all tenants, what an operator watches: queues, breakers, desks, pushes, comparisons, secrets, quotas.

One rule: a count costs the same number of statements however many tenants there are, each over an index or over one row per
installation; labels come from closed sets, and single installations are named up to a fixed number, worst first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from devices import adapters, call_counts
from lockservice.core import tenancy
from lockservice.core.clock import NOW_SQL
from lockservice.core.figure_series import SERIES
from lockservice.core.figures import Figure, replace_sheet

INSTALLATIONS_MAX: Final = 100
"""So many installations are told of one by one at most."""
COUNT_EVERY_S: Final = 10.0
"""A sheet younger than this is not counted anew, however many schedulers ask."""
LATE_S: Final = 2 * 86_400
"""A comparison older than this puts an installation among those that want attention."""
QUOTA_NEARLY: Final = 0.8
OTHER: Final = "other"
_LOCK: Final = 7_102_026
"""Number of the advisory lock that lets one process count at a time."""


_COUNTS: Final = (
    (
        "lock_sagas",
        " UNION ALL ".join(
            f"SELECT '{status}', count(*) FROM sagas_saga WHERE status = '{status}'"
            for status in ("due", "running", "retry", "timer", "dead")
        ),
    ),
    (
        "lock_sagas_overdue_seconds",
        "SELECT COALESCE(EXTRACT(EPOCH FROM (SELECT clock_timestamp()) - min(due_at)), 0) FROM sagas_saga WHERE status = 'due'",
    ),
    ("lock_outbox_unpublished", "SELECT count(*) FROM sagas_outboxevent WHERE published_at IS NULL"),
    ("lock_outbox_blocked", "SELECT count(*) FROM sagas_outboxevent WHERE published_at IS NULL AND blocked"),
    (
        "lock_outbox_oldest_seconds",
        (
            f"SELECT COALESCE(EXTRACT(EPOCH FROM {NOW_SQL} - min(created_at)), 0) FROM sagas_outboxevent"
            " WHERE published_at IS NULL"
        ),
    ),
    (
        "lock_inbox_recent",
        f"SELECT outcome, count(*) FROM sagas_inboxmessage WHERE received_at > {NOW_SQL} - interval '5 minutes' GROUP BY 1",
    ),
    ("lock_dead_letters", "SELECT source, count(*) FROM sagas_deadletter WHERE replayed_at IS NULL GROUP BY 1"),
    ("lock_alerts_open", "SELECT severity, count(*) FROM sagas_alert WHERE acknowledged_at IS NULL GROUP BY 1"),
    (
        "lock_keys_waiting",
        (
            "SELECT waiting_for, count(*) FROM credentials_keycredential"
            " WHERE state IN ('pending', 'requested') AND waiting_for <> '' GROUP BY 1"
        ),
    ),
    (
        "lock_desk_jobs_open",
        (
            "SELECT vendor, state, count(*) FROM devices_relayjobrow"
            " WHERE state IN ('queued', 'offered', 'accepted', 'unknown') GROUP BY 1, 2"
        ),
    ),
    (
        "lock_desk_jobs_oldest_seconds",
        (
            "SELECT vendor, EXTRACT(EPOCH FROM (SELECT clock_timestamp()) - min(created_at)) FROM devices_relayjobrow"
            " WHERE state = 'queued' GROUP BY 1"
        ),
    ),
    ("lock_desks_connected", "SELECT count(*) FROM devices_relaydesk WHERE expires_at > (SELECT clock_timestamp())"),
    (
        "lock_webhooks_open",
        "SELECT vendor, status, count(*) FROM devices_vendorwebhook WHERE status IN ('due', 'held') GROUP BY 1, 2",
    ),
    (
        "lock_secrets_due",
        (
            "SELECT kind, CASE WHEN due_at < (SELECT clock_timestamp()) THEN 'late' ELSE 'soon' END, count(*)"
            " FROM devices_secretdue WHERE done_at IS NULL"
            " AND due_at < (SELECT clock_timestamp()) + interval '7 days' GROUP BY 1, 2"
        ),
    ),
    (
        "lock_break_glass_open",
        "SELECT state, count(*) FROM devices_breakglass WHERE state IN ('requested', 'approved', 'revealed') GROUP BY 1",
    ),
)

_INSTALLATIONS: Final = (
    "SELECT i.id, i.vendor, i.calls_per_month, COALESCE(b.state, 'closed'), COALESCE(last.status, 'never'),"
    f" EXTRACT(EPOCH FROM {NOW_SQL} - complete.finished_at)::float8, (SELECT clock_timestamp()), c.months, c.calls"
    " FROM devices_vendorinstallation i"
    " LEFT JOIN devices_breaker b ON b.tenant_id = i.tenant_id AND b.installation_id = i.id"
    " LEFT JOIN LATERAL (SELECT r.status FROM sagas_reconcilerun r WHERE r.tenant_id = i.tenant_id"
    " AND r.installation_id = i.id ORDER BY r.started_at DESC LIMIT 1) last ON true"
    " LEFT JOIN LATERAL (SELECT r.finished_at FROM sagas_reconcilerun r WHERE r.tenant_id = i.tenant_id"
    " AND r.installation_id = i.id AND r.status = 'done' ORDER BY r.started_at DESC LIMIT 1) complete ON true"
    " LEFT JOIN LATERAL (SELECT array_agg(k.month) AS months, array_agg(k.calls) AS calls FROM devices_callcount k"
    " WHERE k.tenant_id = i.tenant_id AND k.installation_id = i.id"
    " AND k.month >= to_char((SELECT clock_timestamp()) - interval '32 days', 'YYYY-MM')) c ON true"
    " WHERE i.active"
)
_FINDINGS: Final = (
    "SELECT installation_id, danger, count(*) FROM sagas_finding"
    " WHERE status = 'open' AND NOT status = 'resolved' GROUP BY 1, 2"  # the second half is the index's own condition
)


@dataclass(frozen=True, slots=True)
class Standing:
    """How one installation stands. comparison: never, running, done or failed; age_s None: never complete; quota None: no
    limit is known."""

    id: str
    vendor: str
    breaker: str
    comparison: str
    age_s: float | None
    findings: Mapping[str, int]
    quota: float | None

    @property
    def findings_count(self) -> int:
        """All differences."""
        return sum(self.findings.values())

    @property
    def attention(self) -> tuple[int, int, float, str]:
        """Sorts those that want attention first, the worst of them at the head."""
        troubles = (
            self.breaker != "closed",
            self.comparison == "failed",
            self.findings_count > 0,
            self.age_s is None or self.age_s > LATE_S,
            (self.quota or 0.0) > QUOTA_NEARLY,
        )
        return (-sum(troubles), -self.findings_count, -(self.age_s or 0.0), self.id)


def count_due() -> int:
    """Counts and replaces the sheet unless another process is at it or it is fresh; returns how many figures it holds, or 0."""
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_try_advisory_xact_lock(%s) AND NOT EXISTS (SELECT 1 FROM core_figuresheet"
            " WHERE counted_at > (SELECT clock_timestamp()) - make_interval(secs => %s))",
            [_LOCK, COUNT_EVERY_S],
        )
        if not cursor.fetchone()[0]:
            return 0
        figures = count_all()
        replace_sheet(figures)
    return len(figures)


def count_all() -> list[Figure]:
    """Counts everything. Inside a queue block."""
    vendors = frozenset(adapters.manifests())
    figures: list[Figure] = []
    with connection.cursor() as cursor:
        for series, statement in _COUNTS:
            cursor.execute(statement)
            figures += _summed(series, cursor.fetchall(), vendors)
    standings = _standings()
    figures += _by_vendor(standings, vendors)
    for standing in sorted(standings, key=lambda one: one.attention)[:INSTALLATIONS_MAX]:
        figures += _one_by_one(standing, vendors)
    order = list(SERIES)
    return sorted(figures, key=lambda figure: (order.index(figure.series), figure.labels))


def _summed(series: str, rows: Sequence[tuple[Any, ...]], vendors: frozenset[str]) -> list[Figure]:
    names = SERIES[series].labels
    sums: dict[tuple[str, ...], float] = {}
    for *words, number in rows:
        labels = tuple(
            _vendor(word, vendors) if name == "vendor" else str(word) for name, word in zip(names, words, strict=True)
        )
        sums[labels] = sums.get(labels, 0.0) + float(number)
    return [Figure(series, labels, value) for labels, value in sums.items()]


def _standings() -> list[Standing]:
    findings: dict[str, dict[str, int]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_FINDINGS)
        for installation, danger, count in cursor.fetchall():
            findings.setdefault(installation, {})[danger or "none"] = count
        cursor.execute(_INSTALLATIONS)
        rows = cursor.fetchall()
    return [
        Standing(id_, vendor, breaker, comparison, age_s, findings.get(id_, {}), _quota(vendor, limit, now, months, calls))
        for id_, vendor, limit, breaker, comparison, age_s, now, months, calls in rows
    ]


def _quota(vendor: str, limit: int | None, now: datetime, months: list[str] | None, calls: list[int] | None) -> float | None:
    if not adapters.is_known(vendor):
        return None
    most = limit or adapters.manifest(vendor).calls_per_month
    if not most:
        return None
    made = dict(zip(months or [], calls or [], strict=True))
    return made.get(call_counts.month_of(now, vendor), 0) / most


def _by_vendor(standings: Sequence[Standing], vendors: frozenset[str]) -> list[Figure]:
    sums: dict[tuple[str, tuple[str, ...]], float] = {}
    highest: dict[tuple[str, str], float] = {}
    for one in standings:
        vendor = _vendor(one.vendor, vendors)
        for series, word, number in (
            ("lock_breakers", one.breaker, 1),
            ("lock_comparisons", one.comparison, 1),
            *(("lock_findings_open", danger, count) for danger, count in one.findings.items()),
        ):
            sums[series, (vendor, word)] = sums.get((series, (vendor, word)), 0.0) + number
        for series, value in (("lock_comparison_oldest_seconds", one.age_s), ("lock_quota_used_ratio_max", one.quota)):
            if value is not None:
                highest[series, vendor] = max(highest.get((series, vendor), 0.0), value)
    return [
        *(Figure(series, labels, value) for (series, labels), value in sums.items()),
        *(Figure(series, (vendor,), value) for (series, vendor), value in highest.items()),
    ]


def _one_by_one(one: Standing, vendors: frozenset[str]) -> list[Figure]:
    labels = (one.id, _vendor(one.vendor, vendors))
    values = {
        "lock_installation_comparison_age_seconds": one.age_s,
        "lock_installation_comparison_failed": float(one.comparison == "failed"),
        "lock_installation_findings_open": float(one.findings_count),
        "lock_installation_quota_used_ratio": one.quota,
        "lock_installation_breaker_open": float(one.breaker != "closed"),
    }
    return [Figure(series, labels, value) for series, value in values.items() if value is not None]


def _vendor(code: object, vendors: frozenset[str]) -> str:
    return str(code) if code in vendors else OTHER
