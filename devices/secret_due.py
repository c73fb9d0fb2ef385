"""The list of what must be rotated until when, and the alert for what is late.

One rule: one open row per secret of an installation; a more urgent reason brings it forward, nothing puts it off. What is due
earlier anyway keeps its time and takes an urgent reason over. Due times are real time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from devices.models import SecretDue, VendorInstallation
from devices.secret_rules import ADDRESS_EVERY, DATA_KEY_EVERY, due_at, rule_of
from lockservice.core import clock, tenancy
from sagas.alerts import NewAlert, raise_alerts
from vendors.port.ids import new_id
from vendors.port.manifest import VendorManifest
from vendors.port.secrets import Token

RUNBOOK: Final = "lock/rotate-secrets"
SECRET: Final = "secret"  # noqa: S105 - a kind of row
WEBHOOK_ADDRESS: Final = "webhook_address"
DATA_KEY: Final = "data_key"
CADENCE: Final = "cadence"
URGENT: Final = frozenset({"decommissioned", "break_glass"})
"""Reasons for which being late is critical: an old credential may be in the wrong hands."""


@dataclass(frozen=True, slots=True)
class DueLine:
    """One open row as people read it. `left` is negative when late."""

    id: str
    tenant_id: str
    property_id: str
    installation_id: str
    kind: str
    name: str
    reason: str
    detail: str
    needs_person: bool
    due_at: datetime
    left: timedelta

    @property
    def is_late(self) -> bool:
        """Says whether the time is over."""
        return self.left < timedelta(0)

    @property
    def days_left(self) -> int:
        """Whole days left, rounded down; -1 for what is late by less than a day."""
        return self.left.days


def bring_forward(
    row: VendorInstallation, kind: str, names: Iterable[str], until: datetime, reason: str, detail: str, now: datetime
) -> int:
    """Makes the names due by `until` unless they are due earlier; returns how many are due by then. Inside the tenant's
    block."""
    count = 0
    for name in names:
        _open(row, kind, name, until, reason, detail, now)
        count += 1
    return count


def urgent_until(row: VendorInstallation, kind: str, names: Iterable[str]) -> datetime | None:
    """Returns by when the first of the names must be out of use because its value may be in the wrong hands; None where no row
    is urgent. Inside the tenant's block."""
    rows = SecretDue.objects.filter(tenant_id=row.tenant_id, installation_id=row.id, kind=kind, name__in=list(names))
    urgent = rows.filter(done_at__isnull=True, reason__in=URGENT)
    return urgent.order_by("due_at").values_list("due_at", flat=True).first()


def reopen(
    row: VendorInstallation, kind: str, names: Iterable[str], closed_at: datetime, until: datetime, detail: str, now: datetime
) -> None:
    """Makes names due again whose old value came back after `closed_at`: as urgent, and as early, as the row that was closed
    then; else by `until`, by hand. Inside the tenant's block."""
    rows = SecretDue.objects.filter(tenant_id=row.tenant_id, installation_id=row.id, kind=kind, done_at=closed_at)
    before = {was.name: was for was in rows.filter(reason__in=URGENT)}
    for name in names:
        was = before.get(name)
        if was is None:
            _open(row, kind, name, until, "manual", detail, now)
        else:
            _open(row, kind, name, min(was.due_at, until), was.reason, was.detail, now)


def note_next(row: VendorInstallation, manifest: VendorManifest, secrets: Mapping[str, Token], now: datetime) -> None:
    """Closes the rows of these secrets, which have just got these values, and opens the next by the table. Inside the block."""
    close(row, SECRET, secrets, now)
    for name, value in secrets.items():
        until = due_at(rule_of(manifest, name), value.reveal(), now)
        if until is not None:
            reason = CADENCE if rule_of(manifest, name).every_days else "expiry"
            _open(row, SECRET, name, until, reason, "", now)


def note_data_key(row: VendorInstallation, now: datetime) -> None:
    """Closes the data key's row and opens next year's. Inside the tenant's block."""
    close(row, DATA_KEY, ("settings",), now)
    _open(row, DATA_KEY, "settings", now + DATA_KEY_EVERY, CADENCE, "", now, needs_person=False)


