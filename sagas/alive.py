"""Keeps the heartbeat row of a long-running command fresh, from a thread of its own.

One rule: the row's detail names the loops of the process that fail. While one of them hangs the row is left to grow old, and
the supervisor restarts what is silent.
"""

from __future__ import annotations

import threading
import uuid
from types import TracebackType
from typing import Self

from django.db import connection

from lockservice.core import loops, tenancy
from lockservice.core.heartbeat import beat

EVERY_S = 2.0


class SignsOfLife:
    """A context in which a heartbeat row is kept fresh."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._incarnation = uuid.uuid4().hex
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join(timeout=3)

    def _run(self) -> None:
        with loops.LoopGuard("alive", stopped=self._over.is_set) as guard:
            while True:
                try:
                    if not loops.is_stuck():
                        with tenancy.queues():
                            beat(self._name, self._incarnation, loops.faults())
                except Exception as error:  # noqa: BLE001 - the guard logs it, and what goes on beating is seen to be alive
                    guard.failed(error)
                else:
                    guard.succeeded()
                    connection.close()  # a pool may be small
                if self._over.wait(EVERY_S):
                    break
