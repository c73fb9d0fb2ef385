"""Somebody stands at the door: a PIN is typed, a card shown, a phone held out.

One rule: the lock decides, on its own clock, from its own memory. Only a phone's key is first looked at by the phone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from .door import OPENING, StoredKey, Why
from .model import KEY_DELETED, KEY_FROZEN, KEY_NORMAL, EKey, Lock, PhoneCopy
from .records import collect
from .services import Services
from .world import md5_hex

KINDS = ("pin_code", "rfid_card", "mobile_app", "qr_code")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is presented. `at_ms` asks for a judgement at another true instant; it and `dry` leave no trace. `phone_online`
    lets the phone synchronise first.
    """

    lock_id: int
    kind: str
    value: str
    at_ms: int | None = None
    dry: bool = False
    phone_online: bool = True


def attempt(services: Services, what: Attempt) -> dict[str, object]:
    """Tries the door. Raises ValueError for an unknown lock or kind."""
    lock = services.world.state.locks.get(what.lock_id)
    if lock is None:
        raise ValueError(f"no lock {what.lock_id}")
    if what.kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}")
    now = services.world.now() if what.at_ms is None else what.at_ms
    leaves_trace = not what.dry and what.at_ms is None
    why = (_present if leaves_trace else _judge)(services, lock, what, now)
    if leaves_trace:
        services.world.changes += 1
        collect(services, lock)
    wall = lock.door.wall(now)
    return {"open": why in OPENING, "why": why.value, "lockTime": iso(wall, lock.door.wall_offset_ms)}


def _present(services: Services, lock: Lock, what: Attempt, now: int) -> Why:
    if what.kind == "pin_code":
        return lock.door.enter_code(what.value, now)
    if what.kind == "rfid_card":
        return lock.door.show_card(what.value, now)
    if what.kind == "qr_code":
        return lock.door.show_qr(qr_content(lock, what.value), now)
    key = _key_in_phone(services, lock, what.value)
    why = judge_phone_copy(key, _synced(key, online=what.phone_online), now)
    if key is None or why is not Why.VALID:
        return why
    why = lock.door.open_by_phone(key.is_admin or key.right == 1, key.username, key.uid, now)
    key.used = key.used or why is Why.VALID
    return why


def _judge(services: Services, lock: Lock, what: Attempt, now: int) -> Why:
    if what.kind == "pin_code":
        return lock.door.judge_code(what.value, now)
    if what.kind == "rfid_card":
        return lock.door.judge_stored(lock.door.cards, what.value, now)
    if what.kind == "qr_code":
        return lock.door.judge_stored(lock.door.qr_codes, qr_content(lock, what.value), now)
    key = _key_in_phone(services, lock, what.value)
    copy = key.phone if key and not what.phone_online else _copy(key)
    why = judge_phone_copy(key, copy, now)
    return lock.door.judge_phone(key is not None and (key.is_admin or key.right == 1), now) if why is Why.VALID else why


def _key_in_phone(services: Services, lock: Lock, value: str) -> EKey | None:
    """A JSON object with `username` and `password` signs in first; anything else names the key."""
    if not value.startswith("{"):
        return find_key(lock, value)
    login = json.loads(value)
    account = services.world.account_named(str(login.get("username")))
    if account is None or md5_hex(str(login.get("password"))) != account.password_md5:
        return None
    return find_key(lock, account.username)


def find_key(lock: Lock, value: str) -> EKey | None:
    """Finds an eKey of this lock by its id, by a link or reference that ends in the id, or by its receiver's name (newest)."""
    tail = re.search(r"(\d+)$", value)
    by_id = lock.ekeys.get(int(tail[1])) if tail and len(tail[1]) < 18 else None
    named = [key for key in lock.ekeys.values() if key.username == value]
    live = [key for key in named if key.status != KEY_DELETED]
    return next(iter(reversed(live or named)), by_id)


def qr_content(lock: Lock, value: str) -> str:
    """Accepts the content itself or the QR code's id."""
    by_id = lock.qr_codes.get(int(value)) if value.isdigit() and len(value) < 18 else None
    return by_id.content if by_id else value


def _copy(key: EKey | None) -> PhoneCopy | None:
    return None if key is None else PhoneCopy(key.status, key.start, key.end)


def _synced(key: EKey | None, *, online: bool) -> PhoneCopy | None:
    if key is not None and online:
        key.phone = _copy(key)
    return None if key is None else key.phone


def judge_phone_copy(key: EKey | None, copy: PhoneCopy | None, now: int) -> Why:
    """What the phone itself says, on true time, from what it last heard."""
    if key is None:
        return Why.UNKNOWN_CREDENTIAL
    if copy is None:
        return Why.PHONE_NEVER_SYNCED
    if copy.status in (KEY_FROZEN, KEY_DELETED):
        return Why.KEY_FROZEN if copy.status == KEY_FROZEN else Why.KEY_DELETED
    if copy.status != KEY_NORMAL:
        return Why.UNKNOWN_CREDENTIAL
    if copy.end == 1:
        one_time = StoredKey("", copy.start, 0)
        return Why.ALREADY_USED if key.used else one_time.judge(now)
    return StoredKey("", copy.start, copy.end).judge(now)


def iso(wall: int, offset_ms: int) -> str:
    """Writes a wall time with its offset: 2026-05-01T14:00:00.000+04:30."""
    zone = timezone(timedelta(milliseconds=offset_ms))
    return datetime.fromtimestamp((wall - offset_ms) / 1000, UTC).astimezone(zone).isoformat(timespec="milliseconds")
