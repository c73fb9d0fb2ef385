"""A loopback google.pubsub.v1 server, for tests and for running in production mode on one machine.

Rule: it speaks only what the real service speaks, on loopback only, and the same contract tests run against Google's own
emulator where that exists; that keeps this one honest. No protoc: the message classes come from google-cloud-pubsub.

    python -m tests.support.pubsub_fake --port 8085
    python -m tests.support.pubsub_fake --faults duplicate=0.05,reorder=0.2,publish_unavailable=0.05 --seed 3

The first line it prints is ``PUBSUB_EMULATOR_HOST=127.0.0.1:<port>``. Limits: one process, no persistence, no IAM, no
schemas, no quotas, no message expiry; list calls are not paged; a push endpoint is read when the subscription is made.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any, NoReturn
from urllib.parse import urlsplit

import grpc
from google.protobuf import empty_pb2
from google.pubsub_v1 import types
from google.rpc import error_details_pb2, status_pb2

from tests.support.pubsub_filter import FilterError
from tests.support.pubsub_store import Faults, Snapshot, Store, Stream, Subscription, Topic

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_REQUEST_BYTES = 10 * 1024 * 1024
SEVEN_DAYS_S = 7 * 24 * 3600
LONG_POLL_S = 2.0
TOPIC_NAME = re.compile(r"projects/[^/]+/topics/[A-Za-z][\w\-.~+%]{2,254}")

Code = grpc.StatusCode
Context = grpc.aio.ServicerContext
Empty = empty_pb2.Empty


async def refuse(context: Context, code: grpc.StatusCode, reason: str) -> NoReturn:
    await context.abort(code, reason)
    raise AssertionError("abort does not return")


class PublisherService:
    """google.pubsub.v1.Publisher."""

    requests = {
        "CreateTopic": types.Topic,
        "GetTopic": types.GetTopicRequest,
        "UpdateTopic": types.UpdateTopicRequest,
        "ListTopics": types.ListTopicsRequest,
        "ListTopicSubscriptions": types.ListTopicSubscriptionsRequest,
        "DeleteTopic": types.DeleteTopicRequest,
        "DetachSubscription": types.DetachSubscriptionRequest,
        "Publish": types.PublishRequest,
    }

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create_topic(self, request: Any, context: Context) -> Any:
        if request.name in self._store.topics:
            await refuse(context, Code.ALREADY_EXISTS, "Topic already exists")
        if not TOPIC_NAME.fullmatch(request.name):
            await refuse(context, Code.INVALID_ARGUMENT, "bad topic name")
        self._store.topics[request.name] = Topic(self._store, request)
        return request

    async def get_topic(self, request: Any, context: Context) -> Any:
        return (await self._topic(request.topic, context)).settings

    async def update_topic(self, request: Any, context: Context) -> Any:
        topic = await self._topic(request.topic.name, context)
        request.update_mask.MergeMessage(request.topic, topic.settings, replace_message_field=True)
        return topic.settings

    async def list_topics(self, request: Any, context: Context) -> Any:
        found = [topic.settings for name, topic in self._store.topics.items() if name.startswith(request.project + "/")]
        return types.ListTopicsResponse.pb()(topics=found)

    async def list_topic_subscriptions(self, request: Any, context: Context) -> Any:
        topic = await self._topic(request.topic, context)
        return types.ListTopicSubscriptionsResponse.pb()(subscriptions=list(topic.subscriptions))

    async def delete_topic(self, request: Any, context: Context) -> Any:
        topic = await self._topic(request.topic, context)
        del self._store.topics[request.topic]
        for subscription in topic.subscriptions.values():
            subscription.settings.topic = "_deleted-topic_"
        return Empty()

    async def detach_subscription(self, request: Any, context: Context) -> Any:
        subscription = self._store.subscriptions.get(request.subscription)
        if subscription is None:
            await refuse(context, Code.NOT_FOUND, "Subscription does not exist")
        subscription.settings.detached = True
        topic = self._store.topics.get(subscription.settings.topic)
        if topic is not None:
            topic.subscriptions.pop(request.subscription, None)
        return types.DetachSubscriptionResponse.pb()()

    async def publish(self, request: Any, context: Context) -> Any:
        faults = self._store.faults
        if faults.strikes(faults.publish_unavailable):
            await refuse(context, Code.UNAVAILABLE, "injected: not taken")
        topic = await self._topic(request.topic, context)
        reason = _reason_to_refuse(request)
        if reason:
            await refuse(context, Code.INVALID_ARGUMENT, reason)
        ids = [topic.publish(message) for message in request.messages]
        if faults.strikes(faults.publish_answer_lost):
            await refuse(context, Code.UNAVAILABLE, "injected: taken, answer lost")
        return types.PublishResponse.pb()(message_ids=ids)

    async def _topic(self, name: str, context: Context) -> Topic:
        topic = self._store.topics.get(name)
        if topic is None:
            await refuse(context, Code.NOT_FOUND, f"Topic not found: {name}")
        return topic


def _reason_to_refuse(request: Any) -> str | None:
    """Source of the limits: Pub/Sub quotas page; of the one-key rule: PubsubMessage.ordering_key in google.pubsub.v1."""
    if not request.messages:
        return "no messages"
    if request.ByteSize() > MAX_REQUEST_BYTES:
        return "request larger than 10 MB"
    if len({message.ordering_key for message in request.messages}) > 1:
        return "all messages of a request must have the same ordering key"
    return next((reason for message in request.messages if (reason := _fault_of(message))), None)


def _fault_of(message: Any) -> str | None:
    if not message.data and not message.attributes:
        return "empty message"
    if len(message.ordering_key.encode()) > 1024:
        return "ordering key too long"
    if len(message.attributes) > 100:
        return "too many attributes"
    for name, value in message.attributes.items():
        if len(name.encode()) > 256 or len(value.encode()) > 1024 or name.startswith("goog"):
            return "attribute limits"
    return None


class SubscriberService:
    """google.pubsub.v1.Subscriber."""

    requests = {
        "CreateSubscription": types.Subscription,
        "GetSubscription": types.GetSubscriptionRequest,
        "UpdateSubscription": types.UpdateSubscriptionRequest,
        "ListSubscriptions": types.ListSubscriptionsRequest,
        "DeleteSubscription": types.DeleteSubscriptionRequest,
        "Acknowledge": types.AcknowledgeRequest,
        "ModifyAckDeadline": types.ModifyAckDeadlineRequest,
        "ModifyPushConfig": types.ModifyPushConfigRequest,
        "Pull": types.PullRequest,
        "CreateSnapshot": types.CreateSnapshotRequest,
        "DeleteSnapshot": types.DeleteSnapshotRequest,
        "Seek": types.SeekRequest,
    }

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create_subscription(self, request: Any, context: Context) -> Any:
        if request.name in self._store.subscriptions:
            await refuse(context, Code.ALREADY_EXISTS, "Subscription already exists")
        topic = self._store.topics.get(request.topic)
        if topic is None:
            await refuse(context, Code.NOT_FOUND, f"Topic not found: {request.topic}")
        request.ack_deadline_seconds = request.ack_deadline_seconds or 10
        reason = _fault_of_subscription(request)
        if reason:
            await refuse(context, Code.INVALID_ARGUMENT, reason)
        if not request.HasField("message_retention_duration"):
            request.message_retention_duration.FromSeconds(SEVEN_DAYS_S)
        try:
            subscription = Subscription(self._store, request)
        except FilterError as fault:
            await refuse(context, Code.INVALID_ARGUMENT, f"filter: {fault}")
        topic.subscriptions[request.name] = self._store.subscriptions[request.name] = subscription
        return request

    async def get_subscription(self, request: Any, context: Context) -> Any:
        return (await self._subscription(request.subscription, context)).settings

    async def update_subscription(self, request: Any, context: Context) -> Any:
        subscription = await self._subscription(request.subscription.name, context)
        fixed = {"filter", "enable_message_ordering", "topic"} & set(request.update_mask.paths)
        if fixed:
            await refuse(context, Code.INVALID_ARGUMENT, f"{', '.join(sorted(fixed))} cannot be changed")
        request.update_mask.MergeMessage(request.subscription, subscription.settings, replace_message_field=True)
        return subscription.settings

    async def list_subscriptions(self, request: Any, context: Context) -> Any:
        prefix = request.project + "/"
        found = [one.settings for name, one in self._store.subscriptions.items() if name.startswith(prefix)]
        return types.ListSubscriptionsResponse.pb()(subscriptions=found)

    async def delete_subscription(self, request: Any, context: Context) -> Any:
        subscription = await self._subscription(request.subscription, context)
        subscription.close()
        del self._store.subscriptions[request.subscription]
        topic = self._store.topics.get(subscription.settings.topic)
        if topic is not None:
            topic.subscriptions.pop(request.subscription, None)
        return Empty()

    async def acknowledge(self, request: Any, context: Context) -> Any:
        faults = self._store.faults
        if faults.strikes(faults.acknowledge_unavailable):
            await refuse(context, Code.UNAVAILABLE, "injected: not taken")
        subscription = await self._subscription(request.subscription, context)
        return await _verdict(subscription, subscription.acknowledge(request.ack_ids), context)

    async def modify_ack_deadline(self, request: Any, context: Context) -> Any:
        subscription = await self._subscription(request.subscription, context)
        if not 0 <= request.ack_deadline_seconds <= 600:
            await refuse(context, Code.INVALID_ARGUMENT, "ack_deadline_seconds must be 0 to 600")
        unknown = subscription.set_deadline(request.ack_ids, request.ack_deadline_seconds)
        return await _verdict(subscription, unknown, context)

    async def modify_push_config(self, request: Any, context: Context) -> Any:
        subscription = await self._subscription(request.subscription, context)
        subscription.settings.push_config.CopyFrom(request.push_config)
        return Empty()

    async def pull(self, request: Any, context: Context) -> Any:
        subscription = await self._subscription(request.subscription, context)
        until = time.monotonic() + (0.0 if request.return_immediately else LONG_POLL_S)
        while True:
            received = subscription.take(request.max_messages or 100, subscription.settings.ack_deadline_seconds)
            left_s = until - time.monotonic()
            if received or left_s <= 0:
                return types.PullResponse.pb()(received_messages=received)
            await subscription.wait_for_messages(left_s)

    async def streaming_pull(self, requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        first = await anext(requests)
        subscription = await self._subscription(first.subscription, context)
        stream = Stream(first.max_outstanding_messages, first.stream_ack_deadline_seconds)
        subscription.streams.append(stream)
        subscription.notice()
        listening = asyncio.create_task(_listen(requests, subscription, stream))
        properties = types.StreamingPullResponse.SubscriptionProperties.pb()(
            exactly_once_delivery_enabled=subscription.settings.enable_exactly_once_delivery,
            message_ordering_enabled=subscription.settings.enable_message_ordering,
        )
        response = types.StreamingPullResponse.pb()
        try:
            yield response(subscription_properties=properties)
            while (batch := await stream.batches.get()) is not None:
                yield response(received_messages=batch, subscription_properties=properties)
        finally:
            listening.cancel()
            subscription.streams.remove(stream)

    async def create_snapshot(self, request: Any, context: Context) -> Any:
        subscription = await self._subscription(request.subscription, context)
        topic = subscription.settings.topic
        self._store.snapshots[request.name] = Snapshot(topic, frozenset(subscription.open_ids()), time.time_ns())
        return types.Snapshot.pb()(name=request.name, topic=topic)

    async def delete_snapshot(self, request: Any, context: Context) -> Any:
        self._store.snapshots.pop(request.snapshot, None)
        return Empty()

    async def seek(self, request: Any, context: Context) -> Any:
        subscription = await self._subscription(request.subscription, context)
        if request.HasField("time"):
            moment_ns = request.time.ToNanoseconds()
            subscription.seek(lambda message: message.publish_time.ToNanoseconds() >= moment_ns)
        else:
            snapshot = self._store.snapshots.get(request.snapshot)
            if snapshot is None:
                await refuse(context, Code.NOT_FOUND, "Snapshot not found")
            subscription.seek(
                lambda message: (
                    message.message_id in snapshot.open_ids or message.publish_time.ToNanoseconds() > snapshot.taken_at_ns
                )
            )
        return types.SeekResponse.pb()()

    async def _subscription(self, name: str, context: Context) -> Subscription:
        subscription = self._store.subscriptions.get(name)
        if subscription is None:
            await refuse(context, Code.NOT_FOUND, f"Subscription does not exist: {name}")
        return subscription


def _fault_of_subscription(request: Any) -> str | None:
    if not 10 <= request.ack_deadline_seconds <= 600:
        return "ack_deadline_seconds must be 10 to 600"
    policy = request.dead_letter_policy
    if policy.dead_letter_topic and policy.max_delivery_attempts and not 5 <= policy.max_delivery_attempts <= 100:
        return "max_delivery_attempts must be 5 to 100"
    endpoint = request.push_config.push_endpoint
    if endpoint and urlsplit(endpoint).hostname not in LOOPBACK:
        return "push endpoint must be on loopback"
    return None


async def _listen(requests: AsyncIterator[Any], subscription: Subscription, stream: Stream) -> None:
    """The consumer's half of a streaming pull: acknowledgements and deadlines."""
    try:
        async for request in requests:
            if request.stream_ack_deadline_seconds:
                stream.ack_deadline_s = request.stream_ack_deadline_seconds
            subscription.acknowledge(request.ack_ids)
            for ack_id, seconds in zip(request.modify_deadline_ack_ids, request.modify_deadline_seconds, strict=True):
                subscription.set_deadline([ack_id], seconds)
    finally:
        stream.batches.put_nowait(None)


