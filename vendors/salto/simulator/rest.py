"""The cloud's REST contract over the properties. The connector serves the same calls behind its certificate.

One rule: same idempotency key and same body give the same answer again; same key and another body are refused.
Source: the specification for paths, headers and statuses; bodies and codes are our proposal, shaped like
the vendor's host interface.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from .doors import sync_carrier, write_image
from .effects import effects_of_giving, effects_of_issue, effects_of_taking, has_followed, is_off_its_carrier, places_of
from .model import LIVE, Door, Key, Property, local_of
from .space import (
    Refusal,
    Wanted,
    add_rooms,
    cancel,
    changed,
    check_out,
    door_for,
    end_expired_jobs,
    make_key,
    ready_encoder,
    shown_on_card,
    state_of,
)
from .world import World

STATUS = {
    "idempotency_mismatch": 409,
    "room_checked_out": 409,
    "encoder_busy": 409,
    "pin_taken": 409,
    "key_ended": 409,
    "denylist_full": 409,
    "denylist_pool_exhausted": 409,
    "room_out_of_service": 409,
    "card_timeout": 409,
    "wrong_card": 409,
    "card_in_use": 409,
    "card_foreign": 409,
    "unknown_room": 422,
    "unknown_authorization": 422,
    "unsupported_kind": 422,
    "too_many_rooms": 422,
    "bad_window": 422,
    "bad_mode": 422,
    "bad_request": 400,
    "connector_offline": 503,
    "encoder_offline": 503,
    "door_offline": 503,
    "unknown_key": 404,
    "unknown_door": 404,
    "unknown_operation": 404,
    "rate_limited": 429,
    "internal": 500,
    "bad_api_key": 401,
    "forbidden": 403,
}
RETRYABLE = frozenset({"encoder_busy", "connector_offline", "encoder_offline", "door_offline", "rate_limited", "internal"})
MAX_PAGE = 200
CHANGE_MODES = frozenset({"new", "copy"})
MODES = CHANGE_MODES | {"one_shot"}


@dataclass
class Request:
    """One call as it came. `certified` is the property the client certificate names, None on the cloud's own port."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    certified: str | None = None


