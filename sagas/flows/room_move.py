"""Watch a guest's move until her new room opens, and end the keeping of the old one where it must end earlier.

| what happens | the old room |
|---|---|
| every room of the stay opens | is taken |
| a person decides | is taken |
| its next stay begins | is taken before anything is given, and somebody is told |
| its lock hangs at another room's door now | is taken, and somebody is told |
| the policy's patience is over | stays hers, and somebody is told |
| cancelled, checked out, moved back, window over | as for every key |

One rule: time never takes the last door from a guest; only the next guest's stay, a lock that is another room's now, or a
person does.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from credentials import arrival_signs, notices, stay_notices
from credentials.house import House, house
from credentials.lifecycle import LIVE, State
from credentials.models import CredentialDoor, DoorState, KeyCredential, Reservation
from credentials.reservations import CONFIRMED, FRAUD, NO_SHOW
from credentials.services import KeyBatch
from credentials.targets import KEPT, RELEASED
from devices import adapters, selectors
from sagas.alerts import NewAlert
from sagas.flows import old_rooms, revoke_key, update_key
from sagas.intake import PRIORITY_CHECKOUT, PRIORITY_SECURITY, Start, own_key
from sagas.models import SagaStatus
from sagas.outbox import Cause
from sagas.steps import Work
from vendors.port.types import RevokeReason, Window

FLOW = old_rooms.FLOW
TRIGGER = "room_moved"
RUNBOOK = "lock/room-move"
UNFINISHED = "ROOM_MOVE_UNFINISHED"
LOOK_S = 60.0
"""How often an unfinished move is looked at, beside the wake-ups by doors of the stay that open."""
NEAR = timedelta(hours=24)
"""A guest who arrives later than this is in no hurry: nobody is told yet that her new room does not open."""
_SINCE, _TOLD = "since", "told"


def leave(batch: KeyBatch, place: House, key: KeyCredential, window: Window, saga_key: str, cause: Cause) -> None:
    """End a key whose rooms the stay has left, or keep it until the rooms that the stay moved to open.

    Only a key that opens a room now is kept. It follows the stay's `window` meanwhile. The stay and its keys are locked.
    """
    opens = [door for door in batch.doors_at(key) if door.room_id and not door.dropped and door.state == DoorState.PRESENT]
    if key.state != State.ACTIVE or not opens:
        revoke_key.begin(batch, key, RevokeReason.REPLACED, saga_key, cause, trigger=TRIGGER)
        return
    try:
        update_key.begin(batch, place, key, own_key("left", saga_key), cause, window=window)
    except update_key.WindowOver:
        revoke_key.begin(batch, key, RevokeReason.CHECKOUT, saga_key, cause, trigger="window_ended")
        return
    if all(door.old_room == KEPT for door in opens):
        return  # it was left by an earlier version, and is watched
    for door in opens:
        door.old_room = KEPT
        batch.touch_door(door)
    batch.retarget(key)  # each move is watched by a saga of its own
    old_rooms.watch(batch, key, cause)


def run(batch: KeyBatch, row: Reservation | None, work: Work, real_now: datetime, scale: float) -> None:
    """Look at one move, and say when to look again. The stay's projection, if there is one, and its keys are locked."""
    key = batch.keys.get(str(work.args["key"]))
    if key is None or key.state not in LIVE or not old_rooms.is_unfinished(batch, key):
        work.status = SagaStatus.DONE.value
        return
    doors = batch.doors_at(key)
    if not _waits(doors) and not old_rooms.closed_rooms(key, doors, row):
        _take(batch, key, work.cause, is_needed=False)
        work.status = SagaStatus.DONE.value
        return
    if _needed_now(batch, key, row):
        _tell(batch, key, "over", "critical", "the old room's next stay begins, and the guest's new room does not open")
        _take(batch, key, work.cause, is_needed=True)
        work.status = SagaStatus.DONE.value
        return
    _tell_of_patience(batch, key, work, real_now, scale)
    wait_s = min(LOOK_S, max(0.5, _until_next_stay_s(batch, key, row))) * scale
    work.status, work.due_at = SagaStatus.RETRY.value, real_now + timedelta(seconds=wait_s)


def give_up_old_room(batch: KeyBatch, key: KeyCredential, cause: Cause) -> bool:
    """Take the old room now, because a person says so; False where the key has none."""
    if key.state not in LIVE or not old_rooms.is_unfinished(batch, key):
        return False
    _take(batch, key, cause, is_needed=True)
    return True


def lose_moved_locks(batch: KeyBatch, key: KeyCredential, cause: Cause) -> None:
    """Take the kept doors of a locked live key whose locks hang elsewhere now: they are other guests' rooms.

    The guest may have no door then, so somebody is told at once. What replaces the lock at the old room is not given to her.
    """
    rooms = {device.id: device.rooms for device in selectors.property_devices(key.tenant_id, key.property_id)}
    kept = [door for door in batch.doors_at(key) if door.dropped and door.old_room == KEPT]
    moved = [door for door in kept if door.room_id not in rooms.get(door.device_id, ())]
    if not moved:
        return
    _tell(batch, key, "lock", "critical", "the old room's lock hangs elsewhere now, and the guest's new room does not open")
    _take_doors(batch, key, moved, cause, is_needed=True)


def _waits(doors: list[CredentialDoor]) -> bool:
    """Say whether a room of the key's own is still without it."""
    return any(d.room_id and not d.dropped and not d.old_room and d.state != DoorState.PRESENT for d in doors)


