"""The envelope of lock events and of everything this service consumes.

One rule: an Envelope that exists is well formed: its subject is registered and canonical, its time is aware UTC, its
bytes are the same whenever it is encoded. What `data` holds is checked by `validate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sagas.events import fields, strict_json
from sagas.events.instants import format_instant, parse_instant
from sagas.events.refusals import EventRefused, RefusalCode
from sagas.events.registry import REGISTRY, Registry

SPEC_VERSION = "1.0"
SOURCE = "/services/lock-integration-service"
MAX_BYTES = 262_144
"""Largest envelope taken or given out: 256 KiB."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """One event. `sequence` is gap-free per `ordering_key`, starting at 1; both are absent where no order is kept."""

    id: str
    subject: str
    source: str
    time: datetime
    tenant_id: str
    data: Mapping[str, Any]
    trace_id: str | None = None
    """W3C traceparent of the work that caused the event."""
    correlation_id: str | None = None
    causation_id: str | None = None
    schema_url: str | None = None
    sequence: int | None = None
    ordering_key: str | None = None
    spec_version: str = SPEC_VERSION

    @property
    def type(self) -> str:
        """Equals the subject; the envelope carries both."""
        return self.subject

    def __repr__(self) -> str:
        """Leaves the data out: inbound data names guests."""
        return f"Envelope(id={self.id!r}, subject={self.subject!r}, tenant_id={self.tenant_id!r})"


def compose(
    subject: str,
    data: Mapping[str, Any],
    *,
    event_id: str,
    time: datetime,
    tenant_id: str,
    trace_id: str,
    correlation_id: str | None = None,
    causation_id: str | None = None,
    sequence: int | None = None,
    ordering_key: str | None = None,
    registry: Registry = REGISTRY,
) -> Envelope:
    """Makes an envelope of ours: fills in source, schema address and, unless given, the subject's own ordering key.

    Raises `UnknownSubject`. Does not look into `data`; call `validate` before storing.
    """
    spec = registry.spec(subject)
    return Envelope(
        id=event_id,
        subject=spec.subject,
        source=SOURCE,
        time=time,
        tenant_id=tenant_id,
        data=data,
        trace_id=trace_id,
        correlation_id=correlation_id,
        causation_id=causation_id,
        schema_url=spec.schema_url,
        sequence=sequence,
        ordering_key=ordering_key or spec.ordering.key_of(data),
    )


def _document(envelope: Envelope, registry: Registry) -> dict[str, Any]:
    spec = registry.spec(envelope.subject)
    document: dict[str, Any] = {
        "specVersion": envelope.spec_version,
        "id": envelope.id,
        "subject": spec.subject,
        "type": spec.subject,
        "source": envelope.source,
        "time": format_instant(envelope.time),
        "tenantId": envelope.tenant_id,
        "data": dict(envelope.data),
    }
    optional = {
        "traceId": envelope.trace_id or None,
        "correlationId": envelope.correlation_id or None,
        "causationId": envelope.causation_id or None,
        "schemaUrl": envelope.schema_url or spec.schema_url,
        "sequence": envelope.sequence,
        "orderingKey": envelope.ordering_key or None,
    }
    document.update({name: value for name, value in optional.items() if value is not None})
    return document


def encode(envelope: Envelope, *, registry: Registry = REGISTRY) -> bytes:
    """Writes an envelope as compact UTF-8 JSON with sorted names; equal envelopes give equal bytes.

    Empty texts count as absent; a missing schema address is filled in from the registry.
    Raises `EventRefused` where `decode` would not take the bytes back: never retry.
    """
    document = _document(envelope, registry)
    raw = strict_json.dumps(document)
    if len(raw) > MAX_BYTES:
        raise EventRefused(RefusalCode.PAYLOAD_TOO_LARGE, f"more than {MAX_BYTES} bytes")
    if envelope.trace_id and not fields.is_traceparent(envelope.trace_id):
        raise fields.invalid("traceId", "not a W3C traceparent")
    _check_frame(document)
    return raw


def _check_frame(document: Mapping[str, Any]) -> None:
    """Reads every field that `decode` is strict about."""
    if fields.required_text(document, "specVersion") != SPEC_VERSION:
        raise fields.invalid("specVersion", f"not {SPEC_VERSION}")
    fields.required_text(document, "id")
    fields.required_text(document, "tenantId")
    fields.required_text(document, "source", fields.TEXT)
    fields.optional_text(document, "correlationId")
    fields.optional_text(document, "causationId")
    fields.optional_text(document, "schemaUrl", fields.TEXT)
    fields.optional_text(document, "orderingKey", fields.ORDERING_KEY)
    fields.optional_count(document, "sequence")


def decode(raw: bytes, max_bytes: int = MAX_BYTES, *, registry: Registry = REGISTRY) -> Envelope:
    """Reads one envelope of at most `max_bytes` bytes, in the flat form or the back office's nested one.

    Subjects may be spelled as any alias; the result is canonical. Unknown fields are ignored.
    Raises `EventRefused` (and its kind `UnknownSubject`), nothing else, whatever the bytes; never retry.
    """
    document = strict_json.loads(raw, max_bytes)
    if not isinstance(document, dict):
        raise fields.invalid("envelope", "not an object")
    if "envelope" in document and "payload" in document:
        document = _flatten(document)
    _check_frame(document)
    return Envelope(
        id=document["id"],
        subject=_subject(document, registry),
        source=document["source"],
        time=_time(document),
        tenant_id=document["tenantId"],
        data=fields.required_object(document, "data"),
        trace_id=fields.traceparent(document, "traceId"),
        correlation_id=document.get("correlationId"),
        causation_id=document.get("causationId"),
        schema_url=document.get("schemaUrl"),
        sequence=document.get("sequence"),
        ordering_key=document.get("orderingKey"),
    )


def _subject(document: Mapping[str, Any], registry: Registry) -> str:
    subject = registry.canonical(fields.required_text(document, "subject", fields.TEXT))
    kind = fields.optional_text(document, "type", fields.TEXT)
    if kind is not None and kind != subject and registry.canonical(kind) != subject:
        raise fields.invalid("type", "differs from subject")
    return subject


def _time(document: Mapping[str, Any]) -> datetime:
    value = document.get("time")
    if value is None:
        raise EventRefused(RefusalCode.MISSING_FIELD, "time")
    return parse_instant(value, "time")


def _flatten(document: Mapping[str, Any]) -> dict[str, Any]:
    """Brings the nested form into the flat one, field by field (back-office event document, §2)."""
    head = fields.required_object(document, "envelope")
    producer = head.get("producer")
    return {
        "specVersion": SPEC_VERSION,
        "id": head.get("eventId"),
        "subject": head.get("subject"),
        "source": f"/services/{producer}" if isinstance(producer, str) else producer,
        "time": head.get("occurredAt"),
        "tenantId": head.get("tenantId"),
        "traceId": head.get("traceId"),
        "correlationId": head.get("correlationId"),
        "causationId": head.get("causationId"),
        "schemaUrl": head.get("schemaUri"),
        "data": document.get("payload"),
    }
