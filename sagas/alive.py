"""Signs of life of a long-running command, from a thread of its own.

One rule: the thread says only that the process lives; the supervisor restarts what is silent.
"""

from __future__ import annotations

import threading
import uuid
from types import TracebackType
from typing import Self

import structlog
from django.db import InterfaceError, OperationalError, connection

from lockservice.core import tenancy
from lockservice.core.heartbeat import beat

log = structlog.get_logger(__name__)
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
        while True:
            try:
                with tenancy.queues():
                    beat(self._name, self._incarnation)
            except (OperationalError, InterfaceError) as error:
                log.warning("alive.waits", process=self._name, error=type(error).__name__)
                connection.close()
            if self._over.wait(EVERY_S):
                break
        connection.close()
