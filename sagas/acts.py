"""What a person, or a service on her behalf, may ask for: one function per act, each its own transaction.

One rule: an act is refused here with a stable code, before any row, event or vendor call; API and console only translate.
`act_id` names the intention (an Idempotency-Key or a form's token): the same id again changes nothing and says so, and with
another request it is refused. Both are decided in `_once`, before any flow.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from credentials import artifacts, locks, notices
from credentials.arrival_signs import Sign, SignKind
from credentials.house import House, house
from credentials.lifecycle import ACTIONS, LIVE, TERMINAL, State, may
from credentials.models import Artifact, KeyCredential, Reservation
from credentials.reservations import ENDED, FRAUD
from credentials.services import KeyBatch
from devices import adapters, relay_jobs, selectors
from lockservice.core import clock, crypto, tenancy
from lockservice.core.places import Property
from sagas import known_actions, limits, offered
from sagas.alerts import NewAlert
from sagas.consumer import handle_body
from sagas.flows import (
    card_in_use,
    companions,
    guest_came,
    issue_key,
    old_rooms,
    repair_key,
    replace_key,
    rest_key,
    revoke_key,
    room_move,
    successors,
    update_key,
    wake_sagas,
    write_card,
)
from sagas.intake import PRIORITY_SECURITY, own_key
from sagas.models import Alert, DeadLetter, OutboxEvent, Saga
from sagas.outbox import Cause
from sagas.refusals import Refused
from vendors.port.manifest import CardsBy
from vendors.port.secrets import CardNumber, Pin, Token
from vendors.port.types import CredentialKind, Intent, RevokeReason, SuspendReason, Window


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts (`usr_…` or a service's name), and what the trace is."""

    id: str
    trace_id: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """What came of an act: the credential it is about, and the saga that works on it (None when nothing is left to do).

    `is_repeated` says that the act had been taken before and nothing was changed now.
    """

    credential_id: str
    saga_id: str | None
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class IssueCommand:
    """A key asked for by hand, an additional one of its stay. `may_resume` says whether the asker might also resume a suspended
    key: without it a stay whose key rests, or was taken back resting, gets no other. `may_issue_unbooked` and a `reason` are
    needed for a stay that no booking event has told of."""

    property_id: str
    rooms: tuple[str, ...]
    window: Window
    holder_id: str
    reservation_id: str
    preferred_kinds: tuple[CredentialKind, ...] = ()
    areas: tuple[str, ...] | None = None
    floors: tuple[str, ...] = ()
    intent: Intent = Intent.ADDITIONAL
    channel_hint: str = ""
    may_resume: bool = False
    reason: str = ""
    may_issue_unbooked: bool = False


def issue(tenant_id: str, command: IssueCommand, actor: Actor, act_id: str, *, asked: str = "") -> Act:
    """Issues a key at the one installation its rooms are on. `asked` is a digest of the request where the command was completed
    by what is known of the stay, which may change.

    Refused: NOT_FOUND (property), TRANSITION_REFUSED (property not in operation, stay suspended), STAY_ENDED, VALIDATION_FAILED
    (rooms unknown or on several installations, no kind fits, window over), IDEMPOTENCY_KEY_REUSED.
    """
    return _once(tenant_id, act_id, actor, "issue", "", (asked or command,), lambda: _issue(tenant_id, command, actor, act_id))


def _issue(tenant_id: str, command: IssueCommand, actor: Actor, act_id: str) -> Act:
    with tenancy.tenant(tenant_id):
        now = clock.now()
        place = _house(tenant_id, command.property_id)
        if command.window.valid_until <= now:
            raise Refused("VALIDATION_FAILED", "the window is over", {"validUntil": "lies in the past"})
        installation = _installation(tenant_id, place, command.rooms)
        batch, incarnation, ordinal = _stay(tenant_id, command, installation, now)
        _require_standing(tenant_id, command, batch, incarnation)
        limits.require_within(place.policy, command.window, command.rooms)
        if not Reservation.objects.filter(tenant_id=tenant_id, reservation_id=command.reservation_id).exists():
            _require_unbooked(command, place, now)
            batch.alerts.append(limits.without_booking(command.reservation_id, place.property_id, actor.id))
        request = issue_key.KeyRequest(
            installation=selectors.installation(tenant_id, installation),
            rooms=command.rooms,
            window=command.window,
            issue_key=own_key("issue-by-hand", act_id),
            holder_id=command.holder_id,
            reservation_id=command.reservation_id,
            incarnation=incarnation,
            ordinal=ordinal,
            preferred_kinds=command.preferred_kinds,
            areas=command.areas,
            floors=command.floors,
            intent=command.intent if ordinal else Intent.NEW,
            channel_hint=command.channel_hint,
            requested_by=actor.id,
            id_verified=True,
            grace_included=True,
        )
        key = _begin(batch, place, request, _cause(actor, command.reservation_id))
        batch.flush()
        return _act(key)


