"""`make oracle-proof`: plays lives on each planted mutation until it is found, and prints the steps it took.

A life finds a mutation where it agrees with the doors without it: each that found one is played again on the product as it is.

Environment: ORACLE_MUTATIONS (names, one a line; none: all), ORACLE_SEED (the first seed of each), ORACLE_MOST (steps).
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from tests.oracle import lives
from tests.oracle.mutations import BY_NAME, MUTATIONS, Mutation
from tests.oracle.player import Finding, Player
from tests.support.stage import World

MOST_STEPS = 2000


def steps_to_find(world: World, mutation: Mutation, first_seed: int, most: int = MOST_STEPS) -> tuple[int, str]:
    """Return how many steps were played until the mutation was found, and what was found; no words where it was not."""
    played, seed = 0, first_seed
    while played < most:
        life = lives.write(seed, mutation.house, faults=mutation.faults)
        with mutation.plant():
            steps, found = _play(world, life)
        played, seed = played + steps, seed + 1
        if found is not None and _play(world, {**life, "steps": life["steps"][: found.number + 1]})[1] is None:
            return played, found.lines[0]
    return played, ""


def _play(world: World, life: dict[str, Any]) -> tuple[int, Finding | None]:
    player = Player(world, life)
    try:
        player.play()
    except Finding as found:
        return player.steps, found
    return player.steps, None


def test_every_mutation_is_found(world: World, capsys: Any) -> None:
    names = [name for name in os.environ.get("ORACLE_MUTATIONS", "").splitlines() if name]
    missed = []
    for mutation in [BY_NAME[name] for name in names] or MUTATIONS:
        began = time.monotonic()
        most = int(os.environ.get("ORACLE_MOST", MOST_STEPS))
        steps, found = steps_to_find(world, mutation, int(os.environ.get("ORACLE_SEED", "1")), most)
        with capsys.disabled():
            count = str(steps) if found else f"none in {steps}"
            sys.stdout.write(f"{mutation.name:52} {count:>12} {time.monotonic() - began:7.1f} s  {found[:150]}\n")
            sys.stdout.flush()
        missed += [] if found else [mutation.name]
    assert missed == []
