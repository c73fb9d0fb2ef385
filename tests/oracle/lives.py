"""Random lives: lists of steps, as data. The same seed writes the same life.

One rule: nothing is looked at while a life is written; a step that makes no sense is skipped when it is played.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.oracle.houses import HOUSES, Plan

Step = dict[str, Any]
STEPS = 30
STAYS = 3
HOUR, DAY = 60, 24 * 60
CLOCKS = ("2026-11-02T09:00:00+00:00", "2026-10-24T13:00:00+00:00", "2027-03-27T12:00:00+00:00")
"""When lives begin: an ordinary day, and the days before the nights on which Berlin's clocks change."""
HOURS = (("14:00", "12:00"), ("12:00", "13:00"), ("15:00", "10:00"), ("02:30", "02:30"))
"""Hours of a house; the last come twice, or not at all, on the nights on which clocks change."""
FAULTS = ("drop", "lost", "error", "throttled")


class Writer:
    """Writes one life."""

    def __init__(self, seed: int, house: str = "", steps: int = STEPS, *, faults: bool = True) -> None:
        self._random = random.Random(seed)
        self._faults = faults
        self._house = house or self._random.choice(sorted(HOUSES))
        self._plan: Plan = HOUSES[self._house]
        self._steps = steps

    def life(self) -> dict[str, Any]:
        """Return the life."""
        steps = [self._book(0)]
        makers, weights = zip(*self._makers(), strict=True)
        while len(steps) < self._steps:
            maker: Callable[[], Step] = self._random.choices(makers, weights)[0]
            steps.append(maker())
        return {"house": self._house, "clock": self._random.choice(CLOCKS), "steps": steps}

    def _makers(self) -> Iterator[tuple[Callable[[], Step], int]]:
        yield lambda: self._book(self._stay()), 10
        yield lambda: {"do": "dates", "stay": self._stay(), **self._window()}, 10
        yield lambda: {"do": "rooms", "stay": self._stay(), "rooms": self._rooms()}, 10
        yield lambda: {"do": "days", "stay": self._stay(), "rooms": self._rooms(), **self._days()}, 5
        yield lambda: {"do": "hours", "hours": list(self._random.choice(HOURS))}, 3
        yield lambda: {"do": "swap", "doors": sorted(self._random.sample(sorted(self._plan.rooms), 2))}, 2
        yield lambda: {"do": "wait", "minutes": self._random.choice((10, 55, HOUR, 3 * HOUR, 6 * HOUR, 7 * HOUR, DAY))}, 22
        for name, weight in (("cancel", 4), ("reinstate", 5), ("no_show", 5), ("check_out", 3), ("second", 5)):
            yield self._plain(name), weight
        if self._plan.has_encoder:
            yield self._plain("encode"), 12
            yield self._lay, 6
            yield lambda: {"do": "desk", "is_there": self._random.random() < 0.6}, 4
        for name, weight in (("suspend", 6), ("resume", 6), ("revoke", 2), ("replace", 3)):
            yield self._keyed(name), weight
        for verb in ("suspend", "unsuspend"):
            yield self._keyed("press", verb=verb), 2
        yield lambda: {"do": "lose", **self._of_key(), "another": self._random.random() < 0.6}, 3
        yield lambda: {"do": "extend", **self._of_key(), "until": self._random.choice((6 * HOUR, DAY, 3 * DAY))}, 3
        yield lambda: {"do": "pin", **self._of_key(), "digits": self._digits()}, 3
        yield lambda: {"do": "use", "stay": self._stay(), "door": self._door()}, 8
        yield lambda: {"do": "again", "back": self._random.randrange(8)}, 8
        for name in ("check_in", "arrived", "conflict"):
            yield self._plain(name), 2
        yield lambda: {"do": "dates", "stay": self._stay(), "word": "rejected", **self._window()}, 1
        yield lambda: {"do": "rooms", "stay": self._stay(), "rooms": [*self._rooms(), "999"]}, 1
        if self._faults:
            yield self._break, 4
            yield lambda: {"do": "reach", "door": self._door()}, 2
            yield lambda: {"do": "heal"}, 12
            yield lambda: {"do": "upkeep"}, 2
            yield lambda: {"do": "lie", "system": self._random.choice(self._plan.systems)}, 2
            yield lambda: {"do": "wipe", "door": self._door()}, 2
            yield lambda: {"do": "skew", "door": self._door(), "minutes": self._random.choice((-240, -5, 5, 240))}, 2

    def _plain(self, name: str) -> Callable[[], Step]:
        return lambda: {"do": name, "stay": self._stay()}

    def _keyed(self, name: str, **more: str) -> Callable[[], Step]:
        return lambda: {"do": name, **self._of_key(), **more}

    def _stay(self) -> int:
        return self._random.choices(range(STAYS), (6, 3, 1))[0]

    def _of_key(self) -> Step:
        return {"stay": self._stay(), "key": self._random.choices(range(5), (8, 5, 3, 2, 1))[0]}

    def _book(self, stay: int) -> Step:
        return {"do": "book", "stay": stay, "rooms": self._rooms(), **self._window()}

    def _window(self) -> Step:
        start = self._random.choice((-DAY, -HOUR, -HOUR, -10, 30, 3 * HOUR, DAY))
        length = self._random.choice((30, 4 * HOUR, DAY, DAY, 2 * DAY, 5 * DAY))
        return {"from": start, "until": start + length}

    def _days(self) -> Step:
        first = self._random.choice((-1, 0, 0, 1))
        return {"from": first, "until": first + self._random.choice((0, 1, 1, 2, 5))}

    def _lay(self) -> Step:
        return {"do": "encode", "stay": self._stay(), "card_of": self._stay(), "confirms": self._random.random() < 0.5}

    def _rooms(self) -> list[str]:
        count = self._random.choices((1, 2), (4, 1))[0]
        return sorted(self._random.sample(sorted(self._plan.rooms), count))

    def _door(self) -> str:
        return self._random.choice([*self._plan.rooms, *self._plan.areas])

    def _digits(self) -> str:
        length = 8 if self._plan.areas else 6
        return "".join(self._random.choice("123456789") for _ in range(length))

    def _break(self) -> Step:
        times = self._random.choice((1, 2, 3, None))
        system = self._random.choice(self._plan.systems)
        return {"do": "break", "system": system, "effect": self._random.choice(FAULTS), "times": times}


def write(seed: int, house: str = "", steps: int = STEPS, *, faults: bool = True) -> dict[str, Any]:
    """Return the life of a seed."""
    return Writer(seed, house, steps, faults=faults).life()
