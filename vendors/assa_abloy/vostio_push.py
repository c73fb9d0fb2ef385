"""Verifies and reads what Vostio pushes.

One rule: the signature covers the time and the raw body; a push older or newer than five minutes is refused.
Contract: not public, assumed (low confidence): `X-Vostio-Timestamp`, `X-Vostio-Signature: sha256=<hex of HMAC-SHA256 over
timestamp, a dot, and the raw body>`; body `{eventId, type, environmentId, occurredAt, data}`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from vendors.port.secrets import Token
from vendors.port.types import AccessRecord, CredentialKind, DeviceRecord, Reach

from .keys import external_id, mark_in

TIMESTAMP_HEADER = "x-vostio-timestamp"
SIGNATURE_HEADER = "x-vostio-signature"
TOLERANCE_S = 300
BATTERY = "door.low_battery"
_OPENINGS = {"access.granted": "granted", "access.denied": "denied"}


def sign(secret: Token, timestamp: str, body: bytes) -> str:
    """Returns the signature header's value."""
    mac = hmac.new(secret.reveal().encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"sha256={mac.hexdigest()}"


def is_genuine(headers: Mapping[str, str], body: bytes, secrets: Iterable[Token], now: datetime) -> bool:
    """Says whether any active secret signed this body within 300 seconds of now, before or after."""
    lowered = {name.lower(): value for name, value in headers.items()}
    timestamp, signature = lowered.get(TIMESTAMP_HEADER, ""), lowered.get(SIGNATURE_HEADER, "")
    if not (timestamp.isascii() and timestamp.isdigit()) or len(timestamp) > 12:
        return False
    if abs(now.timestamp() - int(timestamp)) > TOLERANCE_S:
        return False
    valid = False
    for secret in secrets:
        valid |= hmac.compare_digest(sign(secret, timestamp, body).encode(), signature.encode("utf-8", "replace"))
    return valid


def read_push(body: bytes) -> tuple[AccessRecord, ...]:
    """Reads the opening in a push; empty for another event. Raises ValueError for a body that is no push."""
    return records_in([_document(body)])


def read_conditions(body: bytes) -> tuple[DeviceRecord, ...]:
    """Reads a weak battery in a push; empty for another event, or one that does not say how weak. Raises ValueError.

    Assumed: `data` has `doorId`, `doorKind` and `batteryPercent`, 0 to 100.
    """
    document = _document(body)
    if document["type"] != BATTERY:
        return ()
    try:
        data = document["data"]
        percent = data.get("batteryPercent")
        if not isinstance(percent, int) or not 0 <= percent <= 100:
            return ()
        door = external_id(str(data.get("doorKind") or "guest"), str(data["doorId"]))
        return (DeviceRecord(Reach.LOCK, door, str(document["eventId"]), battery_percent=percent),)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("an event lacks a part") from error


def _document(body: bytes) -> dict[str, Any]:
    document = json.loads(body)
    if not isinstance(document, dict) or not isinstance(document.get("type"), str):
        raise ValueError("the push names no type")  # noqa: TRY004 - what came is at fault, not a type of ours
    return document


def records_in(events: Iterable[Mapping[str, Any]]) -> tuple[AccessRecord, ...]:
    """Reads the openings among events. Raises ValueError for one that lacks a part."""
    try:
        return tuple(_record(event) for event in events if event["type"] in _OPENINGS)
    except (KeyError, TypeError) as error:
        raise ValueError("an event lacks a part") from error


def _record(event: Mapping[str, Any]) -> AccessRecord:
    data = event["data"]
    kind = data.get("kind")
    return AccessRecord(
        external_event_id=str(event["eventId"]),
        device_external_id=external_id(str(data.get("doorKind") or "guest"), str(data["doorId"])),
        outcome=_OPENINGS[event["type"]],
        attempted_at=datetime.fromisoformat(event["occurredAt"]),
        deny_reason=data.get("reason"),
        nonce=mark_in(data.get("label")),
        kind=CredentialKind(kind) if kind else None,
    )
