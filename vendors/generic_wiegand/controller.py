"""LockPort for readers on a controller in the house: it holds lists of card numbers, and the desk drives it.

| verb | supported | how |
|---|---|---|
| issue | while a desk is connected | enters a number at the doors: the one given, or that of a card read at the desk |
| update, revoke, suspend, unsuspend | while a desk is connected | changes lines; effective at once, no card is needed |
| list_devices, health_check | while a desk is connected | the controller's doors; no battery, no clock |
| Resume, Lookup, Inventory, Records | yes | the desk reads the controller |
| Webhook | yes | a forwarder in the house may push openings, signed with our own scheme |

One rule: a line carries our mark and the credential's tag, so that a lost answer is settled by reading the list. And the list
is read before a number is entered: a card that is in it for another stay is in use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from vendors.port.errors import CredentialExpired, DeviceNotPaired, LockError, VendorUnreachable
from vendors.port.manifest import AdapterContext
from vendors.port.relay import JobStanding, JobState, Refusal, RelayJob
from vendors.port.secrets import CardNumber
from vendors.port.types import (
    AccessRecord,
    AdapterDescription,
    CallMeta,
    CallResult,
    CardArtifact,
    CredentialHandle,
    CredentialKind,
    DeviceHealth,
    Door,
    DoorResult,
    FoundKey,
    FoundPage,
    IssueInput,
    IssueResult,
    LockDevice,
    Outcome,
    RevokeReason,
    SuspendReason,
    UpdateInput,
    Window,
)
from vendors.support.marks import mark_of, tag_of
from vendors.support.per_door import failed, settle
from vendors.support.signatures import is_signed

from .desk_calls import (
    MARGIN_S,
    READING_S,
    DeskCalls,
    choose_kind,
    job_key,
    names_of,
    open_token,
    pending,
    token_of,
    unfinished,
    update_key,
)
from .doors import place_of
from .errors import REFUSALS, keys_in, of_standing, of_word
from .manifest import MANIFEST
from .manifest_code import CODE
from .refs import entry_in, entry_ref
from .settings import CARD_FORMATS, Settings

SIGNATURE_HEADER = "x-webhook-signature"
GIVING = frozenset({"enrol", "change", "wake"})
TAKING = {"revoke": "withdraw", "suspend": "rest"}
AFTER = "-after"
"""What a token's verb ends with whose job must end before its own verb can begin."""


