"""Runs the service's processes on one machine: starts, watches, restarts and ends them.

The one rule: it leaves nothing behind. Every child has a process group of its own that is ended as a
whole, and the kernel ends a child whose supervisor died without a word. Knows no framework; what
needs Django (heartbeats, addresses) is handed in.

Children are started from the main thread only: Linux ties "parent death" to the thread that made
the child.
"""

from __future__ import annotations

import contextlib
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
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from lockservice.embedded import process
from lockservice.embedded.local import LocalDirectory, port_is_free, replace_file

HeartbeatAges = Callable[[], Mapping[str, float] | None]
"""Gives the seconds since each named heartbeat, or None while the database cannot be asked."""
KeepServers = Callable[[], bool]
"""Brings dead database servers back; says whether one of them is to be found elsewhere since then."""
TellFailing = Callable[[Mapping[str, str]], bool]
"""Is told which processes do not start, with the reason, and says whether it could note that."""

_ROUND_S = 0.1
_HEARTBEAT_ROUND_S = 2.0
_PROBE_TIMEOUT_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _FAILING_PAUSE_S = 0.5, 15.0, 60.0
_STEADY_AFTER_S = 60.0
_FAILING_AFTER = 5
"""So many starts in a row that came to nothing are told, and slow the next ones down."""
_LAST_WORDS = 40
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
    running: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    next_start_at: float = 0.0
    pause_s: float = _FIRST_PAUSE_S
    ready: bool = False
    failures_count: int = 0
    last_words: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_WORDS))

    @property
    def is_failing(self) -> bool:
        return self.failures_count >= _FAILING_AFTER

    @property
    def reason(self) -> str:
        """The last thing it said, for people."""
        return next((text for line in reversed(self.last_words) if (text := _plain(line))), "it said nothing")


