"""The shortest proof: one booking goes in over the bus, one key comes out, and the simulated lock says whether it opens.

One rule: the booking travels the whole way, and the last word is the lock's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from credentials.lifecycle import State
from credentials.models import KeyCredential
from lockservice.core import clock
from lockservice.core.tenancy import queues, tenant
from lockservice.demo import corridor, places
from lockservice.demo.corridor import GuestKey
from lockservice.demo.places import DemoDoor, DemoHouse
from sagas import bus
from sagas.bus.port import BusMessage
from sagas.events import envelope, registry
from sagas.events.instants import format_instant
from sagas.events.subjects import Subject
from sagas.outbox import new_event_id
from vendors.port.ids import new_id
from vendors.port.simulated import DoorAnswer
from vendors.port.types import CredentialKind

POLL_S = 0.02
SOURCE = "/services/reservation-service"
NIGHTS = 2


class NoKeyCame(Exception):
    """The key did not become active in time; the text says where it stands."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What happened: the key, the door's answer, and the seconds from the booking to an active key."""

    reservation_id: str
    room: str
    key: GuestKey = field(repr=False)
    answer: DoorAnswer
    seconds: float


def prove(house: DemoHouse, room: DemoDoor, *, wait_s: float, say: Callable[[str], None]) -> Proof:
    """Confirms a booking from now on, waits for its key and types the PIN at the room's door.

    Raises NoKeyCame, sagas.bus.port.BusUnavailable, or what `corridor` raises.
    """
    reservation_id = new_id("rsv")
    with queues():
        now = clock.now()
    say(f"a guest books room {room.label} of {house.name}: {reservation_id}")
    started = time.monotonic()
    _publish(_booking(house, room, reservation_id, now))
    _wait_until_active(reservation_id, started + wait_s)
    seconds = time.monotonic() - started
    key = corridor.key_of(places.TENANT_ID, reservation_id)
    does = "types it at the door" if key.kind is CredentialKind.PIN_CODE else "holds it to the door"
    say(f"her key ({key.kind}) is active after {seconds:.2f} s; she {does}")
    door = corridor.find_door(places.TENANT_ID, house.device_id(room), house.property_id)
    return Proof(reservation_id, room.label, key, corridor.try_door(door, key.kind, key.value), seconds)


def _booking(house: DemoHouse, room: DemoDoor, reservation_id: str, now: datetime) -> envelope.Envelope:
    start = (now - timedelta(minutes=5)).replace(second=0, microsecond=0)
    return envelope.Envelope(
        id=new_event_id(),
        subject=Subject.BOOKING_CONFIRMED.value,
        source=SOURCE,
        time=datetime.now(UTC),
        tenant_id=places.TENANT_ID,
        data={
            "reservationId": reservation_id,
            "propertyId": house.property_id,
            "version": 1,
            "status": "confirmed",
            "rooms": [room.room_id],
            "validFrom": format_instant(start),
            "validUntil": format_instant(start + timedelta(days=NIGHTS)),
            "guest": {"id": new_id("gst"), "displayName": "زهرا احمدی", "contact": {}, "locale": "prs"},
            "paymentStatus": "captured",
            "partySize": 1,
        },
    )


def _publish(event: envelope.Envelope) -> None:
    spec = registry.spec(event.subject)
    attributes = {"subject": event.subject, "tenantId": event.tenant_id, "eventId": event.id}
    message = BusMessage(spec.topic or "", str(event.data["reservationId"]), envelope.encode(event), attributes)
    link = bus.from_settings()
    try:
        link.publish([message])
    finally:
        link.close()


def _wait_until_active(reservation_id: str, deadline: float) -> None:
    state = "not asked for yet"
    while time.monotonic() < deadline:
        with tenant(places.TENANT_ID):
            key = KeyCredential.objects.filter(tenant_id=places.TENANT_ID, reservation_id=reservation_id).first()
        state = key.state if key is not None else state
        if state == State.ACTIVE:
            return
        if state == State.FAILED:
            break
        time.sleep(POLL_S)
    raise NoKeyCame(f"the key of {reservation_id} is {state}")
