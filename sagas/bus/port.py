"""What a bus promises, in values and errors that name no broker.

Rule: what is promised here holds for every implementation, and is shown for each by the same contract tests.

The promises
    At least once. A message may come again after a lost acknowledgement, a crash or a lease that ran out; the inbox
    takes it once.
    Order within one ``(topic, key)`` for a group with one consumer: a message is not handed out while an earlier one of
    its key waits to be redelivered. Neither broker orders across topics, nor across the consumers of one group.
    Groups are independent: each sees every message published since it was first used (Redis Streams) or provisioned
    (Pub/Sub).
    Nothing is a truth: an emptied broker loses what nobody had consumed, and producers send again from their record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

MAX_MESSAGE_BYTES = 9_000_000
"""Body plus key plus attributes. Pub/Sub refuses a request above 10,000,000 bytes, framing included
(Source: Pub/Sub quotas page, read November 2026); the same limit holds on every bus so that none hides a fault."""

MAX_KEY_BYTES = 1024
MAX_ATTRIBUTES = 100
MAX_ATTRIBUTE_NAME_BYTES = 256
MAX_ATTRIBUTE_VALUE_BYTES = 1024

RESERVED_ATTRIBUTE_NAMES = frozenset({"self", "topic", "data", "ordering_key", "retry", "timeout"})
"""The Pub/Sub client takes attributes as keyword arguments beside these names, so an attribute cannot carry them."""


class BusError(Exception):
    """Something the bus could not do. ``retriable`` says whether the same call may succeed later."""

    retriable = False


class BusUnavailable(BusError):
    """The broker does not answer, is loading, is full or is read-only. Try the same call again later."""

    retriable = True


class BusMisconfigured(BusError):
    """The broker answers, but a topic, subscription, right or password is missing. Trying again changes nothing."""


class MessageRefused(BusError):
    """A message breaks a limit of the bus. Nothing of the batch was sent; the same message will be refused again."""


@dataclass(frozen=True, slots=True)
class BusMessage:
    """One message. ``key`` is the ordering key (credential or reservation id); empty means no order is asked for."""

    topic: str
    key: str
    body: bytes
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message handed to one consumer.

    ``receipt`` is opaque and good for one acknowledgement or rejection by the bus object that handed it out.
    ``attempt`` counts the deliveries of this message to this group, from 1, this one included.
    """

    message: BusMessage
    receipt: str
    attempt: int


@runtime_checkable
class EventBus(Protocol):
    """Publishes messages and hands them to groups of consumers. One object serves one process; it may be made before
    a fork, since connections are opened on first use."""

    depth_is_exact: bool
    """Whether ``depth`` counts the whole backlog (Redis Streams) or gives a lower bound (Pub/Sub)."""

    def publish(self, messages: Sequence[BusMessage]) -> None:
        """Sends all messages, in order per ``(topic, key)``, pipelined.

        All or a prefix: when this raises ``BusUnavailable``, what arrived of each ``(topic, key)`` is a prefix of what
        was given, and nothing else of it will arrive by itself. Send the whole batch again: some messages may then be
        on the bus twice, none out of order.

        Raises ``BusUnavailable`` (retriable), ``MessageRefused`` before anything was sent, ``BusMisconfigured``.
        """
        ...

    def receive(self, topics: Sequence[str], group: str, consumer: str, max_messages: int, wait_s: float) -> list[Delivery]:
        """At most ``max_messages`` deliveries, waiting up to ``wait_s`` seconds for the first.

        ``topics`` stand in the order of their priority: what waits in an earlier topic is handed out before anything of
        a later one. ``consumer`` must be unique among the live consumers of the group; a consumer that comes back
        under its old name gets what it had left unfinished first.

        Every delivery is to be acknowledged or rejected within the lease, or it is handed out again.

        Raises ``BusUnavailable`` (retriable), ``BusMisconfigured``.
        """
        ...

    def acknowledge(self, group: str, deliveries: Iterable[Delivery]) -> None:
        """Ends these deliveries for the group. A receipt that is no longer current is passed over.

        Raises ``BusUnavailable`` (retriable; if not repeated, the messages come again).
        """
        ...

    def reject(self, group: str, deliveries: Iterable[Delivery], delay_s: float = 0.0) -> None:
        """Gives these deliveries back, to be handed out again after ``delay_s`` (0 to 600 seconds).

        Later deliveries of the same ``(topic, key)`` that this bus object has handed out and that are not yet
        acknowledged go back with them, behind the rejected one: their receipts are void from now on.

        Raises ``BusUnavailable`` (retriable; if not repeated, the messages come again when the lease ends).
        """
        ...

    def subscribe(self, topics: Sequence[str], group: str) -> None:
        """Makes sure that the group sees everything published to these topics from now on. Never needed before
        ``receive``; useful before a producer starts when the group's first consumer may come much later.

        Raises ``BusUnavailable`` (retriable), ``BusMisconfigured`` (Pub/Sub: not provisioned).
        """
        ...

    def depth(self, topic: str, group: str) -> int:
        """Messages of the topic that the group has not acknowledged; see ``depth_is_exact``.

        Raises ``BusUnavailable`` (retriable).
        """
        ...

    def close(self) -> None:
        """Ends connections and threads. What was handed out and not acknowledged comes again when its lease ends."""
        ...


def check_messages(messages: Sequence[BusMessage]) -> None:
    """Raises ``MessageRefused`` for the first message that some bus could not carry."""
    for message in messages:
        reason = _reason_to_refuse(message)
        if reason is not None:
            raise MessageRefused(f"message for {message.topic}: {reason}")


def _reason_to_refuse(message: BusMessage) -> str | None:
    if not message.topic:
        return "no topic"
    if not message.body and not message.attributes:
        return "neither body nor attributes"
    key_bytes = len(message.key.encode())
    if key_bytes > MAX_KEY_BYTES:
        return f"ordering key of {key_bytes} bytes, {MAX_KEY_BYTES} allowed"
    if len(message.attributes) > MAX_ATTRIBUTES:
        return f"{len(message.attributes)} attributes, {MAX_ATTRIBUTES} allowed"
    wrong_name = next((name for name, value in message.attributes.items() if not _is_carried(name, value)), None)
    if wrong_name is not None:
        return f"attribute {wrong_name[:40]!r} is empty, too long or reserved"
    size = len(message.body) + key_bytes
    size += sum(len(name.encode()) + len(value.encode()) for name, value in message.attributes.items())
    return f"{size} bytes, {MAX_MESSAGE_BYTES} allowed" if size > MAX_MESSAGE_BYTES else None


def _is_carried(name: str, value: str) -> bool:
    if not name or name in RESERVED_ATTRIBUTE_NAMES or name.startswith("goog"):
        return False
    return len(name.encode()) <= MAX_ATTRIBUTE_NAME_BYTES and len(value.encode()) <= MAX_ATTRIBUTE_VALUE_BYTES