@dataclass
class Answer:
    """What goes back."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def split_query(target: str) -> tuple[str, dict[str, str]]:
    """Splits a request target into path and single-valued query."""
    path, _, query = target.partition("?")
    return path, {name: values[-1] for name, values in parse_qs(query).items()}


def handle(world: World, request: Request) -> Answer:
    """Serves one call."""
    prop: Property | None = None
    try:
        prop = _property(world, request)
        world.note_call(prop, f"{request.method} {request.path}", _places_in(request, prop))
        end_expired_jobs(prop)
        fault = world.take_fault("rest", prop.id, request.method, request.path)
        if fault is not None:
            return refused(str(fault["code"]), retry_after_s=fault.get("retryAfterS"))
        return _once(prop, request)
    except Refusal as refusal:
        return refused(refusal.code, **refusal.details)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        return refused("bad_request", problem=f"{type(error).__name__}")


def refused(code: str, retry_after_s: object = None, **details: object) -> Answer:
    """Builds an error answer."""
    body = {"code": code, "message": code.replace("_", " "), "retryable": code in RETRYABLE, "details": details}
    headers = {"Retry-After": str(retry_after_s)} if retry_after_s is not None else {}
    return Answer(STATUS.get(code, 400), body, headers)


def _property(world: World, request: Request) -> Property:
    prop = world.properties.get(request.headers.get("x-property-id", ""))
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    keys = prop.api_keys if prop else []
    if scheme != "ApiKey" or not any(hmac.compare_digest(given.encode(), key.encode()) for key in keys):
        raise Refusal("bad_api_key")
    assert prop is not None  # noqa: S101 - without a property there is no key
    if request.certified is not None and request.certified != prop.id:
        raise Refusal("forbidden")
    return prop


def _once(prop: Property, request: Request) -> Answer:
    key = request.headers.get("x-idempotency-key", "")
    if request.method == "GET":
        return _route(prop, request)
    if request.method == "POST" and not key:
        raise Refusal("bad_request", problem="X-Idempotency-Key")
    document = json.dumps([request.method, request.path, request.body], sort_keys=True)
    digest = hashlib.sha256(document.encode()).hexdigest()
    kept = prop.kept_answers.get(key)
    if kept is not None:
        if kept[0] != digest:
            raise Refusal("idempotency_mismatch")
        return Answer(kept[1], kept[2], {"Idempotent-Replayed": "true"})
    answer = _route(prop, request)
    if key:
        prop.kept_answers[key] = (digest, answer.status, answer.body)
    return answer


def _route(prop: Property, request: Request) -> Answer:
    parts = [unquote(part) for part in request.path.strip("/").split("/")][1:]
    serve = {"keys": _keys, "operations": _operations, "doors": _doors, "rooms": _rooms}.get(parts[0] if parts else "", _lists)
    return serve(prop, request, parts)


def _wrong_path() -> Refusal:
    return Refusal("bad_request", problem="path")


def _keys(prop: Property, request: Request, parts: list[str]) -> Answer:
    match [request.method, *parts[1:]]:
        case ["POST"]:
            return _make(prop, request)
        case ["GET"]:
            return _list_keys(prop, request.query)
        case ["GET", ref]:
            return Answer(200, shown(prop, _key(prop, ref)))
        case ["PATCH", ref]:
            return _patch(prop, _key(prop, ref), request.body)
        case ["POST", ref, "encode"]:
            return _write_again(prop, request, _key(prop, ref))
        case ["DELETE", ref]:
            return _delete(prop, ref, request.query.get("strategy", "denylist"))
    raise _wrong_path()


def _operations(prop: Property, request: Request, parts: list[str]) -> Answer:
    match [request.method, *parts[1:]]:
        case ["GET", name]:
            return _operation(prop, name)
        case ["DELETE", name]:
            return _cancel_operation(prop, name)
    raise _wrong_path()


def _doors(prop: Property, request: Request, parts: list[str]) -> Answer:
    match [request.method, *parts[1:]]:
        case ["GET"]:
            return Answer(200, {"items": [_door(prop, door) for door in prop.doors.values()], "next": None})
        case ["GET", place]:
            door = door_for(prop, place)
            if door is None:
                raise Refusal("unknown_door")
            return Answer(200, _door(prop, door))
    raise _wrong_path()


def _rooms(prop: Property, request: Request, parts: list[str]) -> Answer:
    match [request.method, *parts[1:]]:
        case ["POST", room, "checkout"]:
            check_out(prop, room)
            return Answer(200, {"room": room})
    raise _wrong_path()


def _lists(prop: Property, request: Request, parts: list[str]) -> Answer:
    if parts == ["encoders"]:
        rows = [{"name": e.name, "online": not e.is_offline, "busy": e.is_busy} for e in prop.encoders.values()]
        return Answer(200, {"items": rows, "next": None})
    if parts == ["connectors"]:
        return Answer(200, {"items": [{"id": f"connector-{prop.id}", "online": prop.connector_up}], "next": None})
    if parts == ["events"]:
        return _events(prop, request.query)
    raise _wrong_path()


def _make(prop: Property, request: Request) -> Answer:
    body = request.body
    kind, rooms = str(body["kind"]), [str(name) for name in body["rooms"]]
    granted = {int(number) for number in body.get("authorizations", {}).get("grant", [])}
    if kind == "rfid_card":
        _need_connector(prop, request)
        ready_encoder(prop, str(body.get("encoderId", "")))
    rooms, granted, turned_away = _reachable(prop, kind, rooms, granted, str(body.get("pin", "")))
    if turned_away and not rooms and not granted:
        raise Refusal(str(turned_away[0]["code"]), rooms=turned_away)
    wanted = Wanted(
        kind=kind,
        mode=_mode(body["mode"], MODES),
        rooms=rooms,
        starts=local_of(prop, body["validFrom"]),
        ends=local_of(prop, body["validUntil"]),
        reservation_ref=str(body["reservationRef"]),
        operator=str(body.get("operator", ""))[:24],
        grants=granted,
        denials={int(number) for number in body.get("authorizations", {}).get("deny", [])},
        encoder=str(body.get("encoderId", "")),
        phone=str(body.get("phone", "")),
        pin=str(body.get("pin", "")),
        is_cancellable=bool(body.get("cancellable", True)),
        overwrite=frozenset(str(ref) for ref in body.get("overwrite", ())),
    )
    key, superseded = make_key(prop, wanted)
    shown_key = shown(prop, key) | {"refused": turned_away, "supersedes": superseded}
    if key.status == "waiting_card":
        return Answer(202, shown_key)
    return Answer(201, shown_key | {"effects": effects_of_issue(prop, key, superseded)})


def _reachable(
    prop: Property, kind: str, rooms: list[str], grants: set[int], pin: str
) -> tuple[list[str], set[int], list[dict[str, object]]]:
    """Leaves out places that cannot be given the key, each with its reason."""
    turned_away: list[dict[str, object]] = []
    if len(rooms) > 4:
        raise Refusal("too_many_rooms")
    for place in [*rooms, *(f"auth:{number}" for number in sorted(grants))]:
        code = _obstacle(prop, kind, place)
        if code:
            turned_away.append({"room": place, "code": code})
    away = {row["room"] for row in turned_away}
    return [r for r in rooms if r not in away], {n for n in grants if f"auth:{n}" not in away}, turned_away


def _obstacle(prop: Property, kind: str, place: str) -> str | None:
    door = door_for(prop, place)
    if place in prop.room_faults:
        return prop.room_faults[place]
    if place.startswith("auth:"):
        if kind == "pin_code" and (door is None or not door.is_online or not door.has_keypad):
            return "unsupported_kind"
        return None if door is not None else "unknown_authorization"
    if prop.room_of(place) is None:
        return "unknown_room"
    if kind == "pin_code" and (door is None or not door.is_online or not door.has_keypad):
        return "unsupported_kind"
    return None


def _need_connector(prop: Property, request: Request) -> None:
    if request.certified is None and not prop.connector_up:
        raise Refusal("connector_offline")


def _key(prop: Property, ref: str) -> Key:
    if ref not in prop.keys:
        raise Refusal("unknown_key")
    return prop.keys[ref]


def _patch(prop: Property, key: Key, body: Mapping[str, Any]) -> Answer:
    if key.status not in LIVE:
        raise Refusal("key_ended")
    mode = _mode(body["mode"], CHANGE_MODES) if "mode" in body else key.mode
    carried_until = key.carried_until
    wanted = {str(name) for name in body.get("addRooms", [])}
    given = [name for name in sorted(wanted) if _obstacle(prop, key.kind, name) is None]
    turned_away = [{"room": name, "code": _obstacle(prop, key.kind, name)} for name in sorted(wanted - set(given))]
    before = _record(key)
    kept = places_of(key)
    add_rooms(prop, key, [name for name in given if not name.startswith("auth:")], mode)
    key.grants |= {int(name[5:]) for name in given if name.startswith("auth:")}
    removed = [str(name) for name in body.get("removeRooms", [])] if not turned_away else []
    taken = [name for name in removed if name in places_of(key)]
    generations = {name: key.rooms[name] for name in taken if name in key.rooms}
    for name in taken:
        key.rooms.pop(name, None)
    key.grants -= {int(name[5:]) for name in taken if name.startswith("auth:")}
    if "validFrom" in body:
        key.starts = local_of(prop, body["validFrom"])
    if "validUntil" in body:
        key.ends = local_of(prop, body["validUntil"])
    if "blocked" in body:
        key.is_blocked = bool(body["blocked"])
    if _record(key) != before:
        changed(prop, key)
    return Answer(200, _patched(prop, key, body, (kept, given, removed, generations), carried_until) | {"refused": turned_away})


def _mode(given: object, known: frozenset[str]) -> str:
    if given not in known:
        raise Refusal("bad_mode")
    return str(given)


def _patched(
    prop: Property,
    key: Key,
    body: Mapping[str, Any],
    places: tuple[list[str], list[str], list[str], dict[str, int]],
    carried_until: Any,
) -> dict[str, Any]:
    kept, given, removed, generations = places
    follows = has_followed(prop, key)
    ghost = Key(**{**vars(key), "rooms": {**key.rooms, **generations}})
    stays = [place for place in kept if place in places_of(key)]
    if body.get("blocked"):
        rows = effects_of_taking(prop, key, stays, carried_until, has_followed=is_off_its_carrier(prop, key))
    elif carried_until is not None and key.ends < carried_until:
        rows = effects_of_taking(prop, key, stays, carried_until, has_followed=follows)
    else:
        rows = effects_of_giving(prop, key, stays)
    rows += effects_of_giving(prop, key, [place for place in given if place not in stays])
    rows += effects_of_taking(prop, ghost, removed, carried_until, has_followed=follows)
    return shown(prop, key) | {"effects": rows}


def _write_again(prop: Property, request: Request, key: Key) -> Answer:
    """The guest's card lies on the encoder and takes the present record. An automatic encoder is handed that card."""
    _need_connector(prop, request)
    if key.status not in LIVE or key.kind != "rfid_card":
        raise Refusal("key_ended")
    encoder = ready_encoder(prop, str(request.body.get("encoderId", "")))
    number = encoder.card or (key.carrier if encoder.is_automatic else None)
    if not number:
        raise Refusal("card_timeout")
    if number != key.carrier:
        raise Refusal("wrong_card")
    carrier = prop.carriers[number]
    sync_carrier(prop, carrier)
    write_image(prop, carrier, key)
    return Answer(200, shown(prop, key) | {"effects": effects_of_giving(prop, key, places_of(key))})


