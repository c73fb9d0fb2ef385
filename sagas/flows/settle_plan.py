"""Plans the next call of a credential's saga.

One rule: the doors of one lane that need the same verb are called together; doors in another lane send the saga there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from credentials import artifacts, event_data, notices, pin_slots
from credentials.house import House, house
from credentials.lifecycle import LIVE, State
from credentials.models import CredentialDoor, DoorState, KeyCredential, Reservation
from credentials.pin_slots import DoorFull, PinWish
from credentials.reservations import holder_of, told_phone
from credentials.targets import RANK, Verb, next_verb
from devices import adapters, breaker, call_counts, selectors
from devices.breaker import Gate, Standing
from devices.health_rules import SKEW_WARN_MS, window_by_clocks
from devices.selectors import DeviceFacts
from lockservice.core import crypto
from sagas.alerts import NewAlert
from sagas.claims import WAITS
from sagas.flows import (
    card_in_use,
    choose_pin,
    companions,
    fall_back,
    issue_key,
    old_rooms,
    rest_key,
    settle_record,
    shared_rooms,
    stay_start,
)
from sagas.flows.call_keys import call_key, level_rounds
from sagas.flows.one_change import AT_ENCODER, Group, has_windows_by_door, one_change, spans
from sagas.flows.settle_doors import alarm_revoke, ref_place, token_place
from sagas.flows.update_key import TAKE_FIRST
from sagas.intake import PRIORITY_SECURITY, ensure_lanes
from sagas.models import SagaStatus
from sagas.steps import Call, StepContext, Work, is_spent, ready_doors
from vendors.port.errors import Reason
from vendors.port.secrets import Pin, Token, VendorRef
from vendors.port.types import (
    Area,
    CallMeta,
    CredentialHandle,
    CredentialKind,
    Door,
    Holder,
    Intent,
    IssueInput,
    RevokeReason,
    Scope,
    SuspendReason,
    UpdateInput,
    Window,
)

_TAKING = frozenset({Verb.REVOKE, Verb.SUSPEND})
WAIT_FULL_S = 60
WAIT_QUOTA_S = 600
WAIT_PERSON_S = 60
NUMBER_LOOK_S = 2.0
"""How often a saga looks whether a card's number has been taken away from the key that had it."""
LOOK_S = 15.0
"""How often a saga that waits for other work is looked at, beside the wake-up by that work."""


@dataclass
class Provisions:
    """What a batch's plans share, read once: PINs (or why there is none), those a key had earlier by version, guests, whose
    first PIN was drawn just now, and the breakers that are not closed."""

    pins: dict[str, Pin | Exception] = field(default_factory=dict)
    earlier: dict[str, dict[int, Pin]] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    guests: dict[str, Holder] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    breakers: dict[str, Standing] = field(default_factory=dict)


def provide(context: StepContext, works: Sequence[Work], busy_sagas: set[str]) -> Provisions:
    """Reads, and draws where needed, what the plans of a batch will want. Inside the tenant's block."""
    provisions = Provisions(busy=busy_sagas, breakers=breaker.standing(context.batch.tenant_id))
    keys = [context.batch.keys[w.credential_id] for w in works if w.credential_id in context.batch.keys]
    free = [key for key in keys if key.acting_saga not in busy_sagas]
    calling = [key for key in free if _needs_secret(context, key)]
    _provide_pins(context, [key for key in calling if key.kind == CredentialKind.PIN_CODE], provisions)
    standing = [key for key in free if key.kind == CredentialKind.PIN_CODE and _has_lain(context, key)]
    if standing:
        provisions.earlier = artifacts.pins_ever_given(context.batch.tenant_id, [key.id for key in standing])
    _provide_guests(context, [key for key in calling if key.kind == CredentialKind.MOBILE_APP], provisions)
    return provisions