def update(
    tenant_id: str, credential_id: str, actor: Actor, act_id: str, *, window: Window | None = None,
    valid_from: datetime | None = None, valid_until: datetime | None = None, rooms: tuple[str, ...] | None = None,
    areas: tuple[str, ...] | None = None,
) -> Act:  # fmt: skip
    """Changes window (exactly as given, no grace added), rooms and areas.

    Refused: NOT_FOUND, TRANSITION_REFUSED, CREDENTIAL_EXPIRED, VALIDATION_FAILED.
    """

    def do(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause) -> None:
        wanted = window or _merged_window(key, valid_from, valid_until)
        limits.require_within(place.policy, wanted, rooms)
        if wanted is not None and not _is_booked(tenant_id, key):
            limits.require_unbooked_end(place.policy, wanted, batch.now)
        saga_key = own_key("update-by-hand", key.id, act_id)
        try:
            update_key.begin(batch, place, key, saga_key, cause, window=wanted, rooms=rooms, areas=areas, grace_included=True)
        except update_key.WindowOver as error:
            raise Refused("CREDENTIAL_EXPIRED", "the new window is over") from error
        except issue_key.NoDoors as error:
            raise Refused("VALIDATION_FAILED", str(error), {"rooms": "no lock at this installation"}) from error

    asked = (window, valid_from, valid_until, rooms, areas)
    return act_on_key(tenant_id, credential_id, "update", actor, act_id, asked, do)


def revoke(
    tenant_id: str, credential_id: str, reason: RevokeReason, actor: Actor, act_id: str, *, reissue: bool | None = None,
    kind: CredentialKind | None = None,
) -> Act:  # fmt: skip
    """Revokes. A key that is over already is a success without effect. Reason `lost` on a guest's key replaces it at once
    unless `reissue` is False; the returned credential is then the successor. Refused: NOT_FOUND, VALIDATION_FAILED."""

    def do(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause) -> KeyCredential | None:
        saga_key = own_key("revoke-by-hand", key.id, act_id)
        wants_new = reason is RevokeReason.LOST and key.holder_kind == "guest" and reissue is not False
        wants_new = wants_new and key.state == State.ACTIVE  # what rests gets no successor that opens
        wants_new = wants_new and bool(locks.open_properties(tenant_id, [key.property_id]))
        if wants_new and kind is None and not offered.can_replace(key, batch.now):
            wants_new = False  # a lost key is taken back all the same
            _tell_of_no_successor(batch, key)
        if wants_new:
            return _replace(batch, place, key, saga_key, cause, kind)
        revoke_key.begin(batch, key, reason, saga_key, cause)
        return None

    asked = (reason, reissue, kind)
    return act_on_key(tenant_id, credential_id, "revoke", actor, act_id, asked, do, refuse=False)


def replace(tenant_id: str, credential_id: str, actor: Actor, act_id: str, *, kind: CredentialKind | None = None) -> Act:
    """Replaces a lost key; the returned credential is the successor.

    Refused: NOT_FOUND, TRANSITION_REFUSED, VALIDATION_FAILED.
    """

    def do(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause) -> KeyCredential | None:
        return _replace(batch, place, key, own_key("replace-by-hand", key.id, act_id), cause, kind)

    return act_on_key(tenant_id, credential_id, "replace", actor, act_id, (kind,), do)


def _tell_of_no_successor(batch: KeyBatch, key: KeyCredential) -> None:
    if key.valid_until > batch.now:
        detail = f"a lost {key.kind} was taken back and nothing can take its place at its doors; the guest needs an escort"
        batch.alerts.append(
            NewAlert(f"successor:{key.id}", "KEY_ISSUE_FAILED", "critical", detail, "lock/key-issue", key.property_id, key.id)
        )


