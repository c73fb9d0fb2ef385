"""Events leave through here: written in the transaction of their cause, validated, in order per key.

One rule: the sequence comes from the locked aggregate, so it is gap-free and has no race.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lockservice.core import tenancy
from lockservice.core.bulk import insert_rows
from sagas.events import envelope, registry, validate
from vendors.port.ids import new_id

SHARDS = 16
SOURCE = "/services/lock-integration-service"

_COLUMNS = {
    "id": "text", "tenant_id": "text", "subject": "text", "topic": "text", "ordering_key": "text", "sequence": "int",
    "shard": "smallint", "body": "bytea", "created_at": "timestamptz", "attempts": "smallint", "blocked": "bool",
}  # fmt: skip


class CrossTenantEvent(Exception):
    """An event of one tenant was about to be written in another's transaction. A programming error; never retried."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Where work comes from: the ids an event carries on, and who acts (`saga`, a user's id, or a service)."""

    correlation_id: str = ""
    causation_id: str = ""
    trace_id: str = ""
    actor: str = "saga"


@dataclass(frozen=True, slots=True)
class Emission:
    """One event to write. `sequence` counts from 1 per ordering key."""

    event_id: str
    subject: str
    ordering_key: str
    sequence: int
    data: Mapping[str, Any]
    cause: Cause


def new_event_id() -> str:
    """Makes an event's id."""
    return new_id("evt")


def write(tenant_id: str, emissions: Sequence[Emission], now: datetime) -> None:
    """Validates and stores the events, in the caller's transaction. `now` is the hotel's time, carried as the event's.

    Raises sagas.events.refusals.EventRefused when one does not fit its schema (our bug: the transaction must fail), and
    CrossTenantEvent when the transaction is another tenant's.
    """
    if tenancy.current_tenant() not in (None, tenant_id):
        raise CrossTenantEvent(f"event of {tenant_id}")
    insert_rows("sagas_outboxevent", _COLUMNS, [_row(tenant_id, emission, now) for emission in emissions])


def shard_of(ordering_key: str) -> int:
    """Returns the shard (0 to 15) in which all events of a key are published in order."""
    return zlib.crc32(ordering_key.encode()) % SHARDS


def _row(tenant_id: str, emission: Emission, now: datetime) -> tuple[Any, ...]:
    spec = registry.spec(emission.subject)
    validate.validate(emission.subject, emission.data)
    body = envelope.encode(
        envelope.Envelope(
            id=emission.event_id,
            subject=emission.subject,
            source=SOURCE,
            time=now,
            tenant_id=tenant_id,
            trace_id=emission.cause.trace_id,
            correlation_id=emission.cause.correlation_id,
            causation_id=emission.cause.causation_id,
            data=emission.data,
            ordering_key=emission.ordering_key,
            sequence=emission.sequence,
        )
    )
    shard = shard_of(emission.ordering_key)
    return (
        emission.event_id, tenant_id, emission.subject, spec.topic, emission.ordering_key, emission.sequence, shard, body,
        now, 0, False,
    )  # fmt: skip
