"""Google's two services on loopback, stores of either kind, and hotels whose secrets lie there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lockservice.core.secret_store import SecretName, SecretStore
from lockservice.core.secret_store_file import FileStore
from lockservice.core.secret_store_google import GoogleStore
from tests.flows.conftest import hotel, locks, settle
from tests.support.google_secrets import GoogleServer
from vendors.port.ids import new_id

__all__ = ["hotel", "locks", "settle"]


@pytest.fixture(scope="session")
def google_server() -> Iterator[GoogleServer]:
    server = GoogleServer()
    yield server
    server.stop()


@pytest.fixture
def google(google_server: GoogleServer) -> Iterator[GoogleServer]:
    """Give the server in good order, and leave it so."""
    yield google_server
    for service in (google_server.kms, google_server.secrets):
        service.trouble.code, service.trouble.damages = None, False


@pytest.fixture(params=["file", "google"])
def store(request: pytest.FixtureRequest, tmp_path: Path, google: GoogleServer) -> SecretStore:
    """Every kind of store in turn."""
    if request.param == "file":
        return FileStore(tmp_path / "secret-store")
    return GoogleStore("hotel-project", endpoint=google.endpoint)


@pytest.fixture
def name() -> Callable[..., SecretName]:
    """Give a function that names a secret of an installation of the test's own."""
    owners = {"tenant_id": new_id("tnt"), "property_id": new_id("ppt"), "installation_id": new_id("vad")}
    return lambda secret="client_secret", **other: SecretName(**{**owners, **other}, name=secret)
