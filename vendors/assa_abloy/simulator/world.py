"""The world's state behind one lock, and who called.

One rule: whoever reads or changes the state holds `lock`.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from datetime import datetime
from typing import Any

from vendors.support.simulator_clock import MovableClock

from .model import House, Lock, Phone

MAX_CALLS_KEPT = 50_000


class World:
    """All houses of this program."""

    def __init__(self) -> None:
        self.clock = MovableClock()
        self.lock = threading.RLock()
        self.card_laid = threading.Condition(self.lock)
        self.houses: dict[str, House] = {}
        self.tokens: dict[str, tuple[str, datetime]] = {}
        self.sessions: dict[str, tuple[str, str, datetime]] = {}
        self.calls: list[dict[str, Any]] = []
        self.calls_by_door: Counter[str] = Counter()
        self.faults: list[dict[str, Any]] = []
        self.changes = 0

    def reset(self) -> None:
        """Forgets everything but the time."""
        self.houses.clear()
        self.tokens.clear()
        self.sessions.clear()
        self.calls.clear()
        self.calls_by_door.clear()
        self.faults.clear()

    def note(self, entry: dict[str, Any], doors: list[str]) -> None:
        """Writes a call down. `atS` is CLOCK_MONOTONIC, comparable between processes of a machine."""
        self.calls.append({**entry, "doors": doors, "at": self.clock.now().isoformat(), "atS": time.monotonic()})
        del self.calls[:-MAX_CALLS_KEPT]
        self.calls_by_door.update(doors)

    def door(self, door_id: str) -> tuple[House, Lock]:
        """Finds a door in any house. Raises KeyError for one that is not there."""
        bare = door_id.partition(":")[2] or door_id
        for house in self.houses.values():
            named = bare if bare in house.locks else house.door_called(bare)
            if named in house.locks:
                return house, house.locks[named]
        raise KeyError(f"no such door: {door_id}")


def sync(house: House, phone: Phone, now: datetime) -> None:
    """A phone that is ready and has a network fetches its keys and loses those that were taken back."""
    if phone.status == "ready" and not phone.is_offline:
        mine = [k for k in house.keys.values() if k.endpoint_id == phone.endpoint_id and k.status_at(now) == "active"]
        phone.images = {key.id: key.image() for key in mine}


def endpoint_for(house: House, owner: str) -> Phone:
    """Finds or makes the endpoint of a person's phone; one that has not redeemed its invitation gets a fresh code."""
    phone = next((p for p in house.phones.values() if p.owner == owner and p.status != "terminated"), None)
    if phone is None:
        phone = Phone(f"ep-{secrets.token_hex(6)}", owner)
        house.phones[phone.endpoint_id] = phone
    if phone.status == "invited":
        phone.codes.append(secrets.token_hex(4).upper())
    return phone


def last_code(phone: Phone) -> str | None:
    """Returns the invitation an answer shows; None for a phone that needs none."""
    return phone.codes[-1] if phone.codes else None


def new_id(prefix: str) -> str:
    """Makes a name no other thing has."""
    return f"{prefix}{secrets.token_hex(8)}"
