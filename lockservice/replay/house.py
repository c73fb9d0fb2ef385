"""The house a replay happens in: as many rooms as its bookings need, a gateway for each floor, a street door.

Of several vendors each has every so-many-th room, so that all are equally busy and guests who are moved change the lock system;
the street door is the first one's.

One rule: everything about it follows from the bookings and the vendors, so the same file always comes to the same house.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from devices import adapters
from devices.simulated import SimulatorPlace
from lockservice.demo.building import HousePlan, PlanDoor, PlanSystem
from lockservice.replay.timeline import Names

ROOMS_AT_LEAST = 132
ROOMS_A_FLOOR = 20
STREET_DOOR, STREET_GATEWAY = 1, 900
TIME_ZONE = "Europe/Lisbon"
"""Where the public file's hotel stands. A zone with summer time, so the replay crosses four changes of the clock."""

NO_LIMIT = 1_000_000_000
LIMITS = {"calls_per_minute": NO_LIMIT, "calls_per_month": NO_LIMIT}
"""A replay tells months in minutes; the vendor's limits of calls are shown by tests of their own."""

LANE_WIDTH = 16
"""Parallel calls where the vendor takes more than one."""

POLICY = {"issue_lead_hours": 72}
FIRST_BASE, BASES = 1_000, 190_000


@dataclass(frozen=True, slots=True)
class ReplayHouse:
    """The ids of a replay's house, made from the digest of its bookings and the vendors' codes."""

    tenant_id: str
    digest: str
    rooms_count: int
    vendors: tuple[str, ...]

    @property
    def code(self) -> str:
        """Names the house at the vendors."""
        return f"replay-{self.digest[:10]}"

    @property
    def property_id(self) -> str:
        """The property's id."""
        return f"ppt_{self._tail}000000"

    @property
    def names(self) -> Names:
        """What events call the house and its rooms."""
        return Names(self.tenant_id, self.property_id, TIME_ZONE, self.room_id, mixes_kinds=len(self.vendors) > 1)

    def room_id(self, number: int) -> str:
        """Returns the id of a room by its number, from 0."""
        return f"rmu_{self._tail}{label_of(number):0>6}"

    def plan(self, places: Mapping[str, SimulatorPlace]) -> HousePlan:
        """Returns the rows and locks, given where each vendor's simulator is."""
        rooms = [
            PlanDoor(
                number=int(label_of(number)),
                label=label_of(number),
                gateway=number // ROOMS_A_FLOOR + 1,
                device_id=f"lck_{self._tail}{label_of(number):0>6}",
                system=self.vendors[number % len(self.vendors)],
                room_id=self.room_id(number),
                floor=str(number // ROOMS_A_FLOOR + 1),
            )
            for number in range(max(ROOMS_AT_LEAST, self.rooms_count))
        ]
        street_lock = f"lck_{self._tail}000001"
        street = PlanDoor(STREET_DOOR, "Street door", STREET_GATEWAY, street_lock, self.vendors[0], areas=("lobby",))
        return HousePlan(
            tenant_id=self.tenant_id,
            tenant_name="Replayed bookings",
            property_id=self.property_id,
            name=self.name,
            time_zone=TIME_ZONE,
            utc_offset_s=0,
            systems=[self._system(position, vendor, places[vendor]) for position, vendor in enumerate(self.vendors)],
            doors=[*rooms, street],
            policy=POLICY,
            is_hurried=True,
        )

    @property
    def name(self) -> str:
        """What the house is called."""
        return f"Replayed hotel {self.digest[:6]}"

    def _system(self, position: int, vendor: str, place: SimulatorPlace) -> PlanSystem:
        takes_many = adapters.manifest(vendor).lane_width > 1
        return PlanSystem(
            name=vendor,
            vendor=vendor,
            place=place,
            code=self.code,
            base=FIRST_BASE + int(self.digest, 16) % BASES,
            installation_id=f"vad_{self._tail}{position:06d}",
            limits={**LIMITS, "lane_width": LANE_WIDTH} if takes_many else LIMITS,
        )

    @property
    def _tail(self) -> str:
        """The first 20 of an id's 26 characters: hex digits are a part of the alphabet of ids."""
        return f"0{self.digest[:19]}".upper()


def house_of(digest: str, rooms_count: int, tenant_id: str | None, vendors: tuple[str, ...]) -> ReplayHouse:
    """Returns the house for bookings and vendors of this digest; its tenant is its own unless one is named."""
    return ReplayHouse(tenant_id or f"tnt_0{digest[:25].upper()}", digest, rooms_count, vendors)


def label_of(number: int) -> str:
    """Returns what stands on the door of a room: 101 to 120, 201 to 220 and so on."""
    return f"{number // ROOMS_A_FLOOR + 1}{number % ROOMS_A_FLOOR + 1:02d}"
