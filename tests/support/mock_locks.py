"""The mock vendor's process for tests, and the questions one asks at its doors.

One rule: what opens is asked at the simulated door, never read from our tables.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from urllib.parse import urlencode

import urllib3


class MockLocks:
    """A mock vendor in a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-m", "vendors.mock.simulator"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        ready = json.loads(self._process.stdout.readline())
        self.setting: str = ready["setting"]
        self.control: str = ready["control"]
        self._http = urllib3.PoolManager()

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Speaks to the control port."""
        method = "GET" if body is None else "POST"
        answer = self._http.request(method, f"{self.control}{path}", json=body)
        assert answer.status == 200, answer.data
        return answer.json()

    def opens(self, door: str, pin: str, at: str | None = None) -> bool:
        """Says whether the digits open the door now, or at an instant."""
        body: dict[str, Any] = {"device": door, "kind": "pin_code", "value": pin, "dry": True}
        return bool(self.ask("/try", body | ({"at": at} if at else {}))["open"])

    def keys_at(self, door: str) -> list[dict[str, Any]]:
        """Returns what the lock holds."""
        return [key for row in self._at(door) for key in row["keys"]]

    def created_at(self, door: str) -> int:
        """Returns how many keys were ever made at the door."""
        return sum(int(row["created"]) for row in self._at(door))

    def calls(self, *doors: str) -> list[dict[str, Any]]:
        """Returns the requests that named one of the doors."""
        return [call for call in self.ask("/calls")["calls"] if set(call["doors"]) & set(doors)]

    def _at(self, door: str) -> list[dict[str, Any]]:
        """Returns the lock's row, or none for a lock that is not there. The others are many, and stay where they are."""
        rows: list[dict[str, Any]] = self.ask(f"/dump?{urlencode({'device': door})}")["doors"]
        return rows

    def stop(self) -> None:
        """Ends the process."""
        self._http.clear()
        self._process.kill()
        self._process.communicate()
