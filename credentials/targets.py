"""What each door shall carry, what it is known to carry, and the verb that closes the gap. No database, no vendor.

One rule: doubt comes first. A door whose last call's effect is open (`verb` set) is asked again before anything else is told
it, and a key whose removal is in doubt is removed before it is given anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from credentials.lifecycle import State


class Verb(StrEnum):
    """What to ask the port for, in the order in which a credential's doors are worked: give before taking away."""

    ISSUE = "issue"
    UPDATE = "update"
    UNSUSPEND = "unsuspend"
    SUSPEND = "suspend"
    REVOKE = "revoke"


RANK = {verb: rank for rank, verb in enumerate(Verb)}

KEPT = "kept"
"""Of a door whose room was left: it goes on opening until the room that the holder moved to does."""
RELEASED = "released"
"""Of a door whose room was left: it was kept, and is to be taken now."""


class KeyView(Protocol):
    """The part of a credential this module reads."""

    state: str
    resuming: bool
    valid_from: datetime
    valid_until: datetime
    pin_version: int


class DoorView(Protocol):
    """The part of a credential's door this module reads."""

    dropped: bool
    old_room: str
    state: str
    verb: str
    carried_from: datetime | None
    carried_until: datetime | None
    pin_version: int
    room_id: str


def is_left(door: DoorView) -> bool:
    """Says whether the holder has left the door's room for good: one that is kept for a while is still hers."""
    return door.dropped and door.old_room != KEPT


def wanted(key: KeyView, door: DoorView) -> str:
    """Returns `present`, `suspended` or `absent`."""
    if is_left(door) or key.state in (State.REVOKED, State.FAILED):
        return "absent"
    if key.state == State.SUSPENDED and not key.resuming:
        return "suspended"
    return "present"


def next_verb(key: KeyView, door: DoorView) -> Verb | None:
    """Returns what must be asked at this door next; None when it carries what it shall."""
    want = wanted(key, door)
    if want == "absent":
        return Verb.REVOKE if door.verb or door.state in ("present", "suspended") else None
    if door.verb == Verb.REVOKE:
        return Verb.REVOKE
    if want == "suspended":
        return _toward_rest(door)
    return _toward_present(key, door)


def _toward_rest(door: DoorView) -> Verb | None:
    if door.state in ("none", "absent"):
        return Verb.REVOKE if door.verb else None
    return Verb.SUSPEND if door.state == "present" or door.verb else None


def _toward_present(key: KeyView, door: DoorView) -> Verb | None:
    if door.state in ("none", "absent"):
        may_have_other_digits = door.verb == Verb.ISSUE and door.pin_version not in (0, key.pin_version)
        return Verb.REVOKE if may_have_other_digits else Verb.ISSUE
    if door.pin_version != key.pin_version and door.old_room != KEPT:  # the old room keeps the digits that she knows
        return Verb.REVOKE
    if door.state == "suspended" or door.verb in (Verb.SUSPEND, Verb.UNSUSPEND):
        return Verb.UNSUSPEND
    window_differs = (door.carried_from, door.carried_until) != (key.valid_from, key.valid_until)
    return Verb.UPDATE if window_differs or door.verb else None


def is_settled(key: KeyView, doors: Sequence[DoorView]) -> bool:
    """Says whether every door carries what it shall, without doubt."""
    return all(next_verb(key, door) is None for door in doors)


def opens_a_room(key: KeyView, doors: Sequence[DoorView]) -> bool:
    """Says whether the key is known to be at a room's door it shall open. A key without rooms needs any door."""
    present = [door for door in doors if not is_left(door) and door.state == "present" and not door.verb]
    has_rooms = any(door.room_id for door in doors if not is_left(door))
    return any(door.room_id for door in present) if has_rooms else bool(present)
