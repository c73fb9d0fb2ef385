"""Asks vendors how their locks are, within their quotas, installation by installation.

A poll lists all locks once (battery, firmware, what the vendor's cloud believes) and then looks live at a few: those that were
not reached last time, then those not looked at for longest. It pays for its calls with time: the more calls it made, the later
the next one, so that polling takes at most a tenth of a month's quota.

One rule: health never stands in the way of keys: lowest priority, no call through a gateway that has work, none while the
breaker is not closed or the quota is spent.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection

from devices import adapters, breaker, breaker_rules, call_counts, deny_lists, health, lane_hold, read_back
from devices.health_check import reading_of
from devices.health_rules import Reading, Source, is_missed
from devices.models import LockDevice
from devices.selectors import DeviceFacts, InstallationFacts, installation, lane_of, property_devices
from lockservice.core import clock, tenancy
from vendors.port.errors import DeviceNotPaired, LockError, Reason
from vendors.port.manifest import LaneRule
from vendors.port.protocol import LockPort
from vendors.port.types import DeviceRecord

INTERVAL_S = 900.0
QUOTA_SHARE = 0.1
MONTH_S = 30 * 86_400.0
CHECKS_MIN = 2
CHECKS_SHARE = 0.1
"""Of an installation's locks, how many are looked at live in one poll; at least CHECKS_MIN."""
DOUBTED_MAX = 5
"""Of how many locks at once the battery or clock is looked at because a push told of it."""
MAX_S = 20.0
"""After this time a poll starts no further check. A check through a gateway may itself last 75 s."""
RETRY_S = 120.0
LEASE_S = 300.0

ALL = 1_000_000


@dataclass(slots=True)
class Report:
    """What a poll did. outcome: polled, or why not: inactive, breaker, quota, settings, throttled, unreachable."""

    installation_id: str
    outcome: str = "polled"
    listed: int = 0
    checked: int = 0
    crossed: int = 0
    calls: int = 0
    pause_s: float = INTERVAL_S
    said: list[breaker_rules.Heard] = field(default_factory=list)
    error: LockError | None = None


@dataclass(frozen=True, slots=True)
class _Target:
    tenant_id: str
    facts: InstallationFacts
    port: LockPort
    devices: tuple[DeviceFacts, ...]
    claims: tuple[DeviceRecord, ...] = ()


def poll_due(max_s: float = MAX_S, only: Sequence[str] | None = None) -> list[Report]:
    """Polls the installations that are due, for about `max_s` seconds. Any number of processes may do so at once.

    `only` restricts it to installations of the given ids.
    """
    ends = time.monotonic() + max_s
    reports = []
    while time.monotonic() < ends and (claimed := _claim(only)) is not None:
        tenant_id, installation_id = claimed
        report = poll(tenant_id, installation_id, until=ends)
        _finish(tenant_id, report)
        reports.append(report)
    return reports


def poll(tenant_id: str, installation_id: str, *, checks: int | None = None, until: float | None = None) -> Report:
    """Polls one installation now, whether it is due or not. `checks` is how many locks are looked at live, a tenth if None.

    Raises devices.selectors.UnknownDevice. No transaction may be open.
    """
    report = Report(installation_id)
    target = _target(tenant_id, report)
    if isinstance(target, str):
        report.outcome, report.pause_s = target, RETRY_S
        return report
    ends = min(until or float("inf"), time.monotonic() + MAX_S) if checks is None else float("inf")
    with adapters.tally() as tally:
        if _list(target, report):
            wanted = checks if checks is not None else max(CHECKS_MIN, int(len(target.devices) * CHECKS_SHARE))
            doubted = _doubted(target)
            for device in _neediest(target, first=doubted)[: max(wanted, min(len(doubted), DOUBTED_MAX))]:
                if time.monotonic() > ends or not _check(target, device, report):
                    break
            _settle_claims(target, ends)
    report.calls = tally.calls
    report.pause_s = _pause_s(target.facts, report)
    _account(target, report)
    return report