class Console:
    """Lines for the person who watches, and one live line on a terminal."""

    def __init__(self, out: TextIO, *, progress: bool) -> None:
        self._out = out
        self._live = progress and out.isatty()
        self._colours = out.isatty()
        self._lock = threading.Lock()
        self._open = True

    def say(self, text: str) -> None:
        """Write one line."""
        self._write(f"\r\033[K{text}\n" if self._live else f"{text}\n")

    def alarm(self, text: str) -> None:
        """Write one line that must be seen: red on a terminal."""
        self.say(f"\033[1;31m{text}\033[0m" if self._colours else text)

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
        keep_servers: KeepServers,
        tell_failing: TellFailing = lambda failing: True,
    ) -> None:
        """Choose the ports; starts nothing."""
        self.local = local
        self.console = console
        self._heartbeat_ages = heartbeat_ages
        self._keep_servers = keep_servers
        self._tell_failing = tell_failing
        self._told_failing: dict[str, str] | None = None
        self._stop = threading.Event()
        self._parent_pid: int | None = None
        self._hurry = False
        self._readers: dict[int, threading.Thread] = {}
        self.instance = os.urandom(4).hex()
        self.ports = {name: port for spec in specs for name, port in self._choose_ports(spec).items()}
        self._children = [_Child(spec) for spec in specs]
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
        child = _Child(ProcessSpec(name, tuple(argv), env))
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

    def await_early(self, timeout_s: float = 150.0) -> bool:
        """Wait for those that were started early, and say whether all were ready within the time. Raises as `start_all`."""
        return self._await([child for child in self._children if child.spec.before_seeding], timeout_s)

    def start_all(self, timeout_s: float = 150.0) -> bool:
        """Start all processes at once and say whether all were ready within the time.

        Raises:
            Stopped: the user asked to stop meanwhile.
        """
        return self._await(self._children, timeout_s)

    def watch(self, on_ready: Callable[[], None] | None = None) -> None:
        """Keep everything running until a signal comes. `on_ready` is called once all are ready."""
        while not self._is_told_to_stop():
            try:
                self._look_after(self._children)
            except Exception as error:  # noqa: BLE001 - a round that failed must not end what goes on without it
                self.console.alarm(f"the supervisor met an error and goes on: {type(error).__name__}: {error}")
                self._stop.wait(_FIRST_PAUSE_S)
            if on_ready is not None and all(child.ready for child in self._children):
                on_ready()
                on_ready = None

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

    def _await(self, children: Sequence[_Child], timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        waiting = [child.spec.name for child in children]
        while time.monotonic() < deadline:
            self._look_after(children)
            waiting = [child.spec.name for child in children if not child.ready]
            if not waiting:
                return True
            self.console.progress(f"waiting for {', '.join(waiting)}")
            if self._is_told_to_stop():
                raise Stopped
        self.console.say(f"not ready after {timeout_s:.0f} s, still trying: {', '.join(waiting)}")
        return False

    def _look_after(self, children: Sequence[_Child]) -> None:
        if self._keep_servers():
            self.console.say("a server is to be found at another port now; starting the processes again")
            self._restart(self._children)
        self._read_heartbeats()
        now = time.monotonic()
        for child in children:
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
            elif child.failures_count and now - child.started_at > _STEADY_AFTER_S:
                self._note_steady(child)
        self._tell_who_fails()

    def _note_end(self, child: _Child, now: float) -> None:
        running = child.running
        assert running is not None  # noqa: S101 - the caller looked, for the type checker
        self._kill_group(running.pid)  # nothing of it may live on beside its successor
        self._join_readers(running)
        if now - child.started_at > _STEADY_AFTER_S:
            child.failures_count, child.pause_s = 0, _FIRST_PAUSE_S
        child.failures_count += 1
        child.next_start_at = now + child.pause_s
        name, log_file = child.spec.name, self.local.log / f"{child.spec.name}.log"
        ended = f"{name} ended ({_ending(running.returncode)})"
        self.console.say(f"{ended}; again in {child.pause_s:.1f} s, see {log_file}")
        if child.is_failing:
            self.console.alarm(f"{name} has ended {child.failures_count} times in a row: {child.reason}")
        child.pause_s = min(child.pause_s * 2, _FAILING_PAUSE_S if child.is_failing else _LONGEST_PAUSE_S)
        child.running = None
        child.ready = False
        self._leave_lost_ports(child)

    def _note_steady(self, child: _Child) -> None:
        if child.is_failing:
            self.console.say(f"{child.spec.name} runs again")
        child.failures_count, child.pause_s = 0, _FIRST_PAUSE_S

    def _tell_who_fails(self) -> None:
        """Have it noted which processes do not start; again in the next round if that was not possible."""
        failing = {
            child.spec.name: f"ended {child.failures_count} times in a row: {child.reason}"
            for child in self._children
            if child.is_failing  # until it has run for a while: who is ready at once may end at once
        }
        if failing != self._told_failing and self._tell_failing(failing):
            self._told_failing = failing

    def _leave_lost_ports(self, child: _Child) -> None:
        """Choose other ports for a process that ended and whose own somebody else has; who uses them is started again."""
        names = [name for name in self._port_names(child.spec) if not port_is_free(self.ports[name])]
        for name in names:
            before, preferred = self.ports[name], child.spec.port if name == child.spec.name else 0
            self.ports[name] = self._choose_port(name, preferred or 0)
            self.console.alarm(f"somebody else listens at port {before}; {name} moves to {self.ports[name]}")
        if names:
            self._restart([other for other in self._children if other is not child and self._uses(other.spec, names)])

    def _restart(self, children: Iterable[_Child]) -> None:
        """End processes that run; the next round starts them again. That is no failure of theirs."""
        ended = [child for child in children if child.running is not None]
        self._end(ended, 5.0)
        for child in ended:
            child.running, child.ready, child.next_start_at = None, False, 0.0

    @staticmethod
    def _port_names(spec: ProcessSpec) -> tuple[str, ...]:
        return (*((spec.name,) if spec.port is not None else ()), *spec.more_ports)

    @staticmethod
    def _uses(spec: ProcessSpec, names: Sequence[str]) -> bool:
        texts = (*spec.argv, *spec.env.values())
        return any(f"{{port:{name}}}" in text for name in names for text in texts)

    def _is_ready(self, child: _Child, now: float) -> bool:
        how, _, what = child.spec.ready.partition(":")
        if how == "http":
            port = self.ports[child.spec.name]
            return _answers(port, what) and _is_listener(child, port)
        if how == "listens":
            port = self.ports[child.spec.name]
            return _listens(port) and _is_listener(child, port)
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
        child.last_words.clear()
        child.running = subprocess.Popen(
            process.tethered(self._fill(child.spec.argv, child.spec), signal.SIGTERM),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=self._environment(child.spec),
        )
        reader = threading.Thread(target=self._copy_output, args=(child, child.running), daemon=True)
        reader.start()
        self._readers = {pid: old for pid, old in self._readers.items() if old.is_alive()} | {child.running.pid: reader}

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

    def _copy_output(self, child: _Child, running: subprocess.Popen[bytes]) -> None:
        output, name = running.stdout, child.spec.name
        assert output is not None  # noqa: S101 - opened with PIPE, for the type checker
        log = _Log(self.local.log / f"{name}.log")
        with output:
            for raw in output:
                line = raw.decode("utf-8", errors="replace").rstrip("\n")
                child.last_words.append(line)
                try:
                    log.write(f"{name} | {line}\n")
                except OSError as error:  # a full disk; who is not read any more would stand still
                    self.console.alarm(f"the log of {name} cannot be written: {error}")
                if loud := _loud(line):
                    self.console.say(f"{name} | {loud}")
        log.close()

    def _join_readers(self, running: subprocess.Popen[bytes] | None = None) -> None:
        for pid, reader in list(self._readers.items()):
            if running is None or pid == running.pid:
                reader.join(2.0)

    # --- settings to commands -------------------------------------------------------------------

    def _choose_ports(self, spec: ProcessSpec) -> dict[str, int]:
        chosen = {} if spec.port is None else {spec.name: self._choose_port(spec.name, spec.port)}
        return chosen | {name: self._choose_port(name, 0) for name in spec.more_ports}

    def _choose_port(self, name: str, preferred: int) -> int:
        if not preferred:
            return self.local.port_to_listen(name)
        port = self.local.prefer_port(name, range(preferred, preferred + _PORT_TRIES))
        if port is None:
            raise StartFailed(f"no free port for {name} from {preferred} on")
        return port

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


class _Log:
    """A log that is appended to; a full one is kept once under `.1`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._open: TextIO | None = None

    def write(self, text: str) -> None:
        """Append and flush. Raises OSError."""
        if self._open is not None and self._open.tell() > _LOG_LIMIT_BYTES:
            self.close()
        if self._open is None:
            if self._file.exists() and self._file.stat().st_size > _LOG_LIMIT_BYTES:
                self._file.rename(self._file.with_name(f"{self._file.name}.1"))
            self._open = self._file.open("a", encoding="utf-8")
        self._open.write(text)
        self._open.flush()

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._open is not None:
            with contextlib.suppress(OSError):  # what is still in the buffer was told of when it was written
                self._open.close()
            self._open = None


def _loud(line: str) -> str:
    """Give a line as a person should see it, a JSON record of a warning or worse in words; empty for what only the log needs.

    A database that is away is told once by who keeps it, not by every connection that notices; a request by its own line.
    """
    record = _record(line)
    if record is None:
        return line if line.startswith("{") or _LOUD_WORDS.search(line) else ""
    if record.get("level") not in _LOUD_LEVELS or record.get("logger") in _TOLD_ELSEWHERE:
        return ""
    return f"{record['level']}: {record.get('event', '')}"


def _plain(line: str) -> str:
    """Give a line in words: a JSON record's event with its error, any other as it is."""
    record = _record(line)
    if record is None:
        return line.strip()
    parts = (record.get("event"), record.get("error"), str(record.get("exception", "")).strip().rpartition("\n")[2])
    return ": ".join(str(part) for part in parts if part)


def _record(line: str) -> dict[str, Any] | None:
    """Give a JSON record; None for anything else, such as half a record of something that died while writing."""
    try:
        record = json.loads(line) if line.startswith("{") else None
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


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


def _is_listener(child: _Child, port: int) -> bool:
    """Say whether it is the child, or a process of its group, that listens at the port: it could be anybody."""
    group = child.running.pid if child.running is not None else 0
    inodes = _listening_inodes(port)
    return any(inodes & _open_sockets(folder) for folder in Path("/proc").iterdir() if _is_in_group(folder, group))


def _listening_inodes(port: int) -> set[str]:
    """Source: proc_pid_net(5): local_address in hexadecimal, state 0A is LISTEN, the tenth field is the inode."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and int(row[1].partition(":")[2], 16) == port}


def _is_in_group(folder: Path, group: int) -> bool:
    try:
        return folder.name.isdigit() and os.getpgid(int(folder.name)) == group
    except ProcessLookupError:
        return False


def _open_sockets(folder: Path) -> set[str]:
    found = set()
    for handle in _entries(folder / "fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            found.add(str(handle.readlink()))
    return found


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []  # the process has ended


def _ending(code: int) -> str:
    return f"status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
