"""What the holder or the desk should know of a key, by code, and how far its doors have followed. No database.

One rule: a code stands once on a key and is taken off when what it says is over; details are prose without secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from credentials.lifecycle import State
from vendors.port.types import CARD_STALE, CredentialKind, Propagation

KIND_CHANGED: Final = "KIND_CHANGED"
LOCK_SYSTEM_CHANGED: Final = "LOCK_SYSTEM_CHANGED"
PIN_CHANGED: Final = "PIN_CHANGED"
PIN_CHOSEN: Final = "PIN_CHOSEN"
CARD_KILLED: Final = "CARD_KILLED"
CLOCK_SKEW: Final = "CLOCK_SKEW"
ZONE_DIFFERS: Final = "TZ_OFFSET_MISMATCH"
CARD_OVERWRITTEN: Final = "CARD_OVERWRITTEN"
CARD_IN_USE: Final = "CARD_IN_USE"
SUSPENDED_AT_ONCE: Final = "SUSPENDED_AT_ONCE"
OLD_ROOM_KEPT: Final = "OLD_ROOM_KEPT"
STAYS_OVERLAP: Final = "STAYS_OVERLAP"
PHONE_UNUSABLE: Final = "PHONE_UNUSABLE"

ON_CARDS: Final = frozenset({CredentialKind.RFID_CARD.value, CredentialKind.NFC_TAG.value})
OF_CLOCKS: Final = frozenset({CLOCK_SKEW, ZONE_DIFFERS})
"""What a key carries that opens by a clock which is off, or may be."""
_GONE: Final = ("none", "absent")


class NotedKey(Protocol):
    """The part of a credential this module reads and writes."""

    kind: str
    state: str
    valid_until: datetime
    warnings: list[dict[str, Any]]


class SpreadDoor(Protocol):
    """The part of a credential's door this module reads."""

    dropped: bool
    state: str
    verb: str
    propagation: str
    effective_not_after: datetime | None


def warn(key: NotedKey, code: str, detail: str, subject: str = "") -> None:
    """Adds a warning to the key, once per code. `subject` is the id of what it is about, for answers to name."""
    if not is_noted(key, code):
        key.warnings = [*key.warnings, {"code": code, "detail": detail, **({"subject": subject} if subject else {})}]


def clear(key: NotedKey, code: str) -> None:
    """Takes a warning off the key."""
    if is_noted(key, code):
        key.warnings = [warning for warning in key.warnings if warning["code"] != code]


def is_noted(key: NotedKey, code: str) -> bool:
    """Says whether the key carries the warning."""
    return any(warning.get("code") == code for warning in key.warnings)


def subject_of(key: NotedKey, code: str) -> str:
    """Returns the id of what the key's warning is about; empty where there is no such warning, or no such id."""
    return next((str(warning.get("subject", "")) for warning in key.warnings if warning.get("code") == code), "")


def detail_of(key: NotedKey, code: str) -> str:
    """Returns what the key's warning says in prose; empty where there is no such warning."""
    return next((str(warning.get("detail", "")) for warning in key.warnings if warning.get("code") == code), "")


def told(key: NotedKey) -> list[dict[str, str]]:
    """Returns the key's warnings as they are told outside: code and detail."""
    return [{"code": item.get("code", ""), "detail": item.get("detail", "")} for item in key.warnings]


def card_is_stale(key: NotedKey) -> bool:
    """Says whether the card in the holder's pocket is older than our books, so that the desk must write it again."""
    return key.kind in ON_CARDS and key.state in (State.ACTIVE, State.SUSPENDED) and is_noted(key, CARD_STALE)


def is_spreading(key: NotedKey, door: SpreadDoor, now: datetime) -> bool:
    """Says whether the door may still act on what it has not heard of: until its bound, at the latest until the key's end."""
    if door.propagation != Propagation.PROPAGATING:
        return False
    return (door.effective_not_after or key.valid_until) > now


def concerns(key: NotedKey, door: SpreadDoor, now: datetime) -> bool:
    """Says whether the door still says something about the key: one that was left counts while it may open for it."""
    return not (door.dropped and door.state in _GONE and not door.verb) or is_spreading(key, door, now)


def propagation_now(
    key: NotedKey, doors: Sequence[SpreadDoor], now: datetime, *, open_work: bool
) -> tuple[str, datetime | None]:
    """Returns how far the key's doors have followed at an instant, and when the last of them does at the latest."""
    relevant = [door for door in doors if concerns(key, door, now)]
    spreading = [door for door in relevant if is_spreading(key, door, now)]
    bound = max((door.effective_not_after for door in spreading if door.effective_not_after), default=None)
    if any(door.verb for door in relevant) or not relevant:
        word = Propagation.UNKNOWN
    elif open_work or spreading:
        word = Propagation.PROPAGATING
    elif any(door.propagation == Propagation.UNKNOWN for door in relevant):
        word = Propagation.UNKNOWN
    else:
        word = Propagation.CONFIRMED
    if key.state == State.FAILED and not relevant:
        word = Propagation.CONFIRMED
    return word.value, bound
