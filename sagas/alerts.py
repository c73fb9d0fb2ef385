"""Raises what a person must see, once per cause.

One rule: an alert names a code, a runbook and ids; never a secret. A guest's name goes along sealed, and only where no
projection of her stay holds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lockservice.core import crypto
from lockservice.core.bulk import insert_rows
from sagas.models import Alert
from vendors.port.ids import new_id
from vendors.port.secrets import Secret

_COLUMNS = {
    "id": "text", "tenant_id": "text", "property_id": "text", "key": "text", "code": "text", "severity": "text",
    "runbook": "text", "detail": "text", "credential_id": "text", "reservation_id": "text",
    "guest_sealed": "bytea", "raised_at": "timestamptz", "acknowledged_by": "text",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NewAlert:
    """An alert to raise. `key` is the cause: the same key raises nothing new. severity: info, warning or critical.

    `reservation_id` names the stay it is about; `guest` is her name where no projection of the stay holds it.
    """

    key: str
    code: str
    severity: str
    detail: str
    runbook: str = ""
    property_id: str = ""
    credential_id: str = ""
    reservation_id: str = ""
    guest: Secret | None = None


def raise_alerts(tenant_id: str, alerts: list[NewAlert], now: datetime) -> None:
    """Writes the alerts in the caller's transaction."""
    rows = [_row(tenant_id, new_id("alt"), alert, now) for alert in alerts]
    insert_rows("sagas_alert", _COLUMNS, rows, on_conflict="(tenant_id, key) DO NOTHING")


def guest_of(row: Alert) -> str:
    """Opens the guest's name that goes along with an alert; empty where there is none."""
    if row.guest_sealed is None:
        return ""
    return crypto.unseal("guest-pii", row.tenant_id, _place(row.id), row.guest_sealed)


def _row(tenant_id: str, alert_id: str, alert: NewAlert, now: datetime) -> tuple[Any, ...]:
    guest = None
    if alert.guest is not None:
        guest = crypto.seal("guest-pii", tenant_id, _place(alert_id), alert.guest.reveal())
    return (
        alert_id, tenant_id, alert.property_id, alert.key, alert.code, alert.severity, alert.runbook, alert.detail[:300],
        alert.credential_id, alert.reservation_id, guest, now, "",
    )  # fmt: skip


def _place(alert_id: str) -> tuple[str, str, str]:
    return ("sagas_alert", alert_id, "guest_sealed")
