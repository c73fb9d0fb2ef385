"""One TTLock simulator for this folder; each test has an account, a gateway and three locks of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.vendors.ttlock.harness import TtlockSite, process


@pytest.fixture(scope="session")
def new_ttlock() -> Iterator[Callable[[], TtlockSite]]:
    with process() as make:
        yield make


@pytest.fixture
def site(new_ttlock: Callable[[], TtlockSite]) -> TtlockSite:
    return new_ttlock()
