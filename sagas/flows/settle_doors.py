"""What an answer says of one door, and what becomes of it.

One rule: doubt stays until it is settled. A door whose call was refused for good, or answered, has no open verb; one whose
answer was lost keeps it.
"""

from __future__ import annotations

from datetime import timedelta

from credentials import event_data, notices, pin_slots
from credentials.house import house
from credentials.lifecycle import State
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.targets import Verb, next_verb, wanted
from devices import call_counts, selectors
from lockservice.core import crypto
from sagas.alerts import NewAlert
from sagas.outbox import Cause
from sagas.steps import Call, StepContext, backoff
from vendors.port.errors import DeviceNotPaired, LockError, Reason
from vendors.port.types import CARD_STALE, CallResult, CredentialKind, DoorResult, Outcome, Propagation

RESUME_S = 5
VENDOR_ERROR = "melmastoon.lock.vendor.error.v1"


def ref_place(door: CredentialDoor) -> tuple[str, str, str]:
    """Returns where a door's vendor reference is sealed for."""
    return ("credentials_credentialdoor", f"{door.credential_id}\x1f{door.device_id}", "vendor_ref_sealed")


def token_place(door: CredentialDoor) -> tuple[str, str, str]:
    """Returns where a door's resume token is sealed for."""
    return ("credentials_credentialdoor", f"{door.credential_id}\x1f{door.device_id}", "resume_token_sealed")


def take_door(
    context: StepContext, key: KeyCredential, door: CredentialDoor, call: Call, item: DoorResult, result: CallResult
) -> None:
    """Writes what is known of a door after a call that was not refused there."""
    context.batch.touch_door(door)
    if item.ref is not None:
        door.vendor_ref_sealed = crypto.seal("vendor-ref", door.tenant_id, ref_place(door), item.ref.reveal())
    if item.outcome is Outcome.UNKNOWN:
        door.due_at = backoff(context, max(1, door.attempts), call_counts.wait_s(item.error) if item.error else 0.0)
        if call.verb_at(door.device_id) is Verb.REVOKE:
            if not is_given_anew(key, door):
                alarm_revoke(context, key, "the vendor's answer was lost")
            _close_if_over(context, key, door)
        return
    if item.outcome is Outcome.DEFERRED:
        door.due_at = context.real_now + timedelta(seconds=RESUME_S * context.retry_scale)
        door.attempts = max(0, door.attempts - 1)
        if result.resume_token is not None:
            place = token_place(door)
            door.resume_token_sealed = crypto.seal("vendor-ref", door.tenant_id, place, result.resume_token)
        return
    is_late = any(warning.code == CARD_STALE for warning in result.warnings)
    _settle_door(context, key, door, call, item, card_is_late=is_late)


def note_card(context: StepContext, key: KeyCredential, call: Call, result: CallResult) -> None:
    """Notes after the doors were settled whether the card in the holder's pocket says what our books say."""
    if any(warning.code == CARD_STALE for warning in result.warnings) or key.kind not in notices.ON_CARDS:
        return
    # A door that a card at the encoder could not gain says nothing of the card: it is as new as it can be.
    refused = {
        d.device_id for d in result.doors if call.writes_card and call.verb_at(d.device_id) is Verb.ISSUE and _is_final(d)
    }
    is_written = (call.writes_card or call.verb is Verb.ISSUE) and all(
        d.outcome is Outcome.DONE for d in result.doors if d.device_id not in refused
    )
    if not is_written:
        return
    notices.clear(key, CARD_STALE)
    for door in context.batch.doors_at(key):
        if door.dropped and door.state == DoorState.ABSENT and not door.verb:  # no older card is about any more
            door.propagation, door.effective_not_after = Propagation.CONFIRMED.value, None
            context.batch.touch_door(door)


def _settle_door(
    context: StepContext, key: KeyCredential, door: CredentialDoor, call: Call, item: DoorResult, *, card_is_late: bool
) -> None:
    verb = call.verb_at(door.device_id)
    door.verb, door.attempts, door.final, door.due_at = "", 0, False, None
    door.error_code = door.error_reason = ""
    door.resume_token_sealed = None
    if verb is Verb.UPDATE and door.state == DoorState.SUSPENDED:  # it left other rooms, and is suspended here
        return
    door.propagation, door.effective_not_after = item.propagation.value, item.effective_not_after
    if not _stays_on_card(key, call, verb, card_is_late=card_is_late):
        door.carried_version = call.desired_version
    if verb is Verb.REVOKE:
        door.state, door.vendor_ref_sealed, door.pin_version = DoorState.ABSENT, None, 0
        door.rounds += 1
        door.carried_from = door.carried_until = None
        rest_pin(context, key, [door.device_id], unless_wanted=door)
        return
    if verb is Verb.SUSPEND:
        door.state = DoorState.SUSPENDED
        if item.ref is None:  # the vendor could only delete it: it will be made anew on resume
            door.vendor_ref_sealed = None
        return
    door.state, door.carried_from, door.carried_until = DoorState.PRESENT, call.valid_from, call.valid_until
    if verb is Verb.ISSUE:
        door.pin_version = call.pin_version


def _is_final(result: DoorResult) -> bool:
    return result.outcome is Outcome.FAILED and result.error is not None and not result.error.retriable