def suspend(tenant_id: str, credential_id: str, reason: SuspendReason, actor: Actor, act_id: str) -> Act:
    """Suspends an active key, and with an old room's that is kept the one on its way to the new room. Refused: NOT_FOUND,
    TRANSITION_REFUSED."""

    def do(batch: KeyBatch, _: House, key: KeyCredential, cause: Cause) -> None:
        for one in (key, *old_rooms.to_come(batch, key)):
            rest_key.suspend_soon(batch, one, reason, own_key("suspend-by-hand", one.id, act_id), cause)

    return act_on_key(tenant_id, credential_id, "suspend", actor, act_id, (reason,), do, whole_stay=True)


def unsuspend(tenant_id: str, credential_id: str, actor: Actor, act_id: str) -> Act:
    """Starts to resume a suspended key; it is active again when a door has confirmed. With an old room's that is kept, the one
    on its way to the new room rests no more for the same reason.

    Refused: NOT_FOUND, TRANSITION_REFUSED, CREDENTIAL_EXPIRED.
    """

    def do(batch: KeyBatch, _: House, key: KeyCredential, cause: Cause) -> None:
        if key.suspend_reason == SuspendReason.NO_SHOW:
            _note_arrival(batch, key, cause)
        for other in old_rooms.to_come(batch, key) if key.suspend_reason else ():
            reason = SuspendReason(key.suspend_reason)
            rest_key.lift(batch, other, reason, own_key("unsuspend-by-hand", other.id, act_id), cause)
        try:
            rest_key.unsuspend(batch, key, own_key("unsuspend-by-hand", key.id, act_id), cause)
        except rest_key.KeyExpired as error:
            raise Refused("CREDENTIAL_EXPIRED", "the key's window is over") from error

    return act_on_key(tenant_id, credential_id, "unsuspend", actor, act_id, (), do, whole_stay=True)


def encode(
    tenant_id: str, credential_id: str, actor: Actor, act_id: str, *, card_number: CardNumber | None = None,
    confirm_card_in_use: str = "",
) -> Act:  # fmt: skip
    """Moves on a key that waits for the desk, or writes the guest's card again where it is older than our books. Where the
    lock learns card numbers, the number read at the desk is needed; where a desk does the work, one must be connected.

    A card that carries another live key is not written. `confirm_card_in_use` names that key, as it was told to the person who
    confirms, and lets it be written over: the one that the last `encode` of this key told of, or the one whose number it is.

    Refused: NOT_FOUND, TRANSITION_REFUSED (neither), CARD_ENCODER_OFFLINE (no number, or no desk, whichever is needed),
    CARD_IN_USE (the number is another live key's, or another card was told of meanwhile; `fields` name what to confirm).
    """
    asked = () if card_number is None else (crypto.blind_index("artifact", tenant_id, card_number.reveal()).hex(),)
    asked = (*asked, "over", confirm_card_in_use) if confirm_card_in_use else asked

    def carry_out() -> Act:
        is_stale, cards_by = _encodable(tenant_id, credential_id)
        if is_stale:
            return _write_again(tenant_id, credential_id, actor, act_id)
        if cards_by is CardsBy.NUMBER and card_number is None:
            raise Refused("CARD_ENCODER_OFFLINE", "no desk is connected; give the number of the card that was read")
        return _encode(tenant_id, credential_id, actor, card_number, confirmed=confirm_card_in_use)

    return _once(tenant_id, act_id, actor, "encode", credential_id, asked, carry_out)


