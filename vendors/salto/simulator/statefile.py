"""Keeps properties over a restart: keys, cards and phones, and what each door has learnt. One JSON file, replaced whole.

One rule: what a restart of the vendor forgets is not kept (connections, certificates, faults, encode jobs under way), nor is
the clock. A damaged or foreign file stops the start instead of being overwritten.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from .model import Carrier, Door, Encoder, Image, Key, Property, Room, RoomState
from .world import World

FORMAT = "salto-simulator-state-1"
PLAIN = (
    "id", "api_keys", "webhook_secret", "webhook_url", "encoder_timeout_s", "guest_keys_update", "connector_up",
    "denylist_capacity", "denylist", "events",
)  # fmt: skip
LATER = ("is_month_first", "keeps_place_by_connection", "hangs_up_after_answer", "reads_without_start")
"""What files of earlier versions lack; the usual value is taken then."""
PARTS: Mapping[str, type[Any]] = {"rooms": Room, "doors": Door, "encoders": Encoder, "keys": Key}


def save(world: World, path: Path) -> None:
    """Writes the properties beside the file and puts the result in its place. Under the world's lock. Raises OSError."""
    content = {"format": FORMAT, "properties": [_property(prop) for prop in world.properties.values()]}
    beside = path.with_name(f"{path.name}.new")
    beside.touch(mode=0o600)
    with beside.open("w", encoding="utf-8") as file:
        json.dump(content, file, default=_plain, ensure_ascii=False, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def load(world: World, path: Path) -> None:
    """Puts the kept properties into an empty world; nothing where there is no file. Raises ValueError for a foreign file."""
    if not path.exists():
        return
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_hook=_special)
        if content["format"] != FORMAT:
            raise ValueError(f"{path.name} has another format")
        for row in content["properties"]:
            world.properties[row["id"]] = _read(world, row)
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is no state of this simulator") from error


def _property(prop: Property) -> dict[str, Any]:
    number = next(prop.numbers)
    prop.numbers = itertools.count(number)
    parts = {name: [asdict(item) for item in getattr(prop, name).values()] for name in PARTS}
    return {
        **{name: getattr(prop, name) for name in (*PLAIN, *LATER)},
        **parts,
        "zone": prop.zone.key,
        "next_number": number,
        "carriers": [asdict(carrier) for carrier in prop.carriers.values()],
        "kept_answers": prop.kept_answers,
    }


def _read(world: World, row: dict[str, Any]) -> Property:
    prop = Property(row["id"], world.clock, ZoneInfo(row["zone"]), row["api_keys"])
    for name in (*PLAIN, *(name for name in LATER if name in row)):
        setattr(prop, name, row[name])
    for name, kind in PARTS.items():
        # the first field of each part is its name
        setattr(prop, name, {item[fields(kind)[0].name]: kind(**item) for item in row[name]})
    for room in prop.rooms.values():
        room.state = RoomState(room.state)
    for item in row["carriers"]:
        image = item.pop("image")
        prop.carriers[item["number"]] = Carrier(image=Image(**image) if image else None, **item)
    prop.kept_answers = {key: (digest, status, body) for key, (digest, status, body) in row["kept_answers"].items()}
    prop.numbers = itertools.count(row["next_number"])
    for key in prop.keys.values():
        if key.status == "waiting_card":
            key.status, key.operation = "cancelled", ""
    return prop


def _plain(value: object) -> dict[str, Any]:
    if isinstance(value, datetime):
        return {"$instant": value.isoformat()}
    if isinstance(value, frozenset):
        return {"$frozenset": sorted(value)}
    if isinstance(value, set):
        return {"$set": sorted(value)}
    raise TypeError(f"{type(value).__name__} is not kept")


def _special(row: dict[str, Any]) -> Any:
    if len(row) == 1:
        ((name, value),) = row.items()
        if name == "$instant":
            return datetime.fromisoformat(value)
        if name in {"$set", "$frozenset"}:
            return set(value) if name == "$set" else frozenset(value)
    return row
