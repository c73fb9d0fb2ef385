"""Speaks JSON to a simulator's control port.

One rule: loopback only; a simulator is never anywhere else.
"""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from vendors.port.simulated import SimulatorRefused, SimulatorUnreachable

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
TIMEOUT_S = 30.0


class ControlPort:
    """One control port. Safe in threads: each request has a connection of its own, which costs little on loopback."""

    def __init__(self, url: str) -> None:
        """Notes the address. Raises ValueError for one that is not on this machine."""
        parts = urlsplit(url)
        if parts.hostname not in LOOPBACK or parts.port is None:
            raise ValueError("a simulator's control port is on loopback")
        self._host, self._port = parts.hostname, parts.port

    def get(self, path: str) -> dict[str, Any]:
        """Asks. Raises SimulatorUnreachable, SimulatorRefused."""
        return self._send("GET", path, None)

    def post(self, path: str, body: object) -> dict[str, Any]:
        """Tells. Raises SimulatorUnreachable, SimulatorRefused."""
        return self._send("POST", path, json.dumps(body).encode())

    def delete(self, path: str) -> dict[str, Any]:
        """Takes back. Raises SimulatorUnreachable, SimulatorRefused."""
        return self._send("DELETE", path, None)

    def _send(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"} if body else {}
        try:
            with closing(http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)) as connection:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                status, raw = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise SimulatorUnreachable(f"no simulator at {self._host}:{self._port}") from error
        document = json.loads(raw) if raw else {}
        if status != http.HTTPStatus.OK:
            reason = document.get("error") or document.get("problem") or f"status {status}"
            raise SimulatorRefused(f"{path}: {reason}")
        return document if isinstance(document, dict) else {"items": document}
