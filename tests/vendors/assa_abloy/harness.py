"""ASSA ABLOY under the contract suite: both products over HTTP against the simulator, at doors on the network."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.support import marked
from tests.vendors.proxy import Proxy
from tests.vendors.site import Harness, Simulator, Site, Trouble
from vendors.assa_abloy.vostio_push import sign as sign_push
from vendors.port.errors import DeviceNotPaired, Reason
from vendors.port.secrets import Token
from vendors.port.types import CredentialKind, Door, IssueInput, IssueResult
from vendors.support.marks import tag_of

LOGINS = ("/oauth2/token", "/sessions")
HELD = frozenset({"active", "suspended", "issuing"})


def is_no_login(path: str) -> bool:
    return not path.partition("?")[0].endswith(LOGINS)


class AssaSite(Site):
    """A house of its own at the simulator. `online` puts its rooms on the network."""

    code = "assa-abloy"
    # One key is for all doors: what fails at one door is that the vendor does not know it.
    dead_door_answer = (DeviceNotPaired, Reason.OTHER, False)
    tells_battery_and_clock = False
    online = True
    time_zone = "UTC"

    def __init__(
        self, simulator: Simulator, proxy: Proxy, *, count: int = 3, time_zone: str | None = None, **seed: Any
    ) -> None:
        self.time_zone = time_zone or self.time_zone
        self.simulator = simulator
        self.proxy = proxy
        proxy.heal()
        tail = secrets.token_hex(4)
        self.house = f"hotel-{tail}"
        self.client_secret, self.password, self.webhook_secret = marked.token(), marked.token(), marked.token()
        self.names = {f"{tail}{n}": self.name(n, tail) for n in range(101, 101 + count)}
        self.doors = tuple(
            Door(f"lck_{door_id}", self.address(door_id), label=name, has_remote=self.online)
            for door_id, name in self.names.items()
        )
        simulator.post("/seed", self.seed_body() | seed)
        super().__init__()

    def name(self, number: int, tail: str) -> str:
        return str(number)

    def address(self, door_id: str) -> str:
        """What calls name the door by."""
        return door_id

    def seed_body(self) -> dict[str, Any]:
        return {
            "code": self.house,
            "clientId": f"api-{self.house}",
            "clientSecret": self.client_secret,
            "username": f"operator-{self.house}",
            "password": self.password,
            "webhookSecret": self.webhook_secret,
            "timeZone": self.time_zone,
            "rateLimit": None,
            "doors": [{"doorId": d, "name": n, "online": self.online} for d, n in self.names.items()],
            "encoders": [{"name": "desk-1", "feeds": True}, {"name": "desk-2"}],
        }

    def opens(self, door: Door, kind: CredentialKind, value: str, at: datetime | None = None) -> bool:
        return self.tried(door, kind, value, at) == "granted"

    def tried(self, door: Door, kind: CredentialKind, value: str, at: datetime | None = None) -> str:
        body = {"device": door.external_id, "kind": kind, "value": value, "at": at.isoformat() if at else None}
        return str(self.simulator.post("/try", body)["why"])

    def dump(self) -> dict[str, Any]:
        (house,) = self.simulator.get(f"/dump?house={self.house}")["houses"]
        return house

    def keys_at(self, door: Door) -> int:
        house = self.dump()
        called = {self.address(lock["device"]): lock["device"] for lock in house["locks"]}
        rows = [key for key in house["vendor"] if called.get(door.external_id) in key["guest"] and key["status"] in HELD]
        return len(rows)

    def request_count(self) -> int:
        return len([path for path in self.proxy.paths if is_no_login(path)])

    def kill_door(self, door: Door) -> None:
        self.simulator.post("/doors", {"device": door.external_id, "removed": True})

    def limit(self) -> None:
        self.simulator.post("/trouble", {"effect": "throttled", "times": 1})

    def enlarged(self, count: int) -> Site:
        return type(self)(self.simulator, self.proxy, count=count)

    def in_zone(self, zone: str) -> Site:
        return type(self)(self.simulator, self.proxy, time_zone=zone)

    def trouble(self, trouble: Trouble, times: int = 1) -> None:
        self.proxy.trouble(trouble, times)

    def presented(self, result: IssueResult, request: IssueInput) -> str:
        if result.kind is CredentialKind.MOBILE_APP:
            return self.phone_of(result.artifact.value)  # type: ignore[union-attr]
        tag = tag_of(request.credential_id).removeprefix("c-")
        return [str(key["serial"]) for key in self.dump()["vendor"] if key["label"].endswith(tag)][-1]

    def phone_of(self, token: Token) -> str:
        """The guest's app redeems its invitation, where it has one; the phone then opens with this key."""
        held = json.loads(token.reveal())
        (phone,) = [p for p in self.dump()["phones"] if p["endpointId"] == held["endpointId"]]
        if phone["status"] == "invited":
            self.simulator.post("/phones", {"invitationCode": held["invitationCode"]})
        return f"{held['endpointId']}#{held['key']}"


