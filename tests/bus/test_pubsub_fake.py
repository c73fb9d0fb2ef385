"""Our loopback Pub/Sub server against the plain Google client, so that nothing rests on the server being lenient."""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from google.api_core import exceptions as api
from google.pubsub_v1 import PublisherClient

from sagas.bus.pubsub_clients import PubSubClients
from tests.support.brokers import PubSubBroker
from tests.support.pubsub_filter import FilterError, compile_filter
from tests.support.pubsub_servers import own_server

Make = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def clients(pubsub_broker: PubSubBroker) -> Iterator[PubSubClients]:
    made = PubSubClients(pubsub_broker.host)
    yield made
    made.close()


def _make_with(clients: PubSubClients, **settings: Any) -> tuple[str, str]:
    name = f"t-{uuid.uuid4().hex[:12]}"
    topic, subscription = f"projects/p/topics/{name}", f"projects/p/subscriptions/{name}"
    clients.publisher.create_topic(request={"name": topic}, timeout=5, retry=None)
    request = {"name": subscription, "topic": topic, "ack_deadline_seconds": 10, **settings}
    clients.subscriber.create_subscription(request=request, timeout=5, retry=None)
    return topic, subscription


@pytest.fixture
def make(clients: PubSubClients) -> Make:
    return lambda **settings: _make_with(clients, **settings)


def _publish(clients: PubSubClients, topic: str, *bodies: bytes, key: str = "", **attributes: str) -> None:
    for future in [
        clients.publisher.publish(topic, body, ordering_key=key, retry=None, timeout=5, **attributes) for body in bodies
    ]:
        future.result(timeout=10)


def _pull(clients: PubSubClients, subscription: str, count: int = 100, *, at_once: bool = False) -> list[Any]:
    request = {"subscription": subscription, "max_messages": count}
    if at_once:
        with pytest.warns(DeprecationWarning, match="return_immediately"):
            return list(clients.subscriber.pull(request={**request, "return_immediately": True}).received_messages)
    return list(clients.subscriber.pull(request=request, timeout=10, retry=None).received_messages)


def _acknowledge(clients: PubSubClients, subscription: str, received: list[Any]) -> None:
    ids = [one.ack_id for one in received]
    clients.subscriber.acknowledge(request={"subscription": subscription, "ack_ids": ids}, timeout=5, retry=None)


def _bodies(received: list[Any]) -> list[bytes]:
    return [one.message.data for one in received]


def test_a_missing_topic_is_not_found_and_a_second_one_exists_already(clients: PubSubClients, make: Make) -> None:
    with pytest.raises(api.NotFound):
        _publish(clients, "projects/p/topics/nowhere", b"x")
    topic, subscription = make()
    with pytest.raises(api.AlreadyExists):
        clients.publisher.create_topic(request={"name": topic}, timeout=5, retry=None)
    with pytest.raises(api.AlreadyExists):
        clients.subscriber.create_subscription(request={"name": subscription, "topic": topic}, timeout=5, retry=None)
    with pytest.raises(api.InvalidArgument):
        clients.publisher.create_topic(request={"name": "projects/p/topics/1"}, timeout=5, retry=None)


@pytest.mark.parametrize(
    "settings",
    [
        {"ack_deadline_seconds": 9},
        {"ack_deadline_seconds": 601},
        {"dead_letter_policy": {"dead_letter_topic": "projects/p/topics/dead", "max_delivery_attempts": 4}},
        {"filter": "attributes.region ~ 1"},
        {"push_config": {"push_endpoint": "http://example.com/"}},
    ],
)
def test_settings_that_the_service_refuses_are_refused(make: Make, settings: dict[str, Any]) -> None:
    with pytest.raises(api.InvalidArgument):
        make(**settings)


def test_one_request_may_carry_only_one_ordering_key(clients: PubSubClients, make: Make) -> None:
    topic, _ = make()
    messages = [{"data": b"x", "ordering_key": key} for key in ("a", "b")]
    plain = PublisherClient(transport=clients.publisher.transport)
    with pytest.raises(api.InvalidArgument):
        plain.publish(request={"topic": topic, "messages": messages}, timeout=5, retry=None)


def test_a_filter_lets_only_its_messages_in(clients: PubSubClients, make: Make) -> None:
    topic, subscription = make(filter='attributes.region = "kabul" AND NOT attributes:test')
    _publish(clients, topic, b"other", region="dushanbe")
    _publish(clients, topic, b"test", region="kabul", test="1")
    _publish(clients, topic, b"wanted", region="kabul")
    assert _bodies(_pull(clients, subscription)) == [b"wanted"]


@pytest.mark.parametrize(
    ("text", "attributes", "matches"),
    [
        ('attributes.a = "1"', {"a": "1"}, True),
        ('attributes.a != "1"', {}, True),
        ("attributes:a", {"a": ""}, True),
        ('hasPrefix(attributes.a, "melma")', {"a": "melmastoon"}, True),
        ('hasPrefix(attributes.a, "melma")', {}, False),
        ('attributes.a = "1" OR attributes.b = "2" AND attributes.c = "3"', {"a": "1"}, True),
        ('(attributes.a = "1" OR attributes.b = "2") AND attributes.c = "3"', {"a": "1"}, False),
        ('-attributes:"odd name"', {"odd name": "x"}, False),
    ],
)
def test_the_filter_language(text: str, attributes: dict[str, str], *, matches: bool) -> None:
    assert compile_filter(text)(attributes) is matches


