"""Pushes that count only once the vendor itself was asked: which wait, what was found, when they are given up.

A push is a hint where the vendor signs nothing, and also where it contradicts our books (a key that is over opened a door) or
would change how a lock stands. The next reading of that lock's log, or the next poll of the installation, confirms it or not.

One rule: what the vendor's own answer does not show changes nothing, whoever pushed it and however well it was signed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from devices import webhooks
from devices.health_rules import BATTERY_LOW_PERCENT, SKEW_WARN_MS, Reading, Source, is_missed, is_offline, weigh
from devices.models import LockDevice, VendorWebhook
from sagas import outbox
from sagas.alerts import NewAlert, raise_alerts
from sagas.outbox import Emission
from vendors.port.types import AccessRecord, DeviceRecord, Reach

LOOKS = 3
"""After so many answers of the vendor that do not show it, a push is taken for untrue. Its log may lag behind its pushes."""
GIVE_UP = timedelta(days=7)
"""A push that could not be asked back for so long is let go: its attempts come with the regular readings, if they are true."""
LOOK_AGAIN_S = 60
HINT_GAP_S = 10
POLL_GAP_S = 60
HELD_MAX = 500
_LOOKS, _CONTRADICTS = "looks", "contradicts"


def hold(row: VendorWebhook, devices: Collection[str], *, polls: bool) -> None:
    """Leaves a push waiting until the vendor was asked, and has that done soon. The caller saves the row.

    `devices` are those whose log is to be read; `polls` asks for the installation's condition. Inside the tenant's block.
    """
    row.status, row.due_at = "held", _real_now() + GIVE_UP
    with connection.cursor() as cursor:
        if devices:
            cursor.execute(
                "UPDATE devices_recordpoll SET hinted = true, due_at = least(due_at, greatest((SELECT clock_timestamp()),"
                " coalesce(polled_at, 'epoch') + make_interval(secs => %s))) WHERE tenant_id = %s AND device_id = ANY(%s)",
                [HINT_GAP_S, row.tenant_id, sorted(devices)],
            )
        if polls:
            cursor.execute(
                "UPDATE devices_healthpoll SET due_at = least(due_at, greatest((SELECT clock_timestamp()),"
                " coalesce(polled_at, 'epoch') + make_interval(secs => %s))) WHERE tenant_id = %s AND installation_id = %s",
                [POLL_GAP_S, row.tenant_id, row.installation_id],
            )


@dataclass(frozen=True, slots=True)
class Waiting:
    """A held attempt: its moment by the lock's clock, and whether it contradicts our books, so that somebody is in a hurry."""

    at: datetime
    contradicts: bool


def as_held(record: AccessRecord, *, contradicts: bool) -> dict[str, Any]:
    """Returns an attempt as a held push keeps it."""
    return {**webhooks.as_json(record), _CONTRADICTS: contradicts}


def waiting_records(tenant_id: str, installation_id: str, external_id: str) -> list[Waiting]:
    """Returns the held attempts at a lock. Inside the tenant's block."""
    return [
        Waiting(datetime.fromisoformat(item["at"]), bool(item.get(_CONTRADICTS)))
        for row in _held(tenant_id, installation_id)
        for item in row.records
        if item["device"] == external_id
    ]


def waiting_states(tenant_id: str, installation_id: str) -> list[DeviceRecord]:
    """Returns what held pushes say of an installation's locks. Inside the tenant's block."""
    return [webhooks.state_from_json(item) for row in _held(tenant_id, installation_id) for item in row.states]


def settle_records(
    tenant_id: str, installation_id: str, external_id: str, listed: Collection[str], fresh: Collection[str], now: datetime
) -> int:
    """Ends held pushes that a reading of this lock's log answered; returns how many attempts still wait for another look.

    `listed` are the event ids the vendor gave, `fresh` those nobody had told us before. Inside the tenant's block.
    """
    emissions: list[Emission] = []
    waiting = 0
    for row in _held(tenant_id, installation_id, lock=True):
        mine = [item for item in row.records if item["device"] == external_id]
        if not mine:
            continue
        shown = [item for item in mine if item["id"] in listed]
        if shown:
            is_new = any(item["id"] in fresh for item in shown)
            row.outcome = "applied" if is_new or row.outcome == "applied" else "duplicate"
        missing = [_looked_for(item) for item in mine if item["id"] not in listed]
        left = [item for item in missing if item[_LOOKS] < LOOKS]
        row.records = [item for item in row.records if item["device"] != external_id] + left
        waiting += len(left)
        emissions += _close_if_answered(row, now, refuted=len(left) < len(missing))
    outbox.write(tenant_id, emissions, now)
    return waiting


def settle_states(tenant_id: str, installation_id: str, now: datetime) -> None:
    """Ends held pushes about locks after the vendor was asked how they are: what stands now agrees, or does not.

    Inside the tenant's block.
    """
    emissions: list[Emission] = []
    for row in _held(tenant_id, installation_id, lock=True):
        if not row.states:
            continue
        missing = []
        for item in row.states:
            state = webhooks.state_from_json(item)
            if _agree(_reached_by(tenant_id, installation_id, state), state):
                row.outcome = "applied"
            else:
                missing.append(_looked_for(item))
        row.states = [item for item in missing if item[_LOOKS] < LOOKS]
        emissions += _close_if_answered(row, now, refuted=len(row.states) < len(missing))
    outbox.write(tenant_id, emissions, now)


