"""What a statement reads to find what it wants: the plans of everything that runs inside a block, and where in our sources it came from.

One rule: a plan is taken in the statement's own transaction, under its own role and tenant, just before the statement runs. It is
taken with ANALYZE inside a savepoint that is rolled back, so rows and pages are those really read.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import connection

from lockservice.embedded.local import REPOSITORY_ROOT

ROOMS = ("credentials", "devices", "lockservice", "sagas")
OFTEN = 15
"""A statement's plan differs with its values; the first few times are looked at."""
_EXPLAINED = re.compile(r"\s*(SELECT|UPDATE|DELETE|INSERT|WITH)\b", re.IGNORECASE)
_CLOCK = re.compile(r"clock_timestamp|STATEMENT_TIMESTAMP")
_LITERAL = re.compile(r"'(?:[^']|'')*'|\b\d+(?:\.\d+)?\b")


@dataclass(frozen=True, slots=True)
class Scan:
    """One scan of a plan: how many rows it read, those it threw away included, and the condition that an index answered."""

    kind: str
    table: str
    index: str
    rows: int
    condition: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A statement and what it read. `places` are functions of ours on the way to it, innermost first: (file, name).

    `unaided` are tables that no index was of use for: read in sequence although that was forbidden. `is_timed`: it was given an
    instant, or reads a clock.
    """

    sql: str
    places: tuple[tuple[str, str], ...]
    scans: tuple[Scan, ...]
    pages: int
    unaided: tuple[str, ...]
    is_timed: bool
    text: str = field(repr=False)

    @property
    def shape(self) -> str:
        """The statement without its values."""
        return _LITERAL.sub("?", " ".join(self.sql.split()))


@contextmanager
def watched() -> Iterator[list[Plan]]:
    """Take the plan of every statement that this thread runs in a transaction, up to OFTEN times for each statement of ours."""
    plans: list[Plan] = []
    seen: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()

    def wrapper(execute: Any, statement: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        places = _places()
        if not many and connection.in_atomic_block and _EXPLAINED.match(statement) and "set_config(" not in statement:
            mark = (statement, places[:1])
            seen[mark] += 1
            if seen[mark] <= OFTEN:
                plans.append(_take(statement, params, places))
        return execute(statement, params, many, context)

    with connection.execute_wrapper(wrapper):
        yield plans


def _take(statement: str, params: Any, places: tuple[tuple[str, str], ...]) -> Plan:
    raw = connection.connection
    with raw.cursor() as cursor:
        cursor.execute("SAVEPOINT plan")
        cursor.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement, params)
        document = cursor.fetchone()[0][0]
        text = raw.cursor().mogrify(statement, params)
        cursor.execute("ROLLBACK TO SAVEPOINT plan")
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN (FORMAT JSON) " + statement, params)
        without = cursor.fetchone()[0][0]
        cursor.execute("ROLLBACK TO SAVEPOINT plan")
        cursor.execute("RELEASE SAVEPOINT plan")
    root = document["Plan"]
    pages = root.get("Shared Hit Blocks", 0) + root.get("Shared Read Blocks", 0)
    unaided = sorted({scan.table for scan in _scans(without["Plan"]) if scan.kind == "Seq Scan"})
    return Plan(
        statement,
        places,
        tuple(_scans(root)),
        pages,
        tuple(unaided),
        _is_timed(statement, params),
        f"{text}\n{json.dumps(document, indent=1)}",
    )


def _is_timed(statement: str, params: Any) -> bool:
    values = params.values() if isinstance(params, dict) else params or ()
    return bool(_CLOCK.search(statement)) or any(isinstance(value, datetime) for value in values)


def _scans(node: dict[str, Any]) -> Iterator[Scan]:
    kind = node["Node Type"]
    if "Relation Name" in node and kind.endswith("Scan"):
        removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
        rows = (node.get("Actual Rows", 0) + removed) * node.get("Actual Loops", 1)
        parts = [node, *_below(node)] if kind == "Bitmap Heap Scan" else [node]
        indexes = [part for part in parts if "Index Name" in part] or [node]
        for index in indexes:
            yield Scan(kind, node["Relation Name"], index.get("Index Name", ""), int(rows), index.get("Index Cond", ""))
    for below in node.get("Plans", ()):
        yield from _scans(below)


def _below(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for child in node.get("Plans", ()):
        yield child
        yield from _below(child)


def _places() -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    frame = sys._getframe(2)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(REPOSITORY_ROOT) and path.relative_to(REPOSITORY_ROOT).parts[0] in ROOMS:
            name = frame.f_code.co_qualname.partition(".<locals>")[0]
            place = (path.relative_to(REPOSITORY_ROOT).as_posix(), name)
            if place not in found:
                found.append(place)
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)
