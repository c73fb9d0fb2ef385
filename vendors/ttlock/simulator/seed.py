"""Puts accounts, gateways and locks into a running simulator.

One rule: seeding only adds and updates. It never removes anything and never touches what a door or the cloud remembers of
credentials, so many tenants can seed one process and a demo can seed again after every start.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from .door import HOUR_MS, MINUTE_MS, Door
from .model import KEY_NORMAL, Account, Application, EKey, Gateway, Lock, Wifi
from .pushes import check_url
from .world import DEFAULT_FEATURES, World, feature_hex, md5_hex

Fields = Mapping[str, object]
INCOMPLETE_KEYPAD_BIT, WIFI_BIT, NB_BIT = 60, 56, 16
FULL_KEYPAD = "0123456789"

APP_FIELDS = {
    "region": "region",
    "reviewed": "reviewed",
    "clientCredentials": "client_credentials",
    "prefix": "prefix",
    "forbiddenPaths": "forbidden_paths",
    "minuteLimit": "minute_limit",
    "monthLimit": "month_limit",
    "monthCount": "month_count",
    "clientSecrets": "client_secrets",
}
HABIT_FIELDS = {
    "rotateRefresh": "rotate_refresh",
    "singleToken": "single_token",
    "accessTokenSeconds": "access_token_s",
    "refreshTokenSeconds": "refresh_token_s",
    "oldTokenFields": "old_token_fields",
    "numbersAsStrings": "numbers_as_strings",
    "omitOptional": "omit_optional",
    "unknownDelete": "unknown_delete",
    "clampPageSize": "clamp_page_size",
    "duplicateCards": "duplicate_cards",
    "uniqueNames": "unique_names",
    "sameWindow": "same_window",
    "deleteByCode": "delete_by_code",
    "absentDelete": "absent_delete",
}
HABIT_WORDS = {"sameWindow": ("same_id", "new_id"), "deleteByCode": ("lock", "list")}
CALLBACK_FIELDS = {
    "url": "url",
    "hmacSecret": "hmac_secret",
    "signatureHeader": "signature_header",
    "delayMs": "delay_ms",
    "duplicate": "duplicate",
    "drop": "drop",
    "reorder": "reorder",
    "wrongToken": "wrong_token",
    "retries": "retries",
}
ACCOUNT_FIELDS = {"developer": "developer", "tied": "tied"}
LOCK_FIELDS = {
    "alias": "alias",
    "featureValue": "feature_value",
    "battery": "battery",
    "timezoneRawOffset": "timezone_raw_offset",
    "nbRegistered": "nb_registered",
    "remoteUnlock": "remote_unlock",
    "passcodeData": "has_passcode_data",
    "passcodeVersion": "passcode_version",
    "hourFloor": "hour_floor",
    "groupId": "group_id",
    "noKeyPwd": "admin_code",
}
DOOR_FIELDS = {
    "digits": "digits",
    "clockOffsetMs": "clock_offset_ms",
    "doorTimezoneRawOffset": "wall_offset_ms",
    "driftPpm": "drift_ppm",
    "codeCapacity": "code_capacity",
    "cardCapacity": "card_capacity",
    "lockoutAfter": "lockout_after",
    "frozen": "frozen",
    "passageMode": "passage_mode",
    "doubleLocked": "double_locked",
}
WIFI_FIELDS = {"configured": "configured", "online": "online", "powerSave": "power_save", "fails": "fails"}
GATEWAY_FIELDS = {"name": "name", "online": "online", "version": "version", "network": "network"}
DEFAULT_ACCOUNT: Fields = {
    "clientId": "sim-client",
    "clientSecret": "sim-secret",
    "username": "owner@sim.test",
    "password": "sim-password",
}


class SeedError(ValueError):
    """What the control port was given makes no sense; the text says why."""


def apply(target: object, fields: Fields, table: Mapping[str, str]) -> None:
    """Sets the fields that the table names. Raises ValueError when a value's type is not the old value's."""
    for name, attribute in table.items():
        if name not in fields:
            continue
        value = fields[name]
        old = getattr(target, attribute)
        if old is not None and value is not None and type(value) is not type(old):
            raise SeedError(f"{name} must be {type(old).__name__}")
        if value is None and old is not None and not attribute.endswith("_limit"):
            raise SeedError(f"{name} may not be null")
        setattr(target, attribute, value)


def refuse_unknown(what: str, fields: Fields, *tables: Mapping[str, str] | tuple[str, ...]) -> None:
    """Raises ValueError naming fields that no table knows."""
    unknown = set(fields).difference(*tables)
    if unknown:
        raise SeedError(f"unknown {what} fields: {', '.join(sorted(unknown))}")


def seed(world: World, body: Fields) -> dict[str, object]:
    """Applies one seed and returns the ids it made or found. Raises ValueError naming what is wrong."""
    refuse_unknown("seed", body, ("account", "users", "gateways", "locks"))
    app, owner = _account(world, _object(body, "account") or DEFAULT_ACCOUNT)
    for user in _objects(body, "users"):
        _user(world, user)
    gateways = [_gateway(world, owner, fields) for fields in _objects(body, "gateways")]
    default_gateway = gateways[0].gateway_id if gateways else None
    locks = [_lock(world, owner, fields, default_gateway) for fields in _objects(body, "locks")]
    world.changes += 1
    return {
        "account": {"clientId": app.client_id, "username": owner.username, "uid": owner.uid},
        "gateways": [{"gatewayId": g.gateway_id, "name": g.name} for g in gateways],
        "locks": [
            {"lockId": k.lock_id, "alias": k.alias, "gatewayId": k.gateway_ids[0] if k.gateway_ids else None} for k in locks
        ],
    }


def seed_hotel(world: World, body: Fields) -> dict[str, object]:
    """Seeds a hotel: a lock per room and shared door, a gateway per floor. The same names find the same locks again.

    Raises ValueError naming what is wrong.
    """
    refuse_unknown(
        "hotel", body, ("account", "rooms", "shared", "timezoneRawOffset", "gatewayPer", "lock", "firstLockId", "name")
    )
    rooms = body.get("rooms", 12)
    names = _room_names(rooms) if isinstance(rooms, int) else [str(room) for room in _sequence(body, "rooms")]
    shared = [str(door) for door in _sequence(body, "shared")]
    per = str(body.get("gatewayPer", "floor"))
    account = _object(body, "account") or DEFAULT_ACCOUNT
    app, owner = _account(world, account)
    lines: dict[str, int | None] = {}
    for name in [*names, *shared]:
        label = _gateway_label(name if name in names else names[0] if names else "", per)
        if label is None:
            lines[name] = None
        else:
            lines[name] = _named_gateway(world, owner, label)
    first = body.get("firstLockId")
    known = {lock.alias: lock.lock_id for lock in world.owned_locks(owner.uid)}
    template = {"timezoneRawOffset": body.get("timezoneRawOffset", 0), **(_object(body, "lock") or {})}
    locks = []
    for place, name in enumerate([*names, *shared]):
        fields: dict[str, object] = {**template, "alias": name, "gatewayId": lines[name]}
        if name in known:
            fields["lockId"] = known[name]
        elif isinstance(first, int):
            fields["lockId"] = first + place
        locks.append(fields)
    gateways = [{"gatewayId": g} for g in sorted({g for g in lines.values() if g is not None})]
    answer = seed(world, {"account": {**account}, "locks": locks, "gateways": gateways})
    answer["account"] = {**account, "uid": owner.uid, "clientId": app.client_id}
    return answer


def _room_names(count: int) -> list[str]:
    """101 to 110, 201 to 210 and so on."""
    return [f"{place // 10 + 1}{place % 10 + 1:02d}" for place in range(count)]


def _gateway_label(room: str, per: str) -> str | None:
    if per == "floor":
        return f"Floor {room[:-2] or '1'}"
    if per not in ("hotel", "none"):
        raise SeedError("gatewayPer must be floor, hotel or none")
    return "Hotel" if per == "hotel" else None


def _named_gateway(world: World, owner: Account, label: str) -> int:
    for gateway in world.state.gateways.values():
        if gateway.owner_uid == owner.uid and gateway.name == label:
            return gateway.gateway_id
    return _gateway(world, owner, {"name": label}).gateway_id


def _account(world: World, fields: Fields) -> tuple[Application, Account]:
    refuse_unknown(
        "account",
        fields,
        ("clientId", "clientSecret", "username", "password", "passwordMd5", "callback", "callbackUrl", "habits"),
        APP_FIELDS,
        HABIT_FIELDS,
        ACCOUNT_FIELDS,
    )
    client_id = str(fields.get("clientId", DEFAULT_ACCOUNT["clientId"]))
    secret = str(fields.get("clientSecret", DEFAULT_ACCOUNT["clientSecret"]))
    app = world.state.applications.get(client_id)
    if app is None:
        app = world.state.applications[client_id] = Application(client_id, [secret], prefix=f"p{world.new_id()}")
        app.region = world.region
    elif "clientSecret" in fields:
        app.client_secrets = [secret]
    apply(app, fields, APP_FIELDS)
    configure(app, fields)
    owner = world.state.accounts.get(app.owner_uid)
    if owner is None or fields.get("username", owner.username) != owner.username:
        owner = _user(world, fields)
    else:
        _set_password(owner, fields)
        apply(owner, fields, ACCOUNT_FIELDS)
    app.owner_uid = app.owner_uid or owner.uid
    return app, owner


def configure(app: Application, fields: Fields) -> None:
    """Sets an application's habits and callback. Raises ValueError, also for a callback that is not on loopback."""
    habits = {**fields, **(_object(fields, "habits") or {})}
    for name, words in HABIT_WORDS.items():
        if habits.get(name, words[0]) not in words:
            raise SeedError(f"{name} must be one of {', '.join(words)}")
    apply(app.habits, habits, HABIT_FIELDS)
    callback = dict(_object(fields, "callback") or {})
    if "callbackUrl" in fields:
        callback["url"] = fields["callbackUrl"]
    refuse_unknown("callback", callback, CALLBACK_FIELDS)
    if "url" in callback:
        check_url(str(callback["url"]))
    apply(app.callback, callback, CALLBACK_FIELDS)


