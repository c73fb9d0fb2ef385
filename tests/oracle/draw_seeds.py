"""`make oracle`: draws fresh seeds until the minutes are over, and prints each finding as a life to paste into the corpus.

Environment: ORACLE_MINUTES, ORACLE_SEED (the first seed), ORACLE_HOUSE, ORACLE_STEPS (of a life), ORACLE_FAULTS (0: none),
ORACLE_FINDINGS (stop after so many kinds), ORACLE_SHRINK (plays to make one short).
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from tests.oracle import lives
from tests.oracle.player import Finding, Player, new_seed
from tests.oracle.shrink import shrink
from tests.support.stage import World

Life = dict[str, Any]


def test_fresh_seeds(world: World, capsys: Any) -> None:
    minutes = float(os.environ.get("ORACLE_MINUTES", "30"))
    most = int(os.environ.get("ORACLE_FINDINGS", "5"))
    seed = int(os.environ["ORACLE_SEED"]) if os.environ.get("ORACLE_SEED") else new_seed()
    ends, played, steps, kinds = time.monotonic() + minutes * 60, 0, 0, set()

    def said(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    said(f"first seed {seed}, {minutes:g} minutes")
    while time.monotonic() < ends and len(kinds) < most:
        life = lives.write(
            seed, os.environ.get("ORACLE_HOUSE", ""), int(os.environ.get("ORACLE_STEPS", lives.STEPS)),
            faults=os.environ.get("ORACLE_FAULTS", "1") != "0",
        )  # fmt: skip
        began, (found, done) = time.monotonic(), _played(world, life)
        played, steps = played + 1, steps + done
        said(f"seed {seed} {life['house']}: {done} steps in {time.monotonic() - began:.1f} s{', finding' if found else ''}")
        if found is not None and found.kind not in kinds:
            kinds.add(found.kind)
            said(_report(world, life, found))
        seed += 1
    said(f"{played} lives, {steps} steps, {len(kinds)} kinds of findings")
    assert not kinds


def _played(world: World, life: Life) -> tuple[Finding | None, int]:
    player = Player(world, life)
    try:
        player.play()
    except Finding as found:
        return found, player.steps
    return None, player.steps


def _report(world: World, life: Life, found: Finding) -> str:
    def finds(shorter: Life) -> bool:
        again, _ = _played(world, shorter)
        return again is not None and again.kind == found.kind

    begun = {**life, "steps": life["steps"][: found.number + 1]}
    tries = int(os.environ.get("ORACLE_SHRINK", "60"))
    short = shrink(begun, finds, tries=tries)
    last = _played(world, short)[0] if tries else found
    steps = "\n".join("   " + json.dumps(step) + "," for step in short["steps"])
    head = json.dumps({"house": short["house"], "clock": short["clock"]})
    return f'FINDING {found.kind}\n{last or found}\n{head[:-1]}, "steps": [\n{steps.rstrip(",")}\n]}}'
