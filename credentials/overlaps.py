"""Two stays in one room at one time: which keys of other stays open a key's rooms while it does.

One rule: stays are compared by what their bookings say, without grace: who leaves at noon does not overlap with who comes then.
A key without a booking that we know of counts by its own window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q

from credentials import notices
from credentials.lifecycle import LIVE, State
from credentials.models import CredentialDoor, DoorState, KeyCredential, Reservation
from credentials.stay_notices import StayName
from credentials.targets import KEPT
from sagas.alerts import NewAlert
from vendors.port.types import Window

RUNBOOK = "lock/two-stays"
FLOW = "room_overlap"
"""The saga that looks at a stay's keys again after another stay in their rooms has changed."""
# ABSENT too: a key that comes back to a room is wanted at a door that it was taken from; what was left for good is `dropped`.
_THERE = (DoorState.PRESENT, DoorState.SUSPENDED)
_MAY_OPEN = (DoorState.NONE, DoorState.ABSENT, DoorState.PRESENT, DoorState.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another stay's key at rooms of a key. `stay` is the time of its stay."""

    key: KeyCredential
    rooms: frozenset[str]
    devices: frozenset[str]
    stay: Window


def neighbours(tenant_id: str, asked: Sequence[tuple[KeyCredential, Iterable[CredentialDoor]]]) -> dict[str, list[Neighbour]]:
    """Return, by key, the live keys of other stays that overlap with the key's stay in a room of its.

    Doors that a guest has left do not count, nor does a lock that the other key has as another room's: it hung there before,
    or is the way into both. Read without locks. Inside the tenant's block.
    """
    mine = {key.id: {(d.device_id, d.room_id) for d in doors if _counts(d)} for key, doors in asked if _is_guests(key)}
    keys = {key.id: key for key, _ in asked if mine.get(key.id)}
    if not keys:
        return {}
    rows = _doors_at(tenant_id, {device for key_id in keys for device, _ in mine[key_id]})
    by_key: dict[str, list[CredentialDoor]] = defaultdict(list)
    for row in rows:
        by_key[row.credential_id].append(row)
    stays = _stays(tenant_id, [*keys.values(), *(rows[0].credential for rows in by_key.values())])
    return {key_id: _beside(key, mine[key_id], by_key, stays) for key_id, key in keys.items()}


def is_held(key: KeyCredential, doors: Iterable[CredentialDoor], kinds: Collection[str], now: datetime) -> bool:
    """Say whether a key of these kinds is at one of these rooms' doors for another stay that must not lose it.

    | the other stay | its key |
    |---|---|
    | overlaps with the key's own | counts to its end, grace included; suspended and leaving ones too |
    | runs now, and its guest was to have left the door (`KEPT`) | does not: the room is hers until its next stay begins |
    | begins later than the key's own | counts: it was made ahead |
    | is over when the key's own begins | does not: the next guest's key ends it |

    Read without locks. Inside the tenant's block.
    """
    places = {(door.device_id, door.room_id) for door in doors if _counts(door)}
    if not places or not _is_guests(key):
        return False
    rows = CredentialDoor.objects.filter(
        tenant_id=key.tenant_id, device_id__in=sorted({device for device, _ in places}), state__in=_THERE,
        credential__state__in=[State.ACTIVE, State.SUSPENDED], credential__valid_until__gt=now,
    ).exclude(old_room=KEPT)  # fmt: skip
    here = {row.credential.id: row.credential for row in rows.select_related("credential") if _place(row) in places}
    others = {
        other.id: other
        for other in here.values()
        if _is_guests(other) and other.reservation_id != key.reservation_id
        and (other.installation_id, other.kind in kinds) == (key.installation_id, True)
    }  # fmt: skip
    stays = _stays(key.tenant_id, [key, *others.values()]) if others else {}
    own = _stay_of(key, stays)
    beside = [_stay_of(other, stays) for other in others.values()]
    return any(_overlap(own, stay) or own.valid_from < stay.valid_from for stay in beside)


def is_turned_over(
    key: KeyCredential, doors: Iterable[CredentialDoor], kinds: Collection[str], until: datetime, now: datetime
) -> bool:
    """Say whether the next guest's key was given at one of these rooms' doors, and ends this one before its stay is over.

    One of these `kinds` ends the last guest's when it is used.

    | the other stay's key | this one |
    |---|---|
    | was given there later, for a stay that begins at `until`, when this key's stay was to end, or after | was ended by it |
    | the same, and is over since, or its guest is in another room | was ended by it all the same |
    | the same, made ahead: its window has not begun, and its stay begins before this key's is over now | will be ended by it |
    | made ahead for a stay after this key's, or over before its window began | goes on |
    | of a stay that begins before `until` | goes on: the other joined |

    Read without locks. Inside the tenant's block.
    """
    mine = {_place(door): door.pk for door in doors if _counts(door)}
    if not mine or not _is_guests(key) or key.kind not in kinds or key.issued_at is None:
        return False
    rows = CredentialDoor.objects.filter(
        Q(credential__ended_at=None) | Q(credential__ended_at__gt=F("credential__valid_from")),
        tenant_id=key.tenant_id, device_id__in=sorted({device for device, _ in mine}),
        credential__property_id=key.property_id, credential__installation_id=key.installation_id,
        credential__kind__in=kinds, credential__holder_kind="guest", credential__issued_at__isnull=False,
        credential__valid_until__gt=until,
    ).exclude(state=DoorState.NONE).exclude(credential__reservation_id=key.reservation_id)  # fmt: skip
    later = [
        row
        for row in rows.select_related("credential")
        if _place(row) in mine and _is_guests(row.credential) and _may_be_after(row, key, mine[_place(row)])
    ]
    stays = _stays(key.tenant_id, [key, *(row.credential for row in later)]) if later else {}
    own = _stay_of(key, stays)
    begins = [(row, _stay_of(row.credential, stays).valid_from) for row in later]
    return any(
        start >= until and (row.credential.valid_from <= now or (start < own.valid_until and _is_there(row)))
        for row, start in begins
    )


def outranked(
    key: KeyCredential, doors: Iterable[CredentialDoor], kinds: Collection[str], begins: datetime, now: datetime
) -> list[KeyCredential]:
    """Return the keys of other stays that a key ends when it is used, since its stay begins before theirs are over now.

    It was given at its rooms' doors after them, for a stay that was to begin at `begins`, when theirs are over. Where it comes
    before the end of one, all of them are meant that are not over yet: they may have joined that one. Read without locks.
    Inside the tenant's block.
    """
    mine = {_place(door): door for door in doors if _counts(door) and _is_there(door)}
    if not mine or not _is_guests(key) or key.kind not in kinds or key.issued_at is None:
        return []
    earlier = {
        row.credential.id: row.credential
        for row in _given(key, mine, kinds, now)
        if row.credential.reservation_id != key.reservation_id and _is_after(mine[_place(row)], row.credential, row.pk)
    }
    stays = _stays(key.tenant_id, [key, *earlier.values()]) if earlier else {}
    own = _stay_of(key, stays)
    over = [(other, _stay_of(other, stays)) for other in earlier.values()]
    over = [(other, stay) for other, stay in over if now < stay.valid_until <= begins]
    return [other for other, _ in over] if any(own.valid_from < stay.valid_until for _, stay in over) else []


def left_behind(
    key: KeyCredential, doors: Iterable[CredentialDoor], kinds: Collection[str], now: datetime
) -> list[KeyCredential]:
    """Return the keys that one ends when it is used, which has just joined the newest stay of these rooms: one made ahead.

    They were given before that, for stays that are over when it begins, and are not over when the key's own stay begins. The
    key's own stay may have some of them. Read without locks. Inside the tenant's block.
    """
    mine = {_place(door) for door in doors if _counts(door)}
    if not mine or not _is_guests(key) or key.kind not in kinds:
        return []
    here = [row for row in _given(key, mine, kinds, now) if row.credential.id != key.id]
    stays = _stays(key.tenant_id, [key, *(row.credential for row in here)]) if here else {}
    own = _stay_of(key, stays)
    ahead = [row for row in here if row.credential.reservation_id != key.reservation_id]
    found = {}
    for row in here:
        ends = _stay_of(row.credential, stays).valid_until
        is_ended = any(
            _place(next_) == _place(row) and _stay_of(next_.credential, stays).valid_from >= ends
            and _is_after(next_, row.credential, row.pk)
            for next_ in ahead
        )  # fmt: skip
        if is_ended and max(now, own.valid_from) < ends:
            found[row.credential.id] = row.credential
    return list(found.values())


def _given(
    key: KeyCredential, places: Collection[tuple[str, str]], kinds: Collection[str], now: datetime
) -> list[CredentialDoor]:
    """Return where guests' live keys of these kinds are at rooms, of the key's lock system."""
    rows = CredentialDoor.objects.filter(
        tenant_id=key.tenant_id, device_id__in=sorted({device for device, _ in places}), state__in=_THERE,
        dropped=False, old_room="", credential__installation_id=key.installation_id, credential__kind__in=kinds,
        credential__state__in=[State.ACTIVE, State.SUSPENDED], credential__valid_until__gt=now,
    )  # fmt: skip
    found = rows.select_related("credential").order_by("id")
    return [row for row in found if _place(row) in places and _is_guests(row.credential)]


def _is_there(row: CredentialDoor) -> bool:
    return row.state in _THERE and not row.dropped and not row.old_room


def _may_be_after(row: CredentialDoor, key: KeyCredential, place: int | None) -> bool:
    """Say whether a key may have been given at a door after another: it was made later, or a change brought it there later."""
    given = row.credential.issued_at
    is_later = given is not None and key.issued_at is not None and given > key.issued_at
    return is_later or (place is not None and row.pk > place)


def _is_after(row: CredentialDoor, key: KeyCredential, place: int | None) -> bool:
    """Say whether a key was given at a door after another, as far as the books tell.

    Keys count by when they were made, as a card that was asked for first may be written last. But where the one that was asked
    for first came to the door last, a change brought it there.
    """
    if place is not None and (row.pk > place) is not (row.credential.id > key.id):
        return row.pk > place
    given = row.credential.issued_at
    if given is None or key.issued_at is None or given == key.issued_at:
        return place is not None and row.pk > place
    return given > key.issued_at


def _overlap(one: Window, other: Window) -> bool:
    return one.valid_from < other.valid_until and other.valid_from < one.valid_until


def _stay_of(key: KeyCredential, stays: Mapping[str, Window]) -> Window:
    return stays.get(key.reservation_id or "") or Window(key.valid_from, key.valid_until)


def _place(door: CredentialDoor) -> tuple[str, str]:
    return (door.device_id, door.room_id)


def noted_stays(key: KeyCredential, doors: Iterable[CredentialDoor]) -> set[str]:
    """Return the other stays with the warning at doors that the key has or had. Read without locks."""
    rows = CredentialDoor.objects.filter(
        tenant_id=key.tenant_id, device_id__in=sorted({door.device_id for door in doors if door.room_id}), dropped=False,
        credential__state__in=sorted(LIVE), credential__warnings__contains=[{"code": notices.STAYS_OVERLAP}],
    )  # fmt: skip
    found = rows.values_list("credential__reservation_id", flat=True)
    return {str(stay) for stay in found if stay and stay != key.reservation_id}


def set_warning(key: KeyCredential, others: Sequence[Neighbour]) -> None:
    """Put the warning of an overlap on a key, or take it off (not flushed)."""
    if not others:
        notices.clear(key, notices.STAYS_OVERLAP)
        return
    notices.warn(
        key, notices.STAYS_OVERLAP, "another stay has the room at the same time: they share it, or one of them has left"
    )


def alert(key: KeyCredential, name: StayName, other_stay: str) -> NewAlert:
    """Return the alert of two stays in one room, once a pair."""
    pair = ":".join(sorted((other_stay, str(key.reservation_id))))
    detail = f"{name.text}: another stay has the room at the same time; they share it, or one of them has left"
    return NewAlert(
        f"overlap:{pair}", notices.STAYS_OVERLAP, "warning", detail, RUNBOOK, key.property_id, key.id,
        reservation_id=key.reservation_id or "",
    )  # fmt: skip


def _beside(
    key: KeyCredential, places: set[tuple[str, str]], by_key: Mapping[str, list[CredentialDoor]], stays: Mapping[str, Window]
) -> list[Neighbour]:
    found = []
    own = _stay_of(key, stays)
    for rows in by_key.values():
        other = rows[0].credential
        here = [row for row in rows if _place(row) in places]
        if not here or other.reservation_id == key.reservation_id:
            continue
        stay = _stay_of(other, stays)
        if _overlap(own, stay):
            found.append(
                Neighbour(other, frozenset(row.room_id for row in here), frozenset(row.device_id for row in here), stay)
            )
    return found


def _doors_at(tenant_id: str, devices: Iterable[str]) -> list[CredentialDoor]:
    rows = CredentialDoor.objects.filter(
        tenant_id=tenant_id, device_id__in=sorted(devices), state__in=_MAY_OPEN, dropped=False, old_room="",
        credential__state__in=sorted(LIVE), credential__holder_kind="guest", credential__reservation_id__isnull=False,
    )  # fmt: skip
    return list(rows.exclude(room_id="").select_related("credential").order_by("id"))


def _stays(tenant_id: str, keys: Iterable[KeyCredential]) -> dict[str, Window]:
    wanted = sorted({key.reservation_id for key in keys if key.reservation_id})
    rows = Reservation.objects.filter(tenant_id=tenant_id, reservation_id__in=wanted)
    return {row.reservation_id: Window(row.valid_from, row.valid_until) for row in rows if row.valid_from < row.valid_until}


def _counts(door: CredentialDoor) -> bool:
    return bool(door.room_id) and not door.dropped and not door.old_room


def _is_guests(key: KeyCredential) -> bool:
    return key.holder_kind == "guest" and bool(key.reservation_id) and bool(key.rooms)
