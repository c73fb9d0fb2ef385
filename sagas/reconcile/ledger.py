"""What our books say should be at a door.

One rule: read only, fresh for every question; what a door's rows say is compared with the door only through `compare`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from credentials.lifecycle import LIVE, TERMINAL, State
from credentials.models import CredentialDoor, DoorState, KeyCredential, Reservation
from credentials.targets import wanted
from devices import selectors
from devices.health_rules import window_by_clocks
from devices.selectors import DeviceFacts
from lockservice.core import clock, crypto
from sagas.models import OPEN_STATUSES, Saga
from sagas.reconcile.compare import Expected, Known
from vendors.port.types import CredentialKind, Propagation, Window
from vendors.support.marks import tag_of

GRAIN = timedelta(minutes=1)
"""Visionline keeps whole minutes (fact sheet, confidence high); TTLock milliseconds; SALTO and Vostio seconds."""
GRAIN_OFFLINE_PIN = timedelta(hours=1)
"""TTLock's random codes, where no network reaches the lock, begin and end at whole hours (fact sheet §5, confidence A)."""
CARD_KINDS = frozenset({CredentialKind.RFID_CARD.value, CredentialKind.NFC_TAG.value})


@dataclass(frozen=True, slots=True)
class DoorBooks:
    """What our books have about one door."""

    expected: tuple[Expected, ...]
    known: dict[str, Known]


def fingerprint(tenant_id: str, device_id: str, reference: str) -> str:
    """Returns 64 hex digits that tell one key at one door from another, and nothing else."""
    return crypto.blind_index("vendor-ref", tenant_id, f"{device_id}\x1f{reference}").hex()


def ref_place(door: CredentialDoor) -> tuple[str, str, str]:
    """Returns where a door's vendor reference is sealed for."""
    return ("credentials_credentialdoor", f"{door.credential_id}\x1f{door.device_id}", "vendor_ref_sealed")


def books_of(tenant_id: str, device: DeviceFacts, tags: Iterable[str] = (), only: Iterable[str] | None = None) -> DoorBooks:
    """Reads what should be at a door, and whose the tags seen there are. Inside the tenant's block.

    `only` restricts it to some credentials.
    """
    doors = CredentialDoor.objects.filter(tenant_id=tenant_id, device_id=device.id)
    if only is not None:
        rows = list(doors.filter(credential_id__in=sorted(set(only))).select_related("credential").order_by("id"))
        return DoorBooks(_expected(tenant_id, device, rows), {})
    there = doors.filter(Q(state__in=[DoorState.PRESENT, DoorState.SUSPENDED]) | ~Q(verb=""))
    live = doors.filter(
        credential__tenant_id=tenant_id, credential__property_id=device.property_id, credential__state__in=sorted(LIVE)
    )
    found = {row.pk: row for part in (there, live) for row in part.select_related("credential")}
    rows = [found[pk] for pk in sorted(found)]
    unknown = set(tags) - {tag_of(row.credential_id) for row in rows}
    if unknown:
        rows += _earlier(doors, unknown, {row.credential_id for row in rows})
        unknown -= {tag_of(row.credential_id) for row in rows}
    return DoorBooks(_expected(tenant_id, device, rows), _elsewhere(tenant_id, device, unknown))


def mark_of(key: KeyCredential, door: CredentialDoor) -> str:
    """Returns a text that changes with everything a repair at this door depends on."""
    parts = (
        key.state, key.desired_version, key.kind, int(key.resuming),
        door.state, door.verb, door.rounds, door.carried_version, door.pin_version, int(door.dropped),
    )  # fmt: skip
    return ".".join(str(part) for part in parts)


def busy_credentials(tenant_id: str, credential_ids: Iterable[str]) -> set[str]:
    """Returns those of the credentials that an open saga works on."""
    ids = sorted(set(credential_ids))
    rows = Saga.objects.filter(tenant_id=tenant_id, credential_id__in=ids, status__in=OPEN_STATUSES)
    return {row for row in rows.values_list("credential_id", flat=True) if row} if ids else set()


def _earlier(doors: Any, tags: set[str], known: set[str]) -> list[CredentialDoor]:
    """Returns the door's rows of keys that are over, as far as their tags were seen there."""
    ids = doors.exclude(credential_id__in=known).values_list("credential_id", flat=True)
    wanted_ids = [key_id for key_id in ids.iterator() if tag_of(key_id) in tags]
    return list(doors.filter(credential_id__in=wanted_ids).select_related("credential").order_by("id"))


