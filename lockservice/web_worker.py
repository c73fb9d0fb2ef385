"""Gunicorn's threaded worker, with an end to how long one request may take to arrive and an answer to leave.

A thread reads each request, so as many callers as there are threads, who send a byte now and then, would keep everybody else
out for as long as they like. This bounds the time; a front end that takes requests in whole before it passes them on
(docs/operations.md) keeps threads free of it altogether.

One rule: who is too slow is treated as one who hung up.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from typing import Any

from gunicorn.workers.gthread import TConn, ThreadWorker

ARRIVES_WITHIN_S = float(os.environ.get("LOCK_REQUEST_WITHIN_S", "10"))
"""From the moment a thread takes the connection up until the request's last byte is read; bodies are at most 256 KB."""
LEAVES_WITHIN_S = 20.0
"""How long one piece of an answer may take to be taken by the caller."""


class HurriedSocket:
    """A connection's socket that ends reads at an instant and writes after a time. Used by one thread at once."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self._ends = 0.0

    def begin(self) -> None:
        """Gives the next request its time."""
        self._ends = time.monotonic() + ARRIVES_WITHIN_S

    def recv(self, *args: Any) -> bytes:
        """Reads as a socket does. Raises ConnectionResetError once the request's time is over."""
        return self._within(self._ends - time.monotonic(), lambda: self._real.recv(*args))

    def recv_into(self, *args: Any) -> int:
        """Reads as a socket does. Raises ConnectionResetError once the request's time is over."""
        return self._within(self._ends - time.monotonic(), lambda: self._real.recv_into(*args))

    def sendall(self, data: Any, *flags: int) -> None:
        """Writes as a socket does. Raises ConnectionResetError when the caller takes too long to read."""
        self._within(LEAVES_WITHIN_S, lambda: self._real.sendall(data, *flags))

    def _within(self, seconds: float, work: Any) -> Any:
        if seconds <= 0:
            raise ConnectionResetError(errno.ECONNRESET, "the caller is too slow")
        self._real.settimeout(seconds)
        try:
            return work()
        except TimeoutError as error:
            raise ConnectionResetError(errno.ECONNRESET, "the caller is too slow") from error
        finally:
            self._real.setblocking(True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Worker(ThreadWorker):
    """The worker of `gunicorn_settings`."""

    def handle(self, conn: TConn) -> Any:
        """Handles one request of a connection, in a thread."""
        if not isinstance(conn.sock, HurriedSocket):
            conn.sock = HurriedSocket(conn.sock)
        conn.sock.begin()
        return super().handle(conn)
