"""Brings a Pub/Sub project to the declared topology.

Rule: safe to run again and at the same time as another; it makes and corrects, and never deletes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from google.api_core import exceptions as api
from google.protobuf import field_mask_pb2  # type: ignore[import-untyped]
from google.pubsub_v1 import types

from sagas.bus.pubsub_clients import PubSubClients
from sagas.bus.topology import SubscriptionDeclaration, Topology

CALL_TIMEOUT_S = 10.0


class Outcome(StrEnum):
    """What was found of one topic or subscription, and done about it."""

    PRESENT = "present"
    CREATED = "created"
    CORRECTED = "corrected"
    CONFLICTS = "conflicts"


@dataclass(frozen=True, slots=True)
class Change:
    """One topic or subscription. ``differing`` names the fields that were, or in a dry run would be, corrected."""

    kind: str
    name: str
    outcome: Outcome
    differing: tuple[str, ...] = ()


def topic_path(project: str, topic: str) -> str:
    return f"projects/{project}/topics/{topic}"


def subscription_path(project: str, subscription: str) -> str:
    return f"projects/{project}/subscriptions/{subscription}"


def provision(topology: Topology, clients: PubSubClients, project: str, *, dry_run: bool = False) -> list[Change]:
    """All changes, topics first. See ``changes``."""
    return list(changes(topology, clients, project, dry_run=dry_run))


def changes(topology: Topology, clients: PubSubClients, project: str, *, dry_run: bool = False) -> Iterator[Change]:
    """Yields each topic and subscription as it is dealt with; a dry run only looks.

    A subscription whose order setting differs *conflicts*: Pub/Sub cannot change it, somebody has to decide about the
    messages in it. Raises what the client raises (``google.api_core.exceptions``).
    """
    for topic in topology.topics:
        yield _topic(clients, topic_path(project, topic), topic, dry_run=dry_run)
    for declaration in topology.subscriptions:
        yield _subscription(clients, project, declaration, dry_run=dry_run)


def _topic(clients: PubSubClients, path: str, name: str, *, dry_run: bool) -> Change:
    publisher = clients.publisher
    try:
        publisher.get_topic(request={"topic": path}, timeout=CALL_TIMEOUT_S, retry=None)
    except api.NotFound:
        if not dry_run:
            try:
                publisher.create_topic(request={"name": path}, timeout=CALL_TIMEOUT_S, retry=None)
            except api.AlreadyExists:
                return Change("topic", name, Outcome.PRESENT)  # somebody was faster
        return Change("topic", name, Outcome.CREATED)
    return Change("topic", name, Outcome.PRESENT)


def _subscription(clients: PubSubClients, project: str, declaration: SubscriptionDeclaration, *, dry_run: bool) -> Change:
    subscriber = clients.subscriber
    wanted = _wanted(project, declaration)
    try:
        found = subscriber.get_subscription(request={"subscription": wanted.name}, timeout=CALL_TIMEOUT_S, retry=None)
    except api.NotFound:
        if not dry_run:
            try:
                subscriber.create_subscription(request=wanted, timeout=CALL_TIMEOUT_S, retry=None)
            except api.AlreadyExists:
                return Change("subscription", declaration.name, Outcome.PRESENT)
        return Change("subscription", declaration.name, Outcome.CREATED)
    if found.enable_message_ordering != wanted.enable_message_ordering or found.topic != wanted.topic:
        return Change("subscription", declaration.name, Outcome.CONFLICTS, ("enable_message_ordering", "topic"))
    differing = tuple(name for name in _CORRECTABLE if getattr(found, name) != getattr(wanted, name))
    if not differing:
        return Change("subscription", declaration.name, Outcome.PRESENT)
    if not dry_run:
        mask = field_mask_pb2.FieldMask(paths=list(differing))
        subscriber.update_subscription(
            request={"subscription": wanted, "update_mask": mask}, timeout=CALL_TIMEOUT_S, retry=None
        )
    return Change("subscription", declaration.name, Outcome.CORRECTED, differing)


_CORRECTABLE = ("ack_deadline_seconds", "message_retention_duration", "retry_policy", "dead_letter_policy")


def _wanted(project: str, declaration: SubscriptionDeclaration) -> Any:
    wanted = types.Subscription(
        name=subscription_path(project, declaration.name),
        topic=topic_path(project, declaration.topic),
        enable_message_ordering=declaration.ordered,
        ack_deadline_seconds=declaration.ack_deadline_s,
        message_retention_duration=timedelta(seconds=declaration.retention_s),
        retry_policy=types.RetryPolicy(
            minimum_backoff=timedelta(seconds=declaration.minimum_backoff_s),
            maximum_backoff=timedelta(seconds=declaration.maximum_backoff_s),
        ),
        # Never expire: an idle subscription would vanish after 31 days with everything it holds.
        expiration_policy=types.ExpirationPolicy(),
    )
    if declaration.dead_letter_topic is not None:
        wanted.dead_letter_policy = types.DeadLetterPolicy(
            dead_letter_topic=topic_path(project, declaration.dead_letter_topic),
            max_delivery_attempts=declaration.max_delivery_attempts,
        )
    return wanted
