"""Holds the ledger against the doors: every key we believe is there must be there, and nothing else.

One rule: the doors are asked at the simulator, side by side with our rows, at a moment when nothing is under way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from credentials import artifacts
from credentials.models import CredentialDoor, DoorState
from devices.models import LockDevice
from lockservice.core.tenancy import tenant
from vendors.port.simulated import HeldKey, SimulatorControl
from vendors.port.types import CredentialKind

KeyAtDoor = tuple[str, str, str, datetime, datetime]
"""External id of the lock, kind, what opens, from, until."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A door where ledger and lock disagree. `what` names no secret."""

    door: str
    what: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared: doors that were looked at, keys found equal, and the differences."""

    doors_count: int
    keys_count: int
    differences: tuple[Difference, ...]


def compare(tenant_id: str, property_id: str, control: SimulatorControl) -> Comparison:
    """Compares all doors of a property now. Opens a tenant block. Raises vendors.port.simulated.SimulatorUnreachable."""
    with tenant(tenant_id):
        locks = {lock.id: lock for lock in LockDevice.objects.filter(tenant_id=tenant_id, property_id=property_id)}
        rows = list(
            CredentialDoor.objects.filter(
                tenant_id=tenant_id, device_id__in=list(locks), state__in=(DoorState.PRESENT, DoorState.SUSPENDED)
            ).select_related("credential")
        )
        pins = _pins(tenant_id, rows)
    labels = {lock.external_id: lock.label for lock in locks.values()}
    held = list(control.held(labels))
    present = [row for row in rows if row.state == DoorState.PRESENT]
    resting = [row for row in rows if row.state == DoorState.SUSPENDED]
    expected = Counter(_expected(row, locks, pins) for row in present)
    found = Counter(_found(key) for key in held if not key.is_resting)
    differences = [*_differences(expected, found, labels), *_resting(resting, held, locks, pins, labels)]
    return Comparison(len(locks), sum((expected & found).values()), tuple(differences))


def _expected(row: CredentialDoor, locks: Mapping[str, LockDevice], pins: Mapping[str, str]) -> KeyAtDoor:
    if row.carried_from is None or row.carried_until is None:
        raise ValueError(f"{row.credential_id} is at a door without a window")
    value = pins.get(row.credential_id, "")
    return (locks[row.device_id].external_id, row.credential.kind, value, row.carried_from, row.carried_until)


def _found(key: HeldKey) -> KeyAtDoor:
    return (key.door, key.kind.value, key.value, key.opens_from, key.opens_until)


def _differences(expected: Counter[KeyAtDoor], found: Counter[KeyAtDoor], labels: Mapping[str, str]) -> Iterator[Difference]:
    for door, kind, _, start, end in (expected - found).elements():
        yield Difference(labels[door], f"a {kind} of the ledger ({start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}) is not there")
    for door, kind, _, start, end in (found - expected).elements():
        yield Difference(
            labels[door], f"holds a {kind} ({start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}) the ledger does not know"
        )


def _resting(
    rows: Sequence[CredentialDoor],
    held: Sequence[HeldKey],
    locks: Mapping[str, LockDevice],
    pins: Mapping[str, str],
    labels: Mapping[str, str],
) -> Iterator[Difference]:
    """A suspended key may lie at the door resting, or be gone; what rests there must be a suspended key."""
    known = {(locks[row.device_id].external_id, pins.get(row.credential_id, "")) for row in rows}
    for key in held:
        if key.is_resting and (key.door, key.value) not in known:
            yield Difference(labels[key.door], f"holds a resting {key.kind} that the ledger does not know")


def _pins(tenant_id: str, rows: Sequence[CredentialDoor]) -> dict[str, str]:
    """The digits of the keys that have any; for other kinds the door tells no value."""
    ids = {row.credential_id for row in rows if row.credential.kind == CredentialKind.PIN_CODE}
    held = {key_id: artifacts.open_pin(row) for key_id, row in artifacts.current(tenant_id, ids).items()}
    return {key_id: pin.reveal() for key_id, pin in held.items() if pin is not None}
