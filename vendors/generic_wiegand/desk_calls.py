"""What both kinds of installation do alike: hand a job to the desk, stay with it a little, and come back to it later.

One rule: the key of a job names the effect and the doors, so that a repeat after a crash meets the job that is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from vendors.port.errors import CardEncoderOffline, KeyIssueFailed, LockError, Reason
from vendors.port.manifest import AdapterContext
from vendors.port.relay import JobStanding, JobState, RelayJob
from vendors.port.types import CallMeta, CredentialKind, Door, DoorResult, Outcome, UpdateInput
from vendors.port.types import Warning as LockWarning

from .errors import unanswered
from .manifest_code import CODE
from .settings import Settings

MARGIN_S = 10.0
"""What a job may last beyond the wait for a person: until a desk takes it up, and the writing itself."""
READING_S = 15.0


class DeskCalls:
    """Speaks to the relay for one call after another. `calls` are counted by whoever asks: each submission is one."""

    def __init__(self, settings: Settings, context: AdapterContext) -> None:
        self.settings = settings
        self._context = context

    def hand_over(self, job: RelayJob, meta: CallMeta) -> JobStanding:
        """Submits a job and stays with it as long as a call may. Raises what limiter and relay raise."""
        self._context.limiter.acquire(1, meta.priority)
        return self.stay(self._context.relay.submit(job), meta)

    def look(self, job_id: str, meta: CallMeta) -> JobStanding:
        """Returns how an earlier job stands, staying with it as long as a call may."""
        self._context.limiter.acquire(1, meta.priority)
        return self._context.relay.await_end(job_id, self._patience_s(meta))

    def stay(self, standing: JobStanding, meta: CallMeta) -> JobStanding:
        """Waits for the end of a job that is under way."""
        if not standing.is_underway:
            return standing
        return self._context.relay.await_end(standing.job_id, self._patience_s(meta))

    def call_off(self, standing: JobStanding) -> JobStanding:
        """Calls a job off that is still open."""
        return self._context.relay.cancel(standing.job_id) if standing.is_open else standing

    def of_credential(self, credential_id: str) -> tuple[JobStanding, ...]:
        """Returns every job of a credential, oldest first."""
        return self._context.relay.of_credential(credential_id)

    def read(self, action: str, body: dict[str, object], meta: CallMeta) -> JobStanding:
        """Asks the desk something that changes nothing. Raises CardEncoderOffline when no answer comes in time."""
        nonce = f"{self._context.rng.getrandbits(64):016x}"
        job = RelayJob(
            job_key("read", action, nonce), "", action, body, priority=meta.priority, timeout_s=min(READING_S, meta.deadline_s)
        )
        self._context.limiter.acquire(1, meta.priority)
        standing = self._context.relay.submit(job)
        if standing.is_underway:
            standing = self._context.relay.await_end(standing.job_id, min(READING_S, meta.deadline_s))
        if standing.is_open:
            self._context.relay.cancel(standing.job_id)
            raise CardEncoderOffline(CODE, "the desk gave no answer", reason=Reason.TIMEOUT)
        return standing

    def _patience_s(self, meta: CallMeta) -> float:
        return max(0.0, min(self.settings.wait_s, meta.deadline_s - 1.0))


def job_key(purpose: str, *parts: str) -> str:
    """Returns the key of a job: one for each effect and set of doors."""
    return hashlib.sha256("\x1f".join(("relay-job", purpose, *parts)).encode()).hexdigest()


def names_of(doors: Iterable[Door]) -> tuple[str, ...]:
    """Returns the devices a job concerns, in a stable order."""
    return tuple(sorted(door.device_id for door in doors))


def update_key(request: UpdateInput) -> str:
    """Returns the key of a change's job: a door that comes is not a door that goes."""
    groups = {"kept": request.handle.doors, "added": request.added, "removed": request.removed}
    parts = [f"{group}:{device_id}" for group, doors in groups.items() for device_id in names_of(doors)]
    return job_key("update", request.meta.idempotency_key, *parts)


def choose_kind(wanted: Sequence[CredentialKind], possible: Sequence[CredentialKind]) -> CredentialKind:
    """Returns the first wanted kind that is possible. Raises KeyIssueFailed, not retriable, when none is."""
    for kind in wanted:
        if kind in possible:
            return kind
    raise KeyIssueFailed(CODE, "no wanted kind is supported", retriable=False, reason=Reason.KIND_UNSUPPORTED)


def token_of(verb: str, standing: JobStanding) -> str:
    """Returns what a deferred call is resumed by."""
    return f"{verb}:{standing.job_id}"


def open_token(token: str) -> tuple[str, str]:
    """Reads a token: verb and job. Raises ValueError for one that is none."""
    verb, colon, job_id = token.partition(":")
    if not colon:
        raise ValueError("no resume token of this vendor")
    return verb, job_id


def pending(standing: JobStanding, doors: Sequence[Door]) -> tuple[DoorResult, ...] | None:
    """Returns the doors of a job that has not ended: DEFERRED while somebody works on it, UNKNOWN when nobody can be expected
    to; None when it has ended."""
    if standing.is_underway:
        return tuple(DoorResult(door.device_id, Outcome.DEFERRED, ref=door.ref) for door in doors)
    if standing.is_open:
        error = _lost(standing)
        return tuple(DoorResult(door.device_id, Outcome.UNKNOWN, ref=door.ref, error=error) for door in doors)
    return None


def unfinished(
    standing: JobStanding, doors: Sequence[Door], verb: str, if_lost: tuple[LockWarning, ...] = ()
) -> tuple[tuple[DoorResult, ...], tuple[LockWarning, ...], int, str | None] | None:
    """Returns the first four parts of the answer while a job has not ended: with a token to come back by while somebody works
    on it, with `if_lost` when nobody can be expected to. None when it has ended."""
    waiting = pending(standing, doors)
    if waiting is None:
        return None
    return (waiting, (), 1, token_of(verb, standing)) if standing.is_underway else (waiting, if_lost, 1, None)


def _lost(standing: JobStanding) -> LockError:
    if standing.state is JobState.UNKNOWN:
        return unanswered("the desk cannot tell what came of it: lay the same card on the encoder again, or discard it")
    return unanswered()
