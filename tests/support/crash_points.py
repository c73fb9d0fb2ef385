"""Counts the points at which a process may die, and dies at one of them.

Rule: a point is named when it is reached, so that a run that is to die at the n-th point can say which one that was. Without
`arm` nothing is counted.

A process that dies leaves behind what it committed, published, acknowledged, wrote to files, and sent to Redis and to vendors. Where
nothing of this happened since the point before, a death leaves the same as there: the point is a repeat. What counts is seen at the
seams (commits, bus, calls) and, for everything else, by the interpreter's audit events and the Redis client.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from redis.connection import AbstractConnection

CRASHED = 70
"""Exit status of a process that died at its point."""


@dataclass
class CrashPoints:
    """The points reached so far. `die_at` counts from 1; the name of that point goes to the pipe `tell_to` before the end."""

    die_at: int | None = None
    tell_to: int | None = None
    names: list[str] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    """The points, counted from 1, at which a death leaves the same as at the one before."""
    left_something: bool = True
    """Whether anything that outlives this process happened since the last point."""

    def reach(self, name: str) -> None:
        self.names.append(name)
        if not self.left_something:
            self.repeats.append(len(self.names))
        self.left_something = False
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


def leave_trace() -> None:
    """Something that outlives this process happened, or may have."""
    if _armed is not None:
        _armed.left_something = True


def watch() -> None:
    """Notice from now on, in this process and its children, every write to a file and all that is sent to Redis or by HTTP."""
    sys.addaudithook(_hear)
    send = AbstractConnection.send_packed_command

    def noticed(self: AbstractConnection, command: Any, check_health: bool = True) -> None:
        leave_trace()
        send(self, command, check_health)

    AbstractConnection.send_packed_command = noticed  # type: ignore[method-assign]


_OUTSIDE = frozenset(("http.client.send", "os.rename", "os.link", "os.remove", "os.mkdir", "os.truncate", "subprocess.Popen"))
_WRITES = os.O_WRONLY | os.O_RDWR


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if _armed is not None and (event in _OUTSIDE or (event == "open" and isinstance(args[2], int) and args[2] & _WRITES)):
        _armed.left_something = True


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
