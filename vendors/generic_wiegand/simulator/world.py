"""All simulated houses in one process: doors, cards, encoders and controllers, with a movable clock.

One rule: whoever reads or changes the state holds `lock`. A card is the only place where a stand-alone lock's key exists.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from vendors.support.simulator_clock import MovableClock

LOG_KEPT = 500
CALLS_KEPT = 10_000


@dataclass
class Card:
    """A card or tag. `blocks` are its written records by sector, 48 bytes each; `number` is what a reader makes of its UID."""

    uid: str
    kind: str = "rfid_card"
    blocks: dict[int, bytes] = field(default_factory=dict)

    @property
    def number(self) -> str:
        """The UID as a 32-bit number, high byte first (`csn32`)."""
        return str(int(self.uid[:8], 16))


@dataclass
class Line:
    """One line of a controller's list: a card number at a door."""

    entry: str
    kind: str
    number: str
    starts: datetime
    ends: datetime
    mark: str = ""
    tag: str = ""
    is_resting: bool = False


@dataclass
class Door:
    """A lock or reader. `seen` is the newest sequence a stand-alone lock has met; `lines` its part of the controller's list.
    `skew_s` is its own clock minus true time."""

    number: int
    label: str
    is_shared: bool = False
    skew_s: float = 0.0
    is_reachable: bool = True
    seen: int = 0
    lines: dict[str, Line] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)
    counted: int = 0

    @property
    def name(self) -> str:
        """The door's id at the vendor."""
        return f"area:{self.number}" if self.is_shared else str(self.number)


@dataclass
class Encoder:
    """A desk's encoder: the card on it, and whether a hand lays fresh ones by itself."""

    name: str
    is_automatic: bool = True
    is_online: bool = True
    card: str | None = None


@dataclass
class House:
    """One property. `has_controller` says that its doors are readers on a controller; otherwise they are stand-alone locks."""

    code: str
    property_number: int
    property_key: str
    has_controller: bool = False
    doors: dict[int, Door] = field(default_factory=dict)
    encoders: dict[str, Encoder] = field(default_factory=dict)
    cards: dict[str, Card] = field(default_factory=dict)

    def new_card(self, kind: str, uid: str | None = None) -> Card:
        """Takes a card from the stack. No card's UID begins as a cascade tag or a random one does (fact sheet §1.5)."""
        while uid is None or (uid in self.cards and self.cards[uid].kind != kind):
            uid = f"{secrets.choice('1234567') + secrets.token_hex(4)[:7]}".upper()
        return self.cards.setdefault(uid, Card(uid, kind))

    def card(self, value: str) -> Card | None:
        """Finds a card by its UID, its number, or a reference to it."""
        uid = value.split(".")[1] if value.startswith("gw1.") else value
        return self.cards.get(uid) or next((card for card in self.cards.values() if card.number == value), None)


class World:
    """The simulator's state."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.clock = MovableClock()
        self.houses: dict[str, House] = {}
        self.calls: list[dict[str, Any]] = []
        self.calls_by_door: Counter[str] = Counter()
        self.changes = 0

    def reset(self) -> None:
        """Forgets everything."""
        self.houses.clear()
        self.calls.clear()
        self.calls_by_door.clear()
        self.clock.move(None)
        self.changes += 1

    def note(self, path: str, house: str, doors: list[str]) -> None:
        """Writes a request down."""
        self.calls.append({"path": path, "house": house, "doors": doors, "at": self.clock.now().isoformat()})
        del self.calls[:-CALLS_KEPT]
        self.calls_by_door.update(doors)

    def seed(self, body: Mapping[str, Any]) -> House:
        """Puts up a house, or what is missing of it; what is there keeps its keys. Raises KeyError, ValueError."""
        code = str(body["house"])
        house = self.houses.get(code)
        if house is None:
            key = str(body.get("propertyKey") or secrets.token_hex(32))
            house = House(code, int(body.get("propertyNumber", 1)), bytes.fromhex(key).hex())
        house.has_controller = bool(body.get("controller", house.has_controller))
        for row in body.get("doors", []):
            door = house.doors.setdefault(int(row["number"]), Door(int(row["number"]), str(row.get("label", row["number"]))))
            door.label = str(row.get("label", door.label))
            door.is_shared = bool(row.get("shared", door.is_shared))
            door.skew_s = float(row.get("clockSkewS", door.skew_s))
        for row in body.get("encoders", [{"name": "desk"}]):
            encoder = house.encoders.setdefault(str(row["name"]), Encoder(str(row["name"])))
            encoder.is_automatic = bool(row.get("automatic", encoder.is_automatic))
            encoder.is_online = bool(row.get("online", encoder.is_online))
        self.houses[code] = house
        self.changes += 1
        return house

    def door(self, name: str, code: str | None = None) -> tuple[House, Door]:
        """Finds a door by its id. Raises KeyError when no house, or several, have one of that name."""
        found = [
            (house, door)
            for house in self.houses.values()
            for door in house.doors.values()
            if code in (None, house.code) and name in (door.name, str(door.number))
        ]
        if len(found) != 1:
            raise KeyError(f"{len(found)} houses have a door {name!r}")
        return found[0]
