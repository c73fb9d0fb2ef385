"""Writes attempts at doors into our books: who tried which door, with which key, and whether that key should still have opened.

One rule: an attempt is one row and one `audit.attempt.v1`, whoever tells of it (a push, the vendor's log, or both) and however
often.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from credentials.arrival_signs import Sign, SignKind
from credentials.lifecycle import State
from credentials.models import CredentialDoor, KeyCredential, Transition
from devices import health, webhooks
from devices.health_rules import Reading, Source
from devices.models import AccessAttempt, LockDevice
from lockservice.core.bulk import insert_returning
from sagas import outbox
from sagas.alerts import NewAlert, raise_alerts
from sagas.events.instants import format_instant
from sagas.events.subjects import Subject
from sagas.flows import guest_came
from sagas.flows.call_keys import issue_call_key
from sagas.outbox import Cause, Emission
from vendors.port.ids import new_id
from vendors.port.types import AccessRecord
from vendors.support.marks import mark_of

LOOK_BACK = timedelta(days=60)
"""A key that ended longer before the attempt is not looked for at that door: its mark is long gone there."""
ALIVE_WITHIN = timedelta(minutes=15)
"""An attempt told later than this is no sign that the lock answers now."""
SHUT = frozenset({State.REVOKED, State.SUSPENDED, State.FAILED})
OVER = frozenset({State.REVOKED, State.FAILED})
_COLUMNS = {
    "id": "text", "tenant_id": "text", "property_id": "text", "device_id": "text", "credential_id": "text",
    "credential_state": "text", "outcome": "text", "deny_reason": "text", "kind": "text", "installation_id": "text",
    "vendor": "text", "external_event_id": "text", "attempted_at": "timestamptz", "ingested_at": "timestamptz",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Whose attempts these are."""

    tenant_id: str
    installation_id: str
    vendor: str


@dataclass(frozen=True, slots=True)
class Known:
    """An attempt at a lock of ours; `key` is the credential and the state it had at that moment, None for nobody's we know."""

    device: LockDevice
    record: AccessRecord
    key: tuple[str, str] | None

    @property
    def contradicts(self) -> bool:
        """Says whether it opened for a key that was over or at rest."""
        return self.record.outcome == "granted" and self.key is not None and self.key[1] in SHUT


def recognise(place: Place, records: Sequence[AccessRecord]) -> list[Known]:
    """Locks the locks the records name (others are nobody's here) and finds their keys, in the order of the attempts.

    Inside the tenant's block.
    """
    records = sorted(records, key=lambda record: record.attempted_at)
    devices = _lock_devices(place, records)
    known = [record for record in records if record.device_external_id in devices]
    keys = _keys(place.tenant_id, [(devices[record.device_external_id], record) for record in known])
    return [Known(devices[r.device_external_id], r, keys.get(r.external_event_id)) for r in known]


def write(place: Place, known: Sequence[Known], now: datetime, *, signs_of_life: bool = False) -> set[str]:
    """Writes those attempts nobody told us of yet, with events and alerts; returns their event ids.

    `signs_of_life` says that a recent one also shows that the lock answers. Inside the tenant's block, after `recognise`.
    """
    attempts = [_attempt(place, item, now) for item in known]
    inserted = {found[0] for found in _insert(attempts)}
    new = [attempt for attempt in attempts if attempt.id in inserted]
    if not new:
        return set()
    by_id = {item.device.id: item.device for item in known}
    emissions = [_told(by_id[attempt.device_id], attempt) for attempt in new]
    LockDevice.objects.bulk_update(list(by_id.values()), ["event_sequence"])
    if signs_of_life:
        alive = {a.device_id for a in new if abs(a.attempted_at - _skew(by_id[a.device_id]) - now) <= ALIVE_WITHIN}
        health.observe(place.tenant_id, {device_id: Reading(Source.PUSH, online=True) for device_id in sorted(alive)}, now)
    outbox.write(place.tenant_id, emissions, now)
    contradicting = {item.record.external_event_id for item in known if item.contradicts}
    told = [_alert(by_id[a.device_id], a) for a in new if a.external_event_id in contradicting]
    raise_alerts(place.tenant_id, told, now)
    _note_arrivals(place, [item for item in known if item.record.external_event_id in {a.external_event_id for a in new}], now)
    return {attempt.external_event_id for attempt in new}


