"""The model that judges who gets in is independent of what it judges.

One rule: it imports the standard library and what it takes for known, which imports nothing else either; and it stays short
enough to be read beside docs/who-gets-in.md.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ORACLE = Path(__file__).parents[1] / "oracle"
MODEL, FACTS = ORACLE / "model.py", ORACLE / "facts.py"
LONGEST = 300


@pytest.mark.parametrize(("module", "allowed"), [(MODEL, {"tests.oracle.facts"}), (FACTS, set())], ids=["model", "facts"])
def test_the_model_imports_nothing_but_the_standard_library(module: Path, allowed: set[str]) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert names
    assert [name for name in names if name.partition(".")[0] not in sys.stdlib_module_names and name not in allowed] == []


def test_the_model_is_short() -> None:
    assert len(MODEL.read_text(encoding="utf-8").splitlines()) <= LONGEST
