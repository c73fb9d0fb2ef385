"""Writes what a comparison found: once, open until it is gone, with an alert where a door is at stake.

One rule: a finding is one row over all runs; the next run confirms it, closes it, or leaves it to the person who knows the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from credentials import pin_slots
from credentials.house import house
from devices.selectors import DeviceFacts
from sagas.alerts import NewAlert, raise_alerts
from sagas.models import Finding
from sagas.reconcile import owners, sightings
from sagas.reconcile.compare import UNKNOWN_OWNER, Danger, Difference, Kind
from sagas.reconcile.sightings import LABEL, PIN, REF, Sighting

OPEN, RESOLVED, IGNORED = "open", "resolved", "ignored"
RUNBOOK = "lock/reconcile-vendor"
_HOLDS_DIGITS = UNKNOWN_OWNER | {Kind.PRESENT_BUT_REVOKED}
_ALERTS = {Danger.OPENS: "DRIFT_KEY_OPENS", Danger.LOCKED_OUT: "DRIFT_KEY_MISSING"}
_REFRESHED = (
    "run_id", "last_seen_at", "detail", "danger", "ledger_mark", "credential_id", "wanted_from", "wanted_until", "key_kind",
    "fingerprint", "is_resting", "found_from", "found_until", "ref_sealed", "label_sealed", "pin_sealed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Written:
    """What one door's findings came to. `open_ids` are those seen now that nobody ignores."""

    open_ids: list[int]
    new_kinds: list[Kind]
    resolved_count: int


def slot_owner(fingerprint: str) -> str:
    """Names who holds the digits of a key that is not ours."""
    return f"unknown:{fingerprint[:48]}"


def write(
    tenant_id: str,
    run_id: int,
    device: DeviceFacts,
    differences: Sequence[Difference],
    seen: Sequence[Sighting],
    now: datetime,
) -> Written:
    """Brings the door's findings in step with what was confirmed there. Inside the tenant's block; takes the rows' locks."""
    rows = Finding.objects.select_for_update().filter(tenant_id=tenant_id, device_id=device.id).exclude(status=RESOLVED)
    standing = {(row.kind, row.subject): row for row in rows.order_by("id")}
    by_mark = {item.seen.fingerprint: item for item in seen}
    stays = owners.stays_at(tenant_id, device, now) if any(item.kind is Kind.STRANGER for item in differences) else []
    fresh, again = [], []
    for item in differences:
        row = standing.pop((item.kind.value, item.subject), None)
        sighting = by_mark.get(item.seen.fingerprint) if item.seen is not None else None
        if row is None:
            row = _new(tenant_id, run_id, device, item, now)
            row.guesses = _guesses(item, sighting, stays, device, now)
            fresh.append((row, item))
        else:
            again.append((row, item))
        _refresh(row, run_id, item, sighting, now)
    Finding.objects.bulk_create([row for row, _ in fresh])
    Finding.objects.bulk_update([row for row, _ in again], _REFRESHED, batch_size=200)
    for row in standing.values():
        resolve(row, "repaired" if row.repair_asked_at else "gone", now)
    open_now = [(row, item) for row, item in (*again, *fresh) if row.status == OPEN]
    _alarm(tenant_id, open_now, device, now)
    _block_digits(tenant_id, device, differences, by_mark)
    return Written([row.pk for row, _ in open_now], [item.kind for _, item in fresh], len(standing))


def resolve(row: Finding, resolution: str, now: datetime) -> None:
    """Closes a finding and drops what was sealed in it; digits of a key that left rest at the door. Inside the tenant's
    block."""
    row.status, row.resolution, row.resolved_at = RESOLVED, resolution, now
    row.ref_sealed = row.label_sealed = row.pin_sealed = None
    row.save()
    if row.fingerprint and resolution in ("gone", "repaired"):
        until = pin_slots.rest(now, house(row.tenant_id, row.property_id).policy.pin_rest_days)
        pin_slots.release(row.tenant_id, [(slot_owner(row.fingerprint), row.device_id, until)])


