"""Revoke: a key is over at once in our books, and stays open work until every door has confirmed or the window has ended.

One rule: revoked means persisted. A key not yet active is abandoned (`failed`), and its doors are proven empty all the same.
"""

from __future__ import annotations

from credentials import event_data
from credentials.lifecycle import TERMINAL, State
from credentials.models import KeyCredential
from credentials.services import KeyBatch
from credentials.targets import is_settled
from sagas.flows.issue_key import first_lane, lane_width
from sagas.intake import PRIORITY_BULK, PRIORITY_CHECKOUT, PRIORITY_SECURITY, Start
from sagas.outbox import Cause
from vendors.port.types import RevokeReason

FLOW = "revoke"
_PRIORITY = {
    RevokeReason.CHECKOUT: PRIORITY_CHECKOUT,
    RevokeReason.REPLACED: PRIORITY_CHECKOUT,
    RevokeReason.CANCELLATION: PRIORITY_SECURITY,
    RevokeReason.SECURITY: PRIORITY_SECURITY,
    RevokeReason.LOST: PRIORITY_SECURITY,
}


def begin(
    batch: KeyBatch,
    key: KeyCredential,
    reason: RevokeReason,
    saga_key: str,
    cause: Cause,
    *,
    trigger: str = "",
    bulk: bool = False,
) -> bool:
    """Ends a locked key and starts the work at its doors; False when it was over already (nothing happens then).

    Inside the tenant's block. `saga_key` is the intention's idempotency key. `trigger` says what ended it; without one a person
    did, and no booking brings it back.
    """
    if key.state in TERMINAL:
        return False
    doors = batch.doors_at(key)
    if key.resuming:  # it was to open again: what takes its place does
        key.resuming, key.suspend_reason = False, ""
    key.revoke_reason, key.ended_at, key.waiting_for = reason.value, batch.now, ""
    key.end_trigger = trigger[:32]
    key.ended_by = cause.actor if not trigger and cause.actor != Cause().actor else ""
    if key.state in (State.REQUESTED, State.PENDING):
        key.failure_code = "ABANDONED"
        word = f"abandoned_{reason.value}"
        attempts = max((door.attempts for door in doors), default=0)
        batch.move(key, "fail", event_data.failed(key, word, "", attempts, batch.now), cause, word)
    else:
        vendor_ok = all(door.state not in ("present", "suspended") and not door.verb for door in doors)
        data = event_data.revoked(key, vendor_ok=vendor_ok, trigger=trigger, at=batch.now)
        batch.move(key, "revoke", data, cause, reason.value)
    batch.retarget(key)
    if not is_settled(key, doors):
        priority = PRIORITY_BULK if bulk and _PRIORITY[reason] else _PRIORITY[reason]
        _start(batch, key, saga_key, priority, cause)
    return True


def _start(batch: KeyBatch, key: KeyCredential, saga_key: str, priority: int, cause: Cause) -> None:
    batch.start(
        Start(
            flow=FLOW,
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