def _take(batch: KeyBatch, key: KeyCredential, cause: Cause, *, is_needed: bool) -> None:
    doors = batch.doors_at(key)
    if old_rooms.is_left_as_a_whole(doors):
        notices.clear(key, notices.OLD_ROOM_KEPT)
        revoke_key.begin(
            batch, key, RevokeReason.REPLACED, own_key("old-room", key.id, str(key.desired_version)), cause, trigger=TRIGGER
        )
        return
    left = [door for door in doors if door.dropped and door.room_id and door.old_room != RELEASED]
    _take_doors(batch, key, left, cause, is_needed=is_needed)


def _take_doors(batch: KeyBatch, key: KeyCredential, left: list[CredentialDoor], cause: Cause, *, is_needed: bool) -> None:
    old_rooms.release(batch, key, left)
    batch.retarget(key)
    facts = selectors.installation(key.tenant_id, key.installation_id)
    lane = left[0].lane
    batch.start(
        Start(
            flow=update_key.FLOW,
            key=own_key("old-room", key.id, str(key.desired_version)),
            lane=lane,
            lane_width=selectors.lane_of(facts, adapters.manifest(key.vendor), lane.partition(":")[2])[1],
            installation_id=key.installation_id,
            credential_id=key.id,
            reservation_id=key.reservation_id,
            priority=PRIORITY_SECURITY if is_needed else PRIORITY_CHECKOUT,
            args={update_key.TAKE_FIRST: True},
        ),
        cause,
    )


def _tell_of_patience(batch: KeyBatch, key: KeyCredential, work: Work, real_now: datetime, scale: float) -> None:
    since = work.args.get(_SINCE)
    if since is None:
        work.args = {**work.args, _SINCE: real_now.isoformat()}
        since = real_now.isoformat()
    if work.args.get(_TOLD) or key.valid_from > batch.now + NEAR:
        return
    patience_s = house(key.tenant_id, key.property_id).policy.outage_patience_minutes * 60 * scale
    if (real_now - datetime.fromisoformat(str(since))).total_seconds() < patience_s:
        return
    _tell(batch, key, "late", "warning", "the guest's new room does not open yet; the old room stays open for her meanwhile")
    work.args = {**work.args, _TOLD: True}


def _tell(batch: KeyBatch, key: KeyCredential, what: str, severity: str, detail: str) -> None:
    alert_key = f"room-move-{what}:{key.id}:{key.desired_version}"
    row = Reservation.objects.filter(tenant_id=key.tenant_id, reservation_id=key.reservation_id or "").first()
    where = f"{stay_notices.name_of(row).text}: " if row is not None else ""
    batch.alerts.append(
        NewAlert(
            alert_key, UNFINISHED, severity, where + detail, RUNBOOK, key.property_id, key.id,
            reservation_id=key.reservation_id or "",
        )
    )  # fmt: skip


def _left_rooms(batch: KeyBatch, key: KeyCredential, row: Reservation | None) -> set[str]:
    held = (DoorState.PRESENT, DoorState.SUSPENDED)
    doors = [door for door in batch.doors_at(key) if door.room_id]
    left = {door.room_id for door in doors if door.old_room == KEPT or (door.dropped and door.state in held)}
    return left - set(row.rooms if row is not None else ())


def _others(batch: KeyBatch, key: KeyCredential, row: Reservation | None) -> list[Reservation]:
    """The other stays that are booked in the rooms left, and not over before this one begins.

    One that the booking calls a no-show is among them only where something shows that its guest has come.
    """
    rooms = _left_rooms(batch, key, row)
    if not rooms:
        return []
    begins = row.valid_from if row is not None else key.valid_from
    rows = Reservation.objects.filter(
        tenant_id=key.tenant_id, property_id=key.property_id, status__in=[CONFIRMED, FRAUD, NO_SHOW],
        rooms__overlap=sorted(rooms), valid_until__gt=max(begins, batch.now),
    )  # fmt: skip
    booked = rows.exclude(reservation_id=key.reservation_id or "").order_by("valid_from")[:50]
    return [other for other in booked if other.status != NO_SHOW or _has_come(other)]


def _has_come(other: Reservation) -> bool:
    return arrival_signs.has_come(other.tenant_id, other.reservation_id, other.incarnation)


def _needed_now(batch: KeyBatch, key: KeyCredential, row: Reservation | None) -> bool:
    """Say whether the next stay of a room that was left has begun."""
    if any(_widened(other) <= batch.now for other in _others(batch, key, row)):
        return True
    devices = [door.device_id for door in batch.doors_at(key) if door.room_id in _left_rooms(batch, key, row)]
    by_hand = CredentialDoor.objects.filter(
        tenant_id=key.tenant_id, device_id__in=devices, state__in=[DoorState.PRESENT, DoorState.SUSPENDED], dropped=False,
        old_room="", credential__state__in=sorted(LIVE), credential__holder_kind="guest",
        credential__valid_from__lte=batch.now, credential__valid_until__gt=batch.now,
    ).exclude(credential__reservation_id=key.reservation_id or "")  # fmt: skip
    stays = set(by_hand.values_list("credential__reservation_id", flat=True))
    known = Reservation.objects.filter(tenant_id=key.tenant_id, reservation_id__in=sorted(s for s in stays if s))
    return bool(stays - set(known.values_list("reservation_id", flat=True)))


def _until_next_stay_s(batch: KeyBatch, key: KeyCredential, row: Reservation | None) -> float:
    return min(((_widened(other) - batch.now).total_seconds() for other in _others(batch, key, row)), default=LOOK_S)


def _widened(other: Reservation) -> datetime:
    """Return when the stay begins at its door."""
    early = house(other.tenant_id, other.property_id).policy.early_grace_minutes
    return other.valid_from - timedelta(minutes=early)
