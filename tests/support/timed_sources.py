"""Where our sources compare with a clock: raw statements that read one or are given an instant, and filters of querysets.

One rule: found by reading the sources, never by a list, so that a new statement cannot be forgotten.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from lockservice.embedded.local import REPOSITORY_ROOT
from tests.support.plans import ROOMS

Place = tuple[str, str]
"""File and name of a function: `("sagas/claims.py", "wake_due")`."""

BARE = re.compile(r"(?<!SELECT )clock_timestamp\(\)")
"""The volatile function outside of a subquery."""
_COMPARED = re.compile(r"[<>]=?\s*%(?:s|\(\w+\)s)")
_CLOCKS = frozenset({"NOW_SQL"})
_BEFORE_AND_AFTER = ("__lt", "__lte", "__gt", "__gte", "__range")
_NO_INSTANT = frozenset(
    {"id__gt", "battery_percent__lt", "clock_skew_ms__range", "attempts__gt", "repairs_count__gt", "written__lt"}
)
"""Filters that compare something else."""


def bare_clocks() -> list[str]:
    """Return the lines, outside of migrations, that read the clock where an index cannot be used."""
    found = []
    for name, text in _sources():
        for number, line in enumerate(text.splitlines(), start=1):
            if BARE.search(line) and name != "lockservice/core/clock.py":
                found.append(f"{name}:{number}")
    return found


def timed_places() -> Mapping[Place, str]:
    """Return the functions that compare with an instant, and what shows it. Constants of a module count for who names them."""
    found: dict[Place, str] = {}
    for name, text in _sources():
        tree = ast.parse(text)
        constants = dict(_constants(tree))
        for function, node in _functions(tree):
            if why := _why(node, constants):
                found[name, function] = why
    return found


def _sources() -> Iterator[tuple[str, str]]:
    for room in ROOMS:
        for path in sorted((REPOSITORY_ROOT / room).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path.relative_to(REPOSITORY_ROOT).as_posix(), path.read_text(encoding="utf-8")


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            if isinstance(target, ast.Name) and (why := _why(node, {})):
                yield target.id, why


def _functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{inside}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{inside}{node.name}.")


def _why(tree: ast.AST, constants: Mapping[str, str]) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_statement(node.value):
            return node.value.strip()
        if isinstance(node, ast.Name) and (node.id in _CLOCKS or node.id in constants):
            return node.id
        if isinstance(node, ast.Attribute) and node.attr in _CLOCKS:
            return node.attr
        if isinstance(node, ast.keyword) and node.arg and _compares_instants(node.arg):
            return node.arg
    return ""


def _is_statement(text: str) -> bool:
    return bool(_COMPARED.search(text)) or ("clock_timestamp()" in text and text.strip() != "SELECT clock_timestamp()")


def _compares_instants(name: str) -> bool:
    return name.endswith(_BEFORE_AND_AFTER) and name not in _NO_INSTANT
