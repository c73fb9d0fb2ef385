"""What exists in a simulated property: server records, carriers, doors, encoders. State only.

One rule: a door knows its own memory and what a carrier brings; only an on-line door may look at the server's records.
"""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from queue import SimpleQueue
from typing import Any
from zoneinfo import ZoneInfo

from vendors.support.simulator_clock import MovableClock

DENYLIST_CAPACITY = 65_535
AUDIT_RING = 1000
LIVE = frozenset({"waiting_card", "active", "update_required", "reedition_required", "superseded"})
"""States of a key that may still open something."""


FOREIGN = "foreign"
"""A card of another system, or a damaged one."""


class RoomState(StrEnum):
    """What the hotel list says of a room."""

    FREE = "free"
    OCCUPIED = "occupied"
    CHECKED_OUT = "checked_out"
    OUT_OF_SERVICE = "out_of_service"


@dataclass
class Room:
    """A room in the server's list. `generation` counts stays; a key of an older one is an old guest's."""

    name: str
    state: RoomState = RoomState.FREE
    generation: int = 0


@dataclass
class Image:
    """What is written on a carrier. Rooms with the generation they were given; times are the property's wall clock."""

    ref: str
    serial: int
    version: int
    rooms: dict[str, int]
    grants: frozenset[int]
    denials: frozenset[int]
    starts: datetime
    ends: datetime
    copy: str
    operator: str


@dataclass
class Carrier:
    """A card (by its number) or a key in a phone. Carries the deny list it last saw, and the doors' news to the server.
    `other` is what it is where it is no guest's: FOREIGN, or the letters by which the server tells it (LM, LR, LC)."""

    number: str
    image: Image | None = None
    phone: str = ""
    denylist: frozenset[int] = frozenset()
    news: list[dict[str, Any]] = field(default_factory=list)
    is_connected: bool = True
    other: str = ""


@dataclass
class Door:
    """A lock. `authorisation` is set for a shared door. `is_online` is wired or radio: it updates carriers that are shown.
    `refused` are the keys that the server refused when it last reached an on-line door."""

    name: str
    label: str
    is_online: bool = False
    has_keypad: bool = True
    authorisation: int | None = None
    is_dead: bool = False
    skew_s: float = 0.0
    battery: int = 92
    seen_generation: int = 0
    cancelled_generation: int = 0
    denylist: set[int] = field(default_factory=set)
    refused: frozenset[int] = frozenset()
    ring: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Encoder:
    """A card writer at the desk. `is_automatic` takes a fresh card from its stack for each job, as a kiosk does; over the PMS
    port it keeps the card until somebody was told that it is done."""

    name: str
    card: str | None = None
    is_automatic: bool = False
    is_busy: bool = False
    is_offline: bool = False


@dataclass
class Key:
    """The server's record: what should be. `carried_version` and `carried_until` tell what is on the carrier."""

    ref: str
    kind: str
    reservation_ref: str
    operator: str
    serial: int
    rooms: dict[str, int]
    grants: set[int]
    denials: set[int]
    starts: datetime
    ends: datetime
    mode: str
    copy: str = "0"
    status: str = "active"
    is_blocked: bool = False
    is_cancellable: bool = True
    pin: str = ""
    phone: str = ""
    mobile_key: str = ""
    encoder: str = ""
    operation: str = ""
    carrier: str = ""
    version: int = 1
    carried_version: int = 0
    carried_until: datetime | None = None
    overwrote: str = ""

    @property
    def is_carried(self) -> bool:
        """Says whether a card or phone holds it (a PIN is held by the doors' network)."""
        return self.kind != "pin_code"


@dataclass
class Operation:
    """An encode job. `expires_at_s` is on the machine's monotonic clock. `overwrite` names keys that may be lost from the card;
    `on_card` is the one that was in the way."""

    id: str
    key: str
    encoder: str
    expires_at_s: float
    status: str = "waiting_card"
    error: str = ""
    on_card: str = ""
    overwrite: frozenset[str] = frozenset()


@dataclass
class Property:
    """One hotel's server with everything that hangs on it."""

    id: str
    clock: MovableClock
    zone: ZoneInfo
    api_keys: list[str]
    webhook_secret: str = ""
    webhook_url: str = ""
    pushes: SimpleQueue[dict[str, Any]] = field(default_factory=SimpleQueue)
    encoder_timeout_s: float = 20.0
    guest_keys_update: bool = True
    connector_up: bool = True
    denylist_capacity: int = DENYLIST_CAPACITY
    is_month_first: bool = False
    keeps_place_by_connection: bool = False
    hangs_up_after_answer: bool = False
    reads_without_start: bool = False
    rooms: dict[str, Room] = field(default_factory=dict)
    doors: dict[str, Door] = field(default_factory=dict)
    encoders: dict[str, Encoder] = field(default_factory=dict)
    carriers: dict[str, Carrier] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    denylist: set[int] = field(default_factory=set)
    events: list[dict[str, Any]] = field(default_factory=list)
    room_faults: dict[str, str] = field(default_factory=dict)
    kept_answers: dict[str, tuple[str, int, dict[str, Any]]] = field(default_factory=dict)
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    def local(self, instant: datetime) -> datetime:
        """Returns the property's wall clock, without a zone, as cards and locks keep it."""
        return instant.astimezone(self.zone).replace(tzinfo=None)

    def instant(self, local: datetime) -> datetime:
        """Returns the instant of a wall-clock time; of two (clocks set back) the later, so that a bound is never too early."""
        return local.replace(tzinfo=self.zone, fold=1).astimezone(UTC)

    def now(self) -> datetime:
        """Returns the present instant."""
        return self.clock.now()

    def fresh_card(self) -> Carrier:
        """Takes a blank card from the stack: a four-byte number in decimal."""
        card = Carrier(str(secrets.randbelow(2**31) + 2**31))
        self.carriers[card.number] = card
        return card

    def room_of(self, name: str) -> Room | None:
        """Finds a room by its exact name."""
        return self.rooms.get(name)


def local_of(prop: Property, text: str) -> datetime:
    """Reads an RFC 3339 instant into the property's wall clock. Raises ValueError without an offset."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("an instant needs an offset")
    return prop.local(instant)
