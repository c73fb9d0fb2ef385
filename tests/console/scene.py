"""A hotel with a night's worth of stories, made by the real flows on the mock vendor.

One rule: every row comes from an event or an act; only a lock's health is written, since nobody reads it here.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from credentials.models import KeyCredential
from devices.models import LockDevice
from lockservice.console.demo import ensure_users
from lockservice.core.places import Property, Tenant
from lockservice.core.tenancy import tenant
from sagas.models import Lane
from sagas.runner import Runner
from tests.support.hotel import Hotel, build_hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

ZONE = "Asia/Kabul"


@dataclass
class Scene:
    """A hotel, its people's logins by role, and the reservations by what they tell."""

    hotel: Hotel
    people: dict[str, tuple[str, str]]
    stays: dict[str, str] = field(default_factory=dict)

    @property
    def tenant_id(self) -> str:
        return self.hotel.tenant_id

    def key(self, story: str, ordinal: int = 0) -> KeyCredential:
        """Returns the newest key of a stay as it is now."""
        with tenant(self.tenant_id):
            rows = KeyCredential.objects.filter(tenant_id=self.tenant_id, reservation_id=self.stays[story], ordinal=ordinal)
            return rows.latest("requested_at", "id")

    def settle(self) -> None:
        """Runs what is due to its end."""
        with tenant(self.tenant_id):
            lanes = list(Lane.objects.filter(tenant_id=self.tenant_id).values_list("key", flat=True))
        Runner(only=lanes).run(until=lambda: False, drain=True, max_s=30)


def make_scene(locks: MockLocks, *, name: str = "Silk Road Stays", house: str = "Hotel Silk, Kabul") -> Scene:
    """Builds the hotel: an ordinary stay, one with a dead door, a failed one, a suspended one, a card for the desk, no room."""
    labels = [f"{floor}0{n}" for floor in (3, 2, 1) for n in (1, 2, 3, 4)]
    rooms = {label: new_id("lck") for label in labels}
    dead = rooms["203"]
    url = f"{locks.setting}?deadDoors={dead}&slowPct=0"
    hotel = build_hotel(
        vendor="mock", settings={"url": url}, rooms=rooms, shared={"lobby": new_id("lck")}, time_zone=ZONE,
        policy={"default_areas": ["lobby"]},
    )  # fmt: skip
    with tenant(hotel.tenant_id):
        Tenant.objects.filter(tenant_id=hotel.tenant_id).update(name=name)
        Property.objects.filter(tenant_id=hotel.tenant_id).update(name=house)
        _health(hotel)
    prefix = f"{secrets.token_hex(3)}-"
    people = {role: (login, password) for login, password, role in ensure_users(hotel.tenant_id, _password, prefix=prefix)}
    scene = Scene(hotel, people)
    _book(scene)
    return scene


def arrival(hour: int = 14) -> datetime:
    """Returns tonight's arrival at a local hour, as the console counts nights."""
    local = datetime.now(ZoneInfo(ZONE))
    day = local.date() - timedelta(days=1) if local.time() < time(6) else local.date()
    return datetime.combine(day, time(hour), ZoneInfo(ZONE)).astimezone(UTC)


def _book(scene: Scene) -> None:
    stories = {
        "ordinary": (["101"], "زهرا احمدی", {}),
        "dead_door": (["202", "203"], "Otabek Rahimov", {"start": arrival(18)}),
        "cyrillic": (["301"], "Фирӯза Ҳакимова", {"start": arrival(19)}),
        "card": (["204"], "Amal Haddad", {"preferredKinds": ["rfid_card"], "start": arrival(20)}),
        "suspended": (["302"], "Noor Safi", {"start": arrival(16)}),
        "no_room": ([], "Leila Mansour", {"start": arrival(22)}),
        "phone": (["103"], "Jonas Weber", {"preferredKinds": ["mobile_app"], "start": arrival(15)}),
        "cancelled": (["104"], "Rana Aziz", {"start": arrival(21)}),
    }
    for story, (rooms, guest, extra) in stories.items():
        scene.stays[story] = new_id("rsv")
        start = extra.pop("start", arrival())
        data = scene.hotel.booking(scene.stays[story], 1, rooms, start=start, end=start + timedelta(days=2, hours=-3), **extra)
        contact = {"email": f"{story}@guests.example", "phoneE164": "+93700123456"}
        data["guest"] = {**data["guest"], "displayName": guest, "contact": contact}
        assert scene.hotel.tell("booking.confirmed", data) == "applied", story
    scene.settle()
    scene.hotel.tell(
        "booking.fraud_flagged",
        {**scene.hotel.booking(scene.stays["suspended"], 2, ["302"], start=arrival(16)), "status": "fraud_flagged"},
    )
    scene.hotel.tell("booking.cancelled", {**scene.hotel.booking(scene.stays["cancelled"], 2, ["104"]), "status": "cancelled"})
    broken = scene.hotel.booking(new_id("rsv"), 1, ["101"])
    broken["guest"] = {"id": "gst_broken", "displayName": "Secret Guest", "contact": {"email": "secret@guests.example"}}
    del broken["version"]
    assert scene.hotel.tell("booking.confirmed", broken) == "buried"
    scene.settle()


def _health(hotel: Hotel) -> None:
    seen = datetime.now(UTC)
    for index, device in enumerate(LockDevice.objects.filter(tenant_id=hotel.tenant_id).order_by("label")):
        device.battery_percent, device.last_seen_at = 95 - 7 * index, seen - timedelta(minutes=3 * index)
        device.clock_skew_ms = 95_000 if device.label == "304" else 800 * index
        device.online, device.firmware = device.label != "203", "6.4.26"
        device.gateway = f"gw-{device.label[:1]}" if device.label[:1].isdigit() else "gw-0"
        device.save()


def _password(login: str) -> str:
    return f"pw-{login}-long-enough"
