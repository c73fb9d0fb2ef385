"""The PMS Industry Standard port of a property's server: one connection after the other, any number of commands on each.

One rule: ACK comes before the work. A client that hangs up after it does not stop the work.
Faults (control port, `surface: pms`): `nak`, `silence` and `drop` (after ACK, with the card written unless `written` is
false), `bad_lrc`, `split` (one byte a segment), `unready` (ENQ is answered NAK), `answer` (nothing is done, and the
`code` given comes back: any error letters, or another command's name).
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from vendors.salto.pms_frames import ACK, ENQ, NAK, Frame, FrameReader, encode
from vendors.salto.pms_words import authorisations, read_authorisations, read_date

from .model import FOREIGN, Carrier, Encoder, Property, RoomState
from .space import Refusal, Wanted, card_on, check_out, make_key, modify_stay, ready_encoder
from .world import World

IDLE_S = 30.0
LOOK_AGAIN_S = 0.02
CODES = {
    "encoder_offline": "NC",
    "encoder_busy": "OV",
    "unknown_room": "TD",
    "room_checked_out": "EA",
    "room_out_of_service": "OS",
    "card_timeout": "ED",
    "card_absent": "EP",
    "card_foreign": "EF",
}


class PmsPort:
    """A listening port for one property. `port` is where it listens."""

    def __init__(self, world: World, prop: Property, host: str, port: int = 0) -> None:
        self._world = world
        self._prop = prop
        self._server = socket.create_server((host, port), backlog=16)
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        """Stops listening."""
        self._server.close()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(IDLE_S)
                try:
                    _Conversation(self._world, self._prop, connection).run()
                except (OSError, ValueError):
                    continue  # the client hung up or sent noise; the next one is served


class _HangUp(Exception):
    pass


class _Conversation:
    def __init__(self, world: World, prop: Property, connection: socket.socket) -> None:
        self._world = world
        self._prop = prop
        self._connection = connection
        self._reader = FrameReader()
        self._places: dict[tuple[str, str], int] = {}

    def run(self) -> None:
        while data := self._connection.recv(4096):
            for token in self._reader.feed(data):
                try:
                    self._take(token)
                except _HangUp:
                    return

    def _take(self, token: object) -> None:
        if isinstance(token, Frame):
            self._command(token)
        elif getattr(token, "byte", None) == ENQ:
            ready = self._fault("ENQ", only=("unready",)) is None
            self._connection.sendall(bytes([ACK if ready else NAK]))

    def _command(self, frame: Frame) -> None:
        name = frame.field(0)
        fault = self._fault(name, only=("nak", "silence", "drop", "bad_lrc", "split", "answer"))
        do = fault["do"] if fault else ""
        if not frame.is_sound or do == "nak":
            self._connection.sendall(bytes([NAK]))
            return
        self._connection.sendall(bytes([ACK]))
        if fault is not None and do == "answer":
            answer: tuple[str, ...] = (str(fault["code"]), frame.field(1))
        elif fault is None or fault.get("written", True):
            places = self._places if self._prop.keeps_place_by_connection else self._world.audit_cursors
            answer = answer_to(self._world, self._prop, frame.fields, places)
        else:
            answer = ("EG",)
        if do == "silence":
            return
        if do == "drop":
            raise _HangUp
        data = encode(answer)
        if do == "bad_lrc":
            data = data[:-1] + bytes([data[-1] ^ 0x55])
        pieces = [bytes([byte]) for byte in data] if do == "split" else [data]
        for piece in pieces:
            self._connection.sendall(piece)
        if name[:2] in ("CN", "CC") and do in ("", "split"):
            self._taken_away(frame.field(1))
        if self._prop.hangs_up_after_answer:
            raise _HangUp

    def _taken_away(self, encoder: str) -> None:
        """Who was told that the card is done takes it out of an automatic encoder."""
        with self._world.lock:
            found = self._prop.encoders.get(encoder)
            if found is not None and found.is_automatic:
                found.card = None

    def _fault(self, name: str, only: Sequence[str]) -> dict[str, Any] | None:
        with self._world.lock:
            waiting = [rule for rule in self._world.faults if rule.get("do") in only]
            return self._world.take_fault("pms", self._prop.id, name) if waiting else None


def answer_to(
    world: World, prop: Property, fields: Sequence[str], places: dict[tuple[str, str], int] | None = None
) -> tuple[str, ...]:
    """Does what a command says and returns the answer's fields. `places` are where readings of logs stand."""
    padded = [*fields, *[""] * (18 - len(fields))]
    name = padded[0]
    try:
        with world.lock:
            world.note_call(prop, f"PMS {name}", _places(padded))
        if name in ("CNM", "CCM"):
            return _phone(world, prop, padded)
        if name[:2] in ("CN", "CC"):
            return _card(world, prop, padded)
        if name == "LT":
            _wait_for_card(world, prop, padded[1])
        with world.lock:
            return _plain(world, prop, padded, world.audit_cursors if places is None else places)
    except Refusal as refusal:
        return (CODES.get(refusal.code, "EG"), padded[1], *([refusal.code] if refusal.code not in CODES else []))
    except ValueError:
        return ("ES",)


def _plain(world: World, prop: Property, fields: Sequence[str], places: dict[tuple[str, str], int]) -> tuple[str, ...]:
    match fields[0]:
        case "MC":
            modify_stay(prop, fields[1], fields[2], read_date(fields[3]))
            return ("MC", fields[1])
        case "CO":
            check_out(prop, fields[2])
            return ("CO", fields[2])
        case "LT":
            return _read(prop, fields)
        case "INFO":
            return ("INFO", "SIMULATED", prop.id)
        case "WF" | "WN" | "WR":
            return _audit(prop, fields[0], fields[1], places)
        case _:
            return ("ES",)


