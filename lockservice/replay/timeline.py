"""All bookings of a replay in one order of time, as events ready to be published.

One rule: the same rows give the same events, id for id and byte for byte, so a second replay tells nothing new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from lockservice.replay.bookings import Booking
from lockservice.replay.guests import guest_of
from lockservice.replay.rooms import RoomPlan
from lockservice.replay.stays import ENDS, Happening, Step, story_of
from sagas.events import envelope, registry
from sagas.events.instants import format_instant

SOURCE = "/services/reservation-service"
SUBJECT = "melmastoon.reservation.booking.{}.v1"
WISHES = ("pin_code", "mobile_app", "rfid_card", "pin_code")
"""What guests would like, in equal shares."""

PAYMENT = {Step.CANCELLED: "refunded"}
STATUS = {Step.CONFIRMED: "confirmed", Step.DATES_CHANGED: "confirmed", Step.CHECKED_OUT: "checked_out"}
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ID_CHARS = 26
_AREA_CODES = (
    201, 202, 203, 204, 205, 206, 207, 208, 209, 210, 212, 213, 214, 215, 216, 217, 218, 219, 224, 225, 228, 229, 231, 234, 239,
    240, 248, 250, 251, 252, 253, 254, 256, 260, 262, 267, 269, 270, 276, 281, 301, 302, 303, 304, 305, 306, 307, 308, 309, 310,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Names:
    """What the house is called: the tenant's and property's id, and the id of each room by its number. With `mixes_kinds` every
    booking says what kind of key the guest would like, and has a telephone number."""

    tenant_id: str
    property_id: str
    time_zone: str
    room_id: Callable[[int], str]
    mixes_kinds: bool = False


@dataclass(frozen=True, slots=True)
class Letter:
    """An event as it goes to the bus."""

    topic: str
    key: str
    body: bytes
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Planned:
    """One event of the replay, not encoded yet. `at` is in UTC; `room` is a room's number."""

    at: datetime
    booking: Booking
    happening: Happening
    room: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything that will be told, by time, and how many rooms the house needs for it."""

    planned: Sequence[Planned]
    rooms_count: int
    bookings_count: int

    def hours(self) -> Iterator[list[Planned]]:
        """Groups the events by the hotel's hour; a booking that appears twice in an hour begins another group.

        Consumers take urgent topics first, so a cancellation told together with its booking would be taken before it.
        """
        group: list[Planned] = []
        in_group: set[int] = set()
        for item in self.planned:
            if group and (_hour(item.at) != _hour(group[0].at) or item.booking.number in in_group):
                yield group
                group, in_group = [], set()
            group.append(item)
            in_group.add(item.booking.number)
        if group:
            yield group


@dataclass(frozen=True, slots=True)
class Ending:
    """How a booking shall stand at the end."""

    version: int
    step: Step


def plan(bookings: Iterable[Booking], time_zone: str) -> Timeline:
    """Orders what happens to all bookings and gives rooms on the way, as a front desk would: by what it knows at the time."""
    told = [(happening, booking) for booking in bookings for happening in story_of(booking)]
    told.sort(key=lambda pair: (pair[0].at, pair[0].step not in ENDS, pair[1].number, pair[0].version))
    zone, rooms = ZoneInfo(time_zone), RoomPlan()
    held: dict[int, int] = {}
    planned = []
    for happening, booking in told:
        stay = str(booking.number)
        if happening.step in (Step.CONFIRMED, Step.DATES_CHANGED):
            span = happening.span
            held[booking.number] = rooms.hold(stay, span.start, span.held_until, elsewhere=happening.is_move)
        elif happening.step in ENDS:
            rooms.release(stay)
        at = happening.at.replace(tzinfo=zone).astimezone(UTC)
        planned.append(Planned(at, booking, happening, held[booking.number]))
    # A clock that is put forward turns local order around for an hour a year.
    planned.sort(key=lambda item: (item.at, item.booking.number, item.happening.version))
    return Timeline(planned, rooms.count, len(held))


def endings(timeline: Timeline) -> dict[str, Ending]:
    """Returns how each reservation ends, by its id."""
    return {
        reservation_id(item.booking): Ending(item.happening.version, item.happening.step)
        for item in timeline.planned  # the last one of a booking stays
    }


def reservation_id(booking: Booking) -> str:
    """Returns the booking's id, the same in every replay."""
    return _id("rsv", booking.digest)


def message(item: Planned, names: Names) -> Letter:
    """Encodes an event for the bus."""
    subject = SUBJECT.format(item.happening.step.value)
    event = envelope.Envelope(
        id=_id("evt", f"{names.tenant_id}\x1f{item.booking.digest}\x1f{item.happening.version}"),
        subject=subject,
        source=SOURCE,
        time=item.at,
        tenant_id=names.tenant_id,
        data=_data(item, names),
        correlation_id=reservation_id(item.booking),
    )
    attributes = {"subject": subject, "tenantId": names.tenant_id, "eventId": event.id}
    return Letter(registry.spec(subject).topic or "", reservation_id(item.booking), envelope.encode(event), attributes)


def _data(item: Planned, names: Names) -> Mapping[str, Any]:
    booking, happening = item.booking, item.happening
    guest = guest_of(booking.digest, _id("gst", booking.digest))
    data: dict[str, Any] = {
        "reservationId": reservation_id(booking),
        "propertyId": names.property_id,
        "version": happening.version,
        "status": STATUS.get(happening.step, happening.step.value),
        "rooms": [names.room_id(item.room)],
        "guest": {"id": guest.id, "displayName": guest.name, "contact": {"email": guest.email}, "locale": guest.locale},
        "paymentStatus": PAYMENT.get(happening.step, "captured"),
    }
    if booking.party:
        data["partySize"] = booking.party
    if names.mixes_kinds:
        drawn = int(booking.digest[-8:], 16)
        data["preferredKinds"] = [WISHES[drawn % len(WISHES)]]
        data["guest"]["contact"]["phoneE164"] = _invented_number(int(booking.digest[-24:-8], 16))
    return data | _days(happening, names.time_zone)


def _invented_number(drawn: int) -> str:
    """Return a number that may be a mobile phone's and is nobody's: 555-0100 to 555-0199 are kept for invented people."""
    area, line = _AREA_CODES[drawn % len(_AREA_CODES)], drawn // len(_AREA_CODES) % 100
    return f"+1{area}55501{line:02d}"


def _days(happening: Happening, time_zone: str) -> dict[str, str]:
    """Overnight stays are told by their days, which the property's hours complete; day use by its window."""
    span, zone = happening.span, ZoneInfo(time_zone)
    if not span.is_day_use:
        return {"checkIn": span.first.isoformat(), "checkOut": span.last.isoformat()}
    return {
        "validFrom": format_instant(span.start.replace(tzinfo=zone)),
        "validUntil": format_instant(span.end.replace(tzinfo=zone)),
    }


def _hour(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)


def _id(prefix: str, text: str) -> str:
    """Makes an id of 26 characters of Crockford base 32 from a text; the first is 0 to 7, as in every ULID."""
    number = int.from_bytes(hashlib.sha256(f"{prefix}\x1f{text}".encode()).digest()[:16])
    digits = []
    for _ in range(_ID_CHARS):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return f"{prefix}_{''.join(reversed(digits))}"


def span_of(timeline: Timeline) -> tuple[datetime, timedelta]:
    """Returns when it begins, and how long it lasts. Raises ValueError for an empty one."""
    if not timeline.planned:
        raise ValueError("nothing happens")
    first, last = timeline.planned[0].at, timeline.planned[-1].at
    return first, last - first
