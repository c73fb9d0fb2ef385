"""Which of a stay's keys starts it at a door. Where a key ends the earlier ones of its door, one comes first and the rest join.

| the stay's other keys at these doors | this key |
|---|---|
| one is asked for there right now, or nobody knows whether it is there | waits |
| the first one is on its way, and waits for nobody | waits |
| one is there | joins |
| a guest of another stay is in the room | joins |
| none is there: the first one waits for desk, room or papers, failed, or ended | starts the stay |

One rule: who comes first starts the stay and ends the last guest's, whichever key that is; nobody ends a key of the own stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from credentials.lifecycle import LIVE
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.services import KeyBatch
from credentials.targets import Verb, next_verb
from devices import adapters
from sagas.flows import rest_key, shared_rooms, wake_sagas
from sagas.flows.one_change import spans
from sagas.models import Saga, SagaStatus
from sagas.steps import is_spent
from vendors.port.types import CredentialKind, Intent

_AT_WORK = (SagaStatus.DUE.value, SagaStatus.RUNNING.value, SagaStatus.RETRY.value)
_THERE = (DoorState.PRESENT.value, DoorState.SUSPENDED.value)

Other = tuple[KeyCredential, list[CredentialDoor]]


def must_wait(batch: KeyBatch, key: KeyCredential, doors: Sequence[CredentialDoor], priority: int) -> bool:
    """Says whether another key of the stay must be settled at these doors before this one is given there.

    Never for ever: what is waited for has a saga at work, whose tries are counted, and which gets the waiting one's `priority`.
    A key that was asked for itself does not wait any more.
    """
    if any(door.verb for door in doors):
        return False
    ahead = [other.id for other, rows in _others(batch, key, doors) if any(_goes_first(key, other, row) for row in rows)]
    if not ahead:
        return False
    at_work = Saga.objects.filter(tenant_id=key.tenant_id, credential_id__in=ahead, status__in=_AT_WORK)
    at_work = at_work.exclude(flow=rest_key.SUSPEND)
    if not at_work.exists():
        return False
    wake_sagas.hurry(at_work, priority)
    return True


def intent_at(batch: KeyBatch, key: KeyCredential, doors: Sequence[CredentialDoor]) -> Intent:
    """Returns whether a change starts the stay at the doors it adds, or joins it there."""
    joins = _held(batch, key, doors) or (spans(key) and shared_rooms.is_occupied(batch, key, doors))
    return Intent.ADDITIONAL if joins else Intent.NEW


def settle_intent(batch: KeyBatch, key: KeyCredential, doors: Sequence[CredentialDoor]) -> None:
    """Decides what giving the key does to earlier keys of these doors, by who is there now; a replacement stays one.

    A key asked for as one that joins still joins when it is asked for again: it may be there.
    """
    rooms = _rooms(doors)
    if key.reservation_id is None or not rooms or not spans(key) or key.intent == Intent.REPLACEMENT:
        return
    held = _held(batch, key, doors)
    joins = bool(held) if key.intent == Intent.ADDITIONAL else held == rooms
    joins = joins or (key.intent == Intent.ADDITIONAL and shared_rooms.is_beside_stranger(batch, key, doors))
    joins = joins or shared_rooms.is_occupied(batch, key, doors)  # another stay's guest is there: nobody ends her key
    intent = Intent.ADDITIONAL if joins else Intent.NEW
    if key.intent != intent and not (intent is Intent.NEW and any(door.verb for door in doors)):
        key.intent = intent.value
        batch.touch(key)


def put_out(batch: KeyBatch, key: KeyCredential, given: Collection[str]) -> set[str]:
    """Returns the stay's other keys that a key has ended by starting the stay at the `given` devices: it opens a room where
    none of them was, and theirs too."""
    if key.intent != Intent.NEW:
        return set()
    doors = [door for door in batch.doors_at(key) if door.device_id in given]
    return {other.id for other, rows in _others(batch, key, doors) if other.state in LIVE and any(map(_is_there, rows))}


def _held(batch: KeyBatch, key: KeyCredential, doors: Sequence[CredentialDoor]) -> set[str]:
    """The doors of rooms at which a live key of the stay is."""
    return {
        row.device_id for other, rows in _others(batch, key, doors) for row in rows if other.state in LIVE and _is_there(row)
    }


def _is_there(row: CredentialDoor) -> bool:
    return row.state in _THERE and not row.dropped


def _goes_first(key: KeyCredential, other: KeyCredential, row: CredentialDoor) -> bool:
    if row.verb == Verb.ISSUE:
        return True
    if other.ordinal >= key.ordinal or other.state not in LIVE or other.waiting_for or other.intent == Intent.ADDITIONAL:
        return False
    return next_verb(other, row) is Verb.ISSUE and not is_spent(other, row, Verb.ISSUE)


def _others(batch: KeyBatch, key: KeyCredential, doors: Sequence[CredentialDoor]) -> Iterator[Other]:
    """The stay's other keys that end or join each other at these rooms' doors, with their rows there. A batch's own are taken
    as they are in it; the rest is read without locks, as only this lane's runner gives keys there."""
    rooms = _rooms(doors)
    if key.reservation_id is None or not rooms or not spans(key):
        return
    kinds = [CredentialKind(kind).value for kind in adapters.manifest(key.vendor).spanning_kinds]
    stay = KeyCredential.objects.filter(
        tenant_id=key.tenant_id, reservation_id=key.reservation_id, incarnation=key.incarnation,
        installation_id=key.installation_id, kind__in=kinds,
    ).exclude(id=key.id)  # fmt: skip
    keys = [batch.keys.get(row.id, row) for row in stay.order_by("ordinal", "id")]
    unread = [other.id for other in keys if other.id not in batch.keys]
    read = CredentialDoor.objects.filter(tenant_id=key.tenant_id, credential_id__in=unread, device_id__in=rooms)
    stored = list(read.order_by("id")) if unread else []
    for other in keys:
        rows = batch.doors_at(other) if other.id in batch.keys else [row for row in stored if row.credential_id == other.id]
        yield other, [row for row in rows if row.device_id in rooms]


def _rooms(doors: Sequence[CredentialDoor]) -> set[str]:
    return {door.device_id for door in doors if door.room_id}
