"""The server's own rules: new stays and copies, changes, checkout, deny list, encode jobs. Both wires call these.

One rule: the server changes its records and what lies on an encoder; no door and no card in a pocket hears of it here.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .doors import sync_carrier, write_image
from .model import FOREIGN, LIVE, Carrier, Door, Encoder, Key, Operation, Property, Room, RoomState

MAX_ROOMS = 4
MAX_AUTHORISATION = 62


class Refusal(Exception):
    """The server says no. `code` is the cloud contract's word; the PMS side has its own table for it."""

    def __init__(self, code: str, **details: object) -> None:
        super().__init__(code)
        self.code = code
        self.details = details


@dataclass
class Wanted:
    """A key to make."""

    kind: str
    mode: str
    rooms: list[str]
    starts: datetime
    ends: datetime
    reservation_ref: str = ""
    operator: str = ""
    grants: set[int] = field(default_factory=set)
    denials: set[int] = field(default_factory=set)
    encoder: str = ""
    phone: str = ""
    pin: str = ""
    is_cancellable: bool = True
    overwrite: frozenset[str] | None = frozenset()
    """Keys that may be lost from the card; None for an interface that writes whatever lies there."""


def make_key(prop: Property, wanted: Wanted) -> tuple[Key, list[dict[str, Any]]]:
    """Makes a key, or leaves it waiting for a card. Returns it with the keys it supersedes. Raises Refusal.

    The generation of a room moves when the carrier is written, not before.
    """
    _check(prop, wanted)
    key = Key(
        ref=f"ck_{secrets.token_hex(12)}",
        kind=wanted.kind,
        reservation_ref=wanted.reservation_ref,
        operator=wanted.operator,
        serial=next(prop.numbers),
        rooms=dict.fromkeys(wanted.rooms, 0),
        grants=set(wanted.grants),
        denials=set(wanted.denials),
        starts=wanted.starts,
        ends=wanted.ends,
        mode=wanted.mode,
        is_cancellable=wanted.is_cancellable,
        pin=wanted.pin,
        phone=wanted.phone,
        encoder=wanted.encoder,
    )
    if key.kind == "pin_code":
        prop.keys[key.ref] = key
        return key, []
    if key.kind == "mobile_app":
        key.mobile_key = f"mk_{secrets.token_hex(16)}"
        carrier = prop.carriers[key.mobile_key] = Carrier(key.mobile_key, phone=key.phone)
        return key, commit(prop, key, carrier)
    encoder = ready_encoder(prop, wanted.encoder)
    card = card_on(prop, encoder)
    if card is None:
        key.status = "waiting_card"
        prop.keys[key.ref] = key
        operation = Operation(f"op_{secrets.token_hex(8)}", key.ref, encoder.name, time.monotonic() + prop.encoder_timeout_s)
        operation.overwrite = wanted.overwrite or frozenset()
        prop.operations[operation.id] = operation
        key.operation = operation.id
        return key, []
    if wanted.overwrite is not None:
        _require_free(prop, key, card, wanted.overwrite)
    return key, commit(prop, key, card)


def key_on(prop: Property, carrier: Carrier) -> Key | None:
    """Returns the key that a card carries and that may still open something."""
    key = prop.keys.get(carrier.image.ref) if carrier.image is not None else None
    is_live = key is not None and key.status in LIVE and prop.instant(key.carried_until or key.ends) > prop.now()
    return key if is_live else None


def _require_free(prop: Property, key: Key, carrier: Carrier, overwrite: frozenset[str]) -> None:
    """Raises Refusal for a card that carries a live key of another stay which nobody has confirmed may be lost."""
    held = key_on(prop, carrier)
    if held is None or held.reservation_ref == key.reservation_ref:
        return
    if held.ref not in overwrite:
        raise Refusal("card_in_use", card=shown_on_card(prop, held))
    key.overwrote = held.ref


def shown_on_card(prop: Property, key: Key) -> dict[str, Any]:
    """Returns what the server tells of the key that a card carries."""
    return {
        "cardRef": key.ref,
        "reservationRef": key.reservation_ref,
        "operator": key.operator,
        "validUntil": prop.instant(key.carried_until or key.ends).isoformat(),
    }


def commit(prop: Property, key: Key, carrier: Carrier) -> list[dict[str, Any]]:
    """Writes the carrier and, for a new stay, moves the rooms to a new generation. Returns the keys that became old. Raises
    Refusal for a card that cannot be written."""
    if carrier.other == FOREIGN:
        raise Refusal("card_foreign")
    superseded: list[dict[str, Any]] = []
    if key.mode == "new":
        for name in key.rooms:
            room = prop.rooms[name]
            room.generation += 1
            room.state = RoomState.OCCUPIED
            key.rooms[name] = room.generation
        superseded = _supersede(prop, key)
    else:
        key.copy = str(sum(1 for other in prop.keys.values() if other.status in LIVE and other.rooms.keys() & key.rooms.keys()))
        key.rooms = {name: prop.rooms[name].generation for name in key.rooms}
    prop.keys[key.ref] = key
    key.status = "active"
    sync_carrier(prop, carrier)
    write_image(prop, carrier, key)
    return superseded


