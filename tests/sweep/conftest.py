"""A database for each flow: runner and publisher serve all tenants of a database, so a sweep has one of its own.

Rule: the databases are copies of one migrated template and are dropped at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockservice.embedded import roles
from lockservice.embedded.local import LocalDirectory
from tests.support import own_database as databases
from tests.support.mock_locks import MockLocks
from tests.support.sweep_ttlock import TtlockCloud


@pytest.fixture(scope="session")
def locks() -> Iterator[MockLocks]:
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture(scope="session")
def cloud() -> Iterator[TtlockCloud]:
    running = TtlockCloud()
    yield running
    running.stop()


@pytest.fixture
def own_database(embedded_servers: LocalDirectory) -> Iterator[str]:
    name = databases.copy(embedded_servers)
    yield name
    roles.drop_database(embedded_servers, name)
