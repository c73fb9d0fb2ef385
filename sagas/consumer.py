"""Consumes events: most urgent topics first, each event in its own transaction, acknowledged after the commit.

One rule: a message that cannot be handled goes to the dead letters with its reason and is acknowledged; one that could not be
handled now (database away) is given back.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

import structlog
from django.db import DatabaseError, InterfaceError, OperationalError, connection

from credentials.reservations import UnusableBooking
from lockservice.core import tenancy, wake
from sagas.bus.port import BusUnavailable, Delivery, EventBus
from sagas.dispatch import dispatch
from sagas.events import envelope, registry
from sagas.events.refusals import EventRefused
from sagas.inbox import bury

log = structlog.get_logger(__name__)

GROUP = "lock-integration-service"
MAX_MESSAGES = 50
WAIT_S = 0.5
TRIES = 3
RETRYABLE_SQLSTATES = frozenset({"40001", "40P01"})


class Consumer:
    """One consumer of the group; any number may run."""

    def __init__(self, bus: EventBus, *, group: str = GROUP, topics: Sequence[str] | None = None) -> None:
        self._bus = bus
        self._group = group
        self._topics = list(topics) if topics is not None else topics_by_urgency()
        self._name = uuid.uuid4().hex
        self.handled = 0

    def run(self, *, until: Callable[[], bool], drain: bool = False) -> int:
        """Consumes until told to stop, or (drain) until nothing more arrives; returns how many messages were handled."""
        while not until():
            try:
                count = self.round(0.05 if drain else WAIT_S)
            except (BusUnavailable, OperationalError, InterfaceError) as error:
                log.warning("consumer.waits", error=type(error).__name__)
                connection.close()
                if drain:
                    raise
                time.sleep(0.3)
                continue
            if drain and not count:
                break
        return self.handled

    def round(self, wait_s: float = WAIT_S) -> int:
        """Receives and handles one batch; returns how many messages came."""
        deliveries = self._bus.receive(self._topics, self._group, self._name, MAX_MESSAGES, wait_s)
        for position, delivery in enumerate(deliveries):
            try:
                handle(delivery)
            except (OperationalError, InterfaceError):
                self._bus.reject(self._group, deliveries[position:], 0.5)
                raise
            self._bus.acknowledge(self._group, [delivery])
            self.handled += 1
        if deliveries:
            wake.hint("sagas.drain", "saga")
        return len(deliveries)


def topics_by_urgency() -> list[str]:
    """Returns the consumed topics, those of security and cancellation first."""
    ordered = sorted(registry.consumed(), key=lambda spec: (spec.priority, spec.topic or ""))
    return list(dict.fromkeys(spec.topic for spec in ordered if spec.topic))


def handle(delivery: Delivery) -> str:
    """Handles one message to its end: `applied`, `ignored`, `duplicate` or `buried`. Raises only database outages."""
    message = delivery.message
    return handle_body(message.topic, message.key, message.body)


def handle_body(topic: str, key: str, body: bytes) -> str:
    """As `handle`, for a message however it came (bus, push delivery, replay)."""
    event = None
    try:
        event = envelope.decode(body)
        return _dispatch(event)
    except (EventRefused, UnusableBooking) as refused:
        code = refused.code if isinstance(refused.code, str) else refused.code.value
        _bury(event, topic, key, body, str(code), refused.detail)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        log.exception("consumer.bug", topic=topic)
        _bury(event, topic, key, body, "INTERNAL_ERROR", type(error).__name__)
    return "buried"


def _dispatch(event: envelope.Envelope) -> str:
    """Repeats the whole transaction when PostgreSQL chose it as the victim of a conflict."""
    for last in (False,) * (TRIES - 1) + (True,):
        try:
            return dispatch(event)
        except DatabaseError as error:
            state = getattr(error.__cause__, "sqlstate", None)
            if last or state not in RETRYABLE_SQLSTATES:
                raise
    raise AssertionError("unreachable")


def _bury(event: envelope.Envelope | None, topic: str, key: str, body: bytes, code: str, detail: str) -> None:
    known = event is not None and code != "UNKNOWN_TENANT"
    tenant_id = event.tenant_id if event is not None and known else tenancy.UNATTRIBUTED
    # Not a queue block: push deliveries and replays come through the web login, which may not use one.
    with tenancy.tenant(tenant_id):
        bury(
            tenant_id, "inbox", topic, body, code, detail, key=key,
            event_id=event.id if event else "", subject=event.subject if event else "",
        )  # fmt: skip
    log.warning("consumer.dead_letter", topic=topic, code=code)
