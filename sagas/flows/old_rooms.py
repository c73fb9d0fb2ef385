"""Keep a door whose room was left until the room that the holder moved to opens.

| the holder moved | the door she left |
|---|---|
| and every room of her stay opens | is taken |
| and a room of hers does not open yet | is kept: it follows her dates and suspensions, and opens |
| and a room of hers opens to a companion of her stay alone | is kept |
| by one change of a card or phone that was refused for good | is kept, as the change took nothing |
| because the room's lock was replaced (take first) | is taken; of a key that was left as a whole, the new lock is kept |
| and what does not open is a room whose key of hers is suspended | is taken |

One rule: a door that is kept says so in its row (`old_room`), so that books, comparisons and callers agree that it opens.
Who may end the keeping earlier stands in `room_move`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from credentials import notices
from credentials.lifecycle import LIVE, WAITING, State
from credentials.models import CredentialDoor, DoorState, KeyCredential, Reservation
from credentials.reservations import ENDED
from credentials.services import KeyBatch
from credentials.targets import KEPT, RELEASED, Verb
from sagas.flows import wake_sagas
from sagas.flows.one_change import spans
from sagas.intake import PRIORITY_ISSUE, Start, internal_lane, own_key
from sagas.models import Saga
from sagas.outbox import Cause
from sagas.steps import is_spent
from vendors.port.types import Propagation

FLOW = "room_move"
"""The saga that watches a move until it is finished; see `room_move`."""
_HOLDS = (DoorState.PRESENT.value, DoorState.SUSPENDED.value)


def fate(key: KeyCredential, door: CredentialDoor, *, gains_rooms: bool) -> str:
    """Return what becomes of a door whose room the holder leaves by a change of her key.

    A card or phone that gains rooms loses others by the same call at the vendor, so nothing is kept aside for it.
    """
    opens = key.state == State.ACTIVE and bool(door.room_id) and door.state == DoorState.PRESENT
    return KEPT if opens and not (gains_rooms and spans(key)) else ""


def watch(batch: KeyBatch, key: KeyCredential, cause: Cause) -> None:
    """Start the saga that watches the move of a key, where it leaves a door that opens."""
    if not is_unfinished(batch, key):
        return
    if any(door.old_room == KEPT for door in batch.doors_at(key)):
        detail = "the old room stays open until the new room opens"
        notices.warn(key, notices.OLD_ROOM_KEPT, detail)
        batch.touch(key)
    batch.start(
        Start(
            flow=FLOW,
            key=own_key("room-move", key.id, str(key.desired_version)),
            lane=internal_lane(key.tenant_id),
            credential_id=None,
            reservation_id=key.reservation_id,
            priority=PRIORITY_ISSUE,
            args={"key": key.id},
        ),
        cause,
    )


def is_unfinished(batch: KeyBatch, key: KeyCredential) -> bool:
    """Say whether a door that the key left still opens because the move is not finished."""
    doors = batch.doors_at(key)
    if any(door.old_room == KEPT for door in doors):
        return True
    return bool(_missing(doors)) and any(door.old_room != RELEASED for door in _left(doors))


def settle(batch: KeyBatch, key: KeyCredential) -> None:
    """Let go of kept doors once every room of the stay opens; keep the doors of a change that was refused for good."""
    doors = batch.doors_at(key)
    left = _left(doors)
    if not left or key.state not in (State.ACTIVE, State.SUSPENDED):
        return
    missing = _missing(doors)
    if not missing:
        kept = [door for door in left if door.old_room == KEPT]
        if kept and not closed_rooms(key, doors):
            release(batch, key, kept)
    elif key.state == State.ACTIVE and all(is_spent(key, door, Verb.ISSUE) for door in missing):
        for door in left:
            if not door.old_room:
                door.propagation = Propagation.UNKNOWN.value if door.verb else door.propagation
                door.old_room, door.verb, door.due_at = KEPT, "", None
                batch.touch_door(door)


def release(batch: KeyBatch, key: KeyCredential, doors: Iterable[CredentialDoor]) -> None:
    """Let kept doors be taken by the next step of the key's saga."""
    for door in doors:
        door.old_room = RELEASED
        batch.touch_door(door)
    if not any(door.old_room == KEPT for door in batch.doors_at(key)):
        notices.clear(key, notices.OLD_ROOM_KEPT)
    batch.touch(key)


def try_again(batch: KeyBatch, key: KeyCredential) -> None:
    """Let a card or phone's key gain the new room and lose the old one by one change again, as it was first asked for."""
    doors = batch.doors_at(key)
    if not spans(key) or not _missing(doors):
        return
    for door in _left(doors):
        if door.old_room == KEPT:
            door.old_room = ""
            batch.touch_door(door)


def come_back(batch: KeyBatch, key: KeyCredential) -> None:
    """Take a key that was left as a whole for one of the stay's again: the booking moved back."""
    for door in batch.doors_at(key):
        if door.old_room == KEPT and not door.dropped:
            door.old_room = ""
            batch.touch_door(door)
    if not is_unfinished(batch, key) and notices.is_noted(key, notices.OLD_ROOM_KEPT):
        notices.clear(key, notices.OLD_ROOM_KEPT)
        batch.touch(key)


def is_left_as_a_whole(doors: Iterable[CredentialDoor]) -> bool:
    """Say whether the stay has left every room of a key: only a booking that moves back makes it one of the stay's again."""
    return any(door.old_room == KEPT and not door.dropped for door in doors)


