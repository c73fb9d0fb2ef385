"""Speaks JSON to a simulator's control port, over one connection that is kept.

One rule: loopback only; a simulator is never anywhere else.
"""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any
from urllib.parse import urlsplit

from vendors.port.simulated import SimulatorRefused, SimulatorUnreachable

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
TIMEOUT_S = 30.0


class ControlPort:
    """One control port. Safe in threads, one request at a time."""

    def __init__(self, url: str) -> None:
        """Notes the address. Raises ValueError for one that is not on this machine."""
        parts = urlsplit(url)
        if parts.hostname not in LOOPBACK or parts.port is None:
            raise ValueError("a simulator's control port is on loopback")
        self._host, self._port = parts.hostname, parts.port
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str) -> dict[str, Any]:
        """Asks. Raises SimulatorUnreachable, SimulatorRefused."""
        return self._send("GET", path, None)

    def post(self, path: str, body: object) -> dict[str, Any]:
        """Tells. Raises SimulatorUnreachable, SimulatorRefused."""
        return self._send("POST", path, json.dumps(body).encode())

    def _send(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        with self._lock:
            try:
                status, raw = self._once(method, path, body)
            except (OSError, http.client.HTTPException):
                self._forget()
                try:  # a kept connection may have been closed since; a fresh one tells
                    status, raw = self._once(method, path, body)
                except (OSError, http.client.HTTPException) as error:
                    self._forget()
                    raise SimulatorUnreachable(f"no simulator at {self._host}:{self._port}") from error
        document = json.loads(raw) if raw else {}
        if status != http.HTTPStatus.OK:
            reason = document.get("error") or document.get("problem") or f"status {status}"
            raise SimulatorRefused(f"{path}: {reason}")
        return document if isinstance(document, dict) else {"items": document}

    def _once(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        self._connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
