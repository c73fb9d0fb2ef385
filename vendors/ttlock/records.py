"""Reads the lock's log, from the cloud's list and from pushes, into openings and refusals.

One rule: the typed code or card number in a record is used once, inside a keyed hash, and kept nowhere.
Source: the vendor's record and notification pages; raw types also from public clients.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import parse_qsl

from vendors.port.secrets import Token
from vendors.port.types import AccessRecord, CredentialKind, DeviceRecord, Reach
from vendors.support.marks import mark_in

from .wire import from_ms, to_int

RECORDS_PUSHED, GATEWAY_STATE, WIFI_STATE = "1", "2", "3"
MAX_FIELDS = 64

_PIN, _CARD, _APP, _QR = (
    CredentialKind.PIN_CODE,
    CredentialKind.RFID_CARD,
    CredentialKind.MOBILE_APP,
    CredentialKind.QR_CODE,
)
KINDS: dict[int, CredentialKind | None] = {
    1: _APP,
    3: None,
    4: _PIN,
    7: _CARD,
    8: None,
    9: None,
    10: None,
    12: None,
    37: None,
    49: _CARD,
    51: _CARD,
    55: None,
    57: _QR,
    58: _QR,
    62: _QR,
    67: None,
}
"""recordType → the credential's kind, None where it is none of ours (remote, fingerprint, mechanical key, fob …). Types that
are missing here are no attempt to get in: locking, sensors, alarms, openings from inside."""

REFUSED_ANYWAY = frozenset({51, 58, 62})
"""Types that are refusals whatever `success` says."""

DENY_REASONS: dict[int, str] = {
    7: "unknown_credential",
    11: "outside_validity",
    12: "capacity",
    13: "revoked",
    22: "outside_validity",
    25: "outside_validity",
    38: "privacy_lock",
    39: "privacy_lock",
    40: "privacy_lock",
    41: "privacy_lock",
    48: "lockout",
    51: "revoked",
    58: "outside_validity",
    62: "privacy_lock",
    74: "unreadable",
    91: "unreadable",
}
"""recordTypeFromLock → why the door stayed shut."""


def read_push(body: bytes) -> tuple[str, list[dict[str, Any]]]:
    """Returns lock id and record rows of a push; no rows for a notification of another type.

    The push is a form whose `records` field is a JSON text; everything else in it is text. Raises ValueError for anything else.
    """
    fields = _fields(body)
    if fields["notifyType"] != RECORDS_PUSHED:
        return fields.get("lockId", ""), []
    rows = json.loads(fields.get("records") or "[]")
    if not isinstance(rows, list):
        raise ValueError("the push's records are no list")  # noqa: TRY004 - what came is at fault, not a type of ours
    return fields.get("lockId", ""), [row for row in rows if isinstance(row, dict)]


def read_conditions(body: bytes) -> tuple[DeviceRecord, ...]:
    """Returns what a push says of a gateway, of a Wi-Fi lock, or of the battery of a lock that was tried.

    Going off line is pushed after some 30 minutes for a gateway, 15 for a Wi-Fi lock (notification page). The push has neither
    id nor time. Raises ValueError.
    """
    fields = _fields(body)
    kind, is_online = fields["notifyType"], to_int(fields.get("isOnline"))
    if kind in (GATEWAY_STATE, WIFI_STATE):
        reach, name = (Reach.GATEWAY, "gatewayId") if kind == GATEWAY_STATE else (Reach.LOCK, "lockId")
        if not fields.get(name) or is_online not in (0, 1):
            return ()
        return (DeviceRecord(reach, fields[name], online=is_online == 1),)
    lock_id, rows = read_push(body)
    newest: dict[str, tuple[int, int]] = {}
    for row in rows:
        percent, at = to_int(row.get("electricQuantity")), to_int(row.get("lockDate")) or 0
        lock = str(row.get("lockId") or lock_id)
        if percent is not None and 0 <= percent <= 100 and lock:
            newest[lock] = max(newest.get(lock, (at, percent)), (at, percent))
    return tuple(DeviceRecord(Reach.LOCK, lock, battery_percent=percent) for lock, (_, percent) in sorted(newest.items()))


def read_record(installation_id: str, hash_key: Token, lock_id: str, row: dict[str, Any]) -> AccessRecord | None:
    """Reads one row; None for one that is no attempt to get in, or has no time. Any part may be missing."""
    record_type = to_int(row.get("recordType"))
    at = from_ms(row.get("lockDate"))
    if record_type not in KINDS or at is None:
        return None
    raw = to_int(row.get("recordTypeFromLock"))
    lock = str(row.get("lockId") or lock_id)
    granted = to_int(row.get("success")) == 1 and record_type not in REFUSED_ANYWAY
    return AccessRecord(
        external_event_id=_event_id(installation_id, hash_key, lock, row),
        device_external_id=lock,
        outcome="granted" if granted else "denied",
        attempted_at=at,
        deny_reason=None if granted else _deny_reason(raw, record_type),
        nonce=mark_in(str(row.get("username") or "")),
        kind=KINDS[record_type],
    )


def _fields(body: bytes) -> dict[str, str]:
    fields = dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    if "notifyType" not in fields:
        raise ValueError("the push has no notifyType")
    return fields


def _deny_reason(raw: int | None, record_type: int) -> str:
    if raw is None:
        return DENY_REASONS.get(record_type, "unspecified") if record_type in REFUSED_ANYWAY else "unspecified"
    return DENY_REASONS.get(raw, "unspecified")


def _event_id(installation_id: str, hash_key: Token, lock_id: str, row: dict[str, Any]) -> str:
    """Makes the id the vendor does not give: the same for the pushed and the listed record of one attempt.

    The lock's time has a grain of one second, so the typed digits tell two attempts of one second apart; six digits are guessed
    at once from a plain hash, hence the key.
    """
    typed = hmac.new(
        hash_key.reveal().encode(),
        f"ttlock-record\n{row.get('keyboardPwd') or ''}".encode(),
        hashlib.sha256,
    ).hexdigest()
    parts = (
        installation_id,
        lock_id,
        to_int(row.get("recordTypeFromLock") or row.get("recordType")),
        to_int(row.get("lockDate")),
        to_int(row.get("success")),
        row.get("username") or "",
        typed,
    )
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()