def _user(world: World, fields: Fields) -> Account:
    username = str(fields.get("username", DEFAULT_ACCOUNT["username"]))
    account = world.account_named(username)
    if account is None:
        password = md5_hex(str(DEFAULT_ACCOUNT["password"]))
        account = Account(world.new_id(), username, password, registered_at=world.now())
        world.add_account(account)
    _set_password(account, fields)
    apply(account, fields, ACCOUNT_FIELDS)
    return account


def _set_password(account: Account, fields: Fields) -> None:
    if "passwordMd5" in fields:
        account.password_md5 = str(fields["passwordMd5"]).lower()
    elif "password" in fields:
        account.password_md5 = md5_hex(str(fields["password"]))


def _gateway(world: World, owner: Account, fields: Fields) -> Gateway:
    refuse_unknown("gateway", fields, ("gatewayId",), GATEWAY_FIELDS)
    gateway_id = _identity(world, fields, "gatewayId", world.state.gateways)
    gateway = world.state.gateways.get(gateway_id)
    if gateway is None:
        gateway = Gateway(gateway_id, owner.uid, f"Gateway {gateway_id}", _mac("GW", gateway_id))
        world.state.gateways[gateway_id] = gateway
    elif gateway.owner_uid != owner.uid:
        raise SeedError(f"gateway {gateway_id} belongs to another account")
    apply(gateway, fields, GATEWAY_FIELDS)
    return gateway


