"""Give a key anew where a lock system refuses for good to change it: taken from the door and given again, with the same digits.

| the change was refused | what is done |
|---|---|
| a kind given door by door (digits, a card's number, a phone's key) | taken and given again, one door after the other |
| a phone's key over all of its doors | taken and given again as a whole |
| a card that a person has to lay down | nothing: the desk writes another |
| because lock, settings or window are at fault | nothing: the next key would fail the same way |

One rule: only one door is without the key at a time, and the first that does not take it again ends the attempt. What then
stays as it was is told in words that a clerk can act on.
"""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from credentials import notices
from credentials.house import house
from credentials.lifecycle import State
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.targets import Verb, next_verb
from devices import adapters, selectors
from sagas.alerts import NewAlert
from sagas.flows import fall_back
from sagas.flows.one_change import spans
from sagas.steps import Call, StepContext, Work, is_spent
from vendors.port.errors import KeyIssueFailed, LockError, Reason
from vendors.port.types import CredentialKind

ANEW = "anew"
"""The saga's argument: the doors, by device, whose key is to be taken and given again; an earlier one comes first."""
TRIED, TARGET = "anewTried", "anewFor"
"""The saga's arguments: the doors at which that was tried, and the key's version for which it was."""
NOT_CHANGED = "CHANGE_REFUSED"
RUNBOOK = "lock/door-not-reached"
_CHANGES = (Verb.UPDATE, Verb.UNSUSPEND)
_CURABLE = frozenset({Reason.OTHER, Reason.PIN_REFUSED})


def note(work: Work, key: KeyCredential, call: Call, doors: list[CredentialDoor], error: LockError) -> None:
    """Note the doors whose change was refused for good and can be made by giving the key anew."""
    if call.verb not in _CHANGES or call.writes_card or call.handle.kind.value != key.kind or not _is_curable(key, error):
        return
    tried = set(work.args.get(TRIED, ())) if work.args.get(TARGET) == key.desired_version else set()
    fit = [door for door in doors if door.state in (DoorState.PRESENT, DoorState.SUSPENDED) and not door.verb and door.final]
    fit = [door for door in fit if door.device_id not in tried and call.verb_at(door.device_id) in _CHANGES]
    if not fit:
        return
    fit.sort(
        key=lambda door: (bool(door.room_id), door.pk)
    )  # a guest can do without the gym before she can do without her room
    waiting = [device for device in work.args.get(ANEW, ()) if device not in {door.device_id for door in fit}]
    work.args = {
        **work.args,
        ANEW: [*waiting, *(door.device_id for door in fit)],
        TRIED: sorted(tried | {door.device_id for door in fit}),
        TARGET: key.desired_version,
    }


def go_on(context: StepContext, work: Work, key: KeyCredential) -> None:
    """Begin with the next door, once the one before has the key again; where it has not, leave the others as they are."""
    waiting = list(work.args.get(ANEW, ()))
    if not waiting:
        return
    doors = {door.device_id: door for door in context.batch.doors_at(key) if not door.dropped}
    tried = [doors[device] for device in work.args.get(TRIED, ()) if device in doors and device not in waiting]
    if work.args.get(TARGET) != key.desired_version or key.state not in (State.ACTIVE, State.SUSPENDED):
        _forget(work)
        return
    if any(is_spent(key, door, Verb.ISSUE) for door in tried if next_verb(key, door) is Verb.ISSUE):
        _forget(work)
        return
    if any(next_verb(key, door) in (Verb.ISSUE, Verb.REVOKE) for door in tried):
        return
    now = waiting if spans(key) else waiting[:1]
    for device in now:
        door = doors.get(device)
        if door is not None and door.state in (DoorState.PRESENT, DoorState.SUSPENDED):
            door.verb, door.final, door.attempts, door.due_at = Verb.REVOKE.value, False, 0, None
            context.batch.touch_door(door)
    work.args = {**work.args, ANEW: waiting[len(now) :]}


def tell(context: StepContext, key: KeyCredential, doors: list[CredentialDoor]) -> bool:
    """Tell which doors keep an earlier window, until when they open, and what to do; False where none does."""
    late = [door for door in doors if door.state == DoorState.PRESENT and next_verb(key, door) is Verb.UPDATE]
    if not late:
        return False
    facts = selectors.devices(key.tenant_id, key.property_id, [door.device_id for door in late])
    names = ", ".join(sorted(facts[door.device_id].label for door in late if door.device_id in facts))
    until = min((door.carried_until for door in late if door.carried_until), default=None)
    opens = f"it opens until {_on_the_wall(key, until)} as before" if until is not None else "it opens as before"
    detail = f"{names}: the lock system does not change the key, and {opens}; give a new key (Replace)"
    notices.clear(key, NOT_CHANGED)
    notices.warn(key, NOT_CHANGED, detail)
    is_urgent = until is not None and until < min(key.valid_until, context.now + fall_back.NEAR)
    context.batch.alerts.append(
        NewAlert(
            f"change:{key.id}:{key.desired_version}", NOT_CHANGED, "critical" if is_urgent else "warning", detail, RUNBOOK,
            key.property_id, key.id, reservation_id=key.reservation_id or "",
        )
    )  # fmt: skip
    return True


def needs_new_card(key: KeyCredential, doors: list[CredentialDoor]) -> bool:
    """Say whether a door was refused for good to a card that names all of its doors: only another card opens it."""
    is_card = spans(key) and CredentialKind(key.kind) in adapters.manifest(key.vendor).desk_kinds
    code = KeyIssueFailed.code.rsplit(".", 1)[-1]
    return is_card and any(d.final and d.error_code == code and next_verb(key, d) is Verb.ISSUE for d in doors)


def _is_curable(key: KeyCredential, error: LockError) -> bool:
    if error.retriable or not isinstance(error, KeyIssueFailed) or error.reason not in _CURABLE:
        return False
    needs_desk = CredentialKind(key.kind) in adapters.manifest(key.vendor).desk_kinds
    return not needs_desk or (not spans(key) and key.card_number_sealed is not None)


def _forget(work: Work) -> None:
    work.args = {name: value for name, value in work.args.items() if name != ANEW}


def _on_the_wall(key: KeyCredential, instant: datetime) -> str:
    zone = ZoneInfo(house(key.tenant_id, key.property_id).time_zone)
    return instant.astimezone(zone).strftime("%Y-%m-%d %H:%M")
