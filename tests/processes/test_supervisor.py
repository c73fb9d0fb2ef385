"""The supervisor starts, restarts and ends processes, and leaves none behind."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lockservice import supervisor as supervising
from lockservice.embedded import process
from lockservice.embedded.local import LocalDirectory
from lockservice.embedded.ports import free_port
from lockservice.supervisor import Console, ProcessSpec, StartFailed, Supervisor

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def local() -> Iterator[LocalDirectory]:
    with tempfile.TemporaryDirectory(prefix="lock-") as folder:
        yield LocalDirectory(Path(folder)).prepare()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _supervisor(
    local: LocalDirectory,
    *specs: ProcessSpec,
    ages: Callable[[], Mapping[str, float] | None] = dict,
    said: io.StringIO | None = None,
    **more: Any,
) -> tuple[Supervisor, io.StringIO]:
    said = said or io.StringIO()
    console = Console(said, progress=False)
    hooks = {"keep_servers": lambda: False, **more}
    return Supervisor(local, specs, console=console, heartbeat_ages=ages, **hooks), said


def _shell(name: str, script: str, **more: object) -> ProcessSpec:
    return ProcessSpec.from_settings({"name": name, "argv": ["bash", "-c", script], **more})


def _watch_until(supervisor: Supervisor, condition: Callable[[], bool]) -> None:
    """Let the supervisor work until the condition holds, then stop it."""

    def wait_and_stop() -> None:
        try:
            process.wait_until(condition, 20)
        finally:  # a condition that fails must not let the supervisor watch for ever
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
        _watch_until(supervisor, lambda: pids.exists() and len(pids.read_text().split()) >= 2)
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


# --- Ports ----------------------------------------------------------------------------------------


@pytest.fixture
def another() -> Iterator[LocalDirectory]:
    with tempfile.TemporaryDirectory(prefix="lock-") as folder:
        yield LocalDirectory(Path(folder)).prepare()


def _files(port: int, **more: Any) -> ProcessSpec:
    """Serves the directory's run folder."""
    argv = ["{python}", "-m", "http.server", "--bind", "127.0.0.1", "--directory", "{local}/run", "{port}"]
    return ProcessSpec.from_settings({"name": "files", "argv": argv, "port": port, "ready": "http:/", **more})


def _serves(local: LocalDirectory, port: int) -> bool:
    mark = f"mark-{local.root.name}"
    (local.run / mark).touch()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
        return mark in answer.read().decode()


def test_two_instances_that_choose_before_either_listens_get_ports_of_their_own(
    local: LocalDirectory, another: LocalDirectory
) -> None:
    preferred, remembered = free_port(), free_port()
    for directory in (local, another):
        (directory.run / "other.port").write_text(f"{remembered}\n")
    pair = [_supervisor(directory, _files(preferred, more_ports=["other"]))[0] for directory in (local, another)]
    assert len({port for one in pair for port in one.ports.values()}) == 4
    try:
        assert all(one.start_all(30) for one in pair)
        for one in pair:
            assert _serves(one.local, one.ports["files"])
    finally:
        for one in pair:
            one.shut_down()
    assert [directory.port("files") for directory in (local, another)] == [one.ports["files"] for one in pair]


