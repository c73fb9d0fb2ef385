"""What has to exist at the broker: topics, subscriptions, dead letters, order and retry, from the event registry.

Rule: one declaration for production, the local servers and the tests. Nobody makes a topic or subscription by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sagas.events.event_spec import EventSpec

SERVICE_GROUP = "lock-integration-service"
"""The group under which all consumers of this service share the work."""

ACK_DEADLINE_S = 60
"""Longest silence of a consumer before its messages go to another; living consumers extend their leases."""

MAX_DELIVERY_ATTEMPTS = 100
"""The most that Pub/Sub allows (5 to 100; Source: DeadLetterPolicy in google.pubsub.v1). The inbox refuses a bad event
itself, with a reason; the broker's dead letter is for what could not even be stored, and a database that is away for
an hour (100 attempts, up to 60 s apart) must not end there."""

MINIMUM_BACKOFF_S = 1.0
MAXIMUM_BACKOFF_S = 60.0
RETENTION_S = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class SubscriptionDeclaration:
    """One group's subscription to one topic. ``dead_letter_topic`` None: nothing is taken away from the group."""

    topic: str
    group: str
    ordered: bool = True
    ack_deadline_s: int = ACK_DEADLINE_S
    dead_letter_topic: str | None = None
    max_delivery_attempts: int = MAX_DELIVERY_ATTEMPTS
    minimum_backoff_s: float = MINIMUM_BACKOFF_S
    maximum_backoff_s: float = MAXIMUM_BACKOFF_S
    retention_s: int = RETENTION_S

    @property
    def name(self) -> str:
        return subscription_name(self.topic, self.group)


@dataclass(frozen=True, slots=True)
class Topology:
    """All that must exist. Topics are sorted and unique, and hold every topic that a subscription names."""

    topics: tuple[str, ...]
    subscriptions: tuple[SubscriptionDeclaration, ...]

    def subscription(self, topic: str, group: str) -> SubscriptionDeclaration:
        """The declared subscription, or the default for a group that is not this service's own, a test's for example."""
        for declaration in self.subscriptions:
            if (declaration.topic, declaration.group) == (topic, group):
                return declaration
        return SubscriptionDeclaration(topic, group)


def subscription_name(topic: str, group: str) -> str:
    return f"{topic}.{group}"


def declare(*, consumed: Iterable[EventSpec], produced: Iterable[EventSpec], group: str = SERVICE_GROUP) -> Topology:
    """Topics of both directions; for every consumed topic a subscription of the group; for every dead-letter topic a
    subscription that keeps what arrives there, since a topic without one forgets its messages."""
    consumed, produced = tuple(consumed), tuple(produced)
    dead_letters = {spec.topic: spec.dead_letter_topic for spec in consumed if spec.topic is not None}
    subscriptions = [
        SubscriptionDeclaration(topic, group, dead_letter_topic=dead_letter)
        for topic, dead_letter in sorted(dead_letters.items())
    ]
    named = {spec.topic for spec in (*consumed, *produced)} | {spec.dead_letter_topic for spec in (*consumed, *produced)}
    kept = {spec.dead_letter_topic for spec in (*consumed, *produced)}
    subscriptions += [
        SubscriptionDeclaration(topic, group, ordered=False) for topic in sorted(name for name in kept if name is not None)
    ]
    return Topology(tuple(sorted(name for name in named if name is not None)), tuple(subscriptions))


def from_registry() -> Topology:
    """The topology of this service."""
    from sagas.events import registry  # the registry reads its schemas on import; a bus without topology does not need it

    return declare(consumed=registry.consumed(), produced=registry.produced())
