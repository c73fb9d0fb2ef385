"""LockPort of SALTO over the PMS Industry Standard protocol: the property's own server, no cloud.

| verb | supported | how |
|---|---|---|
| issue | card, phone | CN starts a stay, CC joins it; CNM, CCM to a phone. No PIN: the protocol has none |
| update | end and room | MC changes the server's record, the card follows at an updater; a start needs a new card |
| revoke | bounded | no message kills a card: it opens until it expires or the next guest's is used there |
| suspend | not at the door | warned; the bound is the card's expiry |
| list_devices | no | the protocol lists nothing |
| health_check | the server's answer for the door | a door's log is asked for; no battery, no clock |
| Records | yes | WF, WN |
| Lookup, Inventory, Resume, Webhook | no | the protocol has no such question |

One rule: CN is never repeated before the card on the encoder was read, since each CN is a new stay and kills earlier keys.
Whom a key belongs to is written into the operator field (19 of its 24 characters), which a read card gives back.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from vendors.port.errors import CredentialExpired, DeviceNotPaired, LockError, Reason
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
from vendors.support.marks import mark_of
from vendors.support.per_door import failed, settle

from .errors import PMS, Refused, Unclear, refused_issue, translate, unreachable
from .local_time import wall_end, wall_window
from .manifest_code import CODE
from .places import Places, authorisation_of, places_of
from .pms_audit import LogDates, read_log
from .pms_client import OpenLine, PmsCall, PmsClient
from .pms_refs import PmsRef, open_ref
from .pms_words import CardOrder, PhoneOrder, check_out, modify, parse_card, read_audit, read_card
from .settings import Settings

CAPABILITIES = LockCapabilities(mobile_key=True, card_encoding=True, scope_areas=True)
_NO_STAY = "EA"
CARD_STALE = LockWarning(
    "CARD_MUST_BE_UPDATED", "the card carries the earlier version until it passes a wall reader or the encoder"
)
STAY_MOVES = LockWarning(
    "STAY_MOVES_TOGETHER",
    "the later end holds for every card of the stay that passes a wall reader, a lost one too: replace a lost card first",
)
ONLY_LAST = LockWarning("USE_ONLY_LAST_CARD", "an earlier card may have been written: hand out only the one just made")


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
        outcome, error = Outcome.DONE, None
        proof = None if is_copy else self._proof_of_earlier(call, request, kind)
        if proof is None or proof is False:
            warnings += [ONLY_LAST] if proof is False else []
            outcome, error = self._make(call, request, kind, places, window)
        elif isinstance(proof, LockError):
            outcome, error = Outcome.UNKNOWN, proof
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
        return IssueResult(doors, tuple(warnings), call.requests, kind=kind, artifact=artifact)

    def update_credential(self, request: UpdateInput) -> CallResult:
        """Moves the end, and rooms pair by pair. A room that is only added needs the card on the encoder and fails for good."""
        call, handle = PmsCall(request.meta), request.handle
        zone = self._zone(request.time_zone)
        end = wall_end(handle.window.valid_until, zone)
        found: list[DoorResult] = [self._modified(call, handle, door, None, end) for door in handle.doors]
        pairs = list(zip(request.removed, request.added, strict=False))
        for old, new in pairs:
            moved = self._modified(call, handle, old, new, end)
            found += [moved, self._left_behind(handle, old, moved)]
        found += [self._left_behind(handle, door, None) for door in request.removed[len(pairs) :]]
        for door in request.added[len(pairs) :]:
            found.append(failed(door, refused_issue("a further room needs the card on the encoder: issue the key anew")))
        warnings = [CARD_STALE] if any(r.propagation is Propagation.PROPAGATING for r in found) else []
        if request.at_encoder and all(r.outcome is Outcome.DONE for r in found):
            found, warnings = self._written_again(call, request, found), []
        refs = [ref for door in (*handle.doors, *request.removed) if (ref := open_ref(door.ref))]
        if any(ref.may_last_until < handle.window.valid_until for ref in refs):
            warnings.append(STAY_MOVES)
        if any(ref.starts != handle.window.valid_from for ref in refs):
            warnings.append(LockWarning("START_NOT_CHANGED", "the protocol cannot move a start: the card keeps its own"))
        return CallResult(settle(tuple(found)), tuple(warnings), call.requests)

    def revoke_credential(self, handle: CredentialHandle, reason: RevokeReason, meta: CallMeta) -> CallResult:
        """Says until when the key can go on opening. At checkout the stay is also ended on the server's list.

        CO is sent once, by the stay's first key: it names a room, not a stay, and a late one would check out the next guest.
        """
        call = PmsCall(meta, revoking=True)
        warnings: list[LockWarning] = []
        if reason is RevokeReason.CHECKOUT and meta.attempt == 1:
            for door in handle.doors:
                ref = open_ref(door.ref)
                if ref is not None and ref.opens_stay and authorisation_of(door.external_id) is None:
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
        """Asks the server for the door's log. Raises DeviceNotPaired when it does not know the door."""
        call = PmsCall(CallMeta("health", priority=3))
        if authorisation_of(door.external_id) is None:
            try:
                self._client.ask(call, read_audit(door.external_id))
            except Refused as refused:
                if refused.code in ("TD", "WE"):
                    raise DeviceNotPaired(CODE, "the vendor has no door of this name", device_id=door.device_id) from None
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
        raise refused_issue("no wanted kind is supported", Reason.KIND_UNSUPPORTED)

    def _zone(self, named: str) -> ZoneInfo:
        return self._settings.time_zone or ZoneInfo(named)

    def _proof_of_earlier(self, call: PmsCall, request: IssueInput, kind: Kind) -> bool | LockError | None:
        """Asks whether an earlier attempt made the key: None on the first, True when the card says so, False when the card
        says no, an error when nobody can tell."""
        if request.meta.attempt == 1:
            return None
        if kind is Kind.MOBILE_APP:
            return unreachable("a phone's key cannot be read back", Reason.TIMEOUT)
        return self._read_back(call, mark_of(request.meta.idempotency_key))

    def _read_back(self, call: PmsCall, mark: str) -> bool | LockError:
        try:
            answer = self._client.ask(call, read_card(self._settings.encoder), with_card=True)
            return parse_card(answer.fields).operator == mark
        except Refused as refused:
            return self._client.error(call, refused)
        except Unclear as unclear:
            return unclear.error
        except ValueError:
            return unreachable("the read card makes no sense", Reason.TIMEOUT)

    def _make(
        self, call: PmsCall, request: IssueInput, kind: Kind, places: Places, window: tuple[datetime, datetime]
    ) -> tuple[Outcome, LockError | None]:
        fields = self._order(request, kind, places, window)
        try:
            self._client.ask(call, fields, with_card=kind is Kind.RFID_CARD)
        except Refused as refused:
            device_id = request.doors[0].device_id if len(request.doors) == 1 else None
            raise self._client.error(call, refused, device_id) from None
        except Unclear as unclear:
            if kind is Kind.RFID_CARD and self._read_back_quietly(call, request):
                return Outcome.DONE, None
            return Outcome.UNKNOWN, unclear.error
        return Outcome.DONE, None

    def _read_back_quietly(self, call: PmsCall, request: IssueInput) -> bool:
        """Reads the card once after a lost answer; whatever else happens, the answer stays lost."""
        try:
            return self._read_back(call, mark_of(request.meta.idempotency_key)) is True
        except LockError:
            return False

    def _order(self, request: IssueInput, kind: Kind, places: Places, window: tuple[datetime, datetime]) -> tuple[str, ...]:
        is_copy, mark = request.intent is Intent.ADDITIONAL, mark_of(request.meta.idempotency_key)
        if kind is Kind.RFID_CARD:
            encoder = self._settings.encoder
            return CardOrder(encoder, places.rooms, *window, mark, is_copy=is_copy, grants=places.grants).fields()
        phone = request.holder.phone_e164 or ""
        return PhoneOrder(phone, places.rooms, *window, mark, is_copy=is_copy, grants=places.grants).fields()

    def _written_again(self, call: PmsCall, request: UpdateInput, found: Sequence[DoorResult]) -> list[DoorResult]:
        """Writes the stay's present state on the card that lies on the encoder: a copy, which is harmless to repeat."""
        handle, there = request.handle, (*request.handle.doors, *request.added)
        places, mark = places_of(there), mark_of(call.meta.idempotency_key)
        window = wall_window(handle.window, self._zone(request.time_zone))
        order = CardOrder(self._settings.encoder, places.rooms, *window, mark, is_copy=True, grants=places.grants)
        try:
            self._client.ask(call, order.fields(), with_card=True)
        except Refused as refused:
            raise self._client.error(call, refused) from None
        except Unclear as unclear:
            return [DoorResult(r.device_id, Outcome.UNKNOWN, r.ref, Propagation.UNKNOWN, error=unclear.error) for r in found]
        on_card = {door.device_id for door in there}
        opens = {door.device_id: open_ref(door.ref) for door in there}
        rows = []
        for row in found:
            earlier = opens.get(row.device_id)
            until, starts = handle.window.valid_until, handle.window.valid_from
            ref = PmsRef(mark, bool(earlier and earlier.opens_stay), starts, until).seal() if row.device_id in on_card else None
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


def _replacement_warning(request: IssueInput) -> Sequence[LockWarning]:
    if request.intent is not Intent.REPLACEMENT:
        return ()
    detail = "the protocol cannot cancel one card alone: companions' cards die when this one is used, and must be made again"
    return (LockWarning("COMPANIONS_NEED_NEW_CARDS", detail),)