async def _verdict(subscription: Subscription, unknown: list[str], context: Context) -> Any:
    """Stale ids matter only to subscriptions with exactly-once delivery; the real service names them in the details."""
    if unknown and subscription.settings.enable_exactly_once_delivery:
        reasons = dict.fromkeys(unknown, "PERMANENT_FAILURE_INVALID_ACK_ID")
        details = error_details_pb2.ErrorInfo(
            reason="EXACTLY_ONCE_ACKID_FAILURE", domain="pubsub.googleapis.com", metadata=reasons
        )
        status = status_pb2.Status(code=9, message="Some acknowledgement ids in the request were invalid.")
        status.details.add().Pack(details)
        trailer = (("grpc-status-details-bin", status.SerializeToString()),)
        await context.abort(Code.FAILED_PRECONDITION, status.message, trailer)
    return Empty()


def _method_name(rpc: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", rpc).lower()


def _handlers(service: PublisherService | SubscriberService) -> dict[str, grpc.RpcMethodHandler]:
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            getattr(service, _method_name(name)), request.pb().FromString, lambda answer: answer.SerializeToString()
        )
        for name, request in service.requests.items()
    }
    if isinstance(service, SubscriberService):
        handlers["StreamingPull"] = grpc.stream_stream_rpc_method_handler(
            service.streaming_pull, types.StreamingPullRequest.pb().FromString, lambda answer: answer.SerializeToString()
        )
    return handlers


