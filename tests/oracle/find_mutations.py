"""`python -m tests.oracle.mutations`: plays lives on each planted mutation until it is found, and prints the steps it took.

Environment: ORACLE_MUTATIONS (names, one a line; none: all), ORACLE_SEED (the first seed of each).
"""

from __future__ import annotations

import os
import sys
from typing import Any

from tests.oracle import lives
from tests.oracle.mutations import BY_NAME, MUTATIONS, Mutation
from tests.oracle.player import Finding, Player
from tests.support.stage import World

MOST_STEPS = 2000


def steps_to_find(world: World, mutation: Mutation, first_seed: int, most: int = MOST_STEPS) -> tuple[int, str]:
    """Return how many steps were played until the mutation was found, and what was found; no words where it was not."""
    played, seed = 0, first_seed
    with mutation.plant():
        while played < most:
            player = Player(world, lives.write(seed, mutation.house, faults=mutation.faults))
            try:
                player.play()
            except Finding as found:
                return played + player.steps, found.lines[0]
            played, seed = played + player.steps, seed + 1
    return played, ""


def test_every_mutation_is_found(world: World, capsys: Any) -> None:
    names = [name for name in os.environ.get("ORACLE_MUTATIONS", "").splitlines() if name]
    missed = []
    for mutation in [BY_NAME[name] for name in names] or MUTATIONS:
        steps, found = steps_to_find(world, mutation, int(os.environ.get("ORACLE_SEED", "1")))
        with capsys.disabled():
            sys.stdout.write(f"{mutation.name:52} {steps if found else 'not found':>9}  {found[:150]}\n")
            sys.stdout.flush()
        missed += [] if found else [mutation.name]
    assert missed == []
