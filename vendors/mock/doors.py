"""The mock's doors: what each lock holds, and whether it opens. Truth for tests, with no failures of its own.

One rule: a door knows only what reached it; an idempotency key has one effect at a door for ever, even after the key is gone.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from vendors.port.types import Window


@dataclass(slots=True)
class Key:
    """One key in one lock's memory. `value` is what is typed, shown or tapped; a stranger's has a name and no mark or tag."""

    ref: str
    key: str
    mark: str
    tag: str
    kind: str
    value: str
    window: Window
    suspended: bool = False
    name: str = ""


@dataclass(slots=True)
class LockAtDoor:
    """A lock: its memory, its clock's error, its log. `utc_offset_s` is what the vendor takes its clock to be set to."""

    external_id: str
    label: str = ""
    online: bool = True
    battery_percent: int = 90
    clock_skew_s: float = 0
    utc_offset_s: int | None = None
    keys: dict[str, Key] = field(default_factory=dict)
    issued: dict[str, str] = field(default_factory=dict)
    created_count: int = 0
    removed_count: int = 0
    records: list[dict[str, Any]] = field(default_factory=list)


class DoorRefused(Exception):
    """A door's own no: the port's error code without prefix, its reason, and whether asking again may help."""

    def __init__(self, error: str, reason: str = "other", retriable: bool = False) -> None:
        super().__init__(f"{error} {reason}")
        self.error = error
        self.reason = reason
        self.retriable = retriable


class Ledger:
    """All doors of one mock. Safe from several threads.

    While no door was ever seeded, any door exists once it is named; afterwards only the seeded ones do.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.lock = threading.RLock()
        self._doors: dict[str, LockAtDoor] = {}
        self._seeded = False

    def reset(self) -> None:
        """Forgets every door."""
        with self.lock:
            self._doors.clear()
            self._seeded = False

    @property
    def is_seeded(self) -> bool:
        """Whether only seeded doors exist."""
        return self._seeded

    def restore(self, doors: list[LockAtDoor], *, seeded: bool) -> None:
        """Takes kept doors in place of what is there."""
        with self.lock:
            self._doors = {door.external_id: door for door in doors}
            self._seeded = seeded

    def seed(self, doors: list[Mapping[str, Any]], additive: bool) -> None:
        """Puts up locks; one that is already there keeps its keys."""
        with self.lock:
            if not additive:
                self.reset()
            self._seeded = True
            for row in doors:
                door = self._doors.setdefault(row["externalId"], LockAtDoor(row["externalId"]))
                door.label = row.get("label", door.label)
                door.online = row.get("online", door.online)
                door.battery_percent = row.get("batteryPercent", door.battery_percent)
                door.clock_skew_s = row.get("clockSkewS", door.clock_skew_s)
                door.utc_offset_s = row.get("utcOffsetS", door.utc_offset_s)

    def door(self, external_id: str) -> LockAtDoor:
        """Returns a lock. Raises DoorRefused for one that is not there."""
        if external_id not in self._doors:
            if self._seeded:
                raise DoorRefused("DEVICE_NOT_PAIRED")
            self._doors[external_id] = LockAtDoor(external_id)
        return self._doors[external_id]

    def all_doors(self) -> list[LockAtDoor]:
        """Returns every lock."""
        return list(self._doors.values())

    def give(self, external_id: str, new: Key, capacity: int) -> Key:
        """Puts a key into a lock, once per idempotency key. Raises DoorRefused."""
        with self.lock:
            door = self.door(external_id)
            earlier = door.issued.get(new.key)
            if earlier is not None:
                return door.keys.get(earlier, new)
            same_kind = [k for k in door.keys.values() if k.kind == new.kind]
            if len(same_kind) >= capacity:
                raise DoorRefused("KEY_ISSUE_FAILED", "door_full")
            if new.kind == "pin_code" and any(k.value == new.value and _overlap(k.window, new.window) for k in same_kind):
                raise DoorRefused("KEY_ISSUE_FAILED", "pin_refused")
            door.keys[new.ref] = new
            door.issued[new.key] = new.ref
            door.created_count += 1
            return new

    def find(self, external_id: str, ref: str | None, tag: str) -> list[Key]:
        """Returns the keys of a credential at a door: by reference where one is known, else by tag."""
        with self.lock:
            door = self.door(external_id)
            if ref is not None and ref in door.keys:
                return [door.keys[ref]]
            return [key for key in door.keys.values() if key.tag == tag]

    def take(self, external_id: str, ref: str | None, tag: str) -> None:
        """Removes a credential's keys from a door; nothing there counts as removed."""
        with self.lock:
            door = self.door(external_id)
            for key in self.find(external_id, ref, tag):
                del door.keys[key.ref]
                door.removed_count += 1

    def plant(self, external_id: str, key: Key) -> None:
        """Puts a key into a lock as somebody in the vendor's own app would."""
        with self.lock:
            self.door(external_id).keys[key.ref] = key

    def drop(self, external_id: str, ref: str) -> None:
        """Takes a key out of a lock behind everybody's back. Raises KeyError."""
        with self.lock:
            del self.door(external_id).keys[ref]

    def open(
        self, external_id: str, kind: str, value: str, *, at: datetime | None = None, dry: bool = False
    ) -> tuple[bool, str]:
        """Tries a door by its own clock. Says whether it opened, and why not. Logged unless dry or at another instant."""
        with self.lock:
            if external_id not in self._doors:
                return False, "no_such_door"
            door = self._doors[external_id]
            wall = (at or self.now()) + timedelta(seconds=door.clock_skew_s)
            held = [k for k in door.keys.values() if k.kind == kind and k.value == value]
            opened, why = _verdict(held, wall)
            if at is not None or dry:
                return opened, why
            door.records.append(
                {
                    "id": f"rec_{len(door.records) + 1}",
                    "door": external_id,
                    "outcome": "granted" if opened else "denied",
                    "at": wall.isoformat(),
                    "why": None if opened else why,
                    "mark": held[0].mark if held else None,
                    "kind": kind,
                }
            )
            return opened, why


def new_value(kind: str) -> str:
    """Makes what a phone or card carries where the caller gave nothing."""
    return str(secrets.randbelow(2**32)) if kind == "rfid_card" else f"mk_{secrets.token_hex(16)}"


def drawn_digits(door: str, window: Window) -> str:
    """Compute the eight digits that a door and a vendor agree on for a window, as locks out of reach do."""
    seed = f"{door} {window.valid_from.isoformat()} {window.valid_until.isoformat()}"
    return f"{int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], 'big') % 10**8:08d}"


def new_ref() -> str:
    """Makes the mock's own name for a key."""
    return f"mock:{secrets.token_hex(8)}"


def _verdict(held: list[Key], at: datetime) -> tuple[bool, str]:
    if not held:
        return False, "unknown_credential"
    if any(not k.suspended and k.window.contains(at) for k in held):
        return True, "granted"
    if any(k.window.contains(at) for k in held):
        return False, "suspended"
    return False, "outside_validity"


def _overlap(one: Window, other: Window) -> bool:
    return one.valid_from < other.valid_until and other.valid_from < one.valid_until