def _encode(tenant_id: str, credential_id: str, actor: Actor, card_number: CardNumber | None, *, confirmed: str) -> Act:
    woken: list[str] = []

    def do(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause) -> None:
        if key.waiting_for != issue_key.DESK:
            raise Refused("TRANSITION_REFUSED", "the key does not wait for the desk")
        args: dict[str, object] = {}
        if card_number is not None:
            earlier = _take_number(batch, key, card_number, cause, confirmed=confirmed)
            args = {card_in_use.NUMBER_OF: earlier} if adapters.manifest(key.vendor).cards_by is CardsBy.NUMBER else {}
        if key.state == State.REQUESTED:
            issue_key.launch(batch, place, key, cause, priority=PRIORITY_SECURITY, args=args)
            return
        saga = card_in_use.told_to(tenant_id, key.id)
        if saga is None:
            raise Refused("TRANSITION_REFUSED", "the key does not wait for the desk")
        is_meant = bool(confirmed) and _is_last_told(key, saga, confirmed, is_number=card_number is not None)
        if is_meant and (owner := card_in_use.owner_on_its_way(saga)) is not None:
            raise Refused(
                card_in_use.CODE,
                f"the key {owner.id} on the card is on its way; lay another card, or wait for it",
                {card_in_use.FIELD: confirmed},
            )
        card_in_use.go_on(batch, key, saga, confirmed=is_meant)
        woken.append(saga.id)

    done = _carry_out(tenant_id, credential_id, "encode", actor, do)
    return Act(done.credential_id, woken[0]) if woken else done


def _is_last_told(key: KeyCredential, saga: Saga, confirmed: str, *, is_number: bool) -> bool:
    """Says whether a confirmation is for the card told of last. Another clerk may have laid another card for this key
    meanwhile: what was confirmed must not be read as her card. With a number it may be for the key whose number it is."""
    last = card_in_use.subject_of(saga.args[card_in_use.TOLD])
    if confirmed != last and not is_number:
        detail = notices.detail_of(key, card_in_use.CODE)
        raise Refused(card_in_use.CODE, f"another card was laid meanwhile: {detail}", {card_in_use.FIELD: last})
    return confirmed == last


def _take_number(batch: KeyBatch, key: KeyCredential, number: CardNumber, cause: Cause, *, confirmed: str) -> list[str]:
    """Notes which card the key will be on. One number opens for one key: whose it was gets another card. Returns the keys that
    have to be gone from a door before this one is given there."""
    others = card_in_use.with_number(key, number, batch.now)
    for other in others:
        if other.state in TERMINAL or other.valid_until <= batch.now:
            continue
        is_meant = confirmed == other.id or card_in_use.is_of_stay(key, other)
        if not is_meant or other.state not in (State.ACTIVE, State.SUSPENDED):  # what is on its way is settled first
            wrong = {"cardNumber": "is another valid key's", card_in_use.FIELD: other.id}
            raise Refused(card_in_use.CODE, card_in_use.detail(other), wrong)
        companions.reissue_overwritten(batch, key, other, PRIORITY_SECURITY, cause)
    issue_key.take_card(key, number)
    return [other.id for other in others]


def _encodable(tenant_id: str, credential_id: str) -> tuple[bool, CardsBy]:
    """Says whether the card is to be written again, and what that takes; refuses at once what could only wait for a desk."""
    with tenancy.tenant(tenant_id):
        row = KeyCredential.objects.filter(tenant_id=tenant_id, id=credential_id).first()
        if row is None:
            raise Refused("NOT_FOUND", "no such credential")
        is_stale = row.state == State.ACTIVE and notices.card_is_stale(row)
        if not is_stale and (row.state not in ACTIONS["encode"] or row.waiting_for != issue_key.DESK):
            raise Refused("TRANSITION_REFUSED", "the key does not wait for the desk")
        cards_by = adapters.manifest(row.vendor).cards_by
        if cards_by is CardsBy.RELAY and not relay_jobs.connected(tenant_id, row.property_id, row.vendor):
            raise Refused("CARD_ENCODER_OFFLINE", "no desk of the property is connected")
        return is_stale, cards_by


def _write_again(tenant_id: str, credential_id: str, actor: Actor, act_id: str) -> Act:
    """The guest's card lies on the encoder. Asked twice, it is written once."""

    def do(batch: KeyBatch, _: House, key: KeyCredential, cause: Cause) -> None:
        if notices.card_is_stale(key):
            try:
                write_card.begin(batch, key, own_key("encode-by-hand", key.id, act_id), cause)
            except write_card.CannotWriteAgain as error:
                raise Refused("TRANSITION_REFUSED", "this lock system writes no card again; replace the key") from error

    return _carry_out(tenant_id, credential_id, "encode", actor, do)


