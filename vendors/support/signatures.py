"""Checks the signature header of pushes: `t=<unix seconds>,v1=<hex>[,v1=<hex>]` over `<t>.` and the raw body.

One rule: an unknown scheme is ignored, never a downgrade; several times, none, or anything malformed is refused.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime

from vendors.port.secrets import Token

TOLERANCE_S = 300
_MAX_HEADER_CHARS = 1024


def sign(secret: Token, body: bytes, at: datetime) -> str:
    """Returns the header for a body signed at that instant (HMAC-SHA256)."""
    seconds = str(int(at.timestamp()))
    return f"t={seconds},v1={_mac(secret, seconds, body)}"


def is_signed(header: str | None, body: bytes, secrets: Iterable[Token], now: datetime) -> bool:
    """Says whether any active secret signed this body within 300 seconds of now, before or after."""
    if not header or len(header) > _MAX_HEADER_CHARS:
        return False
    times: list[str] = []
    macs: list[str] = []
    for part in header.split(","):
        name, _, value = part.strip().partition("=")
        if name == "t":
            times.append(value)
        elif name == "v1":
            macs.append(value)
    if len(times) != 1 or not macs or not (times[0].isascii() and times[0].isdigit()):
        return False
    if len(times[0]) > 12 or abs(now.timestamp() - int(times[0])) > TOLERANCE_S:
        return False
    valid = False
    for secret in secrets:
        expected = _mac(secret, times[0], body)
        for mac in macs:
            valid |= hmac.compare_digest(expected.encode(), mac.encode("utf-8", "replace"))
    return valid


def _mac(secret: Token, seconds: str, body: bytes) -> str:
    return hmac.new(secret.reveal().encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
