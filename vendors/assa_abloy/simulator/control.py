"""The control side: put up houses, move the clock, lay a card on an encoder, hold one to a door, look inside.

| request | body | effect |
|---|---|---|
| POST /seed | see below | puts up what is missing |
| GET /dump?house=… | | the vendor's books, and apart from them locks, cards and phones |
| POST /clock | `{"now": iso or null, "running"?}` | moves the time |
| POST /faults | `{"path", "method"?, "status"?, "code"?, "drop"?, "times"?, "house"?}`; `{}` heals | breaks the next ones |
| POST /try | `{"device", "kind", "value", "at"?}` | holds a card or phone to a door; `at` leaves no trace |
| POST /try-many | `{"tries": […]}`, each as for /try | `{"results": […]}` |
| POST /place | `{"house", "encoder", "serial" or null}` | lays a card on an encoder, or takes it away |
| POST /phones | `{"house"?, "invitationCode"}` or `{"endpointId", "offline"}` | redeems an invitation; takes the network away |
| POST /doors | `{"device", "online"?, "reachable"?, "clockSkewS"?, "removed"?}` | changes a door |
| POST /reception | `{"device", "hours"?}` | a walk-in's phone, which starts a stay at the vendor's own program |
| POST /overwrite | `{"device", "serial", "hours"?}` | somebody writes a walk-in's key over what a card carries |
| POST /maintenance | `{"house", "from", "until"}` | announces a window |
| GET /calls?limit=… | | requests, newest last, and how many concerned each door |
| POST /sessions | `{}` | forgets sessions and tokens, as a restart of the vendor does |
| POST /trouble | see vendors/support/simulator_trouble.py | the vendor's whole side goes wrong or is slow |
| POST /reset | | forgets everything |

A seed is `{"code", "clientId", "clientSecret", "username", "password", "webhookSecret"?, "accessKey"?, "timeZone"?,
"rateLimit"?, "cardWaitMs"?, "issuesSlowly"?, "namesDoors"?, "doors": [{"doorId", "name", "type"?, "online"?}],
"encoders": [{"name", "feeds"?, "offline"?}]}`. What a later seed leaves out stays. With `namesDoors` Visionline speaks as
its public clients show it. A door's `type` is `guest`, `common`, `entrance` or `elevator`; any other word or number is told
as it is.

One rule: no service knows this side.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

from vendors.support.simulator_http import Reply, Request

from .doors import Verdict, last_word, present, write_down
from .model import Encoder, House, Image, Key, Lock, Phone, read_zone
from .stays import overriding, write_card
from .world import World, endpoint_for, new_id, sync


class Control:
    """Serves the control port."""

    def __init__(self, world: World) -> None:
        self._world = world

    def handle(self, request: Request) -> Reply:
        """Serves one request, under the world's lock."""
        acts: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "/seed": self._seed,
            "/dump": self._dump,
            "/clock": self._clock,
            "/faults": self._faults,
            "/try": self._try,
            "/try-many": lambda body: {"results": [self._try(one) for one in body["tries"]]},
            "/place": self._place,
            "/phones": self._phones,
            "/doors": self._doors,
            "/reception": self._reception,
            "/overwrite": self._overwrite,
            "/maintenance": self._maintenance,
            "/calls": self._calls,
            "/sessions": self._sessions,
            "/reset": self._reset,
        }
        try:
            asked = dict(parse_qsl(request.target.partition("?")[2])) | request.json()
            return Reply(200, acts[request.path](asked))
        except (KeyError, ValueError, TypeError) as error:
            return Reply(400, {"error": f"{type(error).__name__}: {error}"})

    def _seed(self, body: dict[str, Any]) -> dict[str, Any]:
        read_zone(body.get("timeZone", "UTC"))  # refused before anything is put up
        house = self._world.houses.setdefault(body["code"], House(body["code"]))
        house.client_id = body.get("clientId", house.client_id)
        house.client_secret = body.get("clientSecret", house.client_secret)
        house.username, house.password = body.get("username", house.username), body.get("password", house.password)
        house.webhook_secret = body.get("webhookSecret", house.webhook_secret)
        house.access_key = body.get("accessKey", house.access_key)
        house.zone_name = body.get("timeZone", house.zone_name)
        house.rate_limit = body.get("rateLimit", house.rate_limit)
        house.card_wait_s = body.get("cardWaitMs", house.card_wait_s * 1000) / 1000
        house.issues_slowly = body.get("issuesSlowly", house.issues_slowly)
        house.names_doors = body.get("namesDoors", house.names_doors)
        for row in body.get("doors", ()):
            lock = house.locks.setdefault(row["doorId"], Lock(row["doorId"], row.get("name", row["doorId"])))
            lock.kind = row.get("type", lock.kind)
            lock.is_online = row.get("online", lock.is_online)
        for row in body.get("encoders", ()):
            encoder = house.encoders.setdefault(row["name"], Encoder(row["name"], feeds=row.get("feeds", False)))
            encoder.is_offline = row.get("offline", encoder.is_offline)
        return {"house": house.code, "doors": len(house.locks)}

    def _dump(self, body: dict[str, Any]) -> dict[str, Any]:
        wanted = body.get("house")
        houses = [_dumped(h, self._world.clock.now()) for h in self._world.houses.values() if wanted in {None, h.code}]
        return {"now": self._world.clock.now().isoformat(), "houses": houses}

    def _clock(self, body: dict[str, Any]) -> dict[str, Any]:
        self._world.clock.move(body["now"], running=bool(body.get("running", True)))
        return {"now": self._world.clock.now().isoformat()}

    def _faults(self, body: dict[str, Any]) -> dict[str, Any]:
        if body:
            self._world.faults.append({"path": "", "times": None, **body})
        else:
            self._world.faults.clear()
        return {"faults": len(self._world.faults)}

    def _try(self, body: dict[str, Any]) -> dict[str, Any]:
        at = datetime.fromisoformat(body["at"]) if body.get("at") else None
        try:
            house, lock = self._world.door(str(body["device"]))
        except KeyError:
            return {"open": False, "why": "no_such_door"}
        now = self._world.clock.now()
        if body["kind"] == "mobile_app":
            images = _on_phone(house, str(body["value"]), now)
        else:
            images = _on_card(house, lock, str(body["value"]))
        verdict = present(self._world, house, lock, images, at or now, leaves_trace=at is None)
        if at is None:
            write_down(self._world, house, lock, body["kind"], verdict, now)
        return _told(verdict)

    def _place(self, body: dict[str, Any]) -> dict[str, Any]:
        encoder = self._world.houses[body["house"]].encoders[body["encoder"]]
        encoder.lying = body["serial"]
        self._world.card_laid.notify_all()
        return {"lying": encoder.lying}

    def _phones(self, body: dict[str, Any]) -> dict[str, Any]:
        for house in self._world.houses.values():
            for phone in house.phones.values():
                code = body.get("invitationCode")
                if body.get("endpointId") == phone.endpoint_id or code in phone.codes:
                    if code:
                        _enrol(phone)
                    phone.is_offline = body.get("offline", phone.is_offline)
                    sync(house, phone, self._world.clock.now())
                    return {"endpointId": phone.endpoint_id, "status": phone.status}
        raise KeyError("no such phone or invitation")

    def _doors(self, body: dict[str, Any]) -> dict[str, Any]:
        house, lock = self._world.door(str(body["device"]))
        lock.is_online = body.get("online", lock.is_online)
        if lock.is_reachable:
            lock.told = last_word(house)
        lock.is_reachable = body.get("reachable", lock.is_reachable)
        lock.clock_skew_s = body.get("clockSkewS", lock.clock_skew_s)
        if body.get("removed"):
            del house.locks[lock.door_id]
        return {"device": lock.door_id}

    def _reception(self, body: dict[str, Any]) -> dict[str, Any]:
        """Somebody checks a guest into a room at the vendor's own program: a phone's key that starts a stay."""
        house, lock = self._world.door(str(body["device"]))
        now = self._world.clock.now()
        phone = endpoint_for(house, new_id("walk-in-"))
        stays = overriding(house, [lock.door_id])
        until = now + timedelta(hours=float(body.get("hours", 24)))
        key = Key(house.key_id("gr-"), "mobile_app", [lock.door_id], [], now, until, stays, "walk-in", "")
        house.keys[key.id], key.endpoint_id = key, phone.endpoint_id
        _enrol(phone)
        sync(house, phone, now)
        return {"value": json.dumps({"endpointId": phone.endpoint_id})}

    def _overwrite(self, body: dict[str, Any]) -> dict[str, Any]:
        """Somebody writes another guest's key on the card of this number at the vendor's own program."""
        house, lock = self._world.door(str(body["device"]))
        now = self._world.clock.now()
        until = now + timedelta(hours=float(body.get("hours", 24)))
        key = Key(
            house.key_id("gr-"), "rfid_card", [lock.door_id], [], now, until, overriding(house, [lock.door_id]), "walk-in", ""
        )
        house.keys[key.id] = key
        write_card(house, str(body["serial"]), key, now, overwrite=True)
        return {"overwrote": key.overwrote}

    def _maintenance(self, body: dict[str, Any]) -> dict[str, Any]:
        start, until = datetime.fromisoformat(body["from"]), datetime.fromisoformat(body["until"])
        self._world.houses[body["house"]].windows.append((start, until))
        return {"windows": len(self._world.houses[body["house"]].windows)}

    def _calls(self, body: dict[str, Any]) -> dict[str, Any]:
        limit = int(body.get("limit", 1000))
        return {"calls": self._world.calls[-limit:] if limit else [], "byDoor": dict(self._world.calls_by_door)}

    def _sessions(self, body: dict[str, Any]) -> dict[str, Any]:
        self._world.sessions.clear()
        self._world.tokens.clear()
        return {"sessions": 0}

    def _reset(self, body: dict[str, Any]) -> dict[str, Any]:
        self._world.reset()
        self._world.clock.move(None)
        return {"ok": True}


