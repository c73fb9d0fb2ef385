"""Reads locks' logs at their vendors: where nothing is pushed, where a push must be confirmed, and once a day all the same.

A reading goes from where the last one ended, with an overlap, and once a day further back, since some records reach the vendor
days late. It pays for its calls with time, as health polls do: regular readings take at most a tenth of a month's quota; one
that a push asked for goes ahead while the month's calls are not ahead of the calendar, or at once where a key that is over is
said to have opened a door.

One rule: a reading may be killed anywhere and done again: where it stands is moved in the transaction that writes what was
read, and an attempt told before is not told again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import connection

from devices import adapters, breaker, breaker_rules, call_counts, lane_hold, read_back, webhooks
from devices.models import RecordPoll, WebhookAddress
from devices.selectors import DeviceFacts, InstallationFacts, devices, installation, lane_of, property_devices
from lockservice.core import clock, tenancy
from lockservice.core.outage import is_outage
from sagas.alerts import NewAlert, raise_alerts
from sagas.flows import note_attempts
from sagas.flows.note_attempts import Place
from vendors.port.errors import DeviceNotPaired, LockError, Reason
from vendors.port.manifest import LaneRule
from vendors.port.protocol import Records, Webhook
from vendors.port.types import AccessRecord

log = structlog.get_logger(__name__)

INTERVAL_S = 900.0
PUSHED_INTERVAL_S = 86_400.0
UNLOGGED_INTERVAL_S = 86_400.0
"""How often a lock's log is read: where nothing is pushed, where it is, and how often one without a log is looked at again."""
QUOTA_SHARE = 0.1
MONTH_S = 30 * 86_400.0
OVERLAP = timedelta(hours=1)
LOOK_BACK = timedelta(days=7)
LOOK_BACK_EVERY = timedelta(days=1)
FIRST_SPAN = timedelta(days=1)
AHEAD = timedelta(hours=1)
"""Records carry the lock's own time, which may run ahead; what is known to be off is added."""
SPARE_LEAST = 0.05
"""Of a month's calls, what may be used by readings that pushes asked for before the month has come that far."""
PUT_OFF_S = 3600.0
RETRY_S = 120.0
NO_TROUBLE = frozenset({"read", "busy", "throttled"})
"""Outcomes after which the next look is soon."""
MAX_S = 20.0
LEASE_S = 300.0


@dataclass(slots=True)
class Report:
    """What a reading did. outcome: read, or why not: gone, inactive, breaker, quota, settings, no_log, busy, throttled,
    unreachable, unknown_lock, bug."""

    tenant_id: str
    device_id: str
    outcome: str = "read"
    listed: int = 0
    new: int = 0
    calls: int = 0
    pause_s: float = INTERVAL_S
    said: list[breaker_rules.Heard] = field(default_factory=list)
    error: LockError | None = None


@dataclass(frozen=True, slots=True)
class _Target:
    tenant_id: str
    facts: InstallationFacts
    device: DeviceFacts
    port: Any
    has_address: bool
    locks: int
    spans: tuple[tuple[datetime, datetime], ...]
    looks_back: bool
    now: datetime


def read_due(max_s: float = MAX_S, only: Sequence[str] | None = None, *, hinted: bool = False) -> list[Report]:
    """Reads the logs that are due, for about `max_s` seconds. Any number of processes may do so at once.

    `only` restricts it to installations of the given ids, `hinted` to locks whose log a push waits for.
    """
    ends = time.monotonic() + max_s
    reports = []
    while time.monotonic() < ends and (claimed := _claim(only, hinted=hinted)) is not None:
        try:
            report = read(*claimed)
        except Exception as error:
            if is_outage(error):
                raise
            # One log that we cannot read must not stop its neighbours.
            report = _bug(*claimed, error)
        _finish(report)
        reports.append(report)
    return reports


def read(tenant_id: str, device_id: str) -> Report:
    """Reads one lock's log now. No transaction may be open. Raises nothing for a vendor that does not answer."""
    report = Report(tenant_id, device_id)
    target = _target(report)
    if target is None:
        return report
    try:
        has_log, is_pushed = isinstance(target.port, Records), target.has_address and isinstance(target.port, Webhook)
    except LockError as error:  # the first use of a port opens it, which may need keys and secrets
        _note_error(target, report, error)
        return report
    if not has_log:
        report.outcome, report.pause_s = "no_log", UNLOGGED_INTERVAL_S
        return report
    with lane_hold.held(_lane(target)) as free, adapters.tally() as tally:
        records = _ask(target, report) if free else None
        report.outcome = report.outcome if free else "busy"
    report.calls = tally.calls
    report.pause_s = _pause_s(target, report, PUSHED_INTERVAL_S if is_pushed else INTERVAL_S)
    _write(target, report, records)
    return report


