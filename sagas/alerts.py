"""Raises what a person must see, once per cause.

One rule: an alert names a code, a runbook and ids; never a secret and never a guest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lockservice.core.bulk import insert_rows
from vendors.port.ids import new_id

_COLUMNS = {
    "id": "text", "tenant_id": "text", "property_id": "text", "key": "text", "code": "text", "severity": "text",
    "runbook": "text", "detail": "text", "credential_id": "text", "raised_at": "timestamptz", "acknowledged_by": "text",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NewAlert:
    """An alert to raise. `key` is the cause: the same key raises nothing new. severity: info, warning or critical."""

    key: str
    code: str
    severity: str
    detail: str
    runbook: str = ""
    property_id: str = ""
    credential_id: str = ""


def raise_alerts(tenant_id: str, alerts: list[NewAlert], now: datetime) -> None:
    """Writes the alerts in the caller's transaction."""
    insert_rows(
        "sagas_alert",
        _COLUMNS,
        [
            (
                new_id("alt"),
                tenant_id,
                a.property_id,
                a.key,
                a.code,
                a.severity,
                a.runbook,
                a.detail[:300],
                a.credential_id,
                now,
                "",
            )
            for a in alerts
        ],
        on_conflict="(tenant_id, key) DO NOTHING",
    )
