"""The circuit breaker of each installation: one row, on the database's real time.

One rule: the row is written when answers are recorded and when a probe is taken, in those transactions; every change of state
is one event in the order of the locked row. Nobody keeps a breaker in memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from devices import selectors
from devices.breaker_rules import (
    AFTER_URGENT_S,
    ANSWERED,
    HALF_OPEN_S,
    OPEN_S,
    PROBE_S,
    QUIET_S,
    SILENT,
    WINDOW,
    BreakerState,
    Heard,
    error_rate_pct,
    is_tripped,
)
from sagas import outbox
from sagas.alerts import NewAlert, raise_alerts
from sagas.events.instants import format_instant
from sagas.events.subjects import Subject
from sagas.outbox import Cause, Emission

RUNBOOK = "lock/vendor-breaker"


@dataclass(frozen=True, slots=True)
class Standing:
    """A breaker that is not closed, as last read. Both instants are real time."""

    state: str
    open_until: datetime | None
    probe_saga: str
    probe_until: datetime | None


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether a call may be made now. `probing` says that it is the one call of a half-open breaker; `wait_s` is how long a
    call that may not be made waits, in seconds."""

    open: bool
    probing: bool = False
    wait_s: float = 0.0


def standing(tenant_id: str) -> dict[str, Standing]:
    """Returns the tenant's breakers that are not closed, by installation. One small query; inside the tenant's block."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT installation_id, state, open_until, probe_saga, probe_until FROM devices_breaker"
            " WHERE tenant_id = %s AND state <> 'closed'",
            [tenant_id],
        )
        return {row[0]: Standing(*row[1:]) for row in cursor.fetchall()}


def ask(
    tenant_id: str,
    installation_id: str,
    known: Mapping[str, Standing],
    *,
    saga_id: str,
    urgent: bool,
    hotel_now: datetime,
    real_now: datetime,
    scale: float = 1.0,
) -> Gate:
    """Asks whether a saga may call the installation's vendor, given what `standing` read; takes the probe if it is free.

    `scale` shortens the waits where tests scale time. Inside the tenant's block.
    """
    row = known.get(installation_id)
    if row is None:
        return Gate(open=True)
    if row.state == BreakerState.HALF_OPEN and row.probe_saga == saga_id:
        return Gate(open=True, probing=True)
    ends = row.open_until if row.state == BreakerState.OPEN else row.probe_until
    if ends is not None and ends > real_now:
        return Gate(open=False, wait_s=_wait_s(row, ends, real_now, urgent, scale))
    if _take_probe(tenant_id, installation_id, saga_id, hotel_now, real_now):
        return Gate(open=True, probing=True)
    return Gate(open=False, wait_s=HALF_OPEN_S[0 if urgent else 1] * scale)


def give_back(tenant_id: str, installation_id: str, saga_id: str, real_now: datetime) -> None:
    """Gives back a probe that was taken and not used, so that the next call may be it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE devices_breaker SET probe_until = %s WHERE tenant_id = %s AND installation_id = %s AND probe_saga = %s"
            " AND state = 'half_open'",
            [real_now, tenant_id, installation_id, saga_id],
        )


def note(tenant_id: str, said: Sequence[Heard], hotel_now: datetime, real_now: datetime, scale: float = 1.0) -> None:
    """Adds what calls told of their vendors and changes the breakers that must change. Inside the tenant's block.

    Takes the row locks in the order of the installations' ids.
    """
    news: dict[str, list[Heard]] = defaultdict(list)
    for item in said:
        news[item.installation_id].append(item)
    if not news:
        return
    opens_until = real_now + timedelta(seconds=OPEN_S * scale)
    for row in _append(tenant_id, news, real_now):
        if row.state == BreakerState.CLOSED:
            if is_tripped(row.outcomes):
                metric = {"errorRatePct": error_rate_pct(row.outcomes), "windowSize": len(row.outcomes)}
                _change(tenant_id, row, BreakerState.OPEN, "error_rate_threshold", metric, hotel_now, open_until=opens_until)
                _alert(tenant_id, row, metric, hotel_now)
        elif row.state == BreakerState.HALF_OPEN:
            probe = next((item for item in news[row.installation_id] if item.saga_id == row.probe_saga), None)
            if probe is not None and probe.answered:
                _change(tenant_id, row, BreakerState.CLOSED, "probe_answered", {}, hotel_now)
            elif probe is not None:
                _change(tenant_id, row, BreakerState.OPEN, "probe_unanswered", {}, hotel_now, open_until=opens_until)


@dataclass(frozen=True, slots=True)
class _Row:
    installation_id: str
    state: str
    outcomes: str
    probe_saga: str
    event_sequence: int