def plan(context: StepContext, work: Work, provisions: Provisions) -> Call | None:  # noqa: PLR0911 - each way out is a case
    """Decides the saga's next call, or its next status when there is none to make now."""
    key = context.batch.keys.get(work.credential_id or "")
    if key is None:
        _park(work, "NOT_FOUND", "the credential is not there")
        return None
    work.args = {name: value for name, value in work.args.items() if name != WAITS}
    if key.acting_saga not in (None, work.id) and key.acting_saga in provisions.busy:
        _wait_for_others(context, work)
        return None
    if not _late_suspend(context, work, key) or _is_left_to_desk(context, work, key):
        return None
    group = _next_group(context, work, key)
    if group is None:
        return None
    doors, verb = list(group.doors), group.verb
    if doors[0].lane != work.lane:
        _move_to(work, key, doors[0].lane)
        return None
    if not _quota_allows(context, work, key):
        return None
    gate = _breaker_allows(context, work, key, verb, provisions)
    if not gate.open:
        return None
    if verb is Verb.ISSUE and not _may_issue(context, work, key, doors, provisions):
        if gate.probing:
            breaker.give_back(key.tenant_id, key.installation_id, work.id, context.real_now)
        return None
    return _call(context, work, key, group, provisions)


def _late_suspend(context: StepContext, work: Work, key: KeyCredential) -> bool:
    """A key that was to be suspended while on its way is suspended once it is active; False while it must wait, and when it is
    to rest no more: the guest has come after all, or it was resumed (then the saga is done)."""
    if rest_key.WHEN_ACTIVE not in work.args or key.state not in (State.REQUESTED, State.PENDING, State.ACTIVE):
        return True
    if not rest_key.is_to_rest(key):
        work.status = SagaStatus.DONE.value
        return False
    if key.state != State.ACTIVE:
        _wait_for_others(context, work)
        return False
    work.args = {name: value for name, value in work.args.items() if name != rest_key.WHEN_ACTIVE}
    context.batch.move(key, "suspend", event_data.suspended(key, context.now), work.cause, key.suspend_reason)
    context.batch.retarget(key)
    return True


def _is_left_to_desk(context: StepContext, work: Work, key: KeyCredential) -> bool:
    """A key whose card was in use waits for a person: so does what else was to be done at its doors."""
    if not card_in_use.has_stopped(key):
        return False
    if card_in_use.TOLD in work.args:
        _park(work, card_in_use.CODE, card_in_use.WAITS_FOR_WORD)
    else:
        _wait(context, work, WAIT_PERSON_S)
    return True


def _needs_new_card(context: StepContext, key: KeyCredential) -> bool:
    """Say whether a key to be resumed is on no card: its guest left all of its rooms meanwhile, and has nothing but the card of
    then. Nobody has asked the encoder for another."""
    if key.state != State.SUSPENDED or not key.reservation_id or not spans(key):
        return False
    if CredentialKind(key.kind) not in adapters.manifest(key.vendor).desk_kinds:
        return False
    held = (DoorState.PRESENT, DoorState.SUSPENDED)
    return not any(door.verb or door.state in held for door in context.batch.doors_at(key))


