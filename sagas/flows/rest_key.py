"""Suspend and resume: a key rests at its doors and opens again within its window.

One rule: suspended is persisted at once (like revoked); active again only when a door has confirmed.

A key's `suspend_reason` says why it rests; of a key on its way, why it is to rest as soon as it is there; of a key that is
over, why it was taken back resting, until another key has followed it (`follow_rest`).
"""

from __future__ import annotations

from credentials import arrival_signs, event_data
from credentials.lifecycle import TERMINAL, WAITING, State
from credentials.models import KeyCredential, Reservation
from credentials.reservations import NO_SHOW
from credentials.services import KeyBatch
from sagas.flows.issue_key import first_lane, lane_width
from sagas.intake import PRIORITY_CHECKOUT, PRIORITY_ISSUE, PRIORITY_SECURITY, Start
from sagas.outbox import Cause
from vendors.port.types import SuspendReason

SUSPEND, UNSUSPEND = "suspend", "unsuspend"
WHEN_ACTIVE = "suspendWhenActive"
"""The argument of a suspend saga that waits for its key to be there. What is to be done then is said by the key."""


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


def suspend_soon(batch: KeyBatch, key: KeyCredential, reason: SuspendReason, saga_key: str, cause: Cause) -> None:
    """Suspends an active key; a key on its way is suspended as soon as it is active."""
    if suspend(batch, key, reason, saga_key, cause) or key.state not in WAITING:
        return
    if key.suspend_reason in ("", SuspendReason.NO_SHOW):
        key.suspend_reason = reason.value
        batch.touch(key)
    _start(batch, key, SUSPEND, saga_key, PRIORITY_CHECKOUT, cause, {WHEN_ACTIVE: reason.value})


def lift(batch: KeyBatch, key: KeyCredential, reason: SuspendReason, saga_key: str, cause: Cause) -> None:
    """Ends what a locked key rests for, where that is the reason: it is resumed, or does not rest when it is there, nor does
    what takes its place. One whose window is over is left to the sweep, which ends it."""
    if key.suspend_reason != reason:
        return
    if key.state in WAITING or key.state in TERMINAL:
        key.suspend_reason = ""
        batch.touch(key)
    elif key.valid_until > batch.now:
        unsuspend(batch, key, saga_key, cause)


def why(key: KeyCredential) -> SuspendReason | None:
    """Returns why a key rests, is to rest, or was taken back resting. None where it opens, or is about to open again."""
    return SuspendReason(key.suspend_reason) if key.suspend_reason and not key.resuming else None


def is_to_rest(key: KeyCredential) -> bool:
    """Says whether a locked key on its way rests as soon as it is there; not a no-show who has come meanwhile. Inside the
    tenant's block."""
    reason = why(key)
    return reason is not None and (
        reason is not SuspendReason.NO_SHOW or has_not_come(key.tenant_id, key.reservation_id, key.id)
    )


def has_not_come(tenant_id: str, reservation_id: str | None, credential_id: str) -> bool:
    """Re-reads the booking and the signs; the key's lock orders this against an event that says otherwise."""
    incarnations = KeyCredential.objects.filter(tenant_id=tenant_id, id=credential_id).values("incarnation")
    rows = Reservation.objects.filter(tenant_id=tenant_id, reservation_id=reservation_id, status=NO_SHOW)
    incarnation = rows.filter(incarnation__in=incarnations).values_list("incarnation", flat=True).first()
    return incarnation is not None and not arrival_signs.has_come(tenant_id, str(reservation_id), incarnation)


def _start(
    batch: KeyBatch,
    key: KeyCredential,
    flow: str,
    saga_key: str,
    priority: int,
    cause: Cause,
    args: dict[str, str] | None = None,
) -> None:
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
            args=args or {},
        ),
        cause,
    )
