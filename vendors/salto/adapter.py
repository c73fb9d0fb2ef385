"""LockPort of SALTO over the cloud's REST contract, directly or through the property's connector.

| verb | supported | how |
|---|---|---|
| issue | card, phone, PIN | one key over up to four rooms, for PINs one a door; a card may wait for a person (DEFERRED) |
| update | yes | the record at once, a card at an updater or the encoder; a removed door is bounded by the card's expiry |
| revoke | yes | deny list, at checkout the list only; on-line doors at once, others bounded by the card's expiry |
| suspend, unsuspend | on-line doors | a card out of reach goes on opening stand-alone doors: warned and bounded |
| list_devices, health_check, Lookup, Inventory, Records, Resume | yes | |
| Webhook | yes | `X-Salto-Timestamp` and `X-Salto-Signature`, HMAC-SHA256 |

`build` gives the adapter of the PMS protocol instead where the installation's transport says so.

One rule: accepted is not effective. What a door will do before it hears of a change is told, with a bound, or as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from vendors.port.errors import CredentialExpired, LockError, Reason
from vendors.port.manifest import AdapterContext
from vendors.port.protocol import LockPort
from vendors.port.secrets import Token, VendorRef
from vendors.port.types import (
    COMPANIONS_DIE,
    AccessRecord,
    AdapterDescription,
    CallMeta,
    CallResult,
    CardArtifact,
    CredentialHandle,
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
    PinArtifact,
    Propagation,
    RevokeReason,
    SuspendReason,
    TokenArtifact,
    UpdateInput,
)
from vendors.port.types import CredentialKind as Kind
from vendors.port.types import (
    Warning as LockWarning,
)
from vendors.support.card_check import in_use
from vendors.support.effects import in_doubt
from vendors.support.per_door import each_door, failed, open_at, settle

from .answers import card_warnings, is_live, issue_warnings, key_on_card, one_each, overwritten_in, places_in, results
from .client import Call, SaltoClient
from .cloud_keys import CloudKeys, PinOrder, Row, postponed, unknown
from .cloud_reading import CloudReading
from .errors import CARD_IN_USE, CLOUD, Refused, Unclear, refused_issue, translate, unreachable
from .local_time import clipped
from .manifest import MANIFEST
from .pms_adapter import SaltoPmsPort
from .pushes import is_genuine, read_conditions, read_push
from .settings import Settings, Transport, read_settings

UNKNOWN_KEY = "unknown_key"
_DEFERRED_STATES = frozenset({"waiting_card", "encoding"})
_ENDS_COMPANIONS = "ends-companions:"
"""Stands before the encode job in the token of a card that will end companions' keys once it is written."""
_COMPANIONS_END = LockWarning(
    COMPANIONS_DIE, "the lost card could not be cancelled alone: companions' cards die when this one is used"
)
Act = Callable[[VendorRef, Sequence[Door]], tuple[Row, tuple[DoorResult, ...]]]


def build(context: AdapterContext) -> LockPort:
    """Builds the adapter for the installation's transport. Raises ValueError naming a wrong setting; makes no call."""
    settings = read_settings(context)
    if settings.transport is Transport.PMS:
        return SaltoPmsPort(settings, context)
    return SaltoCloudPort(settings, context)


