"""The desk's side: what goes over the cables to encoder and controller, here as JSON over HTTP.

| request | body or query | answer |
|---|---|---|
| GET /encoder/about | `house`, `encoder` | `{"propertyKey", "online"}`: an encoder of this family knows its site |
| GET /encoder/card | `house`, `encoder`, `kind`, `uid`? | `{"uid", "kind", "number"}` or `{}`; an automatic encoder lays one |
| GET /encoder/records | `house`, `encoder`, `uid` | `{"records": {sector: hex}}` |
| POST /encoder/block | `{"house", "encoder", "uid", "sector", "block", "data"}` | `{}`; 16 bytes in hex, `block` 0 to 2 |
| GET /controller/doors | `house` | `{"doors": [{"door", "label", "online"}]}` |
| GET /controller/list, /controller/log | `house`, `doors` (comma), `tag`?, `cursor`?, `since`?, `until`? | `{"entries", "next"}`, `{"records"}` |
| GET /controller/list | `house`, `number` | `{"entries", "next"}`: all lines of a card's number |
| POST /controller/put | `{"house", "doors": [door], "kind", "number", "from", "until", "mark", "tag"}` | `{"doors": [{"door", "entry"} or {"door", "code"}]}` |
| POST /controller/set | `{"house", "doors": [{"door", "entry"}], "tag", "from"?, "until"?, "resting"?}` | the same |
| POST /controller/remove | `{"house", "doors": [{"door", "entry"}], "tag"}` | the same |

Refusals: 409 `{"code"}` (`no_card`, `card_swapped`, `no_controller`), 503 `{"code": "encoder_offline"}`.

One rule: a block is written or not; what stands between two blocks is what a torn card has.
"""  # noqa: E501 - a table's row is one line

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from vendors.generic_wiegand.records import BLOCK_BYTES, RECORD_BYTES
from vendors.support.simulator_http import Reply, Request

from .world import Door, Encoder, House, Line, World

PAGE = 100
LIST_SIZE = 1000


class Refused(Exception):
    """The device says no. `code` is its word."""

    def __init__(self, code: str, status: int = 409) -> None:
        super().__init__(code)
        self.code = code
        self.status = status


def serve(world: World, request: Request) -> Reply:
    """Serves one request of a desk."""
    path, _, query = request.target.partition("?")
    call = CALLS.get((request.method, path))
    if call is None:
        return Reply(404, {"code": "unknown_call"})
    given: dict[str, Any] = request.json() if request.body else dict(parse_qsl(query))
    with world.lock:
        try:
            house = world.houses[str(given["house"])]
            world.note(path, house.code, _doors_in(given))
            answer = call(world, house, given)
        except Refused as refused:
            return Reply(refused.status, {"code": refused.code})
        except (KeyError, ValueError, TypeError) as error:
            return Reply(400, {"code": "bad_request", "problem": f"{type(error).__name__}: {error}"})
        if request.method != "GET":
            world.changes += 1
    return Reply(200, answer)


def _about(world: World, house: House, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"propertyKey": house.property_key, "online": _encoder(house, given).is_online}


def _card(world: World, house: House, given: Mapping[str, Any]) -> dict[str, Any]:
    encoder = _online(house, given)
    if encoder.is_automatic:
        wanted = str(given.get("uid") or "") or None
        encoder.card = house.new_card(str(given.get("kind", "rfid_card")), wanted).uid
        world.changes += 1
    if encoder.card is None:
        return {}
    card = house.cards[encoder.card]
    return {"uid": card.uid, "kind": card.kind, "number": card.number}


def _records(world: World, house: House, given: Mapping[str, Any]) -> dict[str, Any]:
    card = house.cards[_same(_online(house, given), given)]
    return {"records": {str(sector): blob.hex() for sector, blob in card.blocks.items()}}


def _block(world: World, house: House, given: Mapping[str, Any]) -> dict[str, Any]:
    card = house.cards[_same(_online(house, given), given)]
    sector, block, data = int(given["sector"]), int(given["block"]), bytes.fromhex(given["data"])
    if not (1 <= sector <= 18 and 0 <= block <= 2 and len(data) == BLOCK_BYTES):
        raise ValueError("a block is 16 bytes at sector 1 to 18, block 0 to 2")
    blob = bytearray(card.blocks.get(sector, bytes(RECORD_BYTES)))
    blob[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES] = data
    card.blocks[sector] = bytes(blob)
    return {}


def _doors(world: World, house: House, given: Mapping[str, Any]) -> dict[str, Any]:
    _require_controller(house)
    rows = [{"door": door.name, "label": door.label, "online": door.is_reachable} for door in house.doors.values()]
    return {"doors": rows}


def _list(world: World, house: House, given: Mapping[str, Any]) -> dict[str, Any]:
    _require_controller(house)
    tag, after, number = given.get("tag"), str(given.get("cursor") or ""), given.get("number")
    rows = [
        _entry(door, line)
        for door in (_named(house, given) if number is None else house.doors.values())
        for line in sorted(door.lines.values(), key=lambda line: line.entry)
        if tag in (None, line.tag) and number in (None, line.number) and line.entry > after
    ]
    return {"entries": rows[:PAGE], "next": rows[PAGE - 1]["entry"] if len(rows) > PAGE else None}


