"""Counts the points at which a process may die, and dies at one of them.

Rule: a point is named when it is reached, so that a run that is to die at the n-th point can say which one that was. Without
`arm` nothing is counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

CRASHED = 70
"""Exit status of a process that died at its point."""


@dataclass
class CrashPoints:
    """The points reached so far. `die_at` counts from 1; the name of that point goes to the pipe `tell_to` before the end."""

    die_at: int | None = None
    tell_to: int | None = None
    names: list[str] = field(default_factory=list)

    def reach(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self.die_at:
            if self.tell_to is not None:
                os.write(self.tell_to, name.encode())
            os._exit(CRASHED)


_armed: CrashPoints | None = None
_part = "act"


def arm(points: CrashPoints) -> CrashPoints:
    """Counts from now on."""
    global _armed  # noqa: PLW0603 - one process has one life
    _armed = points
    return points


def working_as(part: str) -> None:
    """Says which part of the service this process is playing from now on; it becomes part of a point's name."""
    global _part  # noqa: PLW0603 - as above
    _part = part


def reach(name: str) -> None:
    """This may be the end."""
    if _armed is not None:
        _armed.reach(f"{_part}: {name}")


@contextmanager
def paused() -> Iterator[None]:
    """What the test itself does counts nothing."""
    global _armed  # noqa: PLW0603 - as above
    armed, _armed = _armed, None
    try:
        yield
    finally:
        _armed = armed


def is_armed() -> bool:
    return _armed is not None
