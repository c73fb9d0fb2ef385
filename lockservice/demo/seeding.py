"""Seeds the demo: its rows once, its simulated locks at every start.

One rule: it is run by every start of `up`, so it only adds, and takes well under a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from django.conf import settings

from devices import adapters, simulated
from lockservice.core import clock
from lockservice.core.tenancy import queues
from lockservice.demo import places
from lockservice.demo.building import HousePlan, PlanDoor, PlanSystem, put_up
from lockservice.demo.places import DemoDoor, DemoHouse, DemoSystem
from vendors.port.simulated import BuiltHouse, SimulatorUnreachable

PATIENCE_S = 20.0
"""How long a simulator that is just starting is waited for."""

PAUSE_S = 0.05


def vendor_of(house: DemoHouse, system: DemoSystem) -> str:
    """Returns the code of the vendor a lock system of the demo is of."""
    return str(settings.DEMO_VENDORS[house.code][system.name])


def gives_keys_at_once(house: DemoHouse, room: DemoDoor) -> bool:
    """Says whether a guest of the room can be given a key without a person at the desk."""
    system = next(item for item in house.systems if item.name == room.system)
    manifest = adapters.manifest(vendor_of(house, system))
    return bool(set(manifest.kinds) - set(manifest.desk_kinds))


def seed_house(house: DemoHouse) -> dict[str, BuiltHouse]:
    """Puts up one house. Raises vendors.port.simulated.SimulatorUnreachable when a simulator does not start in time."""
    return _patiently(lambda: put_up(plan_of(house), _secret()))


def follow_clock() -> None:
    """Tells the simulators the time: they may have restarted since the hotel's clock was moved."""
    with queues():
        state = clock.HotelClock.objects.filter(id=1).first()
        now = clock.now()
    moved = state is not None and (state.stopped_at is not None or bool(state.ahead))
    simulated.set_clocks(now if moved else None, running=state is None or state.stopped_at is None)


def plan_of(house: DemoHouse) -> HousePlan:
    """Returns the rows and locks of a house of the demo."""
    return HousePlan(
        tenant_id=places.TENANT_ID,
        tenant_name=places.TENANT_NAME,
        property_id=house.property_id,
        name=house.name,
        time_zone=house.time_zone,
        utc_offset_s=house.utc_offset_s,
        systems=[_system(house, system) for system in house.systems],
        doors=[
            PlanDoor(
                door.number, door.label, door.gateway, house.device_id(door), door.system, door.room_id, door.floor, door.areas
            )
            for door in house.doors
        ],
        policy=places.POLICY,
    )


def _system(house: DemoHouse, system: DemoSystem) -> PlanSystem:
    vendor = vendor_of(house, system)
    return PlanSystem(
        name=system.name,
        vendor=vendor,
        place=simulated.place_of(vendor),
        code=system.code,
        base=system.base,
        installation_id=system.installation_id,
        limits={"calls_per_minute": 600},
    )


def _secret() -> str:
    return str(settings.LOCAL_DIRECTORY.secret("simulators.key"))


def _patiently(build: Callable[[], dict[str, BuiltHouse]]) -> dict[str, BuiltHouse]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return build()
        except SimulatorUnreachable:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)
