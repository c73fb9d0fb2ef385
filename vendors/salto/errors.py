"""Turns the cloud's words and the PMS protocol's letters into the port's errors: two tables.

One rule: the code decides, the text never.
Source: PMS letters from public clients of the protocol (high); the cloud's words are our proposal; all mappings are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vendors.port.errors import (
    CardEncoderOffline,
    DeviceNotPaired,
    KeyIssueFailed,
    KeyRevokeFailed,
    LockError,
    Reason,
    VendorUnreachable,
)

from .manifest_code import CODE

CARD_IN_USE = "card_in_use"
BUSY_WAIT_S = 5.0
"""An encoder that serves somebody else is asked again after 2 to 5 s (proposed)."""


class Refused(Exception):
    """The vendor said no: nothing was done. `card` is the key on the card that is in the way. Stays inside this folder."""

    def __init__(
        self,
        code: str,
        *,
        rooms: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
        card: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.rooms = rooms or {}
        self.retry_after_s = retry_after_s
        self.card = card or {}


class Unclear(Exception):
    """No answer that says whether the work was done. `error` explains it. Stays inside this folder."""

    def __init__(self, error: LockError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class Row:
    """What a code means to us."""

    kind: type[LockError]
    meaning: str
    retriable: bool = False
    reason: Reason = Reason.OTHER
    wait_s: float | None = None


def _settings(meaning: str) -> Row:
    return Row(VendorUnreachable, meaning, False, Reason.SETTINGS)


CLOUD: dict[str, Row] = {
    "bad_api_key": _settings("the API key is not taken"),
    "forbidden": _settings("the property does not belong to this key or certificate"),
    "rate_limited": Row(VendorUnreachable, "calling too fast", True, Reason.RATE),
    "idempotency_mismatch": Row(KeyIssueFailed, "the idempotency key was used for another request"),
    "room_checked_out": Row(KeyIssueFailed, "the room has no running stay at the vendor", True),
    "room_out_of_service": Row(KeyIssueFailed, "the room is out of service at the vendor"),
    "encoder_busy": Row(CardEncoderOffline, "the encoder serves somebody else", True, Reason.BUSY, BUSY_WAIT_S),
    "encoder_offline": Row(CardEncoderOffline, "the encoder does not answer", True),
    "connector_offline": Row(CardEncoderOffline, "the property's connector does not answer", True),
    "door_offline": Row(VendorUnreachable, "the door does not answer", True, Reason.DOOR_OFFLINE),
    "pin_taken": Row(KeyIssueFailed, "the digits are taken at this door", False, Reason.PIN_REFUSED),
    "key_ended": Row(KeyIssueFailed, "the key has ended at the vendor"),
    "unknown_key": Row(KeyIssueFailed, "the vendor does not know the key"),
    "denylist_full": Row(KeyRevokeFailed, "the deny list is full", True),
    "denylist_pool_exhausted": Row(
        KeyIssueFailed, "no key can be made until the pool of cancellable keys is recovered", False, Reason.SETTINGS
    ),
    "unknown_room": Row(DeviceNotPaired, "the vendor has no room of this name"),
    "unknown_door": Row(DeviceNotPaired, "the vendor has no door of this name"),
    "unknown_authorization": Row(DeviceNotPaired, "the vendor has no such authorisation"),
    "unknown_operation": Row(KeyIssueFailed, "the vendor does not know the encode job"),
    "unsupported_kind": Row(KeyIssueFailed, "this door cannot take the kind", False, Reason.KIND_UNSUPPORTED),
    "too_many_rooms": Row(KeyIssueFailed, "a key carries at most four rooms"),
    "bad_window": Row(KeyIssueFailed, "the window is not accepted"),
    "bad_request": Row(KeyIssueFailed, "the request is not understood"),
    "card_timeout": Row(KeyIssueFailed, "no card was laid on the encoder in time"),
    "card_absent": Row(KeyIssueFailed, "the card was taken away or lies badly"),
    "card_foreign": Row(KeyIssueFailed, "the card belongs to another system or is damaged: take a new one"),
    "cancelled": Row(KeyIssueFailed, "the encode job was cancelled"),
    "wrong_card": Row(KeyIssueFailed, "another card lies on the encoder than the one this key is on"),
    CARD_IN_USE: Row(KeyIssueFailed, "the card carries another live key", False, Reason.CARD_IN_USE),
}

PMS: dict[str, Row] = {
    "ES": Row(KeyIssueFailed, "the command is not understood"),
    "NC": Row(CardEncoderOffline, "the encoder does not answer", True),
    "NF": Row(VendorUnreachable, "the interface has no database: call the vendor", False, Reason.SETTINGS),
    "OV": Row(CardEncoderOffline, "the encoder is busy", True, Reason.BUSY, BUSY_WAIT_S),
    "EP": Row(KeyIssueFailed, "no card, or it lies badly"),
    "EF": Row(KeyIssueFailed, "the card belongs to another system or is damaged: take a new one"),
    "TD": Row(DeviceNotPaired, "the vendor has no room of this name"),
    "ED": Row(KeyIssueFailed, "no card was laid on the encoder in time"),
    "EA": Row(KeyIssueFailed, "the room has no running stay at the vendor", True),
    "OS": Row(KeyIssueFailed, "the room is out of service at the vendor"),
    "EO": Row(CardEncoderOffline, "this guest's card is being written at another station", True, Reason.BUSY, BUSY_WAIT_S),
    "EG": Row(KeyIssueFailed, "the interface reports a general error", True),
}


def translate(
    table: Mapping[str, Row],
    code: str,
    *,
    revoking: bool = False,
    device_id: str | None = None,
    retry_after_s: float | None = None,
) -> LockError:
    """Builds the port's error for a code. An unlisted code is final: nobody knows what repeating it does."""
    row = table.get(code, Row(KeyIssueFailed, "the vendor refused for a reason we do not know"))
    kind = KeyRevokeFailed if revoking and row.kind is KeyIssueFailed else row.kind
    return kind(
        CODE,
        row.meaning,
        retriable=row.retriable,
        reason=row.reason,
        device_id=device_id,
        retry_after_s=retry_after_s if retry_after_s is not None else row.wait_s,
        throttled=row.reason is Reason.RATE,
    )


def unreachable(
    message: str, reason: Reason = Reason.OTHER, *, throttled: bool = False, wait_s: float | None = None
) -> LockError:
    """Builds the error for a vendor that gave no usable answer."""
    return VendorUnreachable(CODE, message, reason=reason, throttled=throttled, retry_after_s=wait_s)


def refused_issue(message: str, reason: Reason = Reason.OTHER) -> LockError:
    """Builds the error for a key we do not ask for, since it cannot be made."""
    return KeyIssueFailed(CODE, message, retriable=False, reason=reason)
