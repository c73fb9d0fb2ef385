"""Keeps the houses over a restart: one JSON file, replaced whole.

One rule: what a restart of a vendor forgets (sessions, tokens) is not kept, and neither is the clock.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from .model import Encoder, House, Image, Job, Key, Lock, Phone

PARTS: dict[str, type[Any]] = {
    "locks": Lock,
    "keys": Key,
    "cards": Image,
    "phones": Phone,
    "encoders": Encoder,
    "jobs": Job,
}
INSTANTS = frozenset({"start", "end"})
LATER = frozenset({"overwrite", "on_card", "overwrote", "told", "version"})
"""What files of earlier versions lack; the usual value is taken then."""
LISTS_OF_TUPLES = frozenset({"guest", "common"})


def save(houses: dict[str, House], path: Path) -> None:
    """Writes the houses beside the file and puts the result in its place."""
    content = json.dumps([asdict(house) for house in houses.values()], default=_plain, ensure_ascii=False)
    beside = path.with_suffix(".new")
    beside.touch(mode=0o600)
    beside.write_text(content, encoding="utf-8")
    beside.replace(path)


def load(path: Path) -> dict[str, House]:
    """Reads the houses; none where there is no file. Raises ValueError for a file that is no state."""
    if not path.exists():
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {row["code"]: _house(row) for row in rows}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path.name} is no state of this simulator") from error


def _house(row: dict[str, Any]) -> House:
    for name, kind in PARTS.items():
        row[name] = {part: kind(**_read(kind, values)) for part, values in row[name].items()}
    row["windows"] = [(datetime.fromisoformat(a), datetime.fromisoformat(b)) for a, b in row["windows"]]
    row["answers"] = {key: tuple(answer) for key, answer in row["answers"].items()}
    row["bucket"] = None
    row.setdefault("names_doors", False)
    return House(**row)


def _read(kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    read = {f.name: values[f.name] for f in fields(kind) if f.name not in LATER or f.name in values}
    for name in INSTANTS & read.keys():
        read[name] = datetime.fromisoformat(read[name])
    if "told" in read:
        read["told"] = {key: (word, Image(**_read(Image, image))) for key, (word, image) in read["told"].items()}
    if kind is Image:
        read |= {name: tuple(read[name]) for name in LISTS_OF_TUPLES}
    return read


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not kept")
