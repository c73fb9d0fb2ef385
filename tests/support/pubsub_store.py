"""What the loopback Pub/Sub server remembers: topics, subscriptions, backlog, leases, dead letters.

Rule: everything runs in one asyncio loop, so no method here is interrupted; only ``Subscription.run`` and the push loop
wait. State is in memory and gone with the process.

Stricter than the real service: one outstanding message per ordering key. Otherwise: at least once, lease expiry,
retry back-off, dead letters with Google's attributes, delivery attempts, filters, seek.
"""

from __future__ import annotations

import asyncio
import base64
import heapq
import itertools
import json
import random
import time
import urllib.error
import urllib.request
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from google.pubsub_v1 import types

from tests.support.pubsub_filter import compile_filter

PubsubMessage = types.PubsubMessage.pb()
ReceivedMessage = types.ReceivedMessage.pb()

REMEMBERED_FOR_SEEK = 100_000
SHARE_PER_STREAM = 200
DEFAULT_MINIMUM_BACKOFF_S, DEFAULT_MAXIMUM_BACKOFF_S = 10.0, 600.0
PUSH_ACCEPTED = (102, 200, 201, 202, 204)


@dataclass(frozen=True)
class Faults:
    """Seeded misbehaviour. Each value is a probability from 0 to 1.

    ``duplicate`` a message is delivered twice; ``reorder`` a message without a key jumps the queue;
    ``publish_unavailable`` and ``acknowledge_unavailable`` the call ends with UNAVAILABLE and has no effect;
    ``publish_answer_lost`` the messages are taken, but the call ends with UNAVAILABLE.
    """

    duplicate: float = 0.0
    reorder: float = 0.0
    publish_unavailable: float = 0.0
    publish_answer_lost: float = 0.0
    acknowledge_unavailable: float = 0.0
    seed: int = 0
    chance: random.Random = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "chance", random.Random(self.seed))

    def strikes(self, probability: float) -> bool:
        return probability > 0 and self.chance.random() < probability


class Entry:
    """One message in one subscription until it is acknowledged."""

    __slots__ = ("ack_id", "attempts", "deadline", "message", "settled", "stream")

    def __init__(self, message: Any) -> None:
        self.message = message
        self.attempts = 0
        self.ack_id = ""
        self.deadline = 0.0
        self.stream: Stream | None = None
        self.settled = False


class Stream:
    """One streaming pull: its flow control and the queue of batches to send."""

    def __init__(self, max_outstanding: int, ack_deadline_s: int) -> None:
        self.max_outstanding = max_outstanding or 1000
        self.ack_deadline_s = ack_deadline_s or 10
        self.outstanding = 0
        self.batches: asyncio.Queue[list[Any] | None] = asyncio.Queue()


class Line:
    """Entries that may be delivered now, and those that wait behind an earlier one of their ordering key."""

    def __init__(self, *, ordered: bool, faults: Faults) -> None:
        self._ordered = ordered
        self._faults = faults
        self._ready: deque[Entry] = deque()
        self._behind: dict[str, deque[Entry]] = {}

    def __len__(self) -> int:
        return len(self._ready)

    def append(self, entry: Entry) -> None:
        key = self._key(entry)
        if key and key in self._behind:
            self._behind[key].append(entry)
        elif key:
            self._behind[key] = deque()
            self._ready.append(entry)
        elif self._ready and self._faults.strikes(self._faults.reorder):
            self._ready.insert(self._faults.chance.randrange(len(self._ready)), entry)
        else:
            self._ready.append(entry)

    def put_back(self, entry: Entry) -> None:
        """An entry whose turn it still is: its key stayed busy all the time."""
        self._ready.appendleft(entry)

    def next(self) -> Entry | None:
        while self._ready:
            entry = self._ready.popleft()
            if not entry.settled:
                return entry
            self.done(entry)
        return None

    def done(self, entry: Entry) -> None:
        """The key's next entry may go."""
        key = self._key(entry)
        if not key or key not in self._behind:
            return
        if self._behind[key]:
            self._ready.append(self._behind[key].popleft())
        else:
            del self._behind[key]

    def clear(self) -> None:
        self._ready.clear()
        self._behind.clear()

    def _key(self, entry: Entry) -> str:
        return str(entry.message.ordering_key) if self._ordered else ""


