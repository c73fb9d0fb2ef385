"""What a person may decide about a finding: adopt an unknown key, know it, ask for its removal, or repair by rule.

One rule: every decision names who made it and why, is made once, and goes through a credential and its saga; nobody calls a
vendor from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from credentials import artifacts, event_data, locks, pin_slots
from credentials.artifacts import NewArtifact
from credentials.house import house
from credentials.models import CredentialDoor, KeyCredential, Reservation
from credentials.reservations import CONFIRMED
from credentials.services import KeyBatch
from devices import selectors
from devices.selectors import DeviceFacts
from lockservice.core import clock, tenancy
from sagas.acts import Act, Actor, Refused
from sagas.flows import revoke_key
from sagas.flows.issue_key import areas_of, lane_width
from sagas.intake import PRIORITY_ISSUE, Start, own_key
from sagas.models import Finding, Saga
from sagas.outbox import Cause
from sagas.reconcile import repair, sightings
from sagas.reconcile.compare import UNKNOWN_OWNER, Kind
from sagas.reconcile.findings import IGNORED, OPEN, RESOLVED, resolve, slot_owner
from vendors.port.ids import new_id
from vendors.port.secrets import Pin
from vendors.port.types import CredentialKind, Intent, Propagation, RevokeReason, Window

WHY_MIN, WHY_MAX = 3, 200
MAY_STAY = UNKNOWN_OWNER | {Kind.STALE_CARD}
"""What a person may leave as it is. A difference between a door and a key of our own books is repaired, never silenced: it
would not be told again however dangerous it becomes."""
NO_END = timedelta(days=365)
"""How long our books say a key without an end lasts that is about to be removed; its removal is tried for so long."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Who decides, and why (3 to 200 characters)."""

    actor: Actor
    why: str


def adopt(tenant_id: str, finding_id: int, reservation_id: str, decision: Decision) -> Act:
    """Takes an unknown key into our books as one of a stay's: the next revoke of the stay takes it from the door. It keeps its
    digits and its start; it never outlives the stay, and one without an end gets the stay's.

    Refused: NOT_FOUND (finding or stay), VALIDATION_FAILED (no reason; the door is not the stay's; the key's window is over),
    TRANSITION_REFUSED (decided already; the stay is not confirmed, or rests; the property is not in operation).
    """
    with tenancy.tenant(tenant_id):
        stay = locks.lock_reservation(tenant_id, reservation_id)
        row = _open_finding(tenant_id, finding_id, decision)
        if stay is None or stay.property_id != row.property_id:
            raise Refused("NOT_FOUND", "no such stay in this house")
        device = _device(row)
        batch = KeyBatch.load_stays(tenant_id, [reservation_id], clock.now())
        _require_stay(batch, stay, device)
        window = _adopted_window(batch, row, stay)
        key = _key(batch, row, window, decision)
        key.reservation_id, key.incarnation, key.holder_id = stay.reservation_id, stay.incarnation, stay.guest_id
        key.ordinal = 1 + max(
            (k.ordinal for k in batch.of_stay(reservation_id) if k.incarnation == stay.incarnation), default=0
        )
        key.rooms = [room for room in stay.rooms if room in device.rooms] or list(stay.rooms)
        key.issued_at = batch.now
        cause = Cause(correlation_id=reservation_id, trace_id=decision.actor.trace_id, actor=decision.actor.id)
        _become_active(batch, key, _door(key, row), row, cause)
        _decide(row, key, "adopted", decision, batch.now)
        return _act(tenant_id, key)


def know(tenant_id: str, finding_id: int, decision: Decision) -> None:
    """Marks a finding as known: it stays at the door and is not told again. Its digits stay blocked.

    Refused: NOT_FOUND, VALIDATION_FAILED, TRANSITION_REFUSED.
    """
    with tenancy.tenant(tenant_id):
        row = _open_finding(tenant_id, finding_id, decision, kinds=None)
        if Kind(row.kind) not in MAY_STAY:
            raise Refused("TRANSITION_REFUSED", "our books know this key: repair it, or act on the key itself")
        row.status = IGNORED
        _note(row, "known", decision, clock.now())
        row.save()


