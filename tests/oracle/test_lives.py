"""Lives that once found something, played again, and a fixed seed of random ones.

One rule: counts bound what is played, never minutes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.oracle.player import Player
from tests.support.stage import World

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))


@pytest.mark.parametrize("life", CORPUS, ids=lambda path: path.stem)
def test_a_life_of_the_corpus_agrees_with_the_doors(world: World, life: Path) -> None:
    player = Player(world, json.loads(life.read_text(encoding="utf-8")))
    player.play()
    assert player.steps
