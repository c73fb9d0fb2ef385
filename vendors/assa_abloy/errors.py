"""Turns what Vostio and Visionline refuse into the port's errors: one table for each.

One rule: the code decides, the text never. Visionline's list of codes is licensed and not public; its rows are the names under
which public integrations fold them (medium confidence), and a code that is missing here is refused for good.
Source: Seam's guides (README, Sources S1, S2) for the folding; the rest assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from vendors.port.errors import (
    CardEncoderOffline,
    DeviceNotPaired,
    KeyIssueFailed,
    KeyRevokeFailed,
    LockError,
    Reason,
    VendorUnreachable,
)
from vendors.support.scrub import scrub

from .manifest import MANIFEST


class Refused(Exception):
    """The vendor answered no: the work was not done. `doors` are those it names. Stays inside this folder."""

    def __init__(
        self, status: int, code: str, message: str = "", *, doors: tuple[str, ...] = (), retry_after_s: float | None = None
    ) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code
        self.message = message
        self.doors = doors
        self.retry_after_s = retry_after_s


class Unclear(Exception):
    """No answer that says whether the work was done. `error` explains it. Stays inside this folder."""

    def __init__(self, error: LockError) -> None:
        super().__init__(str(error))
        self.error = error


class Kind(Enum):
    """Which of the six errors a code becomes."""

    REFUSED = "refused"  # KeyRevokeFailed when a key is being taken back, else KeyIssueFailed
    UNREACHABLE = "unreachable"
    NOT_PAIRED = "not_paired"
    ENCODER = "encoder"


@dataclass(frozen=True, slots=True)
class Row:
    """What a code means to us. `not_made`: the call had no effect and costs no attempt."""

    kind: Kind
    meaning: str
    retriable: bool = False
    reason: Reason = Reason.OTHER
    not_made: bool = False


_REFUSED, _UNREACHABLE, _NOT_PAIRED, _ENCODER = Kind.REFUSED, Kind.UNREACHABLE, Kind.NOT_PAIRED, Kind.ENCODER

CARD_IN_USE = "card_in_use"
NOTHING_TO_JOIN = "no_running_stay"
DOOR_UNKNOWN = "door_unknown"
ASKED_BEFORE = "idempotency_conflict"
TOO_MANY = "more doors than a card holds, or rooms that do not follow each other"
"""The kind is full, as a lock's memory can be: another kind may hold these doors."""

VOSTIO: dict[str, Row] = {
    "validation": Row(_REFUSED, "the request was not understood"),
    "token_expired": Row(_UNREACHABLE, "the login is not taken", False, Reason.SETTINGS),
    "invalid_client": Row(_UNREACHABLE, "client id or secret is wrong", False, Reason.SETTINGS),
    "environment_mismatch": Row(_UNREACHABLE, "the credential belongs to another environment", False, Reason.SETTINGS),
    "not_found": Row(_REFUSED, "the grant is not known"),
    DOOR_UNKNOWN: Row(_NOT_PAIRED, "the door is not known"),
    "encoder_unknown": Row(_ENCODER, "the encoder is not known", False),
    "encoder_offline": Row(_ENCODER, "the encoder does not answer", True),
    ASKED_BEFORE: Row(_REFUSED, "the idempotency key was used for another request"),
    "guest_door_occupied": Row(_REFUSED, "the room is let, and the key neither overrides nor joins"),
    NOTHING_TO_JOIN: Row(_REFUSED, "there is no stay to join"),
    "grant_overridden": Row(_REFUSED, "a later guest's key has taken the grant's place"),
    CARD_IN_USE: Row(_REFUSED, "the card still holds a valid key", False, Reason.CARD_IN_USE),
    "card_timeout": Row(_REFUSED, "no card was laid on the encoder in time"),
    "version_stale": Row(_REFUSED, "the grant was changed by somebody else", True),
    "too_many_doors": Row(_REFUSED, TOO_MANY, False, Reason.DOOR_FULL),
    "door_type_not_allowed": Row(_REFUSED, "an entrance cannot be listed; it follows from the room"),
    "endpoint_not_ready": Row(_REFUSED, "the phone has not finished its set-up", True),
    "maintenance": Row(_UNREACHABLE, "the environment is under maintenance", True, Reason.BUSY, True),
    "rate_limited": Row(_UNREACHABLE, "30 requests a second are used up", True, Reason.RATE, True),
    "lock_network": Row(_UNREACHABLE, "the lock network does not answer", True, Reason.DOOR_OFFLINE),
}
"""Vostio's `code` in a problem body. Names by the integration contract (proposed, low confidence)."""

