"""The demo starts on a machine that has other things to do, and beside another demo."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.own_service import OwnService

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(700)]

READY_WITHIN_S = 300.0
Record = Callable[[str, object], None]


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keeps so many processes at full speed."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.wait()


@contextmanager
def demos(*folders: Path) -> Iterator[list[tuple[OwnService, dict[str, int], float]]]:
    """Starts a demo in each folder at once; gives each with its ports and the seconds until it was ready."""
    started = time.monotonic()
    services = [OwnService(folder / "local") for folder in folders]
    files = [folder / "ready.json" for folder in folders]
    running = [
        service.start("up", "--no-progress", "--ready-file", str(file)) for service, file in zip(services, files, strict=True)
    ]
    took: dict[Path, float] = {}
    try:
        while len(took) < len(files):
            for up, file in zip(running, files, strict=True):
                assert up.poll() is None, up.stdout.read() if up.stdout else ""
                if file.exists():
                    took.setdefault(file, time.monotonic() - started)
            assert time.monotonic() - started < READY_WITHIN_S, "not ready in time"
            time.sleep(0.2)
        ports = [json.loads(file.read_text())["ports"] for file in files]
        yield [(service, found, took[file]) for service, found, file in zip(services, ports, files, strict=True)]
    finally:
        for up in running:
            up.terminate()
        for up in running:
            print(up.communicate(timeout=90)[0])  # noqa: T201 - pytest shows it beside a failure
        assert [line for service in services for line in service.processes()] == []


def _a_door_opens(service: OwnService) -> None:
    first = service.manage("first_key")
    assert first.returncode == 0, first.stdout + first.stderr
    assert " opens (valid)" in first.stdout


def test_the_demo_starts_and_a_door_opens_beside_four_busy_processes(tmp_path: Path, record_property: Record) -> None:
    with busy(4), demos(tmp_path) as [(service, _, took_s)]:
        _a_door_opens(service)
        record_property("figure", f"demo beside four busy processes: ready after {took_s:.0f} s")


def test_two_demos_that_start_at_once_get_ports_of_their_own_and_both_open_a_door(
    tmp_path: Path, record_property: Record
) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with demos(*folders) as pair:
        ports = [port for _, found, _ in pair for port in found.values()]
        assert len(set(ports)) == len(ports)
        for service, _, _ in pair:
            _a_door_opens(service)
        took = " and ".join(f"{took_s:.0f}" for _, _, took_s in pair)
        record_property("figure", f"two demos at once: ready after {took} s")