def finish_waiting(prop: Property, encoder: Encoder) -> None:
    """A card was laid down: the oldest waiting job of the encoder is done, or has failed because its room changed."""
    for operation in prop.operations.values():
        if operation.encoder == encoder.name and state_of(operation) == "waiting_card":
            card = card_on(prop, encoder)
            if card is None:
                return
            key = prop.keys[operation.key]
            try:
                if key.mode == "copy":
                    _check_stay(prop, list(key.rooms))
                _require_free(prop, key, card, operation.overwrite)
                commit(prop, key, card)
                operation.status = "done"
            except Refusal as refusal:
                operation.status, operation.error, key.status = "failed", refusal.code, "cancelled"
                held = key_on(prop, card)
                operation.on_card = held.ref if held is not None and refusal.code == "card_in_use" else ""
            return


def state_of(operation: Operation) -> str:
    """Returns the job's state; one that waited too long has failed."""
    if operation.status == "waiting_card" and time.monotonic() > operation.expires_at_s:
        operation.status, operation.error = "failed", "card_timeout"
    return operation.status


def end_expired_jobs(prop: Property) -> None:
    """Cancels the keys nobody laid a card down for."""
    for operation in prop.operations.values():
        key = prop.keys[operation.key]
        if state_of(operation) == "failed" and key.status == "waiting_card":
            key.status = "cancelled"


def ready_encoder(prop: Property, name: str) -> Encoder:
    """Finds the encoder. Raises Refusal when it is unknown, does not answer or serves another."""
    encoder = prop.encoders.get(name)
    if encoder is None or encoder.is_offline:
        raise Refusal("encoder_offline", encoder=name)
    if encoder.is_busy:
        raise Refusal("encoder_busy", encoder=name)
    return encoder


def card_on(prop: Property, encoder: Encoder) -> Carrier | None:
    """Returns the card on the encoder; an automatic one takes a fresh card from its stack."""
    if encoder.card is not None:
        return prop.carriers.setdefault(encoder.card, Carrier(encoder.card))
    if encoder.is_automatic:
        return prop.fresh_card()
    return None


def add_rooms(prop: Property, key: Key, names: list[str], mode: str) -> None:
    """Gives a key more rooms: each starts a new generation in mode `new`, or joins the stay in mode `copy`. Raises Refusal."""
    fresh = [name for name in names if name not in key.rooms]
    if len(key.rooms) + len(fresh) > MAX_ROOMS:
        raise Refusal("too_many_rooms")
    for name in fresh:
        room = _usable_room(prop, name)
        if key.is_carried:
            if mode == "new":
                room.generation += 1
                room.state = RoomState.OCCUPIED
            elif room.state is not RoomState.OCCUPIED:
                raise Refusal("room_checked_out", room=name)
        else:
            _check_pin(prop, key, name)
        key.rooms[name] = room.generation
    if fresh and mode == "new" and key.is_carried:
        _supersede(prop, key)


def _check_pin(prop: Property, key: Key, name: str) -> None:
    door = prop.doors.get(name)
    if door is None or not door.is_online or not door.has_keypad:
        raise Refusal("unsupported_kind", room=name)
    if any(o is not key and o.pin == key.pin and o.status in LIVE and name in o.rooms for o in prop.keys.values()):
        raise Refusal("pin_taken", room=name)


def changed(prop: Property, key: Key) -> None:
    """Notes that the record moved on. A connected phone follows at once; a card waits for an updater or the encoder."""
    key.version += 1
    if not key.is_carried:
        key.carried_version = key.version
        return
    if key.status in ("active", "update_required"):
        key.status = "update_required" if prop.guest_keys_update or key.kind == "mobile_app" else "reedition_required"
    carrier = prop.carriers.get(key.carrier)
    if carrier is not None and carrier.phone and carrier.is_connected:
        write_image(prop, carrier, key)
        if key.is_blocked:
            carrier.image = None