class SaltoCloudPort:
    """LockPort with Lookup, Resume, Inventory, Records and Webhook. Safe from several threads."""

    def __init__(self, settings: Settings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._client = SaltoClient(settings, context)
        self._keys = CloudKeys(self._client, settings)
        self._reading = CloudReading(self._client, self._keys, settings.deny_list_places)

    def issue_credential(self, request: IssueInput) -> IssueResult:
        """Gives a key. A card that nobody has laid down yet is DEFERRED, with the encode job as resume token."""
        kind = self._choose(request)
        request = replace(request, window=clipped(request.window, self._zone(request.time_zone)))
        call = Call(request.meta)
        if kind is Kind.PIN_CODE:
            return self._issue_pin(call, request)
        mode = self._keys.mode(call, request)
        try:
            row = self._keys.make_carried(call, request, kind, mode)
        except Unclear as unclear:
            doors = tuple(unknown(door, unclear.error) for door in request.doors)
            return IssueResult(doors, calls=call.requests, kind=kind, artifact=self._artifact(kind, request, None))
        waits = row.get("status") == "waiting_card"
        outcome = Outcome.DEFERRED if waits else Outcome.DONE
        default = Propagation.UNKNOWN if waits else Propagation.CONFIRMED
        ends_companions = _ENDS_COMPANIONS if mode == "new" and request.intent is Intent.REPLACEMENT else ""
        return IssueResult(
            doors=settle(results(row, request.doors, outcome=outcome, default=default)),
            warnings=(*issue_warnings(row), *card_warnings(row), *self._certificate_warning()),
            calls=call.requests,
            resume_token=f"{ends_companions}{row['operationId']}" if waits else None,
            also_killed=self._also_killed(request, row),
            kind=kind,
            artifact=self._artifact(kind, request, row),
            overwritten=overwritten_in(row),
        )

    def update_credential(self, request: UpdateInput) -> CallResult:
        """Changes window and doors. While an added door fails no door is removed. At the encoder the card is written again."""
        call = Call(request.meta)
        try:
            return self._update(call, request)
        except LockError as error:
            raise call.effects.weighed(error) from None

    def revoke_credential(self, handle: CredentialHandle, reason: RevokeReason, meta: CallMeta) -> CallResult:
        """Takes the key back. At a stand-alone door it is dead at the stated bound at the latest: the card's own expiry."""
        call = Call(meta, revoking=True)
        strategy = "checkout" if reason is RevokeReason.CHECKOUT or not self._settings.cancellable else "denylist"
        warnings: list[LockWarning] = []

        def take(ref: VendorRef, doors: Sequence[Door]) -> tuple[Row, tuple[DoorResult, ...]]:
            try:
                row = self._keys.take(call, ref, strategy, handle.credential_id)
            except Refused as refused:
                if refused.code != "denylist_full":
                    raise
                detail = "taken off the list only: the card opens until it expires or a successor is used"
                warnings.append(LockWarning("DENYLIST_FULL", detail))
                row = self._keys.take(call, ref, "checkout", handle.credential_id)
            return row, results(row, doors, is_there=False)

        doors = self._by_ref(call, handle, take, gone_is_done=True)
        return CallResult(settle(doors), tuple(warnings), call.requests)

    def suspend_credential(self, handle: CredentialHandle, reason: SuspendReason, meta: CallMeta) -> CallResult:
        """Blocks the key at the server. Warns SUSPEND_NOT_EFFECTIVE_OFFLINE where a card goes on opening."""
        result = self._patched(handle, {"blocked": True}, meta)
        if not any(door.propagation is Propagation.PROPAGATING for door in result.doors):
            return result
        detail = "a card out of reach opens stand-alone doors until it passes an updater or expires"
        return CallResult(result.doors, (LockWarning("SUSPEND_NOT_EFFECTIVE_OFFLINE", detail),), result.calls)

    def unsuspend_credential(self, handle: CredentialHandle, meta: CallMeta) -> CallResult:
        """Lifts the block and brings the window to the handle's. Raises CredentialExpired when that is over."""
        if handle.window.valid_until <= self._context.clock.now():
            raise CredentialExpired(MANIFEST.code, "the window is over")
        handle = replace(handle, window=clipped(handle.window, self._settings.time_zone))
        return self._patched(handle, {"blocked": False, **self._window(handle)}, meta)

    def list_devices(self, property_id: str) -> tuple[LockDevice, ...]:
        """Lists the property's doors; a shared door is named by its authorisation."""
        return self._reading.devices()

    def health_check(self, door: Door) -> DeviceHealth:
        """Reads one door's condition as the server last heard it. Raises DeviceNotPaired."""
        return self._reading.health(door, self._context.clock.now())

    def describe_adapter(self) -> AdapterDescription:
        """Tells code and capabilities without a call."""
        return AdapterDescription(MANIFEST.code, MANIFEST.capabilities)

    def find(self, handle: CredentialHandle, meta: CallMeta) -> tuple[FoundKey, ...]:
        """Returns the credential's live keys at the handle's doors."""
        return self._reading.find(Call(meta), handle)

    def resume(self, handle: CredentialHandle, resume_token: str, meta: CallMeta) -> CallResult:
        """Asks how an encode job ended. Warns where the card ends companions' keys, whom this answer cannot name."""
        call = Call(meta)
        job = self._keys.operation(call, resume_token.removeprefix(_ENDS_COMPANIONS))
        status, row = str(job.get("status")), job["key"]
        if status in _DEFERRED_STATES:
            doors = results(row, handle.doors, outcome=Outcome.DEFERRED, default=Propagation.UNKNOWN)
            return CallResult(doors, calls=call.requests, resume_token=resume_token)
        if status == "done":
            ended = (_COMPANIONS_END,) if resume_token.startswith(_ENDS_COMPANIONS) else ()
            warnings = (*card_warnings(row), *ended)
            return CallResult(results(row, handle.doors), warnings, call.requests, overwritten=overwritten_in(row))
        if status == "failed" and job.get("error") == CARD_IN_USE:
            details = job.get("details")
            raise in_use(MANIFEST.code, key_on_card(details.get("card") if isinstance(details, dict) else None))
        if status == "failed":
            raise translate(CLOUD, str(job.get("error")))
        error = unreachable("nobody knows how the encode job ended: read the card or try the door")
        return CallResult(tuple(unknown(door, error) for door in handle.doors), calls=call.requests)

    def list_keys(self, door: Door, cursor: str | None) -> FoundPage:
        """Returns up to 200 live keys of the door."""
        return self._reading.keys_at(door, cursor)

    def list_records(self, door: Door, since: datetime, until: datetime) -> tuple[AccessRecord, ...]:
        """Returns the attempts that have reached the server, oldest first. A stand-alone door's arrive late, by card."""
        return self._reading.records(door, since, until)

    def verify(self, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
        """Says whether a push is signed with one of the installation's webhook secrets within 300 s."""
        return is_genuine(headers, body, self._settings.webhook_secrets, now)

    def parse(self, body: bytes) -> tuple[AccessRecord, ...]:
        """Reads the attempt in a push, none for another type. Raises ValueError for anything else."""
        return read_push(body)

    def parse_devices(self, body: bytes) -> tuple[DeviceRecord, ...]:
        """Reads the condition of a door, or of the connector, in a push. Raises ValueError."""
        return read_conditions(body)

    def _zone(self, named: str) -> ZoneInfo:
        return self._settings.time_zone or ZoneInfo(named)

    def _choose(self, request: IssueInput) -> Kind:
        for kind in request.preferred_kinds:
            if kind not in MANIFEST.kinds or (kind is Kind.MOBILE_APP and not request.holder.phone_e164):
                continue
            return kind
        if Kind.MOBILE_APP in request.preferred_kinds and not request.holder.phone_e164:
            raise refused_issue("the holder has no telephone number", Reason.NO_PHONE)
        raise refused_issue("no wanted kind is supported", Reason.KIND_UNSUPPORTED)

    def _issue_pin(self, call: Call, request: IssueInput) -> IssueResult:
        order = PinOrder(request.credential_id, request.meta.idempotency_key, request.pin, request.window)
        doors = self._each(call, request.doors, lambda door: self._keys.make_pin(call, order, door))
        return IssueResult(
            settle(doors), self._certificate_warning(), call.requests, kind=Kind.PIN_CODE, artifact=PinArtifact(order.pin)
        )

    def _update(self, call: Call, request: UpdateInput) -> CallResult:
        window = clipped(request.handle.window, self._zone(request.time_zone))
        request = replace(request, handle=replace(request.handle, window=window))
        if request.handle.kind is Kind.PIN_CODE:
            return self._update_pin(call, request)
        doors = (*request.handle.doors, *request.added, *request.removed)
        ref = next((door.ref for door in (*request.handle.doors, *request.removed, *request.added) if door.ref), None)
        if ref is None:
            ref = self._newest_ref(call, request.handle)
        body = self._window(request.handle) | {
            "addRooms": [door.external_id for door in request.added],
            "removeRooms": [door.external_id for door in request.removed],
        }
        if request.added:  # whatever the key was made as: a guest who moves into a room that is let ends nobody's key there
            body["mode"] = "copy" if request.intent is Intent.ADDITIONAL else "new"
        try:
            row = self._keys.change(call, ref, body)
            if request.at_encoder:
                row = self._keys.write_again(call, ref)
        except Unclear as unclear:
            return CallResult(tuple(unknown(door, unclear.error) for door in doors), calls=call.requests)
        except Refused as refused:
            raise self._keys.error(refused, doors) from None
        kept = results(row, (*request.handle.doors, *request.added))
        if any(result.outcome is not Outcome.DONE for result in kept) and request.removed:
            gone = tuple(postponed(door) for door in request.removed)
        else:
            gone = results(row, request.removed, is_there=False)
        return CallResult(settle((*kept, *gone)), (*card_warnings(row), *self._certificate_warning()), call.requests)

    def _update_pin(self, call: Call, request: UpdateInput) -> CallResult:
        handle = request.handle
        kept = self._by_ref(call, handle, lambda ref, doors: self._change(call, ref, doors, self._window(handle)))
        order = (
            PinOrder(handle.credential_id, request.meta.idempotency_key, handle.pin, handle.window) if request.added else None
        )
        added: tuple[DoorResult, ...] = ()
        if order is not None:
            added = self._each(call, request.added, lambda door: self._keys.make_pin(call, order, door))
        if any(result.outcome is not Outcome.DONE for result in added):
            gone = tuple(postponed(door) for door in request.removed)
        else:
            gone = self._by_ref(
                call,
                CredentialHandle(handle.credential_id, handle.kind, handle.window, request.removed),
                lambda ref, doors: self._taken(call, ref, doors, handle.credential_id),
                gone_is_done=True,
            )
        return CallResult(settle((*kept, *added, *gone)), calls=call.requests)

    def _patched(self, handle: CredentialHandle, body: Mapping[str, object], meta: CallMeta) -> CallResult:
        call = Call(meta)
        doors = self._by_ref(call, handle, lambda ref, doors: self._change(call, ref, doors, body))
        return CallResult(settle(doors), calls=call.requests)

    def _change(
        self, call: Call, ref: VendorRef, doors: Sequence[Door], body: Mapping[str, object]
    ) -> tuple[Row, tuple[DoorResult, ...]]:
        row = self._keys.change(call, ref, body)
        return row, results(row, doors)

    def _taken(
        self, call: Call, ref: VendorRef, doors: Sequence[Door], credential_id: str
    ) -> tuple[Row, tuple[DoorResult, ...]]:
        row = self._keys.take(call, ref, "checkout", credential_id)
        return row, results(row, doors, is_there=False)

    def _by_ref(self, call: Call, handle: CredentialHandle, act: Act, *, gone_is_done: bool = False) -> tuple[DoorResult, ...]:
        """Acts once for each key behind the handle's doors, and stops where the vendor does: what is done stays told. Doors
        without a reference, or with one that the vendor does not know, are looked up by the credential."""
        groups, strays = self._grouped(call, handle)
        found: list[DoorResult] = []
        looked_up: set[str] = set()
        for index, (ref, doors) in enumerate(groups):
            try:
                found += act(ref, doors)[1]
            except LockError as cut:
                changed = {item.device_id for item in found}
                for door in (door for _, rest in groups[index:] for door in rest):
                    found.append(open_at(door, in_doubt(cut)) if door.device_id in changed else failed(door, cut))
                break
            except Unclear as unclear:
                found += [unknown(door, unclear.error) for door in doors]
            except Refused as refused:
                if refused.code == UNKNOWN_KEY and not looked_up.issuperset(door.device_id for door in doors):
                    looked_up |= {door.device_id for door in doors}
                    named, nowhere = self._looked_up(call, handle, doors)
                    groups += named
                    strays += nowhere
                    continue
                error = self._keys.error(refused, doors, revoking=call.revoking)
                found += [failed(door, error) for door in doors]
        for door in strays:
            if gone_is_done:
                found.append(DoorResult(door.device_id, Outcome.DONE))
            else:
                found.append(failed(door, translate(CLOUD, "unknown_key", device_id=door.device_id)))
        return one_each(found)

    def _grouped(self, call: Call, handle: CredentialHandle) -> tuple[list[tuple[VendorRef, list[Door]]], list[Door]]:
        groups: dict[str, list[Door]] = {}
        blind = [door for door in handle.doors if door.ref is None]
        for door in handle.doors:
            if door.ref is not None:
                groups.setdefault(door.ref.reveal(), []).append(door)
        named = [(VendorRef(ref), doors) for ref, doors in groups.items()]
        if not blind:
            return named, []
        further, strays = self._looked_up(call, handle, blind)
        return _merged([*named, *further]), strays

    def _looked_up(
        self, call: Call, handle: CredentialHandle, doors: Sequence[Door]
    ) -> tuple[list[tuple[VendorRef, list[Door]]], list[Door]]:
        """Finds the credential's live keys at doors by the credential; also returns the doors at which there is none."""
        rows = [row for row in self._keys.of_credential(call, handle.credential_id) if is_live(row)]
        found = [
            (VendorRef(str(row["cardRef"])), [door for door in doors if door.external_id in places_in(row)]) for row in rows
        ]
        found = [(ref, there) for ref, there in found if there]
        known = {door.device_id for _, there in found for door in there}
        return found, [door for door in doors if door.device_id not in known]

    def _newest_ref(self, call: Call, handle: CredentialHandle) -> VendorRef:
        rows = [row for row in self._keys.of_credential(call, handle.credential_id) if is_live(row)]
        if not rows:
            raise translate(CLOUD, "unknown_key")
        return VendorRef(str(rows[-1]["cardRef"]))

    def _each(self, call: Call, doors: Sequence[Door], act: Callable[[Door], DoorResult]) -> tuple[DoorResult, ...]:
        def one(door: Door) -> DoorResult:
            try:
                return act(door)
            except LockError as error:
                error.device_id = error.device_id or door.device_id
                raise

        attempt, deadline, effects = call.meta.attempt, call.deadline, call.effects
        return each_door(doors, one, vendor=MANIFEST.code, attempt=attempt, deadline=deadline, effects=effects)

    def _artifact(self, kind: Kind, request: IssueInput, row: Row | None) -> CardArtifact | TokenArtifact | None:
        if kind is Kind.RFID_CARD:
            return CardArtifact(self._settings.encoder_device_id or request.doors[0].device_id)
        if row is None or not row.get("mobileKey"):
            return None
        return TokenArtifact("mobile_token", Token(str(row["mobileKey"])))

    def _also_killed(self, request: IssueInput, row: Row) -> tuple[str, ...]:
        if request.intent is not Intent.REPLACEMENT or request.replaces is None:
            return ()
        killed = {str(item["reservationRef"]) for item in row.get("supersedes", ())}
        return tuple(sorted(killed - {request.replaces.credential_id, request.credential_id}))

    def _certificate_warning(self) -> tuple[LockWarning, ...]:
        identity = self._client.identity
        ends = identity.expires_soon(self._context.clock.now()) if identity else None
        if ends is None:
            return ()
        return (LockWarning("CONNECTOR_CERTIFICATE_ENDS", f"the connector's client certificate ends at {ends.isoformat()}"),)

    def _window(self, handle: CredentialHandle) -> dict[str, object]:
        return {"validFrom": handle.window.valid_from.isoformat(), "validUntil": handle.window.valid_until.isoformat()}


def _merged(groups: Sequence[tuple[VendorRef, list[Door]]]) -> list[tuple[VendorRef, list[Door]]]:
    by_ref: dict[str, list[Door]] = {}
    for ref, doors in groups:
        by_ref.setdefault(ref.reveal(), []).extend(doors)
    return [(VendorRef(ref), doors) for ref, doors in by_ref.items()]
