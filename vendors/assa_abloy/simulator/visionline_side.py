"""The Visionline server's web API: sessions, signed requests, cards.

One rule: a signature is checked over the bytes and headers as they came, by code of its own.
Source: as in the adapter's README; spellings marked low there are assumed here in the same way.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, unquote

from vendors.support.simulator_http import Reply, Request

from .model import House, Key
from .stays import No, card_on, check_doors, claim_card, encoder_of, joining, overriding, sharing, write_card
from .world import World, endpoint_for, last_code, sync

SESSION_LIFE_S = 1800
SKEW_S = 900
WALL = "%Y%m%dT%H%M"
DOOR_TYPES = {"guest": "guest", "common": "common", "entrance": "guest entrance", "elevator": "elevator"}
TYPE_NUMBERS = {"guest": 1, "common": 2, "entrance": 3, "elevator": 4}
"""What the numbers mean is not public: these are this simulator's own, as a site's are its own."""

STATUS = {"active": "valid", "suspended": "cancelled"}


class VisionlineSide:
    """Answers `/api/v1/…`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def handle(self, request: Request) -> Reply:
        """Serves one request, under the world's lock; waits for a card without it."""
        date = {"Date": format_datetime(self._world.clock.now(), usegmt=True)}
        house = None
        try:
            if request.path == "/api/v1/sessions":
                return Reply(201, self._login(request), date)
            house = self.house_of(request)
            if house is None:
                raise No(401, "unauthorized")
            status, document = self._route(house, request)
            return Reply(status, document, date)
        except No as no:
            doors = [house.name_of(door) for door in no.doors] if house else no.doors
            return Reply(no.status, {"code": no.code, "message": no.code, "doors": doors}, date)
        except (KeyError, ValueError, TypeError) as error:
            return Reply(400, {"code": "uncategorized_error", "message": type(error).__name__}, date)

    def house_of(self, request: Request) -> House | None:
        """Finds the house whose session signed the request; None for none."""
        scheme, _, credential = request.headers.get("authorization", "").partition(" ")
        session, _, signature = credential.partition(":")
        code, access_key, until = self._world.sessions.get(session, ("", "", datetime.min.replace(tzinfo=UTC)))
        now = self._world.clock.now()
        if scheme != "AWS" or now >= until or not _is_body_whole(request) or not _is_timely(request, now):
            return None
        if not any(hmac.compare_digest(signature, _mac(access_key, text)) for text in _texts(request)):
            return None
        return self._world.houses.get(code)

    def _login(self, request: Request) -> dict[str, Any]:
        given = request.json()
        pair = (given.get("username"), given.get("password"))
        house = next((h for h in self._world.houses.values() if (h.username, h.password) == pair), None)
        now = self._world.clock.now()
        if house is None or not _is_body_whole(request) or not _is_timely(request, now):
            raise No(401, "unauthorized")
        session, access_key = secrets.token_hex(8), house.access_key or secrets.token_urlsafe(24)
        self._world.sessions[session] = (house.code, access_key, now + timedelta(seconds=SESSION_LIFE_S))
        return {"id": session, "accessKey": access_key}

    def _route(self, house: House, request: Request) -> tuple[int, Any]:
        query = dict(parse_qsl(request.target.partition("?")[2]))
        parts = [unquote(part) for part in request.path.removeprefix("/api/v1/").split("/")]
        if "guestDoor" in query:
            query["guestDoor"] = house.door_called(query["guestDoor"])
        match [request.method, *parts]:
            case ["POST", "cards"]:
                return 201, self._make(house, query, _by_id(house, request.json()))
            case ["POST", "endpoints"]:
                body = request.json()
                phone = endpoint_for(house, str(body.get("phoneE164") or body["appUserRef"]))
                return 201, {"endpointId": phone.endpoint_id, "invitationCode": last_code(phone)}
            case ["DELETE", "cards", card_id]:
                self._cancel(house, _key(house, card_id))
                return 204, None
            case ["GET", *path]:
                return 200, self._read(house, path, query)
        raise No(404, "not_found")

    def _read(self, house: House, path: list[str], query: dict[str, str]) -> Any:
        match path:
            case ["doors"]:
                return [_door(house, door_id) for door_id in house.locks]
            case ["door", name]:
                return _door(house, house.door_called(name))
            case ["cards"]:
                return self._list(house, query)
            case ["cards", card_id]:
                return self._row(house, _key(house, card_id))
            case ["events"]:
                return self._events(house, query)
        raise No(404, "not_found")

    # --- keys

    def _make(self, house: House, query: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        operations = {op["operation"]: list(op["doors"]) for op in body["doorOperations"]}
        guest, common = operations.get("guest", []), operations.get("common", [])
        kind = str(body.get("keyKind") or "rfid_card")
        check_doors(house, guest, common, is_card=kind != "mobile_app" and body.get("format") == "rfid48")
        if len(str(body.get("label") or "")) > 32:
            raise No(400, "uncategorized_error")
        zone = house.zone
        start, end = _from_wall(body["startTime"], zone), _from_wall(body["expireTime"], zone)
        if end <= start:
            raise No(400, "uncategorized_error")
        stays = self._stays(house, query, body, guest)
        key = Key(house.key_id("cd-"), kind, guest, common, start, end, stays, str(body.get("label") or ""))
        now, code = self._world.clock.now(), None
        overwrite = query.get("overwriteValidCard") == "true"
        if query.get("action") == "mobile":
            code = self._send_to_phone(house, key, body.get("endpoint") or {})
        elif query.get("action") == "encode":
            serial = self._card_laid(house, query.get("encoder"))
            write_card(house, serial, key, now, overwrite=overwrite)
        else:
            claim_card(house, str(body["serialNumbers"][0]), key, now, overwrite=overwrite)
        house.keys[key.id] = key
        self._tell_phone(house, key)
        return self._row(house, key, code)

    def _stays(self, house: House, query: dict[str, str], body: dict[str, Any], guest: list[str]) -> dict[str, int]:
        if query.get("override") == "true":
            return overriding(house, guest)
        if body.get("joins"):
            old = _key(house, str(body["joins"][0]))
            if old.status == "overridden":
                raise No(409, "card_overridden")
            return sharing(house, old, guest, [])
        if query.get("autoJoin") == "true":
            return joining(house, guest)
        if any(house.issued.get(door) for door in guest):
            raise No(409, "room_let")
        return overriding(house, guest)

    def _card_laid(self, house: House, name: str | None) -> str:
        """Waits for a person to lay a card on the encoder. Raises No when nobody does in time."""
        encoder = encoder_of(house, name, "encoder_unknown")
        if encoder.is_busy:
            raise No(409, "encoder_busy")
        encoder.is_busy = True
        end = time.monotonic() + house.card_wait_s
        try:
            while (serial := card_on(encoder)) is None:
                left = end - time.monotonic()
                if left <= 0:
                    raise No(409, "no_card_on_encoder")
                self._world.card_laid.wait(left)
            return serial
        finally:
            encoder.is_busy = False

    def _send_to_phone(self, house: House, key: Key, endpoint: dict[str, Any]) -> str | None:
        given = endpoint.get("endpointId")
        phone = house.phones[given] if given else endpoint_for(house, str(endpoint.get("phoneE164") or endpoint["appUserRef"]))
        key.endpoint_id = phone.endpoint_id
        return last_code(phone)

    def _cancel(self, house: House, key: Key) -> None:
        if key.status == "active":
            key.status = "cancelled"
            key.version += 1
        self._tell_phone(house, key)

    def _tell_phone(self, house: House, key: Key) -> None:
        if key.endpoint_id in house.phones:
            sync(house, house.phones[key.endpoint_id], self._world.clock.now())

    def _on_encoder(self, house: House, query: dict[str, str]) -> list[dict[str, Any]]:
        """What the card carries that a person lays on the encoder: its valid keys."""
        serial, now = self._card_laid(house, query.get("encoder")), self._world.clock.now()
        return [self._row(house, key) for key in house.keys.values() if key.serial == serial and key.status_at(now) == "active"]

    def _list(self, house: House, query: dict[str, str]) -> list[dict[str, Any]]:
        if query.get("action") == "read":
            return self._on_encoder(house, query)
        if "guestDoor" in query and query["guestDoor"] not in house.locks:
            raise No(404, "door_unknown", [query["guestDoor"]])
        at = _from_wall(query["validTime"], house.zone) if "validTime" in query else None
        return [
            self._row(house, key)
            for key in house.keys.values()
            if (key.status == "active" or "serialNumber" in query or house.names_doors)
            and query.get("serialNumber") in {None, key.serial}
            and ("guestDoor" not in query or query["guestDoor"] in key.guest)
            and (at is None or key.start <= at < key.end)
        ]

    def _row(self, house: House, key: Key, code: str | None = None) -> dict[str, Any]:
        zone = house.zone
        doors = {"guest": key.guest, "common": key.common}
        operations = [{"operation": kind, "doors": [house.name_of(door) for door in ids]} for kind, ids in doors.items()]
        phone = house.phones.get(key.endpoint_id or "")
        return {
            **_life(house, key),
            "keyKind": key.kind,
            "format": "rfid48",
            "startTime": key.start.astimezone(zone).strftime(WALL),
            "expireTime": key.end.astimezone(zone).strftime(WALL),
            "doorOperations": [op for op in operations if op["doors"]],
            "label": key.label,
            "serialNumbers": [key.serial] if key.serial else [],
            "endpoint": {
                "endpointId": phone.endpoint_id,
                "invitationCode": code,
                "delivered": key.id in phone.images,
            }
            if phone
            else None,
        }

    def _events(self, house: House, query: dict[str, str]) -> list[dict[str, Any]]:
        zone = house.zone
        since, until = (_from_wall(query[name], zone) for name in ("from", "to"))
        rows = [e for e in house.events if e["data"]["doorId"] == house.door_called(query["door"])]
        span = [e for e in rows if since <= datetime.fromisoformat(e["occurredAt"]) < until + timedelta(minutes=1)]
        return [
            {
                "id": e["eventId"],
                "time": e["occurredAt"],
                "door": house.name_of(e["data"]["doorId"]),
                "doorType": _type(house, e["data"]["doorKind"]),
                "granted": e["type"] == "access.granted",
                "reason": e["data"]["reason"],
                "label": e["data"]["label"],
                "keyKind": e["data"]["kind"],
            }
            for e in span
        ]


def _from_wall(text: str, zone: tzinfo) -> datetime:
    return datetime.strptime(text, WALL).replace(tzinfo=zone).astimezone(UTC)


def _key(house: House, card_id: str) -> Key:
    if card_id not in house.keys:
        raise No(404, "not_found")
    return house.keys[card_id]


def _life(house: House, key: Key) -> dict[str, Any]:
    """Tells a key's id and whether it is live, in the house's shape."""
    if not house.names_doors:
        return {"id": key.id, "status": STATUS.get(key.status, key.status)}
    flags = {name: key.status == name for name in ("overridden", "overwritten")}
    return {"id": int(key.id), **flags, "cancelled": key.status in {"cancelled", "suspended"}}


def _by_id(house: House, body: dict[str, Any]) -> dict[str, Any]:
    """Reads a request that names doors as one that gives their ids. Raises No for a text where this server counts its keys."""
    if house.names_doors and any(not isinstance(joined, int) for joined in body.get("joins") or ()):
        raise No(400, "uncategorized_error")
    operations = [{**op, "doors": [house.door_called(name) for name in op["doors"]]} for op in body["doorOperations"]]
    return {**body, "doorOperations": operations}


def _type(house: House, kind: str) -> str | int:
    """Tells a door's type as a number or a word; a kind that is none of ours as it is."""
    if house.names_doors:
        return TYPE_NUMBERS[kind] if kind in TYPE_NUMBERS else int(kind)
    return DOOR_TYPES.get(kind, kind)


def _door(house: House, door_id: str) -> dict[str, Any]:
    if door_id not in house.locks:
        raise No(404, "door_unknown", [door_id])
    lock = house.locks[door_id]
    return {
        "doorID": list(house.locks).index(door_id) + 1 if house.names_doors else lock.door_id,
        "doorName": lock.name,
        "doorType": _type(house, lock.kind),
        "online": lock.is_online,
        "reachable": lock.is_reachable,
    }


def _is_body_whole(request: Request) -> bool:
    md5 = request.headers.get("content-md5", "")
    if not request.body:
        return not md5
    return md5 == base64.b64encode(hashlib.md5(request.body, usedforsecurity=False).digest()).decode()


def _is_timely(request: Request, now: datetime) -> bool:
    try:
        date = parsedate_to_datetime(request.headers.get("x-aah-date") or request.headers.get("date", ""))
    except ValueError:
        return False
    return abs((date - now).total_seconds()) <= SKEW_S


def _texts(request: Request) -> list[str]:
    """Returns the texts a client may have signed: the name of the date line is spelt in two ways."""
    path, _, query = request.target.partition("?")
    target = f"{path}?{'&'.join(sorted(query.split('&')))}" if query else path
    own = request.headers.get("x-aah-date")
    lines = [f"{name}:{own}" for name in ("x-aah-date", "X-Aah-Date")] if own else [request.headers.get("date", "")]
    md5, kind = request.headers.get("content-md5", ""), request.headers.get("content-type", "") if request.body else ""
    return [f"{request.method}\n{md5}\n{kind}\n{line}\n{target}" for line in lines]


def _mac(access_key: str, text: str) -> str:
    return base64.b64encode(hmac.new(access_key.encode(), text.encode(), hashlib.sha1).digest()).decode()
