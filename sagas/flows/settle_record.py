"""Records what a call did: doors, the key's move, its events, and what the saga does next.

One rule: the credential's locked state decides, not the saga's story. A key called off while the vendor was busy is cleaned up
by the same step that finds it there.
"""

from __future__ import annotations

from datetime import timedelta

from credentials import artifacts, event_data, notices
from credentials.arrival_signs import Sign, SignKind
from credentials.artifacts import NewArtifact
from credentials.lifecycle import State
from credentials.models import Artifact, CredentialDoor, KeyCredential
from credentials.services import KeyBatch
from credentials.targets import Verb, is_settled, next_verb, opens_a_room
from devices import selectors
from devices.health_rules import SKEW_WARN_MS, hours_text, utc_text
from sagas.claims import WAITS
from sagas.flows import (
    card_in_use,
    companions,
    fall_back,
    given_again,
    guest_came,
    old_rooms,
    refused_changes,
    rest_key,
    vendor_digits,
)
from sagas.flows.one_change import AT_ENCODER
from sagas.flows.settle_doors import (
    VENDOR_ERROR,
    alarm,
    environment,
    is_given_anew,
    note_card,
    refuse_door,
    rest_pin,
    take_door,
)
from sagas.models import SagaStatus
from sagas.steps import Answer, Call, StepContext, Work, backoff, is_spent
from vendors.port.errors import KeyIssueFailed, KeyRevokeFailed, LockError, Reason, VendorUnreachable
from vendors.port.secrets import Token
from vendors.port.types import (
    CallResult,
    CardArtifact,
    IssueResult,
    Outcome,
    PinArtifact,
    TokenArtifact,
)

DRAW_LIMIT = 3
NOT_REACHED = frozenset({Reason.DOOR_OFFLINE})
"""Why a vendor that answers did nothing at all, though asking again may help: nothing is in doubt at the door then."""
STANDS_S = 10.0
"""How long, in all, a person with a card on the encoder is let wait for a rate limit before she is told to ask again."""
STOOD_S = "stoodS"


def record(context: StepContext, work: Work, answer: Answer) -> None:
    """Writes one answer into the locked batch and decides the saga's next status. Inside the tenant's block."""
    key = context.batch.keys[answer.call.credential_id]
    if key.acting_saga == work.id:
        key.acting_saga = None
    context.batch.touch(key)
    _log(context, work, answer)
    doors = {door.device_id: door for door in context.batch.doors_at(key) if door.pk in answer.call.doors}
    card_before = min((door.carried_version for door in doors.values() if not door.dropped), default=0)
    error = answer.error
    if answer.bug:
        error = _take_bug(context, work, key, answer)
    elif answer.result is not None:
        asked = list(doors.values())
        error = _take_result(context, work, key, answer, answer.result, doors)
        given_again.take_twins_too(context, key, answer.call, asked)
    elif answer.error is not None:
        _take_refusal(context, work, key, answer.call, list(doors.values()), answer.error)
    if error is not None:
        work.error_code, work.error_detail = error.code, error.vendor_message[:300]
    _advance(context, work, key, error)
    if answer.call.writes_card:
        _end_encoding(context, work, key, card_before, error)


def _end_encoding(context: StepContext, work: Work, key: KeyCredential, card_before: int, error: LockError | None) -> None:
    """A person stood at the encoder once. Unless the answer is still out, she is told and asks again herself."""
    if error is not None and error.retriable and work.status == SagaStatus.RETRY.value:
        return
    if error is not None and _stands_on(context, work, error):
        return
    work.args = {name: value for name, value in work.args.items() if name not in (AT_ENCODER, STOOD_S)}
    if not notices.card_is_stale(key):
        changes = {"cardVersion": {"from": card_before, "to": key.desired_version}}
        context.batch.emit(key, event_data.subject("updated"), event_data.updated(key, changes, context.now), work.cause)
    elif work.status == SagaStatus.DONE.value:
        work.status = SagaStatus.DEAD.value


