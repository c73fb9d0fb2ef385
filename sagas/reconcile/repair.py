"""Repairs by rule: brings our books to what the door really holds, and lets the key's saga close the gap.

One rule: no vendor is called here. A repair writes the truth into the door's row and starts a saga; lanes, limits, retries,
events and alerts are those of every other change. A key that is not ours is never taken away by a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from credentials import event_data, locks
from credentials.lifecycle import LIVE, State
from credentials.models import CredentialDoor, DoorState, KeyCredential
from credentials.services import KeyBatch
from devices import adapters, selectors
from lockservice.core import clock, crypto, tenancy
from sagas.flows import shared_rooms
from sagas.flows.issue_key import lane_width
from sagas.flows.one_change import spans
from sagas.intake import PRIORITY_ISSUE, PRIORITY_SECURITY, Start, own_key
from sagas.models import Finding
from sagas.outbox import Cause
from sagas.reconcile import ledger, sightings
from sagas.reconcile.compare import Kind
from sagas.reconcile.findings import OPEN
from vendors.port.types import CredentialKind, Intent, Propagation

FLOW = "reconcile"
VENDOR_ERROR = "melmastoon.lock.vendor.error.v1"

RULES: dict[Kind, str] = {
    Kind.MISSING: "given again by the key's saga, or taken over if it is there after all; a card, or a phone's key beside a"
    " companion's, waits for a person (beside another stay's guest it joins), and all of them do when most vanished at once",
    Kind.WINDOW_DIFFERS: "changed to the window of our books",
    Kind.PRESENT_BUT_REVOKED: "taken back again, before all other work",
    Kind.NOT_RESTING: "put to rest again",
    Kind.ORPHAN: "taken back if it belongs to a key that is over; otherwise a person decides",
    Kind.STALE_CARD: "none: the card must be written again at the desk",
    Kind.DUPLICATE: "none: a person decides which of them the guest carries; all of them go when the key does",
    Kind.STRANGER: "none, ever: a person adopts it, says that it is known, or asks for its removal",
}
"""What `--repair` does about each kind."""


_CLOSED = "not an open finding"
REPAIRS_MAX = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """Whether a repair was started, and why not."""

    is_asked: bool
    why: str = ""


class _LeftAlone(Exception):
    """The rule does not cover this case."""


def repair(tenant_id: str, finding_id: int, cause: Cause | None = None) -> Asked:
    """Starts the repair of an open finding as its kind's rule says. Its own transaction; does nothing twice while it runs.

    Without a `cause`, which a person has, a finding is repaired REPAIRS_MAX times at most: what comes back each night is no
    matter for a rule.
    """
    with tenancy.tenant(tenant_id):
        try:
            _start(tenant_id, finding_id, cause)
        except _LeftAlone as left:
            return Asked(False, str(left))
    return Asked(True)


def _start(tenant_id: str, finding_id: int, cause: Cause | None) -> None:
    """Raises _LeftAlone where nothing may be started; nothing was written then."""
    plain = Finding.objects.filter(tenant_id=tenant_id, id=finding_id, status=OPEN).first()
    if plain is None:
        raise _LeftAlone(_CLOSED)
    act = _ACTS.get(Kind(plain.kind))
    if act is None or not plain.credential_id:
        raise _LeftAlone(RULES[Kind(plain.kind)])
    batch = _locked(tenant_id, plain.credential_id)
    # After the key's lock, as everywhere: the reservation, the credential, then what hangs on them.
    row = Finding.objects.select_for_update().filter(tenant_id=tenant_id, id=finding_id, status=OPEN).first()
    if row is None:
        raise _LeftAlone(_CLOSED)
    if cause is None and row.repairs_count >= REPAIRS_MAX:
        raise _LeftAlone(f"it came back after {REPAIRS_MAX} repairs; a person decides")
    key = batch.keys.get(row.credential_id)
    if key is None or key.id in ledger.busy_credentials(tenant_id, [row.credential_id]):
        raise _LeftAlone("the key is on its way")
    door, priority, operation = act(batch, key, row)
    _launch(batch, key, door, row, priority, operation, cause or Cause(correlation_id=key.reservation_id or key.id))
    batch.flush()
    row.repair_asked_at = batch.now
    row.repairs_count += 1
    row.save()


def is_repairable(row: Finding) -> bool:
    """Says whether a rule covers a finding of this kind; the case itself may still be left to a person."""
    return Kind(row.kind) in _ACTS and bool(row.credential_id)


def found_ref(row: Finding, door: CredentialDoor) -> bytes | None:
    """Seals the found key's reference for a door's row; None where the finding has none."""
    reference = sightings.unseal(row, sightings.REF)
    if reference is None:
        return None
    return crypto.seal("vendor-ref", door.tenant_id, ledger.ref_place(door), reference)


def believe_present(door: CredentialDoor, row: Finding) -> None:
    """Writes into a door's row what is really there: the found key, with the window it has."""
    door.state, door.verb, door.due_at, door.final, door.attempts = DoorState.PRESENT, "", None, False, 0
    door.carried_from, door.carried_until = row.found_from, row.found_until
    door.resume_token_sealed, door.error_code, door.error_reason = None, "", ""


