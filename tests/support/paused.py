"""Pauses transactions as a stopped process or a loaded machine does, in less than the five seconds that it takes there.

Rule: PostgreSQL itself ends the session. A statement is held up on the line, in the middle of its transaction, for longer than a
session may idle there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from lockservice.embedded import postgres
from lockservice.embedded.local import LocalDirectory
from tests.support.proxy import TcpProxy

IDLE_S = 1.0
"""Where work is repeated until it is done, a slow machine only adds a pause. But what a test writes itself is written once, so
that a busy machine must not take as long between two of its statements."""
WEB_IDLE_S = 3.0
"""Where one request is asked for one answer."""
LONGER_S = 0.5


def options(idle_s: float) -> str:
    """Returns what a session is opened with to be ended after so many idle seconds."""
    return f"-c idle_in_transaction_session_timeout={int(idle_s * 1000)}"


class Pauses:
    """`at(mark)` holds up the next statement with the mark in it, once; `taken` counts the pauses that happened."""

    def __init__(self, proxy: TcpProxy, idle_s: float) -> None:
        self._pause_s = idle_s + LONGER_S
        self._marks: list[bytes] = []
        self.taken = 0
        proxy.hold_s = self._hold_s

    def at(self, mark: bytes, times: int = 1) -> None:
        self._marks += [mark] * times

    def _hold_s(self, piece: bytes) -> float:
        for mark in self._marks:
            if mark in piece:
                self._marks.remove(mark)
                self.taken += 1
                return self._pause_s
        return 0.0


@contextmanager
def paused_line(local: LocalDirectory, idle_s: float) -> Iterator[tuple[TcpProxy, Pauses]]:
    """Gives a line to the database for processes whose sessions are opened with `options(idle_s)`, and what pauses it."""
    proxy = TcpProxy("127.0.0.1", postgres.endpoint(local).port)
    try:
        yield proxy, Pauses(proxy, idle_s)
    finally:
        proxy.stop()


@contextmanager
def paused_here(local: LocalDirectory) -> Iterator[Pauses]:
    """Points this process's connections at such a line while the block lasts."""
    database = connections.settings["default"]
    before = {name: database[name] for name in ("HOST", "PORT", "OPTIONS")}
    with paused_line(local, IDLE_S) as (proxy, pauses):
        drop_connections()
        opened_with = {**database["OPTIONS"], "options": options(IDLE_S)}
        database.update(HOST="127.0.0.1", PORT=str(proxy.port), OPTIONS=opened_with)
        try:
            yield pauses
        finally:
            drop_connections()
            database.update(before)


def drop_connections() -> None:
    connections.close_all()
    for one in connections.all(initialized_only=True):
        one.close_pool()
