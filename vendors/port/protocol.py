"""LockPort: the eight verbs, and the optional protocols beside them.

One rule: an adapter is synchronous, keeps no tables, is safe to call from several threads, and raises only `errors.LockError`
subclasses. It raises when nothing at all is known to have been done for any door; otherwise it answers per door.
A lost answer is `Outcome.UNKNOWN` (or a retriable raise on which the next attempt looks before it repeats), never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, runtime_checkable

from .types import (
    AccessRecord,
    AdapterDescription,
    CallMeta,
    CallResult,
    CredentialHandle,
    DeviceHealth,
    DeviceRecord,
    Door,
    FoundKey,
    FoundPage,
    IssueInput,
    IssueResult,
    LockDevice,
    RevokeReason,
    SuspendReason,
    UpdateInput,
)


class LockPort(Protocol):
    """What everything outside a vendor's folder knows of a vendor."""

    def issue_credential(self, request: IssueInput) -> IssueResult:
        """Gives a key at the doors of the request. Repeating with the same idempotency key has one effect."""
        ...

    def update_credential(self, request: UpdateInput) -> CallResult:
        """Brings the window to the handle's, adds doors, then removes doors. Repeatable."""
        ...

    def revoke_credential(self, handle: CredentialHandle, reason: RevokeReason, meta: CallMeta) -> CallResult:
        """Takes the key back at the handle's doors. A key that is not there counts as taken back."""
        ...

    def suspend_credential(self, handle: CredentialHandle, reason: SuspendReason, meta: CallMeta) -> CallResult:
        """Makes the key stop opening, so that it can be resumed. Repeatable."""
        ...

    def unsuspend_credential(self, handle: CredentialHandle, meta: CallMeta) -> CallResult:
        """Makes a suspended key open again within the handle's window. Raises CredentialExpired when that is over."""
        ...

    def list_devices(self, property_id: str) -> tuple[LockDevice, ...]:
        """Lists the locks the installation reaches."""
        ...

    def health_check(self, door: Door) -> DeviceHealth:
        """Reads one lock's condition, live where the vendor can. Raises DeviceNotPaired for a lock unknown to the vendor."""
        ...

    def describe_adapter(self) -> AdapterDescription:
        """Tells vendor code and capabilities without any call."""
        ...


@runtime_checkable
class Lookup(Protocol):
    """A vendor that can be asked whether a key of ours is at a door."""

    def find(self, handle: CredentialHandle, meta: CallMeta) -> tuple[FoundKey, ...]:
        """Returns what is there under the key's nonce at the handle's doors; empty when proven absent."""
        ...


@runtime_checkable
class Resume(Protocol):
    """A vendor that answers DEFERRED and can be asked later."""

    def resume(self, handle: CredentialHandle, resume_token: str, meta: CallMeta) -> CallResult:
        """Asks how the deferred call ended; may be DEFERRED again."""
        ...


@runtime_checkable
class Inventory(Protocol):
    """A vendor that can list every key at a door."""

    def list_keys(self, door: Door, cursor: str | None) -> FoundPage:
        """Returns one page of keys at the door, ours and strangers'."""
        ...


@runtime_checkable
class Records(Protocol):
    """A vendor that keeps a log of openings."""

    def list_records(self, door: Door, since: datetime, until: datetime) -> tuple[AccessRecord, ...]:
        """Returns the openings and refusals in the span, oldest first."""
        ...


@runtime_checkable
class ClockSetting(Protocol):
    """A vendor through which a lock's clock can be set from afar."""

    def set_clock(self, door: Door, utc_offset_s: int, meta: CallMeta) -> None:
        """Sets a lock's clock to true time at this distance from UTC. Repeatable. Raises VendorUnreachable where no network
        reaches the lock, so that somebody must go there."""
        ...


@runtime_checkable
class Webhook(Protocol):
    """A vendor that pushes."""

    def verify(self, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
        """Says whether the push is genuine by the vendor's scheme."""
        ...

    def parse(self, body: bytes) -> tuple[AccessRecord, ...]:
        """Reads the openings in a verified push."""
        ...


@runtime_checkable
class DevicePushes(Protocol):
    """A vendor that also pushes how locks, gateways and connections are."""

    def parse_devices(self, body: bytes) -> tuple[DeviceRecord, ...]:
        """Reads the conditions in a verified push; empty where it tells of none. Raises ValueError as `parse` does."""
        ...


@runtime_checkable
class UnprovenPushes(Protocol):
    """A vendor that may sign nothing: its push is then a hint to look, and counts only as far as the vendor's log agrees."""

    def is_push_a_hint(self) -> bool:
        """Says whether pushes of this installation prove nothing by themselves."""
        ...