def _stands_on(context: StepContext, work: Work, error: LockError) -> bool:
    """Lets the writing wait for a limit that is over in a moment: nothing was asked, and the card lies there still."""
    wait_s = max(0.1, error.retry_after_s or 0.0)
    stood_s = float(work.args.get(STOOD_S, 0.0)) + wait_s
    if not error.throttled or error.reason is not Reason.RATE or stood_s > STANDS_S:
        return False
    work.args = {**work.args, STOOD_S: stood_s}
    work.status, work.due_at = SagaStatus.RETRY.value, context.real_now + timedelta(seconds=wait_s * context.retry_scale)
    return True


def close(context: StepContext, work: Work, key: KeyCredential) -> None:
    """Ends a saga that has no call left to make: done when every door carries what it shall, dead otherwise."""
    doors = context.batch.doors_at(key)
    if is_settled(key, doors):
        _decide_pending(context, work, key, None)
        if next((door for door in doors if next_verb(key, door)), None) is None:
            _tell_settled(context, work, key)
            work.status = SagaStatus.DONE.value
            return
        work.status = SagaStatus.DUE.value
        return
    _decide_pending(context, work, key, None)
    if _has_open_doors(key, doors):
        work.status = SagaStatus.DUE.value
        return
    _end_spent(context, work, key)


def draw_again(context: StepContext, key: KeyCredential) -> None:
    """Drops the key's digits, so that the next plan draws new ones; doors that carry the old ones are redone."""
    artifacts.retire(key.tenant_id, [key.id])
    rest_pin(context, key, [door.device_id for door in context.batch.doors_at(key)])
    if notices.is_noted(key, notices.PIN_CHOSEN) or any(door.pin_version for door in context.batch.doors_at(key)):
        notices.clear(key, notices.PIN_CHOSEN)
        notices.warn(key, notices.PIN_CHANGED, "the digits had to be drawn again")
    context.batch.retarget(key)


def _take_result(
    context: StepContext, work: Work, key: KeyCredential, answer: Answer, result: CallResult, doors: dict[str, CredentialDoor]
) -> LockError | None:
    error: LockError | None = vendor_digits.refused(key, answer.call, result)
    if error is not None:
        _take_refusal(context, work, key, answer.call, list(doors.values()), error, definite=True)
        return error
    for item in result.doors:
        door = doors.pop(item.device_id, None)
        if door is None:
            continue
        if item.outcome is Outcome.FAILED:
            refused = item.error or KeyRevokeFailed(key.vendor, "no reason given")
            said_no = not isinstance(refused, VendorUnreachable) or answer.call.meta.attempt == 1
            _take_refusal(context, work, key, answer.call, [door], refused, definite=said_no)
            error = refused
        else:
            take_door(context, key, door, answer.call, item, result)
            error = item.error or error
    for door in doors.values():  # the adapter did not answer for these: their fate is open
        door.due_at = backoff(context, door.attempts)
        context.batch.touch_door(door)
    for warning in result.warnings:
        notices.warn(key, warning.code, warning.detail)
    note_card(context, key, answer.call, result)
    if isinstance(result, IssueResult):
        _take_artifact(context, key, answer.call, result)
    _note_card(context, work, key, answer.call, result)
    _note_opened(context, key, answer.call, result)
    if answer.call.verb is Verb.ISSUE:  # at once, or when the card was laid down
        companions.follow_up(context, work, key, result)
    companions.join_again(context, work, key, answer.call, result)
    return error


def _note_card(context: StepContext, work: Work, key: KeyCredential, call: Call, result: CallResult) -> None:
    """A card written for a guest shows that she has come."""
    is_written = (call.writes_card or call.verb is Verb.ISSUE) and any(d.outcome is Outcome.DONE for d in result.doors)
    if is_written and key.kind in notices.ON_CARDS and key.holder_kind == "guest" and key.reservation_id:
        sign = Sign(key.reservation_id, key.incarnation, SignKind.CARD, context.now)
        guest_came.note(key.tenant_id, [sign], context.now, work.cause)


