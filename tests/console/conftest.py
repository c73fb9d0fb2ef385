"""One hotel for the reading tests of a session, a fresh one for tests that act, and people who are signed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from lockservice.core.tenancy import UNATTRIBUTED
from tests.console.scene import Scene, make_night, make_scene
from tests.support.mock_locks import MockLocks

SignIn = Callable[..., Client]


@pytest.fixture(scope="session")
def locks() -> Iterator[MockLocks]:
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture(scope="session")
def night(database: str, locks: MockLocks) -> Scene:
    """Give a hotel that tests only look at."""
    return make_night(locks)


@pytest.fixture
def scene(database: str, locks: MockLocks) -> Scene:
    """Give a hotel of the test's own."""
    return make_scene(locks)


@pytest.fixture
def sign_in(database: str) -> SignIn:
    """Give a function that signs a person of a hotel in and, where she has to choose, enters that hotel."""

    def do(scene: Scene, role: str, *, enter: bool = True, **headers: str) -> Client:
        client = Client(headers=headers)
        client.force_login(get_user_model().objects.get(username=scene.people[role]))
        if enter and role in {"support", "platform"}:
            tenant_id = scene.tenant_id if role == "support" else UNATTRIBUTED
            assert client.post("/console/tenant/", {"tenant": tenant_id}).status_code == 302
        return client

    return do
