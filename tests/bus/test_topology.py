"""The declared topics and subscriptions, and the command that makes them at a real server."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.test import override_settings
from google.pubsub_v1 import types

from sagas.bus import from_settings
from sagas.bus.google_pubsub import GooglePubSubBus
from sagas.bus.port import EventBus
from sagas.bus.pubsub_clients import PubSubClients
from sagas.bus.redis_streams import RedisStreamsBus
from sagas.bus.topology import SERVICE_GROUP, from_registry
from sagas.events import registry
from tests.support.brokers import PubSubBroker
from tests.support.pubsub_servers import own_server

BOOKING = "melmastoon.reservation.booking.confirmed.v1"


def test_every_consumed_topic_has_an_ordered_subscription_with_a_dead_letter_topic() -> None:
    topology = from_registry()
    declared = {one.topic: one for one in topology.subscriptions if one.group == SERVICE_GROUP}
    for spec in registry.consumed():
        assert spec.topic is not None
        assert (declared[spec.topic].ordered, declared[spec.topic].dead_letter_topic) == (True, spec.dead_letter_topic)


def test_every_topic_of_the_registry_exists_and_no_dead_letter_topic_forgets_its_messages() -> None:
    topology = from_registry()
    both = (*registry.consumed(), *registry.produced())
    dead_letter_topics = {spec.dead_letter_topic for spec in both}
    assert set(topology.topics) == {spec.topic for spec in both} | dead_letter_topics
    assert dead_letter_topics <= {one.topic for one in topology.subscriptions}
    assert list(topology.topics) == sorted(set(topology.topics))


def test_local_events_have_no_topic() -> None:
    assert not any(".local." in topic for topic in from_registry().topics)


def test_names_keep_to_what_pubsub_allows() -> None:
    topology = from_registry()
    names = [*topology.topics, *(one.name for one in topology.subscriptions)]
    assert all(3 <= len(name) <= 255 and not name.startswith("goog") for name in names)


@pytest.fixture
def server() -> Iterator[PubSubBroker]:
    started = PubSubBroker(own_server())
    yield started
    started.stop()


@pytest.fixture
def clients(server: PubSubBroker) -> Iterator[PubSubClients]:
    made = PubSubClients(server.host)
    yield made
    made.close()


def _provision(server: PubSubBroker, *arguments: str) -> str:
    output = io.StringIO()
    call_command("provision_pubsub", "--project", "hotel", "--emulator-host", server.host, *arguments, stdout=output)
    return output.getvalue().splitlines()[-1]


def _booking_subscription(clients: PubSubClients) -> types.Subscription:
    name = f"projects/hotel/subscriptions/{BOOKING}.{SERVICE_GROUP}"
    return clients.subscriber.get_subscription(request={"subscription": name})


def test_provisioning_makes_everything_once_and_is_quiet_afterwards(server: PubSubBroker, clients: PubSubClients) -> None:
    topology = from_registry()
    total = len(topology.topics) + len(topology.subscriptions)
    assert _provision(server, "--dry-run") == (
        f"hotel: 0 present, {total} would be created, 0 would be corrected, 0 would be conflicts"
    )
    assert list(clients.publisher.list_topics(request={"project": "projects/hotel"})) == []
    assert _provision(server) == f"hotel: 0 present, {total} created, 0 corrected, 0 conflicts"
    assert _provision(server) == f"hotel: {total} present, 0 created, 0 corrected, 0 conflicts"
    found = _booking_subscription(clients)
    assert found.enable_message_ordering is True
    assert found.ack_deadline_seconds == 60
    assert found.message_retention_duration == timedelta(days=7)
    assert found.retry_policy.minimum_backoff == timedelta(seconds=1)
    assert found.dead_letter_policy.dead_letter_topic == "projects/hotel/topics/melmastoon.lock.inbound.reservation.dlq.v1"
    assert found.dead_letter_policy.max_delivery_attempts == 100


def test_provisioning_corrects_what_differs(server: PubSubBroker, clients: PubSubClients) -> None:
    _provision(server)
    changed = _booking_subscription(clients)
    changed.ack_deadline_seconds = 10
    changed.dead_letter_policy = types.DeadLetterPolicy()
    clients.subscriber.update_subscription(
        request={"subscription": changed, "update_mask": {"paths": ["ack_deadline_seconds", "dead_letter_policy"]}}
    )
    assert _provision(server, "--dry-run").endswith("1 would be corrected, 0 would be conflicts")
    assert _booking_subscription(clients).ack_deadline_seconds == 10
    assert _provision(server).endswith("1 corrected, 0 conflicts")
    assert _booking_subscription(clients).ack_deadline_seconds == 60
    assert _booking_subscription(clients).dead_letter_policy.max_delivery_attempts == 100


def test_a_subscription_without_order_is_a_conflict_that_is_reported_and_left_alone(
    server: PubSubBroker, clients: PubSubClients
) -> None:
    name = f"projects/hotel/subscriptions/{BOOKING}.{SERVICE_GROUP}"
    clients.publisher.create_topic(request={"name": f"projects/hotel/topics/{BOOKING}"})
    clients.subscriber.create_subscription(request={"name": name, "topic": f"projects/hotel/topics/{BOOKING}"})
    with pytest.raises(CommandError, match="conflicting"):
        _provision(server)
    assert _booking_subscription(clients).enable_message_ordering is False


def test_the_settings_choose_the_bus() -> None:
    with override_settings(BUS_BACKEND="redis", REDIS_URL="redis://127.0.0.1:1/0"):
        redis_bus = from_settings()
    with override_settings(BUS_BACKEND="pubsub", PUBSUB_PROJECT_ID="hotel", PUBSUB_EMULATOR_HOST="127.0.0.1:1"):
        pubsub_bus = from_settings()
    assert (type(redis_bus), type(pubsub_bus)) == (RedisStreamsBus, GooglePubSubBus)
    assert isinstance(redis_bus, EventBus)
    assert isinstance(pubsub_bus, EventBus)
    redis_bus.close()
    pubsub_bus.close()


@pytest.mark.parametrize("wrong", [{"BUS_BACKEND": "carrier-pigeon"}, {"BUS_BACKEND": "pubsub", "PUBSUB_PROJECT_ID": ""}])
def test_wrong_settings_stop_the_start(wrong: dict[str, str]) -> None:
    with override_settings(**wrong), pytest.raises(ImproperlyConfigured):
        from_settings()
