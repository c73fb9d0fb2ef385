"""Turns the vendor's numbers into the port's errors: one table.

One rule: the number decides, the text never; success texts differ between pages and error texts between languages.
Source: the vendor's error code page, older English and Chinese error pages; 1 as a gateway's timeout: reports of integrators.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from vendors.port.errors import (
    DeviceNotPaired,
    KeyIssueFailed,
    KeyRevokeFailed,
    LockError,
    Reason,
    VendorUnreachable,
)
from vendors.support.limits import seconds_to_next_month
from vendors.support.scrub import scrub

from .manifest import MANIFEST

QUOTA_UTC_OFFSET_HOURS = 8
"""The monthly quota starts anew on the 1st, Beijing time."""

BUSY_WAIT_S = (5.0, 60.0)
TOO_FAST_WAIT_S = (60.0, 75.0)


class Refused(Exception):
    """The cloud answered with an error number: the work was not done. Stays inside this folder."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(f"errcode {code}")
        self.code = code
        self.message = message


class Unclear(Exception):
    """No answer that says whether the work was done. `error` explains it. Stays inside this folder."""

    def __init__(self, error: LockError) -> None:
        super().__init__(str(error))
        self.error = error


class Kind(Enum):
    """Which of the six errors a number becomes."""

    REFUSED = "refused"  # KeyRevokeFailed when a key is being taken back, else KeyIssueFailed
    UNREACHABLE = "unreachable"
    NOT_PAIRED = "not_paired"


@dataclass(frozen=True, slots=True)
class Row:
    """What a number means to us."""

    kind: Kind
    meaning: str
    retriable: bool = False
    reason: Reason = Reason.OTHER


_REFUSED, _UNREACHABLE, _NOT_PAIRED = Kind.REFUSED, Kind.UNREACHABLE, Kind.NOT_PAIRED


def _settings(meaning: str) -> Row:
    return Row(_UNREACHABLE, meaning, False, Reason.SETTINGS)


TABLE: dict[int, Row] = {
    1: Row(_UNREACHABLE, "the command failed or timed out at the gateway", True, Reason.TIMEOUT),
    -1: Row(_UNREACHABLE, "the operation failed", True, Reason.TIMEOUT),
    -3: Row(_REFUSED, "invalid parameter"),
    10000: _settings("unknown client id"),
    10001: _settings("client id or secret is wrong"),
    10002: _settings("authorization code required"),
    10003: _settings("the token is not known"),
    10004: _settings("the token has expired or was withdrawn"),
    10005: _settings("the scope was not granted"),
    10006: _settings("the application has not been reviewed"),
    10007: _settings("user name or password is wrong"),
    10008: _settings("authorization code invalid"),
    10009: _settings("redirect address differs"),
    10010: _settings("the grant type is not offered"),
    10011: _settings("the refresh token is not taken"),
    20000: _settings("openid invalid"),
    20001: Row(_NOT_PAIRED, "the account is no user of the lock"),
    20002: Row(_NOT_PAIRED, "the account is not the lock's administrator"),
    20003: Row(_REFUSED, "key and lock do not belong together"),
    20004: Row(_REFUSED, "the key does not exist"),
    20006: Row(_REFUSED, "the receiver does not exist"),
    20007: Row(_REFUSED, "the lock's passcode generation differs"),
    30001: _settings("the application may not call this"),
    30002: Row(_REFUSED, "the user name holds more than letters and digits"),
    30003: Row(_REFUSED, "the user exists already"),
    30004: Row(_REFUSED, "the user is not known"),
    30005: Row(_REFUSED, "the password is no MD5"),
    30006: Row(_UNREACHABLE, "calling too fast", True, Reason.RATE),
    30007: Row(_UNREACHABLE, "the monthly quota is used up", True, Reason.QUOTA),
    30008: _settings("the account lives in another region"),
    80000: Row(_UNREACHABLE, "our clock is more than 5 minutes off the vendor's", True),
    80002: Row(_REFUSED, "malformed JSON in a field"),
    90000: Row(_UNREACHABLE, "server error", True, Reason.TIMEOUT),
    -1003: Row(_NOT_PAIRED, "the lock is not known"),
    -1007: Row(_REFUSED, "the lock has no passcode data", False, Reason.KIND_UNSUPPORTED),
    -1008: Row(_REFUSED, "the eKey does not exist"),
    -1016: Row(_REFUSED, "the name exists already"),
    -1018: Row(_REFUSED, "the group does not exist"),
    -1021: Row(_REFUSED, "the card does not exist"),
    -1023: Row(_REFUSED, "the fingerprint does not exist"),
    -1026: Row(_REFUSED, "this random code was handed out and deleted before"),
    -1027: Row(_REFUSED, "the receiver's account is tied to another"),
    -2009: Row(_REFUSED, "the passcode does not exist"),
    -2012: Row(_UNREACHABLE, "the lock is linked to no gateway", True, Reason.DOOR_OFFLINE),
    -2018: Row(_NOT_PAIRED, "no permission"),
    -2019: Row(_REFUSED, "an eKey cannot be sent to oneself"),
    -2020: Row(_REFUSED, "an eKey cannot be sent to the administrator"),
    -2023: Row(_REFUSED, "the eKey's period may not be changed now", True),
    -2025: Row(_REFUSED, "the lock is frozen"),
    -2032: Row(_REFUSED, "the passcode is too simple", False, Reason.PIN_REFUSED),
    -3002: Row(_UNREACHABLE, "the gateway is offline", True, Reason.DOOR_OFFLINE),
    -3003: Row(_UNREACHABLE, "the gateway is busy", True, Reason.BUSY),
    -3006: Row(_REFUSED, "the passcode's length is not allowed", False, Reason.PIN_REFUSED),
    -3007: Row(_REFUSED, "the passcode is taken at this lock", False, Reason.PIN_REFUSED),
    -3008: Row(_REFUSED, "the code was never used at the lock and cannot be changed"),
    -3009: Row(_REFUSED, "the lock holds no more passcodes", False, Reason.DOOR_FULL),
    -3011: Row(_REFUSED, "transfer to oneself"),
    -3016: Row(_REFUSED, "transfer to oneself"),
    -3034: Row(_UNREACHABLE, "the Wi-Fi lock has no network set", True, Reason.DOOR_OFFLINE),
    -3035: Row(_UNREACHABLE, "the Wi-Fi lock sleeps to save power", True, Reason.DOOR_OFFLINE),
    -3036: Row(_UNREACHABLE, "the lock is offline", True, Reason.DOOR_OFFLINE),
    -3037: Row(_UNREACHABLE, "the lock is busy", True, Reason.BUSY),
    -3039: Row(_REFUSED, "the sender's own key ends earlier"),
    -3046: Row(_REFUSED, "no right to unlock remotely"),
    -4037: Row(_NOT_PAIRED, "the gateway is not known"),
    -4043: Row(_REFUSED, "the lock lacks the feature", False, Reason.KIND_UNSUPPORTED),
    -4056: Row(_REFUSED, "the lock's memory is full", False, Reason.DOOR_FULL),
    -4063: Row(_REFUSED, "locks must be deleted first"),
    -4064: Row(_REFUSED, "the receiver is not registered"),
    -4067: Row(_REFUSED, "the device is not registered"),
    -4082: Row(_REFUSED, "the auto-lock time is out of range"),
}
"""Every number we know. One that is missing is refused for good, and looked after first (the work may have been done)."""