class Subscription:
    """Delivers one topic's messages to its consumers under leases. ``settings`` is the raw protobuf."""

    def __init__(self, store: Store, settings: Any) -> None:
        self.settings = settings
        self.streams: list[Stream] = []
        self._store = store
        self._matches = compile_filter(settings.filter) if settings.filter else None
        self._line = Line(ordered=settings.enable_message_ordering, faults=store.faults)
        self._open: OrderedDict[str, Entry] = OrderedDict()
        self._leased: dict[str, Entry] = {}
        self._seen: deque[Any] = deque(maxlen=REMEMBERED_FOR_SEEK)
        self._timers: list[tuple[float, int, str | Entry]] = []
        self._numbers = itertools.count()
        self._first_stream = 0
        self._changed = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False
        self._tasks = [asyncio.create_task(self.run())]
        if settings.push_config.push_endpoint:
            self._tasks.append(asyncio.create_task(self._push()))

    # -- intake and delivery ------------------------------------------------------------------------------------

    def offer(self, message: Any) -> None:
        if self.settings.detached or (self._matches and not self._matches(message.attributes)):
            return
        self._seen.append(message)
        self._enter(message)
        if self._store.faults.strikes(self._store.faults.duplicate):
            self._line.append(Entry(message))
        self.notice()

    def take(self, room: int, ack_deadline_s: float, stream: Stream | None = None) -> list[Any]:
        """Up to ``room`` messages, each under a lease of its own."""
        received = []
        while len(received) < room and (entry := self._line.next()) is not None:
            entry.attempts += 1
            entry.stream = stream
            entry.ack_id = f"{entry.message.message_id}-{next(self._numbers)}"
            self._leased[entry.ack_id] = entry
            self._lease(entry, ack_deadline_s)
            if stream:
                stream.outstanding += 1
            one = ReceivedMessage(ack_id=entry.ack_id, message=entry.message)
            if self.settings.dead_letter_policy.dead_letter_topic:
                one.delivery_attempt = entry.attempts
            received.append(one)
        if received:
            self.notice()
        return received

    async def wait_for_messages(self, timeout_s: float) -> None:
        """Returns when something may be taken, or after the time."""
        until = time.monotonic() + timeout_s
        while not len(self._line) and not self._closed and (left_s := until - time.monotonic()) > 0:
            news = asyncio.get_running_loop().create_future()
            self._waiting.append(news)
            await asyncio.wait([news], timeout=left_s)
            if news in self._waiting:
                self._waiting.remove(news)

    # -- verdicts of consumers ----------------------------------------------------------------------------------

    def acknowledge(self, ack_ids: Iterable[str]) -> list[str]:
        """Returns the ids that name no lease."""
        unknown = []
        for ack_id in ack_ids:
            entry = self._end_lease(ack_id)
            if entry is None:
                unknown.append(ack_id)
            else:
                self._settle(entry)
        self.notice()
        return unknown

    def set_deadline(self, ack_ids: Iterable[str], seconds: int) -> list[str]:
        """Zero gives back at once. Returns the ids that name no lease."""
        unknown = []
        for ack_id in ack_ids:
            entry = self._leased.get(ack_id)
            if entry is None:
                unknown.append(ack_id)
            elif seconds == 0:
                self._give_back(ack_id)
            else:
                self._lease(entry, seconds)
        self.notice()
        return unknown

    def seek(self, belongs: Callable[[Any], bool]) -> None:
        """The backlog becomes exactly the remembered messages that ``belongs`` accepts."""
        for entry in self._open.values():
            entry.settled = True
        for part in (self._open, self._leased, self._line, self._timers):
            part.clear()
        for stream in self.streams:
            stream.outstanding = 0
        for message in list(self._seen):
            if belongs(message):
                self._enter(message)
        self.notice()

    def open_ids(self) -> set[str]:
        return set(self._open)

    def close(self) -> None:
        self._closed = True
        self.notice()
        for task in self._tasks[1:]:
            task.cancel()
        for stream in self.streams:
            stream.batches.put_nowait(None)

    def notice(self) -> None:
        """Something changed: the loop and every long pull look again."""
        self._changed.set()
        for news in self._waiting:
            if not news.done():
                news.set_result(None)
        self._waiting.clear()

    # -- leases, back-off, dead letters -------------------------------------------------------------------------

    def _enter(self, message: Any) -> None:
        entry = Entry(message)
        self._open[message.message_id] = entry
        self._line.append(entry)

    def _lease(self, entry: Entry, seconds: float) -> None:
        entry.deadline = time.monotonic() + seconds
        self._at(entry.deadline, entry.ack_id)

    def _at(self, moment: float, what: str | Entry) -> None:
        heapq.heappush(self._timers, (moment, next(self._numbers), what))

    def _end_lease(self, ack_id: str) -> Entry | None:
        entry = self._leased.pop(ack_id, None)
        if entry and entry.stream:
            entry.stream.outstanding -= 1
            entry.stream = None
        return entry

    def _settle(self, entry: Entry) -> None:
        entry.settled = True
        self._open.pop(entry.message.message_id, None)
        self._line.done(entry)

    def _give_back(self, ack_id: str) -> None:
        entry = self._end_lease(ack_id)
        if entry is None or entry.settled:
            return
        if self._is_dead_letter(entry):
            return
        backoff_s = self._backoff_s(entry)
        if backoff_s > 0:
            self._at(time.monotonic() + backoff_s, entry)
        else:
            self._line.put_back(entry)

    def _is_dead_letter(self, entry: Entry) -> bool:
        policy = self.settings.dead_letter_policy
        if not policy.dead_letter_topic or entry.attempts < (policy.max_delivery_attempts or 5):
            return False
        topic = self._store.topics.get(policy.dead_letter_topic)
        if topic is None:
            return False
        _, project, _, name = self.settings.name.split("/")
        letter = PubsubMessage(
            data=entry.message.data, attributes=entry.message.attributes, ordering_key=entry.message.ordering_key
        )
        letter.attributes.update(
            {
                "CloudPubSubDeadLetterSourceDeliveryCount": str(entry.attempts),
                "CloudPubSubDeadLetterSourceSubscription": name,
                "CloudPubSubDeadLetterSourceSubscriptionProject": project,
                "CloudPubSubDeadLetterSourceTopicPublishTime": entry.message.publish_time.ToJsonString(),
            }
        )
        topic.publish(letter)
        self._settle(entry)
        return True

    def _backoff_s(self, entry: Entry) -> float:
        if not self.settings.HasField("retry_policy"):
            return 0.0
        policy = self.settings.retry_policy
        shortest = policy.minimum_backoff.ToTimedelta().total_seconds() or DEFAULT_MINIMUM_BACKOFF_S
        longest = policy.maximum_backoff.ToTimedelta().total_seconds() or DEFAULT_MAXIMUM_BACKOFF_S
        return min(longest, shortest * 2 ** (entry.attempts - 1))

    # -- loops --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ends leases whose time is over and feeds the streams, until closed."""
        while not self._closed:
            self._expire()
            if self._feed_streams():
                await asyncio.sleep(0)
                continue
            self._changed.clear()
            pause_s = max(0.001, self._timers[0][0] - time.monotonic()) if self._timers else 3600.0
            try:
                await asyncio.wait_for(self._changed.wait(), pause_s)
            except TimeoutError:
                continue

    def _expire(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, _, what = heapq.heappop(self._timers)
            if isinstance(what, Entry):
                self._line.put_back(what)
            elif (entry := self._leased.get(what)) is not None and entry.deadline <= now:
                self._give_back(what)
            self.notice()

    def _feed_streams(self) -> bool:
        """Shares what is ready evenly among the streams that have room."""
        if not self.streams or not len(self._line):
            return False
        share, sent = max(1, -(-len(self._line) // len(self.streams))), False
        self._first_stream += 1
        for number in range(len(self.streams)):
            stream = self.streams[(self._first_stream + number) % len(self.streams)]
            room = min(share, SHARE_PER_STREAM, stream.max_outstanding - stream.outstanding)
            batch = self.take(room, stream.ack_deadline_s, stream) if room > 0 else []
            if batch:
                stream.batches.put_nowait(batch)
                sent = True
        return sent

    async def _push(self) -> None:
        """Posts one message at a time to the endpoint; another answer than 2xx gives it back."""
        while not self._closed:
            received = self.take(1, self.settings.ack_deadline_seconds)
            if not received:
                await self.wait_for_messages(0.5)
                continue
            accepted = await asyncio.to_thread(_post, self.settings.push_config.push_endpoint, self._push_body(received[0]))
            if accepted:
                self.acknowledge([received[0].ack_id])
            else:
                await asyncio.sleep(0.1)
                self.set_deadline([received[0].ack_id], 0)

    def _push_body(self, received: Any) -> bytes:
        message = received.message
        told: dict[str, Any] = {
            "data": base64.b64encode(message.data).decode(),
            "attributes": dict(message.attributes),
            "messageId": message.message_id,
            "message_id": message.message_id,
            "publishTime": message.publish_time.ToJsonString(),
        }
        if message.ordering_key:
            told["orderingKey"] = message.ordering_key
        body: dict[str, Any] = {"subscription": self.settings.name, "message": told}
        if received.delivery_attempt:
            body["deliveryAttempt"] = received.delivery_attempt
        return json.dumps(body).encode()


def _post(url: str, body: bytes) -> bool:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - loopback, checked
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - as above
            return answer.status in PUSH_ACCEPTED
    except (urllib.error.URLError, OSError):
        return False


class Topic:
    """Numbers messages and offers them to every subscription. ``settings`` is the raw protobuf."""

    def __init__(self, store: Store, settings: Any) -> None:
        self.settings = settings
        self.subscriptions: dict[str, Subscription] = {}
        self._store = store

    def publish(self, message: Any) -> str:
        message.message_id = str(next(self._store.message_numbers))
        message.publish_time.FromNanoseconds(time.time_ns())
        for subscription in list(self.subscriptions.values()):
            subscription.offer(message)
        return message.message_id


@dataclass(frozen=True)
class Snapshot:
    topic: str
    open_ids: frozenset[str]
    taken_at_ns: int


class Store:
    """All topics, subscriptions and snapshots of one server."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.message_numbers = itertools.count(1)
        self.topics: dict[str, Topic] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.snapshots: dict[str, Snapshot] = {}