def _stays_on_card(key: KeyCredential, call: Call, verb: Verb, *, card_is_late: bool) -> bool:
    """Says whether the holder's card still carries what it carried before the call."""
    if key.kind not in notices.ON_CARDS:
        return False
    if verb in (Verb.SUSPEND, Verb.UNSUSPEND):
        return notices.is_noted(key, CARD_STALE)
    return call.change is not None and card_is_late


def refuse_door(
    context: StepContext, key: KeyCredential, call: Call, door: CredentialDoor, error: LockError, *, definite: bool
) -> None:
    """Writes a refusal of a door. `definite` says that nothing can have been done there."""
    verb = call.verb_at(door.device_id)
    waits_for_another = verb is Verb.REVOKE and _is_tried_again(key, call, error)
    context.batch.touch_door(door)
    door.error_code, door.error_reason = error.code.rsplit(".", 1)[-1], error.reason.value
    if error.throttled:
        door.attempts = max(0, door.attempts - 1)
        door.verb = door.verb if call.meta.attempt > 1 else ""
        door.due_at = backoff(context, 1, call_counts.wait_s(error))
        if error.reason is Reason.QUOTA:
            facts = selectors.installation(key.tenant_id, key.installation_id)
            context.batch.alerts.append(call_counts.spent_alert(facts, context.now, call_counts.VENDOR_SAYS))
            if verb in (Verb.REVOKE, Verb.SUSPEND) and not waits_for_another:
                alarm_revoke(context, key, error.reason.value)
        return
    if definite:
        emptying = verb is Verb.REVOKE and door.state in (DoorState.NONE, DoorState.ABSENT)
        door.verb = verb.value if emptying else ""  # not known to hold the key, and not proven empty either
    door.final = not error.retriable and verb not in (Verb.REVOKE, Verb.SUSPEND)
    door.due_at = None if door.final else backoff(context, max(1, door.attempts), call_counts.wait_s(error))
    if waits_for_another:  # no failure of taking back
        return
    if verb is Verb.REVOKE:
        if not is_given_anew(key, door):
            alarm_revoke(context, key, error.reason.value)
        _close_if_over(context, key, door)
    elif verb is Verb.SUSPEND:
        alarm(context, key, "suspend", "KEY_SUSPEND_FAILED", "critical", "lock/key-revoke")
    elif isinstance(error, DeviceNotPaired) and next_verb(key, door) is None:  # its key may have ended for the others' sake
        alarm(context, key, f"doors:{key.desired_version}", "DOOR_NOT_REACHED", "warning", "lock/door-not-reached")


def _is_tried_again(key: KeyCredential, call: Call, error: LockError) -> bool:
    """Say whether a room that was not left by a change is kept until the new one has the key, or, by a suspended key that the
    system does not change, is left by taking the key back."""
    if call.change is None:
        return False
    return bool(call.change.added) or (key.state == State.SUSPENDED and not error.retriable)


def is_given_anew(key: KeyCredential, door: CredentialDoor) -> bool:
    """Say whether taking the key from the door is only the first half of giving the same key anew there."""
    return wanted(key, door) == "present" and door.pin_version == key.pin_version


def _close_if_over(context: StepContext, key: KeyCredential, door: CredentialDoor) -> None:
    """Taking back is retried until the window has ended: after that the lock itself refuses the key."""
    over = max(key.valid_until, door.carried_until or key.valid_until)
    if context.now < over:
        return
    door.verb, door.due_at, door.state = "", None, DoorState.ABSENT
    door.propagation = Propagation.UNKNOWN.value
    rest_pin(context, key, [door.device_id])
    data = event_data.vendor_error(
        key, environment=environment(key), operation="revoke", code="MELMASTOON.LOCK.KEY_REVOKE_FAILED",
        message="the window ended first", attempts=max(1, door.attempts), final=True, device_id=door.device_id, at=context.now,
    )  # fmt: skip
    context.batch.emit(key, VENDOR_ERROR, data, _cause(key))


def rest_pin(
    context: StepContext, key: KeyCredential, device_ids: list[str], unless_wanted: CredentialDoor | None = None
) -> None:
    """Lets the key's digits rest at these doors once the batch is flushed."""
    if key.kind != CredentialKind.PIN_CODE or not device_ids:
        return
    if unless_wanted is not None and next_verb(key, unless_wanted) is not None:
        return
    until = pin_slots.rest(context.now, house(key.tenant_id, key.property_id).policy.pin_rest_days)
    context.releases.extend((key.id, device, until) for device in device_ids)


def alarm_revoke(context: StepContext, key: KeyCredential, why: str) -> None:
    """Tells, once per key, that a key could not be taken back yet."""
    alarm(context, key, "revoke", "KEY_REVOKE_FAILED", "critical", "lock/key-revoke", why)


def alarm(context: StepContext, key: KeyCredential, cause: str, code: str, severity: str, runbook: str, why: str = "") -> None:
    """Raises an alert about a key, once per cause."""
    detail = f"{code.lower().replace('_', ' ')} for a {key.kind} at {key.vendor}" + (f": {why}" if why else "")
    context.batch.alerts.append(NewAlert(f"{cause}:{key.id}", code, severity, detail, runbook, key.property_id, key.id))


def environment(key: KeyCredential) -> str:
    """Returns the key's installation's environment, such as `production`."""
    return selectors.installation(key.tenant_id, key.installation_id).environment


def _cause(key: KeyCredential) -> Cause:
    return Cause(correlation_id=key.reservation_id or key.id)