def confirm_identity(tenant_id: str, credential_id: str, actor: Actor, act_id: str) -> Act:
    """The desk has seen the guest's papers: a key that waits for identity goes on. Refused: NOT_FOUND, TRANSITION_REFUSED."""

    def do(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause) -> None:
        if key.waiting_for != issue_key.IDENTITY:
            raise Refused("TRANSITION_REFUSED", "the key does not wait for identity")
        _note_arrival(batch, key, cause)
        issue_key.go_on(batch, place, key, cause, id_verified=True)

    return act_on_key(tenant_id, credential_id, "encode", actor, act_id, ("identity",), do)


def note_arrival(tenant_id: str, reservation_id: str, actor: Actor) -> None:
    """The desk says that the guest has come: no no-show suspends her keys. Said again, nothing more happens.

    Refused: NOT_FOUND (no booking told of such a stay), STAY_ENDED.
    """
    with tenancy.tenant(tenant_id):
        row = locks.lock_reservation(tenant_id, reservation_id)
        if row is None:
            raise Refused("NOT_FOUND", "no such reservation")
        if row.status in ENDED:
            raise Refused("STAY_ENDED", successors.how_it_ended(row))
        now = clock.now()
        sign = Sign(reservation_id, row.incarnation, SignKind.DESK, now, actor.id)
        guest_came.note(tenant_id, [sign], now, _cause(actor, reservation_id))


def _note_arrival(batch: KeyBatch, key: KeyCredential, cause: Cause) -> None:
    """Whoever asks for this has the guest before her."""
    if key.reservation_id and key.holder_kind == "guest":
        sign = Sign(key.reservation_id, key.incarnation, SignKind.DESK, batch.now, cause.actor)
        guest_came.note(key.tenant_id, [sign], batch.now, cause)


def retry(tenant_id: str, credential_id: str, actor: Actor, act_id: str) -> Act:
    """Repairs doors that are still open; a failed key is issued anew, as its stay now stands, and the returned credential is
    its successor. Refused: NOT_FOUND, TRANSITION_REFUSED, STAY_ENDED, CREDENTIAL_EXPIRED."""

    def do(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause) -> KeyCredential | None:
        if key.state == State.FAILED:
            return issue_anew(batch, place, key, cause)
        if not key.open_work:
            raise Refused("TRANSITION_REFUSED", "nothing is open on this key")
        repair_key.begin(batch, key, own_key("repair-by-hand", key.id, act_id), cause)
        old_rooms.try_again(batch, key)
        return None

    return act_on_key(tenant_id, credential_id, "retry", actor, act_id, (), do, whole_stay=True)


def _start_over(batch: KeyBatch, key: KeyCredential) -> None:
    """Gives every door of the key its tries again; a move by one change is tried as one change again."""
    for door in batch.doors_at(key):
        door.due_at, door.final, door.attempts = None, False, 0
        batch.touch_door(door)
    old_rooms.try_again(batch, key)


def leave_old_room(tenant_id: str, credential_id: str, actor: Actor, act_id: str) -> Act:
    """Takes the room that a guest moved out of, though her new one may not open yet.

    Refused: NOT_FOUND, TRANSITION_REFUSED.
    """

    def do(batch: KeyBatch, _: House, key: KeyCredential, cause: Cause) -> None:
        if not room_move.give_up_old_room(batch, key, cause):
            raise Refused("TRANSITION_REFUSED", "the key has no old room")

    return act_on_key(tenant_id, credential_id, "leave_old_room", actor, act_id, (), do, whole_stay=True)


def retry_saga(tenant_id: str, saga_id: str) -> None:
    """Makes a dead or waiting saga due now. Refused: NOT_FOUND, TRANSITION_REFUSED (it runs or is done)."""
    with tenancy.tenant(tenant_id):
        row = Saga.objects.filter(tenant_id=tenant_id, id=saga_id).first()
        if row is None:
            raise Refused("NOT_FOUND", "no such saga")
        if row.credential_id:
            batch = KeyBatch.load(tenant_id, [row.credential_id], clock.now())
            for key in batch.keys.values():
                batch.retarget(key)
                _start_over(batch, key)
            batch.flush()
        if not wake_sagas.wake(Saga.objects.filter(tenant_id=tenant_id, id=saga_id)):
            raise Refused("TRANSITION_REFUSED", "the saga is not waiting or dead")


