"""LockPort for battery locks that read records on cards: the card is the database, a lock learns only from cards.

| verb | supported | how |
|---|---|---|
| issue | at the desk | writes a record for each door. `new` and `replacement` outrank earlier cards at the door once used, `additional` joins |
| update | at the desk | the card is stale until a person holds it to the encoder and it is written anew |
| revoke | bounded | calls an unwritten card off; a written one opens until its end, or until a later stay's card is used |
| suspend, unsuspend | not at the door | warned; the bound is the card's end |
| list_devices, health_check | no | a lock off every wire cannot be asked; doors are registered by hand |
| Resume, Lookup, Inventory | yes, yes, no | by the desk's own word; what is on cards elsewhere nobody can list |
| Records, Webhook | no | a lock's log needs somebody at the door |

One rule: a card that may have been written is never written again blindly; its desk is asked what it did. And the desk reads a
card before it writes it: what is a live key of another stay there is in use.
"""  # noqa: E501 - a table's row is one line

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from vendors.port.errors import CredentialExpired, KeyIssueFailed, Reason
from vendors.port.manifest import AdapterContext
from vendors.port.relay import JobStanding, JobState, RelayJob
from vendors.port.types import (
    CARD_STALE,
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
    Intent,
    IssueInput,
    IssueResult,
    LockDevice,
    Outcome,
    Propagation,
    RevokeReason,
    SuspendReason,
    UpdateInput,
    Window,
)
from vendors.port.types import Warning as LockWarning
from vendors.support.marks import mark_of, tag_of
from vendors.support.per_door import failed