def _next_group(context: StepContext, work: Work, key: KeyCredential) -> Group | None:
    old_rooms.settle(context.batch, key)
    doors = context.batch.doors_at(key)
    wanting = [(door, verb) for door in doors if (verb := next_verb(key, door)) is not None]
    open_doors = [(door, verb) for door, verb in wanting if not is_spent(key, door, verb)]
    at_encoder = bool(work.args.get(AT_ENCODER)) and key.state == State.ACTIVE
    ready, later = ready_doors(context, open_doors)
    change = one_change(key, doors, ready, at_encoder=at_encoder)
    if change is None and later is not None and one_change(key, doors, open_doors, at_encoder=at_encoder) is not None:
        # Its doors come due at different times, and half of the change would be a second key, or none.
        work.status, work.due_at = SagaStatus.RETRY.value, later
        return None
    if change is not None:
        change = change.with_added(shared_rooms.free_first(context.batch, key, change.added))
        return _unless_another_comes_first(context, work, key, change, change.added)
    if not open_doors:
        settle_record.close(context, work, key)
        return None
    if spans(key):
        open_doors = _end_rest_before_giving(open_doors)
    takes_first = bool(work.args.get(TAKE_FIRST))
    ready, later = ready_doors(context, open_doors if takes_first else _give_before_taking(key, open_doors))
    if not ready:
        work.status, work.due_at = SagaStatus.RETRY.value, later
        return None
    order = -1 if takes_first else 1
    ready.sort(key=lambda item: (order * RANK[item[1]], item[0].lane != work.lane, not item[0].room_id, item[0].pk))
    first, verb = ready[0]
    if verb is Verb.ISSUE and later is not None and spans(key) and len(_to_issue(ready)) < len(_to_issue(open_doors)):
        # One key for all of its doors: made for those that come due first, it is a card that does not open the room.
        work.status, work.due_at = SagaStatus.RETRY.value, later
        return None
    if verb is Verb.ISSUE and spans(key):
        level_rounds(context.batch, key, _to_issue(ready))
    off = _clocks_off(context, key, verb, [door for door, _ in ready])
    alike = _alike(first, verb, off)
    group = [d for d, other in ready if other is verb and _alike(d, verb, off) == alike]
    if verb is Verb.ISSUE and (held := card_in_use.still_at(key, [door.device_id for door in group])):
        group = [door for door in group if door.device_id not in held]
    if verb is Verb.ISSUE and spans(key):
        group = shared_rooms.free_first(context.batch, key, group)
    return _unless_another_comes_first(context, work, key, Group(tuple(group), verb), group if verb is Verb.ISSUE else ())


def _alike(door: CredentialDoor, verb: Verb, off: Mapping[str, int]) -> tuple[object, ...]:
    """Return what doors of one call have in common, of those that lose the key also the digits. `off` says whose clocks are."""
    digits = door.pin_version if verb is Verb.REVOKE else 0
    return (door.lane, door.rounds, _is_deferred(door, verb), digits, off.get(door.device_id, 0))


def _clocks_off(context: StepContext, key: KeyCredential, verb: Verb, doors: Sequence[CredentialDoor]) -> dict[str, int]:
    """Return the doors that get a window of their own since their lock's clock is off, and by how many milliseconds."""
    if verb in _TAKING or not has_windows_by_door(key):
        return {}
    facts = selectors.devices(key.tenant_id, key.property_id, [door.device_id for door in doors])
    skews = {device_id: device.skew_at(context.now) or 0 for device_id, device in facts.items()}
    return {device_id: skew for device_id, skew in skews.items() if abs(skew) > SKEW_WARN_MS}


def _unless_another_comes_first(
    context: StepContext, work: Work, key: KeyCredential, group: Group, given: Sequence[CredentialDoor]
) -> Group | None:
    """Holds a call back that gives the key at doors where another one of the stay has to be settled before it, and one whose
    doors all know the card's number as another key's still. A call that needs a new card is left to the desk."""
    if not group.doors:
        _wait_behind(context, work, NUMBER_LOOK_S)
        return None
    if group.verb is Verb.ISSUE and _needs_new_card(context, key):
        companions.reissue_at_desk(context.batch, key, work.priority, work.cause)
        work.status = SagaStatus.DONE.value
        return None
    if given and stay_start.must_wait(context.batch, key, given, work.priority):
        _wait_for_others(context, work)
        return None
    return group


def _to_issue(doors: list[tuple[CredentialDoor, Verb]]) -> list[CredentialDoor]:
    return [door for door, verb in doors if verb is Verb.ISSUE]


def _end_rest_before_giving(doors: list[tuple[CredentialDoor, Verb]]) -> list[tuple[CredentialDoor, Verb]]:
    """Leaves out doors that a suspended key has gained while it rests at others: it is resumed there first, or taken back where
    its guest has left. Given first, the key would be a second one, or the resting one would get the door and go on resting."""
    rests = any(verb is Verb.UNSUSPEND or (verb is Verb.REVOKE and door.state == DoorState.SUSPENDED) for door, verb in doors)
    return [(door, verb) for door, verb in doors if not (rests and verb is Verb.ISSUE)]


