"""The mock's locks keep their keys over a restart of the simulator."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lockservice.embedded.local import REPOSITORY_ROOT
from vendors.mock.simulated import MockControl
from vendors.mock.simulator import BAD_STATE_FILE
from vendors.port.simulated import WantedDoor, WantedHouse
from vendors.port.types import CredentialKind
from vendors.support.control_port import ControlPort

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUSE = WantedHouse(code="inn", base=1, doors=[WantedDoor(1, "101")], utc_offset_s=0, secret="s")
ISSUE = {
    "key": "k1", "mark": "gk-1", "tag": "c-1", "kind": "pin_code", "value": "246813", "from": START.isoformat(),
    "until": (START + timedelta(days=1)).isoformat(), "doors": [{"door": "inn-1"}],
}  # fmt: skip


@contextmanager
def simulator(state: Path) -> Iterator[dict[str, str]]:
    running = subprocess.Popen(
        [sys.executable, "-m", "vendors.simulate", "mock", "--state-file", str(state)],
        cwd=REPOSITORY_ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert running.stdout is not None
        yield json.loads(running.stdout.readline())
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=10)


def control_of(ready: dict[str, str]) -> MockControl:
    return MockControl(ready["url"].removeprefix("http://"), ready["control"])


def test_a_key_is_still_there_after_a_restart_and_given_once_for_its_idempotency_key(tmp_path: Path) -> None:
    state = tmp_path / "mock.json"
    with simulator(state) as ready:
        control_of(ready).build(HOUSE)
        ControlPort(ready["url"]).post("/v1/issue", ISSUE)
        before = control_of(ready).held(["inn-1"])
        assert [(key.value, key.opens_from) for key in before] == [("246813", START)]
    assert state.stat().st_mode & 0o777 == 0o600
    with simulator(state) as ready:
        control = control_of(ready)
        assert control.held(["inn-1"]) == before
        assert control.try_door("inn-1", CredentialKind.PIN_CODE, "246813", START + timedelta(hours=1)).is_open
        ControlPort(ready["url"]).post("/v1/issue", ISSUE)
        control.build(HOUSE)
        assert control.held(["inn-1"]) == before


@pytest.mark.parametrize("content", ["{", "[]", '{"format": "other"}', '{"format": "mock-simulator-state-1", "doors": [{}]}'])
def test_a_file_that_is_none_of_ours_stops_the_start_and_stays_as_it_is(tmp_path: Path, content: str) -> None:
    state = tmp_path / "mock.json"
    state.write_text(content, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "vendors.simulate", "mock", "--state-file", str(state)],
        cwd=REPOSITORY_ROOT, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == BAD_STATE_FILE
    assert str(state) in done.stderr
    assert state.read_text(encoding="utf-8") == content