def _record(key: Key) -> tuple[object, ...]:
    return (dict(key.rooms), set(key.grants), key.starts, key.ends, key.is_blocked)


def _delete(prop: Property, ref: str, strategy: str) -> Answer:
    key = prop.keys.get(ref)
    if key is None:
        return Answer(200, {"cardRef": ref, "status": "cancelled", "effects": []})
    places, carried_until = places_of(key), key.carried_until
    cancel(prop, key, strategy)
    rows = effects_of_taking(prop, key, places, carried_until, has_followed=is_off_its_carrier(prop, key))
    return Answer(200, shown(prop, key) | {"effects": rows})


def _operation(prop: Property, name: str) -> Answer:
    operation = prop.operations.get(name)
    if operation is None:
        raise Refusal("unknown_operation")
    key = prop.keys[operation.key]
    state = state_of(operation)
    body: dict[str, Any] = {"operationId": name, "status": state, "error": operation.error or None, "key": shown(prop, key)}
    if operation.on_card in prop.keys:
        body["details"] = {"card": shown_on_card(prop, prop.keys[operation.on_card])}
    if state == "done":
        body["key"]["effects"] = effects_of_issue(prop, key, [])
    return Answer(200, body)


def _cancel_operation(prop: Property, name: str) -> Answer:
    operation = prop.operations.get(name)
    if operation is not None and state_of(operation) == "waiting_card":
        operation.status, operation.error = "failed", "cancelled"
        prop.keys[operation.key].status = "cancelled"
    return Answer(200, {"operationId": name})


