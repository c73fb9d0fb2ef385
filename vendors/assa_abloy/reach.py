"""Which networked doors answer now.

One rule: a networked lock that is cut off keeps what it was told last. It hears of a change no sooner than a lock off the
network, so it is taken for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from vendors.port.types import CredentialHandle, Door, UpdateInput

from .errors import Refused, Unclear

Answers = Callable[[Door], bool]
"""Asks the vendor whether a networked door answers."""


def as_reached(handle: CredentialHandle, answers: Answers) -> CredentialHandle:
    """Returns the handle with its doors as they are reached now."""
    return replace(handle, doors=_reached_now(handle.doors, answers))


def change_as_reached(request: UpdateInput, answers: Answers) -> UpdateInput:
    """Returns the change with all its doors as they are reached now."""
    added, removed = _reached_now(request.added, answers), _reached_now(request.removed, answers)
    return replace(request, handle=as_reached(request.handle, answers), added=added, removed=removed)


def _reached_now(doors: Iterable[Door], answers: Answers) -> tuple[Door, ...]:
    return tuple(replace(door, has_remote=door.has_remote and _is_told_to_answer(door, answers)) for door in doors)


def _is_told_to_answer(door: Door, answers: Answers) -> bool:
    """Whether the vendor says so. What it does not say, or not so that it can be read, is not known."""
    try:
        return answers(door)
    except (Refused, Unclear):
        return False
