"""Stands in the corridor: finds a door and a guest's key, and asks the simulated lock whether it opens.

One rule: the lock is asked, never our ledger. The only thing read here is what the guest was given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from credentials import artifacts
from credentials.lifecycle import LIVE
from credentials.models import CredentialDoor, KeyCredential
from devices import simulated
from devices.models import LockDevice
from lockservice.core.places import Property, Room
from lockservice.core.tenancy import tenant
from lockservice.demo import places
from vendors.port.simulated import DoorAnswer
from vendors.port.types import CredentialKind

CARDS = frozenset({CredentialKind.RFID_CARD, CredentialKind.NFC_TAG})


class NoSuchDoor(LookupError):
    """No door, or more than one, answers to the name."""


class NoKey(LookupError):
    """The reservation has no key to try, or not yet."""


@dataclass(frozen=True, slots=True)
class FoundDoor:
    """A lock of a house on a simulated vendor."""

    device_id: str
    external_id: str
    label: str
    vendor: str
    property_id: str
    property_name: str
    time_zone: str


@dataclass(frozen=True, slots=True)
class GuestKey:
    """What a guest holds. Of a card only the lock knows the number: its `value` is empty."""

    credential_id: str
    kind: CredentialKind
    state: str
    property_id: str
    value: str = field(repr=False)


def find_door(tenant_id: str, name: str, property_id: str | None = None, *, vendor: str | None = None) -> FoundDoor:
    """Finds a door by its label, its room's number or any of its ids; with `vendor` among that vendor's doors.

    Raises NoSuchDoor naming the houses in question.
    """
    with tenant(tenant_id):
        locks = [lock for lock in _locks(tenant_id, property_id) if vendor in (None, lock.installation.vendor)]
        found = [lock for lock in locks if _answers_to(lock, name, _room_labels(tenant_id))]
        houses = {row.property_id: row for row in Property.objects.filter(tenant_id=tenant_id)}
        vendors = {lock.id: lock.installation.vendor for lock in found}
    if not found:
        where = f" at {houses[property_id].name}" if property_id in houses else ""
        raise NoSuchDoor(f"no door{f' of {vendor}' if vendor else ''} is called {name}{where}")
    if len(found) > 1:
        names = " and ".join(sorted(f"{houses[lock.property_id].name} (--property {lock.property_id})" for lock in found))
        raise NoSuchDoor(f"{len(found)} doors are called {name}: at {names}; say which house with --property")
    lock = found[0]
    house = houses[lock.property_id]
    return FoundDoor(
        lock.id, lock.external_id, lock.label, vendors[lock.id], house.property_id, house.name, house.time_zone
    )  # fmt: skip


def house_called(name: str | None) -> str | None:
    """Returns the id of a house of the demo by any of its names; of other tenants the name is the property's id."""
    if not name:
        return None
    try:
        return places.house_named(name).property_id
    except LookupError:
        return name


def key_of(tenant_id: str, reservation_id: str) -> GuestKey:
    """Returns what the guest of a reservation was given last. Embedded mode only: it opens what is sealed. Raises NoKey."""
    with tenant(tenant_id):
        keys = list(KeyCredential.objects.filter(tenant_id=tenant_id, reservation_id=reservation_id).order_by("requested_at"))
        if not keys:
            raise NoKey(f"no key was ever asked for {reservation_id}")
        key = next((key for key in reversed(keys) if key.state in LIVE), keys[-1])
        kind = CredentialKind(key.kind)
        if kind in CARDS and key.issued_at is not None:
            return GuestKey(key.id, kind, key.state, key.property_id, "")
        artifact = artifacts.current(tenant_id, [key.id]).get(key.id)
        if artifact is None or artifact.value_sealed is None:
            waits = f" and waits for the {key.waiting_for}" if key.waiting_for else ""
            raise NoKey(f"the key of {reservation_id} ({key.kind}) is {key.state}{waits}; nothing was handed out yet")
        value = artifacts.reveal(artifact).reveal()
    return GuestKey(key.id, kind, key.state, key.property_id, value)


def card_at(tenant_id: str, door: FoundDoor, key: GuestKey) -> str:
    """Returns the number of a guest's card as the lock knows it: the one with her key's window there. Empty for none.

    Raises devices.simulated.NoSimulator, vendors.port.simulated.SimulatorUnreachable or SimulatorRefused.
    """
    with tenant(tenant_id):
        row = CredentialDoor.objects.filter(
            tenant_id=tenant_id, credential_id=key.credential_id, device_id=door.device_id
        ).first()  # fmt: skip
    window = (row.carried_from, row.carried_until) if row is not None else None
    held = simulated.control_of(door.vendor).held([door.external_id])
    return next((item.value for item in held if item.kind is key.kind and (item.opens_from, item.opens_until) == window), "")


def try_door(door: FoundDoor, kind: CredentialKind, value: str, at: datetime | None = None) -> DoorAnswer:
    """Asks the lock. Raises devices.simulated.NoSimulator, vendors.port.simulated.SimulatorUnreachable or SimulatorRefused."""
    return simulated.control_of(door.vendor).try_door(door.external_id, kind, value, at)


def _locks(tenant_id: str, property_id: str | None) -> list[LockDevice]:
    rows = LockDevice.objects.filter(tenant_id=tenant_id, active=True).select_related("installation").order_by("id")
    return list(rows.filter(property_id=property_id) if property_id else rows)


def _room_labels(tenant_id: str) -> dict[str, str]:
    return dict(Room.objects.filter(tenant_id=tenant_id).values_list("room_id", "label"))


def _answers_to(lock: LockDevice, name: str, room_labels: dict[str, str]) -> bool:
    wanted = name.strip().casefold()
    names = [lock.id, lock.external_id, lock.label, *lock.rooms, *(room_labels.get(room, "") for room in lock.rooms)]
    return wanted in {text.casefold() for text in names if text}
