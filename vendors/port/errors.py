"""The six errors an adapter may raise, named by what the caller must do next.

One rule: `retriable` belongs to the instance. The runner looks at it, at `throttled` and at `reason`, and at nothing else.
Messages are scrubbed before they get here: no credential, no PIN, no guest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar


class Reason(StrEnum):
    """Why a vendor refused, as far as the caller can act on it."""

    OTHER = "other"
    PIN_REFUSED = "pin_refused"  # taken or too simple at that door: draw other digits
    DOOR_FULL = "door_full"  # the lock's memory holds no more of this kind
    KIND_UNSUPPORTED = "kind_unsupported"  # this door cannot carry the kind: try the next kind
    NO_PHONE = "no_phone"  # the holder has no telephone number that the key could be sent to: try the next kind
    DOOR_OFFLINE = "door_offline"  # gateway or lock does not answer; the vendor's cloud does
    BUSY = "busy"  # gateway, lock or encoder serves somebody else
    RATE = "rate"  # per-minute limit
    QUOTA = "quota"  # monthly quota spent
    SETTINGS = "settings"  # credentials or address of the installation are wrong: a person must act
    TIMEOUT = "timeout"  # no answer; the effect is unknown
    NO_CARD = "no_card"  # nobody laid a card on the encoder in time; nothing was written
    CARD_IN_USE = "card_in_use"  # the card on the encoder carries another live key: a person confirms, or lays another


@dataclass(frozen=True, slots=True)
class CardKey:
    """A live key that was read from the card on an encoder.

    `name` tells it from every other key of the installation and says nothing of the guest: a person who confirms that it may
    be overwritten confirms this name. Empty where the vendor says that there is one, and not which. `nonce` and `tag` are our
    marks, None on a stranger's. `valid_until` is the end on the card, None where it cannot be read.
    """

    name: str
    nonce: str | None = None
    tag: str | None = None
    valid_until: datetime | None = None


class LockError(Exception):
    """Base of the six. Never raised itself.

    retriable: whether the same call may succeed later. retry_after_s: what the vendor asked for, in seconds, if it did.
    throttled: the call was not made at all (limit, quota, open breaker), so it counts as no attempt.
    on_card: with reason CARD_IN_USE, the key that the card carries.
    """

    code: ClassVar[str]
    default_retriable: ClassVar[bool]

    def __init__(
        self,
        vendor: str,
        vendor_message: str = "",
        *,
        retriable: bool | None = None,
        reason: Reason = Reason.OTHER,
        device_id: str | None = None,
        retry_after_s: float | None = None,
        throttled: bool = False,
        on_card: CardKey | None = None,
    ) -> None:
        super().__init__(f"{self.code} from {vendor}: {reason.value}")
        self.vendor = vendor
        self.vendor_message = vendor_message[:500]
        self.retriable = self.default_retriable if retriable is None else retriable
        self.reason = reason
        self.device_id = device_id
        self.retry_after_s = retry_after_s
        self.throttled = throttled
        self.on_card = on_card


class VendorUnreachable(LockError):
    """No usable answer: network, 5xx, HTML, limit, quota."""

    code = "MELMASTOON.LOCK.VENDOR_UNREACHABLE"
    default_retriable = True


class KeyIssueFailed(LockError):
    """The vendor refused to give or change a key."""

    code = "MELMASTOON.LOCK.KEY_ISSUE_FAILED"
    default_retriable = True


class KeyRevokeFailed(LockError):
    """The vendor refused to take a key back. Always a security matter."""

    code = "MELMASTOON.LOCK.KEY_REVOKE_FAILED"
    default_retriable = True


class DeviceNotPaired(LockError):
    """The vendor does not know the lock, or it is not ours."""

    code = "MELMASTOON.LOCK.DEVICE_NOT_PAIRED"
    default_retriable = False


class CredentialExpired(LockError):
    """The credential's window is over, so it cannot be changed or resumed."""

    code = "MELMASTOON.LOCK.CREDENTIAL_EXPIRED"
    default_retriable = False


class CardEncoderOffline(LockError):
    """No desk or encoder answers."""

    code = "MELMASTOON.LOCK.CARD_ENCODER_OFFLINE"
    default_retriable = True


ALL_ERRORS: tuple[type[LockError], ...] = (
    VendorUnreachable,
    KeyIssueFailed,
    KeyRevokeFailed,
    DeviceNotPaired,
    CredentialExpired,
    CardEncoderOffline,
)
