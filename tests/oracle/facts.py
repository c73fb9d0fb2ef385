"""What the model takes for known: a hotel with its doors and hours, its stays, their keys, and what guests hold.

One rule: it knows nothing of the product, and judges nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
KNOWN = STANDS, CANCELLED, LEFT, NO_SHOW = "confirmed", "cancelled", "checked_out", "no_show"
Days = tuple[date, date]


@dataclass(frozen=True)
class Rules:
    """A house: room labels and areas to their lock systems, and its policy. `on_card` are systems whose cards carry the key, so
    that a change is known to the card's holder alone until the desk writes it again; at `overriding` ones a replacement ends
    every earlier key of its stay."""

    rooms: Mapping[str, str]
    areas: Mapping[str, str]
    zone: str = "Asia/Kabul"
    early: timedelta = timedelta(0)
    late: timedelta = timedelta(hours=2)
    no_show_after: timedelta = timedelta(hours=6)
    on_card: frozenset[str] = frozenset()
    overriding: frozenset[str] = frozenset()

    def doors(self, rooms: list[str], system: str) -> frozenset[str]:
        """Return the doors of one lock system that a stay in these rooms opens: its rooms there and the shared doors."""
        mine = {room for room in rooms if self.rooms.get(room) == system}
        return frozenset(mine | {area for area, its in self.areas.items() if its == system}) if rooms else frozenset()

    def has_next(self, stay: Stay, others: Iterable[Stay], system: str, now: datetime) -> bool:
        """Whether the next guest may have ended the keys of a stay that is over: she is there now, or was while they lived."""
        live = stay.live(system)
        was_there = stay.end <= now and bool(live) and all(key.is_turned for key in live)
        return was_there or any(self._turns_over(stay, other, system, now) for other in others)

    def turn_over(self, stays: Collection[Stay], now: datetime) -> None:
        """Note which live keys the next guest may have ended by now."""
        for key in (key for stay in stays for key in stay.keys.values() if not key.ended):
            key.is_turned = key.is_turned or self.has_next(key.stay, stays, key.system, now)

    def _turns_over(self, stay: Stay, other: Stay, system: str, now: datetime) -> bool:
        """Whether another guest may be in a room of a stay that is over: where cards carry keys, hers ends the last one's."""
        rooms = any(self.rooms.get(room) == system for room in other.rooms if room in stay.rooms)
        has_begun = other.is_open and other.start - self.early <= now
        return rooms and has_begun and system in self.on_card and stay.end <= min(now, other.start)

    def is_beside(self, stay: Stay, others: Iterable[Stay], system: str) -> bool:
        """Whether another booking stands in a room of a stay. Where cards carry keys, each may end the other's: made ahead for a
        stay that was to come later, and comes before this one is over. Then another is given in its place."""
        here = {room for room in stay.rooms if self.rooms.get(room) == system in self.on_card}
        return any(other is not stay and other.is_open and here & set(other.rooms) for other in others)

    def window(self, days: Days, hours: tuple[time, time]) -> tuple[datetime, datetime]:
        """Return the window of a stay given as days. It lasts to the end of the day where one day's hours would leave none."""
        (first, last), (comes, leaves) = days, hours
        start, end = self._reached(datetime.combine(first, comes), 0), self._reached(datetime.combine(last, leaves), -1)
        if end <= start:
            end = self._reached(datetime.combine(last + timedelta(days=1), time()), -1)
        return start, end

    def _reached(self, wall: datetime, which: int) -> datetime:
        """Return when the clocks come to a time: the first or the last instant; where it is left out, when they jump over it."""
        zone = ZoneInfo(self.zone)
        found = sorted(wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        while found[0].astimezone(zone).replace(tzinfo=None) < wall:
            found = [found[0] + MINUTE] * 2
        return found[which]


@dataclass
class Held:
    """What a guest was handed: digits, a card, a phone's key. `carried` is what a card was written with."""

    key: Key
    kind: str
    value: str = field(repr=False)
    is_over: bool = False
    carried: tuple[frozenset[str], datetime, datetime] | None = None


@dataclass
class Key:
    """One key of a stay. `exact` is a window that a person gave it, which has no grace. `is_further`: a person made it beside the
    stay's first, or it is in the place of such a one. One that ended while it was `suspended` is so until another follows it.
    `is_turned`: the next guest came after its stay was over. It may be dead from then on, whatever becomes of her stay."""

    id: str
    system: str
    stay: Stay
    made_by_person: bool = False
    exact: tuple[datetime, datetime] | None = None
    ended: str = ""
    suspended: str = ""
    is_further: bool = False
    is_turned: bool = False


@dataclass
class Stay:
    """One reservation, as its newest version says. `barred` are lock systems at which a person ended the stay's last key,
    `troubled` those that failed while something was asked of them. `firsts` are the first keys it had when the booking last
    changed, `passed_on` the keys that others have followed since."""

    id: str
    version: int = -1
    status: str = ""
    rooms: list[str] = field(default_factory=list)
    start: datetime = LONG_AGO
    end: datetime = LONG_AGO
    days: Days | None = None
    came: bool = False
    no_show_due: datetime | None = None
    barred: set[str] = field(default_factory=set)
    keys: dict[str, Key] = field(default_factory=dict)
    firsts: list[Key] = field(default_factory=list)
    passed_on: set[str] = field(default_factory=set)
    troubled: set[str] = field(default_factory=set)

    @property
    def is_open(self) -> bool:
        """Whether the booking stands."""
        return self.status in (STANDS, NO_SHOW)

    def live(self, system: str) -> list[Key]:
        """Return the stay's live keys at a lock system."""
        return [key for key in self.keys.values() if not key.ended and key.system == system]

    def followed(self, system: str, before: Key | None) -> list[Key]:
        """Return the keys that a first key at a lock system follows, or one in the place of a key that never was there."""
        over = [key for key in self.keys.values() if key.ended and not key.is_further]
        mine = [before] if before is not None else []
        return [*mine, *self.firsts, *(key for key in over if not self.firsts or key.system == system)]

    def pass_on(self) -> None:
        """Forget why keys that are over were suspended, where others have followed them."""
        for key in self.keys.values():
            key.suspended = "" if key.ended and key.id in self.passed_on else key.suspended
        self.passed_on.clear()
