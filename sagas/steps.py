"""One step of a credential's saga: plan (read, choose, write the intent) → act (the vendor call) → record (what came of it).

One rule: `act` gets a frozen value and the port, never a row; a step can be killed between any two lines and resumed, because
the door's `verb` says that somebody was asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from credentials.models import Artifact, CredentialDoor, KeyCredential
from credentials.services import KeyBatch
from credentials.targets import Verb
from sagas.outbox import Cause
from vendors.port.errors import LockError
from vendors.port.protocol import LockPort, Resume
from vendors.port.types import CallMeta, CallResult, CredentialHandle, IssueInput, RevokeReason, SuspendReason, UpdateInput

RETRY_S = (2, 8, 30, 120, 480)
"""Seconds to the next try after the first, second, … failure, ± 20 %; the last repeats where tries are unlimited."""
JITTER = 0.2
BUDGET = 5
"""Calls per door for giving or changing a key; taking back is retried until the window has ended."""
BUDGETED = frozenset({Verb.ISSUE, Verb.UPDATE, Verb.UNSUSPEND})


@dataclass(slots=True)
class Work:
    """A claimed saga as the runner carries it; `status` and the fields below it are what record or plan decide."""

    id: str
    tenant_id: str
    flow: str
    lane: str
    credential_id: str | None
    reservation_id: str | None
    installation_id: str
    priority: int
    step: int
    attempts: int
    token: int
    args: dict[str, Any]
    cause: Cause
    status: str = "running"
    due_at: datetime | None = None
    hotel_due_at: datetime | None = None
    error_code: str = ""
    error_detail: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """What act needs, and what record must know of the moment it was planned."""

    saga_id: str
    tenant_id: str
    credential_id: str
    lane: str
    verb: Verb
    port: LockPort
    doors: tuple[int, ...]
    device_ids: tuple[str, ...]
    valid_from: datetime
    valid_until: datetime
    pin_version: int
    desired_version: int
    handle: CredentialHandle
    meta: CallMeta
    issue: IssueInput | None = None
    suspend_reason: SuspendReason = SuspendReason.MANUAL
    revoke_reason: RevokeReason = RevokeReason.CHECKOUT
    resume_token: str | None = field(default=None, repr=False)
    change: UpdateInput | None = None
    """Of an update: what changes, with the doors that a key over all of its doors gains and loses by the same call."""

    def verb_at(self, device_id: str) -> Verb:
        """Returns what the call means for one of its doors: an added one is given the key, a removed one loses it."""
        if self.change is not None and any(door.device_id == device_id for door in self.change.added):
            return Verb.ISSUE
        if self.change is not None and any(door.device_id == device_id for door in self.change.removed):
            return Verb.REVOKE
        return self.verb

    @property
    def writes_card(self) -> bool:
        """Says whether the card that the holder has is itself written by this call."""
        return self.change is not None and self.change.at_encoder


@dataclass(frozen=True, slots=True)
class Answer:
    """What act brought back: a result, the port's error, or an exception that is our bug (its type's name)."""

    call: Call
    result: CallResult | None
    error: LockError | None
    bug: str
    took_ms: int


@dataclass(slots=True)
class StepContext:
    """What plan and record work with: the locked batch, both clocks and the step log to write."""

    batch: KeyBatch
    real_now: datetime
    jitter: Callable[[], float]
    retry_scale: float = 1.0
    log: list[tuple[Any, ...]] = field(default_factory=list)
    releases: list[tuple[str, str, datetime]] = field(default_factory=list)
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    """Stays of which a door opened just now."""

    @property
    def now(self) -> datetime:
        """The hotel's present instant."""
        return self.batch.now


def act(call: Call) -> Answer:
    """Makes the vendor call. No transaction may be open. Never raises: an unexpected exception is reported as our bug."""
    started = time.monotonic()
    result: CallResult | None = None
    error: LockError | None = None
    bug = ""
    try:
        result = _speak(call)
    except LockError as refused:
        error = refused
    except Exception as unexpected:  # noqa: BLE001 - an adapter's bug must end this saga loudly, not the drain
        bug = f"{type(unexpected).__module__}.{type(unexpected).__qualname__}"
    return Answer(call, result, error, bug, int((time.monotonic() - started) * 1000))


def backoff(context: StepContext, failures: int, at_least_s: float | None = None) -> datetime:
    """Returns the real instant of the next try after `failures` (≥ 1) failures."""
    base = RETRY_S[min(failures, len(RETRY_S)) - 1] * context.retry_scale
    wait_s = base * (1 + JITTER * (2 * context.jitter() - 1))
    if at_least_s is not None:
        wait_s = max(wait_s, at_least_s * min(1.0, context.retry_scale))
    return context.real_now + timedelta(seconds=wait_s)


def ready_doors(
    context: StepContext, doors: list[tuple[CredentialDoor, Verb]]
) -> tuple[list[tuple[CredentialDoor, Verb]], datetime | None]:
    """Splits off the doors that may be called now; also returns when the first of the others may."""
    ready = [(door, verb) for door, verb in doors if door.due_at is None or door.due_at <= context.real_now]
    later = [door.due_at for door, _ in doors if door.due_at is not None and door.due_at > context.real_now]
    return ready, min(later, default=None)


def is_spent(key: KeyCredential, door: CredentialDoor, verb: Verb) -> bool:
    """Says whether this door may not be called any more for what is wanted now."""
    if door.attempts_for != key.desired_version or verb not in BUDGETED:
        return False
    return door.final or door.attempts >= BUDGET


def _speak(call: Call) -> CallResult:
    port = call.port
    if call.resume_token is not None and isinstance(port, Resume):
        return port.resume(call.handle, call.resume_token, call.meta)
    if call.issue is not None:
        return port.issue_credential(call.issue)
    if call.verb is Verb.UPDATE:
        return port.update_credential(call.change or UpdateInput(handle=call.handle, meta=call.meta))
    if call.verb is Verb.SUSPEND:
        return port.suspend_credential(call.handle, call.suspend_reason, call.meta)
    if call.verb is Verb.UNSUSPEND:
        return port.unsuspend_credential(call.handle, call.meta)
    return port.revoke_credential(call.handle, call.revoke_reason, call.meta)
