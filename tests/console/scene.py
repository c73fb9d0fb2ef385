"""A hotel with a night's worth of stories, made by the real flows on the mock vendor.

One rule: every row comes from an event or an act; written are only a lock's health, since nobody reads it here, and the time of a
waiting saga's next try, so that runners of other tests leave it alone.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from credentials.models import KeyCredential
from devices.models import LockDevice
from lockservice.console.access import grant
from lockservice.console.arrivals import NIGHT_ENDS, night
from lockservice.console.demo import LOGINS
from lockservice.console.roles import Role
from lockservice.core.places import Property, Tenant
from lockservice.core.tenancy import UNATTRIBUTED, tenant
from sagas.models import Lane, Saga
from sagas.runner import Runner
from tests.support.hotel import Hotel, build_hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

_ZONES = ("Asia/Kabul", "America/Bogota")
_SESSION_H = 3


def _zone_of_a_whole_night() -> str:
    """Returns a zone whose night does not end while a session's tests run: whoever arrived tonight arrives tonight to the end."""
    zones = [
        zone for zone in _ZONES if datetime.now(ZoneInfo(zone)).hour not in range(NIGHT_ENDS.hour - _SESSION_H, NIGHT_ENDS.hour)
    ]
    return zones[0]


ZONE = _zone_of_a_whole_night()
CITY = ZONE.partition("/")[2]


@dataclass
class Scene:
    """A hotel, its people's logins by role, and the reservations by what they tell. A story begins when it is asked for."""

    hotel: Hotel
    people: dict[str, str]
    stays: dict[str, str] = field(default_factory=dict)

    @property
    def tenant_id(self) -> str:
        return self.hotel.tenant_id

    def key(self, story: str) -> KeyCredential:
        """Returns the newest key of a story's stay as it is now."""
        if story not in self.stays:
            self.tell(story)
        with tenant(self.tenant_id):
            rows = KeyCredential.objects.filter(tenant_id=self.tenant_id, reservation_id=self.stays[story])
            return rows.latest("requested_at", "id")

    def tell(self, *stories: str) -> None:
        """Lets stories happen, to their end."""
        for story in stories:
            _begin(self, story)
        self.settle()
        for story in stories:
            _go_on(self, story)
        self.settle()
        with tenant(self.tenant_id):
            waiting = Saga.objects.filter(tenant_id=self.tenant_id, status__in=["retry", "due"])
            waiting.update(status="retry", due_at=datetime.now(UTC) + timedelta(days=1))

    def settle(self) -> None:
        """Runs what is due to its end."""
        with tenant(self.tenant_id):
            lanes = list(Lane.objects.filter(tenant_id=self.tenant_id).values_list("key", flat=True))
        Runner(only=lanes).run(until=lambda: False, drain=True, max_s=30)

    def dead_letter(self) -> None:
        """Lets a booking come that cannot be handled."""
        broken = self.hotel.booking(new_id("rsv"), 1, ["101"])
        broken["guest"] = {"id": "gst_broken", "displayName": "Secret Guest", "contact": {"email": "secret@guests.example"}}
        del broken["version"]
        assert self.hotel.tell("booking.confirmed", broken) == "buried"


def make_scene(locks: MockLocks, *, name: str = "Silk Road Stays", house: str = "Hotel Silk, Kabul") -> Scene:
    """Builds an empty hotel of twelve rooms, where the lock of 203 is dead, and a person for each role."""
    labels = [f"{floor}0{n}" for floor in (3, 2, 1) for n in (1, 2, 3, 4)]
    rooms = {label: new_id("lck") for label in labels}
    url = f"{locks.setting}?deadDoors={rooms['203']}"
    hotel = build_hotel(
        vendor="mock", settings={"url": url}, secrets={"webhook_secret": secrets.token_hex(16)}, rooms=rooms,
        shared={"lobby": new_id("lck")}, time_zone=ZONE,
    )  # fmt: skip
    with tenant(hotel.tenant_id):
        Tenant.objects.filter(tenant_id=hotel.tenant_id).update(name=name)
        Property.objects.filter(tenant_id=hotel.tenant_id).update(name=house)
        _health(hotel)
    people = {role.value: f"{secrets.token_hex(4)}-{login}" for role, login in LOGINS.items()}
    for role, login in people.items():
        grant(login, UNATTRIBUTED if role == Role.PLATFORM else hotel.tenant_id, Role(role))
    return Scene(hotel, people)


def make_night(locks: MockLocks) -> Scene:
    """Builds a hotel in which every story was told."""
    scene = make_scene(locks)
    scene.tell(*STORIES)
    scene.dead_letter()
    return scene


def arrival(hour: int = 14) -> datetime:
    """Returns tonight's arrival at a local hour, as the console counts nights."""
    begins, _ = night(datetime.now(UTC), ZONE)
    return datetime.combine(begins.date(), time(hour), ZoneInfo(ZONE)).astimezone(UTC)


STORIES: dict[str, tuple[list[str], str, int, dict[str, object]]] = {
    "ordinary": (["101"], "زهرا احمدی", 14, {}),
    "dead_door": (["202", "203"], "Otabek Rahimov", 18, {}),
    "cyrillic": (["301"], "Фирӯза Ҳакимова", 19, {}),
    "card": (["204"], "Amal Haddad", 20, {"preferredKinds": ["rfid_card"]}),
    "suspended": (["302"], "Noor Safi", 16, {}),
    "no_room": ([], "Leila Mansour", 22, {}),
    "phone": (["103"], "Jonas Weber", 15, {"preferredKinds": ["mobile_app"]}),
    "cancelled": (["104"], "Rana Aziz", 21, {}),
}
"""Rooms, guest, hour of arrival and what else the booking says."""

_LATER = {"suspended": ("booking.fraud_flagged", "fraud_flagged"), "cancelled": ("booking.cancelled", "cancelled")}


def _booking(scene: Scene, story: str, version: int) -> dict[str, object]:
    rooms, guest, hour, extra = STORIES[story]
    start = arrival(hour)
    data = scene.hotel.booking(
        scene.stays[story], version, rooms, start=start, end=start + timedelta(days=2, hours=-3), **extra
    )
    contact = {"email": f"{story}@guests.example", "phoneE164": "+93700123456"}
    data["guest"] = {**data["guest"], "displayName": guest, "contact": contact}
    return data


def _begin(scene: Scene, story: str) -> None:
    scene.stays[story] = new_id("rsv")
    assert scene.hotel.tell("booking.confirmed", _booking(scene, story, 1)) == "applied", story


def _go_on(scene: Scene, story: str) -> None:
    if story in _LATER:
        subject, status = _LATER[story]
        assert scene.hotel.tell(subject, {**_booking(scene, story, 2), "status": status}) == "applied", story


def _health(hotel: Hotel) -> None:
    seen = datetime.now(UTC)
    for index, device in enumerate(LockDevice.objects.filter(tenant_id=hotel.tenant_id).order_by("label")):
        device.battery_percent, device.last_seen_at = 95 - 7 * index, seen - timedelta(minutes=3 * index)
        device.clock_skew_ms = 95_000 if device.label == "304" else 800 * index
        device.online, device.firmware = device.label != "203", "6.4.26"
        device.gateway = f"gw-{device.label[:1]}" if device.label[:1].isdigit() else "gw-0"
        device.save()
