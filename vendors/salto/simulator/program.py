"""Starts the simulator: `python -m vendors.simulate salto --port 0 --control-port 0`.

Prints one line of JSON when all ports listen: `url` (cloud REST), `connector` (the same behind mutual TLS), `control`. A
property's PMS port is opened by /seed and named in its answer. Ends on SIGTERM or Ctrl-C.

One rule: vendor side, connector and control listen on different ports, all of them on loopback.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .control import Control
from .rest import Answer, Request, handle, split_query
from .tls import Authority, property_in
from .world import World

MAX_REQUEST_BYTES = 1024 * 1024
HANDSHAKE_S = 5.0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120
    wbufsize = -1

    def handle_one_request(self) -> None:
        self.do_GET = self.do_POST = self.do_PATCH = self.do_DELETE = self._serve
        super().handle_one_request()

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_REQUEST_BYTES:
            self.close_connection = True
            self._send(Answer(413, {"code": "too_large"}))
            return
        raw = self.rfile.read(length)
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            self._send(Answer(400, {"code": "bad_request"}))
            return
        self._send(self.reply(body))

    def reply(self, body: Any) -> Answer:
        raise LookupError(self.path)

    def _send(self, answer: Answer) -> None:
        content = json.dumps(answer.body, ensure_ascii=False).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the server's name for it
        """Says nothing: paths and bodies are for the dump."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    tls: ssl.SSLContext | None = None

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, peer = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, peer

    def process_request_thread(self, request: Any, client_address: Any) -> None:
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


def serve(world: World, control: Control, authority: Authority, host: str, ports: Sequence[int]) -> list[_Server]:
    """Opens cloud, connector and control ports (0: any free one) and serves them in threads."""

    class Cloud(_Handler):
        def reply(self, body: Any) -> Answer:
            return self._asked(body, None)

        def _asked(self, body: Any, certified: str | None) -> Answer:
            path, query = split_query(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            with world.lock:
                return handle(world, Request(self.command, path, query, headers, body, certified))

    class Connector(Cloud):
        def reply(self, body: Any) -> Answer:
            return self._asked(body, property_in(self.connection.getpeercert()))

    class ControlSide(_Handler):
        def reply(self, body: Any) -> Answer:
            path, query = split_query(self.path)
            try:
                return Answer(200, control.serve(path, query, body))
            except (KeyError, ValueError, TypeError, LookupError) as error:
                return Answer(400, {"problem": f"{type(error).__name__}: {error}"})

    servers = [_Server((host, port), handler) for port, handler in zip(ports, (Cloud, Connector, ControlSide), strict=True)]
    servers[1].tls = authority.server_context()
    control.connector_url = f"https://{host}:{servers[1].server_address[1]}"
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return servers


def main(argv: Sequence[str] | None = None) -> int:
    """Runs until SIGTERM or Ctrl-C. Prints the addresses when ready."""
    parser = argparse.ArgumentParser(prog="vendors.salto.simulator", description="A simulated SALTO cloud, server and doors.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--connector-port", type=int, default=0)
    parser.add_argument("--control-port", type=int, default=0)
    options = parser.parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    world, authority = World(), Authority()
    control = Control(world, authority, options.host)
    servers = serve(world, control, authority, options.host, (options.port, options.connector_port, options.control_port))
    names = [f"{options.host}:{server.server_address[1]}" for server in servers]
    ready = {"url": f"http://{names[0]}", "connector": f"https://{names[1]}", "control": f"http://{names[2]}"}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    stop.wait()
    for server in servers:
        server.shutdown()
        server.server_close()
    control.close()
    return 0