def replay_dead_letter(tenant_id: str, letter_id: int, actor: Actor) -> str:
    """Handles a dead letter again and says what came of it; `buried` keeps it, with the new reason and one more count.

    It is marked as replayed only after it was handled: a crash in between leaves it to be replayed again, which changes
    nothing more. Refused: NOT_FOUND (also one that was replayed already).
    """
    with tenancy.tenant(tenant_id):
        row = DeadLetter.objects.filter(tenant_id=tenant_id, id=letter_id, replayed_at__isnull=True).first()
    if row is None:
        raise Refused("NOT_FOUND", "no such dead letter, or it was replayed")
    is_ours = row.source == "outbox"
    outcome = _unblock(tenant_id, row) if is_ours else handle_body(row.topic, row.ordering_key, bytes(row.body))
    with tenancy.tenant(tenant_id), connection.cursor() as cursor:
        # buried again under this tenant: the same letter has counted up and stays open; under another: it has moved there
        cursor.execute(
            "UPDATE sagas_deadletter SET replayed_at = (SELECT clock_timestamp()), replayed_by = %s"
            " WHERE tenant_id = %s AND id = %s AND replayed_at IS NULL AND (%s OR count = %s)",
            [actor.id, tenant_id, letter_id, outcome != "buried", row.count],
        )
    return outcome


def _unblock(tenant_id: str, row: DeadLetter) -> str:
    """Lets the events of a key that a refused one had blocked go out again, in order."""
    with tenancy.tenant(tenant_id):
        rows = OutboxEvent.objects.filter(tenant_id=tenant_id, ordering_key=row.ordering_key, blocked=True)
        rows.update(blocked=False, attempts=0)
    return "unblocked"


def acknowledge_alert(tenant_id: str, alert_id: str, actor: Actor) -> None:
    """Notes that somebody has seen the alert. Refused: NOT_FOUND."""
    with tenancy.tenant(tenant_id):
        rows = Alert.objects.filter(tenant_id=tenant_id, id=alert_id, acknowledged_at__isnull=True)
        if not rows.update(acknowledged_at=clock.now(), acknowledged_by=actor.id):
            raise Refused("NOT_FOUND", "no such open alert")


def exchange(tenant_id: str, reference: str, actor: Actor, key: str) -> tuple[Artifact, KeyCredential, Pin | Token]:
    """Hands over an artifact once. Refused: NOT_FOUND, TRANSITION_REFUSED (used, or the key is not active)."""
    with tenancy.tenant(tenant_id):
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            real_now = cursor.fetchone()[0]
        try:
            row, value = artifacts.exchange(tenant_id, reference, actor.id, key, real_now)
        except artifacts.NoSuchReference as error:
            raise Refused("NOT_FOUND", "no such reference") from error
        except artifacts.AlreadyExchanged as error:
            raise Refused("TRANSITION_REFUSED", "the reference was used or is no longer good") from error
        credential = KeyCredential.objects.get(tenant_id=tenant_id, id=row.credential_id)
        if credential.state != State.ACTIVE:  # while a key rests there is nothing to hand over
            raise Refused("TRANSITION_REFUSED", "the key is not active")
        return row, credential, value


def reveal_pin(tenant_id: str, credential_id: str) -> Pin | None:
    """Opens a key's PIN for a permitted clerk; None when it has none. The caller records who saw it and why.

    Refused: NOT_FOUND; TRANSITION_REFUSED for a key that is over, whose digits are nobody's and soon somebody else's.
    """
    with tenancy.tenant(tenant_id):
        state = KeyCredential.objects.filter(tenant_id=tenant_id, id=credential_id).values_list("state", flat=True).first()
        if state is None:
            raise Refused("NOT_FOUND", "no such credential")
        if state not in LIVE:
            raise Refused("TRANSITION_REFUSED", f"there is no PIN to show while {state}")
        row = artifacts.current(tenant_id, [credential_id]).get(credential_id)
        return artifacts.open_pin(row) if row is not None else None


def new_act_id() -> str:
    """Makes an id for an intention that brought none."""
    return uuid.uuid4().hex


OnKey = Callable[[KeyBatch, House, KeyCredential, Cause], KeyCredential | None]
"""What an act does with a locked key. It may return another key that it is about from now on, such as a successor."""


