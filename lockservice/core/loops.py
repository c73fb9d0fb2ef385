"""Keeps the loops of long-running processes going, and knows which of them fail.

One rule: a loop ends because it was asked to, never because a turn of it failed. What fails is logged, stands in the process's
heartbeat row until a turn goes well, and is tried again after a pause that grows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Self

import structlog
from django.db import connection

from lockservice.core.outage import PAUSE_S, is_outage

log = structlog.get_logger(__name__)

PAUSES_S: Final = (0.5, 5.0)
"""After a defect of ours: the first pause, doubled each time up to the second."""
LOOK_S: Final = 0.1
"""How soon a pause notices that the loop shall end."""
STUCK_AFTER_S: Final = 180.0
"""A turn that lasts longer hangs: a statement ends after 60 s, a vendor call too."""

_guards: set[LoopGuard] = set()
_lock = threading.Lock()


class LoopGuard:
    """One loop's record, used as a context around the loop.

    `waits_for` are errors that pass by themselves, beside an outage of the database; such as a bus that is away.
    `stopped` ends a pause early.
    """

    def __init__(
        self,
        name: str,
        *,
        waits_for: tuple[type[Exception], ...] = (),
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = name
        self._waits_for = waits_for
        self._stopped = stopped
        self._pause_s = PAUSES_S[0]
        self._turned_at = time.monotonic()
        self._failure = ""
        self._failures_count = 0

    def __enter__(self) -> Self:
        with _lock:
            _guards.add(self)
        return self

    def __exit__(self, *_error: object) -> None:
        with _lock:
            _guards.discard(self)

    def succeeded(self) -> None:
        """Notes a turn that went well."""
        self._turned_at = time.monotonic()
        if self._failures_count:
            log.warning(f"{self.name}.recovered", failures=self._failures_count)
            self._failure, self._failures_count, self._pause_s = "", 0, PAUSES_S[0]

    def failed(self, error: Exception) -> None:
        """Notes a turn that failed, lets its connection go and pauses. Call outside of any block."""
        self._turned_at = time.monotonic()
        self._failures_count += 1
        self._failure = type(error).__name__
        if is_outage(error) or isinstance(error, self._waits_for):
            log.warning(f"{self.name}.waits", error=self._failure)
            pause_s = PAUSE_S
        else:
            log.error(f"{self.name}.failed", failures=self._failures_count, exc_info=error)
            pause_s, self._pause_s = self._pause_s, min(PAUSES_S[1], self._pause_s * 2)
        connection.close()
        ends = time.monotonic() + pause_s
        while not self._stopped() and (left_s := ends - time.monotonic()) > 0:
            time.sleep(min(LOOK_S, left_s))

    def fault(self, now: float) -> str:
        """Returns what is wrong with the loop, for people; empty when nothing is. `now` is monotonic."""
        if self._failures_count:
            return f"{self.name}: {self._failure}, {self._failures_count} times in a row"
        if now - self._turned_at > STUCK_AFTER_S:
            return f"{self.name}: no turn for {now - self._turned_at:.0f} s"
        return ""

    def is_stuck(self, now: float) -> bool:
        """Says whether the loop hangs in a turn. `now` is monotonic."""
        return now - self._turned_at > STUCK_AFTER_S


def faults() -> str:
    """Returns what is wrong with the loops of this process, for its heartbeat row; empty when nothing is."""
    now = time.monotonic()
    return "; ".join(filter(None, (guard.fault(now) for guard in _all())))


def is_stuck() -> bool:
    """Says whether a loop of this process hangs: then it is to be restarted."""
    now = time.monotonic()
    return any(guard.is_stuck(now) for guard in _all())


def _all() -> list[LoopGuard]:
    with _lock:
        return sorted(_guards, key=lambda guard: guard.name)
