"""The tests of what happens at the door speak from outside, so that they hold whatever is rebuilt inside.

One rule: a module of `tests/cases` imports the standard library, pytest and `tests.support`, and nothing else.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parents[1] / "cases"
MODULES = sorted(CASES.rglob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_case_imports_nothing_of_the_product(module: Path) -> None:
    foreign = [name for name in _imported(module) if not _is_allowed(name)]
    assert foreign == []


def test_there_are_cases() -> None:
    assert len(MODULES) > 1


def _imported(module: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide what is imported"
            names.append(node.module or "")
    return names


def _is_allowed(name: str) -> bool:
    first = name.partition(".")[0]
    return first in sys.stdlib_module_names or first == "pytest" or name.startswith(("tests.support", "tests.cases"))