def _on_card(house: House, lock: Lock, serial: str) -> list[Image]:
    """Returns what a card brings to a door: its image, and, where the door asks or asked the vendor, the keys of its number."""
    images = [house.cards[serial]] if serial in house.cards else []
    if lock.is_online and lock.is_reachable:
        images += [k.image() for k in house.keys.values() if k.serial == serial and k.status != "overwritten"]
    elif lock.is_online:
        told = [lock.told[k.id] for k in house.keys.values() if k.serial == serial and k.id in lock.told]
        images += [image for word, image in told if word != "overwritten"]
    return images


def _on_phone(house: House, value: str, now: datetime) -> list[Image]:
    """Returns what a phone brings. `value` is the holder's token (its invitation is redeemed on the way), or the endpoint's id,
    with `#` and a key's tag where one key is meant."""
    if value.startswith("{"):
        token = json.loads(value)
        endpoint, tag, code = str(token.get("endpointId")), str(token.get("key") or ""), token.get("invitationCode")
    else:
        endpoint, _, tag = value.partition("#")
        code = None
    phone = house.phones.get(endpoint)
    if phone is None:
        return []
    if code in phone.codes:
        _enrol(phone)
    sync(house, phone, now)
    images = sorted(phone.images.values(), key=lambda image: image.key_id)
    return [image for image in images if not tag or _is_tagged(house, image, tag)]


