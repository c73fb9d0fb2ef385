"""LockPort against the TTLock cloud.

| verb | supported | how |
|---|---|---|
| issue pin_code | yes | custom passcode through gateway or Wi-Fi; without either a random one, with a warning |
| issue mobile_app | yes | eKey to a user of our own making |
| issue rfid_card | yes | the lock learns the card's number; needs `card_number` |
| issue qr_code, nfc_tag | no | QR needs the vendor's rolling code page; locks take card numbers only |
| update | yes | both dates; added doors first, then removed ones |
| suspend, unsuspend | yes | eKey: freeze; PIN and card: a period that has ended, or delete and make anew |
| revoke | yes | delete, then one list that shows it gone |
| list_devices, health_check, set_clock | yes | vendors.ttlock.devices; the clock through a gateway only |
| Lookup, Inventory, Records, Resume, Webhook | yes | our mark in the key's name; Resume for Wi-Fi locks that sleep |

The doors of one call share a gateway, which carries one command at a time: they are done one after the other.

One rule: one request leaves for one intended effect; what may have happened is looked up before it is asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from vendors.port.errors import CredentialExpired, KeyIssueFailed, KeyRevokeFailed, Reason
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
    IssueInput,
    IssueResult,
    LockDevice,
    Outcome,
    PinArtifact,
    RevokeReason,
    SuspendReason,
    TokenArtifact,
    UpdateInput,
)
from vendors.support.marks import key_name, mark_of, tag_of
from vendors.support.per_door import each_door, failed, open_at, settle
from vendors.support.signatures import is_signed
from vendors.support.tokens import TokenSource

from . import records
from .cards import CardKeys
from .client import Call, TtlockClient
from .devices import Devices
from .door_keys import STATUS_FAILED, STATUS_RUNNING, DoorKeys, Work, rows_in
from .ekeys import EkeyKeys
from .errors import Refused, Unclear
from .manifest import MANIFEST
from .pins import PinKeys
from .settings import read_settings
from .wire import to_ms

SIGNATURE_HEADER = "x-webhook-signature"
"""The vendor signs nothing. A proxy in front of the receiver, or the simulator, may; then a `webhook_secret` is configured."""

INVENTORY_ORDER = (CredentialKind.PIN_CODE, CredentialKind.RFID_CARD, CredentialKind.MOBILE_APP)
PAGE_SIZE = 200
RECORD_PAGES_MAX = 20
_READ = CallMeta("read", priority=3)

T = TypeVar("T")
DoorAct = Callable[[Work, Door], DoorResult]


def build(context: AdapterContext) -> TtlockAdapter:
    """Builds the adapter. Raises ValueError naming a missing or malformed setting; makes no call."""
    return TtlockAdapter(context)


class TtlockAdapter:
    """LockPort of TTLock. `token_source` takes the place of the account's login, for a proxy with its own."""

    def __init__(self, context: AdapterContext, token_source: TokenSource | None = None) -> None:
        self._context = context
        self._settings = read_settings(context)
        self._client = TtlockClient(self._settings, context, token_source)
        self._devices = Devices(self._client, context.clock)
        self._ekeys = EkeyKeys(self._client, context.clock, self._settings)
        self._kinds: dict[CredentialKind, DoorKeys] = {
            CredentialKind.PIN_CODE: PinKeys(self._client, context.clock),
            CredentialKind.RFID_CARD: CardKeys(self._client, context.clock, reverse=self._settings.reverse_cards),
            CredentialKind.MOBILE_APP: self._ekeys,
        }

    def issue_credential(self, request: IssueInput) -> IssueResult:
        """Gives a key of the first wanted kind that can be made here. Repeatable under the same idempotency key."""
        kind = self._choose(request)
        keys = self._kinds[kind]
        work = self._work(request.credential_id, kind, request, Call(request.meta))
        act: DoorAct = keys.give
        if kind is CredentialKind.PIN_CODE and len(request.doors) > 1:
            act = _only_with_network(keys)
        doors = settle(self._each(work, request.doors, act))
        return IssueResult(
            doors=doors,
            warnings=tuple(work.warnings),
            calls=work.call.requests,
            resume_token=_resume_token(work, doors),
            kind=kind,
            artifact=self._artifact(kind, work),
        )

    def update_credential(self, request: UpdateInput) -> CallResult:
        """Changes the window, adds doors, removes doors. While an added door failed, the removal waits, so that the guest has a
        door that opens; the doors to remove are then FAILED and retriable."""
        handle = request.handle
        keys = self._kind(handle.kind)
        work = self._work(handle.credential_id, handle.kind, handle, Call(request.meta))
        changed = self._each(work, handle.doors, keys.change)
        added = self._each(work, request.added, keys.give)
        if all(r.outcome in {Outcome.DONE, Outcome.DEFERRED} for r in added):
            removed = self._each(work, request.removed, keys.take)
        else:
            waits = KeyRevokeFailed(MANIFEST.code, "waits until the new door has the key")
            removed = tuple(failed(door, waits) for door in request.removed)
        doors = settle((*changed, *added, *removed))
        return self._answer(work, doors)

    def revoke_credential(self, handle: CredentialHandle, reason: RevokeReason, meta: CallMeta) -> CallResult:
        """Takes the key back and sees that the cloud lists it no more."""
        return self._all(handle, Call(meta, revoking=True), self._kind(handle.kind).take)

    def suspend_credential(self, handle: CredentialHandle, reason: SuspendReason, meta: CallMeta) -> CallResult:
        """Makes the key stop opening."""
        return self._all(handle, Call(meta, revoking=True), self._kind(handle.kind).rest)

    def unsuspend_credential(self, handle: CredentialHandle, meta: CallMeta) -> CallResult:
        """Makes the key open again. Raises CredentialExpired when the window is over."""
        if handle.window.valid_until <= self._context.clock.now():
            raise CredentialExpired(MANIFEST.code, "the window is over")
        return self._all(handle, Call(meta), self._kind(handle.kind).wake)

    def list_devices(self, property_id: str) -> tuple[LockDevice, ...]:
        """Lists the locks the account is top administrator of; the vendor shows no others."""
        return self._reading(self._devices.list_devices)

    def health_check(self, door: Door) -> DeviceHealth:
        """Reads battery and firmware from the cloud, and the lock's clock live where a gateway reaches it."""
        return self._reading(lambda call: self._devices.health(call, door))

    def set_clock(self, door: Door, utc_offset_s: int, meta: CallMeta) -> None:
        """Sets a lock's clock, and the distance from UTC that the cloud reckons its windows with, through its gateway."""
        self._reading(lambda call: self._devices.set_clock(call, door, utc_offset_s), Call(meta))

    def describe_adapter(self) -> AdapterDescription:
        """Tells the best a TTLock lock can do."""
        return AdapterDescription(MANIFEST.code, MANIFEST.capabilities)

    def find(self, handle: CredentialHandle, meta: CallMeta) -> tuple[FoundKey, ...]:
        """Returns the credential's keys at the handle's doors, one request each. Raises when a door's list cannot be read."""
        keys = self._kind(handle.kind)
        work = self._work(handle.credential_id, handle.kind, handle, Call(meta))

        def look(call: Call) -> tuple[FoundKey, ...]:
            return tuple(keys.found_key(door, held) for door in handle.doors for held in keys.find(work, door))

        return self._reading(look, work.call)

    def resume(self, handle: CredentialHandle, resume_token: str, meta: CallMeta) -> CallResult:
        """Asks whether the sleeping locks have taken what was handed over under the token (our mark)."""
        keys = self._kind(handle.kind)
        work = self._work(handle.credential_id, handle.kind, handle, Call(meta))
        work.mark = resume_token

        def ask(work: Work, door: Door) -> DoorResult:
            held = keys.marked(work, door)
            if held is None:
                raise KeyIssueFailed(MANIFEST.code, "the key handed over is gone")
            if held.status in STATUS_FAILED:
                raise KeyIssueFailed(MANIFEST.code, "the lock did not take the key")
            if held.status in STATUS_RUNNING:
                return DoorResult(door.device_id, Outcome.DEFERRED, ref=door.ref)
            return keys.done(door, keys.ref_of(door, held))

        doors = settle(self._each(work, handle.doors, ask))
        deferred = any(r.outcome is Outcome.DEFERRED for r in doors)
        return CallResult(doors, calls=work.call.requests, resume_token=resume_token if deferred else None)

    def list_keys(self, door: Door, cursor: str | None) -> FoundPage:
        """Returns one page of a door's passcodes, then cards, then eKeys. The cursor is `<kind>:<page>`."""
        kind_text, _, page_text = (cursor or f"{INVENTORY_ORDER[0]}:1").partition(":")
        kind, page = CredentialKind(kind_text), int(page_text)
        keys = self._kinds[kind]

        def look(call: Call) -> FoundPage:
            fields: dict[str, object] = {
                "lockId": door.external_id,
                "pageNo": page,
                "pageSize": PAGE_SIZE,
            }
            try:
                document = self._client.ask(call, keys.wire.list_path, fields)
            except Refused as refused:
                if self._client.error(call, refused).reason is not Reason.KIND_UNSUPPORTED:
                    raise
                return FoundPage((), _next_cursor(kind, page, False))
            rows = rows_in(document)
            held = [h for row in rows if (h := keys.read_row(row)) is not None]
            found = tuple(keys.found_key(door, h) for h in held)
            return FoundPage(found, _next_cursor(kind, page, len(rows) >= PAGE_SIZE))

        return self._reading(look)

    def list_records(self, door: Door, since: datetime, until: datetime) -> tuple[AccessRecord, ...]:
        """Returns the openings and refusals, oldest first, from at most 4,000 of the lock's newest records in the span. Typed
        codes are turned into part of a keyed hash and dropped."""

        def look(call: Call) -> tuple[AccessRecord, ...]:
            found: list[AccessRecord] = []
            for page in range(1, RECORD_PAGES_MAX + 1):
                fields: dict[str, object] = {
                    "lockId": door.external_id,
                    "startDate": to_ms(since),
                    "endDate": to_ms(until),
                    "pageNo": page,
                    "pageSize": PAGE_SIZE,
                }
                rows = rows_in(self._client.ask(call, "lockRecord/list", fields))
                found += self._records(door.external_id, rows)
                if len(rows) < PAGE_SIZE:
                    break
            # The list is newest first and its times have a grain of a second: turned round, a stable sort keeps the order.
            span = (r for r in reversed(found) if since <= r.attempted_at < until)
            return tuple(sorted(span, key=lambda record: record.attempted_at))

        return self._reading(look)

    def verify(self, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
        """Says whether the push carries a valid signature, where a webhook secret is configured. TTLock itself signs nothing,
        so without one the receiver's path token is the only proof and this says yes."""
        if not self._settings.webhook_secrets:
            return True
        lowered = {name.lower(): value for name, value in headers.items()}
        return is_signed(lowered.get(SIGNATURE_HEADER), body, self._settings.webhook_secrets, now)

    def parse(self, body: bytes) -> tuple[AccessRecord, ...]:
        """Reads the openings in a push; other notifications hold none. Raises ValueError for a body that is no push."""
        lock_id, rows = records.read_push(body)
        return self._records(lock_id, rows)

    def parse_devices(self, body: bytes) -> tuple[DeviceRecord, ...]:
        """Reads gateways and Wi-Fi locks that went on or off line, and the battery that comes with every record."""
        return records.read_conditions(body)

    def is_push_a_hint(self) -> bool:
        """Says yes unless a proxy of the hotel signs: whoever knows the address could have sent it."""
        return not self._settings.webhook_secrets

    def _records(self, lock_id: str, rows: list[dict[str, Any]]) -> tuple[AccessRecord, ...]:
        read = (records.read_record(self._context.installation_id, self._settings.user_secret, lock_id, r) for r in rows)
        return tuple(record for record in read if record is not None)

    def _choose(self, request: IssueInput) -> CredentialKind:
        for kind in request.preferred_kinds:
            if kind in self._kinds and _can_make(kind, request):
                return kind
        raise KeyIssueFailed(
            MANIFEST.code,
            "no wanted kind can be made here",
            retriable=False,
            reason=Reason.KIND_UNSUPPORTED,
        )

    def _kind(self, kind: CredentialKind) -> DoorKeys:
        if kind not in self._kinds:
            raise KeyIssueFailed(
                MANIFEST.code,
                "the kind is not supported",
                retriable=False,
                reason=Reason.KIND_UNSUPPORTED,
            )
        return self._kinds[kind]

    def _work(
        self,
        credential_id: str,
        kind: CredentialKind,
        source: IssueInput | CredentialHandle,
        call: Call,
    ) -> Work:
        key = call.meta.idempotency_key
        return Work(
            call=call,
            credential_id=credential_id,
            mark=mark_of(key),
            tag=tag_of(credential_id),
            name=key_name(key, credential_id),
            window=source.window,
            pin=source.pin if kind is CredentialKind.PIN_CODE else None,
            card_number=source.card_number if kind is CredentialKind.RFID_CARD else None,
        )

    def _all(self, handle: CredentialHandle, call: Call, act: DoorAct) -> CallResult:
        work = self._work(handle.credential_id, handle.kind, handle, call)
        return self._answer(work, settle(self._each(work, handle.doors, act)))

    def _each(self, work: Work, doors: Sequence[Door], act: DoorAct) -> tuple[DoorResult, ...]:
        def one(door: Door) -> DoorResult:
            try:
                return act(work, door)
            except Refused as refused:
                raise self._client.error(work.call, refused, door.device_id) from refused
            except Unclear as unclear:
                return open_at(door, unclear.error)

        return each_door(
            doors,
            one,
            vendor=MANIFEST.code,
            attempt=work.call.meta.attempt,
            deadline=work.call.deadline,
            effects=work.call.effects,
        )

    def _reading(self, look: Callable[[Call], T], call: Call | None = None) -> T:
        call = call or Call(_READ)
        try:
            return look(call)
        except Refused as refused:
            raise self._client.error(call, refused) from refused
        except Unclear as unclear:
            raise unclear.error from unclear

    def _answer(self, work: Work, doors: tuple[DoorResult, ...]) -> CallResult:
        return CallResult(
            doors,
            warnings=tuple(work.warnings),
            calls=work.call.requests,
            resume_token=_resume_token(work, doors),
        )

    def _artifact(self, kind: CredentialKind, work: Work) -> Artifact | None:
        if kind is CredentialKind.PIN_CODE:
            pin = work.issued_pin or work.pin
            return PinArtifact(pin) if pin is not None else None
        if kind is CredentialKind.MOBILE_APP:
            token = self._ekeys.artifact(work)
            return TokenArtifact("mobile_token", token) if token is not None else None
        return None


def _can_make(kind: CredentialKind, request: IssueInput) -> bool:
    """Says whether the request brings what the kind needs: digits for a custom PIN, the number of a card."""
    if kind is CredentialKind.PIN_CODE:
        return request.pin is not None or not any(door.has_remote for door in request.doors)
    return kind is not CredentialKind.RFID_CARD or request.card_number is not None


def _only_with_network(keys: DoorKeys) -> DoorAct:
    """Random codes differ from lock to lock, and one credential has one PIN: at several doors only custom codes will do."""

    def give(work: Work, door: Door) -> DoorResult:
        if door.has_remote:
            return keys.give(work, door)
        raise KeyIssueFailed(
            MANIFEST.code,
            "one PIN for several doors needs a gateway at each",
            retriable=False,
            reason=Reason.KIND_UNSUPPORTED,
        )

    return give


def _resume_token(work: Work, doors: tuple[DoorResult, ...]) -> str | None:
    return work.mark if any(r.outcome is Outcome.DEFERRED for r in doors) else None


def _next_cursor(kind: CredentialKind, page: int, more: bool) -> str | None:
    if more:
        return f"{kind}:{page + 1}"
    index = INVENTORY_ORDER.index(kind) + 1
    return f"{INVENTORY_ORDER[index]}:1" if index < len(INVENTORY_ORDER) else None
