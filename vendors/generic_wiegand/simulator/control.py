"""The control side: put up houses, lay cards down, show them at doors, break things, look inside.

| request | body | answer |
|---|---|---|
| POST /seed | `{"house", "propertyNumber"?, "propertyKey"?, "controller"?, "doors": [{"number", "label"?, "shared"?, "clockSkewS"?}], "encoders"?: [{"name", "automatic"?, "online"?}]}` | `{"house", "propertyNumber", "propertyKey", "doors": {number: id}}` |
| GET /dump?house= | | `{"now", "houses": […]}` |
| POST /clock | `{"now": iso or null, "running"?}` | moves the clock of everything |
| POST /trouble | see vendors/support/simulator_trouble.py | the cables go wrong or are slow |
| POST /try | `{"device", "kind", "value", "house"?, "at"?, "dry"?}` | `{"open", "why"}`; `value`: UID, number, or a reference |
| POST /try-many | `{"tries": […]}`, each as for /try | `{"results": […]}` |
| POST /door | `{"device", "house"?, "reachable"?, "clockSkewS"?}` | cuts a reader off its controller, sets a clock wrong |
| POST /encoder | `{"house", "encoder"?, "online"?, "automatic"?}` | pulls its plug; a hand that lays fresh cards, or none |
| POST /place | `{"house", "encoder"?, "kind"?, "card"?}` | lays a card on the encoder, a fresh one if none is named; `{"uid", "number"}` |
| POST /take | `{"house", "encoder"?}` | takes it away |
| POST /plant | `{"device", "house"?, "kind", "value", "from", "until", "mark"?, "tag"?}` | a line of a stranger in the controller's list |
| GET /calls, GET /counts | | requests so far; by door |
| POST /reset | | forgets everything |

One rule: what is shown at a door may teach it, exactly as there; `at` and `dry` leave no trace.
"""  # noqa: E501 - a table's row is one line

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from vendors.generic_wiegand.records import unpack

from .doors import records_of, show
from .world import Card, Door, House, Line, World

LOOKING = frozenset({"/dump", "/calls", "/counts", "/healthz"})


