"""What one bus object has handed out and nobody has settled yet.

Rule: a receipt is current or it is void, and only this table knows which. Both implementations rest on it for the
promise that a rejected message is not overtaken by later ones of its key that are already in the consumer's hands.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from sagas.bus.port import Delivery


@dataclass(frozen=True, slots=True)
class Held:
    """One unsettled delivery. ``reference`` names the message at the broker, ``receipt`` this delivery of it."""

    topic: str
    key: str
    reference: str
    receipt: str


def receipt_of(reference: str, handle: str) -> str:
    """The opaque receipt of a delivery: the broker's name of the message, then what the broker wants back."""
    return f"{reference}|{handle}"


def handle_of(receipt: str) -> str:
    return receipt.partition("|")[2]


def reference_of(receipt: str) -> str:
    return receipt.partition("|")[0]


class HeldDeliveries:
    """Unsettled deliveries by message and, in order of delivery, by ordering key. Safe between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_message: dict[tuple[str, str, str], Held] = {}
        self._by_key: dict[tuple[str, str, str], dict[str, None]] = {}

    def add(self, group: str, delivery: Delivery) -> None:
        """Remembers a delivery; an older delivery of the same message becomes void."""
        message = delivery.message
        held = Held(message.topic, message.key, reference_of(delivery.receipt), delivery.receipt)
        with self._lock:
            self._forget(group, held.topic, held.reference)
            self._by_message[group, held.topic, held.reference] = held
            if held.key:
                self._by_key.setdefault((group, held.topic, held.key), {})[held.reference] = None

    def current(self, group: str, delivery: Delivery) -> Held | None:
        """The held delivery behind this receipt, or None when the receipt is void."""
        with self._lock:
            return self._find(group, delivery)

    def settle(self, group: str, held: Held) -> None:
        """Forgets a delivery, unless the message has been handed out anew in the meantime."""
        with self._lock:
            if self._by_message.get((group, held.topic, held.reference)) == held:
                self._forget(group, held.topic, held.reference)

    def rejected_with_followers(self, group: str, delivery: Delivery) -> list[Held]:
        """The delivery and every later one of its key, in order; empty when the receipt is void. Forgets nothing."""
        with self._lock:
            held = self._find(group, delivery)
            if held is None:
                return []
            if not held.key:
                return [held]
            references = list(self._by_key[group, held.topic, held.key])
            later = references[references.index(held.reference) :]
            return [self._by_message[group, held.topic, reference] for reference in later]

    def count(self, group: str, topic: str) -> int:
        with self._lock:
            return sum(1 for held_group, held_topic, _ in self._by_message if (held_group, held_topic) == (group, topic))

    def _find(self, group: str, delivery: Delivery) -> Held | None:
        held = self._by_message.get((group, delivery.message.topic, reference_of(delivery.receipt)))
        return held if held is not None and held.receipt == delivery.receipt else None

    def _forget(self, group: str, topic: str, reference: str) -> None:
        held = self._by_message.pop((group, topic, reference), None)
        if held is None or not held.key:
            return
        line = self._by_key[group, topic, held.key]
        line.pop(reference)
        if not line:
            del self._by_key[group, topic, held.key]
