"""The control side: put up properties, lay cards down, show them at doors, break things, look inside.

| request | body | answer |
|---|---|---|
| POST /seed | `{"property", "timeZone"?, "apiKeys"?, "doors": [{"name", "label"?, "online"?, "authorization"?, "keypad"?, "battery"?, "clockSkewS"?, "occupied"?, "outOfService"?}], "encoders": [{"name", "automatic"?}], "encoderTimeoutS"?, "guestKeysUpdate"?, "denylistCapacity"?, "webhookSecret"?, "webhookUrl"?, "logPlaceByConnection"?, "hangsUp"?, "readsWithoutStart"?, "pms"?: true, "connector"?: true, "certificateDays"?}` | `{"property", "apiKeys", "pms"?, "connector"?}` |
| GET /dump?property= | | `{"now", "properties": […]}` |
| POST /clock | `{"now": iso or null, "running"?}` | moves all clocks |
| POST /faults | `{"surface": "rest" or "pms", "property"?, "method"?, "path"?, "code"?, "command"?, "do"?, "written"?, "times"?, "skip"?}`, `{"device", "code"}` for one door, `{}` heals | |
| POST /try | `{"device", "kind", "value", "property"?, "at"?, "dry"?}` | `{"open", "why", "operation"}` |
| POST /try-many | `{"tries": […]}`, each as for /try | `{"results": […]}` |
| POST /door | `{"device", "property"?, "dead"?, "cancelGuest"?, "clockSkewS"?, "opened"?: "button" or "pc"}` | a door out of reach; the staff card that ends a stay; an opening without a card |
| POST /place | `{"property", "encoder", "card"?, "other"?}` | lays a card (or a blank one) on the encoder; `other`: `foreign`, `LM`, `LR`, `LC` |
| POST /take | `{"property", "encoder"}` | takes it away |
| POST /phone | `{"property", "phone", "connected"}` | a phone without network |
| POST /connector | `{"property", "up"}` | the connector stops or comes back |
| POST /reception | `{"device", "property"?, "hours"?}` | `{"value"}`: a walk-in's phone, which starts a stay at the vendor's own program |
| GET /calls, GET /counts | | requests so far; by door |
| POST /trouble | see vendors/support/simulator_trouble.py | all of cloud and connector goes wrong or is slow |
| POST /reset | | forgets everything |

`value` at /try: a card's number or its key's reference; a mobile key or a telephone number; digits.

One rule: what is shown at a door may teach the door and the carrier, exactly as there; `at` and `dry` leave no trace.
"""  # noqa: E501 - a table's row is one line

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from .doors import cut_off, open_without_card, show_carrier, type_pin
from .model import Carrier, Door, Key, Property
from .pms import PmsPort
from .pusher import Pusher
from .space import Wanted, door_for, finish_waiting, make_key
from .tls import Authority
from .world import World

LOOKING = frozenset({"/dump", "/calls", "/counts", "/healthz"})