def remove(tenant_id: str, finding_id: int, decision: Decision) -> Act:
    """Asks for an unknown key's removal from its door: a credential stands for it and is called off at once; its saga takes
    the key away before all other work, and says so aloud while it cannot.

    Refused: NOT_FOUND, VALIDATION_FAILED, TRANSITION_REFUSED.
    """
    with tenancy.tenant(tenant_id):
        row = _open_finding(tenant_id, finding_id, decision)
        batch = KeyBatch(tenant_id, clock.now())
        now = batch.now
        window = Window(row.found_from or now, row.found_until or now + NO_END)
        key = _key(batch, row, window, decision)
        cause = Cause(correlation_id=key.id, trace_id=decision.actor.trace_id, actor=decision.actor.id)
        batch.add(key, [_door(key, row)], cause)
        batch.flush()
        revoke_key.begin(batch, key, RevokeReason.SECURITY, own_key("remove-unknown", str(row.pk)), cause, trigger="reconcile")
        batch.flush()
        _decide(row, key, "removed", decision, now)
        return _act(tenant_id, key)


def repair_now(tenant_id: str, finding_id: int, decision: Decision) -> None:
    """Starts the repair that the finding's kind has by rule. Refused: NOT_FOUND, VALIDATION_FAILED, TRANSITION_REFUSED."""
    with tenancy.tenant(tenant_id):
        row = _open_finding(tenant_id, finding_id, decision, kinds=None)
        _note(row, "", decision, clock.now())
        row.save()
    asked = repair.repair(tenant_id, finding_id, Cause(correlation_id=row.credential_id, actor=decision.actor.id))
    if not asked.is_asked:
        raise Refused("TRANSITION_REFUSED", asked.why)


def give_missing_again(tenant_id: str, installation_id: str, decision: Decision) -> int:
    """Starts the repair of every key of an installation that is missing at a door, and returns how many were started. The
    person confirms that they are gone indeed, which a comparison that ended as `vanished` does not believe.

    Refused: VALIDATION_FAILED. What no rule covers, and what is under way, is left as it is.
    """
    _require_reason(decision)
    with tenancy.tenant(tenant_id):
        rows = Finding.objects.filter(tenant_id=tenant_id, installation_id=installation_id, kind=Kind.MISSING, status=OPEN)
        ids = list(rows.order_by("id").values_list("id", flat=True))
    started_count = 0
    for finding_id in ids:
        try:
            repair_now(tenant_id, finding_id, decision)
        except Refused as refused:
            if refused.code not in ("TRANSITION_REFUSED", "NOT_FOUND"):
                raise
            continue
        started_count += 1
    return started_count


def _open_finding(
    tenant_id: str, finding_id: int, decision: Decision, kinds: frozenset[Kind] | None = UNKNOWN_OWNER
) -> Finding:
    _require_reason(decision)
    row = Finding.objects.select_for_update().filter(tenant_id=tenant_id, id=finding_id).first()
    if row is None:
        raise Refused("NOT_FOUND", "no such finding")
    if row.status == RESOLVED:
        raise Refused("TRANSITION_REFUSED", "the finding is closed")
    if kinds is not None and (Kind(row.kind) not in kinds or row.ref_sealed is None):
        raise Refused("TRANSITION_REFUSED", "our books know this key: repair it, or act on the key itself")
    return row


def _require_reason(decision: Decision) -> None:
    if not WHY_MIN <= len(decision.why.strip()) <= WHY_MAX:
        raise Refused("VALIDATION_FAILED", "say why", {"why": f"{WHY_MIN} to {WHY_MAX} characters"})


def _require_stay(batch: KeyBatch, stay: Reservation, device: DeviceFacts) -> None:
    if stay.status != CONFIRMED:
        raise Refused("TRANSITION_REFUSED", "the stay is not confirmed; ask for the key's removal")
    if any(key.suspend_reason and key.incarnation == stay.incarnation for key in batch.keys.values()):
        raise Refused("TRANSITION_REFUSED", "a key of this stay is suspended; an adopted one would get round that")
    if not device.shared and not set(device.rooms) & set(stay.rooms):
        raise Refused("VALIDATION_FAILED", "the door is none of the stay's", {"reservationId": "its rooms have other doors"})
    if not locks.open_properties(batch.tenant_id, [stay.property_id]):
        raise Refused("TRANSITION_REFUSED", "the property is not in operation")


