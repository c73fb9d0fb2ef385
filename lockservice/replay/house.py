"""The house a replay happens in: as many rooms as its bookings need, a gateway for each floor, a street door.

One rule: everything about it follows from the bookings and the vendor, so the same file always comes to the same house.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockservice.demo.building import HousePlan, PlanDoor
from lockservice.replay.timeline import Names

ROOMS_AT_LEAST = 132
ROOMS_A_FLOOR = 20
STREET_DOOR, STREET_GATEWAY = 1, 900
TIME_ZONE = "Europe/Lisbon"
"""Where the public file's hotel stands. A zone with summer time, so the replay crosses four changes of the clock."""

NO_LIMIT = 1_000_000_000
LIMITS = {"calls_per_minute": NO_LIMIT, "calls_per_month": NO_LIMIT, "lane_width": 16}
"""A replay tells months in minutes; the vendor's limits of calls are shown by tests of their own."""

POLICY = {"issue_lead_hours": 72}
FIRST_BASE, BASES = 1_000, 190_000


@dataclass(frozen=True, slots=True)
class ReplayHouse:
    """The ids of a replay's house, made from the digest of its bookings and the vendor's code."""

    tenant_id: str
    digest: str
    rooms_count: int

    @property
    def code(self) -> str:
        """Names the house at the vendor."""
        return f"replay-{self.digest[:10]}"

    @property
    def property_id(self) -> str:
        """The property's id."""
        return f"ppt_{self._tail}000000"

    @property
    def names(self) -> Names:
        """What events call the house and its rooms."""
        return Names(self.tenant_id, self.property_id, TIME_ZONE, self.room_id)

    def room_id(self, number: int) -> str:
        """Returns the id of a room by its number, from 0."""
        return f"rmu_{self._tail}{label_of(number):0>6}"

    def plan(self) -> HousePlan:
        """Returns the rows and locks."""
        rooms = [
            PlanDoor(
                number=int(label_of(number)),
                label=label_of(number),
                gateway=number // ROOMS_A_FLOOR + 1,
                device_id=f"lck_{self._tail}{label_of(number):0>6}",
                room_id=self.room_id(number),
                floor=str(number // ROOMS_A_FLOOR + 1),
            )
            for number in range(max(ROOMS_AT_LEAST, self.rooms_count))
        ]
        street = PlanDoor(STREET_DOOR, "Street door", STREET_GATEWAY, f"lck_{self._tail}000001", areas=("lobby",))
        return HousePlan(
            code=self.code,
            base=FIRST_BASE + int(self.digest, 16) % BASES,
            tenant_id=self.tenant_id,
            tenant_name="Replayed bookings",
            property_id=self.property_id,
            installation_id=f"vad_{self._tail}000000",
            name=f"Replayed hotel {self.digest[:6]}",
            time_zone=TIME_ZONE,
            utc_offset_s=0,
            doors=[*rooms, street],
            policy=POLICY,
            limits=LIMITS,
            is_hurried=True,
        )

    @property
    def _tail(self) -> str:
        """The first 20 of an id's 26 characters: hex digits are a part of the alphabet of ids."""
        return f"0{self.digest[:19]}".upper()


def house_of(digest: str, rooms_count: int, tenant_id: str | None) -> ReplayHouse:
    """Returns the house for bookings and vendor of this digest; its tenant is its own unless one is named."""
    return ReplayHouse(tenant_id or f"tnt_0{digest[:25].upper()}", digest, rooms_count)


def label_of(number: int) -> str:
    """Returns what stands on the door of a room: 101 to 120, 201 to 220 and so on."""
    return f"{number // ROOMS_A_FLOOR + 1}{number % ROOMS_A_FLOOR + 1:02d}"
