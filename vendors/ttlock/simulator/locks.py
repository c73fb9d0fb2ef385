"""Locks and gateways: lists, details, clock, battery, state, remote unlock, freeze.

One rule: lists show what the cloud last heard; only the `query…` calls ask the lock itself, through its gateway.
"""

from __future__ import annotations

from .context import Context
from .door import Door
from .errcodes import VendorError, success_body
from .lock_secrets import lock_data, lock_secrets
from .model import Gateway, Lock
from .params import INVALID
from .radio import BY_GATEWAY, BY_PHONE
from .records import collect

REMOTE_BIT, FREEZE_BIT, LOCK_BIT, AUTO_LOCK_BIT = 10, 11, 8, 4
UNSUPPORTED, NO_REMOTE_RIGHT, NO_GROUP, NAME_TAKEN = -4043, -3046, -1018, -1016
OPTIONAL = (
    "modelNum",
    "hardwareRevision",
    "firmwareRevision",
    "autoLockTime",
    "soundVolume",
    "lockSound",
    "privacyLock",
    "tamperAlert",
    "resetButton",
    "openDirection",
    "passageModeAutoUnlock",
    "electricQuantityUpdateDate",
    "wirelessKeypadFeatureValue",
    "specialValue",
    "groupName",
    "displayPasscode",
    "lockUpdateDate",
    "sensitivity",
    "doubleVerification",
)


async def list_own(context: Context) -> dict[str, object]:
    """lock/list: only locks whose top administrator the caller is."""
    params = context.params
    alias, group = params.text("lockAlias", ""), params.integer("groupId", 0)
    locks = context.world.owned_locks(context.account.uid)
    if group and not any(lock.group_id == group for lock in locks):
        raise VendorError(NO_GROUP)
    found = [_item(context, lock) for lock in locks if alias in lock.alias and group in (0, lock.group_id)]
    return context.page(found, most=1000)


def _item(context: Context, lock: Lock) -> dict[str, object]:
    """Build a row of `lock/list`, secrets included, as recorded answers have it."""
    item = _common(context, lock) | {
        "electricQuantityUpdateDate": lock.battery_at,
        "bindDate": lock.bound_at,
        "lockData": lock_data(lock),
        "groupId": lock.group_id,
        "groupName": "",
    }
    return _without_optional(context, item)


def _common(context: Context, lock: Lock) -> dict[str, object]:
    return {
        "lockId": lock.lock_id,
        "lockName": lock.name,
        "lockAlias": lock.alias,
        "lockMac": lock.mac,
        "electricQuantity": lock.battery,
        "featureValue": lock.feature_value,
        "hasGateway": int(bool(lock.gateway_ids) or lock.wifi is not None),
        "date": lock.bound_at,
        "specialValue": int(lock.feature_value, 16) & 0x7FFFFFFF,
        "noKeyPwd": lock_secrets(lock)["noKeyPwd"],
        "timezoneRawOffset": lock.timezone_raw_offset,
        "passageMode": 1 if lock.door.passage_mode else 2,
        "keyboardPwdVersion": lock.passcode_version,
        "wirelessKeypadFeatureValue": "0",
        "lockVersion": {
            "showAdminKbpwdFlag": True, "protocolType": 5, "protocolVersion": 3, "scene": 2, "groupId": 1, "orgId": 1,
            "logoUrl": "",
        },
    }  # fmt: skip


async def detail(context: Context) -> dict[str, object]:
    """lock/detail, with the lock's secrets. It lacks what only a row of the list has: `bindDate`, `lockData`, the group."""
    lock = context.admin_lock()
    item = _common(context, lock) | lock_secrets(lock) | {
        "modelNum": "SIM-PIN-01",
        "hardwareRevision": "1.0",
        "firmwareRevision": "6.5.4.240101",
        "lockSound": 1,
        "soundVolume": 3,
        "privacyLock": 2,
        "tamperAlert": 2,
        "resetButton": 1,
        "openDirection": 0,
        "passageModeAutoUnlock": lock.passage_auto_unlock,
        "isFrozen": 1 if lock.door.frozen else 2,
        "displayPasscode": 0,
        "lockFlagPos": 0,
        "lockUpdateDate": lock.battery_at,
        "sensitivity": -1,
        "doubleVerification": 2,
    }  # fmt: skip
    if lock.has_feature(AUTO_LOCK_BIT):
        item["autoLockTime"] = lock.auto_lock_s
    return _without_optional(context, item)


def _without_optional(context: Context, item: dict[str, object]) -> dict[str, object]:
    if context.app.habits.omit_optional:
        for name in OPTIONAL:
            item.pop(name, None)
    return item