class ControllerPort:
    """LockPort with Resume, Lookup, Inventory, Records and Webhook."""

    def __init__(self, settings: Settings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._desk = DeskCalls(settings, context)

    def issue_credential(self, request: IssueInput) -> IssueResult:
        """Enters a card number at the doors. Without a number a person lays the card on the desk's reader."""
        kind = choose_kind(request.preferred_kinds, MANIFEST.kinds)
        number = self._fitting(request.card_number)
        body = self._body(request.credential_id, kind, request.window, request.meta)
        body |= {"number": number, "doors": _rows(request.doors), "overwrites": sorted(request.overwrites)}
        body["now"] = self._context.clock.now().isoformat()
        job = self._job("enrol", "issue", request.credential_id, body, request.doors, request.meta, request.window)
        standing = self._desk.hand_over(job, request.meta)
        return self._issued(standing, request.doors, kind)

    def update_credential(self, request: UpdateInput) -> CallResult:
        """Changes the window, adds doors, then removes doors; removal waits while an added door failed."""
        handle, meta = request.handle, request.meta
        doors = (*handle.doors, *request.added, *request.removed)
        body = self._body(handle.credential_id, handle.kind, handle.window, meta)
        body |= {
            "number": self._fitting(handle.card_number),
            "doors": _rows(handle.doors),
            "added": _rows(request.added),
            "removed": _rows(request.removed),
        }
        job = self._job("change", "update", handle.credential_id, body, doors, meta, handle.window)
        return self._changed(self._desk.hand_over(replace(job, key=update_key(request)), meta), doors, "update")

    def revoke_credential(self, handle: CredentialHandle, reason: RevokeReason, meta: CallMeta) -> CallResult:
        """Takes the credential's lines out of the lists, by its tag where the reference was lost with an answer. DEFERRED while
        a desk may still enter one."""
        return self._take_away("revoke", handle, meta)

    def suspend_credential(self, handle: CredentialHandle, reason: SuspendReason, meta: CallMeta) -> CallResult:
        """Lets the lines rest: they stay in the lists and open nothing. DEFERRED as a revoke is."""
        return self._take_away("suspend", handle, meta)

    def unsuspend_credential(self, handle: CredentialHandle, meta: CallMeta) -> CallResult:
        """Wakes the lines, within the handle's window. Raises CredentialExpired when that is over."""
        if handle.window.valid_until <= self._context.clock.now():
            raise CredentialExpired(CODE, "the window is over")
        return self._do("wake", "unsuspend", handle, meta)

    def resume(self, handle: CredentialHandle, resume_token: str, meta: CallMeta) -> CallResult:
        """Asks how a job stands by now. What ended without effect is a refusal of each door, so that a repeat starts anew."""
        verb, job_id = open_token(resume_token)
        if verb.endswith(AFTER):
            return self._take_away(verb.removesuffix(AFTER), handle, meta)
        standing = self._desk.look(job_id, meta)
        if standing.has_failed:
            error = of_standing(standing, revoking=verb == "revoke")
            return CallResult(tuple(failed(door, error) for door in handle.doors), calls=1)
        if verb == "issue":
            return self._issued(standing, handle.doors, handle.kind)
        return self._changed(standing, handle.doors, verb)

    def list_devices(self, property_id: str) -> tuple[LockDevice, ...]:
        """Lists the controller's doors."""
        rows = _answered(self._read("doors", {}, CallMeta("list", priority=3)), "doors")
        now = self._context.clock.now()
        return tuple(
            LockDevice(
                external_id=str(row["door"]),
                label=str(row.get("label") or row["door"]),
                online=bool(row.get("online")),
                capabilities=MANIFEST.capabilities,
                has_remote=True,
                last_seen_at=now if row.get("online") else None,
            )
            for row in rows
        )

    def health_check(self, door: Door) -> DeviceHealth:
        """Reads whether the controller reaches the door. Raises DeviceNotPaired for one it does not know."""
        rows = _answered(self._read("doors", {}, CallMeta("health", priority=3)), "doors")
        row = next((row for row in rows if str(row["door"]) == door.external_id), None)
        if row is None:
            raise DeviceNotPaired(CODE, "the controller has no such door", device_id=door.device_id)
        return DeviceHealth(door.device_id, online=bool(row.get("online")), checked_at=self._context.clock.now())

    def describe_adapter(self) -> AdapterDescription:
        """Tells code and capabilities without a call."""
        return AdapterDescription(CODE, MANIFEST.capabilities)

    def find(self, handle: CredentialHandle, meta: CallMeta) -> tuple[FoundKey, ...]:
        """Returns the credential's lines at the handle's doors."""
        body = {"doors": _rows(handle.doors), "tag": tag_of(handle.credential_id)}
        return tuple(_found(row) for row in _answered(self._read("list", body, meta), "entries"))

    def list_keys(self, door: Door, cursor: str | None) -> FoundPage:
        """Returns up to 100 lines of the door, strangers' too."""
        body = {"doors": _rows([door]), "cursor": cursor}
        result = self._read("list", body, CallMeta("inventory", priority=3))
        following = result.get("next")
        return FoundPage(tuple(_found(row) for row in _answered(result, "entries")), str(following) if following else None)

    def list_records(self, door: Door, since: datetime, until: datetime) -> tuple[AccessRecord, ...]:
        """Returns the door's attempts in the span, oldest first."""
        body = {"doors": _rows([door]), "since": since.isoformat(), "until": until.isoformat()}
        rows = _answered(self._read("log", body, CallMeta("records", priority=3)), "records")
        return tuple(_record(row) for row in rows)

    def verify(self, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
        """Says whether the push is signed with the installation's webhook secret; without a secret none is."""
        lowered = {name.lower(): value for name, value in headers.items()}
        return is_signed(lowered.get(SIGNATURE_HEADER), body, self._settings.webhook_secrets, now)

    def parse(self, body: bytes) -> tuple[AccessRecord, ...]:
        """Reads the openings in a push `{"records": […]}`. Raises ValueError for anything else."""
        document = json.loads(body)
        if not isinstance(document, dict):
            raise ValueError("the push is no object")  # noqa: TRY004 - what came is at fault, not a type of ours
        try:
            return tuple(_record(row) for row in _list_in(document, "records"))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("a record lacks a part") from error

    def _take_away(self, verb: str, handle: CredentialHandle, meta: CallMeta) -> CallResult:
        """Ends what may still give the key to these doors, and takes it away then: a card laid down afterwards would bring it
        back. A desk out of reach may do so; the key is taken away all the same, and again once that desk has spoken."""
        for job in self._giving(handle):
            self._desk.call_off(job)
        first = next((job for job in self._giving(handle) if job.is_underway), None)
        if first is not None:
            self._desk.stay(first, meta)
        still = self._giving(handle)
        underway = next((job for job in still if job.is_underway), None)
        if underway is not None:
            waiting = pending(underway, handle.doors) or ()
            return CallResult(waiting, calls=1, resume_token=token_of(verb + AFTER, underway))
        lost = [job for job in still if job.state is JobState.LOST]
        result = self._do(TAKING[verb], verb, handle, meta, before=tuple(job.job_id for job in lost))
        if not lost:
            return result
        token = token_of(verb + AFTER, lost[0]) if result.resume_token is not None else None
        return replace(result, doors=tuple(_in_doubt(item, lost[0], handle.doors) for item in result.doors), resume_token=token)

    def _giving(self, handle: CredentialHandle) -> list[JobStanding]:
        """Returns the open jobs that may yet let the credential open one of the handle's doors."""
        wanted = {door.device_id for door in handle.doors}
        jobs = self._desk.of_credential(handle.credential_id)
        return [job for job in jobs if job.is_open and job.action in GIVING and wanted & set(job.doors)]

    def _do(self, action: str, verb: str, handle: CredentialHandle, meta: CallMeta, before: tuple[str, ...] = ()) -> CallResult:
        body = self._body(handle.credential_id, handle.kind, handle.window, meta) | {"doors": _rows(handle.doors)}
        job = self._job(action, verb, handle.credential_id, body, handle.doors, meta, handle.window)
        if before:
            job = replace(job, key=job_key(verb, job.key, *before))
        return self._changed(self._desk.hand_over(job, meta), handle.doors, verb)

    def _job(
        self, action: str, verb: str, credential_id: str, body: dict[str, Any], doors: Sequence[Door], meta: CallMeta,
        window: Window,
    ) -> RelayJob:  # fmt: skip
        needs_card = action == "enrol" and body.get("number") is None
        for door in doors:
            place_of(door)
        return RelayJob(
            key=job_key(verb, meta.idempotency_key, *names_of(doors)),
            credential_id=credential_id,
            action=action,
            body=body,
            doors=names_of(doors),
            needs_card=needs_card,
            lasts_until=window.valid_until,
            priority=meta.priority,
            timeout_s=MARGIN_S + (self._settings.card_timeout_s if needs_card else READING_S),
        )

    def _body(self, credential_id: str, kind: CredentialKind, window: Window, meta: CallMeta) -> dict[str, Any]:
        return {
            "kind": kind.value,
            "tag": tag_of(credential_id),
            "mark": mark_of(meta.idempotency_key),
            "from": window.valid_from.isoformat(),
            "until": window.valid_until.isoformat(),
        }

    def _fitting(self, number: CardNumber | None) -> str | None:
        """Refuses a number the readers' format cannot hold: cutting it off would let two guests share one."""
        if number is None:
            return None
        text = number.reveal()
        if not (text.isascii() and text.isdigit() and int(text) < CARD_FORMATS[self._settings.card_format]):
            row = REFUSALS[Refusal.DOES_NOT_FIT]
            raise row.kind(CODE, row.meaning, retriable=False, reason=row.reason)
        return text

    def _issued(self, standing: JobStanding, doors: Sequence[Door], kind: CredentialKind) -> IssueResult:
        open_answer = unfinished(standing, doors, "issue")
        if open_answer is not None:
            return IssueResult(*open_answer, kind=kind)
        results = settle(self._by_door(standing, doors, revoking=False))
        artifact = CardArtifact(standing.desk_id or doors[0].device_id)
        return IssueResult(results, calls=1, kind=kind, artifact=artifact, overwritten=keys_in(standing, "overwritten"))

    def _changed(self, standing: JobStanding, doors: Sequence[Door], verb: str) -> CallResult:
        open_answer = unfinished(standing, doors, verb)
        if open_answer is not None:
            return CallResult(*open_answer)
        return CallResult(settle(self._by_door(standing, doors, revoking=verb == "revoke")), calls=1)

    def _by_door(self, standing: JobStanding, doors: Sequence[Door], *, revoking: bool) -> tuple[DoorResult, ...]:
        if standing.state is not JobState.DONE:
            raise of_standing(standing, revoking=revoking)
        said = {str(row["door"]): row for row in _answered(standing.result, "doors")}
        return tuple(_at_door(door, said.get(door.external_id), revoking=revoking) for door in doors)

    def _read(self, action: str, body: dict[str, Any], meta: CallMeta) -> Mapping[str, Any]:
        standing = self._desk.read(action, body, meta)
        if standing.state is not JobState.DONE:
            raise of_standing(standing)
        return standing.result


def _at_door(door: Door, row: Mapping[str, Any] | None, *, revoking: bool) -> DoorResult:
    word = "not_done" if row is None else str(row.get("code") or "")
    if word:
        error: LockError = of_word(word, door.device_id, revoking=revoking)
        return failed(door, error)
    entry = (row or {}).get("entry")
    return DoorResult(door.device_id, Outcome.DONE, ref=entry_ref(str(entry)) if entry else None)


def _in_doubt(item: DoorResult, lost: JobStanding, doors: Sequence[Door]) -> DoorResult:
    """What was done at a door is not the last word while a lost desk may still do otherwise."""
    if item.outcome is not Outcome.DONE:
        return item
    doubtful = pending(lost, [door for door in doors if door.device_id == item.device_id])
    return doubtful[0] if doubtful else item


def _rows(doors: Sequence[Door]) -> list[dict[str, str]]:
    return [{"door": door.external_id, "entry": entry_in(door.ref)} for door in doors]


def _list_in(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    rows = document.get(name)
    if not isinstance(rows, list):
        raise ValueError(f"the answer has no {name}")  # noqa: TRY004 - what came is at fault, not a type of ours
    return rows


def _answered(result: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Returns the rows of a desk's answer. Raises VendorUnreachable for one that makes no sense."""
    rows = result.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row.get("door") for row in rows):
        raise VendorUnreachable(CODE, f"the desk's answer has no {name}", retriable=True)
    return rows


def _found(row: Mapping[str, Any]) -> FoundKey:
    return FoundKey(
        device_external_id=str(row["door"]),
        ref=entry_ref(str(row["entry"])),
        kind=CredentialKind(row["kind"]),
        window=Window(datetime.fromisoformat(row["from"]), datetime.fromisoformat(row["until"])),
        nonce=str(row["mark"]) if row.get("mark") else None,
        tag=str(row["tag"]) if row.get("tag") else None,
        is_resting=bool(row.get("resting")),
    )


def _record(row: Mapping[str, Any]) -> AccessRecord:
    return AccessRecord(
        external_event_id=f"{row['door']}:{row['id']}",
        device_external_id=str(row["door"]),
        outcome=str(row["outcome"]),
        attempted_at=datetime.fromisoformat(row["at"]),
        deny_reason=row.get("why"),
        nonce=row.get("mark"),
        kind=CredentialKind(row["kind"]),
    )
