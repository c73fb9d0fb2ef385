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
TROUBLES = ("break", "desk")


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
        steps = self._opening()
        makers, weights = zip(*self._makers(), strict=True)
        while len(steps) < self._steps:
            maker: Callable[[], Step] = self._random.choices(makers, weights)[0]
            steps.append(maker())
            if steps[-1]["do"] in TROUBLES and self._random.random() < 0.8:
                steps.append(self._asked(steps[-1]["do"]))
        return {"house": self._house, "clock": self._random.choice(CLOCKS), "steps": steps}

    def _opening(self) -> list[Step]:
        """A first guest, whose stay may be given as days. Where cards are written at times a second one, who brings the first's
        card; where a house has several lock systems at times a suspended one, who moves."""
        first = self._book(0) if self._random.random() < 0.7 else self._book_days(0)
        if len(self._plan.systems) > 1 and self._random.random() < 0.3:
            return [first, {"do": "suspend", "stay": 0, "key": 0}, {"do": "rooms", "stay": 0, "rooms": self._rooms()}]
        if not self._plan.has_encoder or self._random.random() < 0.6:
            return [first]
        lays = {"do": "encode", "stay": 1, "card_of": 0, "confirms": self._random.random() < 0.3}
        return [first, {"do": "encode", "stay": 0}, self._book(1), lays]

    def _makers(self) -> Iterator[tuple[Callable[[], Step], int]]:
        yield lambda: self._book(self._stay()), 10
        yield lambda: {"do": "dates", "stay": self._stay(), **self._window()}, 10
        yield lambda: {"do": "rooms", "stay": self._stay(), "rooms": self._rooms()}, 10
        yield lambda: self._book_days(self._stay()), 5
        yield lambda: {"do": "hours", "hours": list(self._random.choice(HOURS))}, 5
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
            yield self._break, 8
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

    def _book_days(self, stay: int) -> Step:
        return {"do": "days", "stay": stay, "rooms": self._rooms(), **self._days()}

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
        every = sorted(self._plan.rooms)
        drawn = sorted(self._random.sample(every, count))
        return every[:count] if count > 1 and self._plan.in_a_row and drawn == [every[0], every[-1]] else drawn

    def _door(self) -> str:
        return self._random.choice([*self._plan.rooms, *self._plan.areas])

    def _digits(self) -> str:
        length = 8 if self._plan.areas else 6
        return "".join(self._random.choice("123456789") for _ in range(length))

    def _asked(self, trouble: str) -> Step:
        """What is asked of a lock system in trouble, before anything else is."""
        first, key = {"stay": 0}, {"stay": 0, "key": self._random.choice((0, 0, 0, 1))}
        if trouble == "desk":
            return {"do": "encode", "stay": self._stay()}
        ends = {"do": "cancel", **first}, {"do": "check_out", **first}, {"do": "revoke", **key}, {"do": "replace", **key}
        rests = {"do": "suspend", **key}, {"do": "resume", **key}
        changes = {"do": "rooms", "rooms": self._rooms(), **first}, {"do": "dates", **self._window(), **first}
        return self._random.choice((*ends, *rests, *changes))

    def _break(self) -> Step:
        times = self._random.choice((1, 2, 3, None, None, None))
        system = self._random.choice(self._plan.systems)
        return {"do": "break", "system": system, "effect": self._random.choice(FAULTS), "times": times}


def write(seed: int, house: str = "", steps: int = STEPS, *, faults: bool = True) -> dict[str, Any]:
    """Return the life of a seed."""
    return Writer(seed, house, steps, faults=faults).life()
