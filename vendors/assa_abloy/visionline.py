"""LockPort against a Visionline server.

| verb | supported | how |
|---|---|---|
| issue rfid_card, nfc_tag | yes | written by the encoder, or registered by its number where all doors are on the network |
| issue mobile_app | yes | a key for the guest's phone; needs the server's mobile option |
| issue pin_code, qr_code | no | the locks have no keypad and read no codes |
| update | yes | a new joiner takes the old key's place, then the old one is cancelled |
| suspend, unsuspend | yes | cancelled; made again as a joiner of the cancelled key's stay |
| revoke | yes | cancelled; where other doors remain, a joiner for those takes its place |
| Lookup, Inventory, Records | yes | our label; the log of networked doors |
| Webhook | yes | through a relay that signs with our own scheme: the payload of the server's callback is not public |

`new` and `replacement` override: the key, when used, ends every earlier one at its rooms. `additional` joins. A change never
overrides, so that companions stay in.

One rule: what may have happened is looked up before it is asked for again. A card that holds a valid key of somebody else is
written only after a person has confirmed that key: the server refuses it otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar
from urllib.parse import quote

from vendors.port.errors import (
    CardKey,
    CredentialExpired,
    KeyIssueFailed,
    KeyRevokeFailed,
    LockError,
)
from vendors.port.manifest import AdapterContext
from vendors.port.types import (
    AccessRecord,
    AdapterDescription,
    Artifact,
    CallMeta,
    CallResult,
    CredentialHandle,
    CredentialKind,
    DeviceHealth,
    Door,
    DoorResult,
    FoundKey,
    FoundPage,
    Intent,
    IssueInput,
    IssueResult,
    LockDevice,
    Outcome,
    Propagation,
    RevokeReason,
    SuspendReason,
    UpdateInput,
    Warning,  # noqa: A004 - the contract calls it so
    Window,
)
from vendors.support.card_check import another_card, name_of, require_writable
from vendors.support.marks import tag_of
from vendors.support.per_door import settle
from vendors.support.signatures import is_signed

from .calls import Call, asked
from .errors import CARD_IN_USE, DOOR_UNKNOWN, Refused, Unclear
from .keys import (
    CARD_KINDS,
    INVITED,
    Listed,
    card_artifact,
    check_card,
    choose_kind,
    external_id,
    gone,
    label_of,
    listed,
    mark_in,
    phone_artifact,
    reached,
    receiver_of,
    refused_door,
    stale_card,
    unknown_doors,
    vendor_id,
)
from .local_time import from_wall, is_twice, on_wall, to_wall
from .manifest import MANIFEST
from .reach import Reach
from .reading import reading, rows_in
from .settings import VisionlineSettings
from .visionline_cards import Card, Cards, Wanted, card_id_in
from .visionline_client import VisionlineClient
from .visionline_rows import devices_in, is_reachable, kind_in, number_or_text

SIGNATURE_HEADER = "x-webhook-signature"
ELSEWHERE = "unknown"
"""Stands before the id of a door of a type nobody knows, which no lock of ours has."""

OVERRIDES = frozenset({Intent.NEW, Intent.REPLACEMENT})
_READ = CallMeta("read", priority=3)

T = TypeVar("T")


class VisionlinePort:
    """LockPort of one server."""

    def __init__(self, settings: VisionlineSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._client = VisionlineClient(settings, context)
        self._cards = Cards(self._client, settings)

    def issue_credential(self, request: IssueInput) -> IssueResult:
        """Gives a key at all doors at once. Waits for a card on the encoder where one is needed."""
        kind = choose_kind(request.preferred_kinds)
        check_card(kind, listed(request.doors, request.scope.areas, self._settings.common_doors))
        return self._asked(Call(request.meta), lambda call: self._issue(call, request, kind))

    def update_credential(self, request: UpdateInput) -> CallResult:
        """Puts a new joiner in the old key's place. While an added door is refused, the removal waits.

        A key that gains rooms and keeps none overrides there, as a guest who moves does; one that keeps some joins, and so
        does a companion's. At the encoder the guest's card itself is written again.
        """
        return self._asked(Call(request.meta), lambda call: self._update(call, self._reach(call).of_change(request)))

    def revoke_credential(self, handle: CredentialHandle, reason: RevokeReason, meta: CallMeta) -> CallResult:
        """Cancels the key. A card goes on opening locks off the network until the next guest's key, or until it ends."""
        return self._asked(Call(meta, revoking=True), lambda call: self._revoke(call, self._reach(call).of_key(handle)))

    def suspend_credential(self, handle: CredentialHandle, reason: SuspendReason, meta: CallMeta) -> CallResult:
        """Cancels the key and keeps its reference, by which it is made again."""

        def rest(call: Call) -> CallResult:
            doors = self._reach(call).of_key(handle).doors
            for card in self._of_handle(call, handle):
                if card.is_live:
                    self._cards.withdraw(call, card)
            until = handle.window.valid_until
            return CallResult(tuple(replace(gone(d, until), ref=d.ref) for d in doors), calls=call.requests)

        return self._asked(Call(meta, revoking=True), rest)

    def unsuspend_credential(self, handle: CredentialHandle, meta: CallMeta) -> CallResult:
        """Makes the key again in the handle's window. Raises CredentialExpired when that is over."""
        if handle.window.valid_until <= self._context.clock.now():
            raise CredentialExpired(MANIFEST.code, "the window is over")
        return self._asked(Call(meta), lambda call: self._wake(call, self._reach(call).of_key(handle)))

    def list_devices(self, property_id: str) -> tuple[LockDevice, ...]:
        """Lists the server's doors."""

        def look(call: Call) -> tuple[LockDevice, ...]:
            answer = self._client.ask(call, "GET", "/api/v1/doors", query={"details": "true"})
            with reading():
                return tuple(devices_in(rows_in(answer.body), self._settings.door_types, self._offset_s()))

        return self._asked(Call(_READ), look)

    def health_check(self, door: Door) -> DeviceHealth:
        """Reads one door. The server tells whether a networked lock answers, and neither battery nor clock."""

        def look(call: Call) -> DeviceHealth:
            online, now = self._answers(call, door), self._context.clock.now()
            return DeviceHealth(door.device_id, online=online, checked_at=now, utc_offset_s=self._offset_s())

        return self._asked(Call(_READ), look)

    def describe_adapter(self) -> AdapterDescription:
        """Tells the best a lock can do."""
        return AdapterDescription(MANIFEST.code, MANIFEST.capabilities)

    def find(self, handle: CredentialHandle, meta: CallMeta) -> tuple[FoundKey, ...]:
        """Returns the credential's live key at each of the handle's doors."""

        def look(call: Call) -> tuple[FoundKey, ...]:
            names = listed(handle.doors).guest
            cards = self._cards.of_credential(call, handle.credential_id, names, handle.window)
            return tuple(_found(door, card) for door in handle.doors for card in cards if card.doors.names(door))

        return self._asked(Call(meta), look)

    def list_keys(self, door: Door, cursor: str | None) -> FoundPage:
        """Returns the keys valid at the room now, ours and strangers', in one page: the server looks at one instant."""

        def look(call: Call) -> FoundPage:
            cards = self._cards.at_door(call, vendor_id(door), self._context.clock.now())
            return FoundPage(tuple(_found(door, card) for card in cards if card.is_live), None)

        return self._asked(Call(_READ), look)

    def list_records(self, door: Door, since: datetime, until: datetime) -> tuple[AccessRecord, ...]:
        """Returns what a networked door reported in the span, oldest first. Low confidence: the path is assumed."""

        def look(call: Call) -> tuple[AccessRecord, ...]:
            zone = self._settings.zone
            query = {"door": vendor_id(door), "from": to_wall(since, zone), "to": to_wall(until, zone)}
            rows = rows_in(self._client.ask(call, "GET", "/api/v1/events", query=query).body)
            with reading():
                records = [self._record(row, door) for row in rows]
                span = [record for record in records if since <= record.attempted_at < until]
            return tuple(sorted(span, key=lambda record: record.attempted_at))

        return self._asked(Call(_READ), look)

    def verify(self, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
        """Says whether the relay in front of us signed the push with a webhook secret; without one none is genuine."""
        lowered = {name.lower(): value for name, value in headers.items()}
        return is_signed(lowered.get(SIGNATURE_HEADER), body, self._settings.webhook_secrets, now)

    def parse(self, body: bytes) -> tuple[AccessRecord, ...]:
        """Reads the openings in a push `{"events": […]}`. Raises ValueError for anything else."""
        document = json.loads(body)
        if not isinstance(document, dict) or not isinstance(document.get("events"), list):
            raise ValueError("the push holds no events")  # noqa: TRY004 - what came is at fault, not a type of ours
        try:
            return tuple(self._record(row) for row in document["events"])
        except (KeyError, TypeError) as error:
            raise ValueError("an event lacks a part") from error

    # --- one verb, inside

    def _issue(self, call: Call, request: IssueInput, kind: CredentialKind) -> IssueResult:
        killed = self._others(call, request) if request.intent is Intent.REPLACEMENT else ()
        card, refused = None, dict[str, LockError]()
        if call.meta.attempt > 1:
            card = self._earlier(call, request)
        wanted = Wanted(
            kind,
            listed(request.doors, request.scope.areas, self._settings.common_doors),
            request.window,
            label_of(request.meta.idempotency_key, request.credential_id),
            overrides=request.intent in OVERRIDES,
            serial=self._serial(request, kind),
            receiver=receiver_of(request.holder) if kind is CredentialKind.MOBILE_APP else {},
        )
        if card is None:
            card, refused = self._made(call, wanted, request.doors, request.credential_id, request)
        else:
            missing = [door for door in request.doors if not card.doors.names(door)]
            more = card.doors.with_doors(listed(missing))
            is_late = kind in CARD_KINDS and card.window != on_wall(request.window, self._settings.zone)
            wanted = replace(wanted, doors=more, overrides=False, rewrites=is_late and wanted.serial is None)
            card, refused = self._replaced(call, card, wanted, missing, request)
        doors = self._settled(request.doors, card, refused, is_new=True)
        return IssueResult(
            doors=settle(doors),
            warnings=self._warnings(request.window, kind, card),
            calls=call.requests,
            also_killed=killed,
            kind=kind,
            artifact=self._artifact(call, request, kind, card),
            overwritten=call.overwritten,
        )

    def _made(
        self, call: Call, wanted: Wanted, doors: Sequence[Door], credential_id: str, request: IssueInput | None = None
    ) -> tuple[Card | None, dict[str, LockError]]:
        """Makes a key, leaving out doors the server does not know, and looks for it when the answer was lost.

        Returns it, and errors for those of `doors` that were left out. `request` is there for a new key: what it confirms may
        be overwritten on the card.
        """
        refused: dict[str, LockError] = {}
        while wanted.doors.guest:
            try:
                return self._cards.make(call, wanted), refused
            except Unclear as unclear:
                seen = self._cards.of_credential(call, credential_id, wanted.doors.guest[:1], wanted.window)
                same = [card for card in seen if card.label == wanted.label]
                if not same:
                    raise unclear from None
                return same[0], refused
            except Refused as no:
                if no.code == CARD_IN_USE and not wanted.overwrites_card:
                    wanted = self._confirmed(call, wanted, request)
                    continue
                known = wanted.doors.without(Listed(no.doors, no.doors))
                if no.code != DOOR_UNKNOWN or known == wanted.doors:
                    raise
                refused |= {d.device_id: self._client.error(call, no, d.device_id) for d in unknown_doors(doors, no)}
                wanted = replace(wanted, doors=known)
        return None, refused

    def _confirmed(self, call: Call, wanted: Wanted, request: IssueInput | None) -> Wanted:
        """Returns the same key, to be written over what the card carries. Raises KeyIssueFailed where nobody confirmed that."""
        held = self._held(call, wanted)
        if request is None:
            raise another_card(MANIFEST.code, held[0] if held else None)
        call.overwritten = require_writable(MANIFEST.code, held or [CardKey("")], request)
        return replace(wanted, overwrites_card=True)

    def _held(self, call: Call, wanted: Wanted) -> list[CardKey]:
        """The valid keys of the card; none where the server does not say which."""
        try:
            cards = self._cards.of_number(call, wanted.serial) if wanted.serial else self._cards.on_encoder(call)
        except (Refused, Unclear):
            return []
        return [_on_card(card) for card in cards]

    def _require_own(self, call: Call, own: Card) -> None:
        """Raises KeyIssueFailed where another card lies on the encoder than the one this key is on."""
        held = self._cards.on_encoder(call)
        if not any(card.id == own.id or (card.tag is not None and card.tag == own.tag) for card in held):
            raise another_card(MANIFEST.code, _on_card(held[0]) if held else None)

    def _require_still_own(self, call: Call, serial: str, credential_id: str) -> None:
        """Raises KeyIssueFailed where the card of this number was written for somebody else since. The server lets that happen
        while a key rests, since it is cancelled there."""
        others = [card for card in self._cards.of_number(call, serial) if card.tag != tag_of(credential_id)]
        if others:
            raise another_card(MANIFEST.code, _on_card(others[0]))

    def _replaced(
        self, call: Call, old: Card, wanted: Wanted, doors: Sequence[Door], source: IssueInput | CredentialHandle
    ) -> tuple[Card, dict[str, LockError]]:
        """Puts a new joiner in a key's place and cancels the old one. Nothing is done where nothing would change, except
        that a card on the encoder is written; nor where the server knows no room of the new one. `doors` as in `_made`."""
        is_same = old.is_live and old.doors == wanted.doors and old.window == on_wall(wanted.window, self._settings.zone)
        if is_same and (not wanted.rewrites or old.label == wanted.label):
            return old, {}
        wanted = replace(
            wanted,
            joins=None if wanted.overrides else old.id_sent,
            serial=None if wanted.rewrites else old.serial,
            overwrites_card=wanted.overwrites_card or (old.serial is not None and not wanted.rewrites),
            receiver={"endpointId": old.endpoint_id} if old.endpoint_id else wanted.receiver,
        )
        if wanted.serial is not None:
            self._require_still_own(call, wanted.serial, source.credential_id)
        if wanted.kind in CARD_KINDS and old.serial is None and not wanted.rewrites:
            raise KeyIssueFailed(MANIFEST.code, "the card's number is not known: write it again at the desk", retriable=False)
        request = source if isinstance(source, IssueInput) else None
        card, refused = self._made(call, wanted, doors, source.credential_id, request)
        if card is None:
            return old, refused
        if card.id != old.id and old.is_live:
            self._cards.withdraw(call, old)
        return card, refused

    def _update(self, call: Call, request: UpdateInput) -> CallResult:
        handle = request.handle
        every = (*handle.doors, *request.added, *request.removed)
        window, until = handle.window, handle.window.valid_until
        cards = [card for card in self._of_handle(call, replace(handle, doors=every)) if card.is_live]
        if not cards:
            if not handle.doors and not request.added:
                return CallResult(tuple(gone(d, until) for d in every), calls=call.requests)
            raise KeyIssueFailed(MANIFEST.code, "the key is gone or overridden", retriable=False)
        label = label_of(call.meta.idempotency_key, handle.credential_id)
        # After a lost answer both are there: the newer is the one that carries this change's mark.
        cards.sort(key=lambda card: card.label == label)
        old = cards[-1]
        for stale in cards[:-1]:
            self._cards.withdraw(call, stale)
        given = (*handle.doors, *request.added)
        kept = old.doors.with_doors(listed(given)).without(listed(request.removed))
        if not kept.guest:
            self._cards.withdraw(call, old)
            return CallResult(tuple(gone(d, max(until, old.window.valid_until)) for d in every), calls=call.requests)
        until = max(until, old.window.valid_until)  # what the card carries may end later than what was asked for
        is_move = not set(kept.guest) & set(old.doors.guest)
        rewrites = request.at_encoder and handle.kind in CARD_KINDS
        if rewrites:
            self._require_own(call, old)
        overrides = is_move and request.intent is not Intent.ADDITIONAL
        wanted = Wanted(handle.kind, kept, window, label, overrides=overrides, rewrites=rewrites, overwrites_card=rewrites)
        card, refused = self._replaced(call, old, wanted, given, handle)
        is_stuck = card is old and bool(refused)  # the server knows no room of the changed key
        keeps_old = is_stuck or any(door.device_id in refused for door in request.added)
        if keeps_old and request.removed:  # the new room failed: the guest keeps the old one
            known = [door for door in handle.doors if door.device_id not in refused]
            back = replace(wanted, doors=old.doors.with_doors(listed(known)), overrides=False)
            if card.id != old.id:
                card, _ = self._replaced(call, card, back, (), handle)
        waits = KeyRevokeFailed(MANIFEST.code, "waits until the new door has the key")
        rows = [*self._settled(given, None if is_stuck else card, refused, until, is_new=rewrites)]
        rows += [refused_door(d, waits) if keeps_old else gone(d, until) for d in request.removed]
        late = () if rewrites and not refused else stale_card(handle.kind, rows)
        return CallResult(settle(tuple(rows)), late, call.requests)

    def _revoke(self, call: Call, handle: CredentialHandle) -> CallResult:
        until = handle.window.valid_until
        for card in self._of_handle(call, handle):
            if card.kind in CARD_KINDS and not all(door.has_remote for door in handle.doors):
                until = max(until, self._cards.carried_until(call, card))
            if not card.is_live:
                continue
            left = card.doors.without(listed(handle.doors))
            if left.guest and card.serial is None and card.endpoint_id is None:
                raise KeyRevokeFailed(MANIFEST.code, "the card's number is not known: write it again at the desk")
            if left.guest:
                label = label_of(call.meta.idempotency_key, handle.credential_id)
                successor, _ = self._replaced(call, card, Wanted(card.kind, left, card.window, label), (), handle)
            if not left.guest or (successor is card and left != card.doors):
                self._cards.withdraw(call, card)
        return CallResult(tuple(gone(door, until) for door in handle.doors), calls=call.requests)

    def _wake(self, call: Call, handle: CredentialHandle) -> CallResult:
        """Makes the key again at the handle's rooms; where one stands already, at these too."""
        cards = self._of_handle(call, handle, and_live=True)
        live = [card for card in cards if card.is_live]
        if not cards:
            raise KeyIssueFailed(MANIFEST.code, "the key is gone", retriable=False)
        old = (live or self._own_of_number(call, cards[-1], handle.credential_id) or cards)[-1]
        doors = (old.doors if old.is_live else Listed((), old.doors.common)).with_doors(listed(handle.doors))
        wanted = Wanted(handle.kind, doors, handle.window, label_of(call.meta.idempotency_key, handle.credential_id))
        card, refused = self._replaced(call, old, wanted, handle.doors, handle)
        rows = self._settled(handle.doors, card if card.is_live else None, refused)
        return CallResult(settle(rows), stale_card(handle.kind, rows), call.requests)

    # --- what is there

    def _own_of_number(self, call: Call, card: Card, credential_id: str) -> list[Card]:
        """Returns the credential's valid keys on a cancelled one's card: another call may have made them for other rooms."""
        seen = self._cards.of_number(call, card.serial) if card.serial is not None else []
        return [other for other in seen if other.tag == tag_of(credential_id)]

    def _of_handle(self, call: Call, handle: CredentialHandle, *, and_live: bool = False) -> list[Card]:
        """Returns the credential's keys: by reference, and on later attempts also by label, since an earlier attempt may have
        put another in its place."""
        ids = sorted({ref for door in handle.doors if (ref := card_id_in(door.ref))})
        cards = [card for card_id in ids if (card := self._cards.read(call, card_id)) is not None]
        if call.meta.attempt > 1 or and_live or not any(card.is_live for card in cards):
            names = listed(handle.doors).guest or tuple(name for card in cards for name in card.doors.guest)
            seen = self._cards.of_credential(call, handle.credential_id, names, handle.window)
            cards += [card for card in seen if card.id not in ids]
        return cards

    def _earlier(self, call: Call, request: IssueInput) -> Card | None:
        names = listed(request.doors).guest
        found = self._cards.of_credential(call, request.credential_id, names, request.window)
        return found[0] if found else None

    def _others(self, call: Call, request: IssueInput) -> tuple[str, ...]:
        """Returns the tags of keys an overriding key kills beside the one it replaces."""
        own = {tag_of(request.credential_id)}
        if request.replaces is not None:
            own.add(tag_of(request.replaces.credential_id))
        at = max(self._context.clock.now(), request.window.valid_from)
        cards = [c for name in listed(request.doors).guest for c in self._cards.at_door(call, name, at)]
        return tuple(sorted({c.tag for c in cards if c.is_live and c.tag is not None and c.tag not in own}))

    def _serial(self, request: IssueInput, kind: CredentialKind) -> str | None:
        """Returns the card's number where it need not be written: the doors ask the server about it."""
        is_known = self._settings.has_online_cards and request.card_number is not None
        if kind not in CARD_KINDS or not is_known or not all(door.has_remote for door in request.doors):
            return None
        assert request.card_number is not None  # noqa: S101 - is_known says so
        return request.card_number.reveal()

    # --- parts of answers

    def _settled(
        self,
        doors: Sequence[Door],
        card: Card | None,
        refused: Mapping[str, LockError],
        until: datetime | None = None,
        *,
        is_new: bool = False,
    ) -> tuple[DoorResult, ...]:
        """Returns one result a door. `until` is when the last key ends that the holder may still carry."""
        rows = []
        for door in doors:
            if card is None or door.device_id in refused:
                error = refused.get(door.device_id) or KeyIssueFailed(MANIFEST.code, "no door took the key", retriable=False)
                rows.append(refused_door(door, error))
                continue
            propagation, not_after = reached(door, until or card.window.valid_until)
            if is_new:
                waits = card.kind is CredentialKind.MOBILE_APP and not card.is_delivered
                propagation = Propagation.PROPAGATING if waits else Propagation.CONFIRMED
                not_after = card.window.valid_until if waits else None
            rows.append(DoorResult(door.device_id, Outcome.DONE, card.ref, propagation, not_after))
        return tuple(rows)

    def _artifact(self, call: Call, request: IssueInput, kind: CredentialKind, card: Card | None) -> Artifact | None:
        if card is None:
            return None
        if kind in CARD_KINDS:
            return card_artifact(None if card.serial and self._serial(request, kind) else self._settings.encoder, request.doors)
        endpoint, code = card.endpoint_id, card.invitation_code
        if code is None and not card.is_delivered:  # the answer that carried the code was lost
            endpoint, code = self._cards.invite(call, card, receiver_of(request.holder))
        return phone_artifact(endpoint, code, request.credential_id)

    def _warnings(self, window: Window, kind: CredentialKind, card: Card | None) -> tuple[Warning, ...]:
        found = []
        if kind is CredentialKind.MOBILE_APP and card is not None and card.invitation_code:
            found.append(INVITED)
        if any(is_twice(at, self._settings.zone) for at in (window.valid_from, window.valid_until)):
            found.append(Warning("WALL_TIME_TWICE", "the key starts or ends in an hour the locks' clocks show twice"))
        return tuple(found)

    def _record(self, row: Mapping[str, object], asked_of: Door | None = None) -> AccessRecord:
        return AccessRecord(
            external_event_id=str(row["id"]),
            device_external_id=self._door_of(row, asked_of),
            outcome="granted" if row["granted"] else "denied",
            attempted_at=_at(row, self._settings),
            deny_reason=str(row["reason"]) if row.get("reason") else None,
            nonce=mark_in(row.get("label")),
            kind=CredentialKind(str(row["keyKind"])) if row.get("keyKind") else None,
        )

    def _door_of(self, row: Mapping[str, object], asked_of: Door | None) -> str:
        """Returns the id a row's door has with us: a bedroom where it names no type, nobody's where we do not know the type."""
        name = str(number_or_text(row, "door"))
        if asked_of is not None and name == vendor_id(asked_of):
            return asked_of.external_id
        if row.get("doorType") is None:
            return name
        kind = kind_in(row["doorType"], self._settings.door_types)
        return external_id(kind, name) if kind is not None else f"{ELSEWHERE}:{name}"

    def _offset_s(self) -> int | None:
        """Returns how far from UTC the server's wall times are taken to be, by the installation's setting, on the first of the
        year: the same in summer and winter."""
        new_year = self._context.clock.now().replace(month=1, day=1)
        offset = new_year.astimezone(self._settings.zone).utcoffset()
        return int(offset.total_seconds()) if offset is not None else None

    def _reach(self, call: Call) -> Reach:
        return Reach(lambda door: self._answers(call, door))

    def _answers(self, call: Call, door: Door) -> bool:
        return is_reachable(self._client.ask(call, "GET", f"/api/v1/door/{quote(vendor_id(door), safe='')}").body)

    def _asked(self, call: Call, act: Callable[[Call], T]) -> T:
        return asked(call, act, self._client.error)


def _at(row: Mapping[str, object], settings: VisionlineSettings) -> datetime:
    """Reads an event's time: with seconds and zone where the server gives one, else wall time."""
    text = str(row["time"])
    return from_wall(text, settings.zone) if len(text) == 13 else datetime.fromisoformat(text)


def _on_card(card: Card) -> CardKey:
    return CardKey(name_of(card.id), mark_in(card.label), card.tag, card.window.valid_until)


def _found(door: Door, card: Card) -> FoundKey:
    return FoundKey(
        device_external_id=door.external_id,
        ref=card.ref,
        kind=card.kind,
        window=card.window,
        nonce=mark_in(card.label),
        tag=card.tag,
        label=card.label,
    )