class Control:
    """The control port's calls. Raises KeyError and ValueError for a wrong request."""

    def __init__(self, world: World) -> None:
        self._world = world

    def serve(self, path: str, query: Mapping[str, str], body: Mapping[str, Any]) -> dict[str, Any]:
        """Serves one call."""
        calls: dict[str, Callable[[], dict[str, Any]]] = {
            "/seed": lambda: self._seed(body),
            "/dump": lambda: self._dump(query),
            "/clock": lambda: self._clock(body),
            "/try": lambda: self._try(body),
            "/try-many": lambda: {"results": [self._try(one) for one in body["tries"]]},
            "/door": lambda: self._door(body),
            "/encoder": lambda: self._encoder(body),
            "/place": lambda: self._place(body),
            "/take": lambda: self._take(body),
            "/plant": lambda: self._plant(body),
            "/calls": lambda: {"calls": list(self._world.calls)},
            "/counts": lambda: {"byDoor": dict(self._world.calls_by_door)},
            "/reset": self._reset,
            "/healthz": lambda: {"ok": True},
        }
        with self._world.lock:
            answer = calls[path]()
            if path not in LOOKING:
                self._world.changes += 1
            return answer

    def _seed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        house = self._world.seed(body)
        doors = {str(door.number): door.name for door in house.doors.values()}
        return {
            "house": house.code,
            "propertyNumber": house.property_number,
            "propertyKey": house.property_key,
            "doors": doors,
        }

    def _dump(self, query: Mapping[str, str]) -> dict[str, Any]:
        now = self._world.clock.now()
        rows = [_house(house, now) for house in self._world.houses.values() if query.get("house") in (None, house.code)]
        return {"now": now.isoformat(), "houses": rows}

    def _clock(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self._world.clock.move(body["now"], running=bool(body.get("running", True)))
        return {"now": self._world.clock.now().isoformat()}

    def _try(self, body: Mapping[str, Any]) -> dict[str, Any]:
        house, door = self._at(body)
        at = datetime.fromisoformat(body["at"]) if body.get("at") else None
        leaves_trace = at is None and not body.get("dry", False)
        now = at or self._world.clock.now()
        answer = show(house, door, str(body["value"]), str(body.get("kind", "rfid_card")), now, leaves_trace=leaves_trace)
        return {"open": answer.is_open, "why": answer.why}

    def _door(self, body: Mapping[str, Any]) -> dict[str, Any]:
        _, door = self._at(body)
        door.is_reachable = bool(body.get("reachable", door.is_reachable))
        door.skew_s = float(body.get("clockSkewS", door.skew_s))
        return {"device": door.name, "reachable": door.is_reachable}

    def _encoder(self, body: Mapping[str, Any]) -> dict[str, Any]:
        encoder = self._world.houses[str(body["house"])].encoders[str(body.get("encoder", "desk"))]
        encoder.is_online = bool(body.get("online", encoder.is_online))
        encoder.is_automatic = bool(body.get("automatic", encoder.is_automatic))
        return {"online": encoder.is_online, "automatic": encoder.is_automatic}

    def _place(self, body: Mapping[str, Any]) -> dict[str, Any]:
        house = self._world.houses[str(body["house"])]
        wanted = str(body["card"]) if body.get("card") else None
        card = (house.card(wanted) if wanted else None) or house.new_card(str(body.get("kind", "rfid_card")), wanted)
        house.encoders[str(body.get("encoder", "desk"))].card = card.uid
        return {"uid": card.uid, "number": card.number}

    def _take(self, body: Mapping[str, Any]) -> dict[str, Any]:
        encoder = self._world.houses[str(body["house"])].encoders[str(body.get("encoder", "desk"))]
        uid, encoder.card = encoder.card, None
        return {"uid": uid}

    def _plant(self, body: Mapping[str, Any]) -> dict[str, Any]:
        _, door = self._at(body)
        span = (datetime.fromisoformat(body["from"]), datetime.fromisoformat(body["until"]))
        line = Line(secrets.token_hex(8), body["kind"], body["value"], *span, body.get("mark", ""), body.get("tag", ""))
        door.lines[line.entry] = line
        return {"entry": line.entry}

    def _at(self, body: Mapping[str, Any]) -> tuple[House, Door]:
        return self._world.door(str(body["device"]), body.get("house"))

    def _reset(self) -> dict[str, Any]:
        self._world.reset()
        return {"ok": True}


def _house(house: House, now: datetime) -> dict[str, Any]:
    return {
        "house": house.code,
        "propertyNumber": house.property_number,
        "controller": house.has_controller,
        "doors": [_door_row(house, door, now) for door in house.doors.values()],
        "encoders": [
            {"name": e.name, "automatic": e.is_automatic, "online": e.is_online, "card": e.card}
            for e in house.encoders.values()
        ],
        "cards": [_card_row(card) for card in house.cards.values()],
    }


def _door_row(house: House, door: Door, now: datetime) -> dict[str, Any]:
    """A door with the keys that open it at some time from now on: a controller's lines, or records on cards about."""
    keys = [_line_row(line) for line in door.lines.values()]
    if not house.has_controller:
        keys = [
            {
                "kind": card.kind,
                "value": card.uid,
                "validFrom": record.valid_from.isoformat(),
                "validUntil": record.valid_until.isoformat(),
                "sequence": record.sequence,
                "suspended": False,
            }
            for card, record, is_live in records_of(house, door, now)
            if is_live
        ]
    return {
        "device": door.name,
        "label": door.label,
        "shared": door.is_shared,
        "reachable": door.is_reachable,
        "clockSkewS": door.skew_s,
        "seen": door.seen,
        "keys": keys,
        "log": door.log[-50:],
    }


def _line_row(line: Line) -> dict[str, Any]:
    return {
        "ref": line.entry,
        "kind": line.kind,
        "value": line.number,
        "mark": line.mark,
        "tag": line.tag,
        "validFrom": line.starts.isoformat(),
        "validUntil": line.ends.isoformat(),
        "suspended": line.is_resting,
    }


def _card_row(card: Card) -> dict[str, Any]:
    records = [record for blob in card.blocks.values() if (record := unpack(blob)) is not None]
    rows = [{"door": r.door, "sequence": r.sequence, "until": r.valid_until.isoformat(), "tag": r.tag.hex()} for r in records]
    return {"uid": card.uid, "number": card.number, "kind": card.kind, "records": rows}