@pytest.mark.parametrize("text", ["attributes", "attributes.a", 'attributes.a = "1" x', "(attributes:a", "a = 1"])
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        compile_filter(text)


def test_retries_back_off_twice_as_long_each_time(clients: PubSubClients, make: Make) -> None:
    topic, subscription = make(retry_policy={"minimum_backoff": {"seconds": 0, "nanos": 300_000_000}})
    _publish(clients, topic, b"x")
    waits = []
    received = _pull(clients, subscription)
    for _ in range(2):
        given_back = time.monotonic()
        ids = [one.ack_id for one in received]
        clients.subscriber.modify_ack_deadline(
            request={"subscription": subscription, "ack_ids": ids, "ack_deadline_seconds": 0}
        )
        received = _pull(clients, subscription)
        waits.append(time.monotonic() - given_back)
    assert 0.28 < waits[0] < 0.55
    assert 0.58 < waits[1] < 1.0


def test_seeking_back_in_time_and_to_a_snapshot_brings_messages_again(clients: PubSubClients, make: Make) -> None:
    topic, subscription = make()
    _publish(clients, topic, b"one", b"two")
    first = _pull(clients, subscription)
    _acknowledge(clients, subscription, first[:1])
    snapshot = subscription.replace("subscriptions", "snapshots")
    clients.subscriber.create_snapshot(request={"name": snapshot, "subscription": subscription})
    _acknowledge(clients, subscription, first[1:])
    clients.subscriber.seek(request={"subscription": subscription, "snapshot": snapshot})
    again = _pull(clients, subscription)
    assert _bodies(again) == [b"two"]
    clients.subscriber.seek(request={"subscription": subscription, "time": first[0].message.publish_time})
    assert sorted(_bodies(_pull(clients, subscription))) == [b"one", b"two"]


def test_a_stale_acknowledgement_matters_only_with_exactly_once(clients: PubSubClients, make: Make) -> None:
    topic, lenient = make()
    _publish(clients, topic, b"x")
    received = _pull(clients, lenient)
    for _ in range(2):
        _acknowledge(clients, lenient, received)
    topic, strict = make(enable_exactly_once_delivery=True)
    _publish(clients, topic, b"x")
    received = _pull(clients, strict)
    _acknowledge(clients, strict, received)
    with pytest.raises(api.FailedPrecondition):
        _acknowledge(clients, strict, received)


def test_streaming_pull_delivers_every_message_once_and_extends_leases(clients: PubSubClients, make: Make) -> None:
    topic, subscription = make()
    seen: Counter[bytes] = Counter()
    everything = threading.Event()

    def handle(message: Any) -> None:
        seen[message.data] += 1
        message.ack()
        if len(seen) == 300:
            everything.set()

    stream = clients.subscriber.subscribe(subscription, callback=handle)
    _publish(clients, topic, *[str(number).encode() for number in range(300)])
    assert everything.wait(20)
    time.sleep(0.3)
    stream.cancel()
    stream.result(timeout=10)
    assert seen == Counter(str(number).encode() for number in range(300))


def test_push_posts_until_the_endpoint_accepts(clients: PubSubClients, make: Make) -> None:
    posts: list[dict[str, Any]] = []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(503 if len(posts) == 1 else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keeps the test's output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as endpoint:
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        topic, subscription = make(push_config={"push_endpoint": f"http://127.0.0.1:{endpoint.server_port}/pubsub/push"})
        _publish(clients, topic, b"{}", tenantId="tnt_1")
        until = time.monotonic() + 10
        while len(posts) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.3)
        clients.subscriber.delete_subscription(request={"subscription": subscription})
        endpoint.shutdown()
    assert [post["message"]["messageId"] for post in posts] == [posts[0]["message"]["messageId"]] * 2
    assert base64.b64decode(posts[0]["message"]["data"]) == b"{}"
    assert posts[0]["message"]["attributes"] == {"tenantId": "tnt_1"}
    assert posts[0]["subscription"] == subscription


def test_seeded_faults_duplicate_and_reorder_and_repeat_themselves() -> None:
    runs = []
    for _ in range(2):
        server = PubSubBroker(own_server("duplicate=0.2,reorder=0.3", seed=11))
        clients = PubSubClients(server.host)
        topic, subscription = _make_with(clients)
        _publish(clients, topic, *[str(number).encode() for number in range(100)])
        received: list[bytes] = []
        while got := _pull(clients, subscription, at_once=True):
            received += _bodies(got)
        runs.append(received)
        clients.close()
        server.stop()
    assert set(runs[0]) == {str(number).encode() for number in range(100)}
    assert len(runs[0]) > 105
    assert runs[0] != sorted(runs[0], key=int)
    assert runs[0] == runs[1]
