"""Which variants of a test `make test` leaves to `make chaos` where a folder is too large to play all: every other one.

The values of several parameters are dealt out like the squares of a chessboard, so that each value of each is played. Tests begin
with the first or the second square by their name, so that a value which many tests share is played by about half of them.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import pytest


def left_out(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the variants that are left out. The order of the items does not matter; one variant of each test stays at the least."""
    tests: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for name, variants in tests.items():
        if len(variants) < 2:
            continue
        variants.sort(key=attrgetter("nodeid"))
        squares = _squares(variants)
        if len(set(squares)) < 2:  # values that come in fixed pairs
            squares = [number % 2 for number in range(len(variants))]
        first = zlib.crc32(name.encode()) % 2
        yield from (item for item, square in zip(variants, squares, strict=True) if square != first)


def _squares(variants: list[Any]) -> list[int]:
    """Return the colour of each variant's square, 0 or 1."""
    rows = [{name: _label(value) for name, value in item.callspec.params.items()} for item in variants]
    values = {name: sorted({row[name] for row in rows}) for name in rows[0]}
    return [sum(values[name].index(value) for name, value in row.items()) % 2 for row in rows]


def _label(value: object) -> str:
    """Return a text that is the same in every process: all workers must play the same tests."""
    return str(getattr(value, "__qualname__", "")) or re.sub(r" at 0x[0-9a-f]+", "", repr(value))