class Control:
    """The control port's calls. Raises KeyError and ValueError for a wrong request."""

    def __init__(self, world: World, authority: Authority, host: str) -> None:
        self._world = world
        self._authority = authority
        self._host = host
        self.connector_url = ""
        self._pms: dict[str, PmsPort] = {}
        self._pushers: dict[str, Pusher] = {}

    def serve(self, path: str, query: Mapping[str, str], body: Mapping[str, Any]) -> dict[str, Any]:
        """Serves one call."""
        calls: dict[str, Callable[[], dict[str, Any]]] = {
            "/seed": lambda: self._seed(body),
            "/dump": lambda: self._dump(query),
            "/clock": lambda: self._clock(body),
            "/faults": lambda: self._faults(body),
            "/try": lambda: self._try(body),
            "/try-many": lambda: {"results": [self._try(one) for one in body["tries"]]},
            "/door": lambda: self._door(body),
            "/place": lambda: self._place(body),
            "/take": lambda: self._take(body),
            "/phone": lambda: self._phone(body),
            "/connector": lambda: self._connector(body),
            "/reception": lambda: self._reception(body),
            "/calls": lambda: {"calls": list(self._world.calls)},
            "/counts": lambda: {"byDoor": dict(self._world.calls_by_door)},
            "/reset": self._reset,
            "/healthz": lambda: {"ok": True},
        }
        with self._world.lock:
            self._world.changes += path not in LOOKING
            return calls[path]()

    def close(self) -> None:
        """Stops the PMS ports."""
        for port in self._pms.values():
            port.close()

    def _seed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        prop = self._world.seed(body)
        answer: dict[str, Any] = {"property": prop.id, "apiKeys": prop.api_keys}
        if prop.webhook_url and prop.id not in self._pushers:
            self._pushers[prop.id] = Pusher(prop)
        if body.get("pms"):
            if prop.id not in self._pms:
                self._pms[prop.id] = PmsPort(self._world, prop, self._host)
            answer["pms"] = f"{self._host}:{self._pms[prop.id].port}"
        if body.get("connector"):
            certificate, key = self._authority.client(prop.id, float(body.get("certificateDays", 60)))
            answer["connector"] = {"url": self.connector_url, "ca": self._authority.pem, "cert": certificate, "key": key}
        return answer

    def _dump(self, query: Mapping[str, str]) -> dict[str, Any]:
        wanted = query.get("property")
        rows = [_property(p) for p in self._world.properties.values() if wanted in (None, p.id)]
        return {"now": self._world.clock.now().isoformat(), "properties": rows}

    def _clock(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self._world.clock.move(body["now"], running=bool(body.get("running", True)))
        return {"now": self._world.clock.now().isoformat()}

    def _faults(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if "device" in body:
            prop = self._world.find(body["device"], body.get("property"))
            if body.get("code"):
                prop.room_faults[body["device"]] = str(body["code"])
            else:
                prop.room_faults.pop(body["device"], None)
        elif body:
            self._world.faults.append(dict(body))
        else:
            self._world.faults.clear()
            for prop in self._world.properties.values():
                prop.room_faults.clear()
        return {"faults": list(self._world.faults)}

    def _try(self, body: Mapping[str, Any]) -> dict[str, Any]:
        prop, door = self._at(body)
        at = datetime.fromisoformat(body["at"]) if body.get("at") else None
        dry = bool(body.get("dry", False))
        value, kind = str(body["value"]), body.get("kind", "rfid_card")
        if kind == "pin_code":
            verdict = type_pin(prop, door, value, at, dry=dry)
        else:
            shown = [show_carrier(prop, door, carrier, at, dry=dry) for carrier in _carriers(prop, value)]
            verdict = next((v for v in shown if v.is_open), shown[0])
        return {"open": verdict.is_open, "why": verdict.why, "operation": verdict.code}

    def _door(self, body: Mapping[str, Any]) -> dict[str, Any]:
        prop, door = self._at(body)
        if body.get("dead", door.is_dead):
            cut_off(prop, door)
        else:
            door.is_dead = False
        door.skew_s = float(body.get("clockSkewS", door.skew_s))
        if body.get("opened"):
            open_without_card(prop, door, str(body["opened"]))
        if body.get("cancelGuest"):
            door.cancelled_generation = max(door.seen_generation, door.cancelled_generation)
        return {"device": door.name}

    def _at(self, body: Mapping[str, Any]) -> tuple[Property, Door]:
        prop = self._world.find(str(body["device"]), body.get("property"))
        door = door_for(prop, str(body["device"]))
        if door is None:
            raise KeyError(f"no door {body['device']!r}")
        return prop, door

    def _place(self, body: Mapping[str, Any]) -> dict[str, Any]:
        prop = self._world.properties[body["property"]]
        encoder = prop.encoders[body["encoder"]]
        number = str(body["card"]) if body.get("card") else prop.fresh_card().number
        prop.carriers.setdefault(number, Carrier(number)).other = str(body.get("other") or "")
        encoder.card = number
        finish_waiting(prop, encoder)
        return {"card": number}

    def _take(self, body: Mapping[str, Any]) -> dict[str, Any]:
        encoder = self._world.properties[body["property"]].encoders[body["encoder"]]
        card, encoder.card = encoder.card, None
        return {"card": card}

    def _phone(self, body: Mapping[str, Any]) -> dict[str, Any]:
        for carrier in self._world.properties[body["property"]].carriers.values():
            if carrier.phone == body["phone"]:
                carrier.is_connected = bool(body["connected"])
        return {"phone": "ok"}

    def _connector(self, body: Mapping[str, Any]) -> dict[str, Any]:
        prop = self._world.properties[body["property"]]
        prop.connector_up = bool(body["up"])
        return {"up": prop.connector_up}

    def _reception(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Somebody checks a guest into a room at the vendor's own program: a phone's key that starts a stay."""
        prop, door = self._at(body)
        starts = prop.local(prop.now())
        ends = starts + timedelta(hours=float(body.get("hours", 24)))
        phone = f"reception-{len(prop.keys)}"
        key, _ = make_key(prop, Wanted("mobile_app", "new", [door.name], starts, ends, "walk-in", "reception", phone=phone))
        return {"value": key.mobile_key}

    def _reset(self) -> dict[str, Any]:
        self.close()
        self._pms.clear()
        self._pushers.clear()
        self._world.reset()
        return {"ok": True}


def _carriers(prop: Property, value: str) -> list[Carrier]:
    key = prop.keys.get(value)
    if key is not None and key.carrier in prop.carriers:
        return [prop.carriers[key.carrier]]
    if value in prop.carriers:
        return [prop.carriers[value]]
    phones = [carrier for carrier in prop.carriers.values() if carrier.phone and carrier.phone == value]
    return phones or [Carrier(value)]


def _property(prop: Property) -> dict[str, Any]:
    return {
        "property": prop.id,
        "rooms": [{"name": r.name, "state": r.state.value, "generation": r.generation} for r in prop.rooms.values()],
        "doors": [_door_row(door) for door in prop.doors.values()],
        "keys": [_key(prop, key) for key in prop.keys.values()],
        "cards": [_card(card) for card in prop.carriers.values()],
        "denylist": sorted(prop.denylist),
    }


def _door_row(door: Door) -> dict[str, Any]:
    return {
        "device": door.name,
        "authorization": door.authorisation,
        "online": door.is_online,
        "dead": door.is_dead,
        "clockSkewS": door.skew_s,
        "seenGeneration": door.seen_generation,
        "denylist": sorted(door.denylist),
        "log": door.ring[-50:],
    }


def _key(prop: Property, key: Key) -> dict[str, Any]:
    return {
        "cardRef": key.ref,
        "kind": key.kind,
        "status": key.status,
        "blocked": key.is_blocked,
        "rooms": key.rooms,
        "grants": sorted(key.grants),
        "reservationRef": key.reservation_ref,
        "operator": key.operator,
        "carrier": key.carrier,
        "pin": key.pin,
        "validFrom": prop.instant(key.starts).isoformat(),
        "validUntil": prop.instant(key.ends).isoformat(),
        "desiredVersion": key.version,
        "carriedVersion": key.carried_version,
        "serial": key.serial,
    }


def _card(card: Carrier) -> dict[str, Any]:
    image = card.image
    return {
        "number": card.number,
        "phone": card.phone,
        "cardRef": image.ref if image else None,
        "rooms": image.rooms if image else {},
        "until": image.ends.isoformat() if image else None,
        "version": image.version if image else None,
        "operator": image.operator if image else "",
    }
