"""Keeps the simulator's state in a file, so that locks remember their codes over a restart.

One rule: the file is replaced whole and atomically; a damaged or foreign file stops the start instead of being overwritten.
"""

from __future__ import annotations

import dataclasses
import json
import os
import types
import typing
from functools import cache
from pathlib import Path

from .model import State

FORMAT = "ttlock-simulator-state-1"


def save(state: State, path: Path) -> None:
    """Writes the state. Raises OSError."""
    temporary = path.with_name(path.name + ".new")
    temporary.touch(mode=0o600)
    with temporary.open("w", encoding="utf-8") as file:
        json.dump({"format": FORMAT, "state": dataclasses.asdict(state)}, file, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def load(path: Path) -> State | None:
    """Reads the state, None when there is no file. Raises ValueError for anything else than a state file of this format."""
    if not path.exists():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} is not a state file of this simulator")
    return typing.cast("State", _thaw(State, content["state"]))


@cache
def _hints(kind: type) -> dict[str, object]:
    return typing.get_type_hints(kind)


def _thaw(kind: object, value: object) -> object:
    """Rebuilds a value of the given type from its JSON form. Handles dataclasses, lists, dicts and optional values."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        hints = _hints(kind)
        return kind(**{name: _thaw(hints[name], item) for name, item in value.items() if name in hints})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list and isinstance(value, list):
        return [_thaw(arguments[0], item) for item in value]
    if origin is dict and isinstance(value, dict):
        return {_key(arguments[0], key): _thaw(arguments[1], item) for key, item in value.items()}
    if origin in (typing.Union, types.UnionType) and value is not None:
        return _thaw(next(part for part in arguments if part is not type(None)), value)
    return value


def _key(kind: object, key: str) -> object:
    return int(key) if kind is int else key