def _target(tenant_id: str, report: Report) -> _Target | str:
    """Returns what to ask, or why nothing may be asked now."""
    with tenancy.tenant(tenant_id):
        now = clock.now()
        adapters.vendor_clock().observe(now)
        facts = installation(tenant_id, report.installation_id)
        if not facts.active:
            return "inactive"
        if facts.id in breaker.standing(tenant_id):
            return "breaker"
        limit = facts.calls_per_month or adapters.manifest(facts.vendor).calls_per_month
        if call_counts.is_spent(tenant_id, facts, limit, now):
            return "quota"
        port = adapters.port_of(tenant_id, facts)
        here = tuple(d for d in property_devices(tenant_id, facts.property_id) if d.installation_id == facts.id)
        return _Target(tenant_id, facts, port, here, tuple(read_back.waiting_states(tenant_id, facts.id)))


def _list(target: _Target, report: Report) -> bool:
    """Takes the vendor's list; False when there is none."""
    try:
        listed = target.port.list_devices(target.facts.property_id)
    except LockError as error:
        _note_error(report, error)
        return False
    report.said.append(breaker_rules.Heard(report.installation_id, "", answered=True))
    by_external = {device.external_id: device.id for device in target.devices}
    readings = {
        by_external[row.external_id]: Reading(
            Source.LIST, row.online, row.battery_percent, None, row.firmware, row.utc_offset_s
        )
        for row in listed
        if row.external_id in by_external and not row.refused
    }
    report.listed = len(readings)
    with tenancy.tenant(target.tenant_id):
        deny_lists.observe(target.tenant_id, target.facts, listed, clock.now())
    _observe(target, readings, report)
    _observe(target, _confirmed(target, readings), report)
    return True


def _confirmed(target: _Target, readings: Mapping[str, Reading]) -> dict[str, Reading]:
    """Returns a second reading for the locks whose coming or going a push told and the vendor's list shows as well."""
    by_external = {device.external_id: device.id for device in target.devices}
    found: dict[str, Reading] = {}
    with tenancy.tenant(target.tenant_id):
        for claim in target.claims:
            for external_id in read_back.reached_ids(target.tenant_id, target.facts.id, claim):
                device_id = by_external.get(external_id, "")
                listed = readings.get(device_id)
                if listed is not None and claim.online is not None and listed.online == claim.online:
                    found[device_id] = Reading(Source.PUSH, claim.online)
    return found


def _doubted(target: _Target) -> set[str]:
    """Returns the locks of whose battery or clock a push told: the list may not say, so they are looked at first."""
    told = [claim for claim in target.claims if claim.online is None]
    if not told:
        return set()
    with tenancy.tenant(target.tenant_id):
        named = {name for claim in told for name in read_back.reached_ids(target.tenant_id, target.facts.id, claim)}
    return {device.id for device in target.devices if device.external_id in named}


def _settle_claims(target: _Target, ends: float) -> None:
    """Ends the pushes that waited for this poll; when it ran out of time they wait for the next."""
    if target.claims and time.monotonic() <= ends:
        with tenancy.tenant(target.tenant_id):
            read_back.settle_states(target.tenant_id, target.facts.id, clock.now())


def _check(target: _Target, device: DeviceFacts, report: Report) -> bool:
    """Looks at one lock live; False when the poll should end."""
    with lane_hold.held(_lane(target, device)) as free:
        if not free:
            return True
        try:
            found = target.port.health_check(device.door())
        except LockError as error:
            if error.reason is not Reason.DOOR_OFFLINE and not isinstance(error, DeviceNotPaired):
                _note_error(report, error)
                return False
            reading = Reading(Source.CHECK, online=False)
        else:
            reading = reading_of(device, found)
    report.checked += 1
    report.said.append(breaker_rules.Heard(report.installation_id, "", answered=True))
    _observe(target, {device.id: reading}, report)
    return True


