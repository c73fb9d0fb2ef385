"""One simulator for this folder; each test has a hotel of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.vendors.proxy import Proxy
from tests.vendors.salto.hotel import Hotel
from tests.vendors.site import Simulator


@pytest.fixture(scope="session")
def salto_process() -> Iterator[Simulator]:
    simulator = Simulator.start("salto")
    yield simulator
    simulator.stop()


@pytest.fixture
def simulator(salto_process: Simulator) -> Iterator[Simulator]:
    yield salto_process
    salto_process.post("/faults", {})
    salto_process.post("/clock", {"now": None})


@pytest.fixture(scope="session")
def salto_proxy(salto_process: Simulator) -> Iterator[Proxy]:
    proxy = Proxy(salto_process.url)
    yield proxy
    proxy.stop()


@pytest.fixture
def new_hotel(simulator: Simulator, salto_proxy: Proxy) -> Callable[..., Hotel]:
    return lambda **settings: Hotel(simulator, salto_proxy, **settings)


@pytest.fixture
def hotel(new_hotel: Callable[..., Hotel]) -> Hotel:
    """Over the cloud."""
    return new_hotel()


@pytest.fixture
def pms(new_hotel: Callable[..., Hotel]) -> Hotel:
    """Over the PMS protocol."""
    return new_hotel(transport="pms")
