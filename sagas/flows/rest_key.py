"""Suspend and resume: a key rests at its doors and opens again within its window.

One rule: suspended is persisted at once (like revoked); active again only when a door has confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence

from credentials import arrival_signs, event_data
from credentials.lifecycle import State
from credentials.models import KeyCredential, Reservation
from credentials.reservations import NO_SHOW
from credentials.services import KeyBatch
from sagas.flows.issue_key import first_lane, lane_width
from sagas.intake import PRIORITY_CHECKOUT, PRIORITY_ISSUE, PRIORITY_SECURITY, Start
from sagas.models import Saga, SagaStatus
from sagas.outbox import Cause
from vendors.port.types import SuspendReason

SUSPEND, UNSUSPEND = "suspend", "unsuspend"
WHEN_ACTIVE = "suspendWhenActive"
"""The argument of a suspend saga that waits for its key to be there."""


class KeyExpired(Exception):
    """The key's window is over, so it cannot open again: CREDENTIAL_EXPIRED. Not retriable."""


def suspend(batch: KeyBatch, key: KeyCredential, reason: SuspendReason, saga_key: str, cause: Cause) -> bool:
    """Suspends a locked active key; False in any other state. A resume under way is called off. Inside the tenant's block."""
    if key.state == State.SUSPENDED and key.resuming:
        key.resuming = False
        key.suspend_reason = reason.value
        batch.retarget(key)
        _start(batch, key, SUSPEND, saga_key, PRIORITY_CHECKOUT, cause)
        return True
    if key.state != State.ACTIVE:
        return False
    key.suspend_reason = reason.value
    batch.move(key, "suspend", event_data.suspended(key, batch.now), cause, reason.value)
    batch.retarget(key)
    priority = PRIORITY_SECURITY if reason is SuspendReason.FRAUD_REVIEW else PRIORITY_CHECKOUT
    _start(batch, key, SUSPEND, saga_key, priority, cause)
    return True


def unsuspend(batch: KeyBatch, key: KeyCredential, saga_key: str, cause: Cause) -> bool:
    """Starts to resume a locked suspended key; False in any other state. Raises KeyExpired. Inside the tenant's block."""
    if key.state != State.SUSPENDED or key.resuming:
        return False
    if key.valid_until <= batch.now:
        raise KeyExpired(key.id)
    key.resuming = True
    batch.retarget(key)
    _start(batch, key, UNSUSPEND, saga_key, PRIORITY_ISSUE, cause)
    return True


def waiting_to_rest(tenant_id: str, credential_ids: Sequence[str]) -> dict[str, str]:
    """Returns, by credential, why keys on their way shall rest as soon as they are there. Under the credentials' locks.

    A no-show who has come meanwhile is left out. Inside the tenant's block.
    """
    if not credential_ids:
        return {}
    rows = Saga.objects.filter(
        tenant_id=tenant_id, credential_id__in=sorted(credential_ids), flow=SUSPEND, args__has_key=WHEN_ACTIVE
    ).exclude(status__in=[SagaStatus.DONE.value, SagaStatus.DEAD.value])
    found: dict[str, str] = {}
    for row in rows.order_by("position"):
        reason = str(row.args[WHEN_ACTIVE])
        if reason != SuspendReason.NO_SHOW or has_not_come(tenant_id, row.reservation_id, str(row.credential_id)):
            found[str(row.credential_id)] = reason
    return found


def was_to_rest(key: KeyCredential) -> list[str]:
    """Returns why a key was to rest as soon as it was there, and never rested for it. Inside the tenant's block.

    Of a key that was there, what was done is over: a person may have resumed it since.
    """
    rows = Saga.objects.filter(tenant_id=key.tenant_id, credential_id=key.id, flow=SUSPEND, args__has_key=WHEN_ACTIVE)
    if key.issued_at is not None:
        rows = rows.exclude(status=SagaStatus.DONE.value)
    return [str(row.args[WHEN_ACTIVE]) for row in rows.order_by("position")]


def has_not_come(tenant_id: str, reservation_id: str | None, credential_id: str) -> bool:
    """Re-reads the booking and the signs; the key's lock orders this against an event that says otherwise."""
    incarnations = KeyCredential.objects.filter(tenant_id=tenant_id, id=credential_id).values("incarnation")
    rows = Reservation.objects.filter(tenant_id=tenant_id, reservation_id=reservation_id, status=NO_SHOW)
    incarnation = rows.filter(incarnation__in=incarnations).values_list("incarnation", flat=True).first()
    return incarnation is not None and not arrival_signs.has_come(tenant_id, str(reservation_id), incarnation)


def _start(batch: KeyBatch, key: KeyCredential, flow: str, saga_key: str, priority: int, cause: Cause) -> None:
    batch.start(
        Start(
            flow=flow,
            key=saga_key,
            lane=first_lane(batch, key),
            lane_width=lane_width(batch, key),
            installation_id=key.installation_id,
            credential_id=key.id,
            reservation_id=key.reservation_id,
            priority=priority,
        ),
        cause,
    )
