"""Who must get in and who must not, at any moment: the rules of docs/who-gets-in.md in code.

One rule: it knows what was booked, asked for and handed out, and the clock. It knows nothing of the product, whose answers it
judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

GRAIN = timedelta(minutes=1)
OLD_CARD = "the card is older than the books"
TIME = "its time"
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
KNOWN = STANDS, CANCELLED, LEFT, NO_SHOW = "confirmed", "cancelled", "checked_out", "no_show"


class Answer(StrEnum):
    """What a door has to do. MAY: either, but what the product says of it must not be false."""

    MUST = "must open"
    MUST_NOT = "must not open"
    MAY = "may open"


@dataclass(frozen=True)
class Rules:
    """A house: room labels and areas to their lock systems, and its policy. `on_card` are systems whose cards carry the key, so
    that a change is known to the card's holder alone until the desk writes it again."""

    rooms: Mapping[str, str]
    areas: Mapping[str, str]
    early: timedelta = timedelta(0)
    late: timedelta = timedelta(hours=2)
    no_show_after: timedelta = timedelta(hours=6)
    on_card: frozenset[str] = frozenset()

    def doors(self, rooms: list[str], system: str) -> frozenset[str]:
        """Return the doors of one lock system that a stay in these rooms opens: its rooms there and the shared doors."""
        mine = {room for room in rooms if self.rooms.get(room) == system}
        return frozenset(mine | {area for area, its in self.areas.items() if its == system}) if rooms else frozenset()


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
    """One key of a stay. `exact` is a window that a person gave it, which has no grace."""

    id: str
    system: str
    stay: Stay
    made_by_person: bool = False
    exact: tuple[datetime, datetime] | None = None
    ended: str = ""
    suspended: str = ""


@dataclass
class Stay:
    """One reservation, as its newest version says. `barred` are lock systems at which a person ended the stay's last key,
    `resting` those at which it was over while a person had suspended it, `troubled` those that failed while something was
    asked of them."""

    id: str
    version: int = -1
    status: str = ""
    rooms: list[str] = field(default_factory=list)
    start: datetime = LONG_AGO
    end: datetime = LONG_AGO
    came: bool = False
    no_show_due: datetime | None = None
    barred: set[str] = field(default_factory=set)
    keys: dict[str, Key] = field(default_factory=dict)
    resting: set[str] = field(default_factory=set)
    troubled: set[str] = field(default_factory=set)

    @property
    def is_open(self) -> bool:
        """Whether the booking stands."""
        return self.status in (STANDS, NO_SHOW)

    def live(self, system: str) -> list[Key]:
        """Return the stay's live keys at a lock system."""
        return [key for key in self.keys.values() if not key.ended and key.system == system]


@dataclass(frozen=True)
class Judgement:
    """What a door has to do with something that was handed out, and the reason in words."""

    held: Held
    door: str
    answer: Answer
    why: str


