"""SALTO under the contract suite: the cloud's REST contract against the simulator, at on-line doors.

Stand-alone doors, the connector and the PMS protocol have tests of their own: what the suite asks of a door at once,
a stand-alone door of this vendor does when a card tells it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from tests.support import marked
from tests.vendors.proxy import Proxy
from tests.vendors.site import Harness, Simulator, Site, Trouble
from vendors.port.secrets import Token
from vendors.port.types import CredentialKind, Door, IssueInput, IssueResult
from vendors.salto.answers import LIVE

ENCODER = "Front desk"


class SaltoSite(Site):
    code = "salto"
    online = True

    def __init__(self, simulator: Simulator, proxy: Proxy, count: int = 3, time_zone: str = "Asia/Kabul") -> None:
        self.time_zone = time_zone
        self.simulator = simulator
        self.proxy = proxy
        proxy.heal()
        self.property = f"hotel-{secrets.token_hex(4)}"
        self.api_key, self.webhook_secret = marked.token(), marked.token()
        names = [f"{self.property}-{number}" for number in range(101, 101 + count)]
        self.doors = tuple(Door(f"lck_{name}", name, label=f"Room {name[-3:]}") for name in names)
        self.seeded = simulator.post("/seed", self.seed_body())
        super().__init__()

    @property
    def first_kind(self) -> CredentialKind:
        return CredentialKind.PIN_CODE

    def signed_push(self, secret: Token, body: bytes, now: datetime) -> Mapping[str, str]:
        seconds = str(int(now.timestamp()))
        mac = hmac.new(secret.reveal().encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
        return {"X-Salto-Timestamp": seconds, "X-Salto-Signature": f"v1={mac}"}

    def push_body(self) -> tuple[bytes, str]:
        body = {
            "id": secrets.token_hex(6), "type": "access.denied", "occurredAt": datetime.now(UTC).isoformat(),
            "propertyId": self.property, "data": {"door": self.doors[0].external_id, "operation": 93, "kind": "rfid_card"},
        }  # fmt: skip
        return json.dumps(body).encode(), "application/json"

    def seed_body(self) -> dict[str, object]:
        return {
            "property": self.property,
            "timeZone": self.time_zone,
            "apiKeys": [self.api_key],
            "webhookSecret": self.webhook_secret,
            # A stay runs in each room, which companions' keys can join.
            "doors": [{"name": d.external_id, "label": d.label, "online": self.online, "occupied": True} for d in self.doors],
            "encoders": [{"name": ENCODER, "automatic": True}],
        }

    def settings(self) -> Mapping[str, object]:
        return {
            "transport": "cloud",
            "base_url": self.proxy.url,
            "property_ref": self.property,
            "encoder": ENCODER,
            "timeout_s": 0.8,
        }

    def secrets(self) -> Mapping[str, str]:
        return {"api_key": self.api_key, "webhook_secret": self.webhook_secret}

    def presented(self, result: IssueResult, request: IssueInput) -> str:
        if result.kind is not CredentialKind.RFID_CARD:
            return super().presented(result, request)
        ref = next(r.ref.reveal() for r in result.doors if r.ref is not None)
        return self.card_of(ref)

    def card_of(self, ref: str) -> str:
        return str(next(key["carrier"] for key in self.dump()["keys"] if key["cardRef"] == ref))

    def dump(self) -> dict:
        return self.simulator.get(f"/dump?property={self.property}")["properties"][0]

    def opens(self, door: Door, kind: CredentialKind, value: str, at: datetime | None = None) -> bool:
        body = {
            "property": self.property,
            "device": door.external_id,
            "kind": kind,
            "value": value,
            "at": at.isoformat() if at else None,
        }
        return bool(self.simulator.post("/try", body)["open"])

    def keys_at(self, door: Door) -> int:
        return len([key for key in self.dump()["keys"] if door.external_id in key["rooms"] and key["status"] in LIVE])

    def request_count(self) -> int:
        return len(self.proxy.requests)

    def kill_door(self, door: Door) -> None:
        self.simulator.post("/faults", {"property": self.property, "device": door.external_id, "code": "door_offline"})

    def throttle(self) -> None:
        body = {"surface": "rest", "property": self.property, "method": "POST", "code": "rate_limited", "times": 1}
        self.simulator.post("/faults", body)

    def limit(self) -> None:
        self.simulator.post("/faults", {"surface": "rest", "property": self.property, "code": "rate_limited", "times": 1})

    def enlarged(self, count: int) -> Site:
        return type(self)(self.simulator, self.proxy, count)

    def in_zone(self, zone: str) -> Site:
        return type(self)(self.simulator, self.proxy, time_zone=zone)

    def trouble(self, trouble: Trouble, times: int = 1) -> None:
        self.proxy.trouble(trouble, times)


@contextmanager
def process() -> Iterator[Callable[[], Site]]:
    simulator = Simulator.start("salto")
    proxy = Proxy(simulator.url)
    try:
        yield lambda: SaltoSite(simulator, proxy)
    finally:
        proxy.stop()
        simulator.stop()


HARNESSES = {"salto": Harness(process, throttles=True, stepwise=True, enlarges=True, speaks_https=True)}
