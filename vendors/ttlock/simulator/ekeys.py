"""eKeys: what a phone with the vendor's app holds.

One rule: an eKey lives in the cloud and in the receiver's phone, never in the lock. Freezing or deleting one bites when that
phone next synchronises.
"""

from __future__ import annotations

import re

from .context import Context
from .errcodes import VendorError, success_body
from .model import (
    KEY_DELETED,
    KEY_FROZEN,
    KEY_NORMAL,
    Account,
    EKey,
    Lock,
)
from .world import md5_hex

ONE_TIME = 1
PHONE_OR_MAIL = re.compile(r"\+?\d{6,15}|[^@\s]+@[^@\s]+")
KEY_ABSENT, NO_RECEIVER, TIED, TO_SELF, TO_ADMIN, FIXED_PERIOD, TOO_LONG = -1008, 20006, -1027, -2019, -2020, -2023, -3039
MISMATCH, UNKNOWN_KEY, REMOTE_OFF = 20003, 20004, -4043


async def send(context: Context) -> dict[str, object]:
    """key/send: one eKey per receiver and lock; a second one replaces the first under a new id."""
    lock = context.admin_lock()
    params = context.params
    name = params.text("receiverUsername")
    start, end = _key_window(context)
    receiver = context.world.account_named(name) or _create_receiver(context, name)
    if receiver.uid == context.account.uid:
        raise VendorError(TO_SELF)
    if receiver.uid == lock.owner_uid:
        raise VendorError(TO_ADMIN)
    if receiver.tied:
        raise VendorError(TIED)
    own = None if lock.owner_uid == context.account.uid else context.key_of(lock)
    if own is not None and own.end > ONE_TIME and (end == 0 or end > own.end):
        raise VendorError(TOO_LONG)
    for old in [k for k in lock.ekeys.values() if k.uid == receiver.uid]:
        old.status = KEY_DELETED
    key = EKey(
        key_id=context.world.new_id(),
        uid=receiver.uid,
        username=receiver.username,
        name=params.text("keyName"),
        start=start,
        end=end,
        sender=context.account.username,
        sender_uid=context.account.uid,
        sent_at=context.now,
        right=params.choice("keyRight", (0, 1), 0),
        remote=params.choice("remoteEnable", (1, 2), 2),
        remarks=params.text("remarks", ""),
        type=params.integer("keyType", 1),
        nonce=params.fields.get("clientNonce", "")[:64],
    )
    lock.ekeys[key.key_id] = key
    return {"keyId": key.key_id}


def _key_window(context: Context) -> tuple[int, int]:
    start, end = context.params.integer("startDate"), context.params.integer("endDate")
    if end == ONE_TIME and start >= 0:
        return start, end
    return context.window()


def _create_receiver(context: Context, name: str) -> Account:
    """With createUser 1, makes an account of a phone or mail; its password is the last six characters (a known hazard)."""
    if context.params.choice("createUser", (1, 2), 2) != 1 or not PHONE_OR_MAIL.fullmatch(name):
        raise VendorError(NO_RECEIVER)
    account = Account(context.world.new_id(), name, md5_hex(name[-6:]), registered_at=context.now)
    context.world.add_account(account)
    return account


async def change_period(context: Context) -> dict[str, object]:
    """key/changePeriod. Refused (-2023, assumed) for one-time keys and for keys that are neither normal nor frozen."""
    _, key = context.key()
    start, end = context.window()
    if key.end == ONE_TIME or key.status not in (KEY_NORMAL, KEY_FROZEN):
        raise VendorError(FIXED_PERIOD)
    key.start, key.end = start, end
    return success_body()


async def freeze(context: Context) -> dict[str, object]:
    """key/freeze: 110405."""
    _live_key(context).status = KEY_FROZEN
    return success_body()


async def unfreeze(context: Context) -> dict[str, object]:
    """key/unfreeze: 110401."""
    _live_key(context).status = KEY_NORMAL
    return success_body()


def _live_key(context: Context) -> EKey:
    _, key = context.key()
    if key.status == KEY_DELETED:
        raise VendorError(KEY_ABSENT)
    return key


async def delete(context: Context) -> dict[str, object]:
    """key/delete. The top administrator who deletes the own eKey deletes the lock."""
    lock, key = context.key()
    if key.status == KEY_DELETED:
        raise VendorError(KEY_ABSENT)
    if key.is_admin and lock.owner_uid == context.account.uid:
        del context.world.state.locks[lock.lock_id]
        return success_body()
    key.status = KEY_DELETED
    return success_body()