def _give_before_taking(key: KeyCredential, doors: list[tuple[CredentialDoor, Verb]]) -> list[tuple[CredentialDoor, Verb]]:
    """Leaves out the doors a live key moved away from while one it moved to is still being tried: the guest needs a door."""
    if key.state not in LIVE or not any(verb is Verb.ISSUE and not door.dropped for door, verb in doors):
        return doors
    return [(door, verb) for door, verb in doors if not (door.dropped and verb is Verb.REVOKE)]


def _move_to(work: Work, key: KeyCredential, lane: str) -> None:
    """Sends the saga to another lane, which no saga may have started in so far."""
    facts = selectors.installation(key.tenant_id, key.installation_id)
    width = selectors.lane_of(facts, adapters.manifest(key.vendor), lane.partition(":")[2])[1]
    ensure_lanes(key.tenant_id, {lane: width})
    work.lane, work.status = lane, SagaStatus.DUE.value


def _quota_allows(context: StepContext, work: Work, key: KeyCredential) -> bool:
    """Once the month's calls are used up only security work still asks the vendor; the rest waits, which is no attempt."""
    facts = selectors.installation(key.tenant_id, key.installation_id)
    limit = facts.calls_per_month or adapters.manifest(key.vendor).calls_per_month
    if work.priority == PRIORITY_SECURITY or not call_counts.is_spent(key.tenant_id, facts, limit, context.now):
        return True
    month = call_counts.month_of(context.now, facts.vendor)
    context.batch.alerts.append(call_counts.spent_alert(facts, context.now, f"{limit} calls of {month} are used up"))
    if not _goes_another_way(context, work, key, Reason.QUOTA.value):
        _wait(context, work, WAIT_QUOTA_S)
    return False


def _breaker_allows(context: StepContext, work: Work, key: KeyCredential, verb: Verb, provisions: Provisions) -> Gate:
    """While the installation's breaker is open the saga waits, which is no attempt; a revoke that waits is told aloud."""
    gate = breaker.ask(
        key.tenant_id, key.installation_id, provisions.breakers,
        saga_id=work.id, urgent=work.priority == PRIORITY_SECURITY,
        hotel_now=context.now, real_now=context.real_now, scale=context.retry_scale,
    )  # fmt: skip
    if not gate.open:
        if verb is Verb.REVOKE:
            alarm_revoke(context, key, "the vendor leaves calls unanswered")
        if verb is Verb.ISSUE and _goes_another_way(context, work, key, "", provisions.breakers):
            return gate
        work.error_code, work.error_detail = "VENDOR_BREAKER_OPEN", "waits until the vendor answers again"
        _wait(context, work, gate.wait_s)
    return gate


def _goes_another_way(
    context: StepContext, work: Work, key: KeyCredential, reason: str, breakers: Mapping[str, Standing] | None = None
) -> bool:
    """Gives up a vendor that has been away longer than the house waits, where the guest can be given a key another way."""
    if not fall_back.outlasted(context, work, key):
        return False
    way = fall_back.way_on(key, context.batch.doors_at(key), "VENDOR_UNREACHABLE", reason, breakers)
    if way is None:
        return False
    fall_back.give_up_for(context, work, key, way, "quota_spent" if reason else "vendor_unreachable")
    settle_record.close(context, work, key)
    return True


def _may_issue(
    context: StepContext, work: Work, key: KeyCredential, doors: list[CredentialDoor], provisions: Provisions
) -> bool:
    if key.kind == CredentialKind.PIN_CODE and not _pin_is_ready(context, work, key, doors, provisions):
        return False
    if key.state == State.REQUESTED:
        context.batch.move(key, "hand_over", event_data.pending(key, 1, context.now), work.cause)
    return True


