"""A hotel on the TTLock simulator: account, gateways and locks of its own, and the questions a test asks there.

Rule: what opens is asked at the simulated lock; how often the vendor was called is counted by the simulator.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import subprocess
import sys
import time
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import urllib3

from tests.support.checkers import TtlockDoors
from tests.support.hotel import TIME_ZONE, Hotel, build_hotel

CAPABILITIES = {"mobile_key": True, "card_encoding": True, "pin": True, "remote_revoke": True, "remote_issue": True}
TIMEOUT_S = 1.0
"""Of a call through a gateway, and of one the cloud answers itself; 65 and 20 s in life."""


class CloudAt:
    """A simulator that runs somewhere."""

    def __init__(self, url: str, control: str) -> None:
        self.url, self.control = url, control

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        method = method or ("GET" if body is None else "POST")
        answer = urllib3.request(method, self.control + path, json=body)
        assert answer.status == 200, answer.data
        return answer.json()

    def applied(self, lock: str, path: str) -> int:
        """How many calls of a path were carried out at a lock, whatever the answer."""
        return len(self._applied(lock, path))

    def given(self, lock: str) -> int:
        """How many codes that could open were put into a lock. One whose period is over opens nothing: it asks the lock
        whether it holds the digits."""
        now_ms = time.time() * 1000
        return len([row for row in self._applied(lock, "keyboardPwd/add") if row["until"] is None or row["until"] > now_ms])

    def _applied(self, lock: str, path: str) -> list[dict[str, Any]]:
        rows = self.ask(f"/calls?lockId={lock}&limit=10000")["calls"]
        return [row for row in rows if row["applied"] and row["path"].endswith(path)]


class TtlockCloud(CloudAt):
    """The simulator as a process of its own, shared by the tests of a session."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "vendors.ttlock.simulator"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        ready = json.loads(self._process.stdout.readline())
        super().__init__(ready["url"], ready["control"])
        self.ask("/latency", {"gatewayMs": 0})

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class TtlockHotel:
    """Rooms 101 and 201, each floor with a gateway of its own, and one account. Its locks were paired with the house's time."""

    def __init__(self, cloud: CloudAt, **options: Any) -> None:
        self.cloud = cloud
        tail = secrets.token_hex(4)
        self.client_id = f"app{tail}"
        account = {
            "clientId": self.client_id, "clientSecret": secrets.token_hex(8), "username": f"owner{tail}@example.org",
            "password": secrets.token_hex(8),
        }  # fmt: skip
        gateways = cloud.ask("/seed", {"account": account, "gateways": [{"name": "floor 1"}, {"name": "floor 2"}]})["gateways"]
        self.gateways = [row["gatewayId"] for row in gateways]
        offset = datetime.now(ZoneInfo(options.get("time_zone", TIME_ZONE))).utcoffset()
        paired = {"timezoneRawOffset": int(offset.total_seconds() * 1000)} if offset is not None else {}
        wanted = [
            {"alias": label, "gatewayId": gateway, **paired}
            for label, gateway in zip(("101", "201"), self.gateways, strict=True)
        ]
        rows = cloud.ask("/seed", {"account": account, "locks": wanted})["locks"]
        self.locks = {row["alias"]: row["lockId"] for row in rows}
        self.hotel: Hotel = build_hotel(
            vendor="ttlock",
            settings={
                "base_url": cloud.url, "client_id": self.client_id, "timeout_s": TIMEOUT_S, "cloud_timeout_s": TIMEOUT_S
            },
            secrets={
                "client_secret": account["clientSecret"],
                "username": account["username"],
                "password_md5": hashlib.md5(account["password"].encode(), usedforsecurity=False).hexdigest(),
            },
            rooms={label: str(lock) for label, lock in self.locks.items()},
            gateways={str(row["lockId"]): str(row["gatewayId"]) for row in rows},
            capabilities=CAPABILITIES,
            calls_per_minute=6000,
            **options,
        )  # fmt: skip
        self.doors = TtlockDoors(cloud.ask, self.hotel.doors.values())

    def fault(self, **rule: Any) -> None:
        self.cloud.ask("/faults", {"clientId": self.client_id, **rule})

    def heal(self) -> None:
        self.cloud.ask(f"/faults?clientId={self.client_id}", method="DELETE")

    def gateway_online(self, online: bool, number: int = 0) -> None:
        self.cloud.ask("/gateway", {"gatewayId": self.gateways[number], "online": online})

    def calls(self, *paths: str) -> int:
        """How many requests reached the vendor, tokens apart."""
        rows = self.cloud.ask(f"/calls?clientId={self.client_id}&limit=10000")["calls"]
        return len([row for row in rows if "oauth" not in row["path"] and (not paths or row["path"].endswith(paths))])

    def done(self, path: str) -> int:
        """How many calls of a path were carried out, whatever the answer."""
        return sum(self.cloud.applied(lock, path) for lock in self.hotel.doors.values())
