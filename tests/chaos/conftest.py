"""An estate for a session, its processes for a test, and hotels on the mock vendor."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from pytest_django.plugin import DjangoDbBlocker

from lockservice.embedded.local import LocalDirectory
from tests.chaos.estate import Estate
from tests.support.checkers import MockDoors
from tests.support.hotel import Hotel, build_hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id


@pytest.fixture(scope="session")
def locks() -> Iterator[MockLocks]:
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture(scope="session")
def own_servers() -> Iterator[Estate]:
    """Give servers that nobody else uses, so that killing them hurts nobody else."""
    root = LocalDirectory.from_environment().root / f"estate-{os.getpid()}-{uuid.uuid4().hex[:4]}"
    estate = Estate(root, Path(settings.DATA_KEY_FILE).read_bytes())
    yield estate
    estate.remove()


@pytest.fixture
def estate(own_servers: Estate, django_db_blocker: DjangoDbBlocker) -> Iterator[Estate]:
    """Give the estate with no process running; what a test starts is killed after it."""
    own_servers.start_valkey()
    own_servers.start_postgres()
    with own_servers.connected(), django_db_blocker.unblock():
        yield own_servers
        own_servers.kill_all()


def mock_hotel(locks: MockLocks, query: str = "", rooms: int = 3, **options: Any) -> Hotel:
    """Builds a hotel on the mock with rooms 101, 102, … and no shared door; `query` are failures of the mock's address."""
    url = locks.setting + (f"?{query}" if query else "")
    labels = [str(101 + number) for number in range(rooms)]
    return build_hotel(vendor="mock", settings={"url": url}, rooms={label: new_id("lck") for label in labels}, **options)


def mock_doors(locks: MockLocks, hotel: Hotel) -> MockDoors:
    return MockDoors(locks.ask, hotel.doors.values())
