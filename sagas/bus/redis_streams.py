"""The bus over Redis Streams: the embedded default, any Redis ≥ 7 or Valkey.

Rule: the broker may be killed, emptied and restarted at any moment; every call either does its work, repairs what is
missing and does its work, or raises within two seconds.

How it works
    One stream per topic, one consumer group per subscribing party, made on demand from the start of the stream, so a
    wiped server is repaired by the next call. ``receive`` runs one script that walks the topics by priority; when it
    finds nothing, a plain blocking XREAD past each group's position is the wake-up, so that no message is taken beyond
    ``max_messages``.
    ``acknowledge`` only acknowledges. Entries are removed when *every* group has acknowledged them (trimming to the
    slowest group), because deleting on acknowledgement would steal messages from the other groups. Beyond that a
    message lives for ``retention_s``, seven days as on Pub/Sub, and a topic that nobody subscribes to keeps its last
    ``unread_kept`` messages.
    What a dead consumer left behind is handed out again after ``lease_s``; what an earlier life of the same consumer
    left behind, at once and first.

All keys begin with one prefix; give it a hash tag (``{bus}``) on a cluster, since a script touches several topics.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from sagas.bus import redis_scripts
from sagas.bus.held import Held, HeldDeliveries, receipt_of
from sagas.bus.port import BusMessage, BusMisconfigured, BusUnavailable, Delivery, check_messages

SOCKET_TIMEOUT_S = 2.0
LONGEST_BLOCK_S = 1.0
"""A blocking read stays below the socket timeout, or an idle bus would look like a dead one."""

SHELF_NAME = "~shelf"
MESSAGES_PER_SCRIPT = 500
BYTES_PER_SCRIPT = 4_000_000
"""A script holds the server; these keep it to a few milliseconds."""

LEFTOVERS_PER_PASS = 1000
TRIM_EVERY_MESSAGES = 1000
TRIM_EVERY_S = 2.0
SEVEN_DAYS_S = 7 * 24 * 3600.0

_TRANSIENT = (
    redis.exceptions.OutOfMemoryError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.NoScriptError,  # the server restarted, and so again after the script was loaded anew
    redis.exceptions.MasterDownError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError,
)
_TRANSIENT_ANSWERS = ("LOADING", "MISCONF", "NOREPLICAS", "BUSY ", "UNBLOCKED")
"""How answers begin that pass by themselves and for which the client has no class of their own."""


class RedisStreamsBus:
    """See the module; implements ``sagas.bus.port.EventBus``.

    ``lease_s``: how long a consumer may hold a delivery before others get it (a quarter more until they look). Above what
    one batch takes to handle, since it is not extended; low enough that the work of a killed consumer goes on within ten
    seconds.
    ``consumer_forgotten_after_s``: names of consumers that came and went are removed after this silence, if they hold
    nothing.
    """

    depth_is_exact = True

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "{bus}",
        lease_s: float = 6.0,
        retention_s: float = SEVEN_DAYS_S,
        unread_kept: int = 20_000,
        consumer_forgotten_after_s: float = 3600.0,
    ) -> None:
        self._url = url
        self._prefix = prefix
        self._lease_s = lease_s
        self._retention_s = retention_s
        self._unread_kept = unread_kept
        self._consumer_forgotten_after_s = consumer_forgotten_after_s
        self._open()

    def _open(self) -> None:
        """Makes what belongs to one process; no connection is opened before the first command."""
        self._process = os.getpid()
        pool = redis.BlockingConnectionPool.from_url(
            self._url,
            max_connections=16,
            timeout=SOCKET_TIMEOUT_S,
            socket_timeout=SOCKET_TIMEOUT_S,
            socket_connect_timeout=SOCKET_TIMEOUT_S,
            socket_keepalive=True,
            health_check_interval=0,
            protocol=2,
            # A repeated publish is the caller's decision: it must resend the whole batch to keep the order.
            retry=Retry(NoBackoff(), 0),
        )
        self._redis = redis.Redis(connection_pool=pool)
        self._publish = self._redis.register_script(redis_scripts.PUBLISH)
        self._take = self._redis.register_script(redis_scripts.TAKE)
        self._shelve = self._redis.register_script(redis_scripts.SHELVE)
        self._shelve_leftovers = self._redis.register_script(redis_scripts.SHELVE_LEFTOVERS)
        self._trim = self._redis.register_script(redis_scripts.TRIM)
        self._held = HeldDeliveries()
        self._recovered: set[tuple[str, str, str]] = set()
        self._swept_at: dict[tuple[str, str], float] = {}
        self._moved: dict[str, int] = {}
        self._trimmed_at: dict[str, float] = {}

    def _attend(self) -> None:
        """After a fork the child starts with a table of its own: what the parent holds is not the child's to settle."""
        if self._process != os.getpid():
            self._open()

    # -- the protocol -------------------------------------------------------------------------------------------

    def publish(self, messages: Sequence[BusMessage]) -> None:
        self._attend()
        check_messages(messages)
        for part in _parts(messages):
            topics = list(dict.fromkeys(message.topic for message in part))
            index = {topic: number for number, topic in enumerate(topics, start=1)}
            arguments: list[str | bytes | int] = []
            for message in part:
                fields = _fields_of(message)
                arguments += (index[message.topic], len(fields), *fields)
            keys = [self._stream(topic) for topic in topics]
            self._answer(self._publish, keys=keys, args=arguments)
            for message in part:
                self._count_moved(message.topic)
        self._trim_where_due({message.topic for message in messages})

    def receive(self, topics: Sequence[str], group: str, consumer: str, max_messages: int, wait_s: float) -> list[Delivery]:
        self._attend()
        if not topics or max_messages < 1:
            raise ValueError("receive needs at least one topic and room for one message")
        until = time.monotonic() + wait_s
        while True:
            self._shelve_what_was_left(topics, group, consumer)
            deliveries, due_in_s, positions = self._take_by_priority(topics, group, consumer, max_messages)
            left_s = until - time.monotonic()
            if deliveries or left_s <= 0:
                return deliveries
            block_s = min(left_s, LONGEST_BLOCK_S, self._lease_s / 4)
            if due_in_s is not None:
                block_s = min(block_s, due_in_s)
            self._wait_for_news(topics, positions, block_s)

    def acknowledge(self, group: str, deliveries: Iterable[Delivery]) -> None:
        self._attend()
        for topic, held in _by_topic(self._current(group, deliveries)).items():
            ids = [one.reference for one in held]
            self._answer(self._redis.xack, self._stream(topic), group, *ids)
            for one in held:
                self._held.settle(group, one)
            self._count_moved(topic, len(held))
            self._trim_where_due({topic})

    def reject(self, group: str, deliveries: Iterable[Delivery], delay_s: float = 0.0) -> None:
        self._attend()
        for delivery in deliveries:
            back = self._held.rejected_with_followers(group, delivery)
            if not back:
                continue
            arguments: list[str | int] = [group, SHELF_NAME, int(delay_s * 1000)]
            for one in back:
                arguments += (one.reference, one.key)
            keys = self._keys(delivery.message.topic, group)
            self._answer(self._shelve, keys=keys, args=arguments)
            for one in back:
                self._held.settle(group, one)

    def subscribe(self, topics: Sequence[str], group: str) -> None:
        self._attend()
        for topic in topics:
            self._answer(self._make_group, self._stream(topic), group)

    def unsubscribe(self, topics: Sequence[str], group: str) -> None:
        """Ends a group that will not come back; what waited for it alone may go. Beyond the protocol: elsewhere groups are
        provisioned, not ended by their consumers.

        Raises ``BusUnavailable`` (retriable).
        """
        self._attend()
        for topic in topics:
            self._answer(self._redis.xgroup_destroy, self._stream(topic), group)
            self._answer(self._redis.delete, f"{self._stream(topic)}:shelf:{group}")

    def depth(self, topic: str, group: str) -> int:
        self._attend()
        stream = self._stream(topic)
        for info in self._answer(self._groups, stream):
            if info["name"] == group.encode():
                lag = info["lag"]
                if lag is None:  # the server cannot tell after some deletions; counting always can
                    lag = self._answer(self._count_after, stream, info["last-delivered-id"])
                return int(info["pending"]) + int(lag)
        return int(self._answer(self._redis.xlen, stream))

    def close(self) -> None:
        self._redis.connection_pool.disconnect()

    # -- receiving ----------------------------------------------------------------------------------------------

    def _shelve_what_was_left(self, topics: Sequence[str], group: str, consumer: str) -> None:
        """Once per topic the unfinished work of an earlier life of this consumer, then regularly that of dead ones."""
        now = time.monotonic()
        for topic in topics:
            if (topic, group, consumer) not in self._recovered:
                while self._shelve_pending(topic, group, idle_s=0.0, consumer=consumer) >= LEFTOVERS_PER_PASS:
                    continue
                self._recovered.add((topic, group, consumer))
            if now - self._swept_at.get((topic, group), 0.0) >= self._lease_s / 4:
                self._shelve_pending(topic, group, idle_s=self._lease_s, consumer="")
                self._swept_at[topic, group] = now

    def _shelve_pending(self, topic: str, group: str, *, idle_s: float, consumer: str) -> int:
        arguments = [group, SHELF_NAME, int(idle_s * 1000), consumer, LEFTOVERS_PER_PASS]
        return int(self._answer(self._shelve_leftovers, keys=self._keys(topic, group), args=arguments))

    def _take_by_priority(
        self, topics: Sequence[str], group: str, consumer: str, room: int
    ) -> tuple[list[Delivery], float | None, list[bytes]]:
        keys = [key for topic in topics for key in self._keys(topic, group)]
        arguments = [group, consumer, room, SHELF_NAME]
        entries, due_ms, positions = self._answer(self._take, keys=keys, args=arguments)
        deliveries = [_delivery_from(topics[number - 1], id_, attempt, fields) for number, id_, attempt, fields in entries]
        for delivery in deliveries:
            self._held.add(group, delivery)
        return deliveries, (due_ms / 1000 if due_ms >= 0 else None), positions

    def _wait_for_news(self, topics: Sequence[str], positions: Sequence[bytes], block_s: float) -> None:
        block_ms = max(1, int(block_s * 1000))  # 0 would mean "for ever"
        streams = {self._stream(topic): position for topic, position in zip(topics, positions, strict=True)}
        self._answer(self._redis.xread, streams, count=1, block=block_ms)

    # -- housekeeping -------------------------------------------------------------------------------------------

    def _count_moved(self, topic: str, count: int = 1) -> None:
        self._moved[topic] = self._moved.get(topic, 0) + count

    def _trim_where_due(self, topics: Iterable[str]) -> None:
        now = time.monotonic()
        for topic in topics:
            quiet = now - self._trimmed_at.setdefault(topic, now) < TRIM_EVERY_S
            if self._moved.get(topic, 0) < TRIM_EVERY_MESSAGES and quiet:
                continue
            self.trim(topic)

    def trim(self, topic: str) -> int:
        """Removes what every group has acknowledged; returns how many messages went. Runs by itself now and then.

        Raises ``BusUnavailable`` (retriable).
        """
        arguments = [
            int(self._retention_s * 1000),
            self._unread_kept,
            int(self._consumer_forgotten_after_s * 1000),
            SHELF_NAME,
        ]
        gone = int(self._answer(self._trim, keys=[self._stream(topic)], args=arguments))
        self._moved[topic] = 0
        self._trimmed_at[topic] = time.monotonic()
        return gone

    def _make_group(self, stream: str, group: str) -> None:
        try:
            self._redis.xgroup_create(stream, group, id="0", mkstream=True)
        except redis.ResponseError as refusal:
            if not str(refusal).startswith("BUSYGROUP"):
                raise

    def _groups(self, stream: str) -> list[dict[str, Any]]:
        try:
            return list(self._redis.xinfo_groups(stream))
        except redis.ResponseError as refusal:
            if "no such key" in str(refusal):
                return []
            raise

    def _count_after(self, stream: str, last_id: bytes) -> int:
        count, after = 0, last_id.decode()
        while rows := cast("list[tuple[bytes, object]]", self._redis.xrange(stream, f"({after}", "+", count=10_000)):
            count += len(rows)
            after = rows[-1][0].decode()
        return count

    def _current(self, group: str, deliveries: Iterable[Delivery]) -> Iterator[Held]:
        for delivery in deliveries:
            held = self._held.current(group, delivery)
            if held is not None:
                yield held

    def _stream(self, topic: str) -> str:
        return f"{self._prefix}:{topic}"

    def _keys(self, topic: str, group: str) -> list[str]:
        return [self._stream(topic), f"{self._prefix}:{topic}:shelf:{group}"]

    def _answer(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The broker's answer; its failures are told as the bus's own."""
        with self._failures_named():
            return call(*args, **kwargs)

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        try:
            yield
        except redis.AuthenticationError as refusal:
            raise BusMisconfigured("the broker refuses the credentials") from refusal
        except (redis.ConnectionError, redis.TimeoutError) as failure:
            # The other pooled connections are as dead as this one; each would fail once more.
            self._redis.connection_pool.disconnect(inuse_connections=False)
            raise BusUnavailable(f"the broker does not answer: {type(failure).__name__}") from failure
        except redis.ResponseError as refusal:
            text = str(refusal)
            if isinstance(refusal, _TRANSIENT) or text.startswith(_TRANSIENT_ANSWERS):
                raise BusUnavailable(f"the broker cannot take work now: {text[:60]}") from refusal
            raise BusMisconfigured(f"the broker refuses: {text[:120]}") from refusal
        except redis.RedisError as failure:  # half an answer: the connection is no longer in step
            self._redis.connection_pool.disconnect(inuse_connections=False)
            raise BusUnavailable(f"the broker's answer has no sense: {type(failure).__name__}") from failure


def _parts(messages: Sequence[BusMessage]) -> Iterator[Sequence[BusMessage]]:
    """The batch in pieces that one script may carry."""
    start, size = 0, 0
    for number, message in enumerate(messages):
        full = number - start >= MESSAGES_PER_SCRIPT or size + len(message.body) > BYTES_PER_SCRIPT
        if full and number > start:
            yield messages[start:number]
            start, size = number, 0
        size += len(message.body)
    if start < len(messages):
        yield messages[start:]


def _fields_of(message: BusMessage) -> list[str | bytes]:
    fields: list[str | bytes] = ["k", message.key, "b", message.body]
    for name, value in message.attributes.items():
        fields += ("a:" + name, value)
    return fields


def _delivery_from(topic: str, entry_id: bytes, attempt: int, fields: Sequence[bytes]) -> Delivery:
    key, body, attributes = "", b"", {}
    for name, value in zip(fields[::2], fields[1::2], strict=True):
        if name == b"k":
            key = value.decode(errors="replace")
        elif name == b"b":
            body = value
        elif name.startswith(b"a:"):
            attributes[name[2:].decode(errors="replace")] = value.decode(errors="replace")
    receipt = receipt_of(entry_id.decode(), str(attempt))
    return Delivery(BusMessage(topic, key, body, attributes), receipt, attempt)


def _by_topic(held: Iterable[Held]) -> dict[str, list[Held]]:
    found: dict[str, list[Held]] = {}
    for one in held:
        found.setdefault(one.topic, []).append(one)
    return found