def close(row: VendorInstallation, kind: str, names: Iterable[str], now: datetime) -> None:
    """Notes that these were rotated. Inside the tenant's block."""
    rows = SecretDue.objects.filter(tenant_id=row.tenant_id, installation_id=row.id, kind=kind, name__in=list(names))
    rows.filter(done_at__isnull=True).update(done_at=now)


def note_address(row: VendorInstallation, rotated_at: datetime, now: datetime) -> None:
    """Opens the row of a webhook address that has none. Inside the tenant's block."""
    open_rows = SecretDue.objects.filter(tenant_id=row.tenant_id, installation_id=row.id, kind=WEBHOOK_ADDRESS)
    if not open_rows.filter(done_at__isnull=True).exists():
        _open(row, WEBHOOK_ADDRESS, "token", rotated_at + ADDRESS_EVERY, CADENCE, "", now)


def listed(tenant_id: str, now: datetime, installation_id: str = "") -> list[DueLine]:
    """Returns a tenant's open rows, the most urgent first. Inside the tenant's block."""
    rows = SecretDue.objects.filter(tenant_id=tenant_id, done_at__isnull=True).order_by("due_at", "id")
    if installation_id:
        rows = rows.filter(installation_id=installation_id)
    return [
        DueLine(
            row.id, row.tenant_id, row.property_id, row.installation_id, row.kind, row.name, row.reason, row.detail,
            row.needs_person, row.due_at, row.due_at - now,
        )
        for row in rows
    ]  # fmt: skip


def tenants_with_rows() -> list[str]:
    """Returns the tenants that have open rows. Opens a queue block, so workers only."""
    with tenancy.queues():
        found = SecretDue.objects.filter(done_at__isnull=True).values_list("tenant_id", flat=True).distinct()
        return sorted(found)


def tell_late() -> int:
    """Raises an alert for each row that is late and was not told; returns how many. Own transactions; safe to repeat."""
    with tenancy.queues():
        now = clock.real_now()
        late = SecretDue.objects.filter(done_at__isnull=True, told_at__isnull=True, due_at__lt=now).values_list(
            "tenant_id", flat=True
        )
        tenants = sorted(set(late))
    return sum(_tell_tenant(tenant_id) for tenant_id in tenants)


def _tell_tenant(tenant_id: str) -> int:
    with tenancy.tenant(tenant_id):
        now = clock.real_now()
        rows = list(
            SecretDue.objects.select_for_update().filter(
                tenant_id=tenant_id, done_at__isnull=True, told_at__isnull=True, due_at__lt=now
            )
        )
        raise_alerts(tenant_id, [_alert(row) for row in rows], clock.now())
        SecretDue.objects.filter(tenant_id=tenant_id, id__in=[row.id for row in rows]).update(told_at=now)
        return len(rows)


def _alert(row: SecretDue) -> NewAlert:
    severity = "critical" if row.reason in URGENT else "warning"
    detail = (
        f"{row.kind} {row.name} of {row.installation_id} was to be rotated by {row.due_at:%Y-%m-%d %H:%M} UTC ({row.reason})"
    )
    # The reason and the time are part of the cause: a row that was told as late and then became another matter is told again.
    cause = f"secret-late:{row.id}:{row.reason}:{row.due_at:%Y%m%d%H%M%S}"
    return NewAlert(cause, "SECRET_ROTATION_LATE", severity, detail, RUNBOOK, row.property_id)


def _open(
    row: VendorInstallation, kind: str, name: str, until: datetime, reason: str, detail: str, now: datetime,
    *, needs_person: bool = True,
) -> None:  # fmt: skip
    made = SecretDue.objects.bulk_create(
        [
            SecretDue(
                id=new_id("sdu"), tenant_id=row.tenant_id, property_id=row.property_id, installation_id=row.id, kind=kind,
                name=name, reason=reason, detail=detail[:120], needs_person=needs_person, due_at=until, made_at=now,
            )
        ],
        ignore_conflicts=True,
    )  # fmt: skip
    here = SecretDue.objects.filter(
        tenant_id=row.tenant_id, installation_id=row.id, kind=kind, name=name, done_at__isnull=True
    ).exclude(id=made[0].id)
    # Brought forward, or urgent where it was not, it is another matter, so it is told again when late.
    changes = {"reason": reason, "detail": detail[:120], "told_at": None}
    if not here.filter(due_at__gt=until).update(due_at=until, **changes) and reason in URGENT:
        here.exclude(reason__in=URGENT).update(**changes)
