"""Checks and reads the cloud's pushes: `X-Salto-Timestamp`, `X-Salto-Signature: v1=<hex>` over `<timestamp>.` and the raw body.

One rule: the raw bytes are signed, within 300 s, with one of the secrets that live while rotating; nothing else is believed.
Source: proposed, since the vendor's own scheme is not public. A proxy may sign in `X-Webhook-Signature` instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from vendors.port.secrets import Token
from vendors.port.types import AccessRecord, DeviceRecord, Reach
from vendors.support.signatures import is_signed
from vendors.support.skew import bounded_skew_ms

from .operations import attempt_in

ATTEMPTS = frozenset({"access.granted", "access.denied"})
CONNECTOR = {"connector.online": True, "connector.offline": False}
BATTERY, CLOCK = "door.battery_low", "door.clock_incorrect"


def is_genuine(headers: Mapping[str, str], body: bytes, secrets: Iterable[Token], now: datetime) -> bool:
    """Says whether the push is signed with an active secret."""
    lowered = {name.lower(): value for name, value in headers.items()}
    header = lowered.get("x-webhook-signature")
    seconds, signature = lowered.get("x-salto-timestamp"), lowered.get("x-salto-signature")
    if seconds is not None and signature is not None:
        header = f"t={seconds},{signature}" if "," not in seconds and "t=" not in signature else None
    return is_signed(header, body, secrets, now)


def read_push(body: bytes) -> tuple[AccessRecord, ...]:
    """Reads `{id, type, occurredAt, propertyId, data}`. Raises ValueError."""
    document = _document(body)
    if document.get("type") not in ATTEMPTS:
        return ()
    try:
        row = {"occurredAt": document["occurredAt"], **document["data"], "id": document["id"]}
        attempt = attempt_in(row)
    except (KeyError, TypeError) as error:
        raise ValueError("the push lacks a part") from error
    return (attempt,) if attempt is not None else ()


def read_conditions(body: bytes) -> tuple[DeviceRecord, ...]:
    """Reads a connector that came or went, which is all the property's doors, a weak battery or a wrong clock of one door.

    Proposed as well: `data` has `door`, `authorization` (of a shared door), `battery` 0 to 100, `clockSkewSec`.
    Raises ValueError.
    """
    document = _document(body)
    kind, data, event_id = document.get("type"), document["data"], str(document.get("id") or "") or None
    if kind in CONNECTOR:
        return (DeviceRecord(Reach.INSTALLATION, "", event_id, online=CONNECTOR[kind]),)
    if kind not in (BATTERY, CLOCK):
        return ()
    try:
        shared = data.get("authorization")
        door = str(data["door"]) if shared is None else f"auth:{shared}"
        if kind == BATTERY:
            return (DeviceRecord(Reach.LOCK, door, event_id, battery_percent=min(100, max(0, int(data["battery"])))),)
        return (DeviceRecord(Reach.LOCK, door, event_id, clock_skew_ms=bounded_skew_ms(float(data["clockSkewSec"]) * 1000)),)
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError("the push lacks a part") from error


def _document(body: bytes) -> dict[str, Any]:
    document = json.loads(body)
    if not isinstance(document, dict) or not isinstance(document.get("data"), dict):
        raise ValueError("the push is not of the contract")  # noqa: TRY004 - what came is at fault, not a type of ours
    return document
