"""One command from nothing to an open door, on a directory of its own, leaving nothing behind."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from tests.support.own_service import OwnService


@pytest.mark.timeout(600)
def test_the_first_key_opens_the_door_from_nothing_and_again_at_the_other_hotel(tmp_path: Path) -> None:
    service = OwnService(tmp_path / "local")
    first = service.manage("first_key")
    assert first.returncode == 0, first.stdout + first.stderr
    assert re.search(r"door \d+ opens \(valid\), \d+\.\d\d s after the booking", first.stdout)
    assert service.processes() == []

    second = service.manage("first_key", "--property", "rudaki", "--room", "202")
    assert second.returncode == 0, second.stdout + second.stderr
    assert re.search(r"door 202 opens \(\w+\)", second.stdout), second.stdout
    assert service.processes() == []


@pytest.mark.timeout(120)
def test_a_room_or_house_that_is_not_there_is_said_before_anything_starts(tmp_path: Path) -> None:
    service = OwnService(tmp_path / "local")
    for arguments, reason in ((("--room", "999"), "has no room 999"), (("--property", "Ritz"), "no such house")):
        done = service.manage("first_key", *arguments)
        assert (done.returncode, reason in done.stderr) == (1, True), done.stderr
    assert service.processes() == []


@pytest.mark.chaos
@pytest.mark.timeout(300)
@pytest.mark.parametrize("patience_s", [0.5, 4, 9])
def test_an_interrupt_at_any_moment_of_the_start_leaves_no_process(tmp_path: Path, patience_s: float) -> None:
    service = OwnService(tmp_path / "local")
    running = service.start("first_key")
    time.sleep(patience_s)
    was_over = running.poll() is not None  # a quick machine may have opened the door by then
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=90)
    assert (running.returncode == 0) == was_over
    assert service.processes() == []
