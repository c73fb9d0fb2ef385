"""Whatever point of a flow a process dies at, the next one brings it to the end of an undisturbed run, with one effect at the door."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from lockservice.embedded.local import REPOSITORY_ROOT
from tests.support.mock_locks import MockLocks
from tests.support.sweep_flows import FLOWS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("flow", FLOWS)
def test_a_process_that_dies_anywhere_changes_nothing(
    flow: str, own_database: str, valkey_url: str, locks: MockLocks, capsys: pytest.CaptureFixture[str]
) -> None:
    place = {"setting": locks.setting, "control": locks.control, "redis": valkey_url}
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.sweep_run", flow, json.dumps(place)],
        cwd=REPOSITORY_ROOT,
        env={**os.environ, "LOCK_DB_NAME": own_database},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    told = json.loads(run.stdout)
    with capsys.disabled():
        print(f"\nflow {flow}: {len(told['points'])} points")  # noqa: T201 - the figure is the evidence
    undisturbed = told["undisturbed"]
    assert undisturbed["findings"] == []
    assert tuple(key["state"] for key in undisturbed["end"]["credentials"]) == FLOWS[flow].expected
    assert sorted(door for door, (keys, _) in undisturbed["end"]["doors"].items() if keys) == sorted(FLOWS[flow].doors)
    assert told["died"] == told["points"]  # one run for each point, none skipped
    assert told["wrong"] == [], json.dumps({"undisturbed": undisturbed["end"], "wrong": told["wrong"][:2]}, indent=1)[:6000]