def act_on_key(
    tenant_id: str, credential_id: str, action: str, actor: Actor, act_id: str, asked: Sequence[object], do: OnKey, *,
    refuse: bool = True, whole_stay: bool = False,
) -> Act:  # fmt: skip
    """Runs an act on a locked credential, or on it among all keys of its stay, in one transaction, once for its id.

    `asked` is what was asked for beside the action, without digits of a key. Refused: NOT_FOUND, TRANSITION_REFUSED,
    IDEMPOTENCY_KEY_REUSED.
    """

    def carry_out() -> Act:
        return _carry_out(tenant_id, credential_id, action, actor, do, refuse=refuse, whole_stay=whole_stay)

    return _once(tenant_id, act_id, actor, action, credential_id, asked, carry_out)


def _carry_out(
    tenant_id: str, credential_id: str, action: str, actor: Actor, do: OnKey, *, refuse: bool = True, whole_stay: bool = False
) -> Act:
    with tenancy.tenant(tenant_id):
        batch = _locked(tenant_id, credential_id, whole_stay=whole_stay)
        key = batch.keys[credential_id]
        if refuse and not may(action, key.state):
            raise Refused("TRANSITION_REFUSED", f"{action} is not possible while {key.state}")
        made = do(batch, house(tenant_id, key.property_id), key, _cause(actor, key.reservation_id or key.id))
        batch.flush()
        return _act(made or key)


def _once(
    tenant_id: str, act_id: str, actor: Actor, action: str, credential_id: str, asked: Sequence[object],
    carry_out: Callable[[], Act],
) -> Act:  # fmt: skip
    """Carries an act out the first time its id is seen. A later one changes nothing; its Act says so."""
    digest = known_actions.fingerprint(actor.id, action, credential_id, asked)
    with tenancy.tenant(tenant_id):
        earlier = known_actions.take(tenant_id, act_id, digest)
        if earlier is None:
            done = carry_out()
            known_actions.settle(tenant_id, act_id, done.credential_id, done.saga_id)
            return done
    if not earlier.is_same:
        raise Refused("IDEMPOTENCY_KEY_REUSED", "this id was used for another request; ask anew under a new one")
    return Act(earlier.credential_id, earlier.saga_id, is_repeated=True)


def _locked(tenant_id: str, credential_id: str, *, whole_stay: bool) -> KeyBatch:
    """Locks the credential; with a reservation, that first and then the key, or all keys of the stay."""
    plain = KeyCredential.objects.filter(tenant_id=tenant_id, id=credential_id).values_list("reservation_id").first()
    if plain is None:
        raise Refused("NOT_FOUND", "no such credential")
    if plain[0]:
        locks.lock_reservation(tenant_id, plain[0])
    if plain[0] and whole_stay:
        return KeyBatch.load_stays(tenant_id, [plain[0]], clock.now())
    return KeyBatch.load(tenant_id, [credential_id], clock.now())


def issue_anew(batch: KeyBatch, place: House, key: KeyCredential, cause: Cause) -> KeyCredential:
    """Issues a failed key anew, as its stay now stands. All keys of the stay are in the batch. Refused as by `retry`."""
    require_open(key.tenant_id, key.property_id)
    row = Reservation.objects.filter(tenant_id=key.tenant_id, reservation_id=key.reservation_id).first()
    try:
        return successors.issue_anew(batch, place, key, row, cause)
    except successors.NoneNow as error:
        raise Refused(error.code, str(error)) from error


def _replace(
    batch: KeyBatch, place: House, key: KeyCredential, saga_key: str, cause: Cause, kind: CredentialKind | None
) -> KeyCredential | None:
    require_open(key.tenant_id, key.property_id)
    if key.valid_until <= batch.now:
        raise Refused("CREDENTIAL_EXPIRED", "the key's window is over")
    try:
        return replace_key.begin(batch, place, key, saga_key, cause, kind=kind)
    except issue_key.NoDoors as error:
        raise Refused("VALIDATION_FAILED", str(error), {"rooms": "a room has no lock any more"}) from error
    except issue_key.NoKindFits as error:
        raise Refused("VALIDATION_FAILED", str(error), {"kind": "not possible at these doors"}) from error


