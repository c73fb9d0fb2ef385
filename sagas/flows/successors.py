"""Gives the successors that a step or a person found to be needed: of a key that fell back, of keys killed with a lost one, and
of one that failed and is issued anew by hand.

One rule: a successor comes to be under the lock of its stay, after looking again; what has ended, or was given already, gets
none. A booking's newest version is followed at once, since it may have come in between.
"""

from __future__ import annotations

from dataclasses import replace

from credentials import locks, notices
from credentials.house import House, house
from credentials.lifecycle import LIVE, State
from credentials.models import KeyCredential, Reservation
from credentials.reservations import CANCELLED, ENDED, FRAUD
from credentials.services import KeyBatch
from devices import adapters, selectors
from sagas.alerts import NewAlert
from sagas.flows import (
    companions,
    fall_back,
    follow_booking,
    follow_rest,
    issue_key,
    one_change,
    replace_key,
    rest_key,
    revoke_key,
    room_move,
    update_key,
)
from sagas.intake import own_key
from sagas.outbox import Cause
from sagas.steps import Work
from vendors.port.types import CredentialKind, Intent, RevokeReason, Window

FLOWS = frozenset({fall_back.FLOW, companions.FLOW})
RUNBOOK = "lock/key-issue"


class NoneNow(Exception):
    """A failed key gets no successor as its stay stands. `code` is the API's, the text says why."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def issue_anew(batch: KeyBatch, place: House, key: KeyCredential, row: Reservation | None, cause: Cause) -> KeyCredential:
    """Issues a failed key anew, as the newest version of its stay says; the two name each other. It rests where the stay does.

    The projection, if there is one, and all keys of the stay are locked; these are in the batch. Raises NoneNow.
    """
    request = _request_anew(batch, key, row, cause)
    try:
        made = issue_key.begin(batch, place, request, cause)
    except (issue_key.NoKindFits, issue_key.NoDoors) as error:
        raise NoneNow("TRANSITION_REFUSED", str(error)) from error
    key.replaced_by = made.id
    batch.touch(key)
    follow_rest.keep(batch, row, made, key, cause)
    return made


def kind_anew(batch: KeyBatch, place: House, key: KeyCredential, row: Reservation | None) -> CredentialKind | None:
    """Returns the kind that `issue_anew` would give a failed key; None where it would refuse. Nothing need be locked."""
    try:
        return issue_key.choose(batch.tenant_id, place, _request_anew(batch, key, row, Cause()))[2]
    except (NoneNow, issue_key.NoKindFits, issue_key.NoDoors):
        return None


def _request_anew(batch: KeyBatch, key: KeyCredential, row: Reservation | None, cause: Cause) -> issue_key.KeyRequest:
    _require_standing(batch, key, row)
    request = replace_key.request(key, CredentialKind(key.kind), cause, Intent.NEW)
    areas_only = not key.rooms and bool(batch.doors_at(key))
    request = replace(request, areas_only=areas_only) if row is None else _as_it_stands(batch, row, key, request)
    if request.window.valid_until <= batch.now:
        raise NoneNow("CREDENTIAL_EXPIRED", "the window is over")
    return request


def _require_standing(batch: KeyBatch, key: KeyCredential, row: Reservation | None) -> None:
    if key.state != State.FAILED or key.replaced_by:
        raise NoneNow("TRANSITION_REFUSED", "a successor was issued already")
    if row is not None and row.incarnation != key.incarnation:
        raise NoneNow("STAY_ENDED", "the key is of an earlier booking of the stay, which has ended")
    if row is not None and row.status in ENDED:
        raise NoneNow("STAY_ENDED", how_it_ended(row))
    if row is not None and row.status == FRAUD:
        raise NoneNow("TRANSITION_REFUSED", "the stay is under review")
    same = (key.installation_id, key.incarnation, key.ordinal)
    stay = batch.of_stay(key.reservation_id) if key.reservation_id else []
    if any(other.state in LIVE and (other.installation_id, other.incarnation, other.ordinal) == same for other in stay):
        raise NoneNow("TRANSITION_REFUSED", "the stay has another key in its place")


def how_it_ended(row: Reservation) -> str:
    """Says in words how a stay has ended."""
    return "the booking was cancelled" if row.status == CANCELLED else "the guest has checked out"


def _as_it_stands(batch: KeyBatch, row: Reservation, key: KeyCredential, request: issue_key.KeyRequest) -> issue_key.KeyRequest:
    shape = follow_booking.shape_of(batch, row, key)
    if shape is None:
        raise NoneNow("TRANSITION_REFUSED", "the stay has no room at the key's lock system any more")
    return replace(
        request, rooms=shape.rooms, window=shape.window, areas=shape.areas, floors=shape.floors, areas_only=shape.areas_only
    )


def run(tenant_id: str, work: Work, batch: KeyBatch, row: Reservation | None) -> None:
    """Runs one of this module's flows over a stay whose projection, if there is one, and keys are locked. Flushes the batch."""
    named = [work.args["key"]] if work.flow == fall_back.FLOW else list(work.args["keys"])
    for key in [batch.keys[key_id] for key_id in named if key_id in batch.keys]:
        if not locks.open_properties(tenant_id, [key.property_id]) or _is_over(key, row):
            continue
        place = house(tenant_id, key.property_id)
        try:
            made = _go_on(batch, place, key, work) if work.flow == fall_back.FLOW else _again(batch, place, key, work)
        except (issue_key.NoKindFits, issue_key.NoDoors) as error:
            _tell_of_none(batch, key, str(error))
            made = None
        if made is not None:
            batch.flush()
            _follow(batch, row, key, made, work)
    batch.flush()


