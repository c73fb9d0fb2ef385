"""The brokers of the bus tests, each started once a session and ended with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockservice.embedded.local import LocalDirectory
from sagas.bus.port import EventBus
from tests.support.brokers import Broker, PubSubBroker, ValkeyBroker
from tests.support.pubsub_servers import google_emulator_jar, google_server, own_server


def _start(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Broker:
    if kind == "redis":
        return ValkeyBroker(LocalDirectory(tmp_path_factory.mktemp("valkey")))
    if kind == "pubsub":
        return PubSubBroker(own_server())
    jar = google_emulator_jar()
    if jar is None:
        pytest.skip("Google's Pub/Sub emulator is not on this machine")
    return PubSubBroker(google_server(jar))


@pytest.fixture(scope="module", params=["redis", "pubsub", "google-emulator"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Every implementation of the bus in turn."""
    started = _start(request.param, tmp_path_factory)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def redis_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyBroker]:
    started = ValkeyBroker(LocalDirectory(tmp_path_factory.mktemp("valkey")))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def pubsub_broker() -> Iterator[PubSubBroker]:
    started = PubSubBroker(own_server())
    yield started
    started.stop()


@pytest.fixture
def bus(broker: Broker) -> Iterator[EventBus]:
    made = broker.bus()
    yield made
    made.close()