def _locked(tenant_id: str, credential_id: str) -> KeyBatch:
    """Locks the reservation first, then the credential."""
    plain = KeyCredential.objects.filter(tenant_id=tenant_id, id=credential_id).values_list("reservation_id").first()
    if plain is not None and plain[0]:
        locks.lock_reservation(tenant_id, plain[0])
    return KeyBatch.load(tenant_id, [credential_id], clock.now())


def _launch(
    batch: KeyBatch, key: KeyCredential, door: CredentialDoor, row: Finding, priority: int, operation: str, cause: Cause
) -> None:
    batch.touch_door(door)
    batch.retarget(key)
    revoking = operation == "revoke"
    code = "MELMASTOON.LOCK.KEY_REVOKE_FAILED" if revoking else "MELMASTOON.LOCK.KEY_ISSUE_FAILED"
    data = event_data.vendor_error(
        key, environment=selectors.installation(key.tenant_id, key.installation_id).environment, operation=operation, code=code,
        message=f"found by comparison with the door: {row.kind}", attempts=0, final=False, device_id=door.device_id,
        at=batch.now,
    )  # fmt: skip
    batch.emit(key, VENDOR_ERROR, data, cause, f"drift:{row.kind}")
    batch.start(
        Start(
            flow=FLOW,
            key=own_key("reconcile", str(row.pk), str(key.desired_version)),
            lane=door.lane,
            lane_width=lane_width(batch, key),
            installation_id=key.installation_id,
            credential_id=key.id,
            reservation_id=key.reservation_id,
            priority=priority,
        ),
        cause,
    )


def _own_door(batch: KeyBatch, key: KeyCredential, row: Finding) -> CredentialDoor:
    """Returns the door's row, if our books still say what they said when the difference was found."""
    door = next((item for item in batch.doors_at(key) if item.device_id == row.device_id), None)
    if door is None or ledger.mark_of(key, door) != row.ledger_mark:
        raise _LeftAlone("the key has changed since; the next comparison will tell")
    return door


def _give_again(batch: KeyBatch, key: KeyCredential, row: Finding) -> tuple[CredentialDoor, int, str]:
    door = _own_door(batch, key, row)
    if CredentialKind(key.kind) in adapters.manifest(key.vendor).desk_kinds:
        raise _LeftAlone("a card has to be written at the desk: replace the key there")
    if key.valid_until <= batch.now:
        raise _LeftAlone("the key's window is over")
    if not locks.open_properties(key.tenant_id, [key.property_id]):
        raise _LeftAlone("the property is not in operation")
    if key.kind != CredentialKind.PIN_CODE and door.room_id and _has_company(batch, key, door):
        raise _LeftAlone("another key opens this room, and a new one could end it: replace the key at the desk")
    if spans(key) and key.intent == Intent.NEW and shared_rooms.is_beside_stranger(batch, key, [door]):
        key.intent = Intent.ADDITIONAL.value  # somebody was let in at the vendor's own program, and keeps her key
        batch.touch(key)
    door.state, door.carried_from, door.carried_until = DoorState.ABSENT, None, None
    door.vendor_ref_sealed, door.propagation = None, Propagation.UNKNOWN.value
    door.rounds += 1  # giving it anew is a new effect; the vendor may remember the old one's key
    return door, PRIORITY_ISSUE, "issue"


