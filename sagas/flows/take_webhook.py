"""Works on pushes that were taken in: who tried which door, with which key, and whether that key should still have opened.

One rule: a push is one row, worked in one transaction; an attempt is one row and one `audit.attempt.v1`, whoever tells of it
and however often.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from django.db import InterfaceError, OperationalError, connection, transaction

from credentials.lifecycle import State
from credentials.models import CredentialDoor, KeyCredential, Transition
from devices import health, webhooks
from devices.health_rules import Reading, Source
from devices.models import AccessAttempt, LockDevice, VendorWebhook
from lockservice.core import clock, tenancy
from lockservice.core.bulk import insert_returning
from sagas import outbox
from sagas.alerts import NewAlert, raise_alerts
from sagas.events.instants import format_instant
from sagas.events.subjects import Subject
from sagas.flows.settle_plan import issue_call_key
from sagas.outbox import Emission
from vendors.port.ids import new_id
from vendors.port.types import AccessRecord
from vendors.support.marks import mark_of

log = structlog.get_logger(__name__)

TRIES = 5
RETRY_S = 30
REPLAYS_KEPT_DAYS = 30
"""Vendors repeat for hours, at most days; the fact sheets name no figure."""
RECEIPTS_KEPT = timedelta(days=90)
"""As operational events; attempts are kept with the regulated ones."""
LOOK_BACK = timedelta(days=60)
"""A key that ended longer before the attempt is not looked for at that door: its mark is long gone there."""
SHUT = frozenset({State.REVOKED, State.SUSPENDED, State.FAILED})
_COLUMNS = {
    "id": "text", "tenant_id": "text", "property_id": "text", "device_id": "text", "credential_id": "text",
    "credential_state": "text", "outcome": "text", "deny_reason": "text", "kind": "text", "vendor": "text",
    "external_event_id": "text", "attempted_at": "timestamptz", "ingested_at": "timestamptz",
}  # fmt: skip


def take_due(limit: int = 200, only: Sequence[str] | None = None) -> int:
    """Works on up to `limit` due pushes, each in its own transaction; returns how many. Any number of processes may do so.

    `only` restricts it to pushes for installations of the given ids.
    """
    done = 0
    while done < limit and _take_one(only):
        done += 1
    return done


def _take_one(only: Sequence[str] | None) -> bool:
    with tenancy.queues():
        rows = VendorWebhook.objects.select_for_update(skip_locked=True).filter(status="due", due_at__lte=_real_now())
        if only is not None:
            rows = rows.filter(installation_id__in=list(only))
        row = rows.order_by("due_at", "id").first()
        if row is None:
            return False
        tenancy.switch_to_tenant(row.tenant_id)
        try:
            with transaction.atomic():
                _take(row, clock.now())
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:  # noqa: BLE001 - one push we cannot handle must not stop its neighbours
            _put_off(row, error)
    return True


def _take(row: VendorWebhook, now: datetime) -> None:
    """Writes the attempts of one push, its devices' signs of life, and how it ended. Inside the tenant's block."""
    records = sorted((webhooks.from_json(item) for item in row.records), key=lambda record: record.attempted_at)
    devices = _lock_devices(row, records)
    known = [record for record in records if record.device_external_id in devices]
    keys = _keys(row.tenant_id, [(devices[record.device_external_id], record) for record in known])
    attempts = [_attempt(row, devices[r.device_external_id], r, keys.get(r.external_event_id), now) for r in known]
    fresh = {found[0] for found in _insert(attempts)}
    new = [attempt for attempt in attempts if attempt.id in fresh]
    by_id = {device.id: device for device in devices.values()}
    emissions = [_told(by_id[attempt.device_id], attempt) for attempt in new]
    LockDevice.objects.bulk_update(list(by_id.values()), ["event_sequence"])
    if new:
        alive = {attempt.device_id: Reading(Source.PUSH, online=True) for attempt in new}
        health.observe(row.tenant_id, alive, now)
    emissions.append(webhooks.processed(row, _outcome(known, new), now))
    row.save()
    outbox.write(row.tenant_id, emissions, now)
    raise_alerts(row.tenant_id, [_alert(by_id[a.device_id], a) for a in new if _should_not_have_opened(a)], now)
    _forget(row, now)


def _lock_devices(row: VendorWebhook, records: Sequence[AccessRecord]) -> dict[str, LockDevice]:
    """Locks the installation's devices named in the push, by the vendor's id; others are nobody's here."""
    names = {record.device_external_id for record in records}
    rows = LockDevice.objects.select_for_update().filter(
        tenant_id=row.tenant_id, installation_id=row.installation_id, external_id__in=sorted(names)
    )
    return {device.external_id: device for device in rows.order_by("id")}


