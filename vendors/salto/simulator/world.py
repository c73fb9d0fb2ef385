"""All simulated properties in one process, with what was asked of them and what shall go wrong.

One rule: every change happens under `lock`.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from vendors.support.simulator_clock import MovableClock

from .model import Door, Encoder, Property, Room, RoomState

CALLS_KEPT = 10_000


class World:
    """The simulator's state."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.clock = MovableClock()
        self.properties: dict[str, Property] = {}
        self.calls: list[dict[str, Any]] = []
        self.calls_by_door: Counter[str] = Counter()
        self.faults: list[dict[str, Any]] = []
        self.audit_cursors: dict[tuple[str, str], int] = {}
        self.changes = 0

    def reset(self) -> None:
        """Forgets everything but the ports."""
        self.properties.clear()
        self.calls.clear()
        self.calls_by_door.clear()
        self.faults.clear()
        self.audit_cursors.clear()
        self.clock.move(None, running=True)

    def seed(self, body: Mapping[str, Any]) -> Property:
        """Puts up a property, or what is missing of it; what is there keeps its keys. Raises KeyError, ValueError."""
        name = str(body["property"])
        prop = self.properties.get(name)
        if prop is None:
            keys = [str(key) for key in body.get("apiKeys", [])] or [secrets.token_urlsafe(32)]
            prop = Property(name, self.clock, ZoneInfo(body.get("timeZone", "UTC")), keys)
            self.properties[name] = prop
        for setting, attribute in _SETTINGS.items():
            if setting in body:
                setattr(prop, attribute, body[setting])
        for row in body.get("doors", []):
            _seed_door(prop, row)
        for row in body.get("encoders", []):
            encoder = prop.encoders.setdefault(row["name"], Encoder(row["name"]))
            encoder.is_automatic = bool(row.get("automatic", encoder.is_automatic))
            encoder.is_busy = bool(row.get("busy", encoder.is_busy))
            encoder.is_offline = bool(row.get("offline", encoder.is_offline))
        return prop

    def note_call(self, prop: Property, what: str, places: list[str]) -> None:
        """Writes a request into the log and counts it for its doors."""
        self.changes += 1
        self.calls.append({"property": prop.id, "call": what, "places": places, "at": self.clock.now().isoformat()})
        del self.calls[:-CALLS_KEPT]
        self.calls_by_door.update(f"{prop.id}\x1f{place}" for place in places)

    def take_fault(self, surface: str, prop_id: str, command: str, path: str = "") -> dict[str, Any] | None:
        """Finds the first rule that fits, and uses it up by one."""
        for rule in self.faults:
            fits = (
                rule.get("surface", "rest") == surface
                and rule.get("property") in (None, prop_id)
                and command.startswith(str(rule.get("command") or rule.get("method") or ""))
                and str(rule.get("path", "")) in path
            )
            if fits and rule.get("skip"):
                rule["skip"] -= 1
                continue
            if fits:
                if rule.get("times") is not None:
                    rule["times"] -= 1
                    if rule["times"] <= 0:
                        self.faults.remove(rule)
                return rule
        return None

    def find(self, device: str, property_id: str | None) -> Property:
        """Finds the property of a door. Raises KeyError when none or several have one of that name."""
        if property_id is not None:
            return self.properties[property_id]
        found = [p for p in self.properties.values() if device in p.doors or _has_shared(p, device)]
        if len(found) != 1:
            raise KeyError(f"{len(found)} properties have a door of that name")
        return found[0]


_SETTINGS = {
    "apiKeys": "api_keys",
    "webhookSecret": "webhook_secret",
    "webhookUrl": "webhook_url",
    "encoderTimeoutS": "encoder_timeout_s",
    "guestKeysUpdate": "guest_keys_update",
    "denylistCapacity": "denylist_capacity",
    "monthFirst": "is_month_first",
    "logPlaceByConnection": "keeps_place_by_connection",
    "hangsUp": "hangs_up_after_answer",
    "readsWithoutStart": "reads_without_start",
}


def _seed_door(prop: Property, row: Mapping[str, Any]) -> None:
    name = str(row["name"])
    door = prop.doors.get(name)
    if door is None:
        door = prop.doors[name] = Door(name, str(row.get("label", name)))
    door.label = str(row.get("label", door.label))
    door.is_online = bool(row.get("online", door.is_online))
    door.has_keypad = bool(row.get("keypad", door.has_keypad))
    door.authorisation = row.get("authorization", door.authorisation)
    door.battery = int(row.get("battery", door.battery))
    door.skew_s = float(row.get("clockSkewS", door.skew_s))
    if door.authorisation is None:
        room = prop.rooms.setdefault(name, Room(name))
        if row.get("outOfService"):
            room.state = RoomState.OUT_OF_SERVICE
        elif row.get("occupied") and not room.generation:
            room.state, room.generation = RoomState.OCCUPIED, 1


def _has_shared(prop: Property, device: str) -> bool:
    return any(f"auth:{door.authorisation}" == device for door in prop.doors.values())
