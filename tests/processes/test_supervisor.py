"""The supervisor starts, restarts and ends processes, and leaves none behind."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from lockservice.embedded import process
from lockservice.embedded.local import LocalDirectory
from lockservice.supervisor import Console, ProcessSpec, StartFailed, Supervisor

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def local() -> Iterator[LocalDirectory]:
    with tempfile.TemporaryDirectory(prefix="lock-") as folder:
        yield LocalDirectory(Path(folder)).prepare()


def _supervisor(
    local: LocalDirectory,
    *specs: ProcessSpec,
    ages: Callable[[], Mapping[str, float] | None] = dict,
) -> tuple[Supervisor, io.StringIO]:
    said = io.StringIO()
    console = Console(said, progress=False)
    return Supervisor(local, specs, console=console, heartbeat_ages=ages, keep_servers=lambda: None), said


def _shell(name: str, script: str, **more: object) -> ProcessSpec:
    return ProcessSpec.from_settings({"name": name, "argv": ["bash", "-c", script], **more})


def _watch_until(supervisor: Supervisor, condition: Callable[[], bool]) -> None:
    """Let the supervisor work until the condition holds, then stop it."""

    def wait_and_stop() -> None:
        process.wait_until(condition, 20)
        supervisor._on_signal(0, None)

    helper = threading.Thread(target=wait_and_stop)
    helper.start()
    supervisor.watch()
    helper.join()


def test_a_process_that_ends_is_started_again(local: LocalDirectory) -> None:
    marks = local.root / "marks"
    supervisor, said = _supervisor(local, _shell("short", f"echo . >> {marks}; sleep 0.5; exit 3"))
    try:
        assert supervisor.start_all(5)
        _watch_until(supervisor, lambda: marks.exists() and marks.read_text().count(".") >= 2)
    finally:
        supervisor.shut_down()
    assert "short ended (status 3); again in 0.5 s" in said.getvalue()


def test_a_process_and_its_children_that_ignore_the_polite_signal_are_gone_too(local: LocalDirectory) -> None:
    pids = local.root / "pids"
    script = f"trap '' TERM; (trap '' TERM; echo $BASHPID >> {pids}; sleep 100; sleep 100) & echo $$ >> {pids}; wait; wait"
    supervisor, _ = _supervisor(local, _shell("stubborn", script))
    supervisor.start_all(5)
    assert process.wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, 5)
    supervisor.shut_down(grace_s=0.3)
    gone = [int(pid) for pid in pids.read_text().split()]
    assert process.wait_until(lambda: not any(process.is_alive(pid) for pid in gone), 5)


def test_a_silent_process_is_restarted(local: LocalDirectory) -> None:
    pids = local.root / "pids"
    spec = _shell("quiet", f"echo $$ >> {pids}; exec sleep 100", ready="heartbeat:quiet", silent_after_s=0.5)
    born = time.monotonic()
    # One sign of life when it started, none after.
    supervisor, said = _supervisor(local, spec, ages=lambda: {"quiet": max(0.0, time.monotonic() - born - 0.4)})
    try:
        assert supervisor.start_all(10)
        _watch_until(supervisor, lambda: len(pids.read_text().split()) >= 2)
    finally:
        supervisor.shut_down()
    assert "quiet gave no sign of life" in said.getvalue()


def test_readiness_by_port_and_placeholders(local: LocalDirectory) -> None:
    argv = ["{python}", "-m", "http.server", "--bind", "127.0.0.1", "--directory", "{local}/run", "{port}"]
    spec = ProcessSpec.from_settings({"name": "files", "argv": argv, "port": 0, "ready": "http:/", "more_ports": ["other"]})
    supervisor, _ = _supervisor(local, spec)
    ready_file = local.root / "ready.json"
    try:
        assert supervisor.start_all(20)
        supervisor.write_ready_file(ready_file)
        assert f'"files": "http://127.0.0.1:{local.port("files")}"' in ready_file.read_text()
        assert supervisor.ports == {"files": local.port("files"), "other": local.port("other")}
    finally:
        supervisor.shut_down()


def test_a_failing_step_is_told_with_its_last_words(local: LocalDirectory) -> None:
    supervisor, _ = _supervisor(local)
    with pytest.raises(StartFailed, match="no such table"):
        supervisor.run_step("prepare", ["bash", "-c", "echo no such table; exit 1"], {})


def test_only_warnings_reach_the_console_and_everything_the_log(local: LocalDirectory) -> None:
    script = """echo '{"level": "info", "event": "usual"}'; echo '{"level": "warning", "event": "strange"}'; echo plain
        echo '{"level": "warning", "event": "error connecting", "logger": "psycopg.pool"}'"""
    supervisor, said = _supervisor(local)
    supervisor.run_step("talker", ["bash", "-c", script], {})
    assert said.getvalue() == "talker | warning: strange\n"
    assert (local.log / "talker.log").read_text().splitlines() == [
        'talker | {"level": "info", "event": "usual"}',
        'talker | {"level": "warning", "event": "strange"}',
        "talker | plain",
        'talker | {"level": "warning", "event": "error connecting", "logger": "psycopg.pool"}',
    ]


def test_children_end_when_the_supervisor_is_killed(local: LocalDirectory) -> None:
    pid_file = local.root / "pid"
    code = f"""
import sys
from pathlib import Path
from lockservice.embedded.local import LocalDirectory
from lockservice.supervisor import Console, ProcessSpec, Supervisor
spec = ProcessSpec("child", ("bash", "-c", "echo $$ > {pid_file}; exec sleep 100"))
supervisor = Supervisor(LocalDirectory(Path({str(local.root)!r})), [spec], console=Console(sys.stdout, progress=False),
                        heartbeat_ages=dict, keep_servers=lambda: None)
supervisor.start_all()
supervisor.watch()
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=os.environ.copy()) as starter:
        assert process.wait_until(lambda: pid_file.exists() and bool(pid_file.read_text()), 10)
        child = int(pid_file.read_text())
        assert process.is_alive(child)
        starter.kill()
    assert process.wait_until(lambda: not process.is_alive(child), 5)
