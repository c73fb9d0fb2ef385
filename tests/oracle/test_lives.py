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
SEED = 2026
MORE_SEEDS = (1, 2, 3, 4, 5)
STEPS_A_HOUSE = 38
"""How many steps a seed plays at least in each house: with eight houses 304."""
PROOF = (
    "a revoke is skipped", "a change leaves a door", "grace is ignored", "the old room is kept", "an ended booking keeps its keys",
)  # fmt: skip
"""Planted mutations that few steps find. All are found by `make oracle-proof`."""
STEPS_OF_PROOF = 150
SLOW_MACHINES = pytest.mark.timeout(600)


@pytest.mark.parametrize("life", CORPUS, ids=lambda path: path.stem)
def test_a_life_of_the_corpus_agrees_with_the_doors(world: World, life: Path) -> None:
    player = Player(world, json.loads(life.read_text(encoding="utf-8")))
    player.play()
    assert player.steps


@SLOW_MACHINES
@pytest.mark.parametrize("house", sorted(HOUSES))
def test_random_lives_agree_with_the_doors(world: World, house: str) -> None:
    _play(world, SEED, house)


@pytest.mark.chaos
@SLOW_MACHINES
@pytest.mark.parametrize("house", sorted(HOUSES))
@pytest.mark.parametrize("seed", MORE_SEEDS)
def test_more_random_lives_agree_with_the_doors(world: World, house: str, seed: int) -> None:
    _play(world, seed, house)


@pytest.mark.chaos
@SLOW_MACHINES
@pytest.mark.parametrize("name", PROOF)
def test_a_planted_mutation_is_found(world: World, name: str) -> None:
    steps, found = steps_to_find(world, BY_NAME[name], 1, STEPS_OF_PROOF)
    assert found, f"{name}: not found in {steps} steps"


def _play(world: World, seed: int, house: str) -> None:
    played, number = 0, 0
    while played < STEPS_A_HOUSE:
        player = Player(world, lives.write(1000 * seed + number, house))
        player.play()
        played, number = played + player.steps, number + 1
