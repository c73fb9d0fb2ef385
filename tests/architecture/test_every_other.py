"""Every test of a thinned folder keeps a variant in `make test`, and each value of each parameter is played by one or the other."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.every_other import left_out


def _items(test: str, rows: list[dict[str, Any]]) -> list[Any]:
    items: list[Any] = []
    for row in rows:
        variant = "-".join(map(str, row.values()))
        items.append(SimpleNamespace(nodeid=f"{test}[{variant}]", callspec=SimpleNamespace(params=row)))
    return items


@pytest.mark.parametrize("test", ["one", "two", "three", "four"])
def test_half_is_played_and_every_value_is(test: str) -> None:
    rows = [{"system": system, "late": late} for system, late in itertools.product("abc", (False, True))]
    items = _items(test, rows)
    gone = list(left_out(reversed(items)))
    played = [item.callspec.params for item in items if item not in gone]
    assert len(played) == 3
    assert {row["system"] for row in played} == set("abc")
    assert {row["late"] for row in played} == {False, True}


def test_values_that_come_in_pairs_are_dealt_out_too() -> None:
    items = _items("pairs", [{"old": "a", "new": "x"}, {"old": "b", "new": "y"}, {"old": "c", "new": "x"}])
    assert len(list(left_out(items))) in (1, 2)


def test_a_single_variant_and_a_test_without_are_always_played() -> None:
    assert list(left_out([*_items("alone", [{"system": "a"}]), SimpleNamespace(nodeid="plain")])) == []  # type: ignore[list-item]
