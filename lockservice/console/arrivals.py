"""Tonight's arrivals: does every one of them get in?

One rule: a verdict is read from what doors are known to carry; whatever is not known is not called good.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.utils.translation import gettext_lazy as _

from credentials.lifecycle import LIVE, State
from credentials.models import CredentialDoor, KeyCredential, Reservation
from lockservice.console import words
from lockservice.console.read_only import page_url
from lockservice.console.session import Desk
from lockservice.core.places import Property, Room

NIGHT_ENDS = time(6, 0)
"""Who arrives before this hour of the next morning belongs to tonight."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one arrival gets in. `gets_in` None: not yet, but nothing is wrong."""

    word: words.Word
    gets_in: bool | None


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
    keys = _keys(place.tenant_id, [stay.reservation_id for stay in stays])
    doors = _doors(place.tenant_id, [key.id for many in keys.values() for key in many])
    rooms = list(Room.objects.filter(tenant_id=place.tenant_id, property_id=place.property_id).order_by("label"))
    labels = {room.room_id: room.label for room in rooms}
    arrivals = [_arrival(stay, keys[stay.reservation_id], doors, labels) for stay in stays]
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


def judge(stay: Reservation, keys: Sequence[KeyCredential], doors: dict[str, list[CredentialDoor]]) -> Verdict:
    """Says whether a stay's guest gets in with the keys there are: with rooms on two installations, with the worst of both."""
    live = [key for key in keys if key.state in LIVE]
    if not live:
        return _without_key(stay, keys)
    primary = [key for key in live if key.ordinal == 0] or live[:1]
    return max((_judge_key(key, doors.get(key.id, [])) for key in primary), key=_rank)


def _rank(verdict: Verdict) -> int:
    return {True: 0, None: 1, False: 2}[verdict.gets_in]


def _without_key(stay: Reservation, keys: Sequence[KeyCredential]) -> Verdict:
    if not stay.rooms:
        return Verdict(words.Word(_("no room yet"), words.WARN), gets_in=False)
    if keys and keys[-1].state == State.FAILED:
        return Verdict(words.Word(_("key failed"), words.BAD), gets_in=False)
    return Verdict(words.Word(_("no key"), words.BAD), gets_in=False)


def _judge_key(key: KeyCredential, doors: list[CredentialDoor]) -> Verdict:
    waiting = words.WAITING.get(key.waiting_for) if key.state == State.REQUESTED else None
    if waiting:
        texts = {"desk": _("card at the desk"), "room": _("no room yet"), "id": _("papers first")}
        return Verdict(words.Word(texts[key.waiting_for], words.WARN), gets_in=None if key.waiting_for == "desk" else False)
    if key.state in (State.REQUESTED, State.PENDING):
        return Verdict(words.Word(_("on its way"), words.BUSY), gets_in=None)
    if key.state == State.SUSPENDED:
        return Verdict(words.Word(_("suspended"), words.WARN), gets_in=False)
    meant = [door for door in doors if not door.dropped]
    present = [door for door in meant if door.state == "present" and not door.verb]
    if len(present) == len(meant) and meant:
        return Verdict(words.Word(_("gets in"), words.GOOD), gets_in=True)
    text = _("%(present)s of %(all)s doors") % {"present": len(present), "all": len(meant)}
    return Verdict(words.Word(text, words.BAD), gets_in=False)


def _arrival(
    stay: Reservation, keys: list[KeyCredential], doors: dict[str, list[CredentialDoor]], labels: dict[str, str]
) -> Arrival:
    live = [key for key in keys if key.state in LIVE]
    key = live[0] if live else keys[-1] if keys else None
    meant = [door for door in doors.get(key.id, []) if not door.dropped] if key else []
    return Arrival(
        stay=stay,
        url=page_url(Reservation, stay.pk),
        rooms=[labels.get(room, room) for room in stay.rooms],
        verdict=judge(stay, keys, doors),
        key=key,
        key_url=page_url(KeyCredential, key.id) if key else "",
        present=sum(door.state == "present" and not door.verb for door in meant),
        meant=len(meant),
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


def _doors(tenant_id: str, keys: list[str]) -> dict[str, list[CredentialDoor]]:
    found: dict[str, list[CredentialDoor]] = defaultdict(list)
    for door in CredentialDoor.objects.filter(tenant_id=tenant_id, credential_id__in=keys):
        found[door.credential_id].append(door)
    return found
