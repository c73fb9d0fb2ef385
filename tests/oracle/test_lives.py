"""Lives that once found something, played again, and fixed seeds of random ones.

One rule: counts bound what is played, never minutes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.oracle import lives
from tests.oracle.houses import HOUSES
from tests.oracle.player import Player
from tests.support.stage import World

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
SEED, LIVES_A_HOUSE = 2026, 2
"""The fixed seed of `make test`: with five houses 300 steps."""


@pytest.mark.parametrize("life", CORPUS, ids=lambda path: path.stem)
def test_a_life_of_the_corpus_agrees_with_the_doors(world: World, life: Path) -> None:
    player = Player(world, json.loads(life.read_text(encoding="utf-8")))
    player.play()
    assert player.steps


@pytest.mark.parametrize("house", sorted(HOUSES))
def test_random_lives_agree_with_the_doors(world: World, house: str) -> None:
    _play(world, SEED, [house])


def _play(world: World, seed: int, houses: list[str]) -> None:
    for house in houses:
        for number in range(LIVES_A_HOUSE):
            Player(world, lives.write(1000 * seed + number, house)).play()