def cancel(prop: Property, key: Key, strategy: str) -> None:
    """Takes a key off the list; `denylist` also puts its serial on the deny list. Raises Refusal when that is full."""
    if key.status in ("cancelled", "denylisted"):
        return
    if strategy == "denylist" and key.is_carried and key.is_cancellable and key.status != "waiting_card":
        if len(prop.denylist) >= prop.denylist_capacity:
            raise Refusal("denylist_full")
        prop.denylist.add(key.serial)
        key.status = "denylisted"
    else:
        key.status = "cancelled"
    waiting = prop.operations.get(key.operation)
    if waiting is not None and state_of(waiting) == "waiting_card":
        waiting.status, waiting.error = "failed", "cancelled"
    carrier = prop.carriers.get(key.carrier)
    if carrier is not None and carrier.phone and carrier.is_connected:
        carrier.image = None
    for name, generation in key.rooms.items():
        room = prop.rooms.get(name)
        if room is not None and room.generation == generation and not _is_held(prop, name):
            room.state = RoomState.CHECKED_OUT


def modify_stay(prop: Property, room_name: str, to_room: str, ends: datetime) -> None:
    """Moves the end of the stay in a room, and the stay itself where another room is named. Raises Refusal."""
    room = _usable_room(prop, room_name)
    if room.state is not RoomState.OCCUPIED:
        raise Refusal("room_checked_out", room=room_name)
    keys = [k for k in prop.keys.values() if k.status in LIVE and k.rooms.get(room_name) == room.generation]
    target = _usable_room(prop, to_room) if to_room else None
    if target is not None and target is not room:
        target.generation += 1
        target.state = RoomState.OCCUPIED
        room.state = RoomState.CHECKED_OUT
    for key in keys:
        key.ends = ends
        if target is not None and target is not room:
            del key.rooms[room_name]
            key.rooms[target.name] = target.generation
            _supersede(prop, key)
        changed(prop, key)


def check_out(prop: Property, room_name: str) -> None:
    """Ends the stay on the list. Raises Refusal for an unknown room."""
    room = _usable_room(prop, room_name)
    for key in prop.keys.values():
        if key.status in LIVE and key.rooms.get(room_name) == room.generation and key.is_carried:
            key.status = "cancelled"
    room.state = RoomState.CHECKED_OUT


def door_for(prop: Property, place: str) -> Door | None:
    """Finds a door by its name, or a shared one by `auth:<n>`."""
    if place.startswith("auth:"):
        return next((d for d in prop.doors.values() if f"auth:{d.authorisation}" == place), None)
    return prop.doors.get(place)


def _check(prop: Property, wanted: Wanted) -> None:
    if len(wanted.rooms) > MAX_ROOMS:
        raise Refusal("too_many_rooms")
    if wanted.ends <= wanted.starts:
        raise Refusal("bad_window")
    if any(not 1 <= number <= MAX_AUTHORISATION for number in wanted.grants | wanted.denials):
        raise Refusal("unknown_authorization")
    for name in wanted.rooms:
        _usable_room(prop, name)
    now = prop.local(prop.now())
    places = sum(1 for key in prop.keys.values() if key.is_cancellable and key.is_carried and key.ends > now)
    if wanted.kind != "pin_code" and places >= prop.denylist_capacity:  # whether or not this one would take a place
        raise Refusal("denylist_pool_exhausted")
    if wanted.kind == "pin_code":
        probe = Key("", "pin_code", "", "", 0, {}, set(), set(), wanted.starts, wanted.ends, "new", pin=wanted.pin)
        for name in wanted.rooms:
            _check_pin(prop, probe, name)
    elif wanted.mode != "new":
        _check_stay(prop, wanted.rooms)


def _check_stay(prop: Property, rooms: list[str]) -> None:
    for name in rooms:
        if prop.rooms[name].state is not RoomState.OCCUPIED:
            raise Refusal("room_checked_out", room=name)


def _usable_room(prop: Property, name: str) -> Room:
    room = prop.room_of(name)
    if room is None:
        raise Refusal("unknown_room", room=name)
    if room.state is RoomState.OUT_OF_SERVICE:
        raise Refusal("room_out_of_service", room=name)
    return room


def _supersede(prop: Property, new: Key) -> list[dict[str, Any]]:
    older = []
    for key in prop.keys.values():
        shared = [name for name, generation in key.rooms.items() if 0 < generation < new.rooms.get(name, 0)]
        if key is new or not shared or not key.is_carried or key.status not in LIVE | {"cancelled"}:
            continue
        until = prop.instant(key.carried_until or key.ends)
        if until > prop.now():
            older.append({"reservationRef": key.reservation_ref, "rooms": shared, "validUntil": until.isoformat()})
        # A key made ahead of its guest's arrival leaves the present guest's in force.
        stale = new.starts <= prop.local(prop.now()) and all(
            generation < prop.rooms[name].generation for name, generation in key.rooms.items()
        )
        if stale and key.status in LIVE and key.status != "waiting_card":
            key.status = "superseded"
    return older


def _is_held(prop: Property, name: str) -> bool:
    generation = prop.rooms[name].generation
    return any(k.status in LIVE and k.is_carried and k.rooms.get(name) == generation for k in prop.keys.values())
