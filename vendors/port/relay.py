"""The desk relay as both its ends see it: work for a front desk, how it stands, and what a desk brings back.

One rule: a job that a desk has begun may have had its effect. Only the desk's word settles it; nobody's silence does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from .errors import CardEncoderOffline, Reason


class JobState(StrEnum):
    """How a job stands. WAITING: no desk has begun it, so it can be called off without asking anybody. AT_DESK: a connected
    desk works on it. LOST: the desk that began it is gone. UNKNOWN: the desk itself cannot tell. The last four are final, and
    of them only DONE has had an effect."""

    WAITING = "waiting"
    AT_DESK = "at_desk"
    LOST = "lost"
    UNKNOWN = "unknown"
    DONE = "done"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Stage(StrEnum):
    """How far a desk has come with a job. Nothing is on the card before WRITING."""

    AWAITING_CARD = "awaiting_card"
    WRITING = "writing"
    VERIFYING = "verifying"


class Refusal(StrEnum):
    """Why a desk refuses a job, as far as the cloud can act on it. Nothing was changed then."""

    ENCODER_OFFLINE = "encoder_offline"
    ENCODER_BUSY = "encoder_busy"
    CARD_UNUSABLE = "card_unusable"
    CARD_SWAPPED = "card_swapped"
    CARD_IN_USE = "card_in_use"
    VERIFY_FAILED = "verify_failed"
    DOES_NOT_FIT = "does_not_fit"
    NOT_SUPPORTED = "not_supported"
    NOT_DONE = "not_done"
    FAILED = "failed"


class Outcome(StrEnum):
    """What a desk says came of a job. NEVER_SEEN is its answer when it is asked about a job it has no record of."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    NEVER_SEEN = "never_seen"


@dataclass(frozen=True, slots=True)
class RelayJob:
    """Work for a desk. `key` names the intended effect at these doors: the same key is the same job until it ended without
    effect. `body` is between adapter and desk driver. `doors` are the devices it concerns. `advance` and `keep` name places
    whose running number it needs: one more than ever given there, or the last that reached a card. `lasts_until` is when what
    it leaves stops opening (hotel time). `timeout_s` bounds the whole job, the wait for a person included."""

    key: str
    credential_id: str
    action: str
    body: Mapping[str, Any] = field(repr=False)
    doors: tuple[str, ...] = ()
    needs_card: bool = False
    lasts_until: datetime | None = None
    advance: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    priority: int = 2
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class JobStanding:
    """How a job stands. `numbers` are the running numbers it was given by place; `result` is the desk driver's, there when
    DONE, and when REFUSED where there is something to tell. `outranked` are credentials whose cards carry a number that this
    job's are meant to outrank. `desk_id` is the desk that began it."""

    job_id: str
    action: str
    credential_id: str
    state: JobState
    doors: tuple[str, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    stage: Stage | None = None
    refusal: Refusal | None = None
    detail: str = ""
    result: Mapping[str, Any] = field(default_factory=dict, repr=False)
    lasts_until: datetime | None = None
    outranked: tuple[str, ...] = ()
    desk_id: str = ""

    @property
    def is_open(self) -> bool:
        """Says whether the job may still come to have an effect, or may have had one."""
        return self.state in _OPEN

    @property
    def has_failed(self) -> bool:
        """Says whether the job ended without any effect."""
        return not self.is_open and self.state is not JobState.DONE

    @property
    def is_underway(self) -> bool:
        """Says whether somebody can be expected to work on it now."""
        return self.state in (JobState.WAITING, JobState.AT_DESK)


_OPEN = frozenset({JobState.WAITING, JobState.AT_DESK, JobState.LOST, JobState.UNKNOWN})


class Relay(Protocol):
    """An installation's way to the desks of its property. Safe to call from several threads.

    Every call may raise VendorUnreachable with reason BUSY while the relay's own rows cannot be reached; repeat it then.
    """

    def submit(self, job: RelayJob) -> JobStanding:
        """Hands a job over, or returns how the job of this key stands. Raises CardEncoderOffline (throttled: nothing was handed
        over) when no desk is connected that could take a new one."""
        ...

    def await_end(self, job_id: str, wait_s: float) -> JobStanding:
        """Waits up to so many seconds for the job's end, and returns how it stands then. Raises LookupError for no job."""
        ...

    def cancel(self, job_id: str) -> JobStanding:
        """Calls a job off: at once where no desk has begun it; else the desk is told, and its word is the answer."""
        ...

    def of_credential(self, credential_id: str) -> tuple[JobStanding, ...]:
        """Returns every job of a credential, oldest first."""
        ...


class OfflineRelay:
    """No desk, ever: what an adapter gets where no relay runs."""

    def __init__(self, vendor: str = "relay") -> None:
        self._vendor = vendor

    def submit(self, job: RelayJob) -> JobStanding:
        """Raises CardEncoderOffline."""
        raise no_desk(self._vendor)

    def await_end(self, job_id: str, wait_s: float) -> JobStanding:
        """Raises LookupError."""
        raise LookupError(job_id)

    def cancel(self, job_id: str) -> JobStanding:
        """Raises LookupError."""
        raise LookupError(job_id)

    def of_credential(self, credential_id: str) -> tuple[JobStanding, ...]:
        """Returns nothing."""
        return ()


RETRY_AFTER_S = 15.0


def no_desk(vendor: str) -> CardEncoderOffline:
    """Returns the error of a property without a connected desk: nothing was asked, so it counts as no attempt."""
    return CardEncoderOffline(
        vendor, "no desk is connected", reason=Reason.DOOR_OFFLINE, retry_after_s=RETRY_AFTER_S, throttled=True
    )


@dataclass(frozen=True, slots=True)
class DeskJob:
    """A job as a desk gets it. `expires_in_s` counts from its arrival."""

    job_id: str
    vendor: str
    action: str
    body: Mapping[str, Any] = field(repr=False)
    numbers: Mapping[str, int] = field(default_factory=dict)
    needs_card: bool = False
    expires_in_s: float = 30.0


@dataclass(frozen=True, slots=True)
class DeskResult:
    """What came of a job at a desk. `result` is the driver's own, for the adapter; `detail` is prose without secrets."""

    outcome: Outcome
    refusal: Refusal | None = None
    detail: str = ""
    result: Mapping[str, Any] = field(default_factory=dict, repr=False)


class Progress(Protocol):
    """How a driver tells its desk where it stands. A stage is on the desk's disk before `reach` returns."""

    def reach(self, stage: Stage, note: str = "") -> None:
        """Notes the stage, and what `recall` will need to know after a crash."""
        ...

    @property
    def is_called_off(self) -> bool:
        """Says whether the job was cancelled, expired, or the desk is stopping. Asked before anything is written."""
        ...


class DeskDriver(Protocol):
    """A vendor's part at the desk: does jobs at encoder and controller. Called from several threads."""

    def do(self, job: DeskJob, progress: Progress) -> DeskResult:
        """Does the job and tells what came of it. Raises nothing: a failure is a result."""
        ...

    def recall(self, job: DeskJob, stage: Stage | None, note: str) -> DeskResult:
        """Finds out, by reading back, what became of a job that was cut off after this stage."""
        ...


class DeskDriverFactory(Protocol):
    """Opens a driver: `encoder` is where the encoder is reached, `house` which of its houses it is for. Makes no call."""

    def __call__(self, encoder: str, house: str) -> DeskDriver: ...
