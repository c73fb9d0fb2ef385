"""A TCP proxy on loopback that delays, cuts and drips what goes through it.

Rule: it reads bytes and knows no protocol; what is to be cut, a test says by a predicate over what a client just sent.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

CHUNK = 65_536


class TcpProxy:
    """Forwards to `host:port` from a thread of its own.

    `latency_s` delays each piece in both directions. `cut_behind` is asked for each piece a client sent: True forwards the piece
    and closes both sides before any answer comes back. `hold_s` is asked likewise, and gives how many seconds the piece waits
    before it goes on. `drip_s` sends answers byte by byte, so many seconds apart. `linger_s` keeps a client's side open after the
    server has closed: a client that was stopped meanwhile then reads the server's last words before it learns of the end.
    """

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self.latency_s = 0.0
        self.drip_s = 0.0
        self.linger_s = 0.0
        self.cut_behind: Callable[[bytes], bool] = lambda piece: False
        self.hold_s: Callable[[bytes], float] = lambda piece: 0.0
        self.cuts = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut_all(self) -> None:
        """Closes every connection at once."""

        async def cut() -> None:
            for writer in list(self._open):
                writer.transport.abort()

        self._run(cut())

    def stop(self) -> None:
        async def end() -> None:
            self._server.close()
            for writer in list(self._open):
                writer.transport.abort()
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self._run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, up_writer}
        tasks = [
            asyncio.create_task(self._client_side(reader, up_writer)),
            asyncio.create_task(self._server_side(up_reader, writer)),
        ]
        with suppress(asyncio.CancelledError):  # asyncio would log a handler that was cancelled
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for one in (writer, up_writer):
            one.transport.abort()
        self._open -= {writer, up_writer}

    async def _client_side(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(CHUNK):
                await self._delay()
                await asyncio.sleep(self.hold_s(piece))
                writer.write(piece)
                await writer.drain()
                if self.cut_behind(piece):
                    self.cuts += 1
                    writer.write_eof()  # the server takes what was sent; nobody hears its answer
                    return

    async def _server_side(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(CHUNK):
                await self._delay()
                for part in [piece[i : i + 1] for i in range(len(piece))] if self.drip_s else [piece]:
                    writer.write(part)
                    await writer.drain()
                    if self.drip_s:
                        await asyncio.sleep(self.drip_s)
            await asyncio.sleep(self.linger_s)

    async def _delay(self) -> None:
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