async def serve(host: str, port: int, faults: Faults) -> None:
    """Serves until cancelled; port 0 lets the system choose. Prints the address as its first line."""
    store = Store(faults)
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 12 << 20), ("grpc.so_reuseport", 0)])
    for name, service in (("Publisher", PublisherService(store)), ("Subscriber", SubscriberService(store))):
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"google.pubsub.v1.{name}", _handlers(service)),))
    chosen = server.add_insecure_port(f"{host}:{port}")
    await server.start()
    print(f"PUBSUB_EMULATOR_HOST={host}:{chosen}", flush=True)  # noqa: T201 - how a caller learns the port
    await server.wait_for_termination()


def _faults_from(text: str, seed: int) -> Faults:
    pairs: Iterable[list[str]] = (part.split("=", 1) for part in text.split(",") if part)
    return Faults(seed=seed, **{name: float(value) for name, value in pairs})


def main() -> None:
    parser = argparse.ArgumentParser(description="A loopback Pub/Sub server for tests and local runs.")
    parser.add_argument("--host", default="127.0.0.1", choices=LOOPBACK)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--faults", default="", help="duplicate=0.05,reorder=0.1,publish_unavailable=0.02,...")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(options.host, options.port, _faults_from(options.faults, options.seed)))


if __name__ == "__main__":
    main()