def to_come(batch: KeyBatch, key: KeyCredential) -> list[KeyCredential]:
    """Return the keys on their way that are to take the place of one that the stay has left as a whole. All keys of the stay
    are in the batch."""
    if not is_left_as_a_whole(batch.doors_at(key)):
        return []
    stay = [other for other in batch.of_stay(key.reservation_id or "") if other.incarnation == key.incarnation]
    return [other for other in _hers(key, stay) if other.state in WAITING]


def closed_rooms(key: KeyCredential, doors: Iterable[CredentialDoor], row: Reservation | None = None) -> set[str]:
    """Return the rooms of the key's stay that its holder has to wait for: neither the key itself, by these doors, nor another
    of hers opens them.

    A room that the key has left is none of them, nor one whose key of hers is suspended: it opens when that is resumed. Nor is
    one that only somebody else of the stay has a key for, as long as she has a room.

    `row` is the stay's projection where it is at hand. Other keys are read without locks, but for what the caller has locked.
    """
    if row is None and key.reservation_id is not None:
        row = Reservation.objects.filter(tenant_id=key.tenant_id, reservation_id=key.reservation_id).first()
    if row is None or row.status in ENDED or row.incarnation != key.incarnation:
        return set()
    own = {door.room_id for door in doors if not door.dropped and not door.old_room and door.state == DoorState.PRESENT}
    left = {door.room_id for door in doors if door.dropped}  # a person moved the key, and the booking still names the room
    rest = set(row.rooms) - own - left
    if not rest:
        return rest
    stay = KeyCredential.objects.filter(tenant_id=key.tenant_id, reservation_id=key.reservation_id, incarnation=key.incarnation)
    hers = {other.id: other for other in _hers(key, list(stay.order_by("requested_at", "id")))}
    opened, opened_by_her, resting = _rooms_of_others(key, hers)
    has_room = bool((own | opened_by_her) & set(row.rooms))
    for_her = {room for other in hers.values() for room in other.rooms}
    others_alone = opened - for_her if has_room else set()
    return rest - opened_by_her - resting - others_alone


def wake(tenant_id: str, reservation_ids: Collection[str]) -> None:
    """Let the moves of these stays be looked at now: a door of theirs opened. Inside the tenant's block."""
    if reservation_ids:
        wake_sagas.wake(Saga.objects.filter(tenant_id=tenant_id, reservation_id__in=sorted(reservation_ids), flow=FLOW))


def wake_left(guest: Reservation) -> None:
    """Let the moves out of the rooms of this stay be looked at now: its guest is there. Inside the tenant's block."""
    kept = CredentialDoor.objects.filter(
        credential__tenant_id=guest.tenant_id, credential__property_id=guest.property_id, credential__state__in=sorted(LIVE),
        credential__reservation_id__isnull=False, room_id__in=guest.rooms, old_room=KEPT,
    )  # fmt: skip
    wake(guest.tenant_id, {str(stay) for stay in kept.values_list("credential__reservation_id", flat=True)})


def _hers(key: KeyCredential, stay: Collection[KeyCredential]) -> list[KeyCredential]:
    """Return the other keys of the key's holder, but for those that were taken back or replaced.

    A guest's are the first keys of her stay. A companion's are those that follow hers; where none does, the ones in the same
    name that follow nobody's: the number of a further key is another one at each lock system.
    """
    known = {other.id: other for other in stay}

    def origin(one: KeyCredential) -> KeyCredential:
        while one.replaces in known:
            one = known[str(one.replaces)]
        return one

    others = [other for other in stay if other.id != key.id and other.state != State.REVOKED and not other.replaced_by]
    if not origin(key).ordinal:
        return [other for other in others if not origin(other).ordinal]
    followed = [other for other in others if origin(other).id == origin(key).id]
    return followed or [other for other in others if other.ordinal and not other.replaces and other.holder_id == key.holder_id]


def _rooms_of_others(key: KeyCredential, hers: Collection[str]) -> tuple[set[str], set[str], set[str]]:
    """Return the rooms that other keys of the stay open, those that others of hers do, and those where one of hers rests."""
    doors = CredentialDoor.objects.filter(
        tenant_id=key.tenant_id, credential__reservation_id=key.reservation_id, credential__incarnation=key.incarnation,
        dropped=False, old_room="",
    ).exclude(credential_id=key.id)  # fmt: skip
    given = doors.filter(credential__state=State.ACTIVE, state=DoorState.PRESENT).exclude(verb__in=[Verb.REVOKE, Verb.SUSPEND])
    opened = list(given.values_list("credential_id", "room_id"))
    rest = doors.filter(credential_id__in=sorted(hers), credential__state=State.SUSPENDED, credential__resuming=False)
    return (
        {room for _, room in opened},
        {room for key_id, room in opened if key_id in hers},
        set(rest.values_list("room_id", flat=True)),
    )


def _left(doors: Iterable[CredentialDoor]) -> list[CredentialDoor]:
    return [door for door in doors if door.dropped and door.room_id and door.state in _HOLDS]


def _missing(doors: Iterable[CredentialDoor]) -> list[CredentialDoor]:
    return [door for door in doors if not door.dropped and door.room_id and door.state != DoorState.PRESENT]
