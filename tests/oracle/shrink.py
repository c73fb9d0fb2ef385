"""Makes a life that found something as short as it can be: drops runs of steps, long ones first, while the finding stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Life = dict[str, Any]


def shrink(life: Life, finds: Callable[[Life], bool], *, tries: int = 60) -> Life:
    """Return a shorter life that `finds` still says yes to. At most `tries` lives are played."""
    steps, size = list(life["steps"]), max(1, len(life["steps"]) // 2)
    while size and tries:
        first = 0
        while first < len(steps) and tries:
            shorter = steps[:first] + steps[first + size :]
            tries -= 1
            if finds({**life, "steps": shorter}):
                steps = shorter
            else:
                first += size
        size //= 2
    return {**life, "steps": steps}
