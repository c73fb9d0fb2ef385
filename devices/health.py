"""Reads how locks are and tells what it means: history, thresholds crossed, events, alerts.

One rule: whatever is read of a lock passes `observe`, which locks the device's row; so each crossing is one event, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from devices import selectors
from devices.health_rules import (
    BATTERY_LOW_PERCENT,
    Crossed,
    Crossing,
    Reading,
    Source,
    Zone,
    believed_skew_ms,
    hours_text,
    is_clock_off,
    is_missed,
    utc_text,
    weigh,
)
from devices.models import DeviceReading, LockDevice
from lockservice.core.places import Property
from sagas import intake, outbox
from sagas.alerts import NewAlert, raise_alerts
from sagas.events.instants import format_instant
from sagas.events.subjects import Subject
from sagas.intake import Start
from sagas.outbox import Cause, Emission

RUNBOOK = "lock/device-health"
CLOCK_AGAIN = "clock_again"
"""The flow that gives keys their whole windows back once a lock's clock is right again."""
EVERY_KEY = "everyKey"
"""Its argument that all keys at the lock are concerned, not only those with a cut window."""
KEPT = timedelta(days=90)
"""How long readings are kept; as operational events."""


def observe(tenant_id: str, readings: Mapping[str, Reading], now: datetime) -> list[tuple[str, Crossing]]:
    """Takes readings by device id: history, the device's row, events and alerts; returns what was crossed.

    `now` is the hotel's time. Inside the tenant's block; locks the devices in the order of their ids.
    """
    rows = list(
        LockDevice.objects.select_for_update(of=("self",))
        .select_related("installation")
        .filter(tenant_id=tenant_id, id__in=list(readings))
        .order_by("id")
    )
    real_now = _real_now()
    zones = _zones(tenant_id, rows)
    crossed: list[tuple[str, Crossing]] = []
    emissions: list[Emission] = []
    alerts: list[NewAlert] = []
    starts: list[tuple[Start, Cause]] = []
    for row in rows:
        reading = readings[row.id]
        zone = Zone(zones.get(row.property_id, ""), now)
        seen_before, was_off = row.last_seen_at, is_clock_off(row.standing)
        offset_before = row.utc_offset_s
        skew_before = believed_skew_ms(row.clock_skew_ms, row.utc_offset_s, zone)
        _take(row, reading, real_now)
        row.standing, crossings = weigh(row.standing, reading, row.installation.firmware_minimum, zone, row.clock_skew_ms)
        if offset_before not in (None, row.utc_offset_s):
            starts.append(_clock_again(row, skew_before or 0, real_now, every_key=True))
        elif was_off and not is_clock_off(row.standing):
            starts.append(_clock_again(row, skew_before or 0, real_now))
        row.online = row.online if reading.online is None else not is_missed(row.standing)
        for crossing in crossings:
            for subject, data in _events(row, crossing, seen_before, now):
                emissions.append(emission(row, subject, data))
            alerts.extend(_alerts(row, crossing))
            crossed.append((row.id, crossing))
    _save(rows)
    DeviceReading.objects.bulk_create([_history(row, readings[row.id], now) for row in rows])
    outbox.write(tenant_id, emissions, now)
    raise_alerts(tenant_id, alerts, now)
    intake.start(tenant_id, starts, now)
    transaction.on_commit(selectors.forget)  # a key made next is judged by what was just read
    return crossed


def history(tenant_id: str, device_id: str, since: datetime, until: datetime) -> list[DeviceReading]:
    """Returns a device's readings in the span (hotel's time), oldest first, at most 10,000. Inside the tenant's block."""
    rows = DeviceReading.objects.filter(tenant_id=tenant_id, device_id=device_id, at__gte=since, at__lt=until)
    return list(rows.order_by("at", "id")[:10_000])


def forget_old(tenant_id: str, device_ids: Sequence[str], now: datetime) -> None:
    """Drops readings older than KEPT. Inside the tenant's block."""
    DeviceReading.objects.filter(tenant_id=tenant_id, device_id__in=list(device_ids), at__lt=now - KEPT).delete()


def emission(row: LockDevice, subject: Subject, data: Mapping[str, Any]) -> Emission:
    """Makes the next event of a locked device; the caller saves the row's event_sequence and writes the event."""
    row.event_sequence += 1
    return Emission(outbox.new_event_id(), subject.value, row.id, row.event_sequence, data, Cause(correlation_id=row.id))


def _clock_again(row: LockDevice, skew_ms: int, real_now: datetime, *, every_key: bool = False) -> tuple[Start, Cause]:
    start = Start(
        flow=CLOCK_AGAIN,
        key=intake.own_key("clock-again", row.id, real_now.isoformat()),
        lane=intake.internal_lane(row.tenant_id),
        args={"deviceId": row.id, "skewMs": skew_ms, EVERY_KEY: every_key},
    )
    return start, Cause(correlation_id=row.id)