def _log(world: World, house: House, given: Mapping[str, Any]) -> dict[str, Any]:
    _require_controller(house)
    since, until = datetime.fromisoformat(given["since"]), datetime.fromisoformat(given["until"])
    rows = [row for door in _named(house, given) for row in door.log]
    return {"records": [row for row in rows if since <= datetime.fromisoformat(row["at"]) <= until]}


def _put(world: World, house: House, given: Mapping[str, Any]) -> dict[str, Any]:
    _require_controller(house)

    def put(door: Door, _: str) -> str:
        mine = next((line for line in door.lines.values() if line.mark == given["mark"]), None)
        if mine is not None:
            return mine.entry
        if any(line.number == given["number"] for line in door.lines.values()):
            raise Refused("number_taken")
        if len(door.lines) >= LIST_SIZE:
            raise Refused("list_full")
        line = Line(secrets.token_hex(8), given["kind"], given["number"], *_span(given), given["mark"], given["tag"])
        door.lines[line.entry] = line
        return line.entry

    return _each(house, [{"door": name} for name in given["doors"]], put)


def _set(world: World, house: House, given: Mapping[str, Any]) -> dict[str, Any]:
    _require_controller(house)

    def change(door: Door, entry: str) -> str:
        lines = _lines(door, entry, str(given["tag"]))
        if not lines:
            raise Refused("entry_missing")
        for line in lines:
            if "from" in given:
                line.starts, line.ends = _span(given)
            line.is_resting = bool(given.get("resting", line.is_resting))
        return lines[0].entry

    return _each(house, given["doors"], change)


def _remove(world: World, house: House, given: Mapping[str, Any]) -> dict[str, Any]:
    _require_controller(house)

    def remove(door: Door, entry: str) -> None:
        for line in _lines(door, entry, str(given["tag"])):
            del door.lines[line.entry]

    return _each(house, given["doors"], remove)


CALLS: Mapping[tuple[str, str], Callable[[World, House, Mapping[str, Any]], dict[str, Any]]] = {
    ("GET", "/encoder/about"): _about,
    ("GET", "/encoder/card"): _card,
    ("GET", "/encoder/records"): _records,
    ("POST", "/encoder/block"): _block,
    ("GET", "/controller/doors"): _doors,
    ("GET", "/controller/list"): _list,
    ("GET", "/controller/log"): _log,
    ("POST", "/controller/put"): _put,
    ("POST", "/controller/set"): _set,
    ("POST", "/controller/remove"): _remove,
}


def _each(house: House, rows: list[dict[str, Any]], act: Callable[[Door, str], str | None]) -> dict[str, Any]:
    """Does it door by door, each with its own word."""
    said: list[dict[str, Any]] = []
    for row in rows:
        name = str(row["door"])
        door = next((door for door in house.doors.values() if door.name == name), None)
        try:
            if door is None:
                raise Refused("door_unknown")
            if not door.is_reachable:
                raise Refused("door_offline")
            said.append({"door": name, "entry": act(door, str(row.get("entry") or ""))})
        except Refused as refused:
            said.append({"door": name, "code": refused.code})
    return {"doors": said}


def _lines(door: Door, entry: str, tag: str) -> list[Line]:
    """The credential's lines at a door; a reference names one, the tag all of them."""
    return [line for line in door.lines.values() if line.tag == tag or (entry and line.entry == entry)]


def _entry(door: Door, line: Line) -> dict[str, Any]:
    return {
        "door": door.name,
        "entry": line.entry,
        "kind": line.kind,
        "number": line.number,
        "from": line.starts.isoformat(),
        "until": line.ends.isoformat(),
        "mark": line.mark,
        "tag": line.tag,
        "resting": line.is_resting,
    }


def _span(given: Mapping[str, Any]) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(given["from"]), datetime.fromisoformat(given["until"])


def _named(house: House, given: Mapping[str, Any]) -> list[Door]:
    names = set(str(given["doors"]).split(","))
    return [door for door in house.doors.values() if door.name in names]


def _doors_in(given: Mapping[str, Any]) -> list[str]:
    doors = given.get("doors") or []
    rows = doors.split(",") if isinstance(doors, str) else [row["door"] if isinstance(row, dict) else row for row in doors]
    return [str(row) for row in rows]


def _require_controller(house: House) -> None:
    if not house.has_controller:
        raise Refused("no_controller")


def _encoder(house: House, given: Mapping[str, Any]) -> Encoder:
    return house.encoders[str(given.get("encoder", "desk"))]


def _online(house: House, given: Mapping[str, Any]) -> Encoder:
    encoder = _encoder(house, given)
    if not encoder.is_online:
        raise Refused("encoder_offline", 503)
    return encoder


def _same(encoder: Encoder, given: Mapping[str, Any]) -> str:
    """The card on the encoder, which must be the one that is meant."""
    if encoder.card is None:
        raise Refused("no_card")
    if encoder.card != given["uid"]:
        raise Refused("card_swapped")
    return encoder.card
