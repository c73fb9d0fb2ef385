"""Consumes events: most urgent topics first, each event in its own transaction, acknowledged after the commit.

One rule: a message that cannot be handled goes to the dead letters with its reason and is acknowledged; one that could not be
handled now (database away) is given back.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

import structlog
from django.db import Error

from credentials.reservations import UnusableBooking
from lockservice.core import tenancy, wake
from lockservice.core.loops import LoopGuard
from lockservice.core.outage import is_conflict, is_outage
from sagas.bus.port import BusError, BusUnavailable, Delivery, EventBus
from sagas.bus.topology import SERVICE_GROUP
from sagas.dispatch import dispatch, dispatch_together, may_share
from sagas.events import envelope, registry
from sagas.events.refusals import EventRefused
from sagas.flows import odd_booking
from sagas.inbox import bury

log = structlog.get_logger(__name__)

MAX_MESSAGES = 50
WAIT_S = 0.5
TRIES = 3


class Consumer:
    """One consumer of the group; any number may run."""

    def __init__(self, bus: EventBus, *, group: str = SERVICE_GROUP, topics: Sequence[str] | None = None) -> None:
        self._bus = bus
        self._group = group
        self._topics = list(topics) if topics is not None else topics_by_urgency()
        self._name = uuid.uuid4().hex
        self.handled = 0

    def run(self, *, until: Callable[[], bool], drain: bool = False) -> int:
        """Consumes until told to stop, or (drain) until nothing more arrives; returns how many messages were handled."""
        with LoopGuard("consumer", waits_for=(BusUnavailable,), stopped=until) as guard:
            while not until():
                try:
                    count = self.round(0.05 if drain else WAIT_S)
                except Exception as error:
                    if drain:
                        raise
                    guard.failed(error)
                    continue
                guard.succeeded()
                if drain and not count:
                    break
        return self.handled

    def round(self, wait_s: float = WAIT_S) -> int:
        """Receives and handles one batch; returns how many messages came."""
        deliveries = self._bus.receive(self._topics, self._group, self._name, MAX_MESSAGES, wait_s)
        left = list(deliveries)
        try:
            for part in _parts(deliveries):
                handle(part)
                self._bus.acknowledge(self._group, part)
                self.handled += len(part)
                del left[: len(part)]
        except BusError:
            raise  # what was handed out comes again when its lease ends
        except Exception:
            self._bus.reject(self._group, left, 0.5)
            raise
        if deliveries:
            wake.hint("sagas.drain", "saga")
        return len(deliveries)


def topics_by_urgency() -> list[str]:
    """Returns the consumed topics, those of security and cancellation first."""
    ordered = sorted(registry.consumed(), key=lambda spec: (spec.priority, spec.topic or ""))
    return list(dict.fromkeys(spec.topic for spec in ordered if spec.topic))


def handle(deliveries: Sequence[Delivery]) -> None:
    """Handles messages to their end, in one transaction where they may share one. Raises only database outages."""
    if len(deliveries) > 1:
        try:
            dispatch_together([envelope.decode(item.message.body) for item in deliveries])
        except Exception as error:
            if is_outage(error) and not is_conflict(error):
                raise
            # Each is handled alone below, and its reason kept there.
            log.info("consumer.one_by_one", messages=len(deliveries), because=type(error).__name__)
        else:
            return
    for item in deliveries:
        handle_body(item.message.topic, item.message.key, item.message.body)


def handle_body(topic: str, key: str, body: bytes) -> str:
    """Handles one message however it came (bus, push delivery, replay): `applied`, `ignored`, `duplicate` or `buried`."""
    event = None
    try:
        event = envelope.decode(body)
        return _dispatch(event)
    except (EventRefused, UnusableBooking) as refused:
        code = refused.code if isinstance(refused.code, str) else refused.code.value
        _bury(event, topic, key, body, str(code), refused.detail)
    except Exception as error:
        if is_outage(error):
            raise
        log.exception("consumer.bug", topic=topic)
        _bury(event, topic, key, body, "INTERNAL_ERROR", type(error).__name__)
    return "buried"


def _parts(deliveries: Sequence[Delivery]) -> list[list[Delivery]]:
    """Cuts deliveries, in their order, into runs whose events may share a transaction."""
    parts: list[list[Delivery]] = []
    open_part: list[envelope.Envelope] = []
    for delivery in deliveries:
        event = _decoded(delivery)
        shares = event is not None and bool(open_part) and all(may_share(event, other) for other in open_part)
        if shares:
            parts[-1].append(delivery)
        else:
            parts.append([delivery])
            open_part = []
        if event is not None:
            open_part.append(event)
    return parts


def _decoded(delivery: Delivery) -> envelope.Envelope | None:
    try:
        return envelope.decode(delivery.message.body)
    except EventRefused:
        return None  # handled alone, where the refusal is kept


def _dispatch(event: envelope.Envelope) -> str:
    """Repeats the whole transaction when PostgreSQL chose it as the victim of a conflict."""
    for last in (False,) * (TRIES - 1) + (True,):
        try:
            return dispatch(event)
        except Error as error:
            if last or not is_conflict(error):
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
    odd_booking.tell_unread(tenant_id, event.subject if event else topic, body, code, detail)
    log.warning("consumer.dead_letter", topic=topic, code=code)
