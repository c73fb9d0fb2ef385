"""The universal envelope of the back office: `{"envelope": {...}, "payload": {...}}`.

One rule: same strictness as the flat envelope, other names. Source: back-office event document, §2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sagas.events import fields, strict_json
from sagas.events.event_spec import Form
from sagas.events.instants import format_instant, parse_instant
from sagas.events.refusals import EventRefused, RefusalCode
from sagas.events.registry import REGISTRY, Registry

PRODUCER = "bff-backoffice-service"
MAX_BYTES = 262_144
"""Largest envelope taken or given out: 256 KiB."""

_OPTIONAL_IDS = {
    "operator_id": "operatorId",
    "device_id": "deviceId",
    "session_id": "sessionId",
    "property_id": "propertyId",
    "request_id": "requestId",
    "causation_id": "causationId",
    "correlation_id": "correlationId",
}
_OPTIONAL_TEXTS = {
    "producer_instance": "producerInstance",
    "app_version": "appVersion",
    "app_platform": "appPlatform",
}


@dataclass(frozen=True, slots=True)
class BackofficeEnvelope:
    """One telemetry event. Version, schema address, retention class and topic come from the registry."""

    event_id: str
    subject: str
    occurred_at: datetime
    published_at: datetime
    tenant_id: str
    payload: Mapping[str, Any]
    sampling_rate: float
    """0 to 1: the rate this event was kept at."""
    producer: str = PRODUCER
    producer_instance: str | None = None
    operator_id: str | None = None
    device_id: str | None = None
    session_id: str | None = None
    property_id: str | None = None
    request_id: str | None = None
    trace_id: str | None = None
    causation_id: str | None = None
    correlation_id: str | None = None
    app_version: str | None = None
    app_platform: str | None = None

    def __repr__(self) -> str:
        """Leaves the payload out."""
        return f"BackofficeEnvelope(event_id={self.event_id!r}, subject={self.subject!r}, tenant_id={self.tenant_id!r})"


def encode(envelope: BackofficeEnvelope, *, registry: Registry = REGISTRY) -> bytes:
    """Writes compact UTF-8 JSON with sorted names; equal envelopes give equal bytes.

    Raises `EventRefused` where `decode` would not take the bytes back: never retry.
    """
    spec = registry.spec(envelope.subject)
    head: dict[str, Any] = {
        "eventId": envelope.event_id,
        "subject": spec.subject,
        "version": spec.version,
        "occurredAt": format_instant(envelope.occurred_at),
        "publishedAt": format_instant(envelope.published_at),
        "producer": envelope.producer,
        "tenantId": envelope.tenant_id,
        "schemaUri": spec.schema_url,
        "retentionClass": spec.retention.class_name,
        "samplingRate": envelope.sampling_rate,
        "traceId": envelope.trace_id,
    }
    head.update({name: getattr(envelope, attribute) for attribute, name in _OPTIONAL_IDS.items()})
    head.update({name: getattr(envelope, attribute) for attribute, name in _OPTIONAL_TEXTS.items()})
    head = {name: value for name, value in head.items() if value is not None}
    raw = strict_json.dumps({"envelope": head, "payload": dict(envelope.payload)})
    if envelope.trace_id is not None and not fields.is_traceparent(envelope.trace_id):
        raise fields.invalid("envelope.traceId", "not a W3C traceparent")
    decode(raw, registry=registry)
    return raw


def decode(raw: bytes, max_bytes: int = MAX_BYTES, *, registry: Registry = REGISTRY) -> BackofficeEnvelope:
    """Reads one nested envelope of at most `max_bytes` bytes. Unknown fields are ignored.

    Raises `EventRefused` (and its kind `UnknownSubject`), nothing else, whatever the bytes; never retry.
    """
    document = strict_json.loads(raw, max_bytes)
    if not isinstance(document, dict):
        raise fields.invalid("envelope", "not an object")
    head = fields.required_object(document, "envelope")
    subject = registry.spec(fields.required_text(head, "subject", fields.TEXT))
    if subject.form is not Form.NESTED:
        raise fields.invalid("subject", "not a back-office event")
    if head.get("version", subject.version) != subject.version:
        raise fields.invalid("version", "differs from subject")
    occurred_at = _instant(head, "occurredAt")
    return BackofficeEnvelope(
        event_id=fields.required_text(head, "eventId"),
        subject=subject.subject,
        occurred_at=occurred_at,
        published_at=_instant(head, "publishedAt"),
        tenant_id=fields.required_text(head, "tenantId"),
        payload=fields.required_object(document, "payload"),
        sampling_rate=_rate(head),
        producer=fields.required_text(head, "producer", fields.TEXT),
        trace_id=fields.traceparent(head, "traceId"),
        **{attribute: fields.optional_text(head, name) for attribute, name in _OPTIONAL_IDS.items()},
        **{attribute: fields.optional_text(head, name, fields.TEXT) for attribute, name in _OPTIONAL_TEXTS.items()},
    )


def _instant(head: Mapping[str, Any], name: str) -> datetime:
    value = head.get(name)
    if value is None:
        raise EventRefused(RefusalCode.MISSING_FIELD, name)
    return parse_instant(value, name)


def _rate(head: Mapping[str, Any]) -> float:
    value = head.get("samplingRate", 1.0)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise fields.invalid("samplingRate", "not between 0 and 1")
    return float(value)
