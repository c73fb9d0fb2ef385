"""A proxy that changes a vendor's answers to questions for lists of keys: empty ones, and ones that never end.

Rule: it stands between the service and the simulator; hands at the doors ask the simulator itself.
"""

from __future__ import annotations

import http.client
import itertools
import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.reconcile.wires import WIRES, Wire
from tests.vendors.proxy import HOP_HEADERS
from tests.vendors.site import Simulator

Lie = Callable[[dict[str, Any]], None]
"""Changes a list's document in place."""
_LISTS = ("/v3/lock/listKeyboardPwd", "/api/keys?", "/access-grants?")
_MADE_UP = re.compile(r"(cursor|pageToken)=again-[0-9]+")
_bases = itertools.count(60_000)


class Liar:
    """Forwards everything; `lie` changes what a question for a list of keys is answered. `asked` counts such questions."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream).netloc
        self.lie: Lie | None = None
        self.asked = 0
        liar = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                liar._serve(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the library's names

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in {"host", "connection"}}
        connection = http.client.HTTPConnection(self._upstream, timeout=30)
        try:
            path = _MADE_UP.sub("", handler.path)  # the simulator would refuse what it has not made
            connection.request(handler.command, path, body or None, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        is_list = any(path in handler.path for path in _LISTS) and (handler.command == "GET" or "/v3/" in handler.path)
        if is_list and answer.status == 200:
            self.asked += 1
            if self.lie is not None:
                document = json.loads(content)
                self.lie(document)
                content = json.dumps(document).encode()
        handler.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_HEADERS:
                handler.send_header(name, value)
        handler.send_header("Content-Type", answer.getheader("Content-Type", "application/json"))
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)
        handler.wfile.flush()


class Site:
    """A simulator, a liar before it, and houses that speak to the liar."""

    def __init__(self, name: str) -> None:
        self._wire = WIRES[name]
        self.simulator = Simulator.start(self._wire.code)
        self.liars: list[Liar] = []

    def house(self) -> tuple[Wire, Liar]:
        """Builds a house with rooms 101 and 102, and a liar of its own."""
        liar = Liar(self.simulator.url)
        self.liars.append(liar)
        honest = self._wire

        class Lied(honest):  # type: ignore[misc, valid-type]
            def settings(self) -> dict[str, object]:
                return {**honest.settings(self), "base_url": liar.url}

        return Lied(self.simulator, next(_bases)), liar

    def stop(self) -> None:
        for liar in self.liars:
            liar.stop()
        self.simulator.stop()


def empty(document: dict[str, Any]) -> None:
    """Nothing is there."""
    for name in ("list", "items"):
        if name in document:
            document[name] = []
    for name in ("next", "nextPageToken"):
        document.pop(name, None)


class Repeating:
    """The same key on every page, and always one more page."""

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._pages = itertools.count(1)

    def __call__(self, document: dict[str, Any]) -> None:
        name = "list" if "list" in document else "items"
        self._kept = document[name][:1] or self._kept
        document[name] = self._kept * (200 if name == "list" else 1)
        if name == "items":
            document["next"] = document["nextPageToken"] = f"again-{next(self._pages)}"