DOUBTFUL = frozenset({1, -1, 90000})
"""Answers that leave open whether the work was done."""

TOKEN_REJECTED = frozenset({10003, 10004})
CLIENT_REJECTED = 10001
GONE = frozenset({20004, -1008, -1021, -2009})
"""The key is not there: a delete has nothing left to do."""

PIN_TAKEN = -3007
NEVER_USED = -3008
WINDOW_SPENT = -1026
USER_EXISTS = 30003
SLEEPING = -3035
NOT_REACHED = frozenset({-2012, -3002, -3003, -3034, -3035, -3036, -3037})
"""The command did not get through to the lock."""


def translate(
    code: int,
    message: str,
    *,
    revoking: bool,
    now: datetime,
    rng: random.Random,
    device_id: str | None = None,
) -> LockError:
    """Builds the port's error for a number. `message` is the vendor's text; it is scrubbed."""
    row = TABLE.get(code, Row(_REFUSED, "unlisted error"))
    cls = {
        _REFUSED: KeyRevokeFailed if revoking else KeyIssueFailed,
        _UNREACHABLE: VendorUnreachable,
        _NOT_PAIRED: DeviceNotPaired,
    }[row.kind]
    # Taking a key back is a matter of security: it goes on being tried while the window lasts, so only a person stops it.
    retriable = row.retriable or (revoking and cls is KeyRevokeFailed)
    return cls(
        MANIFEST.code,
        f"errcode {code}: {row.meaning} ({scrub(message)})" if message else f"errcode {code}: {row.meaning}",
        retriable=retriable,
        reason=row.reason,
        device_id=device_id,
        retry_after_s=_wait_s(row.reason, now, rng),
        throttled=row.reason in {Reason.RATE, Reason.QUOTA},
    )


def unreachable(message: str, reason: Reason = Reason.OTHER, *, throttled: bool = False) -> LockError:
    """Builds the error for a vendor that gave no usable answer."""
    return VendorUnreachable(MANIFEST.code, message, reason=reason, throttled=throttled)


def _wait_s(reason: Reason, now: datetime, rng: random.Random) -> float | None:
    if reason is Reason.BUSY:
        return rng.uniform(*BUSY_WAIT_S)
    if reason is Reason.RATE:
        return rng.uniform(*TOO_FAST_WAIT_S)
    if reason is Reason.QUOTA:
        return seconds_to_next_month(now, QUOTA_UTC_OFFSET_HOURS)
    return None
