"""The cloud's view and the door's view of every lock, side by side, for tests and reconciliation.

One rule: a door's codes are told in true time, as the door will act, not as anybody meant it.
"""

from __future__ import annotations

from .door import Door, RandomCode, StoredKey, Why
from .lock_secrets import lock_data, lock_secrets
from .model import Card, EKey, Lock, Passcode, PhoneCopy, QrCode
from .tryout import iso, judge_phone_copy
from .world import World


def dump_world(world: World, lock_id: int | None, client_id: str | None, live_only: bool) -> dict[str, object]:
    """Returns {"now", "locks": […], "gateways": […]}, of one lock or one application's owner if asked."""
    owner = None
    if client_id is not None:
        app = world.state.applications.get(client_id)
        owner = app.owner_uid if app else -1
    locks = [
        lock
        for _, lock in sorted(world.state.locks.items())
        if lock_id in (None, lock.lock_id) and owner in (None, lock.owner_uid)
    ]
    return {
        "now": world.now(),
        "locks": [_lock(lock, world.now(), live_only) for lock in locks],
        "gateways": [
            {"gatewayId": g.gateway_id, "name": g.name, "online": g.online}
            for _, g in sorted(world.state.gateways.items())
            if owner in (None, g.owner_uid)
        ],
    }


def _lock(lock: Lock, now: int, live_only: bool) -> dict[str, object]:
    return {
        "lockId": lock.lock_id,
        "alias": lock.alias,
        "gatewayIds": lock.gateway_ids,
        "timezoneRawOffset": lock.timezone_raw_offset,
        "battery": lock.battery,
        "secrets": lock_secrets(lock) | {"lockData": lock_data(lock)},
        "cloud": {
            "passcodes": [_passcode(p) for p in lock.passcodes.values()],
            "cards": [_card(c) for c in lock.cards.values()],
            "keys": [_key(k, now) for k in lock.ekeys.values() if not k.is_admin],
            "qrCodes": [_qr(q) for q in lock.qr_codes.values()],
            "recordCount": len(lock.records),
        },
        "door": _door(lock.door, now, live_only),
    }


def _door(door: Door, now: int, live_only: bool) -> dict[str, object]:
    codes = [_stored(door, key, now) | {"custom": True} for key in door.codes.values()]
    codes += [_random(door, code, now) for code in door.random_codes.values()]
    cards = [_stored(door, key, now) for key in door.cards.values()]
    qr_codes = [_stored(door, key, now) for key in door.qr_codes.values()]
    if live_only:
        codes, cards, qr_codes = (
            [item for item in items if item["state"] in ("live", "scheduled")] for items in (codes, cards, qr_codes)
        )
    return {
        "lockTime": iso(door.wall(now), door.wall_offset_ms),
        "clockOffsetMs": door.skew_ms(now),
        "frozen": door.frozen,
        "passageMode": door.passage_mode,
        "doubleLocked": door.double_locked,
        "unlocked": door.is_unlocked(now),
        "passcodes": codes,
        "cards": cards,
        "qrCodes": qr_codes,
        "logCount": len(door.log),
    }


def _stored(door: Door, key: StoredKey, now: int) -> dict[str, object]:
    return {
        "value": key.value,
        "opensFrom": door.true_instant(key.start, now),
        "opensUntil": door.true_instant(key.end, now),
        "state": _state(key.judge(door.wall(now))),
    }


def _random(door: Door, code: RandomCode, now: int) -> dict[str, object]:
    return {
        "value": code.value,
        "opensFrom": door.true_instant(code.start, now),
        "opensUntil": door.true_instant(code.end, now),
        "state": _state(code.judge(door.wall(now))),
        "custom": False,
        "type": code.type,
        "used": bool(code.used_at),
    }


def _state(why: Why) -> str:
    """live: opens now; scheduled: will; ended: its window is over; dead: never again, though its window may last."""
    if why in (Why.NOT_YET_VALID, Why.WRONG_HOURS):
        return "scheduled"
    return {Why.VALID: "live", Why.EXPIRED: "ended"}.get(why, "dead")


def _passcode(passcode: Passcode) -> dict[str, object]:
    return {
        "keyboardPwdId": passcode.passcode_id,
        "keyboardPwd": passcode.code,
        "name": passcode.name,
        "type": passcode.type,
        "startDate": passcode.start,
        "endDate": passcode.end,
        "custom": passcode.custom,
        "status": passcode.status,
        "clientNonce": passcode.nonce or None,
    }


def _card(card: Card) -> dict[str, object]:
    return {
        "cardId": card.card_id,
        "cardNumber": card.number,
        "name": card.name,
        "startDate": card.start,
        "endDate": card.end,
        "status": card.status,
        "clientNonce": card.nonce or None,
    }


def _key(key: EKey, now: int) -> dict[str, object]:
    why = judge_phone_copy(key, PhoneCopy(key.status, key.start, key.end), now)
    frozen = "frozen" if why is Why.KEY_FROZEN else _state(why)
    return {
        "keyId": key.key_id,
        "username": key.username,
        "name": key.name,
        "remarks": key.remarks,
        "startDate": key.start,
        "endDate": key.end,
        "keyStatus": key.status,
        "state": frozen,
        "clientNonce": key.nonce or None,
    }


def _qr(qr: QrCode) -> dict[str, object]:
    return {"qrCodeId": qr.qr_id, "name": qr.name, "startDate": qr.start, "endDate": qr.end, "status": qr.status}
