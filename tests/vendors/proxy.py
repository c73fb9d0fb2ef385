"""A proxy in front of a vendor that breaks answers: resets, cuts, drips, HTML, nothing at all."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from tests.vendors.site import Trouble

HOP_HEADERS = frozenset({"connection", "keep-alive", "content-type", "content-length", "transfer-encoding"})
SILENCE_S = 1.5
"""Longer than any harness lets its adapter wait."""
HTML = b"<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>"


class Gate:
    """Where one request waits, on its way to the vendor, until it is let through."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def wait(self) -> None:
        self.arrived.set()
        self._open.wait(10)


class Proxy:
    """Forwards everything, until told otherwise for the next requests whose path `matches` and whose method is one of `methods`."""

    def __init__(
        self,
        upstream: str,
        matches: Callable[[str], bool] = lambda path: True,
        methods: frozenset[str] = frozenset({"POST", "PUT", "PATCH", "DELETE"}),
    ) -> None:
        self._upstream = urlsplit(upstream).netloc
        self._matches = matches
        self._methods = methods
        self._pending: list[Trouble] = []
        self._gate: Gate | None = None
        self._lock = threading.Lock()
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        """Method, path, headers and body of what came, oldest first."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_POST(self) -> None:
                proxy._serve(self)

            def do_GET(self) -> None:
                proxy._serve(self)

            def do_PUT(self) -> None:
                proxy._serve(self)

            def do_PATCH(self) -> None:
                proxy._serve(self)

            def do_DELETE(self) -> None:
                proxy._serve(self)

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """The client hung up, as it should."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def paths(self) -> list[str]:
        """The paths of what came."""
        return [path for _, path, _, _ in self.requests]

    @property
    def forms(self) -> list[tuple[str, dict[str, str]]]:
        """Paths with their bodies read as forms."""
        return [(path, dict(parse_qsl(body.decode(), keep_blank_values=True))) for _, path, _, body in self.requests]

    def trouble(self, trouble: Trouble, times: int) -> None:
        with self._lock:
            self._pending = [trouble] * times

    def heal(self) -> None:
        with self._lock:
            self._pending = []
            self._gate = None

    def hold(self) -> Gate:
        """Lets the next changing request wait until the gate is opened."""
        with self._lock:
            self._gate = gate = Gate()
        return gate

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in {"host", "connection"}}
        with self._lock:
            self.requests.append((handler.command, handler.path, headers, body))
            affected = handler.command in self._methods and self._matches(handler.path)
            trouble = self._pending.pop() if self._pending and affected else None
            gate = self._gate if affected else None
            self._gate = None if affected else self._gate
        if gate is not None:
            gate.wait()
        if trouble is not None and trouble.endswith("_before"):
            _spoil(handler, trouble, b"")
            return
        connection = http.client.HTTPConnection(self._upstream, timeout=30)
        try:
            connection.request(handler.command, handler.path, body or None, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            handler.close_connection = True
            return
        finally:
            connection.close()
        if trouble is None:
            kept = {n: v for n, v in answer.getheaders() if n.lower() not in HOP_HEADERS}
            _answer(handler, answer.status, answer.getheader("Content-Type", "application/json"), content, kept)
        else:
            _spoil(handler, trouble, content)


def _answer(
    handler: BaseHTTPRequestHandler, status: int, kind: str, content: bytes, headers: Mapping[str, str] | None = None
) -> None:
    handler.send_response_only(status)
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)
    handler.wfile.flush()


_ANSWERS = {
    Trouble.HTML_BEFORE: (200, "text/html", HTML),
    Trouble.HTML_AFTER: (200, "text/html", HTML),
    Trouble.WORDLESS_BEFORE: (200, "application/json", b'{"weird": 1}'),
    Trouble.EMPTY_AFTER: (200, "application/json", b""),
    Trouble.ERROR_500_AFTER: (502, "text/html", HTML),
}


def _spoil(handler: BaseHTTPRequestHandler, trouble: Trouble, content: bytes) -> None:
    if trouble in _ANSWERS:
        _answer(handler, *_ANSWERS[trouble])
    elif trouble is Trouble.DRIP_AFTER:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n"
        for byte in head + b" " * 9000:
            handler.connection.send(bytes([byte]))
            time.sleep(0.03)
    elif trouble is Trouble.GARBAGE_AFTER:
        handler.connection.sendall(b"\x16\x03\x01\x00\xff\x00GARBAGE\r\n\r\n" + bytes(range(256)))
        handler.close_connection = True
    elif trouble is Trouble.HALF_CLOSED_AFTER:
        handler.connection.shutdown(socket.SHUT_WR)
        time.sleep(0.1)
        handler.close_connection = True
    elif trouble is Trouble.SILENT_AFTER:
        time.sleep(SILENCE_S)
        handler.close_connection = True
    elif trouble is Trouble.CUT_AFTER:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        handler.connection.sendall(head + content[: len(content) // 2])
        handler.close_connection = True
    else:
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.close_connection = True
        handler.connection.close()