def _take_refusal(
    context: StepContext,
    work: Work,
    key: KeyCredential,
    call: Call,
    doors: list[CredentialDoor],
    error: LockError,
    *,
    definite: bool = False,
) -> None:
    """A refused call. A retriable raise leaves the doors in doubt (the next try looks first), a refusal does not, and a door
    that the vendor says it cannot reach does not either. A vendor that was not reached settles no earlier doubt."""
    drawn = int(work.args.get("draws", 0)) - (
        work.args.get("drawStep") == work.step
    )  # one answer, one draw, whatever its doors
    if card_in_use.take(context, work, key, call, doors, error):
        return
    digits_refused = error.reason is Reason.PIN_REFUSED and call.verb is Verb.ISSUE
    if digits_refused and given_again.looks_for_its_own(context, work, key, doors):
        return
    if (digits_refused or given_again.has_other_digits(work, call, error)) and drawn < DRAW_LIMIT:
        work.args = {**work.args, "draws": drawn + 1, "drawStep": work.step}
        for door in doors:
            door.verb, door.attempts = "", max(0, door.attempts - 1)
            context.batch.touch_door(door)
        draw_again(context, key)
        given_again.tell_of_new_digits(work, key)
        return
    said_no = definite or not error.retriable or (call.meta.attempt == 1 and error.reason in NOT_REACHED)
    said_no = said_no or _keeps_its_key(key, call, doors, error)
    for door in doors:
        refuse_door(context, key, call, door, error, definite=said_no)
    refused_changes.note(work, key, call, doors, error)
    if error.throttled and error.reason is Reason.QUOTA and call.verb is Verb.ISSUE and _quota_outlasted(context, work, key):
        for door in doors:
            door.final = True
        return
    gives_up = fall_back.is_at_once(error.reason) or error.reason is Reason.PIN_REFUSED
    if call.verb is Verb.ISSUE and gives_up and fall_back.change_kind(context, key, error.reason.value):
        for door in doors:
            door.final = False


def _note_opened(context: StepContext, key: KeyCredential, call: Call, result: CallResult) -> None:
    """Note that a door of the stay opened, for those who wait for it."""
    opened = [item for item in result.doors if item.outcome is Outcome.DONE and call.verb_at(item.device_id) is Verb.ISSUE]
    if opened and key.reservation_id:
        context.opened.add(key.reservation_id)


def _keeps_its_key(key: KeyCredential, call: Call, doors: list[CredentialDoor], error: LockError) -> bool:
    """Say whether doors that were to have the key given anew answered that they do not let go of it."""
    is_half = call.verb is Verb.REVOKE and all(is_given_anew(key, door) for door in doors)
    return is_half and not isinstance(error, VendorUnreachable)


def _quota_outlasted(context: StepContext, work: Work, key: KeyCredential) -> bool:
    if not fall_back.outlasted(context, work, key):
        return False
    return fall_back.way_on(key, context.batch.doors_at(key), "VENDOR_UNREACHABLE", Reason.QUOTA.value) is not None


