"""Turns the mock's refusals into the port's errors.

One rule: what the mock says is masked like any vendor's words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vendors.port.errors import LockError, Reason, VendorUnreachable

from .manifest import MANIFEST
from .profile import ERROR_CODES

_NOT_MADE = frozenset({Reason.RATE, Reason.QUOTA})


def from_refusal(refusal: Mapping[str, Any], device_id: str | None = None) -> LockError:
    """Builds the error that a refusal names."""
    reason = Reason(refusal["reason"])
    return ERROR_CODES[refusal["error"]](
        MANIFEST.code,
        f"refused: {reason.value}",
        retriable=refusal.get("retriable"),
        reason=reason,
        device_id=device_id,
        retry_after_s=refusal.get("retryAfterS"),
        throttled=reason in _NOT_MADE,
    )


def not_sent() -> LockError:
    """Nothing reached the vendor."""
    return VendorUnreachable(MANIFEST.code, "the vendor cannot be reached")


def answer_lost() -> LockError:
    """The answer was lost. The vendor keeps idempotency keys, so a repeat has no second effect."""
    return VendorUnreachable(MANIFEST.code, "the answer was lost", reason=Reason.TIMEOUT)