def tell_of_strangers(tenant_id: str, property_id: str, installation_id: str, run_id: int, count: int, now: datetime) -> None:
    """Raises one alert for all unknown keys that a run came upon for the first time. Inside the tenant's block."""
    alert = NewAlert(
        f"strangers:{installation_id}:{run_id}", "UNKNOWN_KEYS_FOUND", "warning",
        f"{count} keys that this service did not make are at doors; somebody has to say whose they are", RUNBOOK, property_id,
    )  # fmt: skip
    raise_alerts(tenant_id, [alert], now)


def _new(tenant_id: str, run_id: int, device: DeviceFacts, item: Difference, now: datetime) -> Finding:
    return Finding(
        tenant_id=tenant_id,
        property_id=device.property_id,
        installation_id=device.installation_id,
        device_id=device.id,
        kind=item.kind.value,
        subject=item.subject,
        credential_id=item.credential_id,
        run_id=run_id,
        first_seen_at=now,
        last_seen_at=now,
    )


def _refresh(row: Finding, run_id: int, item: Difference, sighting: Sighting | None, now: datetime) -> None:
    row.run_id, row.last_seen_at = run_id, now
    row.detail, row.danger, row.ledger_mark = item.detail, item.danger.value, item.mark
    row.credential_id = item.credential_id
    if item.expected is not None:
        row.wanted_from, row.wanted_until = item.expected.fits[0].valid_from, item.expected.fits[0].valid_until
        row.key_kind = item.expected.kind
    if item.seen is None:
        return
    window, mark = item.seen.window, item.seen.fingerprint
    row.fingerprint, row.key_kind, row.is_resting = mark, item.seen.kind, item.seen.is_resting
    row.found_from, row.found_until = (window.valid_from, window.valid_until) if window else (None, None)
    if sighting is None:
        return
    row.ref_sealed = sightings.seal(row.tenant_id, row.device_id, mark, REF, sighting.ref.reveal())
    if sighting.label:
        row.label_sealed = sightings.seal(row.tenant_id, row.device_id, mark, LABEL, sighting.label)
    if sighting.pin is not None:
        row.pin_sealed = sightings.seal(row.tenant_id, row.device_id, mark, PIN, sighting.pin.reveal())


def _guesses(
    item: Difference, sighting: Sighting | None, stays: Sequence[owners.StayFacts], device: DeviceFacts, now: datetime
) -> list[dict[str, object]]:
    if item.kind is not Kind.STRANGER or item.seen is None:
        return []
    label = sighting.label if sighting is not None else ""
    return [found.as_json() for found in owners.guess(label, item.seen.window, stays, is_shared=device.shared, now=now)]


def _alarm(tenant_id: str, found: Sequence[tuple[Finding, Difference]], device: DeviceFacts, now: datetime) -> None:
    """Raises an alert for each finding at which a door is at stake, once per finding and danger."""
    new = [
        NewAlert(
            f"drift:{row.pk}:{item.danger.value}", _ALERTS[item.danger], "critical",
            f"{item.kind.value.replace('_', ' ')} at {device.label}: {item.detail}", RUNBOOK, row.property_id,
            row.credential_id,
        )
        for row, item in found
        if item.danger in _ALERTS
    ]  # fmt: skip
    if new:
        raise_alerts(tenant_id, new, now)


def _block_digits(tenant_id: str, device: DeviceFacts, differences: Sequence[Difference], by_mark: dict[str, Sighting]) -> None:
    """Takes the digits of keys that the books do not know, so that no guest is given the same."""
    taken = []
    for item in differences:
        sighting = by_mark.get(item.seen.fingerprint) if item.seen is not None and item.kind in _HOLDS_DIGITS else None
        if sighting is not None and sighting.pin_index is not None:
            taken.append((sighting.pin_index, slot_owner(sighting.seen.fingerprint)))
    if taken:
        pin_slots.block(tenant_id, device.id, taken)