def _lock(world: World, owner: Account, fields: Fields, default_gateway: int | None) -> Lock:
    refuse_unknown("lock", fields, ("lockId", "gatewayId", "gatewayIds", "features", "grain", "wifi"), LOCK_FIELDS, DOOR_FIELDS)
    lock_id = _identity(world, fields, "lockId", world.state.locks)
    lock = world.state.locks.get(lock_id)
    if lock is None:
        lock = _new_lock(world, owner, lock_id, default_gateway)
    elif lock.owner_uid != owner.uid:
        raise SeedError(f"lock {lock_id} belongs to another account")
    apply(lock, fields, LOCK_FIELDS)
    if "timezoneRawOffset" in fields:
        lock.door.wall_offset_ms = lock.timezone_raw_offset
    apply(lock.door, fields, DOOR_FIELDS)
    if "driftPpm" in fields:
        lock.door.drift_since = world.now()
    _set_grain(lock, fields)
    _set_reach(world, lock, fields)
    _set_features(lock, fields)
    return lock


def _new_lock(world: World, owner: Account, lock_id: int, default_gateway: int | None) -> Lock:
    lock = Lock(
        lock_id=lock_id,
        owner_uid=owner.uid,
        alias=f"Lock {lock_id}",
        name=f"S{lock_id}_{lock_id % 0xFFFFFF:06x}",
        mac=_mac("LK", lock_id),
        timezone_raw_offset=0,
        feature_value=feature_hex(DEFAULT_FEATURES),
        secret=secrets.token_hex(16),
        battery_at=world.now(),
        bound_at=world.now(),
        gateway_ids=[] if default_gateway is None else [default_gateway],
        door=Door(),
    )
    key_id = world.new_id()
    lock.ekeys[key_id] = EKey(
        key_id, owner.uid, owner.username, "admin", 0, 0, owner.username, owner.uid, world.now(),
        status=KEY_NORMAL, right=1, remote=1, is_admin=True,
    )  # fmt: skip
    world.state.locks[lock_id] = lock
    return lock