async def query_date(context: Context) -> dict[str, object]:
    """lock/queryDate: the lock's clock, read as the cloud reads it with the stored offset."""
    lock = context.admin_lock()
    wall = await context.send(lock, lambda door: door.wall(context.world.now()), frozen_ok=True)
    return {"date": wall - lock.timezone_raw_offset}


async def update_date(context: Context) -> dict[str, object]:
    """lock/updateDate: sets the lock's clock to the server's time."""
    lock = context.admin_lock()

    def act(door: Door) -> int:
        now = context.world.now()
        door.set_clock(now, lock.timezone_raw_offset)
        return now

    return {"date": await context.send(lock, act, frozen_ok=True)}


async def query_battery(context: Context) -> dict[str, object]:
    """lock/queryElectricQuantity: live, and remembered."""
    lock = context.admin_lock()
    await context.send(lock, _ask_nothing, frozen_ok=True)
    lock.battery_at = context.now
    return {"electricQuantity": lock.battery}


def _ask_nothing(door: Door) -> None:
    """The way to the lock is all that matters; the door is left as it is."""
    del door


async def update_battery(context: Context) -> dict[str, object]:
    """lock/updateElectricQuantity: uploads what a phone read."""
    lock = context.admin_lock()
    percent = context.params.integer("electricQuantity")
    if not 0 <= percent <= 100:
        raise VendorError(INVALID)
    lock.battery, lock.battery_at = percent, context.now
    return success_body()


async def query_open_state(context: Context) -> dict[str, object]:
    """lock/queryOpenState: 0 locked, 1 unlocked."""
    lock = context.admin_lock()
    is_open = await context.send(lock, lambda door: door.is_unlocked(context.world.now()), frozen_ok=True)
    return {"state": int(is_open)}


async def query_status(context: Context) -> dict[str, object]:
    """lock/queryStatus: 1 frozen, 0 not (as the cloud recorded it)."""
    return {"status": int(context.admin_lock().door.frozen)}


async def unlock(context: Context) -> dict[str, object]:
    """lock/unlock through the gateway; a key holder needs remoteEnable."""
    lock = context.world.lock(context.params.integer("lockId"))
    key = context.key_of(lock)
    if not context.may_administer(lock):
        if key is None:
            context.admin_lock()
        elif key.remote != 1:
            raise VendorError(NO_REMOTE_RIGHT)
    if not (lock.has_feature(REMOTE_BIT) and lock.remote_unlock):
        raise VendorError(UNSUPPORTED)
    account = context.account
    await context.send(lock, lambda door: door.open_remotely(account.username, account.uid, context.world.now()))
    collect(context.services, lock)
    return success_body()


async def lock_now(context: Context) -> dict[str, object]:
    """lock/lock through the gateway."""
    lock = context.admin_lock()
    if not lock.has_feature(LOCK_BIT):
        raise VendorError(UNSUPPORTED)

    def act(door: Door) -> None:
        door.unlocked_until = 0

    await context.send(lock, act)
    return success_body()


async def freeze(context: Context) -> dict[str, object]:
    """lock/freeze: everybody is refused."""
    return await _set_frozen(context, True)


async def unfreeze(context: Context) -> dict[str, object]:
    """lock/unfreeze."""
    return await _set_frozen(context, False)


async def _set_frozen(context: Context, frozen: bool) -> dict[str, object]:
    lock = context.admin_lock()
    if not lock.has_feature(FREEZE_BIT):
        raise VendorError(UNSUPPORTED)

    def act(door: Door) -> None:
        door.frozen = frozen

    await context.send(lock, act, frozen_ok=True)
    return success_body()


async def change_offset(context: Context) -> dict[str, object]:
    """lock/changeTimezoneRawOffset: type 1 changes the record, type 2 the lock's clock as well."""
    lock = context.admin_lock()
    offset = context.params.integer("timezoneRawOffset")
    way = context.params.choice("type", (BY_PHONE, BY_GATEWAY), BY_PHONE)
    if abs(offset) > 14 * 3_600_000:
        raise VendorError(INVALID)

    def act(door: Door) -> None:
        door.set_clock(context.world.now(), offset)

    await context.write(lock, way, act)
    lock.timezone_raw_offset = offset
    return {"lockData": ""}


async def set_auto_lock(context: Context) -> dict[str, object]:
    """lock/setAutoLockTime: -1 off, otherwise 0 to 900 s (range assumed)."""
    lock = context.admin_lock()
    seconds = context.params.integer("seconds")
    way = context.params.choice("type", (BY_PHONE, BY_GATEWAY), BY_PHONE)
    if not -1 <= seconds <= 900:
        raise VendorError(-4082)
    await context.write(lock, way, _ask_nothing)
    lock.auto_lock_s = seconds
    return success_body()


