"""Runs the service's processes on one machine: starts, watches, restarts and ends them.

The one rule: it leaves nothing behind. Every child has a process group of its own that is ended as a
whole, and the kernel ends a child whose supervisor died without a word. Knows no framework; what
needs Django (heartbeats, addresses) is handed in.

Children are started from the main thread only: Linux ties "parent death" to the thread that made
the child.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from lockservice.embedded import process
from lockservice.embedded.local import LocalDirectory, port_is_free, replace_file

HeartbeatAges = Callable[[], Mapping[str, float] | None]
"""Gives the seconds since each named sign of life, or None while the database cannot be asked."""

_ROUND_S = 0.1
_HEARTBEAT_ROUND_S = 2.0
_PROBE_TIMEOUT_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0
_STEADY_AFTER_S = 60.0
_LOG_LIMIT_BYTES = 20 * 1024 * 1024
_PORT_TRIES = 50
_LOUD_LEVELS = frozenset({"warning", "error", "critical"})
_TOLD_ELSEWHERE = frozenset({"psycopg.pool", "django_structlog.middlewares.request"})
_LOUD_WORDS = re.compile(r"\b(WARNING|ERROR|CRITICAL|FATAL|Traceback)\b")
_PLACEHOLDER = re.compile(r"\{(\w+)(?::([\w-]+))?\}")


class StartFailed(RuntimeError):
    """A step before the processes failed; the message names its log. Trying again needs a repair."""


class Stopped(Exception):
    """The user asked to stop while the start was still under way."""


@dataclass(frozen=True)
class ProcessSpec:
    """One process as the settings describe it.

    `ready` is `http:<path>` on the process's port, `listens` for a port that takes connections,
    `heartbeat:<row name>`, or empty for "as soon as it runs". `port` is the preferred one, 0 for any
    that is then remembered, None for no port; `more_ports` names further ones. A process with a
    heartbeat is restarted when it is silent for `silent_after_s` seconds of real time. `before_seeding`
    processes need no database and are started before demo data is made.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ready: str = ""
    port: int | None = None
    more_ports: tuple[str, ...] = ()
    silent_after_s: float = 20.0
    before_seeding: bool = False

    @classmethod
    def from_settings(cls, entry: Mapping[str, Any]) -> ProcessSpec:
        """Read one entry of UP_PROCESSES; an unknown key raises TypeError."""
        return cls(**{**entry, "argv": tuple(entry["argv"]), "more_ports": tuple(entry.get("more_ports", ()))})


@dataclass
class _Child:
    spec: ProcessSpec
    command: list[str]
    env: dict[str, str]
    running: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    next_start_at: float = 0.0
    pause_s: float = _FIRST_PAUSE_S
    ready: bool = False
    starts_count: int = 0


class Console:
    """Lines for the person who watches, and one live line on a terminal."""

    def __init__(self, out: TextIO, *, progress: bool) -> None:
        self._out = out
        self._live = progress and out.isatty()
        self._lock = threading.Lock()
        self._open = True

    def say(self, text: str) -> None:
        """Write one line."""
        self._write(f"\r\033[K{text}\n" if self._live else f"{text}\n")

    def progress(self, text: str) -> None:
        """Replace the live line; nothing without a terminal."""
        if self._live:
            self._write(f"\r\033[K{text}")

    def _write(self, text: str) -> None:
        with self._lock:
            if not self._open:
                return
            try:
                self._out.write(text)
                self._out.flush()
            except (BrokenPipeError, ValueError):
                self._open = False  # whoever read us has gone; the service goes on, logs have it all