def _advance(context: StepContext, work: Work, key: KeyCredential, error: LockError | None) -> None:
    _decide_pending(context, work, key, error)
    old_rooms.settle(context.batch, key)
    refused_changes.go_on(context, work, key)
    doors = context.batch.doors_at(key)
    wanting = [(door, verb) for door in doors if (verb := next_verb(key, door))]
    open_doors = [door for door, verb in wanting if not is_spent(key, door, verb)]
    if card_in_use.has_stopped(key):
        work.status, work.error_code, work.error_detail = SagaStatus.DEAD.value, card_in_use.CODE, card_in_use.WAITS_FOR_WORD
    elif not wanting:
        _tell_settled(context, work, key)
        work.status = SagaStatus.DONE.value
    elif not open_doors:
        _end_spent(context, work, key)
    else:
        dues = [door.due_at for door in open_doors]
        if any(due is None or due <= context.real_now for due in dues):
            work.status = SagaStatus.DUE.value
        else:
            work.status, work.due_at = SagaStatus.RETRY.value, min(due for due in dues if due is not None)
            if any(door.resume_token_sealed for door in open_doors):  # it asks again how it ended: others go first
                work.args = {**work.args, WAITS: True}


def _decide_pending(context: StepContext, work: Work, key: KeyCredential, error: LockError | None) -> None:
    """A pending key becomes active when a room opens and every door was tried; it fails when no try is left and none opens."""
    if key.state != State.PENDING:
        return
    doors = [door for door in context.batch.doors_at(key) if not door.dropped]
    wanting = [(door, verb) for door in doors if (verb := next_verb(key, door))]
    if opens_a_room(key, doors) and all(_was_tried(key, door) for door, _ in wanting):
        if wanting:
            notices.warn(key, "DOORS_PENDING", f"{len(doors) - len(wanting)} of {len(doors)} doors carry the key")
        _activate(context, work, key)
    elif wanting and all(is_spent(key, door, verb) for door, verb in wanting) and not opens_a_room(key, doors):
        _fail(context, work, key, doors, error)


def _was_tried(key: KeyCredential, door: CredentialDoor) -> bool:
    return door.attempts_for == key.desired_version and (door.attempts > 0 or door.final)


def _activate(context: StepContext, work: Work, key: KeyCredential) -> None:
    key.issued_at = context.now
    warn_of_clocks(context.batch, key)
    rests = rest_key.is_to_rest(key)
    if rests:  # nobody is told that it is ready: the saga that waits for it puts its doors to rest
        notices.warn(key, notices.SUSPENDED_AT_ONCE, "the key rests from its first moment; there is nothing to hand over")
    reference = _artifact_reference(context.artifacts.get(key.id)) if not rests else None
    context.batch.move(key, "activate", event_data.issued(key, reference, context.now), work.cause)
    if not rests:
        key.suspend_reason = ""
        return
    context.batch.flush()  # each move is an update of its own, within this transaction
    context.batch.move(key, "suspend", event_data.suspended(key, context.now), work.cause, key.suspend_reason)
    notices.clear(key, notices.SUSPENDED_AT_ONCE)
    context.batch.retarget(key)


def warn_of_clocks(batch: KeyBatch, key: KeyCredential) -> None:
    """Tell the holder and the desk where a lock's clock is off, by which it judges a key's window.

    Every call that gives a window needs it: a key without the warning keeps a cut window once the clock is right again.
    """
    here = [door.device_id for door in batch.doors_at(key) if not door.dropped]
    for device in selectors.devices(key.tenant_id, key.property_id, here).values():
        shift_s = device.zone_shift_s(batch.now)
        if shift_s:
            stored = utc_text(device.utc_offset_s or 0)
            may = f"may open there {hours_text(shift_s)} {'early' if shift_s > 0 else 'late'}"
            notices.warn(key, notices.ZONE_DIFFERS, f"{device.label} is set to {stored}, the house is not; the key {may}")
        skew_ms = device.clock_skew_ms or 0
        if abs(skew_ms) > SKEW_WARN_MS:
            off = f"{abs(skew_ms) // 60_000} minutes {'fast' if skew_ms > 0 else 'slow'}"
            notices.warn(key, notices.CLOCK_SKEW, f"the clock of {device.label} is {off}; the key opens there by that clock")


def _artifact_reference(row: Artifact | None) -> dict[str, str] | None:
    if row is None:
        return None
    if row.type == artifacts.CARD_READY:
        return {"type": row.type, "deviceId": artifacts.reveal(row).reveal()}
    return {"type": row.type, "opaqueRef": row.id}