class Model:
    """The state of the world as a hotelier sees it."""

    def __init__(self, rules: Rules, now: datetime) -> None:
        self.rules = rules
        self.now = now
        self.stays: dict[str, Stay] = {}
        self.held: list[Held] = []
        self.broken: set[str] = set()  # lock systems that fail now: what is asked of them may be late, and is told
        self.to_tell: list[tuple[str, str]] = []  # of which stay, and what

    # -- what happens

    def tick(self, now: datetime) -> None:
        """Move the clock: windows end, and guests who have not come are suspended."""
        self.now = now
        for stay in self.stays.values():
            if any(not key.ended and self._window(key)[1] <= now for key in stay.keys.values()):
                stay.troubled |= self.broken
            self._end_by_time(stay)
            if stay.no_show_due is not None and stay.no_show_due <= now and not stay.came:
                for key in stay.keys.values():
                    key.suspended = key.suspended or NO_SHOW

    def told(self, stay_id: str, version: int, status: str, rooms: list[str], start: datetime, end: datetime) -> bool:
        """Hear an event of a booking. The highest version wins; an unknown word changes nothing. Says whether it was news."""
        stay = self.stays.setdefault(stay_id, Stay(stay_id))
        same = (stay.status, stay.rooms, stay.start, stay.end) == (status, rooms, start, end)
        if version == stay.version and not same:
            self.to_tell.append((stay_id, "the same version with other content"))
        if version > stay.version and status not in KNOWN:
            self.to_tell.append((stay_id, "a status that is not known"))
        if version <= stay.version or status not in KNOWN:
            return False
        before, stay.version = stay.status, version
        stay.status = before if before in (CANCELLED, LEFT) and status == NO_SHOW else status
        if before in (CANCELLED, LEFT) and status == STANDS:
            stay.came, stay.barred, stay.resting = False, set(), set()
        stay.rooms, stay.start, stay.end = list(rooms), start, end
        stay.troubled |= self.broken
        for key in stay.keys.values():
            if not stay.is_open:
                key.ended = key.ended or stay.status
            if not key.ended and not self.rules.doors(stay.rooms, key.system):
                key.ended = "moved"
            key.exact = None
        self._no_show(stay, before)
        self._end_by_time(stay)
        if stay.is_open and set(rooms) - set(self.rules.rooms):
            self.to_tell.append((stay_id, "a room without a lock"))
        return True

    def _no_show(self, stay: Stay, before: str) -> None:
        if stay.status == NO_SHOW:
            stay.no_show_due = self.now + self.rules.no_show_after if before != NO_SHOW else stay.no_show_due
            return
        stay.no_show_due = None
        for key in stay.keys.values():
            key.suspended = "" if key.suspended == NO_SHOW else key.suspended

    def came(self, stay_id: str) -> None:
        """Note that the guest was seen: a door opened for her, a card was written, she checked in, or a person says so."""
        stay = self.stays[stay_id]
        stay.came = stay.is_open
        if stay.status == NO_SHOW:
            self.to_tell.append((stay_id, "a guest who has come, and a booking that says she has not"))

    def key_seen(self, stay_id: str, key_id: str, system: str, *, by_person: bool = False) -> None:
        """Note a key of a stay. One that the product makes after a person ended the last is a key that must not be."""
        stay = self.stays[stay_id]
        if key_id in stay.keys:
            return
        key = stay.keys[key_id] = Key(key_id, system, stay, by_person)
        if by_person:
            stay.barred.discard(system)
        key.ended = "a person ended the stay's keys" if system in stay.barred else ""
        key.suspended = "person" if system in stay.resting else ""

    def handed(self, stay_id: str, key_id: str, kind: str, value: str) -> None:
        """Note what the guest was handed of a key; what she was handed of it before is over, if it is another."""
        key = self.stays[stay_id].keys[key_id]
        mine = [one for one in self.held if one.key is key]
        if not any(one.value == value for one in mine):
            mine.append(Held(key, kind, value))
            self.held.append(mine[-1])
        for held in mine:
            held.is_over = held.value != value
        held = next(one for one in mine if one.value == value)
        if kind == "rfid_card" and key.system in self.rules.on_card:
            held.carried = (self.rules.doors(key.stay.rooms, key.system), *self._window(key))

    # -- what people do, once it was accepted

    def suspended(self, stay_id: str, key_id: str) -> None:
        """A person suspends a key."""
        self.stays[stay_id].keys[key_id].suspended = "person"

    def resumed(self, stay_id: str, key_id: str) -> None:
        """A person resumes a key; of a guest who had not come, she says thereby that she has."""
        stay = self.stays[stay_id]
        key = stay.keys[key_id]
        stay.came = stay.came or key.suspended == NO_SHOW
        key.suspended = ""
        stay.resting.discard(key.system)

    def revoked(self, stay_id: str, key_id: str, why: str, *, gives_another: bool = False) -> None:
        """A person ends a key; with the last one at a lock system, the stay is barred there."""
        stay = self.stays[stay_id]
        key = stay.keys[key_id]
        if key.ended:
            return
        key.ended = why
        if not gives_another and not stay.live(key.system):
            stay.barred.add(key.system)

    def window_given(self, stay_id: str, key_id: str, start: datetime, end: datetime) -> None:
        """A person gives one key another window, exactly as she says."""
        self.stays[stay_id].keys[key_id].exact = (start, end)

    def touched(self, stay_id: str) -> None:
        """Something was asked for this stay; at systems that fail it may be late."""
        self.stays[stay_id].troubled |= self.broken

    def lost(self, system: str) -> None:
        """A lock forgot, or was set wrong, behind everybody's back: every stay is concerned."""
        for stay in self.stays.values():
            stay.troubled.add(system)

    # -- what has to be

    def judge(self) -> Iterator[Judgement]:
        """Judge every door of every lock system for everything that was ever handed out there."""
        systems = {**self.rules.rooms, **self.rules.areas}
        for held in self.held:
            for door, system in systems.items():
                if system == held.key.system:
                    answer, why = self._answer(held, door)
                    yield Judgement(held, door, answer, why)
                else:
                    yield Judgement(held, door, Answer.MUST_NOT, "another lock system")

    def entitled(self) -> Iterator[tuple[Stay, str]]:
        """Return whose guest must get in now, and at which room with a lock; what keys she has is another matter."""
        for stay in self.stays.values():
            if not stay.is_open or self._time(stay.start - self.rules.early, stay.end + self.rules.late) is not Answer.MUST:
                continue
            for room in stay.rooms:
                system = self.rules.rooms.get(room)
                if system is None or system in stay.barred or system in stay.resting:
                    continue
                cut_short = any(k.exact and k.ended == TIME for k in stay.keys.values() if k.system == system)
                if not cut_short and not any(key.suspended for key in stay.live(system)):  # a person gave her less time
                    yield stay, room

    def _answer(self, held: Held, door: str) -> tuple[Answer, str]:
        now_is, why = self._ideal(held, door)
        if held.carried is None:
            return now_is, why
        doors, start, end = held.carried
        written = Answer.MUST_NOT if door not in doors else self._time(start, end)
        return (now_is, why) if written is now_is else (Answer.MAY, OLD_CARD)

    def _ideal(self, held: Held, door: str) -> tuple[Answer, str]:
        key, stay = held.key, held.key.stay
        if key.ended:
            return Answer.MUST_NOT, f"key ended: {key.ended}"
        if held.is_over:
            return Answer.MUST_NOT, "other digits were given"
        if key.suspended:
            return Answer.MUST_NOT, f"suspended: {key.suspended}"
        if door not in self.rules.doors(stay.rooms, key.system):
            return Answer.MUST_NOT, "not a door of hers"
        answer = self._time(*self._window(key))
        if answer is Answer.MUST and key.made_by_person and self._time(stay.start, stay.end) is not Answer.MUST:
            answer = Answer.MAY
        return answer, "by her window"

    def _window(self, key: Key) -> tuple[datetime, datetime]:
        return key.exact or (key.stay.start - self.rules.early, key.stay.end + self.rules.late)

    def _time(self, start: datetime, end: datetime) -> Answer:
        if start + GRAIN <= self.now < end - GRAIN:
            return Answer.MUST
        return Answer.MAY if start - GRAIN <= self.now < end + GRAIN else Answer.MUST_NOT

    def _end_by_time(self, stay: Stay) -> None:
        for key in stay.keys.values():
            if not key.ended and self._window(key)[1] <= self.now:
                if key.suspended == "person" and not [one for one in stay.live(key.system) if one is not key]:
                    stay.resting.add(key.system)
                key.ended = TIME
