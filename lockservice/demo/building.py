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
    """One lock, of the lock system of the plan that it names. A room's door has a room id; a shared one its areas. A door
    without a gateway is out of reach of any."""

    number: int
    label: str
    gateway: int | None
    device_id: str
    system: str
    room_id: str = ""
    floor: str = ""
    areas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanSystem:
    """A lock system of a house: one installation of one vendor, at one simulator. `code` and `base` name the house there;
    `limits` are columns of the installation, such as calls_per_minute."""

    name: str
    vendor: str
    place: SimulatorPlace
    code: str
    base: int
    installation_id: str
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HousePlan:
    """A property with its lock systems."""

    tenant_id: str
    tenant_name: str
    property_id: str
    name: str
    time_zone: str
    utc_offset_s: int
    systems: Sequence[PlanSystem]
    doors: Sequence[PlanDoor]
    policy: Mapping[str, Any]
    is_hurried: bool = False

    def doors_of(self, system: PlanSystem) -> list[PlanDoor]:
        """Returns the doors of one lock system."""
        return [door for door in self.doors if door.system == system.name]


def put_up(plan: HousePlan, secret: str) -> dict[str, BuiltHouse]:
    """Builds the house at its simulators, then its rows; returns what was built, by lock system.

    A lock that hung there under an earlier plan is put out of service. Opens tenant blocks of its own.
    Raises vendors.port.simulated.SimulatorUnreachable (start it, try again) or SimulatorRefused.
    """
    built = {system.name: _build(plan, system, secret) for system in plan.systems}
    with tenant(plan.tenant_id):
        _put_up_places(plan)
    rows = {system.name: _put_up_installation(plan, system, built[system.name]) for system in plan.systems}
    with tenant(plan.tenant_id):
        for system in plan.systems:
            _put_up_locks(plan, system, rows[system.name], built[system.name])
        _take_down_the_rest(plan)
    return built


def _build(plan: HousePlan, system: PlanSystem, secret: str) -> BuiltHouse:
    doors = [
        WantedDoor(door.number, door.label, door.gateway, is_shared=not door.room_id) for door in plan.doors_of(system)
    ]  # fmt: skip
    wanted = WantedHouse(
        code=system.code,
        base=system.base,
        doors=doors,
        utc_offset_s=plan.utc_offset_s,
        secret=secret,
        is_hurried=plan.is_hurried,
    )
    return simulated.control_of(system.vendor, system.place).build(wanted)


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


def _put_up_installation(plan: HousePlan, system: PlanSystem, built: BuiltHouse) -> VendorInstallation:
    with tenant(plan.tenant_id):
        row = VendorInstallation.objects.filter(tenant_id=plan.tenant_id, id=system.installation_id).first()
    if row is None:
        row = VendorInstallation(
            id=system.installation_id,
            tenant_id=plan.tenant_id,
            property_id=plan.property_id,
            vendor=system.vendor,
            environment="simulator",
            label=f"{adapters.manifest(system.vendor).display_name}, {plan.name}",
            **system.limits,
        )
        adapters.seal_installation(row, dict(built.settings), dict(built.secrets))
    elif adapters.open_installation(row) != (dict(built.settings), dict(built.secrets)):
        # The simulator listens elsewhere than before; processes that run notice by the version.
        adapters.seal_installation(row, dict(built.settings), dict(built.secrets))
    return row


def _put_up_locks(plan: HousePlan, system: PlanSystem, row: VendorInstallation, built: BuiltHouse) -> None:
    granted = adapters.manifest(system.vendor).capabilities
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
            gateway=built.gateways.get(door.gateway, "") if door.gateway is not None else "",
            has_remote=door.gateway is not None,
            capabilities=capabilities,
        )
        for door in plan.doors_of(system)
        if door.number in built.doors
    ]
    LockDevice.objects.bulk_create(locks, ignore_conflicts=True)


def _take_down_the_rest(plan: HousePlan) -> None:
    """A door has one lock: one of an earlier plan makes way for the present one, and its installation with it."""
    locks = LockDevice.objects.filter(tenant_id=plan.tenant_id, property_id=plan.property_id, active=True)
    locks.exclude(id__in=[door.device_id for door in plan.doors]).update(active=False)
    rows = VendorInstallation.objects.filter(tenant_id=plan.tenant_id, property_id=plan.property_id, active=True)
    rows.exclude(id__in=[system.installation_id for system in plan.systems]).update(active=False)