def _has_company(batch: KeyBatch, key: KeyCredential, door: CredentialDoor) -> bool:
    """Say whether a key given anew could end another one. It joins where only a guest of another stay is in the room."""
    others = CredentialDoor.objects.filter(
        tenant_id=key.tenant_id, device_id=door.device_id, state=DoorState.PRESENT, credential__state__in=sorted(LIVE)
    )
    stays = set(others.exclude(credential_id=key.id).values_list("credential__reservation_id", flat=True))
    is_among_strangers = key.reservation_id not in stays and key.intent != Intent.REPLACEMENT
    return bool(stays) and not (is_among_strangers and shared_rooms.is_occupied(batch, key, [door]))


def _set_window(batch: KeyBatch, key: KeyCredential, row: Finding) -> tuple[CredentialDoor, int, str]:
    door = _own_door(batch, key, row)
    believe_present(door, row)
    door.vendor_ref_sealed = found_ref(row, door) or door.vendor_ref_sealed
    if row.is_resting:
        door.state = DoorState.SUSPENDED
        return door, PRIORITY_ISSUE, "unsuspend"
    if (door.carried_from, door.carried_until) == (key.valid_from, key.valid_until):
        door.carried_until = None  # right by our books, wrong by the lock's clock: it is written again
    return door, PRIORITY_ISSUE, "update"


def _put_to_rest(batch: KeyBatch, key: KeyCredential, row: Finding) -> tuple[CredentialDoor, int, str]:
    door = _own_door(batch, key, row)
    believe_present(door, row)
    door.vendor_ref_sealed = found_ref(row, door) or door.vendor_ref_sealed
    return door, PRIORITY_SECURITY, "suspend"


def _take_back(batch: KeyBatch, key: KeyCredential, row: Finding) -> tuple[CredentialDoor, int, str]:
    door = _own_door(batch, key, row)
    if not door.dropped and key.state not in (State.REVOKED, State.FAILED):
        raise _LeftAlone("the key is live; a person decides")
    believe_present(door, row)
    # With several there, none is named: then everything of the credential is taken from the door.
    door.vendor_ref_sealed = found_ref(row, door) if _is_alone(row) else None
    return door, PRIORITY_SECURITY, "revoke"


def _take_orphan(batch: KeyBatch, key: KeyCredential, row: Finding) -> tuple[CredentialDoor, int, str]:
    if any(item.device_id == row.device_id for item in batch.doors_at(key)):
        return _take_back(batch, key, row)
    if key.state in LIVE:
        raise _LeftAlone("the key is live elsewhere; a person decides")
    door = door_of(key, row, dropped=True)
    believe_present(door, row)
    door.vendor_ref_sealed = found_ref(row, door)
    batch.add_door(key, door)
    return door, PRIORITY_SECURITY, "revoke"


def door_of(key: KeyCredential, row: Finding, *, dropped: bool = False) -> CredentialDoor:
    """Makes a door's row for a key found at it (not saved)."""
    device = selectors.devices(key.tenant_id, row.property_id, [row.device_id])[row.device_id]
    facts = selectors.installation(key.tenant_id, row.installation_id)
    lane, _ = selectors.lane_of(facts, adapters.manifest(facts.vendor), device.gateway)
    return CredentialDoor(tenant_id=key.tenant_id, credential_id=key.id, device_id=device.id, lane=lane, dropped=dropped)


def _is_alone(row: Finding) -> bool:
    others = Finding.objects.filter(
        tenant_id=row.tenant_id, device_id=row.device_id, credential_id=row.credential_id, status=OPEN
    )
    return not others.exclude(pk=row.pk).exists()


_Act = Callable[[KeyBatch, KeyCredential, Finding], tuple[CredentialDoor, int, str]]
_ACTS: dict[Kind, _Act] = {
    Kind.MISSING: _give_again,
    Kind.WINDOW_DIFFERS: _set_window,
    Kind.NOT_RESTING: _put_to_rest,
    Kind.PRESENT_BUT_REVOKED: _take_back,
    Kind.ORPHAN: _take_orphan,
}