def _begin(batch: KeyBatch, place: House, request: issue_key.KeyRequest, cause: Cause) -> KeyCredential:
    try:
        return issue_key.begin(batch, place, request, cause)
    except issue_key.NoDoors as error:
        raise Refused("VALIDATION_FAILED", str(error), {"rooms": "a room has no lock"}) from error
    except issue_key.NoKindFits as error:
        raise Refused("VALIDATION_FAILED", str(error), {"preferredKinds": "not possible at these doors"}) from error


def _house(tenant_id: str, property_id: str) -> House:
    try:
        place = house(tenant_id, property_id)
    except Property.DoesNotExist as error:
        raise Refused("NOT_FOUND", "no such property") from error
    require_open(tenant_id, property_id)
    return place


def require_open(tenant_id: str, property_id: str) -> None:
    """A property that left the platform gives no new key; it stays as it is until this transaction ends."""
    if not locks.open_properties(tenant_id, [property_id]):
        raise Refused("TRANSITION_REFUSED", "the property is not in operation")


def _installation(tenant_id: str, place: House, rooms: tuple[str, ...]) -> str:
    devices = [d for d in selectors.property_devices(tenant_id, place.property_id) if not d.shared]
    homes = {room: {d.installation_id for d in devices if room in d.rooms} for room in rooms}
    common = set.intersection(*homes.values()) if homes else set()
    common = common - {place.policy.fallback_installation_id} or common  # the spare one waits for an outage
    if not common:
        raise Refused("VALIDATION_FAILED", "the rooms have no lock system in common", {"rooms": "unknown or on several"})
    return min(common)


def _require_unbooked(command: IssueCommand, place: House, now: datetime) -> None:
    """A key for a stay that no booking told of takes a person who may, a reason, and a short window."""
    if not command.may_issue_unbooked:
        raise Refused("FORBIDDEN", "no booking has told of this stay; a supervisor may issue its key, with a reason")
    if not command.reason:
        raise Refused("VALIDATION_FAILED", "no booking has told of this stay", {"reason": "is required"})
    limits.require_unbooked_end(place.policy, command.window, now)


def _is_booked(tenant_id: str, key: KeyCredential) -> bool:
    return Reservation.objects.filter(tenant_id=tenant_id, reservation_id=key.reservation_id or "").exists()


def _require_standing(tenant_id: str, command: IssueCommand, batch: KeyBatch, incarnation: int) -> None:
    """A stay that has ended gets no key, and a suspension is not got round by another key of the same stay."""
    row = Reservation.objects.filter(tenant_id=tenant_id, reservation_id=command.reservation_id).first()
    if row is not None and row.status in ENDED:
        raise Refused("STAY_ENDED", successors.how_it_ended(row))
    flagged = row is not None and row.status == FRAUD
    rests = any(key.suspend_reason and key.incarnation == incarnation for key in batch.keys.values())
    if (flagged or rests) and not command.may_resume:
        raise Refused("TRANSITION_REFUSED", "a key of this stay is suspended")


def _stay(tenant_id: str, command: IssueCommand, installation: str, now: datetime) -> tuple[KeyBatch, int, int]:
    row = locks.lock_reservation(tenant_id, command.reservation_id)
    batch = KeyBatch.load_stays(tenant_id, [command.reservation_id], now)
    incarnation = row.incarnation if row else 1
    taken = [k.ordinal for k in batch.keys.values() if k.incarnation == incarnation and k.installation_id == installation]
    return batch, incarnation, max(taken, default=-1) + 1


def _merged_window(key: KeyCredential, valid_from: datetime | None, valid_until: datetime | None) -> Window | None:
    if valid_from is None and valid_until is None:
        return None
    try:
        return Window(valid_from or key.valid_from, valid_until or key.valid_until)
    except ValueError as error:
        raise Refused("VALIDATION_FAILED", str(error), {"validUntil": "must lie after validFrom"}) from error


def _act(key: KeyCredential) -> Act:
    row = Saga.objects.filter(tenant_id=key.tenant_id, credential_id=key.id).order_by("-position").first()
    return Act(key.id, row.id if row else None)


def _cause(actor: Actor, correlation: str) -> Cause:
    return Cause(correlation_id=correlation, trace_id=actor.trace_id, actor=actor.id)
