"""LockPort of SALTO over the PMS Industry Standard protocol: the property's own server, no cloud.

| verb | supported | how |
|---|---|---|
| issue | card, phone | CN starts a stay, CC joins it; CNM, CCM to a phone. No PIN: the protocol has none |
| update | end and room | MC changes the server's record, the card follows at an updater; a start needs a new card |
| update where two stays have a room | at the encoder | MC would change every guest's card there: hers is written |
| revoke | bounded | no message kills a card: it opens until it expires or the next guest's is used there |
| suspend | not at the door | warned; the bound is the card's expiry |
| list_devices | no | the protocol lists nothing |
| health_check | whether the server answers | asked what it is, which disturbs no log; no battery, no clock |
| Records | yes | WF, WN |
| Lookup, Inventory, Resume, Webhook | no | the protocol has no such question |

One rule: no card is written before the one on the encoder was read. It may carry another guest's live key; and CN is never
repeated blindly, since each CN is a new stay and kills earlier keys.
Whom a key belongs to is written into the operator field (19 of its 24 characters), which a read card gives back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from vendors.port.errors import CardKey, CredentialExpired, LockError, Reason
from vendors.port.manifest import AdapterContext
from vendors.port.types import (
    AccessRecord,
    AdapterDescription,
    CallMeta,
    CallResult,
    CardArtifact,
    CredentialHandle,
    DeviceHealth,
    Door,
    DoorResult,
    Intent,
    IssueInput,
    IssueResult,
    LockCapabilities,
    LockDevice,
    Outcome,
    Propagation,
    RevokeReason,
    SuspendReason,
    UpdateInput,
)
from vendors.port.types import CredentialKind as Kind
from vendors.port.types import (
    Warning as LockWarning,
)
from vendors.support.card_check import another_card, name_of, require_writable
from vendors.support.marks import is_mark, mark_of
from vendors.support.per_door import failed, settle

from .errors import PMS, Refused, Unclear, refused_issue, translate, unreachable
from .local_time import instant_of, wall_end, wall_window
from .manifest_code import CODE
from .places import Places, authorisation_of, places_of
from .pms_audit import LogDates, read_log
from .pms_client import OpenLine, PmsCall, PmsClient, PmsTalk
from .pms_refs import WAITS_TO_JOIN, WAITS_TO_START, PmsRef, open_ref
from .pms_words import (
    GUEST,
    INFO,
    SPARE,
    STAFF,
    CardOrder,
    CardRead,
    PhoneOrder,
    check_out,
    modify,
    parse_card,
    read_card,
)
from .settings import Settings

CAPABILITIES = LockCapabilities(mobile_key=True, card_encoding=True, scope_areas=True)
LAID_PAUSE_S = 1.0
"""A server that says at once that no card lies there is asked again after so long."""
_NO_STAY, _NO_CARD, _NOT_UNDERSTOOD = "EA", "EP", "ES"
CARD_STALE = LockWarning(
    "CARD_MUST_BE_UPDATED", "the card carries the earlier version until it passes a wall reader or the encoder"
)
ONLY_AT_ENCODER = LockWarning(
    CARD_STALE.code, "another stay is in the room: the card carries the earlier version until it is written at the encoder"
)
STAY_MOVES = LockWarning(
    "STAY_MOVES_TOGETHER",
    "the later end holds for every card of the stay that passes a wall reader, a lost one too: replace a lost card first",
)
ONLY_LAST = LockWarning("USE_ONLY_LAST_CARD", "an earlier card may have been written: hand out only the one just made")


@dataclass(frozen=True, slots=True)
class _Made:
    """What came of making a key. `may_be_second`: an earlier attempt may have written a card as well."""

    outcome: Outcome
    error: LockError | None = None
    overwritten: tuple[CardKey, ...] = ()
    may_be_second: bool = False


class _AnswerLost(Exception):
    """The order to write a card was taken, or perhaps taken. `made` is what holds if it was done."""

    def __init__(self, made: _Made, error: LockError) -> None:
        super().__init__(str(error))
        self.made = made
        self.error = error


class SaltoPmsPort:
    """LockPort with Records. `open_line` is for tests that play the server's part byte by byte."""

    def __init__(self, settings: Settings, context: AdapterContext, open_line: OpenLine | None = None) -> None:
        self._settings = settings
        self._context = context
        self._client = PmsClient(settings, context, open_line)

    def issue_credential(self, request: IssueInput) -> IssueResult:
        """Writes a card that a person lays down, or sends a key to a phone. A lost answer is settled by reading the card."""
        kind = self._choose(request)
        places = places_of(request.doors)
        window = wall_window(request.window, self._zone(request.time_zone))
        call = PmsCall(request.meta)
        warnings = list(_replacement_warning(request))
        is_copy = request.intent is Intent.ADDITIONAL
        order = self._order(request, kind, places, window)
        try:
            made = self._card(call, request, order) if kind is Kind.RFID_CARD else self._phone(call, request, order)
        except Refused as refused:
            device_id = request.doors[0].device_id if len(request.doors) == 1 else None
            raise self._client.error(call, refused, device_id) from None
        outcome, error = made.outcome, made.error
        warnings += [ONLY_LAST] if made.may_be_second else []
        if outcome is Outcome.UNKNOWN:
            warnings.append(
                LockWarning("CHECK_CARD_AT_DOOR", "nobody knows whether the key was made: read the card or try the door")
            )
        until = request.window.valid_until
        ref = PmsRef(mark_of(request.meta.idempotency_key), not is_copy, request.window.valid_from, until).seal()
        propagation = Propagation.CONFIRMED if outcome is Outcome.DONE else Propagation.UNKNOWN
        doors = tuple(DoorResult(door.device_id, outcome, ref, propagation, error=error) for door in request.doors)
        artifact = (
            CardArtifact(self._settings.encoder_device_id or request.doors[0].device_id) if kind is Kind.RFID_CARD else None
        )
        return IssueResult(doors, tuple(warnings), call.requests, kind=kind, artifact=artifact, overwritten=made.overwritten)

    def update_credential(self, request: UpdateInput) -> CallResult:
        """Moves the end, and rooms pair by pair.

        Where another stay's guest is in a room the server is told nothing: the card waits to be written at the encoder. So it
        does for one that is only added, as the card joins there. What only a new card can do fails for good: to start a stay
        in a room that is free beside one that the guest has.
        """
        call, handle = PmsCall(request.meta), request.handle
        zone = self._zone(request.time_zone)
        end = wall_end(handle.window.valid_until, zone)
        found: list[DoorResult] = [self._kept(call, handle, door, end) for door in handle.doors]
        pairs = list(zip(request.removed, request.added, strict=False))
        for old, new in pairs:
            is_untold = _is_untold(old) or _is_untold(new)
            moved = self._moved_by_card(request, old, new) if is_untold else self._modified(call, handle, old, new, end)
            found += [moved, self._left_behind(handle, old, moved)]
        found += [self._left_behind(handle, door, None) for door in request.removed[len(pairs) :]]
        only_added = [self._joined_by_card(handle, door) for door in request.added[len(pairs) :]]
        refused = [row for row in only_added if row.outcome is Outcome.FAILED]
        found += [row for row in only_added if row not in refused]
        warnings = [CARD_STALE] if any(r.propagation is Propagation.PROPAGATING for r in found) else []
        if warnings and any(_is_untold(door) for door in (*handle.doors, *request.added, *request.removed)):
            warnings = [ONLY_AT_ENCODER]
        if request.at_encoder and found and all(r.outcome is Outcome.DONE for r in found):
            left_out = {row.device_id for row in refused}
            given = replace(request, added=tuple(door for door in request.added if door.device_id not in left_out))
            found, warnings = self._written_again(call, given, found), []
        found += refused
        refs = [ref for door in (*handle.doors, *request.removed) if (ref := open_ref(door.ref)) and not _is_untold(door)]
        if any(ref.may_last_until < handle.window.valid_until for ref in refs):
            warnings.append(STAY_MOVES)
        if any(ref.starts != handle.window.valid_from for ref in refs):
            warnings.append(LockWarning("START_NOT_CHANGED", "the protocol cannot move a start: the card keeps its own"))
        return CallResult(settle(tuple(found)), tuple(warnings), call.requests)

    def revoke_credential(self, handle: CredentialHandle, reason: RevokeReason, meta: CallMeta) -> CallResult:
        """Says until when the key can go on opening. At checkout the stay is also ended on the server's list.

        CO is sent once, by the stay's first key: it names a room, not a stay, and a late one would check out the next guest.
        It is not sent where another stay's guest is in the room.
        """
        call = PmsCall(meta, revoking=True)
        warnings: list[LockWarning] = []
        if reason is RevokeReason.CHECKOUT and meta.attempt == 1:
            for door in handle.doors:
                ref = open_ref(door.ref)
                is_first = ref is not None and ref.opens_stay and authorisation_of(door.external_id) is None
                if is_first and not _is_untold(door):
                    warnings += self._checked_out(call, door)
        doors = tuple(self._dying(handle, door) for door in handle.doors)
        return CallResult(doors, tuple(warnings), call.requests)

    def suspend_credential(self, handle: CredentialHandle, reason: SuspendReason, meta: CallMeta) -> CallResult:
        """Tells that nothing at the door changes, and until when. No message of the protocol suspends a key."""
        doors = tuple(DoorResult(door.device_id, Outcome.DONE, door.ref, *self._bound(handle, door)) for door in handle.doors)
        warning = LockWarning("SUSPEND_NOT_EFFECTIVE_OFFLINE", "the card goes on opening until it expires")
        return CallResult(doors, (warning,))

    def unsuspend_credential(self, handle: CredentialHandle, meta: CallMeta) -> CallResult:
        """Tells that the key opens, as it did all the time. Raises CredentialExpired when the window is over."""
        if handle.window.valid_until <= self._context.clock.now():
            raise CredentialExpired(CODE, "the window is over")
        return CallResult(tuple(DoorResult(door.device_id, Outcome.DONE, door.ref) for door in handle.doors))

    def list_devices(self, property_id: str) -> tuple[LockDevice, ...]:
        """Returns nothing: the protocol lists no doors. They are registered by hand, by their exact names."""
        return ()

    def health_check(self, door: Door) -> DeviceHealth:
        """Asks whether the server answers. Whether it knows the door, the reading of the door's log tells: any other question
        about a door would move the place in its log."""
        call = PmsCall(CallMeta("health", priority=3))
        try:
            self._client.ask(call, (INFO,))
        except Refused as refused:
            if refused.code != _NOT_UNDERSTOOD:  # an interface that does not know the question answers all the same
                raise self._client.error(call, refused, door.device_id) from None
        except Unclear as unclear:
            raise unclear.error from None
        return DeviceHealth(door.device_id, online=True, checked_at=self._context.clock.now())

    def describe_adapter(self) -> AdapterDescription:
        """Tells code and capabilities without a call."""
        return AdapterDescription(CODE, CAPABILITIES)

    def list_records(self, door: Door, since: datetime, until: datetime) -> tuple[AccessRecord, ...]:
        """Returns the attempts that have reached the server, to the minute, oldest first."""
        dates = LogDates(self._zone("UTC"), self._context.clock.now(), is_month_first=self._settings.is_month_first)
        return read_log(self._client, PmsCall(CallMeta("records", priority=3)), door, (since, until), dates)

    def _choose(self, request: IssueInput) -> Kind:
        for kind in request.preferred_kinds:
            if kind is Kind.RFID_CARD or (kind is Kind.MOBILE_APP and request.holder.phone_e164):
                return kind
        if Kind.MOBILE_APP in request.preferred_kinds and not request.holder.phone_e164:
            raise refused_issue("the holder has no telephone number", Reason.NO_PHONE)
        raise refused_issue("no wanted kind is supported", Reason.KIND_UNSUPPORTED)

    def _zone(self, named: str) -> ZoneInfo:
        return self._settings.time_zone or ZoneInfo(named)

    def _card(self, call: PmsCall, request: IssueInput, order: tuple[str, ...]) -> _Made:
        """Reads the card on the encoder and writes it, over one connection. Raises Refused, LockError."""
        is_repeat = request.meta.attempt > 1 and request.intent is not Intent.ADDITIONAL
        mark = mark_of(request.meta.idempotency_key)
        try:
            with self._client.talk(call) as talk:
                try:
                    card = self._laid_card(talk)
                except (Refused, Unclear, LockError) as nothing_read:
                    if not is_repeat:
                        raise
                    return _Made(Outcome.UNKNOWN, self._as_error(call, nothing_read))
                if is_repeat and card.operator == mark:
                    return _Made(Outcome.DONE)
                overwritten = require_writable(CODE, self._keys_on(card, request), request)
                return self._written(talk, order, _Made(Outcome.DONE, overwritten=overwritten, may_be_second=is_repeat))
        except Unclear as unclear:
            raise unclear.error from None
        except _AnswerLost as lost:
            if self._is_on_card(call, mark):
                return lost.made
            return replace(lost.made, outcome=Outcome.UNKNOWN, error=lost.error)

    def _written(self, talk: PmsTalk, order: tuple[str, ...], made: _Made) -> _Made:
        try:
            talk.ask(order, with_card=True)
        except Unclear as unclear:
            raise _AnswerLost(made, unclear.error) from None
        return made

    def _phone(self, call: PmsCall, request: IssueInput, order: tuple[str, ...]) -> _Made:
        """Sends a key to a phone: a new stay once only, as a phone cannot be read back. Raises Refused, LockError."""
        if request.meta.attempt > 1 and request.intent is not Intent.ADDITIONAL:
            return _Made(Outcome.UNKNOWN, unreachable("a phone's key cannot be read back", Reason.TIMEOUT))
        try:
            self._client.ask(call, order)
        except Unclear as unclear:
            return _Made(Outcome.UNKNOWN, unclear.error)
        return _Made(Outcome.DONE)

    def _laid_card(self, talk: PmsTalk) -> CardRead:
        """Reads the card that a person lays down, as long as the encoder itself would wait for one. Raises Refused, Unclear,
        LockError; an answer that makes no sense is Unclear."""
        for _ in range(max(1, int(self._settings.encoder_timeout_s / LAID_PAUSE_S))):
            try:
                return _read(talk.ask(read_card(self._settings.encoder), with_card=True).fields)
            except Refused as refused:
                if refused.code != _NO_CARD:
                    raise
            self._context.sleep(LAID_PAUSE_S)
        raise Refused(_NO_CARD)

    def _keys_on(self, card: CardRead, request: IssueInput) -> list[CardKey]:
        """The live key on a read card. What the server calls checked out may still open where it is ours: our books decide."""
        if card.what in (STAFF, SPARE):
            return [CardKey(name_of(card.what))]
        is_marked = is_mark(card.operator)
        if card.what != GUEST or not (card.is_current or is_marked):
            return []
        ends = instant_of(card.ends, self._zone(request.time_zone)) if card.ends else None
        if ends is not None and ends <= self._context.clock.now():
            return []
        facts = (card.operator, *card.rooms, card.copy, str(card.starts), str(card.ends))
        return [CardKey(name_of("\x1f".join(facts)), nonce=card.operator if is_marked else None, valid_until=ends)]

    def _is_on_card(self, call: PmsCall, mark: str) -> bool:
        """Reads the card once after a lost answer; whatever else happens, the answer stays lost."""
        try:
            answer = self._client.ask(call, read_card(self._settings.encoder), with_card=True)
            return _read(answer.fields).operator == mark
        except (Refused, Unclear, LockError):
            return False

    def _as_error(self, call: PmsCall, failure: Exception) -> LockError:
        if isinstance(failure, Refused):
            return self._client.error(call, failure)
        if isinstance(failure, Unclear):
            return failure.error
        assert isinstance(failure, LockError)  # noqa: S101 - there is no fourth way to fail
        return failure

    def _order(self, request: IssueInput, kind: Kind, places: Places, window: tuple[datetime, datetime]) -> tuple[str, ...]:
        is_copy, mark = request.intent is Intent.ADDITIONAL, mark_of(request.meta.idempotency_key)
        if kind is Kind.RFID_CARD:
            encoder = self._settings.encoder
            return CardOrder(encoder, places.rooms, *window, mark, is_copy=is_copy, grants=places.grants).fields()
        phone = request.holder.phone_e164 or ""
        return PhoneOrder(phone, places.rooms, *window, mark, is_copy=is_copy, grants=places.grants).fields()

    def _written_again(self, call: PmsCall, request: UpdateInput, found: Sequence[DoorResult]) -> list[DoorResult]:
        """Writes the stay's present state on the guest's own card: a copy, which is harmless to repeat. A guest who left a room
        that she shared for a free one starts her stay there. Raises LockError."""
        handle, there = request.handle, (*request.handle.doors, *request.added)
        places, mark = places_of(there), mark_of(call.meta.idempotency_key)
        window = wall_window(handle.window, self._zone(request.time_zone))
        starts = _starts_stay(there, found)
        order = CardOrder(self._settings.encoder, places.rooms, *window, mark, is_copy=not starts, grants=places.grants)
        own = {held.mark for door in (*there, *request.removed) if (held := open_ref(door.ref))} | {mark}
        try:
            with self._client.talk(call) as talk:
                operator = self._laid_card(talk).operator
                if operator not in own:
                    raise another_card(CODE)
                if not (starts and operator == mark):  # written by the attempt before
                    talk.ask(order.fields(), with_card=True)
        except Refused as refused:
            raise self._client.error(call, refused) from None
        except Unclear as unclear:
            return [DoorResult(r.device_id, Outcome.UNKNOWN, r.ref, Propagation.UNKNOWN, error=unclear.error) for r in found]
        on_card = {door.device_id for door in there}
        opens = {door.device_id: open_ref(door.ref) for door in there}
        rows = []
        for row in found:
            earlier = opens.get(row.device_id)
            until, begins = handle.window.valid_until, handle.window.valid_from
            opens_stay = starts or bool(earlier and earlier.opens_stay)
            ref = PmsRef(mark, opens_stay, begins, until).seal() if row.device_id in on_card else None
            rows.append(DoorResult(row.device_id, Outcome.DONE, ref, Propagation.CONFIRMED))
        return rows

    def _modified(self, call: PmsCall, handle: CredentialHandle, door: Door, to: Door | None, end: datetime) -> DoorResult:
        target = to or door
        if authorisation_of(door.external_id) is not None or (to and authorisation_of(to.external_id) is not None):
            return self._area_kept(handle, target)
        ref = open_ref(door.ref)
        try:
            self._client.ask(call, modify(door.external_id, to.external_id if to else "", end))
        except Refused as refused:
            # The stay moved with its first key, or with the attempt whose answer was lost.
            is_moved = to is not None and refused.code == _NO_STAY and (call.meta.attempt > 1 or not (ref and ref.opens_stay))
            if not is_moved:
                return failed(target, translate(PMS, refused.code, device_id=target.device_id))
        except Unclear as unclear:
            return DoorResult(target.device_id, Outcome.UNKNOWN, door.ref, Propagation.UNKNOWN, error=unclear.error)
        except LockError as error:
            return failed(target, error)
        changed = ref.changed(handle.window).seal() if ref else door.ref
        is_shorter = to is None and ref is not None and handle.window.valid_until < ref.may_last_until
        bound = self._last_until(handle, door) if is_shorter else None
        return DoorResult(target.device_id, Outcome.DONE, changed, Propagation.PROPAGATING, bound)

    def _kept(self, call: PmsCall, handle: CredentialHandle, door: Door, end: datetime) -> DoorResult:
        """Brings a room that the guest keeps to her window; where the card was written so, there is nothing to do."""
        ref, carried = open_ref(door.ref), (handle.window.valid_from, handle.window.valid_until)
        if ref and ref.desired == ref.carried and not ref.waits and (ref.starts, ref.may_last_until) == carried:
            return DoorResult(door.device_id, Outcome.DONE, door.ref)
        return self._by_card(handle, door) if _is_untold(door) else self._modified(call, handle, door, None, end)

    def _by_card(self, handle: CredentialHandle, door: Door) -> DoorResult:
        """Tells that a card goes on as it is until it is written. A phone's key has to be sent anew."""
        if handle.kind is not Kind.RFID_CARD:
            return failed(door, refused_issue("another stay is in the room, and the server changes both: send the key anew"))
        ref = open_ref(door.ref)
        changed = ref.changed(handle.window).seal() if ref else door.ref
        is_shorter = ref is not None and handle.window.valid_until < ref.may_last_until
        bound = self._last_until(handle, door) if is_shorter else None
        return DoorResult(door.device_id, Outcome.DONE, changed, Propagation.PROPAGATING, bound)

    def _moved_by_card(self, request: UpdateInput, old: Door, new: Door) -> DoorResult:
        ref = open_ref(old.ref)
        if authorisation_of(old.external_id) is not None or authorisation_of(new.external_id) is not None:
            return self._area_kept(request.handle, new)
        if request.handle.kind is not Kind.RFID_CARD or ref is None:
            return failed(new, refused_issue("another stay is in the room, and the server moves both: issue the key anew"))
        waits = WAITS_TO_JOIN if request.intent is Intent.ADDITIONAL else WAITS_TO_START
        if waits == WAITS_TO_START and not new.has_other_stay and any(map(_is_begun, request.handle.doors)):
            return failed(
                new, refused_issue("one card cannot start a stay beside a room that it goes on in: issue the key anew")
            )
        waiting = replace(ref.changed(request.handle.window), opens_stay=False, waits=waits)
        return DoorResult(new.device_id, Outcome.DONE, waiting.seal(), Propagation.PROPAGATING)

    def _joined_by_card(self, handle: CredentialHandle, new: Door) -> DoorResult:
        """Lets a room that is only added wait for the card at the encoder where the card joins another stay there, and starts
        none in another room."""
        refs = [held for door in handle.doors if (held := open_ref(door.ref))]
        joins = new.has_other_stay and authorisation_of(new.external_id) is None
        if not joins or handle.kind is not Kind.RFID_CARD or not refs or any(ref.waits == WAITS_TO_START for ref in refs):
            return failed(new, refused_issue("a further room needs a new card: issue the key anew"))
        ref = refs[0]
        waiting = replace(ref.changed(handle.window), opens_stay=False, waits=WAITS_TO_JOIN)
        return DoorResult(new.device_id, Outcome.DONE, waiting.seal(), Propagation.PROPAGATING)

    def _area_kept(self, handle: CredentialHandle, door: Door) -> DoorResult:
        if door.ref is None:
            return failed(door, refused_issue("a further area needs the card on the encoder: issue the key anew"))
        return DoorResult(door.device_id, Outcome.DONE, door.ref, Propagation.PROPAGATING, self._last_until(handle, door))

    def _left_behind(self, handle: CredentialHandle, door: Door, moved: DoorResult | None) -> DoorResult:
        if moved is not None and moved.outcome is not Outcome.DONE:
            error = moved.error or unreachable("the move is not confirmed", Reason.TIMEOUT)
            return DoorResult(door.device_id, moved.outcome, door.ref, Propagation.UNKNOWN, error=error)
        return self._dying(handle, door)

    def _dying(self, handle: CredentialHandle, door: Door) -> DoorResult:
        return DoorResult(door.device_id, Outcome.DONE, None, *self._bound(handle, door))

    def _bound(self, handle: CredentialHandle, door: Door) -> tuple[Propagation, datetime | None]:
        until = self._last_until(handle, door)
        if until <= self._context.clock.now():
            return Propagation.CONFIRMED, None
        return Propagation.PROPAGATING, until

    def _last_until(self, handle: CredentialHandle, door: Door) -> datetime:
        ref = open_ref(door.ref)
        return max(ref.may_last_until, handle.window.valid_until) if ref else handle.window.valid_until

    def _checked_out(self, call: PmsCall, door: Door) -> Sequence[LockWarning]:
        try:
            self._client.ask(call, check_out(door.external_id))
        except (Refused, Unclear, LockError):
            # The list is the vendor's bookkeeping: who gets in does not depend on it, and the bound stands without it.
            return (LockWarning("ROOM_STATUS_NOT_CONFIRMED", f"the list may still show {door.label or 'the room'} occupied"),)
        return ()


