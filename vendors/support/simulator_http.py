"""A small HTTP server for both sides of a simulator; it can also hang up without an answer.

One rule: loopback only, and it knows nothing of locks. No adapter uses it.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_REQUEST_BYTES = 1024 * 1024
HANDSHAKE_S = 5.0
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case, `target` is path and query as sent. `certificate` is the client's, as
    `ssl` tells it, where the port asks for one."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    certificate: object = None

    @property
    def path(self) -> str:
        """Returns the target without its query."""
        return self.target.partition("?")[0]

    def json(self) -> dict[str, Any]:
        """Returns the body as a JSON object, empty for none. Raises ValueError for anything else."""
        document = json.loads(self.body) if self.body else {}
        if not isinstance(document, dict):
            raise ValueError("a JSON object is expected")  # noqa: TRY004 - what came is at fault
        return document


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `is_dropped`: the connection closes without a byte."""

    status: int
    document: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_dropped: bool = False


def serve(
    handle: Callable[[Request], Reply], port: int, host: str = LOOPBACK, tls: ssl.SSLContext | None = None
) -> ThreadingHTTPServer:
    """Listens (port 0: any free one) and serves in threads, behind TLS where a context is given."""

    class Handler(_Handler):
        def answer_to(self, request: Request) -> Reply:
            return handle(request)

    server = _Server((host, port), Handler)
    server.tls = tls
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120
    wbufsize = -1  # one segment an answer; unbuffered writes cost 40 ms each with delayed acknowledgement

    def answer_to(self, request: Request) -> Reply:
        raise LookupError(request.target)

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_REQUEST_BYTES:
            self.close_connection = True
            self._answer(Reply(413, {"error": "too large"}))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        certificate = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        reply = self.answer_to(Request(self.command, self.path, headers, self.rfile.read(length), certificate))
        if reply.is_dropped:
            self.close_connection = True
        else:
            self._answer(reply)

    def _answer(self, reply: Reply) -> None:
        content = b"" if reply.document is None else json.dumps(reply.document, ensure_ascii=False).encode()
        self.send_response_only(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if content:
            self.send_header("Content-Type", "application/json")
        if reply.status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the server's name for it
        """Says nothing: bodies and paths are for the dump, not for a terminal."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    tls: ssl.SSLContext | None = None

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, peer = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, peer

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Shakes hands in the connection's own thread, so that a slow caller holds up nobody."""
        if self.tls is not None:
            request.settimeout(HANDSHAKE_S)
            try:
                request = self.tls.wrap_socket(request, server_side=True)
            except OSError:
                request.close()
                return
        super().process_request_thread(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hangs up is no news; anything else is printed as usual."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