def _set_grain(lock: Lock, fields: Fields) -> None:
    grain = fields.get("grain")
    if grain is not None:
        sizes: dict[object, int] = {"minute": MINUTE_MS, "hour": HOUR_MS}
        if grain not in sizes:
            raise SeedError("grain must be minute or hour")
        lock.door.grain_ms = sizes[grain]
    if lock.hour_floor not in ("local", "utc"):
        raise SeedError("hourFloor must be local or utc")


def _set_reach(world: World, lock: Lock, fields: Fields) -> None:
    if "gatewayId" in fields:
        one = fields["gatewayId"]
        lock.gateway_ids = [] if one is None else [int(str(one))]
    if "gatewayIds" in fields:
        lock.gateway_ids = [int(str(g)) for g in _sequence(fields, "gatewayIds")]
    unknown = [g for g in lock.gateway_ids if g not in world.state.gateways]
    if unknown:
        raise SeedError(f"unknown gateway {unknown[0]}")
    wifi = _object(fields, "wifi")
    if wifi is not None:
        refuse_unknown("wifi", wifi, WIFI_FIELDS)
        lock.wifi = lock.wifi or Wifi()
        apply(lock.wifi, wifi, WIFI_FIELDS)


def _set_features(lock: Lock, fields: Fields) -> None:
    if "features" in fields:
        lock.feature_value = feature_hex(tuple(int(str(bit)) for bit in _sequence(fields, "features")))
    try:
        bits = int(lock.feature_value, 16)
    except ValueError:
        raise SeedError("featureValue must be hex") from None
    if "featureValue" not in fields and "features" not in fields:
        bits |= 1 << INCOMPLETE_KEYPAD_BIT if lock.door.digits != FULL_KEYPAD else 0
        bits |= 1 << WIFI_BIT if lock.wifi is not None else 0
        bits |= 1 << NB_BIT if lock.nb_registered else 0
        lock.feature_value = f"{bits:X}"


def _identity(world: World, fields: Fields, name: str, known: Mapping[int, object]) -> int:
    value = fields.get(name)
    if value is None:
        value = world.new_id()
        while value in known:
            value = world.new_id()
    if type(value) is not int or value <= 0:
        raise SeedError(f"{name} must be a positive number")
    return value


def _mac(kind: str, number: int) -> str:
    octets = (ord(kind[0]) << 40 | ord(kind[1]) << 32 | number & 0xFFFFFFFF).to_bytes(6, "big")
    return ":".join(f"{octet:02X}" for octet in octets)


def _object(fields: Fields, name: str) -> Fields | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, dict):
        raise SeedError(f"{name} must be an object")
    return value


def _objects(fields: Fields, name: str) -> list[Fields]:
    items = _sequence(fields, name)
    if not all(isinstance(item, dict) for item in items):
        raise SeedError(f"{name} must be a list of objects")
    return items  # type: ignore[return-value]


def _sequence(fields: Fields, name: str) -> list[object]:
    value = fields.get(name) or []
    if not isinstance(value, list):
        raise SeedError(f"{name} must be a list")
    return value