def _follow(batch: KeyBatch, row: Reservation | None, key: KeyCredential, made: KeyCredential, work: Work) -> None:
    """Brings a successor to the newest version, which may have come since the key failed; it rests where the stay does."""
    if work.flow == fall_back.FLOW and made.replaces == key.id:
        follow_rest.keep(batch, row, made, key, work.cause)
    if row is not None and not key.ordinal:
        follow_booking.follow(batch, row, row.status, work.id, work.cause)
    elif row is not None and work.flow == fall_back.FLOW:
        shape = follow_booking.shape_of(batch, row, key)
        if shape is None or (shape.rooms, shape.window) != (tuple(key.rooms), Window(key.valid_from, key.valid_until)):
            follow_booking.bring(batch, row, made, own_key("brought", made.id, str(row.version)), work.cause)


def _tell_of_none(batch: KeyBatch, key: KeyCredential, why: str) -> None:
    detail = f"nothing takes the place of a {key.kind}: {why}"
    batch.alerts.append(
        NewAlert(f"successor:{key.id}", "KEY_ISSUE_FAILED", "critical", detail, RUNBOOK, key.property_id, key.id)
    )


def _is_over(key: KeyCredential, row: Reservation | None) -> bool:
    return row is not None and (row.status in ENDED or row.incarnation != key.incarnation)


def _go_on(batch: KeyBatch, place: House, key: KeyCredential, work: Work) -> KeyCredential | None:
    """Gives a failed key's successor, of another kind or at the fall-back installation. A key that the stay has there already
    gains the rooms; where it cannot, one more key opens them."""
    if key.state != State.FAILED or key.replaced_by or key.valid_until <= batch.now:
        return None
    installation = str(work.args["installation"])
    kinds = tuple(CredentialKind(kind) for kind in work.args["kinds"])
    here = [k for k in batch.keys.values() if k.state in LIVE and k.installation_id == installation]
    stay = [k for k in here if k.incarnation == key.incarnation]
    same = next((k for k in stay if k.ordinal == key.ordinal), None)
    missing = tuple(room for room in key.rooms if same is None or room not in same.rooms)
    if same is not None and (not missing or _can_gain(same, kinds)):
        return _stand_in(batch, place, key, same, missing, work)
    request = _request(
        key, installation, kinds, Intent(key.intent), own_key("fall-back", key.id), work, _why(key, installation, work)
    )
    if same is not None:
        request = replace(request, ordinal=max(k.ordinal for k in stay) + 1, rooms=missing)
    return _issue(batch, place, key, request, work)


def _can_gain(held: KeyCredential, kinds: tuple[CredentialKind, ...]) -> bool:
    """Says whether the guest's other key can be given the rooms where they are: digits can, and what is not made yet. A card is
    in her pocket, and a key that keeps a room only joins at the new ones, where the last guest's would go on opening."""
    return CredentialKind(held.kind) in kinds and (held.state == State.REQUESTED or not one_change.spans(held))


