"""Keeps the mock's doors in a file, so that locks remember their keys over a restart of the simulator.

One rule: the file is replaced whole and atomically; a damaged or foreign file stops the start instead of being overwritten.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from vendors.port.types import Window

from .doors import Key, Ledger, LockAtDoor

FORMAT = "mock-simulator-state-1"


def save(ledger: Ledger, path: Path) -> None:
    """Writes all doors. Raises OSError."""
    with ledger.lock:
        doors = [asdict(door) for door in ledger.all_doors()]
        content = {"format": FORMAT, "seeded": ledger.is_seeded, "doors": doors}
        text = json.dumps(content, default=_plain, separators=(",", ":"))
    temporary = path.with_name(f"{path.name}.new")
    temporary.touch(mode=0o600)
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def load(ledger: Ledger, path: Path) -> bool:
    """Puts the kept doors into an empty ledger; False when there is no file.

    Raises ValueError for anything else than a state file of this format.
    """
    if not path.exists():
        return False
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} is not a state file of this simulator")
    ledger.restore([_door(row) for row in content["doors"]], seeded=bool(content["seeded"]))
    return True


def _door(row: dict[str, Any]) -> LockAtDoor:
    keys = {ref: Key(**{**key, "window": _window(key["window"])}) for ref, key in row["keys"].items()}
    return LockAtDoor(**{**row, "keys": keys})


def _window(row: dict[str, str]) -> Window:
    return Window(datetime.fromisoformat(row["valid_from"]), datetime.fromisoformat(row["valid_until"]))


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no place in a state file")