def _adopted_window(batch: KeyBatch, row: Finding, stay: Reservation) -> Window:
    """The key's own window, but for an end after the stay's; the stay's for a key without end."""
    whole = house(batch.tenant_id, row.property_id).policy.widen(Window(stay.valid_from, stay.valid_until))
    start = row.found_from or min(whole.valid_from, batch.now)
    end = min(row.found_until or whole.valid_until, whole.valid_until)
    if end <= batch.now or end <= start:
        raise Refused(
            "VALIDATION_FAILED", "the key's window is over, or begins after the stay", {"reservationId": "does not fit"}
        )
    return Window(start, end)


def _key(batch: KeyBatch, row: Finding, window: Window, decision: Decision) -> KeyCredential:
    """Makes the credential that stands for a key found at a door (not saved)."""
    facts = selectors.installation(batch.tenant_id, row.installation_id)
    device = _device(row)
    return KeyCredential(
        id=new_id("key"),
        tenant_id=batch.tenant_id,
        property_id=row.property_id,
        installation_id=row.installation_id,
        vendor=facts.vendor,
        kind=row.key_kind,
        preferred_kinds=[row.key_kind],
        intent=Intent.ADDITIONAL.value,
        rooms=list(device.rooms),
        areas=areas_of([device]),
        valid_from=window.valid_from,
        valid_until=window.valid_until,
        ends_at=window.valid_until,
        issue_key=own_key("found-at-door", str(row.pk)),
        requested_by=decision.actor.id,
        requested_at=batch.now,
    )


def _door(key: KeyCredential, row: Finding) -> CredentialDoor:
    """Makes its door's row: the key is there, with the window and under the reference it was found with (not saved)."""
    door = repair.door_of(key, row)
    device = _device(row)
    door.room_id = next((room for room in key.rooms if room in device.rooms), "")
    repair.believe_present(door, row)
    door.vendor_ref_sealed = repair.found_ref(row, door)
    door.propagation, door.carried_version = Propagation.CONFIRMED.value, key.desired_version
    return door


def _become_active(batch: KeyBatch, key: KeyCredential, door: CredentialDoor, row: Finding, cause: Cause) -> None:
    """Writes the credential through its moves, each with its event, and starts a saga if the door's window must change."""
    digits = sightings.unseal(row, sightings.PIN)
    if digits is not None and key.kind == CredentialKind.PIN_CODE:
        key.pin_version = door.pin_version = 1
        artifacts.store(batch.tenant_id, [NewArtifact(key.id, artifacts.PIN, Pin(digits), 1)], batch.now)
    pin_slots.pass_on(batch.tenant_id, row.device_id, slot_owner(row.fingerprint), key.id)
    batch.add(key, [door], cause)
    batch.flush()
    batch.move(key, "hand_over", event_data.pending(key, 1, batch.now), cause, "adopted")
    batch.flush()
    reference = artifacts.current(batch.tenant_id, [key.id]).get(key.id)
    shown = {"type": reference.type, "opaqueRef": reference.id} if reference is not None else None
    batch.move(key, "activate", event_data.issued(key, shown, batch.now), cause, "adopted")
    if (door.carried_from, door.carried_until) != (key.valid_from, key.valid_until):
        batch.start(
            Start(
                flow=repair.FLOW,
                key=own_key("adopt", key.id),
                lane=door.lane,
                lane_width=lane_width(batch, key),
                installation_id=key.installation_id,
                credential_id=key.id,
                reservation_id=key.reservation_id,
                priority=PRIORITY_ISSUE,
            ),
            cause,
        )
    batch.flush()


def _decide(row: Finding, key: KeyCredential, resolution: str, decision: Decision, now: datetime) -> None:
    if resolution == "removed":
        pin_slots.pass_on(row.tenant_id, row.device_id, slot_owner(row.fingerprint), key.id)
    row.credential_id = key.id
    _note(row, resolution, decision, now)
    resolve(row, resolution, now)


def _note(row: Finding, resolution: str, decision: Decision, now: datetime) -> None:
    row.decided_by, row.decided_why, row.decided_at = decision.actor.id, decision.why.strip(), now
    row.resolution = resolution


def _device(row: Finding) -> DeviceFacts:
    return selectors.devices(row.tenant_id, row.property_id, [row.device_id])[row.device_id]


def _act(tenant_id: str, key: KeyCredential) -> Act:
    saga = Saga.objects.filter(tenant_id=tenant_id, credential_id=key.id).order_by("-position").first()
    return Act(key.id, saga.id if saga else None)
