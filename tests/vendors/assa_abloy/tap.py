"""A tap on a TCP line: bytes pass unchanged both ways, and what the client sent is kept."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit


class Tap:
    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self._stopped = threading.Event()
        self._sockets: list[socket.socket] = []
        self._sent = bytearray()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._listener.close()
        for line in self._sockets:
            line.close()

    def requests(self) -> list[tuple[list[str], bytes]]:
        """The requests so far: head lines, body."""
        rest, found = bytes(self._sent), []
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            length = next((int(line.partition(":")[2]) for line in lines if line.lower().startswith("content-length:")), 0)
            found.append((lines, rest[:length]))
            rest = rest[length:]
        return found

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            client.settimeout(None)
            server = socket.create_connection(self._upstream)
            self._sockets += [client, server]
            threading.Thread(target=self._pass, args=(client, server, self._sent), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, bytearray()), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, kept: bytearray) -> None:
        with suppress(OSError):
            while chunk := source.recv(65536):
                kept += chunk
                target.sendall(chunk)
            target.shutdown(socket.SHUT_WR)
