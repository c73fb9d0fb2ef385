"""Keeps a simulated world over a restart, as one JSON file.

One rule: it is written beside and moved into place, so that a kill leaves the old or the new, never half of one.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from .world import Card, Door, Encoder, House, Line, World

FORMAT = 1


def save(world: World, path: Path) -> None:
    """Writes the world. Raises OSError."""
    with world.lock:
        document = {"format": FORMAT, "houses": [_house(house) for house in world.houses.values()]}
    beside = path.with_name(f"{path.name}.new")
    beside.touch(mode=0o600)
    beside.write_text(json.dumps(document, default=_plain), encoding="utf-8")
    beside.replace(path)


def load(world: World, path: Path) -> None:
    """Reads the world back, if there is a file. Raises ValueError, KeyError, TypeError for one that is none of ours."""
    if not path.exists():
        return
    document = json.loads(path.read_text(encoding="utf-8"))
    if document.get("format") != FORMAT:
        raise ValueError("a state file of another kind")
    with world.lock:
        for row in document["houses"]:
            house = _read_house(row)
            world.houses[house.code] = house


def _house(house: House) -> dict[str, Any]:
    row = asdict(house)
    for kind in ("doors", "encoders", "cards"):
        row[kind] = list(row[kind].values())
    return row


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(type(value).__name__)


def _read_house(row: dict[str, Any]) -> House:
    doors = [_read_door(door) for door in row.pop("doors")]
    encoders = [Encoder(**encoder) for encoder in row.pop("encoders")]
    cards = [_read_card(card) for card in row.pop("cards")]
    return House(
        **row,
        doors={door.number: door for door in doors},
        encoders={encoder.name: encoder for encoder in encoders},
        cards={card.uid: card for card in cards},
    )


def _read_door(row: dict[str, Any]) -> Door:
    lines = row.pop("lines").values()
    read = [
        Line(**line | {"starts": datetime.fromisoformat(line["starts"]), "ends": datetime.fromisoformat(line["ends"])})
        for line in lines
    ]
    return Door(**row, lines={line.entry: line for line in read})


def _read_card(row: dict[str, Any]) -> Card:
    blocks = {int(sector): bytes.fromhex(blob) for sector, blob in row.pop("blocks").items()}
    return Card(**row, blocks=blocks)
