"""The mock under the contract suite: in this process, and as a process of its own."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from tests.support import marked
from tests.vendors.proxy import Proxy
from tests.vendors.site import Harness, Simulator, Site, Trouble
from vendors.mock.adapter import MockLockPort
from vendors.mock.cloud import MockCloud
from vendors.port.protocol import LockPort
from vendors.port.types import CredentialKind, Door

_PROFILES = {Trouble.RESET_BEFORE: "cut", Trouble.RESET_AFTER: "lost"}


class MockSite(Site):
    code = "mock"

    def __init__(self, count: int = 3) -> None:
        tail = secrets.token_hex(3)
        self.doors = tuple(Door(f"lck_{n}", f"m{tail}{n}", label=f"{n}") for n in range(101, 101 + count))
        self.query = ""
        self.webhook_secret = marked.token()
        super().__init__()

    def settings(self) -> Mapping[str, object]:
        return {"url": f"mock://{self.host()}?{self.query}", "timeout_s": 0.8}

    def host(self) -> str:
        return ""

    def secrets(self) -> Mapping[str, str]:
        return {"webhook_secret": self.webhook_secret}

    def seeds(self) -> list[dict[str, object]]:
        return [{"externalId": d.external_id, "label": d.label} for d in self.doors]

    def throttle(self) -> None:
        self.query = "fail=issue&reason=rate&times=1"
        self.refresh()

    def kill_door(self, door: Door) -> None:
        self.query = f"deadDoors={door.external_id}"
        self.refresh()


class InProcessSite(MockSite):
    def __init__(self, count: int = 3) -> None:
        super().__init__(count)
        self.cloud = MockCloud(self.clock.now)
        self.cloud.ledger.seed(self.seeds(), additive=True)

    def enlarged(self, count: int) -> Site:
        return InProcessSite(count)

    def build(self) -> LockPort:
        return MockLockPort(self.context(), self.cloud)

    def opens(self, door: Door, kind: CredentialKind, value: str, at: datetime | None = None) -> bool:
        return self.cloud.ledger.open(door.external_id, kind, value, at=at, dry=False)[0]

    def keys_at(self, door: Door) -> int:
        return len(self.cloud.ledger.door(door.external_id).keys)

    def request_count(self) -> int:
        return len(self.cloud.calls)

    def trouble(self, trouble: Trouble, times: int = 1) -> None:
        self.query = f"{_PROFILES[trouble]}={times}"
        self.refresh()


class ProcessSite(MockSite):
    def __init__(self, simulator: Simulator, proxy: Proxy, count: int = 3) -> None:
        self.simulator = simulator
        self.proxy = proxy
        super().__init__(count)
        proxy.heal()
        simulator.post("/seed", {"doors": self.seeds(), "additive": True})

    def enlarged(self, count: int) -> Site:
        return ProcessSite(self.simulator, self.proxy, count)

    def host(self) -> str:
        return self.proxy.url.removeprefix("http://")

    def opens(self, door: Door, kind: CredentialKind, value: str, at: datetime | None = None) -> bool:
        body = {"device": door.external_id, "kind": kind, "value": value, "at": at.isoformat() if at else None}
        return bool(self.simulator.post("/try", body)["open"])

    def keys_at(self, door: Door) -> int:
        (row,) = self.simulator.get(f"/dump?device={door.external_id}")["doors"]
        return len(row["keys"])

    def request_count(self) -> int:
        return len(self.proxy.paths)

    def trouble(self, trouble: Trouble, times: int = 1) -> None:
        self.proxy.trouble(trouble, times)


@contextmanager
def in_process() -> Iterator[Callable[[], Site]]:
    yield InProcessSite


@contextmanager
def process() -> Iterator[Callable[[], Site]]:
    simulator = Simulator.start("mock")
    proxy = Proxy(simulator.url)
    try:
        yield lambda: ProcessSite(simulator, proxy)
    finally:
        proxy.stop()
        simulator.stop()


HARNESSES = {
    "mock in-process": Harness(in_process, tuple(_PROFILES), throttles=True, enlarges=True, runs_again=True),
    "mock": Harness(process, throttles=True, enlarges=True),
}
