"""The vendor's numbers for what happened at a door, as access attempts.

One rule: a number that is no attempt (a battery, a new guest key) makes no attempt.
Source: a public host-interface client's table (high); the reasons are our words for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vendors.port.types import AccessRecord, CredentialKind

from .answers import moment

GRANTED = frozenset({16, 17, 18, 19, 20, 22, 25, 26, 27, 28, 29})
DENIED: dict[int, str] = {
    81: "not_yet_valid",
    82: "expired",
    83: "expired",
    84: "not_permitted",
    85: "outside_schedule",
    87: "privacy",
    88: "superseded",
    89: "revoked",
    90: "other",
    92: "not_permitted",
    93: "unknown_credential",
    95: "other",
    96: "revoked",
    97: "used",
    98: "other",
    99: "other",
    100: "other",
    101: "other",
    103: "other",
    104: "revoked",
    107: "tampered",
}


def attempt_in(row: Mapping[str, Any]) -> AccessRecord | None:
    """Reads an event row; None for one that is no attempt. A shared door is named by its authorisation."""
    code, door, shared = int(row["operation"]), str(row["door"]), row.get("authorization")
    if code not in GRANTED and code not in DENIED:
        return None
    operator, kind = str(row.get("operator") or ""), row.get("kind")
    return AccessRecord(
        external_event_id=f"{door}:{row['id']}",
        device_external_id=door if shared is None else f"auth:{shared}",
        outcome="granted" if code in GRANTED else "denied",
        attempted_at=moment(str(row["occurredAt"])),
        deny_reason=DENIED.get(code),
        nonce=operator if operator.startswith("gk-") else None,
        kind=CredentialKind(str(kind)) if kind else None,
    )