async def rename(context: Context) -> dict[str, object]:
    """lock/rename. A taken name is -1016 where the application's habit says names are unique."""
    lock = context.admin_lock()
    alias = context.params.text("lockAlias")
    taken = any(other.alias == alias for other in context.world.owned_locks(lock.owner_uid) if other is not lock)
    if taken and context.app.habits.unique_names:
        raise VendorError(NAME_TAKEN)
    lock.alias = alias
    return success_body()


async def transfer(context: Context) -> dict[str, object]:
    """lock/transfer: gives locks to another account."""
    ids = context.params.json("lockIdList")
    if not isinstance(ids, list):
        raise VendorError(INVALID)
    locks = [context.world.lock(int(str(lock_id))) for lock_id in ids if str(lock_id).isdigit()]
    if any(lock.owner_uid != context.account.uid for lock in locks):
        raise VendorError(-2018)
    receiver_uid = _receiver(context, to_self=-3011)
    for lock in locks:
        lock.owner_uid = receiver_uid
    return success_body()


def _receiver(context: Context, to_self: int) -> int:
    receiver = context.world.account_named(context.params.text("receiverUsername"))
    if receiver is None:
        raise VendorError(-4064)
    if receiver.uid == context.account.uid:
        raise VendorError(to_self)
    return receiver.uid


# -- gateways


async def gateways(context: Context) -> dict[str, object]:
    """gateway/list."""
    found = [
        _gateway_item(context, gateway)
        for _, gateway in sorted(context.world.state.gateways.items())
        if gateway.owner_uid == context.account.uid
    ]
    return context.page(found)


def _gateway_item(context: Context, gateway: Gateway) -> dict[str, object]:
    locks = context.world.state.locks.values()
    return {
        "gatewayId": gateway.gateway_id,
        "gatewayMac": gateway.mac,
        "gatewayName": gateway.name,
        "gatewayVersion": gateway.version,
        "networkName": gateway.network,
        "networkMac": gateway.mac,
        "lockNum": sum(gateway.gateway_id in lock.gateway_ids for lock in locks),
        "isOnline": int(gateway.online),
    }


async def gateways_of_lock(context: Context) -> dict[str, object]:
    """gateway/listByLock, strongest signal first."""
    lock = context.admin_lock()
    known = [context.world.state.gateways[g] for g in lock.gateway_ids if g in context.world.state.gateways]
    return {
        "list": [
            {
                "gatewayId": gateway.gateway_id,
                "gatewayMac": gateway.mac,
                "gatewayName": gateway.name,
                "rssi": -60 - 10 * place,
                "rssiUpdateDate": context.now,
            }
            for place, gateway in enumerate(known)
        ]
    }


async def locks_of_gateway(context: Context) -> dict[str, object]:
    """gateway/listLock."""
    gateway = _own_gateway(context)
    locks = sorted(context.world.state.locks.items())
    return {
        "list": [
            {
                "lockId": lock.lock_id,
                "lockMac": lock.mac,
                "lockName": lock.name,
                "lockAlias": lock.alias,
                "rssi": -60,
                "updateDate": context.now,
            }
            for _, lock in locks
            if gateway.gateway_id in lock.gateway_ids
        ]
    }


async def gateway_detail(context: Context) -> dict[str, object]:
    """gateway/detail."""
    return _gateway_item(context, _own_gateway(context)) | {"firmwareRevision": "2.0.1"}


async def gateway_transfer(context: Context) -> dict[str, object]:
    """gateway/transfer of one gateway."""
    gateway = _own_gateway(context)
    gateway.owner_uid = _receiver(context, to_self=-3016)
    return success_body()


def _own_gateway(context: Context) -> Gateway:
    gateway = context.world.gateway(context.params.integer("gatewayId"))
    if gateway.owner_uid != context.account.uid:
        raise VendorError(-2018)
    return gateway


async def wifi_detail(context: Context) -> dict[str, object]:
    """wifiLock/detail; -3034 without a network."""
    lock = context.admin_lock()
    if lock.wifi is None or not lock.wifi.configured:
        raise VendorError(-3034)
    return {
        "lockId": lock.lock_id,
        "isOnline": int(lock.wifi.online),
        "powerSavingMode": 1 if lock.wifi.power_save else 2,
        "networkName": "hotel",
        "rssi": -60,
        "rssiGrade": 3,
    }


async def no_fingerprint(context: Context) -> dict[str, object]:
    """fingerprint/delete: no simulated lock has fingerprints."""
    context.admin_lock()
    raise VendorError(-1023)


async def no_fingerprints(context: Context) -> dict[str, object]:
    """fingerprint/list: empty."""
    context.admin_lock()
    return context.page([])
