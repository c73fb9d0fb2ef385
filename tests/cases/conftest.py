"""The stage for these tests. One world a process; each test has houses of its own and a clock that stands still.

One rule: nothing here and beside it imports the product (`tests/architecture/test_cases_speak_from_outside.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.stage import House, World


@pytest.fixture(scope="session")
def stage(database: str, embedded_servers: Any) -> Iterator[World]:
    """Give this process's world, outside any scene."""
    with World.open(embedded_servers) as world:
        yield world


@pytest.fixture
def world(stage: World) -> Iterator[World]:
    """Give the world with a scene of the test's own."""
    with stage.scene():
        yield stage


@pytest.fixture
def house(world: World) -> Callable[..., House]:
    """Give a function that puts up a house: `house({"101": "ttlock"}, shared={"lobby": "ttlock"}, policy={…})`."""
    return lambda rooms, **options: House(world, rooms, **options)
