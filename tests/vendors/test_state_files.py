"""What a simulator keeps over a restart is its owner's alone to read: digits, card numbers and passwords stand in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from devices import simulated
from devices.simulated import SimulatorPlace
from lockservice.embedded.local import REPOSITORY_ROOT
from tests.vendors.test_simulators_break import HOUSE, SIMULATED


@pytest.mark.parametrize("vendor", SIMULATED)
def test_the_file_of_a_simulators_state_is_private(vendor: str, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    argv = [sys.executable, "-m", "vendors.simulate", vendor, "--port", "0", "--control-port", "0", "--state-file", str(state)]
    process = subprocess.Popen(argv, cwd=REPOSITORY_ROOT, stdout=subprocess.PIPE, text=True, umask=0o022)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        simulated.control_of(vendor, SimulatorPlace(urlsplit(ready["url"]).netloc, ready["control"])).build(HOUSE)
    finally:
        process.terminate()
        process.communicate(timeout=20)
    assert state.stat().st_mode & 0o777 == 0o600
