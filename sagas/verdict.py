"""The verdict of a stay: does its guest get in, at which door, how is that known, and until when.

Rooms of the booking × doors of the lock systems × the key's window in the door's own time × clock, battery and reach of the
lock × the vendor × who else is in the room.

One rule: green is only what is known. A room is judged by the booking, so a key that opens another room counts for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from credentials.lifecycle import LIVE, State
from credentials.models import CredentialDoor, DoorState, KeyCredential, Reservation
from credentials.notices import OF_CLOCKS, card_is_stale, is_noted, is_spreading
from credentials.reservations import ENDED
from credentials.targets import is_left
from devices import breaker, selectors
from devices.health_rules import BATTERY_CRITICAL_PERCENT, SKEW_WARN_MS, Zone, believed_skew_ms, window_by_clocks
from devices.models import LockDevice
from sagas.flows.one_change import has_windows_by_door
from sagas.models import Finding
from vendors.port.errors import DeviceNotPaired
from vendors.port.types import Window

NOT_PAIRED = DeviceNotPaired.code.rsplit(".", 1)[-1]
UNHEARD_AFTER = timedelta(hours=24)
"""A lock that can be asked and was not heard of for longer (hotel's time) is not known to work. Polls are at most 9 h apart."""


class Answer(StrEnum):
    """Whether a door opens for the guest.

    DOUBT: nobody knows. COMING: not yet, and nothing is wrong. OVER: the stay has ended.
    """

    OPENS = "opens"
    COMING = "coming"
    DOUBT = "doubt"
    SHUT = "shut"
    OVER = "over"


_RANK = {Answer.OVER: 0, Answer.OPENS: 1, Answer.COMING: 2, Answer.DOUBT: 3, Answer.SHUT: 4}


class Why(StrEnum):
    """What stands between a guest and a green answer. NONE with an answer that needs no reason."""

    NONE = ""
    NO_ROOM = "no_room"
    NO_LOCK = "no_lock"
    NO_KEY = "no_key"
    KEY_FAILED = "key_failed"
    KEY_ENDED = "key_ended"
    STILL_OPENS = "still_opens"
    OTHER_ROOM = "other_room"
    WAITS_FOR_DESK = "waits_for_desk"
    WAITS_FOR_ROOM = "waits_for_room"
    WAITS_FOR_ID = "waits_for_id"
    WAITS = "waits"
    ON_ITS_WAY = "on_its_way"
    NOT_AT_DOOR = "not_at_door"
    SUSPENDED = "suspended"
    NOT_KNOWN = "not_known"
    ENDS_EARLY = "ends_early"
    STARTS_LATE = "starts_late"
    CARD_OLD = "card_old"
    CLOCK_OFF = "clock_off"
    BATTERY_FLAT = "battery_flat"
    OUT_OF_REACH = "out_of_reach"
    NOT_HEARD_OF = "not_heard_of"
    VENDOR_SILENT = "vendor_silent"
    DIFFERS = "differs"
    OCCUPIED = "occupied"


@dataclass(frozen=True, slots=True)
class DoorVerdict:
    """One door of the stay. `until` is when the answer ends: the window's end, or the bound of a door that may not know yet.
    `known_at` is when the lock was last heard of, None if never; `key_id` is the key the answer rests on."""

    room_id: str
    device_id: str
    label: str
    answer: Answer
    why: Why
    key_id: str = ""
    known_at: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class StayVerdict:
    """A stay's doors, worst first, and the answer of the worst."""

    answer: Answer
    why: Why
    doors: tuple[DoorVerdict, ...]

    @property
    def opening(self) -> int:
        """How many doors are known to open."""
        return sum(door.answer is Answer.OPENS for door in self.doors)


@dataclass(frozen=True, slots=True)
class _Facts:
    now: datetime
    locks: Mapping[str, LockDevice]
    ahead_ms: Mapping[str, int]
    keys: Sequence[KeyCredential]
    doors: Mapping[tuple[str, str], CredentialDoor]
    silent: frozenset[str]
    differing: frozenset[tuple[str, str]]
    taken: frozenset[str]


def of_stays(tenant_id: str, stays: Sequence[Reservation], now: datetime) -> dict[str, StayVerdict]:
    """Return the verdicts of stays by reservation id, in eight statements however many. Inside the tenant's block."""
    houses = {stay.property_id for stay in stays}
    ids = [stay.reservation_id for stay in stays]
    keys = _by_stay(KeyCredential.objects.filter(tenant_id=tenant_id, reservation_id__in=ids))
    key_ids = [key.id for many in keys.values() for key in many]
    doors = {
        (door.credential_id, door.device_id): door
        for door in CredentialDoor.objects.filter(tenant_id=tenant_id, credential_id__in=key_ids)
    }
    zoned = selectors.in_zone(LockDevice).filter(tenant_id=tenant_id, property_id__in=houses, active=True)
    locks: dict[str, LockDevice] = {lock.id: lock for lock in zoned}
    ahead_ms = {
        lock.id: believed_skew_ms(lock.clock_skew_ms, lock.utc_offset_s, Zone(lock.time_zone or "", now)) or 0 for lock in zoned
    }
    findings = Finding.objects.filter(tenant_id=tenant_id, credential_id__in=key_ids, status="open").exclude(danger="")
    differing = frozenset(findings.values_list("credential_id", "device_id"))
    silent = frozenset(breaker.standing(tenant_id))
    taken = _taken(tenant_id, stays)
    return {
        stay.reservation_id: judge(
            stay, _Facts(now, locks, ahead_ms, keys[stay.reservation_id], doors, silent, differing, taken[stay.reservation_id])
        )
        for stay in stays
    }


def judge(stay: Reservation, facts: _Facts) -> StayVerdict:
    """Return the verdict of one stay over what is known. No query."""
    if stay.status in ENDED or stay.valid_until <= facts.now:
        return StayVerdict(Answer.OVER, Why.NONE, ())
    keys = [key for key in facts.keys if key.incarnation == stay.incarnation]
    if not stay.rooms:
        return StayVerdict(Answer.SHUT, Why.NO_ROOM, ())
    found = [_room(stay, room, keys, facts) for room in stay.rooms]
    found += _shared(stay, [door.key_id for door in found], keys, facts)
    worst = max(found, key=_rank)
    return StayVerdict(worst.answer, worst.why, tuple(sorted(found, key=_rank, reverse=True)))


def _room(stay: Reservation, room: str, keys: Sequence[KeyCredential], facts: _Facts) -> DoorVerdict:
    """Judge a room by the lock and the key that come out best: any of its lock systems may let the guest in."""
    locks = [lock for lock in facts.locks.values() if room in lock.rooms and not lock.shared]
    if not locks:
        return DoorVerdict(room, "", "", Answer.SHUT, Why.NO_LOCK)
    found = [_door(stay, room, lock, key, facts) for lock in locks for key in _candidates(lock, keys)]
    return min(found, key=_rank)


def _shared(stay: Reservation, key_ids: Iterable[str], keys: Sequence[KeyCredential], facts: _Facts) -> list[DoorVerdict]:
    """Judge the shared doors, such as the street door, of the keys that the rooms were judged by."""
    wanted = [key for key in keys if key.id in set(key_ids) and key.state in LIVE and not key.waiting_for]
    return [
        _door(stay, "", facts.locks[device_id], key, facts)
        for key in wanted
        for (key_id, device_id), door in facts.doors.items()
        if key_id == key.id and not is_left(door) and device_id in facts.locks and facts.locks[device_id].shared
    ]


def _rank(door: DoorVerdict) -> int:
    return _RANK[door.answer]


def _candidates(lock: LockDevice, keys: Sequence[KeyCredential]) -> Sequence[KeyCredential | None]:
    """Return the keys that may open a lock: live ones of its lock system, else the last one there was, else none.

    While the stay's first key is not made yet, only those in its holder's name: a companion's does not let the guest in.
    """
    live = [key for key in keys if key.state in LIVE]
    here = [key for key in live if key.installation_id == lock.installation_id]
    coming = [key.holder_id for key in here if not key.ordinal and key.state in (State.REQUESTED, State.PENDING)]
    here = [key for key in here if not coming or key.holder_id in coming]
    if here or live:
        return here or live[:1]
    return [keys[-1] if keys else None]


def _door(stay: Reservation, room: str, lock: LockDevice, key: KeyCredential | None, facts: _Facts) -> DoorVerdict:
    answer, why, until = _by_key(stay, room, lock, key, facts)
    if answer is Answer.OPENS:
        answer, why = _by_lock(room, lock, key, facts)
    key_id = key.id if key is not None else ""
    return DoorVerdict(room, lock.id, lock.label, answer, why, key_id, lock.last_seen_at, until)


def _by_key(
    stay: Reservation, room: str, lock: LockDevice, key: KeyCredential | None, facts: _Facts
) -> tuple[Answer, Why, datetime | None]:
    """Judge by what our books know of the key at the door."""
    door = facts.doors.get((key.id, lock.id)) if key is not None else None
    if key is None or key.state not in LIVE or key.waiting_for:
        is_untold = key is not None and key.state == State.REVOKED and door is not None and is_spreading(key, door, facts.now)
        if key is not None and door is not None and is_untold:  # nobody can tell the door before its bound
            return Answer.SHUT, Why.STILL_OPENS, door.effective_not_after or key.valid_until
        return _without_access(key)
    if door is None or is_left(door):
        return Answer.SHUT, Why.OTHER_ROOM if key.rooms and room and room not in key.rooms else Why.NO_KEY, None
    if key.state != State.ACTIVE:
        is_coming = key.state != State.SUSPENDED
        return (Answer.COMING, Why.ON_ITS_WAY, None) if is_coming else (Answer.SHUT, Why.SUSPENDED, None)
    if door.state != DoorState.PRESENT:
        return (Answer.DOUBT, Why.NOT_KNOWN, None) if door.verb else (Answer.SHUT, Why.NOT_AT_DOOR, None)
    return _by_window(stay, lock, key, door, facts)


def _without_access(key: KeyCredential | None) -> tuple[Answer, Why, datetime | None]:
    """Judge a stay whose key is not there, is over, or waits for somebody."""
    if key is None:
        return Answer.SHUT, Why.NO_KEY, None
    if key.state not in LIVE:
        return Answer.SHUT, Why.KEY_FAILED if key.state == State.FAILED else Why.KEY_ENDED, None
    words = {"desk": Why.WAITS_FOR_DESK, "room": Why.WAITS_FOR_ROOM, "id": Why.WAITS_FOR_ID}
    why = words.get(key.waiting_for, Why.WAITS)
    return (Answer.COMING if why is Why.WAITS_FOR_DESK else Answer.SHUT), why, None


def _by_window(
    stay: Reservation, lock: LockDevice, key: KeyCredential, door: CredentialDoor, facts: _Facts
) -> tuple[Answer, Why, datetime | None]:
    """Judge the carried window in the door's own time: a lock that runs ahead opens and shuts that much earlier."""
    if door.carried_from is None or door.carried_until is None:
        return Answer.DOUBT, Why.NOT_KNOWN, None
    ahead = timedelta(milliseconds=facts.ahead_ms[lock.id])
    given = window_by_clocks(Window(door.carried_from, door.carried_until), _clocks_of_one_call(key, door, facts))
    opens_from, opens_until = given.valid_from - ahead, given.valid_until - ahead
    needed_from, tolerance = max(facts.now, stay.valid_from), timedelta(milliseconds=SKEW_WARN_MS)
    # The door has what it had, or what it was told last; a lock that its system no longer knows has it or not.
    if door.verb or door.error_code == NOT_PAIRED:
        return Answer.DOUBT, Why.NOT_KNOWN, opens_until
    if opens_from > needed_from + tolerance:
        return Answer.SHUT, Why.CLOCK_OFF if door.carried_from <= needed_from else Why.STARTS_LATE, opens_from
    if opens_until < stay.valid_until - tolerance:
        return Answer.DOUBT, Why.CLOCK_OFF if door.carried_until >= stay.valid_until else Why.ENDS_EARLY, opens_until
    if card_is_stale(key):
        return Answer.DOUBT, Why.CARD_OLD, opens_until
    return Answer.OPENS, Why.NONE, opens_until


def _clocks_of_one_call(key: KeyCredential, door: CredentialDoor, facts: _Facts) -> list[int | None]:
    """Return how far the clocks are off of all doors that got one window together, where it was cut for the one that is off."""
    if not any(is_noted(key, code) for code in OF_CLOCKS):
        return []
    if has_windows_by_door(key):
        return [facts.ahead_ms.get(door.device_id)]
    beside = [
        row for (key_id, _), row in facts.doors.items() if key_id == key.id and row.lane == door.lane and not is_left(row)
    ]
    return [facts.ahead_ms.get(row.device_id) for row in beside]


def _by_lock(room: str, lock: LockDevice, key: KeyCredential | None, facts: _Facts) -> tuple[Answer, Why]:
    """Judge what the books call open by the lock, its vendor and the room."""
    if key is not None and (key.id, lock.id) in facts.differing:
        return Answer.DOUBT, Why.DIFFERS
    doubts = (
        (abs(facts.ahead_ms[lock.id]) > SKEW_WARN_MS, Why.CLOCK_OFF),
        (lock.battery_percent is not None and lock.battery_percent <= BATTERY_CRITICAL_PERCENT, Why.BATTERY_FLAT),
        (not lock.online, Why.OUT_OF_REACH),
        (lock.installation_id in facts.silent, Why.VENDOR_SILENT),
        (_is_unheard(lock, facts.now), Why.NOT_HEARD_OF),
        (room in facts.taken, Why.OCCUPIED),
    )
    why = next((reason for is_so, reason in doubts if is_so), Why.NONE)
    return (Answer.DOUBT if why else Answer.OPENS), why


def _is_unheard(lock: LockDevice, now: datetime) -> bool:
    """A lock nobody was ever told of (a stand-alone one) is not called silent."""
    return lock.has_remote and lock.last_seen_at is not None and now - lock.last_seen_at > UNHEARD_AFTER


def _taken(tenant_id: str, stays: Sequence[Reservation]) -> dict[str, frozenset[str]]:
    """Return, by stay, its rooms in which another stay is at the same time."""
    rooms = sorted({room for stay in stays for room in stay.rooms})
    if not rooms:
        return defaultdict(frozenset)
    first, last = min(stay.valid_from for stay in stays), max(stay.valid_until for stay in stays)
    houses = sorted({stay.property_id for stay in stays})
    span = {
        "tenant_id": tenant_id,
        "property_id__in": houses,
        "rooms__overlap": rooms,
        "valid_from__lt": last,
        "valid_until__gt": first,
    }
    booked = Reservation.objects.filter(**span).exclude(status__in=["", *ENDED])
    held = KeyCredential.objects.filter(**span, state__in=[State.ACTIVE.value, State.SUSPENDED.value], holder_kind="guest")
    others: list[Reservation | KeyCredential] = [*booked, *held]
    found: dict[str, frozenset[str]] = defaultdict(frozenset)
    for stay in stays:
        found[stay.reservation_id] = frozenset(
            room
            for other in others
            if other.reservation_id != stay.reservation_id and _overlaps(stay, other)
            for room in set(other.rooms) & set(stay.rooms)
        )
    return found


def _overlaps(one: Reservation, other: Reservation | KeyCredential) -> bool:
    return one.valid_from < other.valid_until and other.valid_from < one.valid_until


def _by_stay(rows: Iterable[KeyCredential]) -> dict[str, list[KeyCredential]]:
    found: dict[str, list[KeyCredential]] = defaultdict(list)
    for key in sorted(rows, key=lambda key: (key.incarnation, key.requested_at, key.id)):
        found[key.reservation_id or ""].append(key)
    return found