def _pin_is_ready(
    context: StepContext, work: Work, key: KeyCredential, doors: list[CredentialDoor], provisions: Provisions
) -> bool:
    pin = provisions.pins.get(key.id)
    if isinstance(pin, Pin):
        if key.id in provisions.fresh or pin_slots.take_at(context.batch.tenant_id, key.id, pin, [d.device_id for d in doors]):
            return True
        settle_record.draw_again(context, key)
        _wait(context, work, 0)
        return False
    if fall_back.change_kind(context, key, "door full" if isinstance(pin, DoorFull) else "no digits fit"):
        _wait(context, work, 0)
        return False
    way = fall_back.way_on(key, context.batch.doors_at(key), "KEY_ISSUE_FAILED", Reason.DOOR_FULL.value)
    if way is not None and key.valid_from <= context.now + fall_back.NEAR:  # a guest who comes later: others leave by then
        fall_back.give_up_for(context, work, key, way, Reason.DOOR_FULL.value)
        settle_record.close(context, work, key)
        return False
    context.batch.alerts.append(
        NewAlert(
            f"door-full:{key.id}", "DOOR_FULL", "warning", "a door holds as many codes as its lock can; the key waits",
            "lock/door-full", key.property_id, key.id,
        )
    )  # fmt: skip
    _wait(context, work, WAIT_FULL_S)
    return False


def _call(context: StepContext, work: Work, key: KeyCredential, group: Group, provisions: Provisions) -> Call:
    doors, verb = group.doors, group.verb
    in_doubt = any(door.verb for door in doors)
    resume = next((door for door in doors if _is_deferred(door, verb)), None)
    facts = selectors.devices(key.tenant_id, key.property_id, [door.device_id for door in doors])
    intent = stay_start.intent_at(context.batch, key, group.added) if group.added else Intent.ADDITIONAL
    if verb is Verb.ISSUE and resume is None:
        stay_start.settle_intent(context.batch, key, doors)
    for door in doors:
        _note_attempt(context, key, door, group.verb_at(door))
    key.acting_saga = work.id
    provisions.busy.add(work.id)
    context.batch.touch(key)
    work.step += 1
    work.attempts += 1
    place = house(key.tenant_id, key.property_id)
    meta = CallMeta(call_key(key, verb, doors[0].rounds), 2 if in_doubt else 1, work.priority)
    beside = shared_rooms.with_other_stay(context.batch, key, group)
    port_doors = _port_doors(group.kept, facts, beside)
    window = window_by_clocks(Window(key.valid_from, key.valid_until), (facts[d].skew_at(context.now) for d in facts))
    if verb not in _TAKING and key.state in (State.ACTIVE, State.SUSPENDED):
        settle_record.warn_of_clocks(context.batch, key)
    handle = _handle(key, port_doors, window, _pin_at(key, doors[0], verb, provisions))
    return Call(
        saga_id=work.id,
        tenant_id=key.tenant_id,
        credential_id=key.id,
        lane=work.lane,
        verb=verb,
        port=adapters.port_of(key.tenant_id, selectors.installation(key.tenant_id, key.installation_id)),
        doors=tuple(door.pk for door in doors),
        device_ids=tuple(door.device_id for door in doors),
        valid_from=key.valid_from,
        valid_until=key.valid_until,
        pin_version=key.pin_version,
        desired_version=key.desired_version,
        handle=handle,
        meta=meta,
        issue=_issue_input(work, key, handle, meta, place, provisions) if verb is Verb.ISSUE and resume is None else None,
        suspend_reason=SuspendReason(key.suspend_reason or "manual"),
        revoke_reason=RevokeReason(key.revoke_reason or "cancellation"),
        resume_token=_open_token(resume) if resume else None,
        change=_change(group, facts, beside, handle, meta, place, intent) if verb is Verb.UPDATE and resume is None else None,
    )


def _port_doors(doors: Sequence[CredentialDoor], facts: Mapping[str, DeviceFacts], beside: Collection[str]) -> tuple[Door, ...]:
    known = [door for door in doors if door.device_id in facts]
    found = [facts[door.device_id].door(_open_ref(door)) for door in known]
    return tuple(replace(door, has_other_stay=door.device_id in beside) for door in found)


