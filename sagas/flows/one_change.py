"""Keys that name all of their doors at once, such as a card: rooms gained and lost travel in one call.

One rule: what a card or phone carries is one thing. A room is never taken from it by taking the key back, and never given by
making a second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from credentials.lifecycle import LIVE, State
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.targets import Verb, wanted
from devices import adapters
from vendors.port.types import CredentialKind

AT_ENCODER = "atEncoder"
"""The saga's argument that says: a person lays the card on the encoder now."""

Wanting = Sequence[tuple[CredentialDoor, Verb]]


@dataclass(frozen=True, slots=True)
class Group:
    """The doors one call is about. `added` and `removed` are those a change gives and takes beside the kept ones."""

    doors: tuple[CredentialDoor, ...]
    verb: Verb
    added: tuple[CredentialDoor, ...] = ()
    removed: tuple[CredentialDoor, ...] = ()
    at_encoder: bool = False

    @property
    def kept(self) -> tuple[CredentialDoor, ...]:
        """Returns the doors that are neither gained nor lost."""
        moving = {door.device_id for door in (*self.added, *self.removed)}
        return tuple(door for door in self.doors if door.device_id not in moving)

    def with_added(self, first: Sequence[CredentialDoor]) -> Group:
        """Returns the change that gives only the `first` of its added doors. The next gives the rest and writes the card."""
        if len(first) == len(self.added):
            return self
        doors = tuple(door for door in self.doors if door in first or door not in self.added)
        return Group(doors, self.verb, tuple(first), self.removed)

    def verb_at(self, door: CredentialDoor) -> Verb:
        """Returns what the call means for one of its doors."""
        if door in self.added:
            return Verb.ISSUE
        return Verb.REVOKE if door in self.removed else self.verb


def spans(key: KeyCredential) -> bool:
    """Says whether one key at the vendor stands for all doors of this credential."""
    return CredentialKind(key.kind) in adapters.manifest(key.vendor).spanning_kinds


def has_windows_by_door(key: KeyCredential) -> bool:
    """Says whether each door of the key can be given a window of its own."""
    return adapters.manifest(key.vendor).windows_by_door and not spans(key)


def one_change(key: KeyCredential, doors: Sequence[CredentialDoor], ready: Wanting, *, at_encoder: bool) -> Group | None:
    """Returns the one change that brings a spanning key's doors to what they shall be; None where there is none to make so.

    `ready` are the doors that may be called now, with what they need. None also while a resume, a rest or an answer that is
    still out comes first, and when nothing of the key is known to be anywhere. A door that did not take part when the key was
    resumed holds up no change of the others.
    """
    if key.state == State.ACTIVE:
        ready = [(door, verb) for door, verb in ready if verb is not Verb.UNSUSPEND]
    if not spans(key) or key.state not in LIVE or any(door.resume_token_sealed for door in doors):
        return None
    if key.state == State.SUSPENDED and not key.resuming:
        return _left_while_suspended(key, doors, ready)
    kept = tuple(door for door in doors if wanted(key, door) == "present" and door.state == DoorState.PRESENT)
    if any(door.verb not in ("", Verb.UPDATE) for door in kept) or any(verb not in _MOVES for _, verb in ready):
        return None
    added = tuple(door for door, verb in ready if verb is Verb.ISSUE)
    removed = tuple(door for door, verb in ready if verb is Verb.REVOKE)
    stands = [*kept, *(door for door in removed if door.state == DoorState.PRESENT)]
    moves_rooms = bool(added) or (bool(removed) and bool(kept))
    if not stands or not (moves_rooms or (at_encoder and kept)):
        return None
    return _in_one_lane(Group((*kept, *added, *removed), Verb.UPDATE, added, removed, at_encoder))


def _left_while_suspended(key: KeyCredential, doors: Sequence[CredentialDoor], ready: Wanting) -> Group | None:
    """Returns the change by which a suspended key leaves some of its rooms and stays suspended in the others. Rooms that it
    gains are given when it is resumed. A system that has refused the change is left to take the key back as it can."""
    kept = tuple(
        door
        for door in doors
        if wanted(key, door) == "suspended" and door.state == DoorState.SUSPENDED and door.vendor_ref_sealed and not door.final
    )
    if not kept or not ready or any(verb is not Verb.REVOKE for _, verb in ready):
        return None
    removed = tuple(door for door, _ in ready)
    return _in_one_lane(Group((*kept, *removed), Verb.UPDATE, removed=removed))


def _in_one_lane(group: Group) -> Group | None:
    return group if len({door.lane for door in group.doors}) == 1 else None


_MOVES = frozenset({Verb.ISSUE, Verb.UPDATE, Verb.REVOKE})