def _is_untold(door: Door) -> bool:
    """Says whether the server is told nothing of a stay's change in the room: it would change another stay's, or has not heard
    that this one is there."""
    ref = open_ref(door.ref)
    return door.has_other_stay or bool(ref and ref.waits)


def _is_begun(door: Door) -> bool:
    """Says whether a card goes on in the room, rather than starts its stay there."""
    ref = open_ref(door.ref)
    return authorisation_of(door.external_id) is None and (door.has_other_stay or not (ref and ref.waits == WAITS_TO_START))


def _starts_stay(there: Sequence[Door], found: Sequence[DoorResult]) -> bool:
    """Says whether a card starts its stay in the rooms that are written on it, rather than joins. Raises LockError where it
    would have to do both: starting would end keys in the other rooms."""
    refs = {row.device_id: open_ref(row.ref) for row in found}
    rooms = [door for door in there if authorisation_of(door.external_id) is None]
    starting = {door.device_id for door in rooms if (ref := refs.get(door.device_id)) and ref.waits == WAITS_TO_START}
    starting -= {door.device_id for door in there if door.has_other_stay}
    if starting and len(starting) < len(rooms):
        raise refused_issue("one card cannot start a stay in one room and go on in another: issue the key anew")
    return bool(starting)


def _read(fields: Sequence[str]) -> CardRead:
    try:
        return parse_card(fields)
    except ValueError:
        raise Unclear(unreachable("the read card makes no sense", Reason.TIMEOUT)) from None


def _replacement_warning(request: IssueInput) -> Sequence[LockWarning]:
    if request.intent is not Intent.REPLACEMENT:
        return ()
    detail = "the protocol cannot cancel one card alone: companions' cards die when this one is used, and must be made again"
    return (LockWarning("COMPANIONS_NEED_NEW_CARDS", detail),)
