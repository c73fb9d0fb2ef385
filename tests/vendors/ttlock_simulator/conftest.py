"""One simulator for all tests of a worker; a tenant of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.vendors.ttlock_simulator.tenant import Simulator, Tenant


@pytest.fixture(scope="session")
def shared_simulator() -> Iterator[Simulator]:
    running = Simulator()
    yield running
    assert running.stop() == 0


@pytest.fixture
def simulator(shared_simulator: Simulator) -> Iterator[Simulator]:
    yield shared_simulator
    shared_simulator.control("DELETE", "/faults")
    shared_simulator.post("/clock", {"now": None})
    shared_simulator.post("/latency", {"cloudMs": None, "gatewayMs": 1, "wifiAsyncMs": 20, "strictGateways": None})


@pytest.fixture
def tenant(simulator: Simulator) -> Tenant:
    return Tenant(simulator)