def give_up(row: VendorWebhook, now: datetime) -> list[Emission]:
    """Ends a push that could not be asked back in time, and tells if a key that was over may have opened a door.

    The caller saves the row and writes the event.
    """
    if any(item.get(_CONTRADICTS) for item in row.records):
        tell_unasked(row.tenant_id, row.installation_id, _property_of(row), now)
    row.records, row.states, row.detail = [], [], "the vendor could not be asked"
    return [webhooks.processed(row, row.outcome or "ignored", now)]


def tell_unasked(tenant_id: str, subject: str, property_id: str, now: datetime) -> None:
    """Tells, once a day and subject, that a push contradicts our books and the vendor cannot be asked. Inside the block."""
    alert = NewAlert(
        f"push-unasked:{subject}:{now:%Y-%m-%d}", "PUSH_NOT_CONFIRMED", "critical",
        "a push tells that a key opened a door though it was over, and the vendor cannot be asked whether it did",
        webhooks.RUNBOOK, property_id,
    )  # fmt: skip
    raise_alerts(tenant_id, [alert], now)


def would_change(tenant_id: str, installation_id: str, state: DeviceRecord) -> bool:
    """Says whether a push about locks, if true, would change how one of them stands. Inside the tenant's block."""
    return any(_would_change(device, state) for device in _reached_by(tenant_id, installation_id, state))


def reached_ids(tenant_id: str, installation_id: str, state: DeviceRecord) -> list[str]:
    """Returns the external ids of the locks a push is about. Inside the tenant's block."""
    return [device.external_id for device in _reached_by(tenant_id, installation_id, state)]


def _looked_for(item: Mapping[str, Any]) -> dict[str, Any]:
    return {**item, _LOOKS: int(item.get(_LOOKS, 0)) + 1}


def _agree(devices: Sequence[LockDevice], state: DeviceRecord) -> bool:
    """Says whether what is known of the locks now is what the push said; of none that is ours it is."""
    return all(_agrees(device, state) for device in devices)


def _agrees(device: LockDevice, state: DeviceRecord) -> bool:
    if state.online is not None:
        return is_offline(device.standing) != state.online and (not state.online or not is_missed(device.standing))
    if state.battery_percent is not None:
        known = device.battery_percent
        return known is not None and (known <= BATTERY_LOW_PERCENT) == (state.battery_percent <= BATTERY_LOW_PERCENT)
    skew_ms = device.clock_skew_ms
    is_off = abs(state.clock_skew_ms or 0) > SKEW_WARN_MS
    return skew_ms is not None and (abs(skew_ms) > SKEW_WARN_MS) == is_off


def _would_change(device: LockDevice, state: DeviceRecord) -> bool:
    if state.online is not None:
        return is_offline(device.standing) == state.online or (state.online and is_missed(device.standing))
    reading = Reading(Source.PUSH, None, state.battery_percent, state.clock_skew_ms)
    before = {name: value for name, value in device.standing.items() if value}
    return weigh(device.standing, reading)[0] != before


def _reached_by(tenant_id: str, installation_id: str, state: DeviceRecord) -> list[LockDevice]:
    rows = LockDevice.objects.filter(tenant_id=tenant_id, installation_id=installation_id, active=True, has_remote=True)
    if state.reach is Reach.LOCK:
        rows = LockDevice.objects.filter(
            tenant_id=tenant_id, installation_id=installation_id, active=True, external_id=state.external_id
        )
    elif state.reach is Reach.GATEWAY:
        rows = rows.filter(gateway=state.external_id).exclude(gateway="")
    return list(rows.order_by("id"))


def _held(tenant_id: str, installation_id: str, *, lock: bool = False) -> list[VendorWebhook]:
    rows = VendorWebhook.objects.filter(tenant_id=tenant_id, installation_id=installation_id, status="held")
    return list((rows.select_for_update() if lock else rows).order_by("received_at", "id")[:HELD_MAX])


def _close_if_answered(row: VendorWebhook, now: datetime, *, refuted: bool) -> Iterable[Emission]:
    """Saves the row, done once nothing of it waits any more; tells of a push the vendor knows nothing of."""
    emissions = []
    if refuted:
        row.detail = "the vendor does not confirm it"
        _tell_refuted(row, now)
    if not row.records and not row.states:
        emissions.append(webhooks.processed(row, row.outcome or "ignored", now))
    row.save()
    return emissions


def _tell_refuted(row: VendorWebhook, now: datetime) -> None:
    alert = NewAlert(
        f"push-refuted:{row.installation_id}:{now:%Y-%m-%dT%H}", "PUSH_NOT_CONFIRMED", "warning",
        f"a push ({row.type}) tells what {row.vendor} does not confirm; it changed nothing", webhooks.RUNBOOK,
        _property_of(row),
    )  # fmt: skip
    raise_alerts(row.tenant_id, [alert], now)


def _property_of(row: VendorWebhook) -> str:
    found: Mapping[str, Any] | None = (
        LockDevice.objects.filter(tenant_id=row.tenant_id, installation_id=row.installation_id).values("property_id").first()
    )
    return found["property_id"] if found else ""


def _real_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
