"""Which networked doors answer now.

One rule: a networked lock that is cut off keeps what it was told last. It hears of a change no sooner than a lock off the
network, so it is taken for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from vendors.port.types import CredentialHandle, Door, UpdateInput

from .errors import Refused, Unclear


class Reach:
    """Asks the vendor, by `ask`, once for each networked door of a call.

    After a question without an answer it asks no more and knows of no further door: what has to be done must not wait for as
    many silences as the key has doors.
    """

    def __init__(self, ask: Callable[[Door], bool]) -> None:
        self._ask = ask
        self._known: dict[str, bool] = {}
        self._is_silent = False

    def of_key(self, handle: CredentialHandle) -> CredentialHandle:
        """Returns the handle with its doors as they are reached now."""
        return replace(handle, doors=self._now(handle.doors))

    def of_change(self, request: UpdateInput) -> UpdateInput:
        """Returns the change with all its doors as they are reached now."""
        added, removed = self._now(request.added), self._now(request.removed)
        return replace(request, handle=self.of_key(request.handle), added=added, removed=removed)

    def _now(self, doors: Iterable[Door]) -> tuple[Door, ...]:
        return tuple(replace(door, has_remote=door.has_remote and self._is_told_to_answer(door)) for door in doors)

    def _is_told_to_answer(self, door: Door) -> bool:
        """Whether the vendor says so. What it does not say, or not so that it can be read, is not known."""
        if door.device_id not in self._known:
            self._known[door.device_id] = not self._is_silent and self._asked(door)
        return self._known[door.device_id]

    def _asked(self, door: Door) -> bool:
        try:
            return self._ask(door)
        except Refused:
            return False
        except Unclear:
            self._is_silent = True
            return False
