"""Two stays in one room: who is there is told of the other, and nobody's key is ended because bookings overlap.

| the second stay's key | while the first guest is there |
|---|---|
| digits, and what a lock keeps beside others | joins |
| a card or a phone's key, where a new stay's key ends the earlier ones | joins: it ends nobody's |
| the same for several rooms, of which only some are let | starts in the others, and joins in the let ones by a change |
| the same, which gains several rooms by a change | is changed twice in the same way |
| the same, given again beside a key of the vendor's own program | joins |
| a card, where a system knows a stay by its room alone | joins; what is said of the room would reach both, so it is not said |

A stay that goes on after the next guest's key has ended its key gets another, which joins hers (`has_next_guest`). So does
one that the next guest's stay reaches into by a change of either, before she comes: her key would end its key (`outranked`).

One rule: a guest's key ends when her stay does, or when a person says so; a second guest with a stay gets her key too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from credentials import overlaps
from credentials.lifecycle import LIVE
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.services import KeyBatch
from credentials.targets import Verb
from devices import adapters
from sagas.flows.one_change import Group, spans
from sagas.models import Finding
from vendors.port.types import Intent, Propagation

FLOW = overlaps.FLOW
STRANGER = "stranger"


def run(batch: KeyBatch) -> None:
    """Look at the keys of one locked stay again, after another stay in their rooms has changed."""
    live = [key for key in batch.keys.values() if key.state in LIVE]
    found = overlaps.neighbours(batch.tenant_id, [(key, batch.doors_at(key)) for key in live])
    for key in live:
        overlaps.set_warning(key, found.get(key.id, []))
        batch.touch(key)


def is_occupied(batch: KeyBatch, key: KeyCredential, doors: Sequence[CredentialDoor]) -> bool:
    """Say whether a guest of another stay has one of these rooms, with a key that a new stay's key here would end."""
    return overlaps.is_held(key, doors, _spanning(key), batch.now)


def has_next_guest(batch: KeyBatch, key: KeyCredential, until: datetime) -> bool:
    """Say whether a key of a stay that was to end at `until` was ended at its door by the next guest's, or will be.

    It will be where the next guest's was made ahead and her stay begins before this one is over now. A lock system that ends a
    key at one door ends it whole, and no change makes it open again. Our books go on to have it.
    """
    return overlaps.is_turned_over(key, batch.doors_at(key), _superseding(key), until, batch.now)


def outranked(batch: KeyBatch, key: KeyCredential, begins: datetime) -> list[KeyCredential]:
    """Return the keys of guests who are to stay on in the key's rooms, and which it ends when it is used.

    Its stay was to begin at `begins`, when theirs were over, and so it started a stay there.
    """
    return overlaps.outranked(key, batch.doors_at(key), _superseding(key), begins, batch.now)


def left_behind(batch: KeyBatch, key: KeyCredential, devices: Collection[str]) -> list[KeyCredential]:
    """Return the keys that one ends when it is used, which has joined a stay at these devices whose key was made ahead."""
    doors = [door for door in batch.doors_at(key) if door.device_id in devices]
    return overlaps.left_behind(key, doors, _superseding(key), batch.now) if doors else []


def free_first(batch: KeyBatch, key: KeyCredential, doors: Sequence[CredentialDoor]) -> list[CredentialDoor]:
    """Return the doors at which a key is given first: where only some of its rooms are let to another stay's guest, the others.

    One call starts the stay in all rooms that it gives, or joins in all. Asked for together, it would end that guest's key or
    be refused for want of a stay to join. The let rooms are added once the key is there, as to one that joins. Doors of which
    nobody knows whether the key is there come before either, in the way in which they were asked for.
    """
    if sum(bool(door.room_id) for door in doors) < 2:  # one room is let or not
        return list(doors)
    let = [door for door in doors if door.room_id and is_occupied(batch, key, [door])]
    free = [door for door in doors if door not in let]
    if not let or not any(door.room_id for door in free):
        return list(doors)
    return [door for door in doors if door.verb] or free


def with_other_stay(batch: KeyBatch, key: KeyCredential, group: Group) -> set[str]:
    """Return the devices of a change, or of a taking back, at which what is said of the room as a whole reaches another stay.

    That is where its guest has a card or a phone's key, and for a change also where she had one that joined and may still open:
    moved or made longer, it would open for her again. In a room that is gained a new stay ends keys of those who have left.
    """
    if not spans(key) or not key.reservation_id or key.holder_kind != "guest" or group.verb not in (Verb.UPDATE, Verb.REVOKE):
        return set()
    gained = {door.device_id for door in group.added}
    held = sorted(door.device_id for door in group.doors if door.room_id and door.device_id not in gained)
    rows = CredentialDoor.objects.filter(
        tenant_id=key.tenant_id, device_id__in=held, credential__installation_id=key.installation_id,
        credential__kind__in=_spanning(key), credential__holder_kind="guest", credential__reservation_id__isnull=False,
        credential__valid_until__gt=batch.now,
    ).exclude(credential__reservation_id=key.reservation_id)  # fmt: skip
    found = [row for row in rows.select_related("credential").order_by("id") if row.credential.issued_at is not None]
    here = {row.device_id for row in found if _is_there(row)}
    if group.verb is Verb.UPDATE:
        here |= {row.device_id for row in found if _may_be_there(batch, key, row)}
    return here | {door.device_id for door in group.added if is_occupied(batch, key, [door])}


def _is_there(row: CredentialDoor) -> bool:
    return row.credential.state in LIVE and not row.dropped and row.state in (DoorState.PRESENT, DoorState.SUSPENDED)


def _may_be_there(batch: KeyBatch, key: KeyCredential, row: CredentialDoor) -> bool:
    """Say whether a card that was taken back may open, and shares the stay's time at the vendor: one of the two has joined."""
    opens = bool(row.verb) or row.propagation != Propagation.CONFIRMED
    if not opens or (row.effective_not_after or row.credential.valid_until) <= batch.now:
        return False
    is_earlier = key.issued_at is not None and row.credential.issued_at is not None and key.issued_at < row.credential.issued_at
    return key.intent == Intent.ADDITIONAL or is_earlier


def is_beside_stranger(batch: KeyBatch, key: KeyCredential, doors: Sequence[CredentialDoor]) -> bool:
    """Say whether a comparison found a running key that is not ours in one of these rooms, which a new stay's key would end."""
    devices = [door.device_id for door in doors if door.room_id]
    strangers = Finding.objects.filter(
        tenant_id=batch.tenant_id, installation_id=key.installation_id, device_id__in=devices, kind=STRANGER,
        status__in=("open", "known"), key_kind__in=_spanning(key), found_from__isnull=False,
    )  # fmt: skip
    spans = strangers.values_list("found_from", "found_until")
    return any(since <= batch.now < until for since, until in spans if since is not None and until is not None)


def _spanning(key: KeyCredential) -> list[str]:
    """The kinds of the key's lock system that end or join each other at a room."""
    return [kind.value for kind in adapters.manifest(key.vendor).spanning_kinds]


def _superseding(key: KeyCredential) -> list[str]:
    """Those of which the next guest's ends the last one's."""
    return [kind.value for kind in adapters.manifest(key.vendor).superseding_kinds]
