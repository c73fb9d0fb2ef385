"""What differs between our books and one door. No database, no vendor.

| kind | our books | the door |
|---|---|---|
| orphan | no key, or one that never came to be | a key with our mark |
| stranger | nothing | a key without our mark |
| missing | the door carries the key | no key |
| window_differs | one window | another, or the key rests |
| present_but_revoked | the key was taken back here | the key is still there |
| not_resting | the key rests | the key opens |
| stale_card | a changed key | a card that carries the earlier one |
| duplicate | one key | several of the same credential |

One rule: what is on its way is no difference. A door with an open call, and a key with an open saga, is left to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from vendors.port.types import Window


class Kind(StrEnum):
    """How books and door differ."""

    ORPHAN = "orphan"
    STRANGER = "stranger"
    MISSING = "missing"
    WINDOW_DIFFERS = "window_differs"
    PRESENT_BUT_REVOKED = "present_but_revoked"
    NOT_RESTING = "not_resting"
    STALE_CARD = "stale_card"
    DUPLICATE = "duplicate"


class Danger(StrEnum):
    """What is at stake."""

    NONE = ""
    OPENS = "opens"  # a key opens that must not
    LOCKED_OUT = "locked_out"  # a guest cannot get in


UNKNOWN_OWNER = frozenset({Kind.STRANGER, Kind.ORPHAN, Kind.DUPLICATE})
"""Kinds about a key that our books do not know at that door."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A key at the door. `window` None: it has no end. `is_stale` None: the vendor cannot tell."""

    fingerprint: str
    kind: str
    tag: str = ""
    is_ours: bool = False
    window: Window | None = None
    is_resting: bool = False
    is_stale: bool | None = None

    def opens_after(self, instant: datetime) -> bool:
        """Says whether it opens now or later."""
        return not self.is_resting and (self.window is None or self.window.valid_until > instant)


@dataclass(frozen=True, slots=True)
class Expected:
    """A credential at the door, as our books have it. `wants` and `has` are `present`, `suspended` or `absent` (`has` also
    `none`). `fits` are the windows that count as right there, the first being the one wanted; `grain` is how exactly the vendor
    keeps instants. `mark` changes whenever the books about this door change. `is_succeeded`: its stay is over, and the
    next one's key is at the door: only the policy's grace would still let it in."""

    door_pk: int
    credential_id: str
    tag: str
    kind: str
    wants: str
    has: str
    fits: tuple[Window, ...]
    mark: str
    fingerprint: str = ""
    is_in_flight: bool = False
    is_failed: bool = False
    card_is_late: bool = False
    grain: timedelta = timedelta(minutes=1)
    is_succeeded: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A credential of ours that has no row at this door."""

    credential_id: str
    is_dead: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. `seen` is None for what is missing; `expected` None for what the books do not have here."""

    kind: Kind
    detail: str
    danger: Danger
    credential_id: str = ""
    seen: Seen | None = None
    expected: Expected | None = None

    @property
    def subject(self) -> str:
        """What makes it one difference over runs."""
        return self.seen.fingerprint if self.seen is not None else self.credential_id

    @property
    def mark(self) -> str:
        """The state of the books it was found under."""
        return self.expected.mark if self.expected is not None else ""


def compare(
    expected: Sequence[Expected], seen: Sequence[Seen], known: Mapping[str, Known], now: datetime
) -> tuple[list[Difference], int]:
    """Returns the differences at one door, and how many keys were left alone because they are on their way.

    `known` maps the tags of credentials that have no row at this door.
    """
    found: list[Difference] = []
    held, strays = _matched(expected, seen)
    for item in expected:
        if not item.is_in_flight:
            found += _at_door(item, held.get(item.door_pk, []), now)
    in_flight_count = sum(item.is_in_flight for item in expected)
    found += [_stray(key, known.get(key.tag), now) for key in strays]
    return found, in_flight_count


def _matched(expected: Sequence[Expected], seen: Sequence[Seen]) -> tuple[dict[int, list[Seen]], list[Seen]]:
    """Gives each key to the credential it belongs to: by reference, else by the credential's tag."""
    by_reference = {item.fingerprint: item for item in expected if item.fingerprint}
    by_tag = {item.tag: item for item in expected}
    held: dict[int, list[Seen]] = {}
    strays: list[Seen] = []
    for key in seen:
        owner = by_reference.get(key.fingerprint) or (by_tag.get(key.tag) if key.tag else None)
        if owner is None:
            strays.append(key)
        else:
            held.setdefault(owner.door_pk, []).append(key)
    return held, strays


