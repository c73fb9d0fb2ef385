"""Lives that once found something, played again, and fixed seeds of random ones.

One rule: counts bound what is played, never minutes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.oracle import lives
from tests.oracle.find_mutations import steps_to_find
from tests.oracle.houses import HOUSES
from tests.oracle.mutations import BY_NAME
from tests.oracle.player import Player
from tests.support.stage import World

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
SEED, LIVES_A_HOUSE = 2026, 2
"""The fixed seed of `make test`: with five houses 300 steps."""
CHAOS_SEEDS = (31, 37, 41, 43, 47)
"""Those of `make chaos`: 1,500 steps."""
PLANTED = ("a suspension is skipped", "an older version counts", "the old room is kept")


@pytest.mark.parametrize("life", CORPUS, ids=lambda path: path.stem)
def test_a_life_of_the_corpus_agrees_with_the_doors(world: World, life: Path) -> None:
    player = Player(world, json.loads(life.read_text(encoding="utf-8")))
    player.play()
    assert player.steps


@pytest.mark.parametrize("house", sorted(HOUSES))
def test_random_lives_agree_with_the_doors(world: World, house: str) -> None:
    _play(world, SEED, [house])


@pytest.mark.chaos
@pytest.mark.parametrize("seed", CHAOS_SEEDS)
def test_more_random_lives_agree_with_the_doors(world: World, seed: int) -> None:
    _play(world, seed, sorted(HOUSES))


@pytest.mark.chaos
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mutation_is_found(world: World, name: str) -> None:
    steps, found = steps_to_find(world, BY_NAME[name], SEED, most=300)
    assert found, f"not found within {steps} steps"


def _play(world: World, seed: int, houses: list[str]) -> None:
    for house in houses:
        for number in range(LIVES_A_HOUSE):
            Player(world, lives.write(1000 * seed + number, house)).play()