def _fail(context: StepContext, work: Work, key: KeyCredential, doors: list[CredentialDoor], error: LockError | None) -> None:
    last = next((door for door in doors if door.error_code), None)  # without an answer now, the last one counts
    reason = error.reason.value if error else (last.error_reason if last and last.error_reason else "other")
    code = error.code if error else f"MELMASTOON.LOCK.{last.error_code if last else 'KEY_ISSUE_FAILED'}"
    key.failure_code, key.ended_at = code.rsplit(".", 1)[-1], context.now
    attempts = max((door.attempts for door in doors), default=0)
    message = error.vendor_message if error else ""
    word = "vendor_unreachable" if key.failure_code == "VENDOR_UNREACHABLE" else reason
    device = last.device_id if last else None
    way = fall_back.way_on(key, doors, last.error_code if last else "", last.error_reason if last else "")
    failed = event_data.failed(key, word, message, attempts, context.now, goes_on=way is not None)
    context.batch.move(key, "fail", failed, work.cause, word)
    data = event_data.vendor_error(
        key,
        environment=environment(key),
        operation="issue",
        code=code,
        message=message,
        attempts=attempts,
        final=True,
        device_id=device,
        at=context.now,
    )
    context.batch.emit(key, VENDOR_ERROR, data, work.cause)
    alarm(context, key, "issue", "KEY_ISSUE_FAILED", "warning" if way else "critical", "lock/key-issue")
    if way is not None:
        fall_back.start(context, work, key, way, word)
    context.batch.retarget(key)


def _tell_settled(context: StepContext, work: Work, key: KeyCredential) -> None:
    if key.resuming and key.state == State.SUSPENDED:
        _resume(context, work, key)
    _tell_updated(context, work, key)
    if key.state == State.ACTIVE:
        for code in ("DOORS_PENDING", "DOORS_MISSING", refused_changes.NOT_CHANGED):
            notices.clear(key, code)


def _tell_updated(context: StepContext, work: Work, key: KeyCredential) -> None:
    changes = work.args.get("changes")
    if changes and key.state in (State.ACTIVE, State.SUSPENDED):
        data = event_data.updated(key, changes, context.now)
        context.batch.emit(key, event_data.subject("updated"), data, work.cause)
        work.args = {name: value for name, value in work.args.items() if name != "changes"}


def _resume(context: StepContext, work: Work, key: KeyCredential) -> None:
    reason, key.resuming = key.suspend_reason, False
    data = event_data.unsuspended(key, reason, work.cause.actor, context.now)
    context.batch.move(key, "unsuspend", data, work.cause, reason)
    key.suspend_reason = ""


def _has_open_doors(key: KeyCredential, doors: list[CredentialDoor]) -> bool:
    return any((verb := next_verb(key, door)) and not is_spent(key, door, verb) for door in doors)


def _end_spent(context: StepContext, work: Work, key: KeyCredential) -> None:
    """Ends a saga with no try left. A key that was to resume is active if its room opens; if not, the doors that did open
    are put to rest again, by this same saga."""
    _tell_spent(context, work, key)
    doors = context.batch.doors_at(key)
    if key.resuming and key.state == State.SUSPENDED and opens_a_room(key, doors):
        _resume(context, work, key)
    elif key.resuming:
        key.resuming = False
        context.batch.retarget(key)
    work.status = SagaStatus.DUE.value if _has_open_doors(key, doors) else SagaStatus.DEAD.value