class Supervisor:
    """Starts and watches the processes of one local directory until it is told to stop."""

    def __init__(
        self,
        local: LocalDirectory,
        specs: Sequence[ProcessSpec],
        *,
        console: Console,
        heartbeat_ages: HeartbeatAges,
        keep_servers: Callable[[], None],
    ) -> None:
        """Choose the ports; starts nothing. `keep_servers` brings dead database servers back."""
        self.local = local
        self.console = console
        self._heartbeat_ages = heartbeat_ages
        self._keep_servers = keep_servers
        self._stop = threading.Event()
        self._parent_pid: int | None = None
        self._hurry = False
        self._readers: list[threading.Thread] = []
        self.instance = os.urandom(4).hex()
        self.ports = {spec.name: self._choose_port(spec.name, spec.port) for spec in specs if spec.port is not None}
        self.ports |= {name: self._choose_port(name, 0) for spec in specs for name in spec.more_ports}
        self._children = [_Child(spec, self._fill(spec.argv, spec), self._environment(spec)) for spec in specs]
        self._ages: Mapping[str, float] = {}
        self._ages_read_at = 0.0

    @property
    def urls(self) -> dict[str, str]:
        """The addresses of the processes that have a port."""
        return {name: f"http://127.0.0.1:{port}" for name, port in self.ports.items()}

    def catch_signals(self) -> None:
        """Let SIGINT, SIGTERM and SIGHUP stop everything in order; a second one hurries."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def end_with_parent(self) -> None:
        """Stop everything also when the process that started this one is gone."""
        self._parent_pid = os.getppid()

    def run_step(self, name: str, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Run one command to its end before the processes start, its output in `log/<name>.log`.

        Raises:
            StartFailed: it ended with an error.
            Stopped: the user asked to stop meanwhile.
        """
        child = _Child(ProcessSpec(name, tuple(argv)), self._fill(argv, None), {**self._common_environment(name), **env})
        log_file = self.local.log / f"{name}.log"
        self._spawn(child)
        running = child.running
        assert running is not None  # noqa: S101 - set by _spawn, for the type checker
        while running.poll() is None:
            if self._is_told_to_stop():
                self._end([child])
                raise Stopped
        self._join_readers()
        if running.returncode != 0:
            tail = "\n".join(log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
            raise StartFailed(f"{name} failed, see {log_file}:\n{tail}")

    def start_early(self) -> None:
        """Start what needs no database, without waiting for it to be ready."""
        for child in self._children:
            if child.spec.before_seeding:
                self._spawn(child)

    def start_rest(self) -> None:
        """Start what has not been started yet, without waiting for it to be ready."""
        for child in self._children:
            if child.running is None:
                self._spawn(child)

    def start_all(self, timeout_s: float = 150.0) -> bool:
        """Start all processes at once and say whether all were ready within the time.

        Raises:
            Stopped: the user asked to stop meanwhile.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self._look_after()
            waiting = [child.spec.name for child in self._children if not child.ready]
            if not waiting:
                return True
            self.console.progress(f"waiting for {', '.join(waiting)}")
            if self._is_told_to_stop():
                raise Stopped
        self.console.say(f"not ready after {timeout_s:.0f} s, still trying: {', '.join(waiting)}")
        return False

    def watch(self) -> None:
        """Keep everything running until a signal comes."""
        while not self._is_told_to_stop():
            self._look_after()

    def shut_down(self, grace_s: float = 12.0) -> None:
        """End all children and their process groups; at most `grace_s` seconds, then by force."""
        self._end(self._children, grace_s)
        self._join_readers()

    def write_ready_file(self, file: Path) -> None:
        """Tell other programs where everything is, as one JSON object (mode 0600)."""
        found = {"pid": os.getpid(), "local": str(self.local.root), "urls": self.urls, "ports": self.ports}
        replace_file(file, json.dumps(found, indent=2) + "\n")

    # --- watching -------------------------------------------------------------------------------

    def _is_told_to_stop(self) -> bool:
        """Wait for one round; say whether a signal came or the parent is gone."""
        orphaned = self._parent_pid is not None and os.getppid() != self._parent_pid
        return orphaned or self._stop.wait(_ROUND_S)

    def _look_after(self) -> None:
        self._keep_servers()
        self._read_heartbeats()
        now = time.monotonic()
        for child in self._children:
            if child.running is None:
                if now >= child.next_start_at:
                    self._spawn(child)
            elif child.running.poll() is not None:
                self._note_end(child, now)
            elif not child.ready:
                child.ready = self._is_ready(child, now)
            elif self._is_silent(child, now):
                self.console.say(f"{child.spec.name} gave no sign of life for {child.spec.silent_after_s:.0f} s; restarting it")
                self._end([child], 5.0)
                self._note_end(child, now)

    def _note_end(self, child: _Child, now: float) -> None:
        running = child.running
        assert running is not None  # noqa: S101 - the caller looked, for the type checker
        self._kill_group(running.pid)  # nothing of it may live on beside its successor
        child.pause_s = _FIRST_PAUSE_S if now - child.started_at > _STEADY_AFTER_S else child.pause_s
        child.next_start_at = now + child.pause_s
        log_file = self.local.log / f"{child.spec.name}.log"
        self.console.say(
            f"{child.spec.name} ended ({_ending(running.returncode)}); again in {child.pause_s:.1f} s, see {log_file}"
        )
        child.pause_s = min(child.pause_s * 2, _LONGEST_PAUSE_S)
        child.running = None
        child.ready = False

    def _is_ready(self, child: _Child, now: float) -> bool:
        how, _, what = child.spec.ready.partition(":")
        if how == "http":
            return _answers(self.ports[child.spec.name], what)
        if how == "listens":
            return _listens(self.ports[child.spec.name])
        if how == "heartbeat":
            return self._ages.get(what, float("inf")) < now - child.started_at
        return True

    def _is_silent(self, child: _Child, now: float) -> bool:
        how, _, what = child.spec.ready.partition(":")
        if how != "heartbeat" or now - child.started_at < child.spec.silent_after_s:
            return False
        return self._ages.get(what, 0.0) > child.spec.silent_after_s

    def _read_heartbeats(self) -> None:
        pause_s = _HEARTBEAT_ROUND_S if all(child.ready for child in self._children) else 0.3
        if time.monotonic() - self._ages_read_at < pause_s:
            return
        if any(child.spec.ready.startswith("heartbeat") for child in self._children):
            self._ages = self._heartbeat_ages() or {}
        self._ages_read_at = time.monotonic()

    # --- starting and ending --------------------------------------------------------------------

    def _spawn(self, child: _Child) -> None:
        child.started_at = time.monotonic()
        child.starts_count += 1
        child.running = subprocess.Popen(
            process.tethered(child.command, signal.SIGTERM),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=child.env,
        )
        reader = threading.Thread(target=self._copy_output, args=(child.spec.name, child.running), daemon=True)
        reader.start()
        self._readers = [*(old for old in self._readers if old.is_alive()), reader]

    def _end(self, children: Sequence[_Child], grace_s: float = 12.0) -> None:
        alive = [child.running for child in children if child.running is not None and child.running.poll() is None]
        for running in alive:
            running.terminate()
        deadline = time.monotonic() + grace_s
        while any(running.poll() is None for running in alive) and time.monotonic() < deadline and not self._hurry:
            time.sleep(0.02)
        for child in children:
            if child.running is not None:
                self._kill_group(child.running.pid)
                child.running.wait()

    def _kill_group(self, pid: int) -> None:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # all of the group has ended by itself

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._hurry = self._stop.is_set()
        self._stop.set()

    # --- output ---------------------------------------------------------------------------------

    def _copy_output(self, name: str, running: subprocess.Popen[bytes]) -> None:
        output = running.stdout
        assert output is not None  # noqa: S101 - opened with PIPE, for the type checker
        log = _open_log(self.local.log / f"{name}.log")
        with output:
            for raw in output:
                if log.tell() > _LOG_LIMIT_BYTES:
                    log.close()
                    log = _open_log(self.local.log / f"{name}.log")
                line = raw.decode("utf-8", errors="replace").rstrip("\n")
                log.write(f"{name} | {line}\n")
                log.flush()
                if loud := _loud(line):
                    self.console.say(f"{name} | {loud}")
        log.close()

    def _join_readers(self) -> None:
        for reader in self._readers:
            reader.join(2.0)

    # --- settings to commands -------------------------------------------------------------------

    def _choose_port(self, name: str, preferred: int) -> int:
        if not preferred:
            return self.local.port_to_listen(name)
        for port in range(preferred, preferred + _PORT_TRIES):
            if port_is_free(port):
                replace_file(self.local.run / f"{name}.port", f"{port}\n")
                return port
        raise StartFailed(f"no free port for {name} from {preferred} on")

    def _fill(self, argv: Sequence[str], spec: ProcessSpec | None) -> list[str]:
        def value(found: re.Match[str]) -> str:
            word, other = found.groups()
            if word == "port":
                return str(self.ports[other or (spec.name if spec else "")])
            return {"python": sys.executable, "local": str(self.local.root), "instance": self.instance}[word]

        return [_PLACEHOLDER.sub(value, part) for part in argv]

    def _environment(self, spec: ProcessSpec) -> dict[str, str]:
        own = {name: self._fill([value], spec)[0] for name, value in spec.env.items()}
        return {**self._common_environment(spec.name), **own}

    def _common_environment(self, name: str) -> dict[str, str]:
        return {**os.environ, "PYTHONUNBUFFERED": "1", "LOCK_PROCESS_NAME": name}


def _open_log(file: Path) -> TextIO:
    """Open a log for appending; a full one is kept once under `.1`."""
    if file.exists() and file.stat().st_size > _LOG_LIMIT_BYTES:
        file.rename(file.with_name(f"{file.name}.1"))
    return file.open("a", encoding="utf-8")


def _loud(line: str) -> str:
    """Give a line as a person should see it, a JSON record of a warning or worse in words; empty for what only the log needs.

    A database that is away is told once by who keeps it, not by every connection that notices; a request by its own line.
    """
    if line.startswith("{"):
        try:
            record = json.loads(line)
        except ValueError:
            return line  # half a record: something died while writing
        if record.get("level") not in _LOUD_LEVELS or record.get("logger") in _TOLD_ELSEWHERE:
            return ""
        return f"{record['level']}: {record.get('event', '')}"
    return line if _LOUD_WORDS.search(line) else ""


def _answers(port: int, path: str) -> bool:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=_PROBE_TIMEOUT_S)
    try:
        line.request("GET", path)
        return line.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False  # not listening yet
    finally:
        line.close()


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), _PROBE_TIMEOUT_S):
            return True
    except OSError:
        return False  # not listening yet


def _ending(code: int) -> str:
    return f"status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