from .desk_calls import (
    MARGIN_S,
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
from .errors import keys_in, of_standing
from .manifest import MANIFEST
from .manifest_code import CODE
from .records import credential_tag
from .refs import CardRef, open_card
from .settings import Settings

ENCODE = "encode"
NOT_AT_THE_DOOR = LockWarning("SUSPEND_NOT_EFFECTIVE_OFFLINE", "the card goes on opening until it ends")
CHECK_CARD = LockWarning("CHECK_CARD_AT_DESK", "nobody knows whether the card was written: lay it on the encoder again")
STALE = LockWarning(CARD_STALE, "the card in the guest's pocket carries what it carried: lay it on the desk's encoder")


class StandalonePort:
    """LockPort with Resume and Lookup."""

    def __init__(self, settings: Settings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._desk = DeskCalls(settings, context)

    def issue_credential(self, request: IssueInput) -> IssueResult:
        """Has a card written that a person lays on the desk's encoder. DEFERRED while nobody has, then refused for good."""
        kind = choose_kind(request.preferred_kinds, MANIFEST.kinds)
        self._require_room(kind, len(request.doors))
        standing = self._desk.hand_over(self._encoding(request, kind), request.meta)
        return self._issued(standing, request.doors, kind, is_replacement=request.intent is Intent.REPLACEMENT)

    def update_credential(self, request: UpdateInput) -> CallResult:
        """Has the same card written anew while a person holds it to the encoder; without her, tells that the card is stale."""
        self._require_room(request.handle.kind, len(request.handle.doors) + len(request.added))
        if not request.at_encoder:
            return self._stale(request)
        standing = self._desk.hand_over(self._rewriting(request), request.meta)
        return self._updated(standing, (*request.handle.doors, *request.added, *request.removed))

    def revoke_credential(self, handle: CredentialHandle, reason: RevokeReason, meta: CallMeta) -> CallResult:
        """Calls off what is still to be written, and says until when a written card goes on opening."""
        wanted = {door.device_id for door in handle.doors}
        jobs = [
            job for job in self._desk.of_credential(handle.credential_id) if job.action == ENCODE and wanted & set(job.doors)
        ]
        open_count = sum(job.is_open for job in jobs)
        if open_count:
            self._context.limiter.acquire(open_count, meta.priority)
        jobs = [self._desk.stay(self._desk.call_off(job), meta) for job in jobs]
        underway = next((job for job in jobs if job.is_underway), None)
        results = tuple(
            self._dying(handle, door, [job for job in jobs if door.device_id in job.doors]) for door in handle.doors
        )
        token = token_of("revoke", underway) if underway is not None else None
        return CallResult(results, calls=open_count, resume_token=token)

    def suspend_credential(self, handle: CredentialHandle, reason: SuspendReason, meta: CallMeta) -> CallResult:
        """Tells that nothing at the door changes, and until when: no lock can be told."""
        doors = tuple(DoorResult(door.device_id, Outcome.DONE, door.ref, *self._bound(handle, door)) for door in handle.doors)
        return CallResult(doors, (NOT_AT_THE_DOOR,))

    def unsuspend_credential(self, handle: CredentialHandle, meta: CallMeta) -> CallResult:
        """Tells that the card opens, as it did all the time. Raises CredentialExpired when the window is over."""
        if handle.window.valid_until <= self._context.clock.now():
            raise CredentialExpired(CODE, "the window is over")
        return CallResult(tuple(DoorResult(door.device_id, Outcome.DONE, door.ref) for door in handle.doors))

    def resume(self, handle: CredentialHandle, resume_token: str, meta: CallMeta) -> CallResult:
        """Asks how a job stands by now. What ended without effect is a refusal of each door, so that a repeat starts anew."""
        verb, job_id = open_token(resume_token)
        if verb == "revoke":
            return self.revoke_credential(handle, RevokeReason.CANCELLATION, meta)
        standing = self._desk.look(job_id, meta)
        if standing.has_failed:
            return CallResult(tuple(failed(door, of_standing(standing)) for door in handle.doors), calls=1)
        if verb == "update":
            return self._updated(standing, handle.doors)
        return self._issued(standing, handle.doors, handle.kind, is_replacement=verb == "replace")

    def list_devices(self, property_id: str) -> tuple[LockDevice, ...]:
        """Returns nothing: nobody can list locks that hang on no wire."""
        return ()

    def health_check(self, door: Door) -> DeviceHealth:
        """Says that the door is not on line; what its lock's clock and battery do, nobody can tell. Raises DeviceNotPaired."""
        place_of(door)
        return DeviceHealth(door.device_id, online=False, checked_at=self._context.clock.now())

    def describe_adapter(self) -> AdapterDescription:
        """Tells code and capabilities without a call."""
        return AdapterDescription(CODE, replace(MANIFEST.capabilities, remote_issue=False, remote_revoke=False))

    def find(self, handle: CredentialHandle, meta: CallMeta) -> tuple[FoundKey, ...]:
        """Returns the records that a desk says it wrote for the credential, by door; those in doubt are not among them."""
        found: dict[str, FoundKey] = {}
        for job in self._desk.of_credential(handle.credential_id):
            if job.state is JobState.DONE and job.action == ENCODE:
                for door in handle.doors:
                    ref = _written_at(job, door)
                    if ref is not None:
                        found[door.external_id] = FoundKey(
                            device_external_id=door.external_id,
                            ref=ref.seal(),
                            kind=handle.kind,
                            window=_window_in(job.result),
                            nonce=str(job.result.get("mark") or "") or None,
                            tag=tag_of(handle.credential_id),
                        )
        return tuple(found.values())

    def _encoding(self, request: IssueInput, kind: CredentialKind) -> RelayJob:
        joins = request.intent is Intent.ADDITIONAL
        rows = [_row(door, joins=joins) for door in request.doors]
        own = tuple(str(row["door"]) for row in rows if not row["shared"])
        body = self._body(request.credential_id, kind, request.window, rows, mark_of(request.meta.idempotency_key))
        body["overwrites"] = sorted(request.overwrites)
        return RelayJob(
            key=job_key("issue", request.meta.idempotency_key, *names_of(request.doors)),
            credential_id=request.credential_id,
            action=ENCODE,
            body=body,
            doors=names_of(request.doors),
            needs_card=True,
            lasts_until=request.window.valid_until,
            advance=() if joins else own,
            keep=own if joins else (),
            priority=request.meta.priority,
            timeout_s=self._settings.card_timeout_s + MARGIN_S,
        )

    def _stale(self, request: UpdateInput) -> CallResult:
        """What changes in the books alone: the card in the guest's pocket says what it said until the desk writes it."""
        handle = request.handle
        kept = [DoorResult(d.device_id, Outcome.DONE, d.ref, *self._late(handle, d)) for d in (*handle.doors, *request.added)]
        gone = [DoorResult(d.device_id, Outcome.DONE, None, *self._bound(handle, d)) for d in request.removed]
        for door in (*handle.doors, *request.added, *request.removed):
            place_of(door)
        return CallResult((*kept, *gone), (STALE,))

    def _late(self, handle: CredentialHandle, door: Door) -> tuple[Propagation, datetime | None]:
        """A longer window is never there by itself; of a shorter one, the earlier end is the bound."""
        ref = open_card(door.ref)
        is_shorter = ref is not None and ref.opens_until > handle.window.valid_until
        return Propagation.PROPAGATING, ref.opens_until if ref is not None and is_shorter else None

    def _rewriting(self, request: UpdateInput) -> RelayJob:
        handle, joins = request.handle, request.intent is Intent.ADDITIONAL
        rows = [_row(door, joins=False) for door in handle.doors]
        for row, door in zip(rows, handle.doors, strict=True):
            ref = open_card(door.ref)
            row["sequence"] = ref.sequence if ref is not None else None
        added = [_row(door, joins=joins) for door in request.added]
        unread = tuple(str(row["door"]) for row in rows if row["sequence"] is None and not row["shared"])
        new = tuple(str(row["door"]) for row in added if not row["shared"])
        doors = (*handle.doors, *request.added, *request.removed)
        body = self._body(
            handle.credential_id, handle.kind, handle.window, [*rows, *added], mark_of(request.meta.idempotency_key)
        )
        body["uid"] = next((ref.uid for door in doors if (ref := open_card(door.ref))), None)
        body["exact"] = True
        body["dropped"] = [place_of(door).number for door in request.removed]
        return RelayJob(
            key=update_key(request),
            credential_id=handle.credential_id,
            action=ENCODE,
            body=body,
            doors=names_of(doors),
            needs_card=True,
            lasts_until=handle.window.valid_until,
            advance=() if joins else new,
            keep=(*unread, *new) if joins else unread,
            priority=request.meta.priority,
            timeout_s=self._settings.card_timeout_s + MARGIN_S,
        )

    def _body(
        self, credential_id: str, kind: CredentialKind, window: Window, rows: Sequence[dict[str, Any]], mark: str
    ) -> dict[str, Any]:
        return {
            "kind": kind.value,
            "property": self._settings.property_number,
            "tag": credential_tag(credential_id).hex(),
            "mark": mark,
            "from": window.valid_from.isoformat(),
            "until": window.valid_until.isoformat(),
            "doors": list(rows),
            "now": self._context.clock.now().isoformat(),
        }

    def _issued(
        self, standing: JobStanding, doors: Sequence[Door], kind: CredentialKind, *, is_replacement: bool
    ) -> IssueResult:
        open_answer = unfinished(standing, doors, "replace" if is_replacement else "issue", (CHECK_CARD,))
        if open_answer is not None:
            return IssueResult(*open_answer, kind=kind)
        if standing.state is not JobState.DONE:
            raise of_standing(standing)
        results = tuple(self._written(standing, door) for door in doors)
        killed = standing.outranked if is_replacement else ()
        artifact = CardArtifact(standing.desk_id or doors[0].device_id)
        overwritten = keys_in(standing, "overwritten")
        return IssueResult(results, calls=1, also_killed=killed, kind=kind, artifact=artifact, overwritten=overwritten)

    def _written(self, standing: JobStanding, door: Door) -> DoorResult:
        ref = _written_at(standing, door)
        if ref is None:
            error = KeyIssueFailed(CODE, "the desk wrote no record for this door", retriable=True, device_id=door.device_id)
            return DoorResult(door.device_id, Outcome.FAILED, ref=door.ref, error=error)
        return DoorResult(door.device_id, Outcome.DONE, ref=ref.seal())

    def _updated(self, standing: JobStanding, doors: Sequence[Door]) -> CallResult:
        open_answer = unfinished(standing, doors, "update", (CHECK_CARD,))
        if open_answer is not None:
            return CallResult(*open_answer)
        if standing.state is not JobState.DONE:
            raise of_standing(standing)
        return CallResult(tuple(self._rewritten(standing, door) for door in doors), calls=1)

    def _rewritten(self, standing: JobStanding, door: Door) -> DoorResult:
        dropped = standing.result.get("dropped")
        if isinstance(dropped, list) and place_of(door).number in dropped:
            return DoorResult(door.device_id, Outcome.DONE)
        return self._written(standing, door)

    def _dying(self, handle: CredentialHandle, door: Door, jobs: Sequence[JobStanding]) -> DoorResult:
        waiting = [result for job in jobs if (result := pending(job, (replace(door, ref=None),)))]
        deferred = [result[0] for result in waiting if result[0].outcome is Outcome.DEFERRED]
        if waiting:
            return deferred[0] if deferred else waiting[0][0]
        ends = _ends(jobs)
        if not ends and open_card(door.ref) is None:
            return DoorResult(door.device_id, Outcome.DONE)
        return DoorResult(door.device_id, Outcome.DONE, None, *self._bound(handle, door, ends))

    def _bound(
        self, handle: CredentialHandle, door: Door, ends: Sequence[datetime] = ()
    ) -> tuple[Propagation, datetime | None]:
        """A card in a guest's pocket may be older than the books: it opens until the latest end it may carry."""
        ref = open_card(door.ref)
        carried = [ref.opens_until] if ref is not None else []
        until = max((*carried, *ends), default=handle.window.valid_until)
        if until <= self._context.clock.now():
            return Propagation.CONFIRMED, None
        return Propagation.PROPAGATING, until

    def _require_room(self, kind: CredentialKind, count: int) -> None:
        limit = self._settings.card_records if kind is CredentialKind.RFID_CARD else self._settings.tag_records
        if count > limit:
            text = f"a card of this kind holds {limit} doors, {count} are wanted"
            raise KeyIssueFailed(CODE, text, retriable=False, reason=Reason.KIND_UNSUPPORTED)


def _row(door: Door, *, joins: bool) -> dict[str, Any]:
    place = place_of(door)
    return {"door": place.number, "shared": place.is_shared, "joins": joins, "sequence": None}


def _ends(jobs: Sequence[JobStanding]) -> list[datetime]:
    """Until when each card written for a credential opens; a card that was written anew, by its last record."""
    by_card = {str(job.result.get("uid")): job.lasts_until for job in jobs if job.state is JobState.DONE}
    return [end for end in by_card.values() if end is not None]


def _written_at(standing: JobStanding, door: Door) -> CardRef | None:
    place = place_of(door)
    records, uid = standing.result.get("records"), standing.result.get("uid")
    if not isinstance(records, dict) or not isinstance(uid, str) or standing.lasts_until is None:
        return None
    sequence = records.get(str(place.number))
    return CardRef(uid, sequence, standing.lasts_until) if isinstance(sequence, int) else None


def _window_in(result: Any) -> Window | None:
    try:
        return Window(datetime.fromisoformat(str(result["from"])), datetime.fromisoformat(str(result["until"])))
    except (KeyError, ValueError):
        return None
