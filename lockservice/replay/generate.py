"""Makes bookings up, in the shares the public file has, for demos and tests without that file.

One rule: the seed decides everything; the same seed gives the same bookings on every machine.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import TypeVar

from lockservice.replay.bookings import Booking, Status

T = TypeVar("T")

FIRST_ARRIVAL = date(2026, 3, 1)
ARRIVALS_A_DAY = 12
COUNTRIES = ("AFG", "TJK", "UZB", "IRN", "PAK", "TUR", "DEU", "GBR", "")
ROOM_TYPES = "AAAACDDE"

_CHANGES = ((0.85, 0), (0.96, 1), (0.99, 2), (1.0, 3))
_STATUS = ((0.66, Status.CHECK_OUT), (0.96, Status.CANCELED), (1.0, Status.NO_SHOW))


def generate(count: int, seed: int) -> list[Booking]:
    """Returns `count` bookings, by arrival. Raises ValueError for a negative count."""
    if count < 0:
        raise ValueError("a count is not negative")
    dice = random.Random(seed)  # noqa: S311 - made-up bookings
    days = sorted(dice.randrange(max(1, count // ARRIVALS_A_DAY)) for _ in range(count))
    return [_one(dice, number, FIRST_ARRIVAL + timedelta(days=day)) for number, day in enumerate(days, start=1)]


def _one(dice: random.Random, number: int, arrival: date) -> Booking:
    nights = 0 if dice.random() < 0.03 else min(28, 1 + int(dice.expovariate(1 / 3)))
    lead_days = min(400, int(dice.expovariate(1 / 60)))
    status = _pick(dice, _STATUS)
    reserved = dice.choice(ROOM_TYPES)
    return Booking(
        number=number,
        lead_days=lead_days,
        arrival=arrival,
        nights=nights,
        party=dice.choice((0, 1, 1, 2, 2, 2, 3, 4)),
        country=dice.choice(COUNTRIES),
        reserved_type=reserved,
        assigned_type=dice.choice(ROOM_TYPES) if dice.random() < 0.25 else reserved,
        changes=_pick(dice, _CHANGES),
        status=status,
        status_date=_status_date(dice, status, arrival, nights, lead_days),
    )


def _status_date(dice: random.Random, status: Status, arrival: date, nights: int, lead_days: int) -> date:
    if status is Status.CANCELED:
        return arrival - timedelta(days=dice.randint(0, lead_days))
    if status is Status.NO_SHOW:
        return arrival
    early = dice.random() < 0.03 and nights > 0
    return arrival + timedelta(days=nights - early)


def _pick(dice: random.Random, shares: tuple[tuple[float, T], ...]) -> T:
    drawn = dice.random()
    return next(value for below, value in shares if drawn < below)
