"""Tonight's arrivals: does every one of them get in?

One rule: the verdict is that of `sagas.verdict`; here it is only put into a hotelier's words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.utils.translation import gettext_lazy as _

from credentials.lifecycle import LIVE, State
from credentials.models import KeyCredential, Reservation
from lockservice.console import words
from lockservice.console.read_only import page_url
from lockservice.console.session import Desk
from lockservice.core.places import Property, Room
from sagas import verdict

NIGHT_ENDS = time(6, 0)
"""Who arrives before this hour of the next morning belongs to tonight."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one arrival gets in. `gets_in` None: not yet, but nothing is wrong."""

    word: words.Word
    gets_in: bool | None


@dataclass(frozen=True, slots=True)
class DoorLine:
    """One door of a stay, in words: where, whether it opens, when the lock was last heard of, until when that holds."""

    label: str
    verdict: Verdict
    known_at: datetime | None
    until: datetime | None


@dataclass(slots=True)
class Arrival:
    """One stay that begins tonight."""

    stay: Reservation
    url: str
    rooms: list[str]
    verdict: Verdict
    key: KeyCredential | None
    key_url: str
    guest: Any = ""
    present: int = 0
    meant: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """A room as it shows in the picture of the house."""

    label: str
    word: words.Word
    url: str
    is_arrival: bool


@dataclass(slots=True)
class HouseTonight:
    """A house with its floors, top first, and its arrivals."""

    name: str
    zone: str
    now: datetime
    arrivals: list[Arrival]
    floors: list[tuple[str, list[Window]]] = field(default_factory=list)

    @property
    def safe(self) -> int:
        """How many arrivals get in."""
        return sum(arrival.verdict.gets_in is True for arrival in self.arrivals)

    @property
    def troubled(self) -> int:
        """How many will not get in unless somebody acts."""
        return sum(arrival.verdict.gets_in is False for arrival in self.arrivals)


def tonight(desk: Desk, now: datetime) -> list[HouseTonight]:
    """Returns the tenant's houses with tonight's arrivals, earliest first. Inside the tenant's block."""
    places = Property.objects.filter(tenant_id=desk.tenant_id, active=True).order_by("name")
    return [_house(place, now) for place in places]


def _house(place: Property, now: datetime) -> HouseTonight:
    start, end = night(now, place.time_zone)
    stays = list(
        Reservation.objects.filter(
            tenant_id=place.tenant_id, property_id=place.property_id, valid_from__gte=start, valid_from__lt=end
        )
        .exclude(status__in=["", "cancelled", "checked_out"])
        .order_by("valid_from", "reservation_id")
    )
    found_keys = _keys(place.tenant_id, [stay.reservation_id for stay in stays])
    found_verdicts = verdict.of_stays(place.tenant_id, stays, now)
    rooms = list(Room.objects.filter(tenant_id=place.tenant_id, property_id=place.property_id).order_by("label"))
    labels = {room.room_id: room.label for room in rooms}
    arrivals = [_arrival(stay, found_keys[stay.reservation_id], found_verdicts[stay.reservation_id], labels) for stay in stays]
    found = HouseTonight(place.name, place.time_zone, now, arrivals)
    found.floors = _floors(place, rooms, arrivals, now)
    return found


def night(now: datetime, zone: str) -> tuple[datetime, datetime]:
    """Returns the hotel's day and night that hold `now`, from NIGHT_ENDS to NIGHT_ENDS: at three in the morning it is still
    last night."""
    local = now.astimezone(ZoneInfo(zone))
    day = local.date() - timedelta(days=1) if local.time() < NIGHT_ENDS else local.date()
    start = datetime.combine(day, NIGHT_ENDS, ZoneInfo(zone))
    end = datetime.combine(day + timedelta(days=1), NIGHT_ENDS, ZoneInfo(zone))
    return start, end


def in_words(answer: verdict.Answer, why: verdict.Why) -> Verdict:
    """Puts an answer and its reason into the words of a badge."""
    if answer is verdict.Answer.OPENS:
        return Verdict(words.Word(_("gets in"), words.GOOD), gets_in=True)
    if answer is verdict.Answer.OVER:
        return Verdict(words.Word(_("has left"), words.OVER), gets_in=None)
    text = words.WHY.get(why, words.WHY[verdict.Why.NOT_KNOWN])
    if answer is verdict.Answer.COMING:
        tone = words.WARN if why is verdict.Why.WAITS_FOR_DESK else words.BUSY
        return Verdict(words.Word(text, tone), gets_in=None)
    return Verdict(words.Word(text, words.WARN if answer is verdict.Answer.DOUBT else words.BAD), gets_in=False)


def doors_in_words(found: verdict.StayVerdict, rooms: Mapping[str, str]) -> list[DoorLine]:
    """Returns the doors of a stay for its page, worst first. `rooms` maps room ids to what stands on the doors."""
    return [
        DoorLine(
            rooms.get(door.room_id, door.room_id) or door.label, in_words(door.answer, door.why), door.known_at, door.until
        )
        for door in found.doors
    ]


def _arrival(stay: Reservation, keys: list[KeyCredential], found: verdict.StayVerdict, labels: dict[str, str]) -> Arrival:
    live = [key for key in keys if key.state in LIVE]
    key = live[0] if live else keys[-1] if keys else None
    return Arrival(
        stay=stay,
        url=page_url(Reservation, stay.pk),
        rooms=[labels.get(room, room) for room in stay.rooms],
        verdict=in_words(found.answer, found.why),
        key=key,
        key_url=page_url(KeyCredential, key.id) if key else "",
        present=found.opening,
        meant=len(found.doors),
    )


def _floors(place: Property, rooms: list[Room], arrivals: list[Arrival], now: datetime) -> list[tuple[str, list[Window]]]:
    arriving = {room: arrival for arrival in arrivals for room in arrival.stay.rooms}
    occupied = _occupied(place, now)
    floors: dict[str, list[Window]] = defaultdict(list)
    for room in rooms:
        floors[room.floor].append(_window(room, arriving.get(room.room_id), room.room_id in occupied))
    return sorted(floors.items(), key=lambda item: (len(item[0]), item[0]), reverse=True)


def _window(room: Room, arrival: Arrival | None, occupied: bool) -> Window:
    if arrival is not None:
        return Window(room.label, arrival.verdict.word, arrival.key_url or arrival.url, is_arrival=True)
    word = words.Word(_("guest in the house"), words.CALM) if occupied else words.Word(_("free"), words.OVER)
    return Window(room.label, word, "", is_arrival=False)


def _occupied(place: Property, now: datetime) -> set[str]:
    keys = KeyCredential.objects.filter(tenant_id=place.tenant_id, property_id=place.property_id, state=State.ACTIVE.value)
    keys = keys.filter(valid_from__lte=now, valid_until__gt=now)
    return {room for rooms in keys.values_list("rooms", flat=True) for room in rooms}


def _keys(tenant_id: str, stays: list[str]) -> dict[str, list[KeyCredential]]:
    found: dict[str, list[KeyCredential]] = defaultdict(list)
    rows = KeyCredential.objects.filter(tenant_id=tenant_id, reservation_id__in=stays)
    for key in rows.order_by("incarnation", "ordinal", "requested_at"):
        found[key.reservation_id or ""].append(key)
    return found