def _card(world: World, prop: Property, fields: Sequence[str]) -> tuple[str, ...]:
    count = int(fields[0][2:] or 1)
    serial = ""
    with world.lock:
        for room in filter(None, fields[3:7]):
            if prop.room_of(room) is None:
                raise Refusal("unknown_room")
    for index in range(count):
        _wait_for_card(world, prop, fields[1])
        with world.lock:
            is_copy = fields[0].startswith("CC") or index > 0
            key, _ = make_key(prop, _wanted(fields, "rfid_card", "copy" if is_copy else "new", 3, encoder=fields[1]))
            if key.status == "waiting_card":  # the card was taken away between the look and the writing
                key.status = "cancelled"
                raise Refusal("card_absent")
            serial = str(key.serial)
    return (fields[0], serial) if fields[15] in ("1", "2") else (fields[0],)


def _phone(world: World, prop: Property, fields: Sequence[str]) -> tuple[str, ...]:
    with world.lock:
        mode = "copy" if fields[0] == "CCM" else "new"
        make_key(prop, _wanted(fields, "mobile_app", mode, 2, phone=fields[1]))
    return (fields[0],)


def _wanted(fields: Sequence[str], kind: str, mode: str, first_room: int, **more: str) -> Wanted:
    after = first_room + 4
    return Wanted(
        kind=kind,
        mode=mode,
        rooms=[name for name in fields[first_room:after] if name],
        grants=set(read_authorisations(fields[after])),
        denials=set(read_authorisations(fields[after + 1])),
        starts=read_date(fields[after + 2]),
        ends=read_date(fields[after + 3]),
        operator=fields[after + 4],
        is_cancellable=False,
        overwrite=None,
        encoder=more.get("encoder", ""),
        phone=more.get("phone", ""),
    )


def _wait_for_card(world: World, prop: Property, encoder_name: str) -> None:
    end = time.monotonic() + prop.encoder_timeout_s
    while True:
        with world.lock:
            encoder = ready_encoder(prop, encoder_name)
            if encoder.card is not None or encoder.is_automatic:
                return
        if time.monotonic() > end:
            raise Refusal("card_timeout")
        time.sleep(LOOK_AGAIN_S)


def _read(prop: Property, fields: Sequence[str]) -> tuple[str, ...]:
    card = _held(prop, ready_encoder(prop, fields[1]))
    if card is None:
        return ("EP", fields[1])
    if card.other == FOREIGN:
        raise Refusal("card_foreign")
    if card.other:
        return ("LT", fields[1], card.other)
    if card.image is None:
        return ("LT", fields[1], "LD")
    image = card.image
    names = [*image.rooms, *[""] * (4 - len(image.rooms))]
    room = prop.rooms.get(names[0])
    current = room is not None and room.state is RoomState.OCCUPIED and room.generation == image.rooms.get(names[0])
    return (
        "LT",
        fields[1],
        *names,
        "CI" if current else "CO",
        image.copy,
        authorisations(image.grants - image.denials),
        "" if prop.reads_without_start else image.starts.strftime("%H%M%d%m%y"),
        image.ends.strftime("%H%M%d%m%y"),
        image.operator,
    )


def _held(prop: Property, encoder: Encoder) -> Carrier | None:
    """The card in the encoder; an automatic one feeds one, and holds it until somebody takes it."""
    card = card_on(prop, encoder)
    if card is not None and encoder.is_automatic:
        encoder.card = card.number
    return card


_INCIDENTS = {16: "0", 17: "0", 26: "0", 28: "0", 84: "3", 88: "2", 89: "2", 96: "2", 81: "4", 82: "4"}
_WITHOUT_CARD = {16: "S2", 28: "S3"}
"""Openings by a button, and by somebody at a computer."""


def _audit(prop: Property, which: str, place: str, places: dict[tuple[str, str], int]) -> tuple[str, ...]:
    """Reads a door's log as far as it has reached the server: WF starts over, WN goes on, WR repeats. Who has read nothing yet
    and asks for the next line is told the end."""
    rows = [row for row in prop.events if row["door"] == place and row["operation"] in _INCIDENTS]
    before = places.get((prop.id, place))
    if before is None and which == "WN":
        return ("WO", place)
    at = {"WF": 0, "WN": (before or 0) + 1}.get(which, before or 0)
    places[(prop.id, place)] = at
    if place not in prop.doors:
        return ("WE", place)
    if at >= len(rows):
        return ("WO", place)
    row = rows[at]
    when = datetime.fromisoformat(row["lockLocalTime"])
    key = prop.keys.get(row["cardRef"])
    who = next(iter(key.rooms), "") if key else ""
    return (
        which,
        place,
        when.strftime("%m/%d" if prop.is_month_first else "%d/%m"),
        when.strftime("%H:%M"),
        _INCIDENTS[row["operation"]],
        "0",
        who,
        f"#{key.copy}" if key else _WITHOUT_CARD.get(row["operation"], ""),
        "",
    )


def _places(fields: Sequence[str]) -> list[str]:
    name = fields[0]
    spans = {"MC": (1, 3), "CO": (2, 3), "CNM": (2, 6), "CCM": (2, 6), "LT": (0, 0)}
    start, end = spans.get(name, (3, 7) if name[:2] in ("CN", "CC") else (1, 2))
    return [text for text in fields[start:end] if text]
