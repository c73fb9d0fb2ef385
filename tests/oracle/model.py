"""Who must get in and who must not, at any moment: the rules of docs/who-gets-in.md in code.

One rule: it knows what was booked, asked for and handed out, and the clock. It knows nothing of the product, whose answers it
judges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from enum import StrEnum
from itertools import permutations

from tests.oracle.facts import CANCELLED, KNOWN, LEFT, NO_SHOW, STANDS, Days, Held, Key, Rules, Stay

GRAIN = timedelta(minutes=1)
OLD_CARD = "the card is older than the books"
WRITTEN_OVER = "its card was written over"
TIME = "its time"


class Answer(StrEnum):
    """What a door has to do. MAY: either, but what the product says of it must not be false."""

    MUST = "must open"
    MUST_NOT = "must not open"
    MAY = "may open"


@dataclass(frozen=True)
class Judgement:
    """What a door has to do with something that was handed out, and the reason in words. `booked`: were no card older than it."""

    held: Held
    door: str
    answer: Answer
    why: str
    booked: Answer = Answer.MUST_NOT


class Model:
    """The state of the world as a hotelier sees it."""

    def __init__(self, rules: Rules, now: datetime) -> None:
        self.rules = rules
        self.now = now
        self.stays: dict[str, Stay] = {}
        self.held: list[Held] = []
        self.broken: set[str] = set()  # lock systems that fail now: what is asked of them may be late, and is told
        self.to_tell: list[tuple[str, str]] = []  # of which stay, and what
        self.hours = time(14), time(11)

    # -- what happens

    def tick(self, now: datetime) -> None:
        """Move the clock: windows end, and guests who have not come are suspended."""
        self.now = now
        for stay in self.stays.values():
            if any(not key.ended and self.window(key)[1] <= now for key in stay.keys.values()):
                stay.troubled |= self.broken
            self._end_by_time(stay)
            if stay.no_show_due is not None and stay.no_show_due <= now and not stay.came:
                for key in stay.keys.values():
                    key.suspended = key.suspended or ("" if key.ended or key.made_by_person else NO_SHOW)

    def told(
        self,
        stay_id: str,
        version: int,
        status: str,
        rooms: list[str],
        start: datetime,
        end: datetime,
        days: Days | None = None,
    ) -> bool:
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
            stay.came, stay.barred = False, set()
            stay.passed_on |= set(stay.keys)
        stay.rooms, stay.start, stay.end, stay.days = list(rooms), start, end, days
        stay.troubled |= self.broken
        stay.pass_on()
        live = [key for key in stay.keys.values() if not key.ended]
        stay.firsts = [key for key in live if not key.is_further] or live
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

    def hours_changed(self, hours: tuple[time, time]) -> None:
        """Hear other hours of the house: windows of stays given as days move, and keys follow. A window a person gave goes on."""
        self.hours = hours
        for stay in self.stays.values():
            if stay.days is None or not stay.is_open:
                continue
            window = self.rules.window(stay.days, hours)
            if window != (stay.start, stay.end):
                stay.start, stay.end = window
                stay.troubled |= self.broken
                for key in stay.keys.values():
                    key.exact = None
                self._end_by_time(stay)

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

    def key_seen(self, stay_id: str, key_id: str, system: str, replaces: str = "", *, by_person: bool = False) -> None:
        """Note a key of a stay. One that the product makes after a person ended the last is a key that must not be.

        It rests where what it follows does: the key in whose place it is, once that was handed out; else the first keys that
        the stay had until now and those it had here; where it had none, all that it ever had.
        """
        stay = self.stays[stay_id]
        if key_id in stay.keys:
            return
        key = stay.keys[key_id] = Key(key_id, system, stay, by_person)
        if by_person:
            stay.barred.discard(system)
        key.ended = "a person ended the stay's keys" if system in stay.barred else ""
        before = stay.keys.get(replaces)
        if before is not None and (before.is_turned or self.rules.is_beside(stay, self.stays.values(), system)):
            before.ended = before.ended or TIME  # the next guest's ended it or would have, and another was given
        key.is_further = by_person or (before is not None and before.is_further)
        followed = [] if by_person else [before] if before and self._was_there(before) else stay.followed(system, before)
        key.suspended = next((one.suspended for one in followed if one.suspended), "")
        stay.passed_on |= {one.id for one in followed if one.ended}

    def _was_there(self, key: Key) -> bool:
        return any(held.key is key for held in self.held)

    def handed(self, stay_id: str, key_id: str, kind: str, value: str, *, over: bool = False) -> None:
        """Note what the guest was handed of a key; what she was handed of it before is over, if it is another. A card that lay
        there is written over where it is the stay's own, carries no live key, or a person says so: `over`."""
        key = self.stays[stay_id].keys[key_id]
        mine = [one for one in self.held if one.key is key]
        if not mine and kind == "rfid_card" and key.suspended == NO_SHOW:
            key.suspended = ""  # she is at the desk
        if not any(one.value == value for one in mine):
            mine.append(Held(key, kind, value))
            self.held.append(mine[-1])
        for held in mine:
            held.is_over = held.value != value
        held = next(one for one in mine if one.value == value)
        if kind == "rfid_card" and key.system in self.rules.on_card:
            held.carried = (self.rules.doors(key.stay.rooms, key.system), *self.window(key))
            for other in self.held:
                if other.value == value and other.key is not key:
                    self._written_over(other, over=over or other.key.stay is key.stay)

    def _written_over(self, held: Held, *, over: bool) -> None:
        if over and not held.is_over:
            held.key.ended = held.key.ended or WRITTEN_OVER
        if held.is_over or held.key.ended:
            held.carried = None

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

    def revoked(self, stay_id: str, key_id: str, why: str, *, gives_another: bool = False) -> None:
        """A person ends a key; with the last one at a lock system, the stay is barred there."""
        stay = self.stays[stay_id]
        key = stay.keys[key_id]
        if key.ended:
            return
        key.ended = why
        if not gives_another and not stay.live(key.system):
            stay.barred.add(key.system)

    def killed(self, stay_id: str, key_id: str) -> None:
        """A key gave way to another because of a replacement, which ends every earlier key of a stay where keys override."""
        key = self.stays[stay_id].keys[key_id]
        beside = [one.ended for one in key.stay.keys.values() if one.system == key.system and one is not key]
        if key.system in self.rules.overriding and {"replaced", "lost"} & set(beside):
            key.ended = key.ended or "replaced with another"

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
        self.rules.turn_over(self.stays.values(), self.now)
        for held in self.held:
            for door, system in systems.items():
                is_elsewhere = system != held.key.system
                booked, why = (Answer.MUST_NOT, "another lock system") if is_elsewhere else self._ideal(held, door)
                yield Judgement(held, door, *self._carried(held, door, booked, why), booked)

    def entitled(self) -> Iterator[tuple[Stay, str]]:
        """Return whose guest must get in now, and at which room with a lock; what keys she has is another matter."""
        for stay in self.stays.values():
            if not stay.is_open or self._time(stay.start - self.rules.early, stay.end + self.rules.late) is not Answer.MUST:
                continue
            for room in stay.rooms:
                system = self.rules.rooms.get(room)
                if system is None or system in stay.barred or self.rules.has_next(stay, self.stays.values(), system, self.now):
                    continue
                cut_short = any(k.exact and k.ended == TIME for k in stay.keys.values() if k.system == system)
                if not cut_short and not any(key.suspended for key in stay.live(system)):  # a person gave her less time
                    yield stay, room

    def window(self, key: Key) -> tuple[datetime, datetime]:
        """Return when a key is to open: the stay's times with their grace, or what a person gave it."""
        return key.exact or (key.stay.start - self.rules.early, key.stay.end + self.rules.late)

    def sharing(self) -> Iterator[tuple[Key, Key, str]]:
        """Return live keys, another stay's live key beside each, and a room of both at one time, which both must be told."""
        for key, other in permutations([k for stay in self.stays.values() for k in stay.keys.values() if not k.ended], 2):
            one, two = key.stay, other.stay
            rooms = {
                room for room in one.rooms if room in two.rooms and self.rules.rooms.get(room) == key.system == other.system
            }
            if one is not two and rooms and one.start < two.end and two.start < one.end:
                yield key, other, min(rooms)

    def _carried(self, held: Held, door: str, booked: Answer, why: str) -> tuple[Answer, str]:
        if held.carried is None:
            return booked, why
        doors, start, end = held.carried
        written = Answer.MUST_NOT if door not in doors else self._time(start, end)
        is_old = {written, booked} == {Answer.MUST, Answer.MUST_NOT}
        return (booked if written is booked else Answer.MAY), (OLD_CARD if is_old else why)

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
        answer = self._time(*self.window(key))
        has_less = key.made_by_person and (stay.status == NO_SHOW or self._time(stay.start, stay.end) is not Answer.MUST)
        if answer is Answer.MUST and (has_less or key.is_turned):
            answer = Answer.MAY
        return answer, "by her window"

    def _time(self, start: datetime, end: datetime) -> Answer:
        if start + GRAIN <= self.now < end - GRAIN:
            return Answer.MUST
        return Answer.MAY if start - GRAIN <= self.now < end + GRAIN else Answer.MUST_NOT

    def _end_by_time(self, stay: Stay) -> None:
        for key in stay.keys.values():
            if not key.ended and self.window(key)[1] <= self.now:
                key.ended = TIME
