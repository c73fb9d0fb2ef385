"""Whatever point of a flow a process dies at, the next one brings it to the end of an undisturbed run, with one effect at the door.

A process dies wherever what is left behind differs from the point before: after every commit, publish, acknowledgement and call, and
before one if anything was received, sent or written in between. `make test` does so in a few flows, `make chaos` in the others. It also
dies at each third of the other points, which leave the same behind as the point before (test_repeated_points.py), and at all of the
long flows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lockservice.embedded.local import REPOSITORY_ROOT
from tests.support.mock_locks import MockLocks
from tests.support.sweep_flows import FLOWS, LONG_FLOWS, TTLOCK_FLOWS, Flow
from tests.support.sweep_ttlock import TtlockCloud

Record = Callable[[str, object], None]

OFTEN = (
    "issue", "issue with the answer lost", "update of dates and room", "revoke", "suspend", "unsuspend", "replace",
    "cancelled during issue",
)  # fmt: skip
"""Flows that `make test` disturbs: each verb once, a lost answer, and an end while the vendor works."""


@pytest.fixture
def place(valkey_url: str, locks: MockLocks) -> dict[str, str]:
    """Give where a flow's vendor and bus are."""
    return {"setting": locks.setting, "control": locks.control, "redis": valkey_url}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", OFTEN)
def test_a_process_that_dies_anywhere_changes_nothing(
    name: str, own_database: str, place: dict[str, str], record_property: Record
) -> None:
    told = _sweep(name, FLOWS[name], own_database, place, record_property, "distinct")
    assert _left_out_wrongly(told) == []


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(set(FLOWS) - set(OFTEN)))
def test_a_process_that_dies_anywhere_in_a_rarer_flow_changes_nothing(
    name: str, own_database: str, place: dict[str, str], record_property: Record
) -> None:
    told = _sweep(name, FLOWS[name], own_database, place, record_property, "distinct and some repeats")
    assert _left_out_wrongly(told) == []


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", OFTEN)
def test_a_process_that_dies_anywhere_where_it_left_nothing_new_changes_nothing(
    name: str, own_database: str, place: dict[str, str], record_property: Record
) -> None:
    told = _sweep(name, FLOWS[name], own_database, place, record_property, "some repeats")
    assert told["chosen"]


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", LONG_FLOWS)
def test_a_process_that_dies_anywhere_in_a_long_flow_changes_nothing(
    name: str, own_database: str, place: dict[str, str], record_property: Record
) -> None:
    _sweep(name, LONG_FLOWS[name], own_database, place, record_property, "all")


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TTLOCK_FLOWS)
def test_a_process_that_dies_anywhere_between_two_gateways_changes_nothing(
    name: str, own_database: str, valkey_url: str, cloud: TtlockCloud, record_property: Record
) -> None:
    place = {"ttlock_url": cloud.url, "ttlock_control": cloud.control, "redis": valkey_url}
    _sweep(name, TTLOCK_FLOWS[name], own_database, place, record_property, "distinct and some repeats")


def _left_out_wrongly(told: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the points that were left out though something was done before them. Whatever is done is died after: by its own name,
    or by that of the first thing which happened while a call was out."""
    points, walked = told["points"], set(told["chosen"])
    assert len(points) >= 12  # at the least: an event taken, a call planned, made and recorded, its events told
    assert 1 in walked
    left_out = [(points[number - 2], point) for number, point in enumerate(points, 1) if number not in walked]
    return [
        (before, point)
        for before, point in left_out
        if ": before " not in point and before.partition(":")[0] == point.partition(":")[0]
    ]


def _sweep(name: str, flow: Flow, database: str, place: dict[str, str], record_property: Record, which: str) -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.sweep_run", name, json.dumps(place), which],
        cwd=REPOSITORY_ROOT,
        env={**os.environ, "LOCK_DB_NAME": database},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    told = json.loads(run.stdout)
    record_property("figure", f"flow {name}: {len(told['points'])} points, died at {len(told['died'])} ({which})")
    undisturbed = told["undisturbed"]
    assert undisturbed["findings"] == []
    assert tuple(key["state"] for key in undisturbed["end"]["credentials"]) == flow.expected
    assert sorted(door for door, (keys, _) in undisturbed["end"]["doors"].items() if keys) == sorted(flow.doors)
    assert told["died"] == [told["points"][number - 1] for number in told["chosen"]]  # one run for each, none skipped
    assert told["wrong"] == [], json.dumps({"undisturbed": undisturbed["end"], "wrong": told["wrong"][:2]}, indent=1)[:6000]
    return dict(told)
