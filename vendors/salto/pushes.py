"""Checks and reads the cloud's pushes: `X-Salto-Timestamp`, `X-Salto-Signature: v1=<hex>` over `<timestamp>.` and the raw body.

One rule: the raw bytes are signed, within 300 s, with one of the secrets that live while rotating; nothing else is believed.
Source: proposed, since the vendor's own scheme is not public. A proxy may sign in `X-Webhook-Signature` instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from vendors.port.secrets import Token
from vendors.port.types import AccessRecord
from vendors.support.signatures import is_signed

from .operations import attempt_in

ATTEMPTS = frozenset({"access.granted", "access.denied"})


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
    document = json.loads(body)
    if not isinstance(document, dict) or not isinstance(document.get("data"), dict):
        raise ValueError("the push is not of the contract")  # noqa: TRY004 - what came is at fault, not a type of ours
    if document.get("type") not in ATTEMPTS:
        return ()
    try:
        row = {"occurredAt": document["occurredAt"], **document["data"], "id": document["id"]}
        attempt = attempt_in(row)
    except (KeyError, TypeError) as error:
        raise ValueError("the push lacks a part") from error
    return (attempt,) if attempt is not None else ()
