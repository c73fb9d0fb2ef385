"""Generic encoders under the contract suite: readers on a controller in the house, driven by a desk.

Stand-alone locks have tests of their own: what the suite asks of a door at once, such a lock does when a card tells it. What can
break here are the cables between desk and controller; the way from the service to the desk has tests in tests/relay.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from tests.support import marked
from tests.vendors.generic_wiegand.direct_relay import DirectRelay
from tests.vendors.proxy import Proxy
from tests.vendors.site import Harness, Simulator, Site, Trouble
from vendors.generic_wiegand.virtual_encoder import VirtualEncoder
from vendors.port.manifest import AdapterContext
from vendors.port.types import CredentialKind, Door, IssueInput, IssueResult

_numbers = itertools.count(secrets.randbelow(10**8) * 10 + 1)
TROUBLES = tuple(trouble for trouble in Trouble if trouble is not Trouble.DRIP_AFTER)


class WiegandSite(Site):
    code = "generic-wiegand"
    tells_battery_and_clock = False
    has_controller = True

    def __init__(self, simulator: Simulator, proxy: Proxy, count: int = 3) -> None:
        self.simulator = simulator
        self.proxy = proxy
        proxy.heal()
        self.house = f"hotel-{secrets.token_hex(4)}"
        self.webhook_secret = marked.token()
        self.property_number = secrets.randbelow(2**31) + 1
        self.numbers = [next(_numbers) for _ in range(count)]
        self.doors = tuple(Door(f"lck_{n}", str(n), label=f"Room {n}") for n in self.numbers)
        simulator.post("/seed", self.seed_body())
        self.relay = DirectRelay(VirtualEncoder(proxy.url, self.house, timeout_s=0.8))
        super().__init__()

    def seed_body(self) -> dict[str, Any]:
        return {
            "house": self.house,
            "propertyNumber": self.property_number,
            "controller": self.has_controller,
            "doors": [{"number": n, "label": f"Room {n}"} for n in self.numbers],
        }

    def settings(self) -> Mapping[str, object]:
        return {"locks": "controller", "property_number": self.property_number, "wait_s": 0.2}

    def secrets(self) -> Mapping[str, str]:
        return {"webhook_secret": self.webhook_secret}

    def context(self, **changes: Any) -> AdapterContext:
        return super().context(**{"relay": self.relay, **changes})

    def enlarged(self, count: int) -> Site:
        return type(self)(self.simulator, self.proxy, count)

    def presented(self, result: IssueResult, request: IssueInput) -> str:
        return request.card_number.reveal()  # a tag has a number as well

    def dump(self) -> dict[str, Any]:
        (house,) = self.simulator.get(f"/dump?house={self.house}")["houses"]
        return house

    def opens(self, door: Door, kind: CredentialKind, value: str, at: datetime | None = None) -> bool:
        return self.tried(door, kind, value, at) == "ok"

    def tried(self, door: Door, kind: CredentialKind, value: str, at: datetime | None = None) -> str:
        body = {"house": self.house, "device": door.external_id, "kind": kind, "value": value}
        return str(self.simulator.post("/try", body | {"at": at.isoformat() if at else None})["why"])

    def keys_at(self, door: Door) -> int:
        return next(len(row["keys"]) for row in self.dump()["doors"] if row["device"] == door.external_id)

    def request_count(self) -> int:
        return self.relay.submitted

    def kill_door(self, door: Door) -> None:
        self.simulator.post("/door", {"house": self.house, "device": door.external_id, "reachable": False})

    def trouble(self, trouble: Trouble, times: int = 1) -> None:
        self.proxy.trouble(trouble, times)


@contextmanager
def process() -> Iterator[Callable[[], Site]]:
    simulator = Simulator.start("generic-wiegand")
    proxy = Proxy(simulator.url)
    try:
        yield lambda: WiegandSite(simulator, proxy)
    finally:
        proxy.stop()
        simulator.stop()


HARNESSES = {"generic-wiegand": Harness(process, TROUBLES, enlarges=True)}