def _note_arrivals(place: Place, new: Sequence[Known], now: datetime) -> None:
    """A guest's key that opened a door shows that she has come; one that was over by then shows nothing."""
    opened = {
        item.key[0]: item
        for item in reversed(new)  # the earliest of each key is kept
        if item.record.outcome == "granted" and item.key is not None and item.key[1] not in OVER
    }
    keys = KeyCredential.objects.filter(tenant_id=place.tenant_id, id__in=sorted(opened), holder_kind="guest")
    signs = [
        Sign(
            key.reservation_id, key.incarnation, SignKind.DOOR,
            opened[key.id].record.attempted_at - _skew(opened[key.id].device), opened[key.id].device.label,
        )
        for key in (keys.exclude(reservation_id=None).order_by("id") if opened else ())
        if key.reservation_id
    ]  # fmt: skip
    if signs:
        guest_came.note(place.tenant_id, signs, now, Cause())


def _lock_devices(place: Place, records: Sequence[AccessRecord]) -> dict[str, LockDevice]:
    names = {record.device_external_id for record in records}
    rows = LockDevice.objects.select_for_update().filter(
        tenant_id=place.tenant_id, installation_id=place.installation_id, external_id__in=sorted(names)
    )
    return {device.external_id: device for device in rows.order_by("id")}


def _keys(tenant_id: str, tried: Sequence[tuple[LockDevice, AccessRecord]]) -> dict[str, tuple[str, str]]:
    """Finds by the mark on it which key each attempt used: event id → (credential, the state it had at that moment)."""
    marked = [(device, record) for device, record in tried if record.nonce]
    if not marked:
        return {}
    earliest = min(record.attempted_at for _, record in marked) - LOOK_BACK
    doors = CredentialDoor.objects.select_related("credential").filter(
        tenant_id=tenant_id, device_id__in={device.id for device, _ in marked}, credential__tenant_id=tenant_id,
        credential__property_id__in={device.property_id for device, _ in marked}, credential__valid_until__gte=earliest,
    )  # fmt: skip
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


def _attempt(place: Place, item: Known, now: datetime) -> AccessAttempt:
    record = item.record
    return AccessAttempt(
        id=new_id("kca"),
        tenant_id=place.tenant_id,
        property_id=item.device.property_id,
        device_id=item.device.id,
        credential_id=item.key[0] if item.key else None,
        credential_state=item.key[1] if item.key else "",
        outcome=record.outcome,
        deny_reason=(record.deny_reason or "")[:64],
        kind=record.kind.value if record.kind else "",
        installation_id=place.installation_id,
        vendor=place.vendor,
        external_event_id=record.external_event_id,
        attempted_at=record.attempted_at,
        ingested_at=now,
    )


def _insert(attempts: Sequence[AccessAttempt]) -> list[tuple[str]]:
    return insert_returning(
        "devices_accessattempt",
        _COLUMNS,
        [tuple(getattr(attempt, name) for name in _COLUMNS) for attempt in attempts],
        on_conflict="(tenant_id, installation_id, external_event_id) DO NOTHING",
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


def _alert(device: LockDevice, attempt: AccessAttempt) -> NewAlert:
    """Told once per key and door: the second opening says nothing new to who should already be at that door."""
    return NewAlert(
        f"opened:{attempt.credential_id}:{device.id}", "REVOKED_KEY_OPENED", "critical",
        f"{device.label} opened for a key that was {attempt.credential_state}", webhooks.RUNBOOK,
        attempt.property_id, attempt.credential_id or "",
    )  # fmt: skip
