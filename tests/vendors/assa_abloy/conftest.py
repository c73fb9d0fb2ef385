"""One simulator for this folder; each test has a house of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.vendors.assa_abloy.harness import AssaSite, VisionlineSite, VostioSite, is_no_login
from tests.vendors.proxy import Proxy
from tests.vendors.site import Simulator

NewHouse = Callable[..., Any]


class StandaloneVisionline(VisionlineSite):
    """A house whose locks are off the network: they learn from cards alone."""

    online = False


class StandaloneVostio(VostioSite):
    online = False


@pytest.fixture(scope="session")
def assa() -> Iterator[tuple[Simulator, Proxy]]:
    simulator = Simulator.start("assa-abloy")
    proxy = Proxy(simulator.url, is_no_login)
    yield simulator, proxy
    proxy.stop()
    simulator.stop()


@pytest.fixture
def new_house(assa: tuple[Simulator, Proxy]) -> NewHouse:
    """Puts up a house: `new_house(StandaloneVisionline, cardWaitMs=50)`."""

    def build(kind: type[AssaSite], **seed: Any) -> AssaSite:
        return kind(*assa, **seed)

    yield build
    assa[0].post("/faults", {})
    assa[0].post("/clock", {"now": None})
