"""The line under the PMS protocol: bytes out, bytes in, over one TCP connection.

One rule: a line that could not be opened carried nothing; one that broke later says so, and what it carried is unknown.
"""

from __future__ import annotations

import socket
from typing import Protocol

CONNECT_TIMEOUT_S = 10.0
READ_BYTES = 512


class LineNotOpened(Exception):
    """Nobody listens at the property's PMS port. Nothing was sent."""


class LineBroken(Exception):
    """The connection ended while it was in use."""


class Line(Protocol):
    """A two-way stream of bytes."""

    def send(self, data: bytes) -> None:
        """Sends all of it. Raises LineBroken."""
        ...

    def receive(self, timeout_s: float) -> bytes:
        """Returns what came within the time, empty when nothing did. Raises LineBroken when the other side hung up."""
        ...

    def close(self) -> None:
        """Hangs up. Never fails."""
        ...


class TcpLine:
    """A TCP connection to the property's server. Not for several threads."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    @classmethod
    def open(cls, host: str, port: int, timeout_s: float) -> TcpLine:
        """Connects. Raises LineNotOpened."""
        try:
            connection = socket.create_connection((host, port), min(timeout_s, CONNECT_TIMEOUT_S))
        except OSError as error:
            raise LineNotOpened(type(error).__name__) from error
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(connection)

    def send(self, data: bytes) -> None:
        """See Line."""
        try:
            self._connection.settimeout(CONNECT_TIMEOUT_S)
            self._connection.sendall(data)
        except OSError as error:
            raise LineBroken(type(error).__name__) from error

    def receive(self, timeout_s: float) -> bytes:
        """See Line."""
        try:
            self._connection.settimeout(max(timeout_s, 0.001))
            data = self._connection.recv(READ_BYTES)
        except TimeoutError:
            return b""
        except OSError as error:
            raise LineBroken(type(error).__name__) from error
        if not data:
            raise LineBroken("hung up")
        return data

    def close(self) -> None:
        """See Line."""
        self._connection.close()
