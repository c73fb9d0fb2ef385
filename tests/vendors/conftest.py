"""Every vendor's harness, found by its manifest: a new vendor adds one folder here.

A test that asks for `kind` runs for every kind its vendor's manifest names; one that asks for `trouble`, for every trouble its
harness can go through; one that asks for `harness` is told which one it runs on. The marks of `tests/vendors/asking.py` narrow it.
`tests/vendors/matrix.py` says which cases `make test` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.vendors import matrix
from tests.vendors.site import Harness, Site
from tests.vendors.stranger import Stranger


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Pairs each harness with what its vendor can do, so that nothing is skipped and nothing is forgotten."""
    if "new_site" not in metafunc.fixturenames:
        return
    wants = [name for name in ("kind", "trouble") if name in metafunc.fixturenames]
    rows = matrix.cases(metafunc.function, wants)
    metafunc.parametrize(["harness", *wants], rows, indirect=["harness"])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that `make test` leaves to `make chaos`, before the marks are looked at."""
    for item in items:
        if matrix.is_left_to_chaos(item):
            item.add_marker(pytest.mark.chaos)


@pytest.fixture
def harness(request: pytest.FixtureRequest) -> Harness:
    found: Harness = request.param
    return found


@pytest.fixture(scope="session")
def open_harness() -> Iterator[Callable[[Harness], Callable[[], Site]]]:
    """Give what opens a harness once and keeps it open: tests come in any order, and a simulator takes long to start."""
    opened: dict[Harness, Callable[[], Site]] = {}
    with ExitStack() as running:

        def open_once(harness: Harness) -> Callable[[], Site]:
            if harness not in opened:
                opened[harness] = running.enter_context(harness.open())
            return opened[harness]

        yield open_once


@pytest.fixture
def new_site(open_harness: Callable[[Harness], Callable[[], Site]], harness: Harness) -> Callable[[], Site]:
    return open_harness(harness)


@pytest.fixture
def site(new_site: Callable[[], Site]) -> Site:
    return new_site()


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    server = Stranger(tmp_path)
    yield server
    server.stop()
