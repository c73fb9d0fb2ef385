"""Puts up a house of the demo or of a replay: its rows here, its locks in the simulator. What is there is left alone.

One rule: it may be run again at any time, while the service works; keys that are at the doors stay there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from credentials.models import KeyPolicyRow
from devices import adapters, simulated
from devices.models import LockDevice, VendorInstallation
from devices.simulated import SimulatorPlace
from lockservice.core.places import Property, Room, Tenant
from lockservice.core.tenancy import tenant
from vendors.port.simulated import BuiltHouse, WantedDoor, WantedHouse
from vendors.port.types import LockCapabilities


@dataclass(frozen=True, slots=True)
class PlanDoor:
    """One lock. A room's door has a room id; a shared one its areas."""

    number: int
    label: str
    gateway: int
    device_id: str
    room_id: str = ""
    floor: str = ""
    areas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HousePlan:
    """A property with one installation. `limits` are columns of the installation, such as calls_per_minute."""

    code: str
    base: int
    tenant_id: str
    tenant_name: str
    property_id: str
    installation_id: str
    name: str
    time_zone: str
    utc_offset_s: int
    doors: Sequence[PlanDoor]
    policy: Mapping[str, Any]
    limits: Mapping[str, int] = field(default_factory=dict)
    is_hurried: bool = False


def put_up(plan: HousePlan, vendor: str, place: SimulatorPlace, secret: str) -> BuiltHouse:
    """Builds the house at the simulator, then its rows in one transaction. Opens its own tenant block.

    Raises vendors.port.simulated.SimulatorUnreachable (start it, try again) or SimulatorRefused.
    """
    wanted = WantedHouse(
        code=plan.code,
        base=plan.base,
        doors=[WantedDoor(door.number, door.label, door.gateway) for door in plan.doors],
        utc_offset_s=plan.utc_offset_s,
        secret=secret,
        is_hurried=plan.is_hurried,
    )
    built = simulated.control_of(vendor, place).build(wanted)
    with tenant(plan.tenant_id):
        _put_up_places(plan)
        row = _put_up_installation(plan, vendor, built)
        _put_up_locks(plan, row, vendor, built)
    return built


def _put_up_places(plan: HousePlan) -> None:
    Tenant.objects.get_or_create(tenant_id=plan.tenant_id, defaults={"name": plan.tenant_name})
    Property.objects.get_or_create(
        tenant_id=plan.tenant_id, property_id=plan.property_id, defaults={"name": plan.name, "time_zone": plan.time_zone}
    )
    KeyPolicyRow.objects.get_or_create(
        tenant_id=plan.tenant_id, property_id=plan.property_id, defaults={"values": dict(plan.policy)}
    )
    rooms = [
        Room(tenant_id=plan.tenant_id, property_id=plan.property_id, room_id=door.room_id, label=door.label, floor=door.floor)
        for door in plan.doors
        if door.room_id
    ]
    Room.objects.bulk_create(rooms, ignore_conflicts=True)


def _put_up_installation(plan: HousePlan, vendor: str, built: BuiltHouse) -> VendorInstallation:
    row = VendorInstallation.objects.filter(tenant_id=plan.tenant_id, id=plan.installation_id).first()
    if row is None:
        row = VendorInstallation(
            id=plan.installation_id,
            tenant_id=plan.tenant_id,
            property_id=plan.property_id,
            vendor=vendor,
            environment="simulator",
            label=f"{adapters.manifest(vendor).display_name}, {plan.name}",
            **plan.limits,
        )
        adapters.seal_installation(row, dict(built.settings), dict(built.secrets))
        row.save()
    elif adapters.open_installation(row) != (dict(built.settings), dict(built.secrets)):
        # The simulator listens elsewhere than before; processes that run notice by the version.
        adapters.seal_installation(row, dict(built.settings), dict(built.secrets))
        row.version += 1
        row.save()
    return row


def _put_up_locks(plan: HousePlan, row: VendorInstallation, vendor: str, built: BuiltHouse) -> None:
    granted = adapters.manifest(vendor).capabilities
    capabilities = {name: getattr(granted, name) for name in LockCapabilities.__dataclass_fields__}
    locks = [
        LockDevice(
            id=door.device_id,
            tenant_id=plan.tenant_id,
            property_id=plan.property_id,
            installation=row,
            external_id=built.doors[door.number],
            label=door.label,
            rooms=[door.room_id] if door.room_id else [],
            areas=list(door.areas),
            shared=not door.room_id,
            gateway=built.gateways.get(door.gateway, ""),
            capabilities=capabilities,
        )
        for door in plan.doors
    ]
    LockDevice.objects.bulk_create(locks, ignore_conflicts=True)