def _stray(key: Seen, known: Known | None, now: datetime) -> Difference:
    if not key.is_ours:
        return Difference(Kind.STRANGER, "not made by this service", Danger.NONE, seen=key)
    danger = _opens(key, now)
    if known is None:
        return Difference(Kind.ORPHAN, "carries our mark, and no credential of this tenant does", danger, seen=key)
    detail = "a key that is over was never known to be here" if known.is_dead else "a live key was never meant to be here"
    return Difference(Kind.ORPHAN, detail, danger, known.credential_id, key)


def _at_door(item: Expected, held: Sequence[Seen], now: datetime) -> list[Difference]:
    if item.wants == "absent":
        return [_still_there(item, key, now) for key in held]
    if item.wants == "suspended":
        return [
            Difference(Kind.NOT_RESTING, "shall rest, and opens", Danger.OPENS, item.credential_id, key, item)
            for key in held
            if key.opens_after(now)
        ]
    if item.has != "present":
        return [
            Difference(Kind.ORPHAN, "our books say that this door has no key yet", Danger.NONE, item.credential_id, key, item)
            for key in held
        ]
    return _present(item, held, now)


def _still_there(item: Expected, key: Seen, now: datetime) -> Difference:
    kind = Kind.ORPHAN if item.is_failed else Kind.PRESENT_BUT_REVOKED
    detail = "left by an issue that failed" if item.is_failed else "was taken back here, and is still there"
    return Difference(kind, detail, _opens(key, now), item.credential_id, key, item)


def _present(item: Expected, held: Sequence[Seen], now: datetime) -> list[Difference]:
    wanted = item.fits[0]
    if not held:
        if wanted.valid_until <= now or item.is_succeeded:
            return []
        return [Difference(Kind.MISSING, "the guest cannot get in here", Danger.LOCKED_OUT, item.credential_id, None, item)]
    own = next((key for key in held if key.fingerprint == item.fingerprint), held[0])
    found = [
        Difference(
            Kind.DUPLICATE, "a second key of the same credential",
            Danger.OPENS if _outlives(key, wanted, item.grain) else Danger.NONE, item.credential_id, key, item,
        )
        for key in held
        if key is not own
    ]  # fmt: skip
    if not any(_fits(own, window, item.grain, now) for window in item.fits):
        found.append(_window(item, own, now))
    elif own.is_stale or (own.is_stale is None and item.card_is_late):
        detail = "the card carries the earlier key until it is written again"
        found.append(Difference(Kind.STALE_CARD, detail, Danger.NONE, item.credential_id, own, item))
    return found


def _window(item: Expected, own: Seen, now: datetime) -> Difference:
    wanted = item.fits[0]
    locked_out = Danger.LOCKED_OUT if wanted.contains(now) else Danger.NONE
    if own.is_resting:
        detail, danger = "rests at the vendor, and shall open", locked_out
    elif own.window is None:
        detail, danger = "has no end at the vendor", Danger.OPENS
    elif own.window.valid_until > wanted.valid_until + item.grain or own.window.valid_from < wanted.valid_from - item.grain:
        detail, danger = "opens outside of its window", Danger.OPENS
    else:
        detail = "opens for less than its window"
        danger = Danger.NONE if own.window.contains(now) else locked_out
    return Difference(Kind.WINDOW_DIFFERS, detail, danger, item.credential_id, own, item)


def _fits(key: Seen, wanted: Window, grain: timedelta, now: datetime) -> bool:
    """Says whether the door's window is the wanted one; of starts and ends that are over it does not matter when they were."""
    if wanted.valid_until <= now:
        return not key.opens_after(now)
    if key.is_resting or key.window is None:
        return False
    starts_right = (
        abs(key.window.valid_from - wanted.valid_from) <= grain or max(key.window.valid_from, wanted.valid_from) <= now
    )
    return starts_right and abs(key.window.valid_until - wanted.valid_until) <= grain


def _outlives(key: Seen, wanted: Window, grain: timedelta) -> bool:
    return not key.is_resting and (key.window is None or key.window.valid_until > wanted.valid_until + grain)


def _opens(key: Seen, now: datetime) -> Danger:
    return Danger.OPENS if key.opens_after(now) else Danger.NONE