def test_two_instances_started_at_the_same_moment_both_come_up(local: LocalDirectory, another: LocalDirectory) -> None:
    code = """
import sys
from pathlib import Path
from lockservice.embedded.local import LocalDirectory
from lockservice.supervisor import Console, ProcessSpec, Supervisor
argv = ("{python}", "-m", "http.server", "--bind", "127.0.0.1", "--directory", "{local}/run", "{port}")
specs = [ProcessSpec(name, argv, port=port, ready="http:/") for name, port in (("web", int(sys.argv[2])), ("more", 0))]
print("begun", flush=True)
sys.stdin.readline()
one = Supervisor(LocalDirectory(Path(sys.argv[1])), specs, console=Console(sys.stderr, progress=False), heartbeat_ages=dict,
                 keep_servers=lambda: False)
print(one.start_all(60), one.ports["web"], one.ports["more"], flush=True)
sys.stdin.readline()
one.shut_down()
"""
    preferred = str(free_port())
    begun = [
        subprocess.Popen([sys.executable, "-c", code, str(directory.root), preferred], cwd=ROOT, text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for directory in (local, another)
    ]  # fmt: skip
    for word in ("begun\n", ""):
        for one in begun:
            assert one.stdin is not None
            assert one.stdout is not None
            if word:
                assert one.stdout.readline() == word
    for one in begun:
        one.stdin.write("go\n")  # type: ignore[union-attr]  # looked at above
        one.stdin.flush()  # type: ignore[union-attr]
    answers = [one.stdout.readline().split() for one in begun]  # type: ignore[union-attr]
    ports = [int(port) for _, *chosen in answers for port in chosen]
    try:
        assert [word for word, *_ in answers] == ["True", "True"]
        assert len(set(ports)) == 4
        for directory, (_, web, more) in zip((local, another), answers, strict=True):
            assert _serves(directory, int(web))
            assert _serves(directory, int(more))
    finally:
        for one in begun:
            one.communicate("end\n", timeout=30)


def test_a_port_that_somebody_takes_before_the_process_listens_is_given_up_and_who_uses_it_follows(
    local: LocalDirectory,
) -> None:
    told = local.root / "told"
    user = _shell("user", f"echo {{port:files}} >> {told}; exec sleep 100")
    supervisor, said = _supervisor(local, _files(free_port()), user)
    before = supervisor.ports["files"]
    with socket.create_server(("127.0.0.1", before)):
        try:
            assert supervisor.start_all(40)
            now = supervisor.ports["files"]
            assert now != before
            assert _serves(local, now)
            assert local.port("files") == now
            _watch_until(supervisor, lambda: told.exists() and told.read_text().split()[-1:] == [str(now)])
        finally:
            supervisor.shut_down()
    assert told.read_text().split() == [str(before), str(now)]
    assert f"somebody else listens at port {before}; files moves to {now}" in said.getvalue()
    assert "user ended" not in said.getvalue()


@pytest.mark.parametrize("ready", ["listens", "http:/"])
def test_a_stranger_who_answers_at_the_port_is_not_taken_for_the_process(local: LocalDirectory, ready: str) -> None:
    spec = ProcessSpec.from_settings({"name": "late", "argv": ["sleep", "100"], "port": free_port(), "ready": ready})
    supervisor, _ = _supervisor(local, spec)
    stranger, _ = _supervisor(local, _files(0))
    stranger.ports["files"] = supervisor.ports["late"]
    try:
        assert stranger.start_all(20)
        assert not supervisor.start_all(2)
    finally:
        supervisor.shut_down()
        stranger.shut_down()


# --- What does not start --------------------------------------------------------------------------


def test_what_fails_five_times_is_told_in_red_with_its_reason_and_slows_down(
    local: LocalDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("_FIRST_PAUSE_S", 0.05), ("_LONGEST_PAUSE_S", 0.2), ("_FAILING_PAUSE_S", 0.8)):
        monkeypatch.setattr(supervising, name, seconds)
    starts = local.root / "starts"
    script = f"date +%s.%N >> {starts}; echo 'it began'; echo 'CommandError: cannot listen: [Errno 98]'; echo; exit 1"
    noted: list[dict[str, str]] = []
    supervisor, said = _supervisor(
        local, _shell("broken", script), said=Terminal(), tell_failing=lambda failing: bool(noted.append(dict(failing))) or True
    )
    supervisor._children[0].pause_s = 0.05
    _watch_until(supervisor, lambda: starts.exists() and len(starts.read_text().split()) >= 9)
    supervisor.shut_down()
    told = "broken has ended 5 times in a row: CommandError: cannot listen: [Errno 98]"
    assert f"\033[1;31m{told}\033[0m" in said.getvalue()
    assert "4 times in a row" not in said.getvalue()
    assert noted[0] == {}
    assert noted[1] == {"broken": "ended 5 times in a row: CommandError: cannot listen: [Errno 98]"}
    at = [float(line) for line in starts.read_text().split()]
    assert at[8] - at[7] >= 0.8


def test_a_process_that_runs_again_is_no_longer_told_as_failing(local: LocalDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("_FIRST_PAUSE_S", 0.05), ("_LONGEST_PAUSE_S", 0.1), ("_STEADY_AFTER_S", 1.0)):
        monkeypatch.setattr(supervising, name, seconds)
    starts = local.root / "starts"
    script = f"echo . >> {starts}; [ $(wc -l < {starts}) -gt 6 ] && exec sleep 100; echo 'no luck'; exit 1"
    noted: list[dict[str, str]] = []
    refuse_once = iter([False, False])

    def note(failing: Mapping[str, str]) -> bool:
        noted.append(dict(failing))
        return next(refuse_once, True)  # the database is away at first

    supervisor, said = _supervisor(local, _shell("unlucky", script), tell_failing=note)
    supervisor._children[0].pause_s = 0.05
    _watch_until(supervisor, lambda: "unlucky runs again" in said.getvalue() and noted[-1] == {})
    supervisor.shut_down()
    assert {"unlucky": "ended 5 times in a row: no luck"} in noted
    assert noted[:3] == [{}, {}, {}]  # again until it could be noted


def test_a_failed_round_of_the_supervisor_is_told_and_the_next_one_follows(local: LocalDirectory) -> None:
    rounds: list[int] = []

    def keep() -> bool:
        rounds.append(1)
        if len(rounds) <= 2:
            raise RuntimeError("no more memory")
        return False

    supervisor, said = _supervisor(local, _shell("steady", "exec sleep 100"), keep_servers=keep)
    _watch_until(supervisor, lambda: len(rounds) > 4)
    supervisor.shut_down()
    assert said.getvalue().count("the supervisor met an error and goes on: RuntimeError: no more memory") == 2


def test_servers_that_moved_to_another_port_start_the_processes_again(local: LocalDirectory) -> None:
    pids, moves = local.root / "pids", iter([False, True])
    supervisor, said = _supervisor(
        local, _shell("user", f"echo $$ >> {pids}; exec sleep 100"), keep_servers=lambda: next(moves, False)
    )
    try:
        assert supervisor.start_all(10)
        _watch_until(supervisor, lambda: pids.exists() and len(pids.read_text().split()) == 2)
    finally:
        supervisor.shut_down()
    assert "user ended" not in said.getvalue()


def test_a_log_that_cannot_be_written_stops_nobody(local: LocalDirectory) -> None:
    (local.log / "talker.log").mkdir()
    done = local.root / "done"
    supervisor, said = _supervisor(local, _shell("talker", f"seq 1 20000; touch {done}; exec sleep 100"))
    try:
        supervisor.start_all(10)
        assert process.wait_until(done.exists, 20)  # more than a pipe holds
    finally:
        supervisor.shut_down()
    assert "the log of talker cannot be written" in said.getvalue()