def _append(tenant_id: str, news: Mapping[str, Sequence[Heard]], real_now: datetime) -> list[_Row]:
    """Locks the rows and appends the outcomes; only a closed breaker's window moves."""
    ids = sorted(news)
    outcomes = ["".join(ANSWERED if item.answered else SILENT for item in news[key]) for key in ids]
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO devices_breaker AS b"
            " (tenant_id, installation_id, state, outcomes, last_at, probe_saga, event_sequence)"
            " SELECT %s, i, 'closed', right(o, %s), %s, '', 0 FROM unnest(%s::text[], %s::text[]) AS v(i, o)"
            " ON CONFLICT (tenant_id, installation_id) DO UPDATE SET last_at = EXCLUDED.last_at, outcomes ="
            " CASE WHEN b.state <> 'closed' THEN b.outcomes"
            " WHEN b.last_at < EXCLUDED.last_at - make_interval(secs => %s) THEN EXCLUDED.outcomes"
            " ELSE right(b.outcomes || EXCLUDED.outcomes, %s) END"
            " RETURNING installation_id, state, outcomes, probe_saga, event_sequence",
            [tenant_id, WINDOW, real_now, ids, outcomes, QUIET_S, WINDOW],
        )
        return [_Row(*row) for row in cursor.fetchall()]


def _take_probe(tenant_id: str, installation_id: str, saga_id: str, hotel_now: datetime, real_now: datetime) -> bool:
    """Takes the probe if nobody else does just now; a breaker that was open changes by it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT installation_id, state, outcomes, probe_saga, event_sequence FROM devices_breaker"
            " WHERE tenant_id = %s AND installation_id = %s AND ((state = 'open' AND open_until <= %s)"
            " OR (state = 'half_open' AND probe_until <= %s)) FOR UPDATE SKIP LOCKED",
            [tenant_id, installation_id, real_now, real_now],
        )
        found = cursor.fetchone()
        if found is None:
            return False
        row = _Row(*found)
        if row.state == BreakerState.OPEN:
            _change(tenant_id, row, BreakerState.HALF_OPEN, "probe", {}, hotel_now)
        cursor.execute(
            "UPDATE devices_breaker SET probe_saga = %s, probe_until = %s WHERE tenant_id = %s AND installation_id = %s",
            [saga_id, real_now + timedelta(seconds=PROBE_S), tenant_id, installation_id],
        )
    return True


def _change(
    tenant_id: str,
    row: _Row,
    to: BreakerState,
    reason: str,
    metric: Mapping[str, Any],
    hotel_now: datetime,
    *,
    open_until: datetime | None = None,
) -> None:
    """Moves a locked row and emits its event."""
    sequence = row.event_sequence + 1
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE devices_breaker SET state = %s, open_until = %s, probe_saga = '', probe_until = NULL, event_sequence = %s,"
            " changed_at = (SELECT clock_timestamp()), outcomes = CASE WHEN %s = 'closed' THEN '' ELSE outcomes END"
            " WHERE tenant_id = %s AND installation_id = %s",
            [to.value, open_until, sequence, to.value, tenant_id, row.installation_id],
        )
    facts = selectors.installation(tenant_id, row.installation_id)
    data: dict[str, Any] = {
        "vendorAdapterId": row.installation_id,
        "vendor": facts.vendor,
        "environment": facts.environment,
        "from": row.state,
        "to": to.value,
        "reason": reason,
        "changedAt": format_instant(hotel_now),
    }
    if metric:
        data["metric"] = dict(metric)
    subject = Subject.VENDOR_ADAPTER_HEALTH_CHANGED.value
    cause = Cause(correlation_id=row.installation_id)
    emission = Emission(outbox.new_event_id(), subject, row.installation_id, sequence, data, cause)
    outbox.write(tenant_id, [emission], hotel_now)


def _alert(tenant_id: str, row: _Row, metric: Mapping[str, Any], hotel_now: datetime) -> None:
    """A change from closed to open is told once; what follows until it closes is the same outage."""
    facts = selectors.installation(tenant_id, row.installation_id)
    detail = f"{facts.vendor} left {metric['errorRatePct']} % of the last {metric['windowSize']} calls unanswered; work waits"
    key = f"breaker:{row.installation_id}:{row.event_sequence + 1}"
    alert = NewAlert(key, "VENDOR_BREAKER_OPEN", "critical", detail, RUNBOOK, facts.property_id)
    raise_alerts(tenant_id, [alert], hotel_now)


def _wait_s(row: Standing, ends: datetime, real_now: datetime, urgent: bool, scale: float) -> float:
    left_s = (ends - real_now).total_seconds()
    if row.state == BreakerState.OPEN:
        return left_s if urgent else left_s + AFTER_URGENT_S * scale
    return min(left_s, HALF_OPEN_S[0 if urgent else 1] * scale)