def _list_keys(prop: Property, query: Mapping[str, str]) -> Answer:
    tests: list[Callable[[Key], bool]] = []
    if "reservationRef" in query:
        tests.append(lambda key: key.reservation_ref == query["reservationRef"])
    if "room" in query:
        tests.append(lambda key: query["room"] in places_of(key))
    if query.get("status") == "live":
        tests.append(lambda key: key.status in LIVE and prop.instant(key.ends) > prop.now())
    rows = [key for key in prop.keys.values() if all(test(key) for test in tests)]
    return Answer(200, _page([shown(prop, key) for key in rows], query))


def _page(rows: list[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    start, size = int(query.get("cursor") or 0), min(MAX_PAGE, int(query.get("limit") or MAX_PAGE))
    following = start + size
    return {"items": rows[start:following], "next": str(following) if following < len(rows) else None}


def _events(prop: Property, query: Mapping[str, str]) -> Answer:
    door = door_for(prop, query["door"]) if "door" in query else None
    rows = [
        row
        for row in prop.events
        if (door is None or row["door"] == door.name)
        and row["id"] > int(query.get("after") or 0)
        and query.get("since", "") <= row["occurredAt"] <= query.get("until", "9")
    ]
    rows.sort(key=lambda row: int(row["id"]))
    return Answer(200, {"items": rows[: min(MAX_PAGE, int(query.get("limit") or MAX_PAGE))]})


def _door(prop: Property, door: Door) -> dict[str, Any]:
    return {
        "name": door.name,
        "label": door.label,
        "authorization": door.authorisation,
        "type": "online" if door.is_online else "standalone",
        "keypad": door.has_keypad,
        "online": door.is_online and not door.is_dead,
        "battery": door.battery,
        "clockSkewSec": door.skew_s,
        "denylistSize": len(prop.denylist if door.is_online and not door.is_dead else door.denylist),
        "lastSeenAt": prop.now().isoformat() if door.is_online else None,
    }


def shown(prop: Property, key: Key) -> dict[str, Any]:
    """Returns a key as callers see it. Never its digits."""
    return {
        "cardRef": key.ref,
        "kind": key.kind,
        "status": key.status,
        "reservationRef": key.reservation_ref,
        "operator": key.operator,
        "rooms": list(key.rooms),
        "authorizations": {"grant": sorted(key.grants), "deny": sorted(key.denials)},
        "validFrom": prop.instant(key.starts).isoformat(),
        "validUntil": prop.instant(key.ends).isoformat(),
        "mode": key.mode,
        "copy": key.copy,
        "serial": key.serial,
        "blocked": key.is_blocked,
        "mobileKey": key.mobile_key or None,
        "desiredVersion": key.version,
        "carriedVersion": key.carried_version,
        "operationId": key.operation or None,
        "overwrote": shown_on_card(prop, prop.keys[key.overwrote]) if key.overwrote in prop.keys else None,
    }


def _places_in(request: Request, prop: Property) -> list[str]:
    body = request.body if isinstance(request.body, dict) else {}
    named = [*body.get("rooms", []), *body.get("addRooms", []), *body.get("removeRooms", [])]
    ref = request.path.rpartition("/")[2]
    return named or (places_of(prop.keys[ref]) if ref in prop.keys else [])