def _change(
    group: Group,
    facts: Mapping[str, DeviceFacts],
    beside: Collection[str],
    handle: CredentialHandle,
    meta: CallMeta,
    place: House,
    intent: Intent,
) -> UpdateInput:
    added, removed = _port_doors(group.added, facts, beside), _port_doors(group.removed, facts, beside)
    return UpdateInput(
        handle, meta, added, removed,
        time_zone=place.time_zone, intent=intent, at_encoder=group.at_encoder,
    )  # fmt: skip


def _is_deferred(door: CredentialDoor, verb: Verb) -> bool:
    """Says whether the vendor still works on this very verb there; a token of another verb says nothing about this one."""
    return bool(door.resume_token_sealed) and door.verb == verb.value


def _note_attempt(context: StepContext, key: KeyCredential, door: CredentialDoor, verb: Verb) -> None:
    if not _is_deferred(door, verb):
        door.resume_token_sealed = None
    if door.attempts_for != key.desired_version:
        door.attempts, door.attempts_for, door.final = 0, key.desired_version, False
    door.verb, door.attempts, door.due_at = verb.value, min(door.attempts + 1, 32_000), None
    context.batch.touch_door(door)


def _pin_at(key: KeyCredential, door: CredentialDoor, verb: Verb, provisions: Provisions) -> Pin | None:
    """Return the digits a call is about: to be given the key's own, to be taken those that the door has or may have."""
    pin, earlier = provisions.pins.get(key.id), provisions.earlier.get(key.id, {})
    newest = earlier[max(earlier)] if earlier else None
    if verb is Verb.REVOKE and door.pin_version in earlier:
        return earlier[door.pin_version]
    return pin if isinstance(pin, Pin) else newest


def _handle(key: KeyCredential, doors: tuple[Door, ...], window: Window, pin: Pin | None) -> CredentialHandle:
    return CredentialHandle(
        credential_id=key.id,
        kind=CredentialKind(key.kind),
        window=window,
        doors=doors,
        pin=pin,
        card_number=issue_key.card_of(key),
        issue_key=key.issue_key,
    )


def _issue_input(
    work: Work, key: KeyCredential, handle: CredentialHandle, meta: CallMeta, place: House, provisions: Provisions
) -> IssueInput:
    return IssueInput(
        tenant_id=key.tenant_id,
        property_id=key.property_id,
        credential_id=key.id,
        rooms=tuple(key.rooms),
        window=handle.window,
        holder=provisions.guests.get(key.id, Holder(id=key.holder_id)),
        preferred_kinds=(handle.kind,),
        doors=handle.doors,
        meta=meta,
        reservation_id=key.reservation_id,
        intent=Intent(key.intent),
        scope=Scope(tuple(key.floors), tuple(Area(area) for area in key.areas)),
        pin=handle.pin,
        card_number=handle.card_number,
        requested_by=key.requested_by or None,
        channel_hint=key.channel_hint or None,
        time_zone=place.time_zone,
        replaces=_replaced(key) if key.intent == Intent.REPLACEMENT and key.replaces else None,
        overwrites=frozenset(work.args.get(card_in_use.OVERWRITES, ())),
    )


def _replaced(key: KeyCredential) -> CredentialHandle | None:
    """The key that this one takes the place of, as far as the vendor may need it: which one it is, and what it is called."""
    old = KeyCredential.objects.filter(tenant_id=key.tenant_id, id=key.replaces).first()
    if old is None or old.installation_id != key.installation_id:
        return None
    rows = list(old.doors.order_by("id"))
    facts = selectors.devices(key.tenant_id, key.property_id, [row.device_id for row in rows])
    return CredentialHandle(
        credential_id=old.id,
        kind=CredentialKind(old.kind),
        window=Window(old.valid_from, old.valid_until),
        doors=tuple(facts[row.device_id].door(_open_ref(row)) for row in rows if row.device_id in facts),
        issue_key=old.issue_key,
    )


def _needs_secret(context: StepContext, key: KeyCredential) -> bool:
    verbs = (next_verb(key, door) for door in context.batch.doors_at(key))
    return any(verb in (Verb.ISSUE, Verb.UNSUSPEND) for verb in verbs)


