"""Whatever point of a flow a process dies at, the next one brings it to the end of an undisturbed run, with one effect at the door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from lockservice.embedded.local import REPOSITORY_ROOT
from tests.support.mock_locks import MockLocks
from tests.support.sweep_flows import FLOWS, LONG_FLOWS, TTLOCK_FLOWS, Flow
from tests.support.sweep_ttlock import TtlockCloud

Record = Callable[[str, object], None]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FLOWS)
def test_a_process_that_dies_anywhere_changes_nothing(
    name: str, own_database: str, valkey_url: str, locks: MockLocks, record_property: Record
) -> None:
    _sweep(
        name,
        FLOWS[name],
        own_database,
        {"setting": locks.setting, "control": locks.control, "redis": valkey_url},
        record_property,
    )


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", LONG_FLOWS)
def test_a_process_that_dies_anywhere_in_a_long_flow_changes_nothing(
    name: str, own_database: str, valkey_url: str, locks: MockLocks, record_property: Record
) -> None:
    place = {"setting": locks.setting, "control": locks.control, "redis": valkey_url}
    _sweep(name, LONG_FLOWS[name], own_database, place, record_property)


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TTLOCK_FLOWS)
def test_a_process_that_dies_anywhere_between_two_gateways_changes_nothing(
    name: str, own_database: str, valkey_url: str, cloud: TtlockCloud, record_property: Record
) -> None:
    place = {"ttlock_url": cloud.url, "ttlock_control": cloud.control, "redis": valkey_url}
    _sweep(name, TTLOCK_FLOWS[name], own_database, place, record_property)


def _sweep(name: str, flow: Flow, database: str, place: dict[str, str], record_property: Record) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.sweep_run", name, json.dumps(place)],
        cwd=REPOSITORY_ROOT,
        env={**os.environ, "LOCK_DB_NAME": database},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    told = json.loads(run.stdout)
    record_property("figure", f"flow {name}: {len(told['points'])} points")
    undisturbed = told["undisturbed"]
    assert undisturbed["findings"] == []
    assert tuple(key["state"] for key in undisturbed["end"]["credentials"]) == flow.expected
    assert sorted(door for door, (keys, _) in undisturbed["end"]["doors"].items() if keys) == sorted(flow.doors)
    assert len(told["points"]) >= 12  # at the least: an event taken, a call planned, made and recorded, its events told
    assert told["died"] == told["points"]  # one run for each point, none skipped
    assert told["wrong"] == [], json.dumps({"undisturbed": undisturbed["end"], "wrong": told["wrong"][:2]}, indent=1)[:6000]