def _bug(tenant_id: str, device_id: str, error: Exception) -> Report:
    """Our bug, or a vendor's answer that no adapter foresaw: told once, and tried again tomorrow."""
    log.error("log.bug", device=device_id, exc_info=error)
    alert = NewAlert(
        f"bug:log:{device_id}", "INTERNAL_ERROR", "critical", "a lock's log could not be read for an error of ours",
        webhooks.RUNBOOK,
    )  # fmt: skip
    with tenancy.tenant(tenant_id):
        raise_alerts(tenant_id, [alert], clock.now())
    return Report(tenant_id, device_id, "bug", pause_s=UNLOGGED_INTERVAL_S)


def _target(report: Report) -> _Target | None:
    """Returns what to ask, or None with the reason in the report."""
    with tenancy.tenant(report.tenant_id):
        now = clock.now()
        adapters.vendor_clock().observe(now)
        row = RecordPoll.objects.filter(tenant_id=report.tenant_id, device_id=report.device_id).first()
        device = devices(report.tenant_id, "", [report.device_id]).get(report.device_id)
        if row is None or device is None:
            report.outcome, report.pause_s = "gone", UNLOGGED_INTERVAL_S
            return None
        facts = installation(report.tenant_id, device.installation_id)
        here = [d for d in property_devices(report.tenant_id, facts.property_id) if d.installation_id == facts.id]
        in_use = facts.active and device.id in {d.id for d in here}
        if not in_use:
            report.outcome, report.pause_s = "inactive", UNLOGGED_INTERVAL_S
            return None
        if why := _not_now(report.tenant_id, facts, row, device, now):
            report.outcome, report.pause_s = why
            return None
        spans, looks_back = _spans(row, device, now)
        has_address = WebhookAddress.objects.filter(tenant_id=report.tenant_id, installation_id=facts.id).exists()
        port = adapters.port_of(report.tenant_id, facts)
        return _Target(report.tenant_id, facts, device, port, has_address, len(here), spans, looks_back, now)


def _not_now(
    tenant_id: str, facts: InstallationFacts, row: RecordPoll, device: DeviceFacts, now: datetime
) -> tuple[str, float] | None:
    """Says why the vendor may not be asked now, and for how long, if so."""
    if facts.id in breaker.standing(tenant_id):
        return "breaker", RETRY_S
    limit = facts.calls_per_month or adapters.manifest(facts.vendor).calls_per_month
    waiting = read_back.waiting_records(tenant_id, facts.id, device.external_id) if row.hinted else []
    in_no_hurry = row.hinted and not any(held.contradicts for held in waiting)
    share = max(SPARE_LEAST, (now.day - 1) / 31) if in_no_hurry else 1.0
    if limit is not None and call_counts.is_spent(tenant_id, facts, max(1, int(limit * share)), now):
        return "quota", PUT_OFF_S
    return None


def _spans(row: RecordPoll, device: DeviceFacts, now: datetime) -> tuple[tuple[tuple[datetime, datetime], ...], bool]:
    """Returns which parts of the log to read (by the lock's clock), and whether the far look back is among them."""
    off = timedelta(milliseconds=abs(device.skew_at(now) or 0))
    looks_back = row.read_until is not None and (row.looked_back_at is None or now - row.looked_back_at >= LOOK_BACK_EVERY)
    since = (row.read_until or now - FIRST_SPAN) - OVERLAP - off
    if looks_back:
        since = min(since, now - LOOK_BACK)
    until = now + AHEAD + off
    waiting = [held.at for held in read_back.waiting_records(row.tenant_id, row.installation_id, device.external_id)]
    until = max([until, *(at + timedelta(seconds=1) for at in waiting)])
    older = [at for at in waiting if at < since]
    spans = [(since, until)]
    if older:
        spans.insert(0, (min(older) - timedelta(seconds=1), max(older) + timedelta(seconds=1)))
    return tuple(spans), looks_back


def _lane(target: _Target) -> str | None:
    """Where the installation has one connection, a log may not stand in a key's way; a gateway is not asked for a log."""
    manifest = adapters.manifest(target.facts.vendor)
    lane, width = lane_of(target.facts, manifest, "")
    return lane if manifest.lane is LaneRule.INSTALLATION and width == 1 else None


def _ask(target: _Target, report: Report) -> list[AccessRecord] | None:
    """Makes the calls; None when the vendor gave no answer."""
    found: dict[str, AccessRecord] = {}
    try:
        for since, until in target.spans:
            for record in target.port.list_records(target.device.door(), since, until):
                found[record.external_event_id] = record
    except LockError as error:
        _note_error(target, report, error)
        return None
    report.said.append(breaker_rules.Heard(target.facts.id, "", answered=True))
    return list(found.values())