def _tell_spent(context: StepContext, work: Work, key: KeyCredential) -> None:
    """No try is left and some door still does not carry what it shall: said aloud, and left to a person."""
    doors = [door for door in context.batch.doors_at(key) if next_verb(key, door)]
    operation = {"issue": "issue", "update": "update", "unsuspend": "unsuspend"}.get(work.flow, "update")
    code = f"MELMASTOON.LOCK.{doors[0].error_code}" if doors[0].error_code else "MELMASTOON.LOCK.KEY_ISSUE_FAILED"
    data = event_data.vendor_error(
        key, environment=environment(key), operation=operation, code=code, message=work.error_detail,
        attempts=max(door.attempts for door in doors), final=True, device_id=doors[0].device_id, at=context.now,
    )  # fmt: skip
    if key.state in (State.ACTIVE, State.SUSPENDED):
        step = "; give a new key (Replace)" if refused_changes.needs_new_card(key, doors) else ""
        notices.warn(key, "DOORS_MISSING", f"{len(doors)} doors do not carry what they should{step}")
        if not any(door.room_id for door in doors):  # the rooms follow; a shared door that does not is the error told below
            _tell_updated(context, work, key)
        context.batch.emit(key, VENDOR_ERROR, data, work.cause)
    if not refused_changes.tell(context, key, doors) or any(next_verb(key, door) is not Verb.UPDATE for door in doors):
        alarm(context, key, f"doors:{key.desired_version}", "DOOR_NOT_REACHED", "warning", "lock/door-not-reached")


def _take_artifact(context: StepContext, key: KeyCredential, call: Call, result: IssueResult) -> None:
    made = result.artifact
    if isinstance(made, TokenArtifact):
        _replace_artifact(context, key, NewArtifact(key.id, made.type, made.value, key.desired_version))
    elif isinstance(made, CardArtifact):
        _replace_artifact(context, key, NewArtifact(key.id, artifacts.CARD_READY, Token(made.device_id), key.desired_version))
    elif isinstance(made, PinArtifact) and call.issue is not None and made.value != call.issue.pin:
        _replace_artifact(context, key, NewArtifact(key.id, artifacts.PIN, made.value, key.pin_version))


def _replace_artifact(context: StepContext, key: KeyCredential, item: NewArtifact) -> None:
    artifacts.retire(key.tenant_id, [key.id])
    artifacts.store(key.tenant_id, [item], context.now)
    context.artifacts.update(artifacts.current(key.tenant_id, [key.id]))


def _take_bug(context: StepContext, work: Work, key: KeyCredential, answer: Answer) -> LockError:
    """An unexpected exception is our bug, told at once. The doors stay in doubt, and the next try, which looks first, is one of
    the few that every failure gets: for all we know the answer was odd only once, and somebody stands at the door."""
    alarm(context, key, f"bug:{work.id}", "INTERNAL_ERROR", "critical", "lock/saga-dead")
    call = answer.call
    taking = call.verb in (Verb.REVOKE, Verb.SUSPEND)
    error = (KeyRevokeFailed if taking else KeyIssueFailed)(key.vendor, f"an error of ours: {answer.bug}")
    for door in context.batch.doors_at(key):
        if door.pk in call.doors:
            refuse_door(context, key, call, door, error, definite=False)
    return error


def _log(context: StepContext, work: Work, answer: Answer) -> None:
    call, error = answer.call, answer.error
    outcomes = [item.outcome.value for item in answer.result.doors] if answer.result else []
    outcome = "bug" if answer.bug else ("refused" if error else _worst(outcomes))
    first = error or next((item.error for item in answer.result.doors if item.error), None) if answer.result else error
    context.log.append(
        (
            call.tenant_id, work.id, call.credential_id, work.step, call.verb.value, call.lane[:200],
            list(call.device_ids), outcome,
            first.code.rsplit(".", 1)[-1] if first else "", first.reason.value if first else "",
            (first.vendor_message if first else answer.bug)[:300], answer.took_ms, context.now,
        )
    )  # fmt: skip


def _worst(outcomes: list[str]) -> str:
    for outcome in ("failed", "unknown", "deferred"):
        if outcome in outcomes:
            return outcome
    return "done"