class VostioSite(AssaSite):
    def throttle(self) -> None:
        body = {
            "path": "/access-grants",
            "method": "POST",
            "status": 429,
            "code": "rate_limited",
            "times": 1,
            "house": self.house,
        }
        self.simulator.post("/faults", body)

    def settings(self) -> Mapping[str, object]:
        return {
            "mode": "vostio",
            "base_url": self.proxy.url,
            "property_id": self.house,
            "client_id": f"api-{self.house}",
            "encoder": "desk-1",
            "timeout_s": 0.8,
        }

    def secrets(self) -> Mapping[str, str]:
        return {"client_secret": self.client_secret, "webhook_secret": self.webhook_secret}

    def push_body(self) -> tuple[bytes, str]:
        body = {
            "eventId": secrets.token_hex(6), "type": "access.denied", "environmentId": self.house,
            "occurredAt": datetime.now(UTC).isoformat(), "data": {"doorId": self.doors[0].external_id, "reason": "expired"},
        }  # fmt: skip
        return json.dumps(body).encode(), "application/json"

    def signed_push(self, secret: Token, body: bytes, now: datetime) -> Mapping[str, str]:
        timestamp = str(int(now.timestamp()))
        return {"X-Vostio-Timestamp": timestamp, "X-Vostio-Signature": sign_push(secret, timestamp, body)}


class VisionlineSite(AssaSite):
    keeps_resting_keys = False  # the server knows no rest: the key is cancelled and made again

    def settings(self) -> Mapping[str, object]:
        return {
            "mode": "visionline",
            "base_url": self.proxy.url,
            "time_zone": self.time_zone,
            "encoder": "desk-1",
            "timeout_s": 0.8,
            "encode_timeout_s": 0.8,
        }

    def secrets(self) -> Mapping[str, str]:
        return {
            "username": f"operator-{self.house}",
            "password": self.password,
            "webhook_secret": self.webhook_secret,
        }

    def push_body(self) -> tuple[bytes, str]:
        event = {
            "id": secrets.token_hex(6), "door": self.doors[0].external_id, "granted": False, "reason": "expired",
            "time": datetime.now(UTC).isoformat(),
        }  # fmt: skip
        return json.dumps({"events": [event]}).encode(), "application/json"


class NamedVisionlineSite(VisionlineSite):
    """A server that speaks as its public clients show it: doors by name, numbers for ids and types, a card's end as booleans."""

    def name(self, number: int, tail: str) -> str:
        return f"{number}Z {tail}"

    def address(self, door_id: str) -> str:
        return self.names[door_id]

    def seed_body(self) -> dict[str, Any]:
        return super().seed_body() | {"namesDoors": True}

    def settings(self) -> Mapping[str, object]:
        return {**super().settings(), "door_types": {"1": "guest", "2": "common", "3": "entrance", "4": "elevator"}}


def running(site: Callable[[Simulator, Proxy], Site]) -> Callable[[], Any]:
    @contextmanager
    def process() -> Iterator[Callable[[], Site]]:
        simulator = Simulator.start("assa-abloy")
        proxy = Proxy(simulator.url, is_no_login)
        try:
            yield lambda: site(simulator, proxy)
        finally:
            proxy.stop()
            simulator.stop()

    return process


HARNESSES = {
    "assa vostio": Harness(running(VostioSite), throttles=True, stepwise=True, enlarges=True, speaks_https=True),
    "assa visionline": Harness(running(VisionlineSite), stepwise=True, enlarges=True, speaks_https=True),
    "assa visionline named": Harness(
        running(NamedVisionlineSite), stepwise=True, enlarges=True, speaks_https=True, runs_again=True
    ),
}