def _note_error(target: _Target, report: Report, error: LockError) -> None:
    report.outcome, report.pause_s, report.error = "unreachable", max(RETRY_S, call_counts.wait_s(error)), error
    if error.throttled:
        report.outcome = "throttled"
    elif isinstance(error, DeviceNotPaired):
        report.outcome, report.pause_s = "unknown_lock", UNLOGGED_INTERVAL_S
    elif error.reason is Reason.SETTINGS:
        report.outcome = "settings"
    heard = breaker_rules.heard(target.facts.id, "", None, error)
    if heard is not None:
        report.said.append(heard)


def _pause_s(target: _Target, report: Report, interval_s: float) -> float:
    """Returns when to read again. With a quota, all the installation's locks in turn use their share of it and no more."""
    if report.outcome == "busy":
        return RETRY_S
    least = interval_s if report.outcome == "read" else report.pause_s
    limit = target.facts.calls_per_month or adapters.manifest(target.facts.vendor).calls_per_month
    return max(least, report.calls * target.locks * MONTH_S / (limit * QUOTA_SHARE)) if limit else least


def _write(target: _Target, report: Report, records: list[AccessRecord] | None) -> None:
    """Writes what was read, ends the pushes that waited for it, and moves on where the log is known to, all at once."""
    with tenancy.tenant(target.tenant_id):
        now = clock.now()
        if records is not None:
            place = Place(target.tenant_id, target.facts.id, target.facts.vendor)
            mine = [record for record in records if record.device_external_id == target.device.external_id]
            new = note_attempts.write(place, note_attempts.recognise(place, mine), now)
            report.listed, report.new = len(mine), len(new)
            listed = {record.external_event_id for record in mine}
            waiting = read_back.settle_records(target.tenant_id, target.facts.id, target.device.external_id, listed, new, now)
            if waiting:
                report.pause_s = min(report.pause_s, read_back.LOOK_AGAIN_S)
            row = RecordPoll.objects.filter(tenant_id=target.tenant_id, device_id=target.device.id)
            row.update(read_until=target.now, **({"looked_back_at": target.now} if target.looks_back else {}))
        call_counts.add(target.tenant_id, {target.facts.id: call_counts.Counted(calls=report.calls)}, now)
        breaker.note(target.tenant_id, report.said, now, _real_now())
        if report.error is not None:
            call_counts.note_refusal(target.tenant_id, target.facts, report.error, now)


def _claim(only: Sequence[str] | None, *, hinted: bool) -> tuple[str, str] | None:
    """Takes the lock whose log is due for longest; those a push waits for come first."""
    names = list(only) if only is not None else None
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE devices_recordpoll SET lease_until = (SELECT clock_timestamp()) + make_interval(secs => %s) WHERE id = ("
            " SELECT id FROM devices_recordpoll WHERE due_at <= (SELECT clock_timestamp())"
            " AND (lease_until IS NULL OR lease_until < (SELECT clock_timestamp()))"
            " AND (%s::text[] IS NULL OR installation_id = ANY(%s)) AND (hinted OR NOT %s)"
            " ORDER BY hinted DESC, due_at LIMIT 1"
            " FOR UPDATE SKIP LOCKED) RETURNING tenant_id, device_id",
            [LEASE_S, names, names, hinted],
        )
        found: tuple[str, str] | None = cursor.fetchone()
    return found


def _finish(report: Report) -> None:
    """Notes the next turn. A push that came while the log was read is not overlooked: another look follows soon."""
    with tenancy.tenant(report.tenant_id):
        device = devices(report.tenant_id, "", [report.device_id]).get(report.device_id)
        waiting = (
            read_back.waiting_records(report.tenant_id, device.installation_id, device.external_id)
            if device is not None
            else []
        )
        waits = bool(waiting)
        if device is not None and report.outcome not in NO_TROUBLE and any(held.contradicts for held in waiting):
            read_back.tell_unasked(report.tenant_id, device.id, device.property_id, clock.now())
        pause_s = min(report.pause_s, read_back.LOOK_AGAIN_S) if waits and report.outcome == "read" else report.pause_s
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE devices_recordpoll SET lease_until = NULL, polled_at = (SELECT clock_timestamp()), outcome = %s,"
                " hinted = %s, due_at = (SELECT clock_timestamp()) + make_interval(secs => %s)"
                " WHERE tenant_id = %s AND device_id = %s",
                [report.outcome, waits, pause_s, report.tenant_id, report.device_id],
            )


def _real_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
