"""The real Pub/Sub clients, made on first use and once per process.

Rule: nothing here touches the network or starts a thread before it is asked to, so that a bus may be made before a fork;
gRPC does not survive one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import grpc  # type: ignore[import-untyped]
from google.api_core import exceptions as api
from google.cloud import pubsub_v1  # type: ignore[attr-defined]  # untyped, beside typed neighbours
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from sagas.bus.port import BusMisconfigured, BusUnavailable

_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 32 * 1024 * 1024),
    # A server that comes back must be found within a second or two, not after gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    # Also the time one attempt may take; a JVM that has just started needs most of a second for its first answer.
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Several servers come and go on one address in local mode; sharing sub-channels would share their failures.
    ("grpc.use_local_subchannel_pool", 1),
)

_ANSWERS_THAT_STAY = (
    api.NotFound,
    api.PermissionDenied,
    api.Unauthenticated,
    api.InvalidArgument,
    api.FailedPrecondition,
    api.MethodNotImplemented,
)

BATCH = pubsub_v1.types.BatchSettings(max_messages=100, max_bytes=1_000_000, max_latency=0.002)
"""``publish`` waits for its messages anyway, so collecting longer than this only adds latency."""


class PubSubClients:
    """Publisher and subscriber of one process. ``emulator_host`` (``host:port``) means a local server, no credentials."""

    def __init__(self, emulator_host: str | None = None) -> None:
        self._emulator_host = emulator_host
        self._lock = Lock()
        self._process: int | None = None
        self._publisher: pubsub_v1.PublisherClient | None = None
        self._subscriber: pubsub_v1.SubscriberClient | None = None

    @property
    def publisher(self) -> pubsub_v1.PublisherClient:
        with self._lock:
            self._forget_the_parents()
            if self._publisher is None:
                self._publisher = self._make_publisher()
            return self._publisher

    @property
    def subscriber(self) -> pubsub_v1.SubscriberClient:
        with self._lock:
            self._forget_the_parents()
            if self._subscriber is None:
                self._subscriber = self._make_subscriber()
            return self._subscriber

    def close(self) -> None:
        """Sends what is queued, then ends channels and threads."""
        with self._lock:
            self._forget_the_parents()
            publisher, subscriber = self._publisher, self._subscriber
            self._publisher = self._subscriber = None
        if publisher is not None:
            publisher.stop()
            publisher.transport.close()
        if subscriber is not None:
            subscriber.close()

    def _forget_the_parents(self) -> None:
        if self._process != os.getpid():
            self._process, self._publisher, self._subscriber = os.getpid(), None, None

    def _make_publisher(self) -> pubsub_v1.PublisherClient:
        options = pubsub_v1.types.PublisherOptions(enable_message_ordering=True)
        if self._emulator_host is None:
            return pubsub_v1.PublisherClient(BATCH, options)
        transport = PublisherGrpcTransport(channel=self._channel(self._emulator_host))
        return pubsub_v1.PublisherClient(BATCH, options, transport=transport)

    def _make_subscriber(self) -> pubsub_v1.SubscriberClient:
        if self._emulator_host is None:
            return pubsub_v1.SubscriberClient()
        return pubsub_v1.SubscriberClient(transport=SubscriberGrpcTransport(channel=self._channel(self._emulator_host)))

    def _channel(self, host: str) -> grpc.Channel:
        return grpc.insecure_channel(host, options=_CHANNEL_OPTIONS)


def bus_error(failure: BaseException, doing: str) -> BusUnavailable | BusMisconfigured:
    """A failure of the client in the bus's own words; it carries names of topics, never bodies."""
    if isinstance(failure, _ANSWERS_THAT_STAY):
        return BusMisconfigured(f"{doing}: Pub/Sub answers {type(failure).__name__}")
    return BusUnavailable(f"{doing}: {type(failure).__name__}")


@contextmanager
def failures_named(doing: str) -> Iterator[None]:
    """Turns what the client raises into ``BusUnavailable`` or ``BusMisconfigured``."""
    try:
        yield
    except (api.GoogleAPICallError, api.RetryError) as failure:
        raise bus_error(failure, doing) from failure
