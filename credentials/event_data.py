"""The payload of every credential event, built from rows.

One rule: no secret enters here: no PIN, no vendor reference, no card number, no guest's name.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from credentials import notices
from credentials.models import KeyCredential
from sagas.events.instants import format_instant

PREFIX = "melmastoon.lock.credential."
DEEP_LINK = "melmastoon://tenant/{tenant}/keys/{key}"


def subject(event: str) -> str:
    """Returns the subject of a credential event's short name."""
    return f"{PREFIX}{event}.v1"


def window(key: KeyCredential) -> dict[str, str]:
    """Returns the stay's window as events carry it."""
    return {"validFrom": format_instant(key.valid_from), "validUntil": format_instant(key.valid_until)}


def requested(key: KeyCredential) -> dict[str, Any]:
    """Payload of `credential.requested.v1`."""
    data = {
        "keyCredentialId": key.id,
        "propertyId": key.property_id,
        "rooms": list(key.rooms),
        **window(key),
        "preferredKinds": list(key.preferred_kinds),
        "vendor": key.vendor,
        "idempotencyKey": key.issue_key,
        **_holder(key),
    }
    data["intent"] = key.intent
    if key.replaces:
        data["replaces"] = key.replaces
    if key.waiting_for:
        data["waitingFor"] = key.waiting_for
    return data


def pending(key: KeyCredential, attempt: int, at: datetime) -> dict[str, Any]:
    """Payload of `credential.pending.v1`."""
    data = {
        "keyCredentialId": key.id,
        "propertyId": key.property_id,
        "vendor": key.vendor,
        "rooms": list(key.rooms),
        "attempt": attempt,
        "pendingAt": format_instant(at),
        **_holder(key),
    }
    data.pop("guestId", None)
    return data


def issued(key: KeyCredential, artifact: dict[str, str] | None, at: datetime) -> dict[str, Any]:
    """Payload of `credential.issued.v1`. `artifact` is the reference a consumer exchanges, never the secret."""
    data: dict[str, Any] = {
        "keyCredentialId": key.id,
        "propertyId": key.property_id,
        "holderKind": key.holder_kind,
        **_holder(key),
        "kind": key.kind,
        "rooms": list(key.rooms),
        "scope": {"floors": list(key.floors), "areas": list(key.areas)},
        **window(key),
        "vendor": key.vendor,
        "provisional": key.provisional,
        "delivery": {"deepLink": DEEP_LINK.format(tenant=key.tenant_id, key=key.id)},
        "issuedAt": format_instant(at),
        "warnings": notices.told(key),
    }
    if artifact is not None:
        data["delivery"]["artifact"] = artifact
    if key.replaces:
        data["metadata"] = {"replaces": key.replaces}
    return data


def failed(
    key: KeyCredential, reason: str, message: str, attempts: int, at: datetime, *, goes_on: bool = False
) -> dict[str, Any]:
    """Payload of `credential.failed.v1`. `reason` is a word such as `vendor_unreachable`; `message` is scrubbed. `goes_on` says
    that a successor of another kind or at another lock system follows."""
    data = {
        "keyCredentialId": key.id,
        "vendor": key.vendor,
        "failureReason": reason,
        "vendorMessage": message,
        "attempts": attempts,
        "lastAttemptAt": format_instant(at),
        **_holder(key),
    }
    data.pop("guestId", None)
    data.pop("staffUserId", None)
    if goes_on:
        data["metadata"] = {"fallsBack": True}
    return data


def updated(key: KeyCredential, changes: dict[str, Any], at: datetime) -> dict[str, Any]:
    """Payload of `credential.updated.v1`."""
    return {
        "keyCredentialId": key.id,
        "changes": changes,
        "vendor": key.vendor,
        "updatedAt": format_instant(at),
        "warnings": notices.told(key),
    }


def revoked(key: KeyCredential, *, vendor_ok: bool, trigger: str, at: datetime) -> dict[str, Any]:
    """Payload of `credential.revoked.v1`. `vendor_ok` only if every door had confirmed by then."""
    data: dict[str, Any] = {
        "keyCredentialId": key.id,
        "vendor": key.vendor,
        "reason": key.revoke_reason,
        "revokedAt": format_instant(at),
        "metadata": {"wasProvisional": key.provisional, "vendorRevokeOk": vendor_ok},
    }
    if trigger:
        data["metadata"]["trigger"] = trigger
    if key.reservation_id:
        data["reservationId"] = key.reservation_id
    return data


def suspended(key: KeyCredential, at: datetime) -> dict[str, Any]:
    """Payload of `credential.suspended.v1`."""
    return {"keyCredentialId": key.id, "reason": key.suspend_reason, "suspendedAt": format_instant(at)}


def unsuspended(key: KeyCredential, reason: str, by: str, at: datetime) -> dict[str, Any]:
    """Payload of `credential.unsuspended.v1`; `by` is a user's id or `saga`."""
    return {
        "keyCredentialId": key.id,
        "reason": reason,
        "unsuspendedAt": format_instant(at),
        "unsuspendedBy": by if by.startswith("usr_") else "saga",
    }


def vendor_error(
    key: KeyCredential,
    *,
    environment: str,
    operation: str,
    code: str,
    message: str,
    attempts: int,
    final: bool,
    device_id: str | None,
    at: datetime,
) -> dict[str, Any]:
    """Payload of `lock.vendor.error.v1`. `environment` is the installation's, such as `production` or `sandbox`."""
    data: dict[str, Any] = {
        "vendor": key.vendor,
        "vendorAdapterId": key.installation_id,
        "environment": environment,
        "operation": operation,
        "keyCredentialId": key.id,
        "errorCode": code,
        "vendorMessage": message,
        "attempts": attempts,
        "final": final,
        "occurredAt": format_instant(at),
    }
    if key.reservation_id:
        data["reservationId"] = key.reservation_id
    if device_id:
        data["deviceId"] = device_id
    return data


def _holder(key: KeyCredential) -> dict[str, str]:
    data = {}
    if key.reservation_id:
        data["reservationId"] = key.reservation_id
    if key.holder_id:
        data["guestId" if key.holder_kind == "guest" else "staffUserId"] = key.holder_id
    return data