def _stand_in(
    batch: KeyBatch, place: House, key: KeyCredential, held: KeyCredential, missing: tuple[str, ...], work: Work
) -> KeyCredential:
    """Lets the key that the stay has at the other lock system open the failed one's rooms too."""
    if missing:
        saga_key = own_key("fall-back", key.id)
        update_key.begin(batch, place, held, saga_key, work.cause, rooms=(*held.rooms, *missing))
        for code, detail in _why(key, held.installation_id, work):
            notices.warn(held, code, detail)
        batch.touch(held)
    key.replaced_by = held.id
    batch.touch(key)
    return held


def _again(batch: KeyBatch, place: House, key: KeyCredential, work: Work) -> KeyCredential | None:
    """Takes a key back that is dead or dying, and gives another that joins the stay; one that rests goes on resting."""
    if key.state not in (State.ACTIVE, State.SUSPENDED) or key.valid_until <= batch.now:
        return None
    rests = rest_key.why(key)
    has_moved = work.args.get("why") == companions.MOVED_AWAY
    trigger = room_move.TRIGGER if has_moved else "also_killed"
    revoke_key.begin(
        batch, key, RevokeReason.REPLACED, own_key("killed", str(work.args["by"]), key.id), work.cause, trigger=trigger
    )
    batch.flush()  # one live key per intended key: the old one is over first
    told: tuple[tuple[str, str], ...] = (
        (notices.CARD_KILLED, "the earlier card died when a lost one of the stay was replaced"),
    )
    if work.args.get("why") == companions.OVERWRITTEN:
        is_own = str(work.args["by"]) in batch.keys
        why = "another key of the stay" if is_own else "another guest, as was confirmed"
        told = ((notices.CARD_OVERWRITTEN, f"the earlier card was written over for {why}"),)
    if has_moved or work.args.get("why") == companions.OUTRANKED:
        told = ()
    issue_as = own_key("killed-again", key.id)
    kinds = (CredentialKind(key.kind),)
    request = _request(key, key.installation_id, kinds, Intent.ADDITIONAL, issue_as, work, told)
    made = _issue(batch, place, key, request, work)
    if rests is not None:
        rest_key.suspend_soon(batch, made, rests, own_key("killed-resting", made.id), work.cause)
        key.suspend_reason = ""
    return made


def _issue(batch: KeyBatch, place: House, key: KeyCredential, request: issue_key.KeyRequest, work: Work) -> KeyCredential:
    made = issue_key.begin(batch, place, request, work.cause)
    key.replaced_by = made.id
    batch.touch(key)
    return made


def _request(
    key: KeyCredential,
    installation: str,
    kinds: tuple[CredentialKind, ...],
    intent: Intent,
    issue_as: str,
    work: Work,
    told: tuple[tuple[str, str], ...],
) -> issue_key.KeyRequest:
    return issue_key.KeyRequest(
        installation=selectors.installation(key.tenant_id, installation),
        rooms=tuple(key.rooms),
        window=Window(key.valid_from, key.valid_until),
        issue_key=issue_as,
        holder_id=key.holder_id,
        reservation_id=key.reservation_id,
        incarnation=key.incarnation,
        ordinal=key.ordinal,
        holder_kind=key.holder_kind,
        preferred_kinds=kinds,
        only_preferred=True,
        areas=tuple(key.areas),
        floors=tuple(key.floors),
        intent=intent,
        replaces=key.id,
        channel_hint=key.channel_hint,
        requested_by=key.requested_by,
        id_verified=True,
        grace_included=True,
        priority=work.priority,
        notices=told,
    )


def _why(key: KeyCredential, installation: str, work: Work) -> tuple[tuple[str, str], ...]:
    why = str(work.args.get("why", "")).replace("_", " ")
    if installation == key.installation_id:
        return ((notices.KIND_CHANGED, f"{key.kind} was not possible ({why}); another kind is given"),)
    name = adapters.manifest(key.vendor).display_name
    return ((notices.LOCK_SYSTEM_CHANGED, f"{name} was away ({why}); the house's other lock system gives the key"),)