def _is_tagged(house: House, image: Image, tag: str) -> bool:
    return house.keys[image.key_id].label.endswith(tag.removeprefix("c-"))


def _enrol(phone: Phone) -> None:
    phone.status, phone.codes = "ready", []


def _told(verdict: Verdict) -> dict[str, Any]:
    return {"open": verdict.is_open, "why": verdict.why}


def _dumped(house: House, now: datetime) -> dict[str, Any]:
    return {
        "house": house.code,
        "vendor": [
            {
                "id": key.id,
                "kind": key.kind,
                "status": key.status_at(now),
                "version": key.version,
                "guest": list(key.guest),
                "common": list(key.common),
                "from": key.start.isoformat(),
                "until": key.end.isoformat(),
                "label": key.label,
                "serial": key.serial,
                "endpointId": key.endpoint_id,
                "stays": dict(key.stays),
            }
            for key in house.keys.values()
        ],
        "locks": [
            {
                "device": k.door_id,
                "name": k.name,
                "kind": k.kind,
                "online": k.is_online,
                "reachable": k.is_reachable,
                "clockSkewS": k.clock_skew_s,
                "stay": k.stay,
                "log": len(k.log),
            }
            for k in house.locks.values()
        ],
        "cards": {serial: _shown(image) for serial, image in house.cards.items()},
        "phones": [
            {
                "endpointId": p.endpoint_id,
                "owner": p.owner,
                "status": p.status,
                "offline": p.is_offline,
                "keys": sorted(p.images),
            }
            for p in house.phones.values()
        ],
    }


def _shown(image: Image) -> dict[str, Any]:
    return {
        "key": image.key_id,
        "guest": list(image.guest),
        "from": image.start.isoformat(),
        "until": image.end.isoformat(),
        "stays": dict(image.stays),
    }
