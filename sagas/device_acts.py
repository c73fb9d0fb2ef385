"""What a person may ask for about locks and lock systems: taking them out of service for good.

One rule: an act is one transaction that marks, makes due and starts; what is left to do is in rows and may be killed anywhere.
The same act again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from devices import secret_rotation, selectors
from devices.models import LockDevice, VendorInstallation, WebhookAddress
from lockservice.core import clock, tenancy
from sagas import intake
from sagas.acts import Actor, Refused
from sagas.flows import decommission
from sagas.intake import PRIORITY_SECURITY, Start, own_key
from sagas.models import Saga
from sagas.outbox import Cause

ROTATE_WITHIN = timedelta(hours=24)
"""Document 09 §13: the vendor credentials a decommissioned device was reached with are rotated within 24 hours."""
REASON = "decommissioned"


@dataclass(frozen=True, slots=True)
class Decommissioned:
    """What came of it: the locks taken out, the saga that takes keys away, until when secrets must be rotated (real time).

    is_new is False when it had been done before; rotate_by is then None.
    """

    device_ids: tuple[str, ...]
    saga_id: str | None
    rotate_by: datetime | None
    is_new: bool


def decommission_device(tenant_id: str, device_id: str, actor: Actor) -> Decommissioned:
    """Takes a lock out of service: no new key gets there, its keys leave it, and its installation's secrets become due.

    Refused: NOT_FOUND.
    """
    with tenancy.tenant(tenant_id):
        known = LockDevice.objects.filter(tenant_id=tenant_id, id=device_id).values_list("installation_id", flat=True).first()
        if known is None:
            raise Refused("NOT_FOUND", "no such lock")
        # The lock system before its locks, as where the whole of it goes.
        installation = VendorInstallation.objects.select_for_update().get(tenant_id=tenant_id, id=known)
        row = LockDevice.objects.select_for_update(of=("self",)).get(tenant_id=tenant_id, id=device_id)
        if row.decommissioned_at is not None:
            return Decommissioned((row.id,), _saga_of(tenant_id, row.id), None, is_new=False)
        _retire([row], actor)
        return _start(installation, [row], row.id, actor)


def decommission_installation(tenant_id: str, installation_id: str, actor: Actor) -> Decommissioned:
    """Takes a whole lock system out of service: all its locks, its webhook address, and itself. Refused: NOT_FOUND."""
    with tenancy.tenant(tenant_id):
        row = VendorInstallation.objects.select_for_update().filter(tenant_id=tenant_id, id=installation_id).first()
        if row is None:
            raise Refused("NOT_FOUND", "no such lock system")
        here = LockDevice.objects.select_for_update(of=("self",)).filter(tenant_id=tenant_id, installation_id=row.id)
        locks = list(here.order_by("id"))
        if row.decommissioned_at is not None:
            return Decommissioned(tuple(lock.id for lock in locks), _saga_of(tenant_id, row.id), None, is_new=False)
        row.active, row.decommissioned_at, row.decommissioned_by = False, clock.now(), actor.id
        row.save(update_fields=["active", "decommissioned_at", "decommissioned_by"])
        _retire([lock for lock in locks if lock.decommissioned_at is None], actor)
        WebhookAddress.objects.filter(tenant_id=tenant_id, installation_id=row.id).delete()
        return _start(row, locks, row.id, actor)


def _retire(rows: Sequence[LockDevice], actor: Actor) -> None:
    now = clock.now()
    for row in rows:
        row.active, row.decommissioned_at, row.decommissioned_by = False, now, actor.id
    LockDevice.objects.bulk_update(rows, ["active", "decommissioned_at", "decommissioned_by"])
    selectors.forget()


def _start(installation: VendorInstallation, rows: Sequence[LockDevice], subject: str, actor: Actor) -> Decommissioned:
    tenant_id, real_now = installation.tenant_id, clock.real_now()
    rotate_by = real_now + ROTATE_WITHIN
    made_due = secret_rotation.make_due(tenant_id, installation.id, ROTATE_WITHIN, REASON, subject)
    ids = sorted(row.id for row in rows)
    start = Start(
        flow=decommission.FLOW,
        key=own_key("decommission", subject),
        lane=intake.internal_lane(tenant_id),
        priority=PRIORITY_SECURITY,
        args={"deviceIds": ids},
    )
    cause = Cause(correlation_id=subject, trace_id=actor.trace_id, actor=actor.id)
    intake.start(tenant_id, [(start, cause)], clock.now())
    return Decommissioned(tuple(ids), _saga_of(tenant_id, subject), rotate_by if made_due else None, is_new=True)


def _saga_of(tenant_id: str, subject: str) -> str | None:
    key = own_key("decommission", subject)
    return Saga.objects.filter(tenant_id=tenant_id, key=key).values_list("id", flat=True).first()
