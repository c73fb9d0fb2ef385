"""MockLockPort: the port against the mock's cloud.

| verb | supported | how |
|---|---|---|
| issue, update, revoke, suspend, unsuspend | yes | one request for all doors; the vendor keeps idempotency keys |
| list_devices, health_check | yes | |
| Lookup, Inventory, Records, Resume | yes | |
| Webhook | yes | JSON body, signature header `X-Webhook-Signature` (vendors.support.signatures) |

One rule: no failure lives here; failures come from the mock's cloud, as they would from a real one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from vendors.port.errors import CredentialExpired, KeyIssueFailed, LockError, Reason
from vendors.port.manifest import AdapterContext
from vendors.port.secrets import Pin, Secret, Token, VendorRef
from vendors.port.types import (
    AccessRecord,
    AdapterDescription,
    Artifact,
    CallMeta,
    CallResult,
    CardArtifact,
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
    Reach,
    RevokeReason,
    SuspendReason,
    TokenArtifact,
    UpdateInput,
    Window,
)
from vendors.support.http import AnswerLost, NotSent
from vendors.support.marks import mark_of, tag_of
from vendors.support.per_door import settle
from vendors.support.signatures import is_signed

from .client import HttpLink, InProcessLink, MockLink
from .cloud import MockCloud
from .errors import answer_lost, from_refusal, not_sent
from .manifest import MANIFEST
from .profile import parse_address

SIGNATURE_HEADER = "x-webhook-signature"
DEFAULT_TIMEOUT_S = 65.0
_TOKEN_TYPES = {
    CredentialKind.MOBILE_APP: "mobile_token",
    CredentialKind.QR_CODE: "qr",
    CredentialKind.NFC_TAG: "nfc",
}


def build(context: AdapterContext) -> MockLockPort:
    """Builds the adapter. Raises ValueError for an address that cannot be read."""
    return MockLockPort(context)


class MockLockPort:
    """LockPort of the mock. `cloud` is the in-process vendor to use where the address names no host, so that two adapters can
    share one; without it each adapter has its own."""

    def __init__(self, context: AdapterContext, cloud: MockCloud | None = None) -> None:
        self._context = context
        self._address = parse_address(str(context.settings.get("url", "mock://")))
        self._timeout_s = float(str(context.settings.get("timeout_s", DEFAULT_TIMEOUT_S)))
        self._link: MockLink = (
            HttpLink(self._address)
            if self._address.base_url
            else InProcessLink(self._address, cloud or MockCloud(context.clock.now, context.sleep))
        )

    @property
    def cloud(self) -> MockCloud:
        """The in-process vendor, for tests that ask its doors. Raises TypeError when it is a process of its own."""
        if not isinstance(self._link, InProcessLink):
            raise TypeError("this mock's doors live in another process")
        return self._link.cloud

    def issue_credential(self, request: IssueInput) -> IssueResult:
        """Gives a key; the mock keeps the idempotency key, so a repeat has one effect."""
        kind = self._choose(request.preferred_kinds)
        value: Secret | None = {
            CredentialKind.PIN_CODE: request.pin,
            CredentialKind.RFID_CARD: request.card_number,
        }.get(kind)
        if kind is CredentialKind.PIN_CODE and value is None:
            raise KeyIssueFailed(MANIFEST.code, "a PIN key needs digits", retriable=False)
        body = _body(request.credential_id, kind, request.window, request.meta, value)
        answer = self._call("issue", body | {"doors": _rows(request.doors)}, request.meta)
        result = _result(answer, request.doors)
        return IssueResult(
            doors=settle(result.doors),
            warnings=result.warnings,
            calls=result.calls,
            resume_token=result.resume_token,
            kind=kind,
            artifact=_artifact(kind, answer.get("artifact"), request),
        )

    def update_credential(self, request: UpdateInput) -> CallResult:
        """Changes the window, adds doors, then removes doors; removal waits while an added door failed."""
        handle = request.handle
        rows = [
            *_rows(handle.doors),
            *_rows(request.added, part="added"),
            *_rows(request.removed, part="removed"),
        ]
        doors = (*handle.doors, *request.added, *request.removed)
        return self._change("update", handle, request.meta, rows, doors)

    def revoke_credential(self, handle: CredentialHandle, reason: RevokeReason, meta: CallMeta) -> CallResult:
        """Takes the key back; what is not there counts as taken back."""
        return self._change("revoke", handle, meta)

    def suspend_credential(self, handle: CredentialHandle, reason: SuspendReason, meta: CallMeta) -> CallResult:
        """Makes the key stop opening; it stays at the door."""
        return self._change("suspend", handle, meta)

    def unsuspend_credential(self, handle: CredentialHandle, meta: CallMeta) -> CallResult:
        """Makes it open again. Raises CredentialExpired when the window is over."""
        if handle.window.valid_until <= self._context.clock.now():
            raise CredentialExpired(MANIFEST.code, "the window is over")
        return self._change("unsuspend", handle, meta)

    def list_devices(self, property_id: str) -> tuple[LockDevice, ...]:
        """Lists the mock's doors."""
        answer = self._call("list", {}, CallMeta("list", priority=3))
        return tuple(
            LockDevice(
                external_id=row["door"],
                label=row["label"],
                online=row["online"],
                capabilities=self._address.profile.capabilities,
                has_remote=True,
                battery_percent=row["batteryPercent"],
                last_seen_at=self._context.clock.now(),
                utc_offset_s=row["utcOffsetS"],
            )
            for row in answer["devices"]
        )

    def health_check(self, door: Door) -> DeviceHealth:
        """Reads one door's condition."""
        row = self._call("health", {"doors": _rows([door])}, CallMeta("health", priority=3))
        return DeviceHealth(
            device_id=door.device_id,
            online=row["online"],
            battery_percent=row["batteryPercent"],
            clock_skew_ms=row["clockSkewMs"],
            checked_at=self._context.clock.now(),
            utc_offset_s=row["utcOffsetS"],
        )

    def set_clock(self, door: Door, utc_offset_s: int, meta: CallMeta) -> None:
        """Sets a door's clock."""
        self._call("set_clock", {"doors": _rows([door]), "utcOffsetS": utc_offset_s}, meta)

    def describe_adapter(self) -> AdapterDescription:
        """Tells the capabilities its address gives it."""
        return AdapterDescription(MANIFEST.code, self._address.profile.capabilities)

    def find(self, handle: CredentialHandle, meta: CallMeta) -> tuple[FoundKey, ...]:
        """Returns the credential's keys at the handle's doors."""
        body = {"tag": tag_of(handle.credential_id), "doors": _rows(handle.doors)}
        return tuple(_found(row) for row in self._call("find", body, meta)["keys"])

    def resume(self, handle: CredentialHandle, resume_token: str, meta: CallMeta) -> CallResult:
        """Asks how a deferred call ended."""
        answer = self._call("resume", {"resume": resume_token}, meta)
        result = _result(answer, handle.doors)
        return CallResult(settle(result.doors), calls=result.calls, resume_token=result.resume_token)

    def list_keys(self, door: Door, cursor: str | None) -> FoundPage:
        """Returns up to 100 keys of the door."""
        body = {"doors": _rows([door]), "cursor": cursor}
        answer = self._call("inventory", body, CallMeta("inventory", priority=3))
        return FoundPage(tuple(_found(row) for row in answer["keys"]), answer["next"])

    def list_records(self, door: Door, since: datetime, until: datetime) -> tuple[AccessRecord, ...]:
        """Returns the door's attempts in the span, oldest first."""
        body = {
            "doors": _rows([door]),
            "since": since.isoformat(),
            "until": until.isoformat(),
        }
        answer = self._call("records", body, CallMeta("records", priority=3))
        return tuple(_record(row) for row in answer["records"])

    def verify(self, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
        """Says whether the push is signed with the installation's webhook secret; without a secret none is."""
        lowered = {name.lower(): value for name, value in headers.items()}
        active = [s for n, s in self._context.secrets.items() if n.startswith("webhook_secret")]
        return is_signed(lowered.get(SIGNATURE_HEADER), body, active, now)

    def parse(self, body: bytes) -> tuple[AccessRecord, ...]:
        """Reads the openings in a push `{"records": […]}`. Raises ValueError for anything else."""
        try:
            return tuple(_record(row) for row in _pushed(body)["records"])
        except (KeyError, TypeError) as error:
            raise ValueError("a record lacks a part") from error

    def parse_devices(self, body: bytes) -> tuple[DeviceRecord, ...]:
        """Reads `"devices": [{"reach"?, "id"?, "eventId"?, "online"?, "batteryPercent"?, "clockSkewMs"?}]` in the same push.

        Raises ValueError.
        """
        try:
            return tuple(_condition(row) for row in _pushed(body).get("devices", ()))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("a device lacks a part") from error

    def _choose(self, preferred: Sequence[CredentialKind]) -> CredentialKind:
        for kind in preferred:
            if self._address.profile.capabilities.supports(kind):
                return kind
        raise KeyIssueFailed(
            MANIFEST.code,
            "no wanted kind is supported",
            retriable=False,
            reason=Reason.KIND_UNSUPPORTED,
        )

    def _change(
        self,
        verb: str,
        handle: CredentialHandle,
        meta: CallMeta,
        rows: list[dict[str, Any]] | None = None,
        doors: Sequence[Door] | None = None,
    ) -> CallResult:
        value = handle.pin if handle.kind is CredentialKind.PIN_CODE else handle.card_number
        body = _body(handle.credential_id, handle.kind, handle.window, meta, value)
        body["doors"] = _rows(handle.doors) if rows is None else rows
        answer = self._call(verb, body, meta)
        result = _result(answer, handle.doors if doors is None else doors)
        return CallResult(settle(result.doors), calls=result.calls, resume_token=result.resume_token)

    def _call(self, verb: str, body: dict[str, Any], meta: CallMeta) -> dict[str, Any]:
        self._context.limiter.acquire(1, meta.priority)
        try:
            answer = self._link.call(verb, body, min(self._timeout_s, meta.deadline_s))
        except NotSent:
            raise not_sent() from None
        except AnswerLost:
            raise answer_lost() from None
        if "error" in answer:
            raise from_refusal(answer["error"])
        return answer


def _body(credential_id: str, kind: CredentialKind, window: Window, meta: CallMeta, value: Secret | None) -> dict[str, Any]:
    return {
        "key": meta.idempotency_key,
        "mark": mark_of(meta.idempotency_key),
        "tag": tag_of(credential_id),
        "attempt": meta.attempt,
        "kind": kind.value,
        "from": window.valid_from.isoformat(),
        "until": window.valid_until.isoformat(),
        "value": value.reveal() if value is not None else None,
    }


def _rows(doors: Sequence[Door], part: str | None = None) -> list[dict[str, Any]]:
    return [{"door": d.external_id, "ref": d.ref.reveal() if d.ref else None, "part": part} for d in doors]


def _result(answer: Mapping[str, Any], doors: Sequence[Door]) -> CallResult:
    by_external = {door.external_id: door for door in doors}
    if not isinstance(answer.get("doors"), list):  # an answer of somebody between us and the vendor
        raise answer_lost()
    results = tuple(_door_result(row, by_external[row["door"]]) for row in answer["doors"])
    return CallResult(results, calls=1, resume_token=answer.get("resume"))


def _door_result(row: Mapping[str, Any], door: Door) -> DoorResult:
    error: LockError | None = None
    if row.get("error"):
        error = from_refusal(row["error"], door.device_id)
    ref = VendorRef(row["ref"]) if row.get("ref") else None
    outcome = Outcome(row["outcome"])
    kept = door.ref if outcome is not Outcome.DONE else ref
    return DoorResult(door.device_id, outcome, ref=kept, error=error)


def _artifact(kind: CredentialKind, value: str | None, request: IssueInput) -> Artifact | None:
    if kind is CredentialKind.PIN_CODE:
        pin = Pin(value) if value else request.pin
        return PinArtifact(pin) if pin else None
    if kind is CredentialKind.RFID_CARD:
        return CardArtifact(request.doors[0].device_id)
    return TokenArtifact(_TOKEN_TYPES[kind], Token(value)) if value else None


def _found(row: Mapping[str, Any]) -> FoundKey:
    return FoundKey(
        device_external_id=row["door"],
        ref=VendorRef(row["ref"]),
        kind=CredentialKind(row["kind"]),
        window=Window(datetime.fromisoformat(row["from"]), datetime.fromisoformat(row["until"])),
        nonce=row["mark"] or None,
        tag=row["tag"] or None,
        label=row["name"],
        pin=Pin(row["value"]) if row["kind"] == CredentialKind.PIN_CODE else None,
        is_resting=row["suspended"],
    )


def _record(row: Mapping[str, Any]) -> AccessRecord:
    return AccessRecord(
        external_event_id=f"{row['door']}:{row['id']}",
        device_external_id=row["door"],
        outcome=row["outcome"],
        attempted_at=datetime.fromisoformat(row["at"]),
        deny_reason=row.get("why"),
        nonce=row.get("mark"),
        kind=CredentialKind(row["kind"]),
    )


def _pushed(body: bytes) -> dict[str, Any]:
    document = json.loads(body)
    if not isinstance(document, dict) or not isinstance(document.get("records"), list):
        raise ValueError("the push holds no records")  # noqa: TRY004 - what came is at fault, not a type of ours
    return document


def _condition(row: Mapping[str, Any]) -> DeviceRecord:
    return DeviceRecord(
        reach=Reach(row.get("reach", Reach.LOCK)),
        external_id=str(row.get("id", "")),
        external_event_id=row.get("eventId"),
        online=row.get("online"),
        battery_percent=row.get("batteryPercent"),
        clock_skew_ms=row.get("clockSkewMs"),
    )