def _elsewhere(tenant_id: str, device: DeviceFacts, tags: set[str]) -> dict[str, Known]:
    """Finds the credentials behind tags that no row of this door explains."""
    if not tags:
        return {}
    rows = KeyCredential.objects.filter(tenant_id=tenant_id).values_list("id", "state")
    found = ((tag_of(key_id), key_id, state) for key_id, state in rows.iterator())
    return {tag: Known(key_id, state in TERMINAL) for tag, key_id, state in found if tag in tags}


def _expected(tenant_id: str, device: DeviceFacts, rows: list[CredentialDoor]) -> tuple[Expected, ...]:
    busy = busy_credentials(tenant_id, [row.credential_id for row in rows])
    now = clock.now()
    skews = _skews_by_lane(tenant_id, device, rows, now)
    skew_ms = device.skew_at(now)
    succeeded = _succeeded(tenant_id, device, rows)
    found = (_row(tenant_id, device, row, busy, [skew_ms], skews.get(row.credential_id, [])) for row in rows)
    return tuple(replace(item, is_succeeded=item.credential_id in succeeded) for item in found)


def _succeeded(tenant_id: str, device: DeviceFacts, rows: list[CredentialDoor]) -> set[str]:
    """Return those of the keys whose stay is over while a running key of another stay is at the door."""
    now = clock.now()
    there = CredentialDoor.objects.filter(
        tenant_id=tenant_id, device_id=device.id, state=DoorState.PRESENT, dropped=False, credential__state=State.ACTIVE,
        credential__valid_from__lte=now, credential__valid_until__gt=now, credential__reservation_id__isnull=False,
    )  # fmt: skip
    held = set(there.values_list("credential__reservation_id", flat=True))
    stays = {row.credential.reservation_id for row in rows if row.credential.reservation_id}
    over = set(
        Reservation.objects.filter(tenant_id=tenant_id, reservation_id__in=sorted(stays | held), valid_until__lte=now)
        .values_list("reservation_id", flat=True)
    )  # fmt: skip
    return {row.credential_id for row in rows if row.credential.reservation_id in over} if held - over else set()


def _row(tenant_id: str, device: DeviceFacts, door: CredentialDoor, busy: set[str], *skews_ms: list[int | None]) -> Expected:
    key = door.credential
    raw = Window(key.valid_from, key.valid_until)
    fits = dict.fromkeys((raw, *(window_by_clocks(raw, skews) for skews in skews_ms)))
    on_its_way = key.state in (State.REQUESTED, State.PENDING) or bool(door.verb) or key.resuming or key.id in busy
    sealed = door.vendor_ref_sealed
    is_late = any(warning.get("code") == "CARD_MUST_BE_UPDATED" for warning in key.warnings)
    return Expected(
        door_pk=door.pk,
        credential_id=key.id,
        tag=tag_of(key.id),
        kind=key.kind,
        wants=wanted(key, door),
        has=door.state,
        fits=tuple(fits),
        mark=mark_of(key, door),
        fingerprint=fingerprint(tenant_id, device.id, _open(tenant_id, door)) if sealed is not None else "",
        is_in_flight=on_its_way,
        is_failed=key.state == State.FAILED,
        card_is_late=is_late and key.kind in CARD_KINDS and door.propagation == Propagation.PROPAGATING,
        grain=GRAIN_OFFLINE_PIN if key.kind == CredentialKind.PIN_CODE and not device.has_remote else GRAIN,
    )


def _open(tenant_id: str, door: CredentialDoor) -> str:
    return crypto.unseal("vendor-ref", tenant_id, ref_place(door), door.vendor_ref_sealed or b"")


def _skews_by_lane(
    tenant_id: str, device: DeviceFacts, rows: list[CredentialDoor], now: datetime
) -> dict[str, list[int | None]]:
    """Returns, per credential, the clocks of the doors that are called together with this one: their window is one."""
    lanes = {row.lane for row in rows}
    facts = {d.id: d.skew_at(now) for d in selectors.property_devices(tenant_id, device.property_id)}
    if not any(skew for skew in facts.values()):
        return {}
    together = CredentialDoor.objects.filter(
        tenant_id=tenant_id, lane__in=lanes, credential_id__in={row.credential_id for row in rows}
    )
    found: dict[str, list[int | None]] = {}
    for credential_id, device_id in together.values_list("credential_id", "device_id"):
        found.setdefault(credential_id, []).append(facts.get(device_id))
    return found
