"""A small HTTP/1.1 server on asyncio that can also misbehave on request.

One rule: it knows nothing of locks. A reply says how it is delivered: whole, cut, dripping, dropped or never.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

MAX_HEAD = 64 * 1024
MAX_BODY = 4 * 1024 * 1024
JSON_TYPE = "application/json;charset=UTF-8"
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    411: "Length Required",
    413: "Content Too Large",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


class Delivery(StrEnum):
    """What happens to an answer on its way."""

    WHOLE = "whole"
    DROP = "drop"  # the connection closes without a byte
    CUT = "cut"  # half of the body, then the connection closes
    DRIP = "drip"  # one byte per interval
    HANG = "hang"  # nothing at all until the client gives up


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `arrived_ms` is CLOCK_MONOTONIC when its first byte came, comparable between processes of a machine."""

    method: str
    path: str
    query: str
    body: bytes
    arrived_ms: float


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `interval_s` is the pause between bytes when dripping."""

    body: bytes
    status: int = 200
    content_type: str = JSON_TYPE
    delivery: Delivery = Delivery.WHOLE
    interval_s: float = 0.05


Handler = Callable[[Request], Awaitable[Reply]]


class HttpServer:
    """Listens on loopback and serves one request at a time per connection."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, port: int) -> int:
        """Binds 127.0.0.1 and returns the port taken; 0 asks for any free one. Raises OSError when it is in use."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", port, backlog=1024)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Closes the listener and every connection at once."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.end()
        await asyncio.sleep(0)


class _Connection(asyncio.Protocol):
    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._first_byte_ms = 0.0
        self._closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._closed.set()  # the work goes on: a vendor does not notice that its client left

    def data_received(self, data: bytes) -> None:
        if not self._buffer:
            self._first_byte_ms = time.monotonic() * 1000
        self._buffer += data
        if self._task is None:
            self._advance()

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    def _advance(self) -> None:
        """Takes the next complete request out of the buffer and starts it."""
        cut = self._buffer.find(b"\r\n\r\n")
        if cut < 0:
            if len(self._buffer) > MAX_HEAD:
                self._refuse(400)
            return
        request_line, *lines = bytes(self._buffer[:cut]).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        parts = request_line.split(" ")
        refusal = _refusal(parts, headers)
        if refusal:
            self._refuse(refusal)
            return
        end = cut + 4 + int(headers.get("content-length", "0"))
        if len(self._buffer) < end:
            return
        path, _, query = parts[1].partition("?")
        request = Request(parts[0], path, query, bytes(self._buffer[cut + 4 : end]), self._first_byte_ms)
        del self._buffer[:end]
        self._first_byte_ms = time.monotonic() * 1000
        keep = headers.get("connection", "").lower() != "close" and parts[2] == "HTTP/1.1"
        self._task = asyncio.get_running_loop().create_task(self._serve(request, keep=keep))

    async def _serve(self, request: Request, *, keep: bool) -> None:
        try:
            reply = await self._server.handler(request)
        except Exception:
            self._refuse(500)  # our own mistake: the loop writes the trace
            raise
        if not self._transport.is_closing():
            keep = await self._deliver(reply) and keep
            if not keep:
                self._transport.close()
        self._task = None
        if keep and self._buffer and not self._transport.is_closing():
            self._advance()

    async def _deliver(self, reply: Reply) -> bool:
        """Sends the answer the way it asks for; returns whether the connection may go on."""
        head = _head(reply)
        if reply.delivery is Delivery.WHOLE:
            self._transport.write(head + reply.body)
            return True
        if reply.delivery is Delivery.CUT:
            self._transport.write(head + reply.body[: len(reply.body) // 2])
        elif reply.delivery is Delivery.DRIP:
            await self._drip(head + reply.body, reply.interval_s)
        elif reply.delivery is Delivery.HANG:
            await self._closed.wait()
        return False

    async def _drip(self, data: bytes, interval_s: float) -> None:
        for index in range(len(data)):
            if self._transport.is_closing():
                return
            self._transport.write(data[index : index + 1])
            await asyncio.sleep(interval_s)

    def _refuse(self, status: int) -> None:
        self._transport.write(_head(Reply(b"", status)))
        self._transport.close()


def _refusal(parts: list[str], headers: dict[str, str]) -> int:
    """Returns the HTTP status that refuses this head, 0 when it is fine."""
    length = headers.get("content-length", "0")
    if len(parts) != 3 or not length.isdigit():
        return 400
    if "transfer-encoding" in headers:
        return 411
    return 413 if int(length) > MAX_BODY else 0


def _head(reply: Reply) -> bytes:
    reason = REASONS.get(reply.status, "Status")
    return (
        f"HTTP/1.1 {reply.status} {reason}\r\nContent-Type: {reply.content_type}\r\nContent-Length: {len(reply.body)}\r\n\r\n"
    ).encode("latin-1")