async def modify(context: Context) -> dict[str, object]:
    """key/modify: name, remoteEnable."""
    key = _live_key(context)
    key.name = context.params.text("keyName", key.name)
    key.remote = context.params.choice("remoteEnable", (1, 2), key.remote)
    return success_body()


async def authorize(context: Context) -> dict[str, object]:
    """key/authorize: makes the holder an authorised administrator."""
    return _set_right(context, 1)


async def unauthorize(context: Context) -> dict[str, object]:
    """key/unauthorize."""
    return _set_right(context, 0)


def _set_right(context: Context, right: int) -> dict[str, object]:
    lock = context.admin_lock()
    key_id = context.params.integer("keyId")
    key = lock.ekeys.get(key_id)
    if key is None:
        elsewhere = any(key_id in other.ekeys for other in context.world.state.locks.values())
        raise VendorError(MISMATCH if elsewhere else UNKNOWN_KEY)
    key.right = right
    return success_body()


async def get(context: Context) -> dict[str, object]:
    """key/get: the caller's own eKey of a lock."""
    lock = context.world.lock(context.params.integer("lockId"))
    key = next((k for k in lock.ekeys.values() if k.uid == context.account.uid and k.status != KEY_DELETED), None)
    if key is None:
        raise VendorError(KEY_ABSENT)
    return _own_item(lock, key)


async def list_own(context: Context) -> dict[str, object]:
    """key/list: the caller's eKeys of all locks, the top administrator's own among them."""
    alias = context.params.text("lockAlias", "")
    found = [
        _own_item(lock, key)
        for _, lock in sorted(context.world.state.locks.items())
        for key in lock.ekeys.values()
        if key.uid == context.account.uid and key.status != KEY_DELETED and alias in lock.alias
    ]
    return context.page(found, most=1000)


async def list_of_lock(context: Context) -> dict[str, object]:
    """lock/listKey: a lock's eKeys without the top administrator's."""
    lock = context.admin_lock()
    wanted = context.params.text("searchStr", "")
    right = context.params.integer("keyRight", -1)
    found = [
        _item(lock, key)
        for key in lock.ekeys.values()
        if not key.is_admin
        and key.status != KEY_DELETED
        and right in (-1, key.right)
        and (wanted in key.name or wanted in key.username)
    ]
    return context.page(context.order(found, "keyName", "date"))


async def unlock_link(context: Context) -> dict[str, object]:
    """key/getUnlockLink: a web page that unlocks through the network."""
    try:
        lock, key = context.key()
    except VendorError as error:
        raise VendorError(UNKNOWN_KEY if error.errcode == KEY_ABSENT else error.errcode) from None
    if not lock.remote_unlock or not (lock.gateway_ids or lock.wifi):
        raise VendorError(REMOTE_OFF)
    return {"link": f"https://wap.example.test/unlock/{key.key_id}"}


def _item(lock: Lock, key: EKey) -> dict[str, object]:
    return {
        "keyId": key.key_id,
        "lockId": lock.lock_id,
        "username": key.username,
        "uid": key.uid,
        "keyName": key.name,
        "keyStatus": str(key.status),
        "startDate": key.start,
        "endDate": key.end,
        "keyRight": key.right,
        "remoteEnable": key.remote,
        "senderUsername": key.sender,
        "remarks": key.remarks,
        "date": key.sent_at,
    }


def _own_item(lock: Lock, key: EKey) -> dict[str, object]:
    return {
        "keyId": key.key_id,
        "lockId": lock.lock_id,
        "userType": "110301" if key.is_admin else "110302",
        "keyStatus": str(key.status),
        "lockName": lock.name,
        "lockAlias": lock.alias,
        "lockMac": lock.mac,
        "noKeyPwd": "",
        "electricQuantity": lock.battery,
        "startDate": key.start,
        "endDate": key.end,
        "remarks": key.remarks,
        "keyRight": key.right,
        "featureValue": lock.feature_value,
        "remoteEnable": key.remote,
        "passageMode": 1 if lock.door.passage_mode else 2,
        "timezoneRawOffset": lock.timezone_raw_offset,
        "groupId": lock.group_id,
    }