def _note_error(report: Report, error: LockError) -> None:
    report.outcome = "throttled" if error.throttled else "settings" if error.reason is Reason.SETTINGS else "unreachable"
    report.pause_s, report.error = max(RETRY_S, call_counts.wait_s(error)), error
    heard = breaker_rules.heard(report.installation_id, "", None, error)
    if heard is not None:
        report.said.append(heard)


def _observe(target: _Target, readings: dict[str, Reading], report: Report) -> None:
    with tenancy.tenant(target.tenant_id):
        report.crossed += len(health.observe(target.tenant_id, readings, clock.now()))


def _neediest(target: _Target, first: Collection[str] = ()) -> list[DeviceFacts]:
    """Returns the devices in the order in which they should be looked at; `first` come before all others."""
    with tenancy.tenant(target.tenant_id):
        rows = LockDevice.objects.filter(tenant_id=target.tenant_id, id__in=[device.id for device in target.devices])
        known = {
            row.id: (row.id not in first, not is_missed(row.standing), row.checked_at is not None, row.checked_at, row.id)
            for row in rows
        }
    return sorted((device for device in target.devices if device.id in known), key=lambda device: known[device.id])


def _account(target: _Target, report: Report) -> None:
    with tenancy.tenant(target.tenant_id):
        now = clock.now()
        call_counts.add(target.tenant_id, {report.installation_id: call_counts.Counted(calls=report.calls)}, now)
        breaker.note(target.tenant_id, report.said, now, _real_now())
        if report.error is not None:
            call_counts.note_refusal(target.tenant_id, target.facts, report.error, now)
        health.forget_old(target.tenant_id, [device.id for device in target.devices], now)
        if report.outcome == "polled" and read_back.waiting_states(target.tenant_id, report.installation_id):
            report.pause_s = min(report.pause_s, read_back.LOOK_AGAIN_S)


def _pause_s(facts: InstallationFacts, report: Report) -> float:
    """Returns how long the calls made are paid for: at a tenth of the monthly quota, one call buys its share of a month."""
    least = INTERVAL_S if report.outcome == "polled" else report.pause_s
    limit = facts.calls_per_month or adapters.manifest(facts.vendor).calls_per_month
    return max(least, report.calls * MONTH_S / (limit * QUOTA_SHARE)) if limit else least


def _lane(target: _Target, device: DeviceFacts) -> str | None:
    """Returns the lane of the gateway a live look goes through, None where it goes through none."""
    manifest = adapters.manifest(target.facts.vendor)
    if manifest.lane is not LaneRule.GATEWAY or not device.gateway or not device.has_remote:
        return None
    return lane_of(target.facts, manifest, device.gateway)[0]


def _claim(only: Sequence[str] | None) -> tuple[str, str] | None:
    """Takes the installation that is due for longest."""
    names = list(only) if only is not None else None
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE devices_healthpoll SET lease_until = (SELECT clock_timestamp()) + make_interval(secs => %s) WHERE id = ("
            " SELECT id FROM devices_healthpoll WHERE due_at <= (SELECT clock_timestamp())"
            " AND (lease_until IS NULL OR lease_until < (SELECT clock_timestamp()))"
            " AND (%s::text[] IS NULL OR installation_id = ANY(%s)) ORDER BY due_at LIMIT 1"
            " FOR UPDATE SKIP LOCKED) RETURNING tenant_id, installation_id",
            [LEASE_S, names, names],
        )
        found: tuple[str, str] | None = cursor.fetchone()
    return found


def _finish(tenant_id: str, report: Report) -> None:
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE devices_healthpoll SET lease_until = NULL, polled_at = (SELECT clock_timestamp()), outcome = %s,"
            " calls = %s, due_at = (SELECT clock_timestamp()) + make_interval(secs => %s)"
            " WHERE tenant_id = %s AND installation_id = %s",
            [report.outcome, report.calls, report.pause_s, tenant_id, report.installation_id],
        )


def _real_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
