"""What the demo consists of, as plain facts with ids that never change, so that a command once written down stays good.

One rule: nothing here names a vendor; which simulator a house uses stands in the settings (DEMO_VENDORS).
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
    """A lock of the demo. A room's door has a room id and a floor, a shared one its areas. `gateway` is a gateway's number."""

    number: int
    label: str
    gateway: int
    room_id: str = ""
    floor: str = ""
    areas: tuple[str, ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether many guests use it."""
        return not self.room_id


@dataclass(frozen=True, slots=True)
class DemoHouse:
    """A property of the demo with its one installation. `utc_offset_s` is what its locks were paired with."""

    code: str
    base: int
    property_id: str
    installation_id: str
    name: str
    time_zone: str
    utc_offset_s: int
    doors: tuple[DemoDoor, ...]

    def device_id(self, door: DemoDoor) -> str:
        """Returns the id of a door's lock."""
        return fixed_id("lck", f"{_letters(self.code)}{door.number:04d}")

    def rooms(self) -> Iterator[DemoDoor]:
        """Goes through the rooms' doors."""
        return (door for door in self.doors if not door.is_shared)


def fixed_id(prefix: str, tail: str) -> str:
    """Makes an id that is the same for ever: prefix, then 26 characters ending in `tail`."""
    return f"{prefix}_{'01JZ':0<{26 - len(tail)}}{tail}"


def _letters(code: str) -> str:
    return {"hotel-silk": "SK", "guesthouse-rudaki": "RD"}[code]


def _room(code: str, number: int, gateway: int) -> DemoDoor:
    return DemoDoor(number, str(number), gateway, fixed_id("rmu", f"{_letters(code)}{number:04d}"), str(number)[0])


_SILK_SHARED_GATEWAY = 9

HOTEL_SILK = DemoHouse(
    code="hotel-silk",
    base=1,
    property_id=fixed_id("ppt", "SK0000"),
    installation_id=fixed_id("vad", "SK0000"),
    name="Hotel Silk, Kabul",
    time_zone="Asia/Kabul",
    utc_offset_s=16_200,
    doors=(
        *(_room("hotel-silk", 100 * floor + place, floor) for floor in (1, 2, 3) for place in (1, 2, 3, 4)),
        DemoDoor(1, "Street door", _SILK_SHARED_GATEWAY, areas=("lobby",)),
        DemoDoor(2, "Gym", _SILK_SHARED_GATEWAY, areas=("gym",)),
    ),
)

GUESTHOUSE_RUDAKI = DemoHouse(
    code="guesthouse-rudaki",
    base=2,
    property_id=fixed_id("ppt", "RD0000"),
    installation_id=fixed_id("vad", "RD0000"),
    name="Guesthouse Rudaki, Dushanbe",
    time_zone="Asia/Dushanbe",
    utc_offset_s=18_000,
    doors=tuple(_room("guesthouse-rudaki", number, number // 100) for number in (101, 102, 201, 202, 301, 302)),
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
