"""LockPort against Vostio access grants.

| verb | supported | how |
|---|---|---|
| issue mobile_app, rfid_card, nfc_tag | yes | one grant for all doors; `new` and `replacement` override, `additional` joins |
| issue pin_code, qr_code | no | the locks have no keypad and read no codes |
| update, suspend, unsuspend | yes | a change of the grant under its version |
| revoke | yes | withdraw; for part of the doors, a change |
| Resume | yes | issuing is asynchronous: 202 ends as deferred, the issuing request is asked after |
| Lookup, Inventory, Records, Webhook | yes | our mark in the label, our tag in the external reference |

One rule: one credential is one grant. Stand-alone locks hear of a change from the next key used there, so what was accepted is
reported as propagating for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from vendors.port.errors import CardKey, CredentialExpired, DeviceNotPaired, KeyIssueFailed, KeyRevokeFailed, LockError
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
    DeviceRecord,
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
from vendors.support.card_check import in_use, require_writable
from vendors.support.marks import tag_of
from vendors.support.per_door import settle
from vendors.support.tokens import TokenSource

from . import vostio_push
from .calls import Call, asked
from .errors import ASKED_BEFORE, CARD_IN_USE, DOOR_UNKNOWN, NOTHING_TO_JOIN, Refused
from .keys import (
    CARD_KINDS,
    INVITED,
    Listed,
    card_artifact,
    check_card,
    choose_kind,
    follows,
    gone,
    label_of,
    listed,
    mark_in,
    phone_artifact,
    reached,
    receiver_of,
    refused_door,
    stale_card,
    tag_in,
    unknown_doors,
    vendor_id,
)
from .manifest import MANIFEST
from .reach import Reach
from .reading import reading, rows_in
from .settings import VostioSettings
from .vostio_client import VostioClient
from .vostio_doors import battery_in, device_in, is_reachable
from .vostio_grants import SUSPENDED, Grant, Grants, arrived, instant_text, overlaps, read_grant

STAY_MODE = {Intent.NEW: "override", Intent.REPLACEMENT: "override", Intent.ADDITIONAL: "join"}
UNKNOWN_MAY_OPEN = Warning(
    "SUSPEND_NOT_EFFECTIVE_OFFLINE", "a door that the lock system no longer knows may go on opening until the key ends"
)
POLL_PAUSE_S = 0.5
EVENT_PAGES_MAX = 50
_READ = CallMeta("read", priority=3)

T = TypeVar("T")


class _CardHeld(Exception):
    """The card carries another live key: nothing was written on it."""

    def __init__(self, grant_id: str | None, key: CardKey) -> None:
        super().__init__("the card carries another live key")
        self.grant_id = grant_id
        self.key = key


class VostioPort:
    """LockPort of one environment. `token_source` takes the place of the configured login."""

    def __init__(self, settings: VostioSettings, context: AdapterContext, token_source: TokenSource | None = None) -> None:
        self._settings = settings
        self._context = context
        self._client = VostioClient(settings, context, token_source)
        self._grants = Grants(self._client)

    def issue_credential(self, request: IssueInput) -> IssueResult:
        """Gives a key at all doors in one grant. Repeatable under the same idempotency key."""
        kind = choose_kind(request.preferred_kinds)
        check_card(kind, listed(request.doors, request.scope.areas, self._settings.common_doors))
        return self._asked(Call(request.meta), lambda call: self._issue(call, request, kind))

    def update_credential(self, request: UpdateInput) -> CallResult:
        """Changes window and doors in one change of the grant. While an added door is refused, the removal waits. At the
        encoder the card itself is written again."""
        return self._asked(Call(request.meta), lambda call: self._update(call, self._reach(call).of_change(request)))

    def revoke_credential(self, handle: CredentialHandle, reason: RevokeReason, meta: CallMeta) -> CallResult:
        """Withdraws the grant, or takes these doors out of it where others remain."""
        call = Call(meta, revoking=True)
        return self._asked(call, lambda call: self._revoke(call, self._reach(call).of_key(handle), reason))

    def suspend_credential(self, handle: CredentialHandle, reason: SuspendReason, meta: CallMeta) -> CallResult:
        """Makes the grant rest."""
        call, fields = Call(meta, revoking=True), {"suspended": True}
        return self._asked(call, lambda call: self._rest(call, self._reach(call).of_key(handle), fields))

    def unsuspend_credential(self, handle: CredentialHandle, meta: CallMeta) -> CallResult:
        """Makes the grant open again in the handle's window. Raises CredentialExpired when that is over."""
        if handle.window.valid_until <= self._context.clock.now():
            raise CredentialExpired(MANIFEST.code, "the window is over")
        fields = {"suspended": False, **_window_fields(handle.window)}
        return self._asked(Call(meta), lambda call: self._rest(call, self._reach(call).of_key(handle), fields))

    def resume(self, handle: CredentialHandle, resume_token: str, meta: CallMeta) -> CallResult:
        """Asks how an issue that was still under way has ended."""

        def ask(call: Call) -> CallResult:
            try:
                is_issued = self._is_issued(call, resume_token, polls=1)
            except _CardHeld as held:
                raise in_use(MANIFEST.code, held.key) from None
            if not is_issued:
                return self._deferred(call, handle.doors, resume_token, None)
            grants = self._grants.of_handle(call, handle)
            if not grants:
                raise KeyIssueFailed(MANIFEST.code, "the grant is gone")
            lost = grants[0].overwrote
            overwritten = (self._grants.key_on_card(call, lost),) if lost else ()
            return replace(self._result(call, handle.doors, grants[0]), overwritten=overwritten)

        return self._asked(Call(meta), ask)

    def list_devices(self, property_id: str) -> tuple[LockDevice, ...]:
        """Lists the environment's doors, and notes its maintenance windows."""

        def look(call: Call) -> tuple[LockDevice, ...]:
            self._note_maintenance(call)
            rows = rows_in(self._client.ask(call, "GET", "/doors").body)
            return tuple(device_in(row) for row in rows)

        return self._asked(Call(_READ), look)

    def health_check(self, door: Door) -> DeviceHealth:
        """Reads one door from the environment's list. It tells whether a networked lock answers, its battery
        where the vendor knows it, and no clock."""

        def look(call: Call) -> DeviceHealth:
            rows = self._rows_of(call, door)
            if not rows:
                raise DeviceNotPaired(MANIFEST.code, "the door is not known", device_id=door.device_id)
            now = self._context.clock.now()
            return DeviceHealth(
                door.device_id,
                online=is_reachable(rows[0]),
                battery_percent=battery_in(rows[0]),
                checked_at=now,
            )

        return self._asked(Call(_READ), look)

    def describe_adapter(self) -> AdapterDescription:
        """Tells the best a lock can do."""
        return AdapterDescription(MANIFEST.code, MANIFEST.capabilities)

    def find(self, handle: CredentialHandle, meta: CallMeta) -> tuple[FoundKey, ...]:
        """Returns the credential's grant at each of the handle's doors."""

        def look(call: Call) -> tuple[FoundKey, ...]:
            grants = self._grants.of_credential(call, handle.credential_id)
            return tuple(_found(door, grant) for door in handle.doors for grant in grants if grant.doors.names(door))

        return self._asked(Call(meta), look)

    def list_keys(self, door: Door, cursor: str | None) -> FoundPage:
        """Returns one page of the door's live grants, ours and strangers'."""

        def look(call: Call) -> FoundPage:
            grants, after = self._grants.page(call, {"doorId": vendor_id(door)}, cursor)
            return FoundPage(tuple(_found(door, grant) for grant in grants if grant.is_live), after)

        return self._asked(Call(_READ), look)

    def list_records(self, door: Door, since: datetime, until: datetime) -> tuple[AccessRecord, ...]:
        """Returns what a networked door reported in the span, oldest first; other locks report only when read out."""

        def look(call: Call) -> tuple[AccessRecord, ...]:
            found: list[AccessRecord] = []
            query = {"doorId": vendor_id(door), "from": instant_text(since), "until": until.isoformat()}
            for _ in range(EVENT_PAGES_MAX):
                body = self._client.ask(call, "GET", "/events", query=query).body
                with reading():
                    found += vostio_push.records_in(rows_in(body))
                if not body.get("next"):
                    break
                query["after"] = str(body["next"])
            span = [record for record in found if since <= record.attempted_at < until]
            return tuple(sorted(span, key=lambda record: record.attempted_at))

        return self._asked(Call(_READ), look)

    def verify(self, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
        """Says whether the push is signed with a webhook secret of the environment; without one none is."""
        return vostio_push.is_genuine(headers, body, self._settings.webhook_secrets, now)

    def parse(self, body: bytes) -> tuple[AccessRecord, ...]:
        """Reads the openings in a push; other events hold none. Raises ValueError for a body that is no push."""
        return vostio_push.read_push(body)

    def parse_devices(self, body: bytes) -> tuple[DeviceRecord, ...]:
        """Reads a door's weak battery in a push. Raises ValueError for a body that is no push."""
        return vostio_push.read_conditions(body)

    # --- one verb, inside

    def _issue(self, call: Call, request: IssueInput, kind: CredentialKind) -> IssueResult:
        killed = self._others(call, request) if request.intent is Intent.REPLACEMENT else ()
        grant, refused = self._found_or_made(call, request, kind)
        is_issued = self._awaits_card(call, grant)
        if isinstance(is_issued, _CardHeld):
            held = is_issued
            call.overwritten = require_writable(MANIFEST.code, [held.key], request)
            if not held.grant_id:
                raise in_use(MANIFEST.code, held.key)
            grant, refused = self._make(call, request, kind, over=held.grant_id)
            is_issued = self._awaits_card(call, grant)
        if isinstance(is_issued, _CardHeld):
            raise in_use(MANIFEST.code, is_issued.key)
        if grant is not None and not is_issued:
            call.overwritten = ()
            result = self._deferred(call, request.doors, str(grant.issuing_request_id), grant, refused)
        elif grant is None:
            result = CallResult(self._settled(request.doors, None, refused), calls=call.requests)
        else:
            result = self._result(call, request.doors, grant, refused, is_new=True)
        return IssueResult(
            doors=result.doors,
            warnings=_warnings(kind, grant),
            calls=call.requests,
            resume_token=result.resume_token,
            also_killed=killed,
            kind=kind,
            artifact=self._artifact(call, request, kind, grant),
            overwritten=call.overwritten,
        )

    def _found_or_made(
        self, call: Call, request: IssueInput, kind: CredentialKind
    ) -> tuple[Grant | None, dict[str, LockError]]:
        """Asks for the grant, or finds the one an earlier attempt made and completes it. Returns it and the refused doors.

        The booking may have named other rooms since the earlier attempt, so that this one counts as the first there; the
        environment knows its idempotency key then.
        """
        found: Grant | None = None
        if call.meta.attempt > 1:
            found = self._grants.first_of(call, request.credential_id)
        if found is None:
            try:
                return self._make(call, request, kind)
            except Refused as no:
                if no.code == ASKED_BEFORE:
                    found = self._grants.first_of(call, request.credential_id)
                if found is None:
                    raise
        missing = [door for door in request.doors if not found.doors.names(door)]
        joins = request.intent is Intent.ADDITIONAL
        return self._changed(call, found, self._moved(found, request.window), added=missing, joins=joins)

    def _awaits_card(self, call: Call, grant: Grant | None) -> bool | _CardHeld:
        """Says whether a grant is made, staying with it a little; or what the card carries that is in the way."""
        if grant is None or grant.status != "issuing" or not grant.issuing_request_id:
            return True
        try:
            return self._is_issued(call, grant.issuing_request_id, polls=self._settings.issue_polls)
        except _CardHeld as held:
            return held

    def _moved(self, grant: Grant, window: Window) -> dict[str, object]:
        """What must change at a grant that an earlier attempt made, for it to have this window; a card is written again."""
        fields = _window_fields(window)
        if fields == _window_fields(grant.window):
            return {}
        return fields | ({"encoderId": self._encoder()} if grant.kind in CARD_KINDS else {})

    def _make(
        self, call: Call, request: IssueInput, kind: CredentialKind, over: str = ""
    ) -> tuple[Grant | None, dict[str, LockError]]:
        """Asks for the grant, leaving out doors the environment does not know. Returns it and the refused doors. `over` is the
        grant that may be lost from the card."""
        refused: dict[str, LockError] = {}
        key = self._idempotency_key(call, request, over)
        while doors := [door for door in request.doors if door.device_id not in refused]:
            body = self._body(request, kind, doors) | ({"overwriteGrantIds": [over]} if over else {})
            try:
                answer = self._grants.make(call, body, key)
            except Refused as no:
                if no.code == NOTHING_TO_JOIN and kind is CredentialKind.MOBILE_APP and len(doors) > 1:
                    grant, more = self._joined_where_it_can(call, request, doors, no)
                    return grant, refused | more
                named = unknown_doors(doors, no)
                if not named:
                    raise
                refused |= {door.device_id: self._client.error(call, no, door.device_id) for door in named}
                continue
            return _grant_of(answer.body, body), refused
        return None, refused

    def _joined_where_it_can(
        self, call: Call, request: IssueInput, doors: Sequence[Door], refusal: Refused
    ) -> tuple[Grant, dict[str, LockError]]:
        """Joins the stay in one room, and adds the others, where nobody's stay runs. Raises `refusal` where there is no stay to
        join in any room. Phones' keys only: a card would have to lie there a second time."""
        for door in doors:
            if not listed([door]).guest:
                continue
            key = hashlib.sha256(f"{call.meta.idempotency_key}\x1f{door.device_id}".encode()).hexdigest()
            body = self._body(request, CredentialKind.MOBILE_APP, [door])
            try:
                answer = self._grants.make(call, body, key)
            except Refused as no:
                if no.code != NOTHING_TO_JOIN:
                    raise
                continue
            others = [other for other in doors if other is not door]
            return self._changed(call, _grant_of(answer.body, body), {}, added=others, joins=True)
        raise refusal

    def _idempotency_key(self, call: Call, request: IssueInput, over: str) -> str:
        """One key for one request: what ended before a card was written is asked for anew, and so is what overwrites."""
        part = over
        if not over and call.meta.attempt > 1:
            label = label_of(request.meta.idempotency_key, request.credential_id)
            part = str(self._grants.made_in_vain(call, request.credential_id, label) or "")
        key = call.meta.idempotency_key
        return hashlib.sha256(f"{key}\x1f{part}".encode()).hexdigest() if part else key

    def _body(self, request: IssueInput, kind: CredentialKind, doors: Sequence[Door]) -> dict[str, object]:
        names = listed(doors, request.scope.areas, self._settings.common_doors)
        body: dict[str, object] = {
            "propertyId": self._settings.property_id,
            "externalRef": tag_of(request.credential_id),
            "kind": kind.value,
            "stay": {"mode": STAY_MODE[request.intent]},
            "guestDoors": list(names.guest),
            "commonDoors": list(names.common),
            "validFrom": instant_text(request.window.valid_from),
            "validUntil": instant_text(request.window.valid_until),
            "label": label_of(request.meta.idempotency_key, request.credential_id),
        }
        if kind is CredentialKind.MOBILE_APP:
            body["endpoint"] = receiver_of(request.holder)
        else:
            body["encoderId"] = self._encoder()
        return body

    def _encoder(self) -> str:
        if not self._settings.encoder:
            raise KeyIssueFailed(MANIFEST.code, "setting encoder is missing, and cards need one", retriable=False)
        return self._settings.encoder

    def _update(self, call: Call, request: UpdateInput) -> CallResult:
        handle = request.handle
        every = (*handle.doors, *request.added, *request.removed)
        grants = self._grants.of_handle(call, replace(handle, doors=every))
        if not grants:
            if not handle.doors and not request.added:
                return CallResult(tuple(gone(d, handle.window.valid_until) for d in every), calls=call.requests)
            raise KeyIssueFailed(MANIFEST.code, "the grant is gone or overridden", retriable=False)
        # What the card or phone carries may end later than what this call asks for.
        until = max(handle.window.valid_until, grants[0].window.valid_until)
        if not grants[0].doors.with_doors(listed((*handle.doors, *request.added))).without(listed(request.removed)).guest:
            until = self._grants.withdraw(call, grants[0], RevokeReason.REPLACED.value) or until
            return CallResult(tuple(gone(d, until) for d in every), calls=call.requests)
        fields = _window_fields(handle.window)
        rewrites = request.at_encoder and handle.kind in CARD_KINDS
        if rewrites:
            fields["encoderId"] = self._encoder()
        joins = request.intent is Intent.ADDITIONAL
        grant, refused = self._changed(
            call, grants[0], fields, handle.doors, request.added, request.removed, joins=joins
        )  # fmt: skip
        keeps_old = any(door.device_id in refused for door in request.added)
        kept = self._settled((*handle.doors, *request.added), grant, refused, until=until, is_new=rewrites)
        waits = KeyRevokeFailed(MANIFEST.code, "waits until the new door has the key")
        removed = [refused_door(d, waits) if keeps_old else gone(d, until) for d in request.removed]
        rows = settle((*kept, *removed))
        stale = () if rewrites and not refused else stale_card(handle.kind, rows)
        return CallResult(rows, warnings=stale, calls=call.requests)

    def _changed(
        self,
        call: Call,
        grant: Grant,
        fields: Mapping[str, object],
        kept: Sequence[Door] = (),
        added: Sequence[Door] = (),
        removed: Sequence[Door] = (),
        *,
        joins: bool = False,
    ) -> tuple[Grant, dict[str, LockError]]:
        """Changes a grant, leaving out doors the environment does not know: for one of them it refuses the whole change, even
        where the grant has it already. Returns the grant, and errors for those of `kept` and `added` that were left out.

        A `kept` door that the grant lost in this way is put back. While an added door is left out nothing is removed. A
        companion's grant joins at added rooms and overrides nobody.
        """
        refused: dict[str, LockError] = {}
        unknown = Listed((), ())
        refusal: Refused | None = None
        while True:
            doors = grant.doors.with_doors(listed((*kept, *added)))
            if not any(door.device_id in refused for door in added):
                doors = doors.without(listed(removed))
            doors = doors.without(unknown)
            if refusal is not None and not doors.guest:
                raise refusal
            change = dict(fields)
            if doors != grant.doors:
                change |= {"guestDoors": list(doors.guest), "commonDoors": list(doors.common)}
                new_rooms = [door for door in listed(added).guest if door in doors.guest and door not in grant.doors.guest]
                change |= {"overrideGuestDoors": [] if joins else new_rooms}
            if not change:
                return grant, refused
            try:
                return self._grants.change(call, grant, change), refused
            except Refused as no:
                if no.code != DOOR_UNKNOWN or doors.without(Listed(no.doors, no.doors)) == doors:
                    raise
                refusal, unknown = no, unknown.with_doors(Listed(no.doors, no.doors))
                named = unknown_doors((*kept, *added), no)
                refused |= {door.device_id: self._client.error(call, no, door.device_id) for door in named}

    def _revoke(self, call: Call, handle: CredentialHandle, reason: RevokeReason) -> CallResult:
        until = handle.window.valid_until
        for grant in self._grants.of_handle(call, handle):
            until = max(until, grant.window.valid_until)
            if not self._kept_elsewhere(call, grant, handle.doors):
                until = max(until, self._grants.withdraw(call, grant, reason.value) or until)
        return CallResult(tuple(gone(door, until) for door in handle.doors), calls=call.requests)

    def _kept_elsewhere(self, call: Call, grant: Grant, taken: Sequence[Door]) -> bool:
        """Takes doors out of a grant; False where no room that the environment knows would be left in it."""
        if not grant.doors.without(listed(taken)).guest:
            return False
        try:
            self._changed(call, grant, {}, removed=taken)
        except Refused as no:
            if no.code != DOOR_UNKNOWN:
                raise
            return False
        return True

    def _rest(self, call: Call, handle: CredentialHandle, fields: Mapping[str, object]) -> CallResult:
        grants = self._grants.of_handle(call, handle)
        if not grants:
            if fields["suspended"]:
                return CallResult(tuple(gone(d, handle.window.valid_until) for d in handle.doors), calls=call.requests)
            raise KeyIssueFailed(MANIFEST.code, "the grant is gone or overridden", retriable=False)
        until = handle.window.valid_until
        if not fields["suspended"]:
            grant, refused = self._changed(call, grants[0], fields, handle.doors)
            return self._result(call, handle.doors, grant, refused, until=until)
        named = [door for door in handle.doors if grants[0].doors.names(door) and not follows(door)]
        grant, refused = self._changed(call, grants[0], fields, named)
        rows = self._settled(handle.doors, grant, {}, until=until)
        if not refused:
            return CallResult(rows, calls=call.requests)
        # Doors that were left out lost the key with this change: nobody can say when the locks there hear of it.
        late = [replace(row, propagation=Propagation.PROPAGATING, effective_not_after=until) for row in rows]
        rows = tuple(slow if row.device_id in refused else row for row, slow in zip(rows, late, strict=True))
        return CallResult(rows, warnings=(UNKNOWN_MAY_OPEN,), calls=call.requests)

    # --- parts of answers

    def _result(
        self,
        call: Call,
        doors: Sequence[Door],
        grant: Grant,
        refused: Mapping[str, LockError] | None = None,
        *,
        is_new: bool = False,
        until: datetime | None = None,
    ) -> CallResult:
        return CallResult(settle(self._settled(doors, grant, refused or {}, is_new=is_new, until=until)), calls=call.requests)

    def _settled(
        self,
        doors: Sequence[Door],
        grant: Grant | None,
        refused: Mapping[str, LockError],
        *,
        is_new: bool = False,
        until: datetime | None = None,
    ) -> tuple[DoorResult, ...]:
        rows = []
        for door in doors:
            if grant is None or door.device_id in refused:
                error = refused.get(door.device_id) or KeyIssueFailed(MANIFEST.code, "no door took the key", retriable=False)
                rows.append(refused_door(door, error))
                continue
            propagation, not_after = arrived(grant) if is_new else reached(door, until or grant.window.valid_until)
            rows.append(DoorResult(door.device_id, Outcome.DONE, grant.ref, propagation, not_after))
        return settle(tuple(rows)) if grant is None else tuple(rows)

    def _deferred(
        self,
        call: Call,
        doors: Sequence[Door],
        token: str,
        grant: Grant | None,
        refused: Mapping[str, LockError] | None = None,
    ) -> CallResult:
        rows = [
            refused_door(door, refused[door.device_id])
            if refused and door.device_id in refused
            else DoorResult(door.device_id, Outcome.DEFERRED, grant.ref if grant else door.ref, Propagation.PROPAGATING)
            for door in doors
        ]
        return CallResult(tuple(rows), calls=call.requests, resume_token=token)

    def _is_issued(self, call: Call, request_id: str, *, polls: int) -> bool:
        """Asks after an issuing request up to `polls` times. Raises _CardHeld where the card carries another live key, Refused
        when it failed otherwise or ran out of time."""
        for number in range(polls):
            if number:
                self._context.sleep(POLL_PAUSE_S)
            found = self._grants.issuing(call, request_id)
            if found.status == "done":
                return True
            if found.status == "failed" and found.code == CARD_IN_USE:
                raise _CardHeld(found.card_grant_id, self._grants.key_on_card(call, found.card_grant_id))
            if found.status in {"failed", "expired"}:
                raise Refused(200, found.code or "card_timeout", f"the issuing request has {found.status}")
        return False

    def _artifact(self, call: Call, request: IssueInput, kind: CredentialKind, grant: Grant | None) -> Artifact | None:
        if grant is None:
            return None
        if kind in CARD_KINDS:
            return card_artifact(self._settings.encoder, request.doors)
        endpoint, code = grant.endpoint_id, grant.invitation_code
        if code is None and grant.endpoint_status == "invited":  # the answer that carried the code was lost
            endpoint, code = self._grants.invite(call, receiver_of(request.holder))
        return phone_artifact(endpoint, code, request.credential_id)

    def _others(self, call: Call, request: IssueInput) -> tuple[str, ...]:
        """Returns the tags of keys an overriding key kills beside the one it replaces."""
        own = {tag_of(request.credential_id)}
        if request.replaces is not None:
            own.add(tag_of(request.replaces.credential_id))
        tags: set[str] = set()
        for name in listed(request.doors).guest:
            for grant in self._grants.list_all(call, {"doorId": name}):
                if grant.is_live and grant.tag not in own and overlaps(grant, request.window):
                    tags.add(grant.tag)
        return tuple(sorted(tag for tag in tags if tag))

    def _note_maintenance(self, call: Call) -> None:
        now = self._context.clock.now()
        for row in rows_in(self._client.ask(call, "GET", "/maintenance-windows").body):
            with reading():
                start, end = datetime.fromisoformat(row["from"]), datetime.fromisoformat(row["until"])
                is_now = start <= now < end
            if is_now:
                self._client.close_until(end)

    def _rows_of(self, call: Call, door: Door) -> list[Mapping[str, object]]:
        return rows_in(self._client.ask(call, "GET", "/doors", query={"pmsId": vendor_id(door)}).body)

    def _reach(self, call: Call) -> Reach:
        return Reach(lambda door: any(map(is_reachable, self._rows_of(call, door))))  # no row: not a door it knows

    def _asked(self, call: Call, act: Callable[[Call], T]) -> T:
        return asked(call, act, self._client.error)


def _grant_of(answer: Mapping[str, object], body: Mapping[str, object]) -> Grant:
    """Reads the grant in the answer to its making, which repeats what was asked for only in part."""
    return read_grant({**body, "version": 1, **answer})


def _window_fields(window: Window) -> dict[str, object]:
    return {"validFrom": instant_text(window.valid_from), "validUntil": instant_text(window.valid_until)}


def _warnings(kind: CredentialKind, grant: Grant | None) -> tuple[Warning, ...]:
    if kind is not CredentialKind.MOBILE_APP or grant is None or grant.endpoint_status != "invited":
        return ()
    return (INVITED,)


def _found(door: Door, grant: Grant) -> FoundKey:
    return FoundKey(
        device_external_id=door.external_id,
        ref=grant.ref,
        kind=grant.kind,
        window=grant.window,
        nonce=mark_in(grant.label),
        tag=tag_in(grant.label),
        label=f"{grant.tag} {grant.label}".strip(),
        is_resting=grant.status == SUSPENDED,
    )