VISIONLINE: dict[str, Row] = {
    "unauthorized": Row(_UNREACHABLE, "user, password or signature is not taken", False, Reason.SETTINGS),
    "encoder_unknown": Row(_ENCODER, "the encoder is not configured", False),
    "encoder_offline": Row(_ENCODER, "the encoder does not answer", True),
    "encoder_busy": Row(_ENCODER, "the encoder serves somebody else", True, Reason.BUSY),
    "no_card_on_encoder": Row(_REFUSED, "no card was laid on the encoder in time"),
    CARD_IN_USE: Row(_REFUSED, "the card still holds a valid key", False, Reason.CARD_IN_USE),
    "incompatible_card_format": Row(_REFUSED, "the card's type or the licence does not fit", False, Reason.KIND_UNSUPPORTED),
    "too_many_doors": Row(_REFUSED, TOO_MANY, False, Reason.DOOR_FULL),
    DOOR_UNKNOWN: Row(_NOT_PAIRED, "the door is not known"),
    "door_type_not_allowed": Row(_REFUSED, "an entrance cannot be listed; it follows from the room"),
    "room_let": Row(_REFUSED, "the room is let, and the key neither overrides nor joins"),
    NOTHING_TO_JOIN: Row(_REFUSED, "there is no stay to join"),
    "card_overridden": Row(_REFUSED, "a later guest's key has taken the card's place"),
    "not_found": Row(_REFUSED, "the card is not known"),
    "rate_limited": Row(_UNREACHABLE, "calling too fast", True, Reason.RATE, True),
    "clock_skew": Row(_UNREACHABLE, "our clock and the server's disagree", True),
    "uncategorized_error": Row(_REFUSED, "an error without a category"),
}
"""Visionline's `code` in an error body."""

NO_CONTENT = 204
GONE = frozenset({"not_found"})
TOO_FAST = 429


def translate(table: Mapping[str, Row], refused: Refused, *, revoking: bool, device_id: str | None = None) -> LockError:
    """Builds the port's error for a refusal. The vendor's text is scrubbed."""
    row = table.get(refused.code, Row(_REFUSED, "unlisted error"))
    cls = {
        _REFUSED: KeyRevokeFailed if revoking else KeyIssueFailed,
        _UNREACHABLE: VendorUnreachable,
        _NOT_PAIRED: DeviceNotPaired,
        _ENCODER: CardEncoderOffline,
    }[row.kind]
    text = scrub(refused.message)
    return cls(
        MANIFEST.code,
        f"{refused.status} {scrub(refused.code)}: {row.meaning}" + (f" ({text})" if text else ""),
        # Taking a key back is a matter of security: it goes on being tried while the window lasts.
        retriable=row.retriable or (revoking and row.kind is _REFUSED),
        reason=row.reason,
        device_id=device_id,
        retry_after_s=refused.retry_after_s,
        throttled=row.not_made,
    )


def unreachable(message: str, reason: Reason = Reason.OTHER, *, throttled: bool = False) -> LockError:
    """Builds the error for a vendor that gave no usable answer."""
    return VendorUnreachable(MANIFEST.code, message, reason=reason, throttled=throttled)


def stands_for_all(table: Mapping[str, Row], refused: Refused) -> bool:
    """Says whether a refusal concerns the account or the vendor rather than the key asked for."""
    row = table.get(refused.code)
    return row is not None and row.kind is _UNREACHABLE


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer of the vendor that is no refusal."""

    status: int
    body: dict[str, Any] = field(repr=False)


def refusal_in(status: int, document: Mapping[str, Any], retry_after_s: float | None) -> Refused:
    """Reads a problem or error body; the status 429 says enough by itself. `retry_after_s` is what the header of that
    name asks for."""
    doors = document.get("doors")
    return Refused(
        status,
        "rate_limited" if status == TOO_FAST else str(document.get("code") or f"status_{status}"),
        str(document.get("detail") or document.get("message") or ""),
        doors=tuple(str(door) for door in doors) if isinstance(doors, list) else (),
        retry_after_s=retry_after_s,
    )
