"""A proxy in front of the cloud that breaks the answers to changing requests; any method passes."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.vendors.proxy import Gate, _spoil
from tests.vendors.site import Trouble

METHODS = ("GET", "POST", "PATCH", "DELETE")


class RestProxy:
    """Forwards everything, until told otherwise for the next requests that are not GET."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream).netloc
        self._pending: list[Trouble] = []
        self._gate: Gate | None = None
        self._lock = threading.Lock()
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def log_message(self, *args: object) -> None:
                pass

        for method in METHODS:
            setattr(Handler, f"do_{method}", lambda handler, method=method: proxy._serve(handler, method))

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

    def trouble(self, trouble: Trouble, times: int) -> None:
        with self._lock:
            self._pending = [trouble] * times

    def heal(self) -> None:
        with self._lock:
            self._pending = []
            self._gate = None

    def hold(self) -> Gate:
        """Lets the next request that is not GET wait until the gate is opened."""
        with self._lock:
            self._gate = gate = Gate()
        return gate

    def _serve(self, handler: BaseHTTPRequestHandler, method: str) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in {"host", "connection"}}
        with self._lock:
            self.requests.append((method, handler.path, headers, body))
            trouble = self._pending.pop() if self._pending and method != "GET" else None
            gate = self._gate if method != "GET" else None
            self._gate = self._gate if method == "GET" else None
        if gate is not None:
            gate.wait()
        if trouble is not None and trouble.endswith("_before"):
            _spoil(handler, trouble, b"")
            return
        connection = http.client.HTTPConnection(self._upstream, timeout=30)
        try:
            connection.request(method, handler.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if trouble is None:
            _pass(handler, answer, content)
        else:
            _spoil(handler, trouble, content)


def _pass(handler: BaseHTTPRequestHandler, answer: http.client.HTTPResponse, content: bytes) -> None:
    handler.send_response(answer.status)
    for name, value in answer.headers.items():
        if name.lower() not in {"server", "date", "connection"}:
            handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content)
    handler.wfile.flush()
