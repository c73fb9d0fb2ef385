"""Turns one row into what happened to the booking, step by step, in the hotel's local time.

One rule: the row decides the days; the hours it does not tell are drawn from its digest, so they are the same every time.

| row | what happens |
|---|---|
| arrival minus lead_time | booked |
| booking_changes | so many changes of dates between booking and arrival; the last one brings the row's own dates |
| assigned_room_type differs | another room, on the day of arrival |
| Canceled, status date | cancelled |
| No-Show | no-show, on the evening of the arrival |
| Check-Out, status date | checked out |
| no nights | day use, 09:00 to 18:00 |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum

from lockservice.replay.bookings import Booking, Status

CHECK_IN, CHECK_OUT = time(14), time(11)
DAY_USE_FROM, DAY_USE_UNTIL = time(9), time(18)
GRACE = timedelta(hours=2)
"""The policy's late grace: so long after the stay the door still opens, so the room is not free yet."""

_MINUTE, _DAY = timedelta(minutes=1), timedelta(days=1)


class Step(StrEnum):
    """What happened to a booking; the last part of the event's subject."""

    CONFIRMED = "confirmed"
    DATES_CHANGED = "dates_changed"
    CANCELLED = "cancelled"
    NO_SHOW = "no_show"
    CHECKED_OUT = "checked_out"


ENDS = frozenset({Step.CANCELLED, Step.CHECKED_OUT})


@dataclass(frozen=True, slots=True)
class Span:
    """The days of a stay as booked at one time. Equal days are day use."""

    first: date
    last: date

    @property
    def is_day_use(self) -> bool:
        """Whether nobody sleeps there."""
        return self.first == self.last

    @property
    def start(self) -> datetime:
        """From when the room is the guest's, local."""
        return datetime.combine(self.first, DAY_USE_FROM if self.is_day_use else CHECK_IN)

    @property
    def end(self) -> datetime:
        """Until when, local, without grace."""
        return datetime.combine(self.last, DAY_USE_UNTIL if self.is_day_use else CHECK_OUT)

    @property
    def held_until(self) -> datetime:
        """Until when the door may still open, local."""
        return self.end + GRACE


@dataclass(frozen=True, slots=True)
class Happening:
    """One step of one booking, at a local time; `version` counts from 1. `is_move` asks for another room."""

    at: datetime
    step: Step
    version: int
    span: Span
    is_move: bool = False


def story_of(booking: Booking) -> list[Happening]:
    """Returns all steps of a booking, in order, at least a minute apart."""
    dice = _Dice(booking.digest)
    final = Span(booking.arrival, booking.departure)
    booked_at = _booked_at(booking, final, dice)
    ends_at = max(_ended_at(booking, final, dice), booked_at + (booking.changes + 2) * _MINUTE)
    spans = [*(_earlier(final, number, dice) for number in range(booking.changes)), final]
    story = [Happening(booked_at, Step.CONFIRMED, 1, spans[0])]
    latest = min(_last_change(final), ends_at)
    for number, at in enumerate(_spread(booked_at, latest, booking.changes), start=1):
        story.append(Happening(at, Step.DATES_CHANGED, number + 1, spans[number]))
    story.extend(_arrival_day(booking, final, story[-1], ends_at))
    end = {Status.CANCELED: Step.CANCELLED, Status.NO_SHOW: Step.NO_SHOW, Status.CHECK_OUT: Step.CHECKED_OUT}[booking.status]
    story.append(Happening(max(ends_at, story[-1].at + _MINUTE), end, len(story) + 1, final))
    return story


class _Dice:
    """Draws whole numbers from a digest, one after the other."""

    def __init__(self, digest: str) -> None:
        self._left = int(digest, 16)

    def draw(self, sides: int) -> int:
        self._left, drawn = divmod(self._left, sides)
        return drawn


def _booked_at(booking: Booking, final: Span, dice: _Dice) -> datetime:
    if booking.lead_days == 0:  # somebody who stands in the lobby
        return datetime.combine(booking.arrival, time(7 if final.is_day_use else 8 + dice.draw(4)))
    return datetime.combine(booking.booked_on, time(8 + dice.draw(12)))


def _ended_at(booking: Booking, final: Span, dice: _Dice) -> datetime:
    day = booking.status_date
    if booking.status is Status.CANCELED:
        return datetime.combine(day, time(8 + dice.draw(12)))
    if booking.status is Status.NO_SHOW:
        return datetime.combine(booking.arrival, time(19 if final.is_day_use else 22))
    if day <= booking.arrival:
        return datetime.combine(day, time(15 + dice.draw(3) if final.is_day_use else 20))
    return datetime.combine(day, time(7 + dice.draw(4)))


def _earlier(final: Span, number: int, dice: _Dice) -> Span:
    """Dates the booking had before its changes: a night less, a day later, or both ends a day later."""
    nights = (final.last - final.first).days
    choice = (dice.draw(3) + number) % 3
    if choice == 0 and nights > 1:
        return Span(final.first, final.last - _DAY)
    if choice == 1 and nights > 1:
        return Span(final.first + _DAY, final.last)
    return Span(final.first + _DAY, final.last + _DAY)


def _last_change(final: Span) -> datetime:
    """Changes come before the day of arrival has got going."""
    return final.start - 2 * timedelta(hours=1)


def _spread(after: datetime, before: datetime, count: int) -> Iterator[datetime]:
    """Gives `count` moments between two others, on the hour where there is room, else to the minute."""
    span = max(before - after, (count + 1) * _MINUTE)
    last = after
    for number in range(1, count + 1):
        at = after + span * number / (count + 1)
        on_the_hour = at.replace(minute=0, second=0, microsecond=0)
        exact = at.replace(second=0, microsecond=0)
        chosen = next((moment for moment in (on_the_hour, exact) if moment > last), last + _MINUTE)
        last = chosen
        yield chosen


def _arrival_day(booking: Booking, final: Span, latest: Happening, ends_at: datetime) -> Iterator[Happening]:
    """Another type of room was assigned: the guest is moved an hour before she may come, if the booking still stands."""
    at = max(final.start - timedelta(hours=1), latest.at + _MINUTE)
    if booking.is_moved and at < ends_at:
        yield Happening(at, Step.DATES_CHANGED, latest.version + 1, final, is_move=True)
