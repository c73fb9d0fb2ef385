"""TTLock under the contract suite: the adapter over HTTP against the simulator."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from urllib.parse import urlencode

from tests.support import marked
from tests.vendors.proxy import Proxy
from tests.vendors.site import Harness, Simulator, Site, Trouble
from vendors.port.secrets import Token
from vendors.port.types import CredentialKind, Door

CHANGING = frozenset("add addForReversedCardNumber get send change changePeriod delete deleteByCode freeze unfreeze".split())


def is_changing(path: str) -> bool:
    return path.rpartition("/")[2] in CHANGING


class TtlockSite(Site):
    code = "ttlock"

    def __init__(self, simulator: Simulator, proxy: Proxy, count: int = 3) -> None:
        self.simulator = simulator
        self.proxy = proxy
        proxy.heal()
        tail = secrets.token_hex(4)
        self.client_id, self.username = f"app{tail}", f"owner{tail}@example.org"
        self.client_secret, self.password, self.webhook_secret = marked.token(), marked.token(), marked.token()
        self.locks = [{"alias": name} for name in ("101", "102", "ورودی اصلی", *(str(n) for n in range(104, 101 + count)))]
        seeded = simulator.post("/seed", self.seed_body())
        self.gateway = seeded["gateways"][0]["gatewayId"]
        self.doors = tuple(
            Door(f"lck_{row['lockId']}", str(row["lockId"]), label=row["alias"], gateway=str(row["gatewayId"]))
            for row in seeded["locks"]
        )
        for row in simulator.get(f"/dump?clientId={self.client_id}")["locks"]:
            for secret in row["secrets"].values():
                marked.plant(secret)
        super().__init__()

    def seed_body(self) -> dict[str, object]:
        return {
            "account": {
                "clientId": self.client_id,
                "clientSecret": self.client_secret,
                "username": self.username,
                "password": self.password,
            },
            "gateways": [{"name": "Floor 1"}],
            "locks": self.locks,
        }

    def settings(self) -> Mapping[str, object]:
        return {
            "base_url": self.proxy.url,
            "client_id": self.client_id,
            "timeout_s": 0.8,
            "cloud_timeout_s": 0.8,
        }

    def push_body(self) -> tuple[bytes, str]:
        lock, at = self.doors[0].external_id, int(time.time()) * 1000
        record = {
            "lockId": int(lock), "recordTypeFromLock": 7, "recordType": 4, "success": 0, "keyboardPwd": secrets.token_hex(3),
            "username": "", "lockDate": at, "serverDate": at,
        }  # fmt: skip
        fields = {"lockId": lock, "notifyType": "1", "admin": "x", "records": json.dumps([record])}
        return urlencode(fields).encode(), "application/x-www-form-urlencoded"

    def secrets(self) -> Mapping[str, str]:
        return {
            "client_secret": self.client_secret,
            "username": self.username,
            "password_md5": marked.plant(hashlib.md5(self.password.encode(), usedforsecurity=False).hexdigest()),
            "webhook_secret": self.webhook_secret,
        }

    def opens(self, door: Door, kind: CredentialKind, value: str, at: datetime | None = None) -> bool:
        body = {"device": door.external_id, "kind": kind, "value": value, "at": at.isoformat() if at else None}
        return bool(self.simulator.post("/try", body)["open"])

    def keys_at(self, door: Door) -> int:
        (lock,) = self.simulator.get(f"/dump?lockId={door.external_id}")["locks"]
        cloud, at_door = lock["cloud"], lock["door"]
        assert len(cloud["passcodes"]) == len(at_door["passcodes"]), "cloud and door disagree"
        assert len(cloud["cards"]) == len(at_door["cards"]), "cloud and door disagree"
        ekeys = [key for key in cloud["keys"] if str(key["keyStatus"]) != "110408"]
        return len(cloud["passcodes"]) + len(cloud["cards"]) + len(ekeys)

    def request_count(self) -> int:
        return len([path for path in self.proxy.paths if "oauth2" not in path])

    def kill_door(self, door: Door) -> None:
        # Per lock, and for eKeys as well, which need no gateway: the cloud refuses what concerns this lock.
        for path in ("keyboardPwd/add", "keyboardPwd/change", "keyboardPwd/delete", "key/send", "identityCard/add"):
            self.simulator.post(
                "/faults", {"path": f"{path}", "lockId": int(door.external_id), "errcode": -3002, "times": None}
            )

    def throttle(self) -> None:
        self.simulator.post("/faults", {"path": "*", "clientId": self.client_id, "errcode": 30006, "times": 1})

    def limit(self) -> None:
        self.throttle()

    def enlarged(self, count: int) -> Site:
        return TtlockSite(self.simulator, self.proxy, count)

    def trouble(self, trouble: Trouble, times: int = 1) -> None:
        self.proxy.trouble(trouble, times)

    def phone_of(self, token: Token) -> str:
        return str(json.loads(token.reveal())["username"])


@contextmanager
def process() -> Iterator[Callable[[], Site]]:
    simulator = Simulator.start("ttlock")
    simulator.post("/latency", {"gatewayMs": 0})
    proxy = Proxy(simulator.url, is_changing)
    try:
        yield lambda: TtlockSite(simulator, proxy)
    finally:
        proxy.stop()
        simulator.stop()


HARNESSES = {"ttlock": Harness(process, throttles=True, stepwise=True, enlarges=True, speaks_https=True)}