def _keys(tenant_id: str, tried: Sequence[tuple[LockDevice, AccessRecord]]) -> dict[str, tuple[str, str]]:
    """Finds by the mark on it which key each attempt used: event id → (credential, the state it had at that moment)."""
    marked = [(device, record) for device, record in tried if record.nonce]
    if not marked:
        return {}
    earliest = min(record.attempted_at for _, record in marked) - LOOK_BACK
    doors = CredentialDoor.objects.select_related("credential").filter(
        tenant_id=tenant_id, device_id__in={device.id for device, _ in marked}, credential__valid_until__gte=earliest
    )
    by_mark: dict[tuple[str, str], KeyCredential] = {}
    for door in doors:
        for rounds in range(door.rounds + 1):
            by_mark[door.device_id, mark_of(issue_call_key(door.credential, rounds))] = door.credential
    found = {
        record.external_event_id: (device, record, key)
        for device, record in marked
        if (key := by_mark.get((device.id, record.nonce or ""))) is not None
    }
    moves = _moves(tenant_id, {key.id for _, _, key in found.values()})
    return {
        event_id: (key.id, _state_at(moves[key.id], record.attempted_at - _skew(device)))
        for event_id, (device, record, key) in found.items()
    }


def _moves(tenant_id: str, key_ids: set[str]) -> dict[str, list[tuple[datetime, str]]]:
    moves: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    rows = Transition.objects.filter(tenant_id=tenant_id, credential_id__in=key_ids).order_by("credential_id", "sequence")
    for key_id, at, target in rows.values_list("credential_id", "at", "target"):
        moves[key_id].append((at, target))
    return moves


def _state_at(moves: Sequence[tuple[datetime, str]], moment: datetime) -> str:
    """Returns the state at a moment; a moment before the key's first move counts as its first state."""
    state = moves[0][1] if moves else ""
    for at, target in moves:
        if at > moment:
            break
        state = target
    return state


def _skew(device: LockDevice) -> timedelta:
    """A record's time is the lock's own; how far that is off is known from the last check."""
    return timedelta(milliseconds=device.clock_skew_ms or 0)


def _attempt(
    row: VendorWebhook, device: LockDevice, record: AccessRecord, key: tuple[str, str] | None, now: datetime
) -> AccessAttempt:
    return AccessAttempt(
        id=new_id("kca"),
        tenant_id=row.tenant_id,
        property_id=device.property_id,
        device_id=device.id,
        credential_id=key[0] if key else None,
        credential_state=key[1] if key else "",
        outcome=record.outcome,
        deny_reason=(record.deny_reason or "")[:64],
        kind=record.kind.value if record.kind else "",
        vendor=row.vendor,
        external_event_id=record.external_event_id,
        attempted_at=record.attempted_at,
        ingested_at=now,
    )


def _insert(attempts: Sequence[AccessAttempt]) -> list[tuple[str]]:
    """Writes those attempts nobody told us of yet, and returns their ids."""
    return insert_returning(
        "devices_accessattempt",
        _COLUMNS,
        [tuple(getattr(attempt, name) for name in _COLUMNS) for attempt in attempts],
        on_conflict="(tenant_id, vendor, external_event_id) DO NOTHING",
        returning="id",
    )


def _told(device: LockDevice, attempt: AccessAttempt) -> Emission:
    data = {
        "attemptId": attempt.id,
        "propertyId": attempt.property_id,
        "deviceId": attempt.device_id,
        "keyCredentialId": attempt.credential_id,
        "outcome": attempt.outcome,
        "denyReason": attempt.deny_reason or None,
        "vendor": attempt.vendor,
        "vendorEventId": attempt.external_event_id,
        "attemptedAt": format_instant(attempt.attempted_at),
        "ingestedAt": format_instant(attempt.ingested_at),
    }
    return health.emission(device, Subject.AUDIT_ATTEMPT, data)


def _outcome(known: Sequence[AccessRecord], new: Sequence[AccessAttempt]) -> str:
    if new:
        return "applied"
    return "duplicate" if known else "ignored"


def _should_not_have_opened(attempt: AccessAttempt) -> bool:
    return attempt.outcome == "granted" and attempt.credential_state in SHUT


def _alert(device: LockDevice, attempt: AccessAttempt) -> NewAlert:
    """Told once per key and door: the second opening says nothing new to who should already be at that door."""
    return NewAlert(
        f"opened:{attempt.credential_id}:{device.id}", "REVOKED_KEY_OPENED", "critical",
        f"{device.label} opened for a key that was {attempt.credential_state}", webhooks.RUNBOOK,
        attempt.property_id, attempt.credential_id or "",
    )  # fmt: skip


def _forget(row: VendorWebhook, now: datetime) -> None:
    """Drops the installation's old receipts and the tenant's old replay rows."""
    old = VendorWebhook.objects.filter(tenant_id=row.tenant_id, installation_id=row.installation_id, status="done")
    old.filter(received_at__lt=now - RECEIPTS_KEPT).delete()
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM devices_webhookreplay WHERE tenant_id = %s"
            " AND seen_at < clock_timestamp() - make_interval(days => %s)",
            [row.tenant_id, REPLAYS_KEPT_DAYS],
        )


def _put_off(row: VendorWebhook, error: Exception) -> None:
    """Our bug: tried again a few times, then left to a person. Inside the tenant's block."""
    log.error("webhook.bug", webhook=row.id, exc_info=error)
    row.refresh_from_db()
    row.attempts += 1
    row.detail = type(error).__name__
    row.due_at = _real_now() + timedelta(seconds=RETRY_S * row.attempts)
    if row.attempts >= TRIES:
        row.status = "dead"
        alert = NewAlert(f"bug:{row.id}", "INTERNAL_ERROR", "critical", "a push stopped on an error of ours", webhooks.RUNBOOK)
        raise_alerts(row.tenant_id, [alert], clock.now())
    row.save()


def _real_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