def _has_lain(context: StepContext, key: KeyCredential) -> bool:
    """Say whether a call is wanted at a door that may have the key's digits: a vendor finds them by what they are."""
    verbs = (next_verb(key, door) for door in context.batch.doors_at(key))
    return any(verb in (Verb.REVOKE, Verb.SUSPEND, Verb.UPDATE) for verb in verbs)


def _provide_pins(context: StepContext, keys: Sequence[KeyCredential], provisions: Provisions) -> None:
    tenant_id = context.batch.tenant_id
    held = artifacts.current(tenant_id, [key.id for key in keys])
    for key_id, row in held.items():
        pin = artifacts.open_pin(row)
        if pin is not None:
            provisions.pins[key_id] = pin
    wanting = [key for key in keys if key.id not in provisions.pins]
    drawn = pin_slots.allocate(tenant_id, [_wish(context, key) for key in wanting]) if wanting else {}
    versions = {key.id: key for key in wanting}
    kept = []
    for key_id, pin_or_error in drawn.items():
        provisions.pins[key_id] = pin_or_error
        if isinstance(pin_or_error, Pin):
            key = versions[key_id]
            key.pin_version += 1
            context.batch.touch(key)
            provisions.fresh.add(key_id)
            kept.append(artifacts.NewArtifact(key_id, artifacts.PIN, pin_or_error, key.pin_version))
    artifacts.store(tenant_id, kept, context.now)


def _wish(context: StepContext, key: KeyCredential) -> PinWish:
    doors = [door for door in context.batch.doors_at(key) if not door.dropped]
    facts = selectors.devices(key.tenant_id, key.property_id, [door.device_id for door in doors])
    return choose_pin.wish_for(house(key.tenant_id, key.property_id), key, facts)


def _provide_guests(context: StepContext, keys: Sequence[KeyCredential], provisions: Provisions) -> None:
    by_stay = {key.reservation_id: key.id for key in keys if key.reservation_id}
    rows = Reservation.objects.filter(tenant_id=context.batch.tenant_id, reservation_id__in=list(by_stay)) if by_stay else ()
    stays = {row.reservation_id: row for row in rows}
    for key in keys:
        stay = stays.get(key.reservation_id or "")
        if stay is not None:
            holder = provisions.guests[key.id] = holder_of(stay)
            _tell_of_phone(context, key, is_unusable=holder.phone_e164 is None and told_phone(stay) is not None)


def _tell_of_phone(context: StepContext, key: KeyCredential, *, is_unusable: bool) -> None:
    """Say on a key for a phone that the booking's number cannot be read, or no longer so. Such a number goes to no vendor."""
    if is_unusable == notices.is_noted(key, notices.PHONE_UNUSABLE):
        return
    if is_unusable:
        notices.warn(key, notices.PHONE_UNUSABLE, "the telephone number in the booking cannot be read as a mobile phone's")
    else:
        notices.clear(key, notices.PHONE_UNUSABLE)
    context.batch.touch(key)


def _open_ref(door: CredentialDoor) -> VendorRef | None:
    if door.vendor_ref_sealed is None:
        return None
    return VendorRef(crypto.unseal("vendor-ref", door.tenant_id, ref_place(door), door.vendor_ref_sealed))


def _open_token(door: CredentialDoor) -> str:
    sealed = door.resume_token_sealed or b""
    return Token(crypto.unseal("vendor-ref", door.tenant_id, token_place(door), sealed)).reveal()


def _wait(context: StepContext, work: Work, seconds: float) -> None:
    work.status, work.due_at = SagaStatus.RETRY.value, context.real_now + timedelta(seconds=seconds)


def _wait_for_others(context: StepContext, work: Work) -> None:
    """Let the saga wait until other work wakes it, which costs no turn; a slow look finds what a wake-up missed."""
    _wait_behind(context, work, LOOK_S)


def _wait_behind(context: StepContext, work: Work, seconds: float) -> None:
    work.args = {**work.args, WAITS: True}
    _wait(context, work, seconds * context.retry_scale)


def _park(work: Work, code: str, detail: str) -> None:
    work.status, work.error_code, work.error_detail = SagaStatus.DEAD.value, code, detail