def _zones(tenant_id: str, rows: Sequence[LockDevice]) -> dict[str, str]:
    here = Property.objects.filter(tenant_id=tenant_id, property_id__in={row.property_id for row in rows})
    return dict(here.values_list("property_id", "time_zone"))


def _take(row: LockDevice, reading: Reading, real_now: datetime) -> None:
    """Copies what the reading says into the row; what it does not say stays as it was."""
    if reading.online:
        row.last_seen_at = real_now
    if reading.battery_percent is not None:
        row.battery_percent = reading.battery_percent
    if reading.utc_offset_s is not None and reading.utc_offset_s != row.utc_offset_s:
        row.utc_offset_s, row.clock_skew_ms = reading.utc_offset_s, None  # what was read before was reckoned otherwise
    if reading.clock_skew_ms is not None:
        row.clock_skew_ms = reading.clock_skew_ms
    if reading.firmware:
        row.firmware = reading.firmware[:60]
    if reading.source is Source.CHECK:
        row.checked_at = real_now


def _save(rows: Sequence[LockDevice]) -> None:
    names = (
        "online", "battery_percent", "clock_skew_ms", "utc_offset_s", "firmware", "last_seen_at", "checked_at", "standing",
        "event_sequence",
    )  # fmt: skip
    LockDevice.objects.bulk_update(rows, names)


def _history(row: LockDevice, reading: Reading, now: datetime) -> DeviceReading:
    return DeviceReading(
        tenant_id=row.tenant_id,
        device_id=row.id,
        at=now,
        source=reading.source.value,
        online=reading.online,
        battery_percent=reading.battery_percent,
        clock_skew_ms=reading.clock_skew_ms,
        firmware=(reading.firmware or "")[:60],
    )


def _events(row: LockDevice, crossing: Crossing, seen_before: datetime | None, now: datetime) -> list[tuple[Subject, Any]]:
    where = {"deviceId": row.id, "propertyId": row.property_id}
    at = format_instant(now)
    reach = {**where, "since": at, "lastSeenAt": format_instant(seen_before) if seen_before else None}
    if crossing.what is Crossed.ONLINE:
        return [(Subject.DEVICE_ONLINE, reach)]
    alert = {
        **where,
        "alert": Crossed.CLOCK.value if crossing.what is Crossed.ZONE else crossing.what.value,
        "severity": crossing.severity,
        "metric": dict(crossing.metric),
        "threshold": dict(crossing.threshold),
        "observedAt": at,
    }
    found: list[tuple[Subject, Any]] = [(Subject.DEVICE_HEALTH_ALERT, alert)]
    if crossing.what is Crossed.OFFLINE:
        found.insert(0, (Subject.DEVICE_OFFLINE, {**reach, "reason": "not_reached"}))
    elif crossing.what is Crossed.BATTERY:
        percent = crossing.metric["batteryPct"]
        low = {**where, "batteryPct": percent, "thresholdPct": BATTERY_LOW_PERCENT, "observedAt": at}
        found.insert(0, (Subject.DEVICE_BATTERY_LOW, low))
    return found


def _alerts(row: LockDevice, crossing: Crossing) -> list[NewAlert]:
    """People are told of what keeps a guest outside or lets a key live too long; old firmware waits for the next visit."""
    codes = {
        (Crossed.BATTERY, "warning"): ("DEVICE_BATTERY_LOW", f"the battery of {row.label} is at {row.battery_percent} %"),
        (Crossed.BATTERY, "critical"): ("DEVICE_BATTERY_LOW", f"the battery of {row.label} is at {row.battery_percent} %"),
        (Crossed.CLOCK, "critical"): ("DEVICE_CLOCK_SKEW", f"the clock of {row.label} is off by {_minutes(row)} minutes"),
        (Crossed.ZONE, "critical"): ("TZ_OFFSET_MISMATCH", _zone_text(row)),
        (Crossed.OFFLINE, "warning"): ("DEVICE_OFFLINE", f"{row.label} is not reached"),
    }
    found = codes.get((crossing.what, crossing.severity))
    if found is None:
        return []
    code, detail = found
    key = f"{crossing.what.value}:{row.id}:{row.event_sequence}"
    return [NewAlert(key, code, crossing.severity, detail, RUNBOOK, row.property_id)]


def _zone_text(row: LockDevice) -> str:
    stored = row.utc_offset_s or 0
    shift_s = int(row.standing.get("zone", 0))
    return (
        f"{row.label} is set to {utc_text(stored)}, the house keeps {utc_text(stored + shift_s)}:"
        f" keys may open there {hours_text(shift_s)} {'early' if shift_s > 0 else 'late'}"
    )


def _minutes(row: LockDevice) -> int:
    return abs(row.clock_skew_ms or 0) // 60_000


def _real_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
