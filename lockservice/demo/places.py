"""What the demo consists of, as plain facts with ids that never change, so that a command once written down stays good.

One rule: nothing here names a vendor; which one each lock system of a house is of stands in the settings (DEMO_VENDORS).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

TENANT_ID = "tnt_01JZ0000000000000000000DEM"
TENANT_NAME = "Silk Road Stays"
POLICY: Mapping[str, object] = {"issue_lead_hours": 72, "default_areas": ["lobby", "gym"]}
"""A street door holds a few hundred codes, so keys are given at most three days ahead."""


@dataclass(frozen=True, slots=True)
class DemoDoor:
    """A lock of the demo. A room's door has a room id and a floor, a shared one its areas. `gateway` is a gateway's number,
    `system` names the lock system of the house that it belongs to."""

    number: int
    label: str
    gateway: int
    system: str
    room_id: str = ""
    floor: str = ""
    areas: tuple[str, ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether many guests use it."""
        return not self.room_id


@dataclass(frozen=True, slots=True)
class DemoSystem:
    """A lock system of a house: one installation. `code` and `base` name it at the vendor and stay the same for ever."""

    name: str
    code: str
    base: int
    installation_id: str


@dataclass(frozen=True, slots=True)
class DemoHouse:
    """A property of the demo with its lock systems. `utc_offset_s` is what its locks were paired with."""

    code: str
    property_id: str
    name: str
    time_zone: str
    utc_offset_s: int
    systems: tuple[DemoSystem, ...]
    doors: tuple[DemoDoor, ...]

    def device_id(self, door: DemoDoor) -> str:
        """Returns the id of a door's lock."""
        system = next(item for item in self.systems if item.name == door.system)
        return fixed_id("lck", f"{system.installation_id[-6:-4]}{_mark(door.system)}{door.number:04d}")

    def rooms(self) -> Iterator[DemoDoor]:
        """Goes through the rooms' doors."""
        return (door for door in self.doors if not door.is_shared)


def fixed_id(prefix: str, tail: str) -> str:
    """Makes an id that is the same for ever: prefix, then 26 characters ending in `tail`."""
    return f"{prefix}_{'01JZ':0<{26 - len(tail)}}{tail}"


def _letters(code: str) -> str:
    return {"hotel-silk": "SK", "guesthouse-rudaki": "RD"}[code]


def _mark(system: str) -> str:
    """Tells a door's lock from the one that hung there under an earlier lock system."""
    return "" if system == WHOLE_HOUSE else "F"


def _room(code: str, number: int, system: str) -> DemoDoor:
    room_id = fixed_id("rmu", f"{_letters(code)}{number:04d}")
    return DemoDoor(number, str(number), number // 100, system, room_id, str(number)[0])


WHOLE_HOUSE = "house"
"""The name of a house's lock system where it has one."""

_SILK_SHARED_GATEWAY = 9

HOTEL_SILK = DemoHouse(
    code="hotel-silk",
    property_id=fixed_id("ppt", "SK0000"),
    name="Hotel Silk, Kabul",
    time_zone="Asia/Kabul",
    utc_offset_s=16_200,
    systems=(DemoSystem(WHOLE_HOUSE, "hotel-silk", 1, fixed_id("vad", "SK0000")),),
    doors=(
        *(_room("hotel-silk", 100 * floor + place, WHOLE_HOUSE) for floor in (1, 2, 3) for place in (1, 2, 3, 4)),
        DemoDoor(1, "Street door", _SILK_SHARED_GATEWAY, WHOLE_HOUSE, areas=("lobby",)),
        DemoDoor(2, "Gym", _SILK_SHARED_GATEWAY, WHOLE_HOUSE, areas=("gym",)),
    ),
)

GUESTHOUSE_RUDAKI = DemoHouse(
    code="guesthouse-rudaki",
    property_id=fixed_id("ppt", "RD0000"),
    name="Guesthouse Rudaki, Dushanbe",
    time_zone="Asia/Dushanbe",
    utc_offset_s=18_000,
    systems=tuple(
        DemoSystem(f"floor-{floor}", f"rudaki-{floor}", 10 + floor, fixed_id("vad", f"RD000{floor}")) for floor in (1, 2, 3)
    ),
    doors=tuple(_room("guesthouse-rudaki", number, f"floor-{number // 100}") for number in (101, 102, 201, 202, 301, 302)),
)

HOUSES = (HOTEL_SILK, GUESTHOUSE_RUDAKI)


def house_named(text: str) -> DemoHouse:
    """Finds a house by its code, its property's id, or the beginning of either name. Raises LookupError."""
    wanted = text.strip().lower()
    for house in HOUSES:
        if wanted in (house.code, house.property_id.lower()) or house.name.lower().startswith(wanted):
            return house
        if wanted and wanted in house.code:
            return house
    raise LookupError(f"no such house: {text}; there are {', '.join(h.code for h in HOUSES)}")
