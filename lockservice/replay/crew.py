"""The processes a replay needs: those that run already, and children of its own for the others.

One rule: what was started here ends here, whole groups of it, also when this process is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from django.conf import settings
from django.db import connection

from devices import simulated
from devices.simulated import SimulatorPlace
from lockservice.core.heartbeat import SUPERVISOR, Heartbeat
from lockservice.core.tenancy import queues
from lockservice.demo import schema
from lockservice.demo.desk_seat import Seat
from lockservice.embedded import postgres, servers, valkey
from lockservice.embedded.local import REPOSITORY_ROOT, LocalDirectory
from lockservice.embedded.process import tethered
from vendors.port.simulated import SimulatorUnreachable

FRESH_S = 6.0
"""A heartbeat younger than this may be a process that runs; they beat every one or two seconds."""
NEXT_BEAT_S = 4.0
"""A process that runs beats again within this; one that was killed a moment ago leaves a fresh row and no next beat."""

START_TIMEOUT_S, STOP_TIMEOUT_S = 20.0, 10.0
COMMANDS = {"consumer": "consume_events", "publisher": "publish_outbox"}
QUICK = {"LOCK_DB_LOGIN": "worker", "LOCK_IDLE_MAX_S": "0.012", "LOCK_LOG_LEVEL": "WARNING", "PYTHONUNBUFFERED": "1"}


class CrewFailed(RuntimeError):
    """A process did not start, or ended while it was needed. The text names its log."""


@dataclass
class _Child:
    name: str
    running: subprocess.Popen[bytes]
    log: Path


class Crew:
    """A context in which servers and simulators work, and with `runners` also a consumer, a publisher and so many saga runners.
    `place` is where the simulator of a single vendor runs, None where the settings say."""

    def __init__(
        self, local: LocalDirectory, vendors: Sequence[str], place: SimulatorPlace | None, runners: int = 0
    ) -> None:  # fmt: skip
        self._local = local
        self._given_place = place
        self.places: dict[str, SimulatorPlace] = {vendor: place or simulated.place_of(vendor) for vendor in vendors}
        self._runners = runners
        self._children: list[_Child] = []
        self._has_started_servers = False
        self.found: list[str] = []

    @property
    def started(self) -> list[str]:
        """The names of the children."""
        return [child.name for child in self._children]

    def __enter__(self) -> Self:
        try:
            self._ensure_servers()
            self._ensure_simulators()
            self._start_workers()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def check(self) -> None:
        """Raises CrewFailed when a child has ended."""
        for child in self._children:
            if child.running.poll() is not None:
                raise CrewFailed(f"{child.name} ended with status {child.running.returncode}, see {child.log}")

    def seat(self, desk: Seat) -> None:
        """Starts a gateway and a desk at it, and waits until the desk is connected. Raises CrewFailed."""
        port = self._local.port_to_listen("replay-gateway")
        self._start("gateway", ["manage.py", "bridge_gateway", "--port", str(port)], QUICK)
        self._start(f"desk-{desk.vendor}", desk.argv(port), {"PYTHONUNBUFFERED": "1"})
        deadline = time.monotonic() + START_TIMEOUT_S
        while not desk.is_connected():
            self.check()
            if time.monotonic() > deadline:
                raise CrewFailed(f"the desk does not come to the gateway, see {self._children[-1].log}")
            time.sleep(0.05)

    def _ensure_servers(self) -> None:
        if "LOCK_DB_HOST" in os.environ:
            return  # somebody else's servers
        if postgres.running_pid(self._local) is None or valkey.running_pid(self._local) is None:
            servers.start(self._local, tethered=True)
            self._has_started_servers = True
        schema.bring_up_to_date(self._local)

    def _ensure_simulators(self) -> None:
        silent = {vendor: place for vendor, place in self.places.items() if not _answers(vendor, place)}
        self.found += [f"{vendor} simulator" for vendor in self.places if vendor not in silent]
        for vendor, place in list(silent.items()):
            if self._given_place is not None:
                raise CrewFailed(f"no simulator answers at {place.control}")
            port, control_port = (self._local.port_to_listen(name) for name in (f"sim-{vendor}", f"sim-{vendor}-control"))
            silent[vendor] = self.places[vendor] = SimulatorPlace(f"127.0.0.1:{port}", f"http://127.0.0.1:{control_port}")
            ports = ["--port", str(port), "--control-port", str(control_port)]
            more = [part.replace("{local}", str(self._local.root)) for part in settings.SIMULATED_VENDORS[vendor]]
            self._start(f"simulator-{vendor}", ["-m", "vendors.simulate", vendor, *ports, *more], {})
        deadline = time.monotonic() + START_TIMEOUT_S
        while waiting := [vendor for vendor, place in silent.items() if not _answers(vendor, place)]:
            self.check()
            if time.monotonic() > deadline:
                raise CrewFailed(f"the simulator of {', '.join(waiting)} does not answer, see {self._local.log}")
            time.sleep(0.05)

    def _start_workers(self) -> None:
        alive = _fresh_heartbeats()
        for name, command in COMMANDS.items():
            if name in alive:
                self.found.append(name)
            elif self._runners:
                env = {**QUICK, "LOCK_WAKE_WORKERS": "0"}
                self._start(name, ["manage.py", command], env)
        for number in range(self._runners):
            self._start(f"sagas-{number + 1}", ["manage.py", "run_sagas"], {**QUICK, "LOCK_DB_POOL_MAX": "4"})

    def _start(self, name: str, argv: Sequence[str], env: Mapping[str, str]) -> None:
        log_path = self._local.log / f"replay-{name}.log"
        with log_path.open("ab") as log:
            running = subprocess.Popen(
                tethered([sys.executable, *argv], signal.SIGTERM),
                cwd=REPOSITORY_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **env, "LOCK_PROCESS_NAME": f"replay-{name}"},
            )  # fmt: skip
        self._children.append(_Child(name, running, log_path))

    def _end(self) -> None:
        """Workers first, so that none of them complains about a server that went before it."""
        alive = [child.running for child in self._children if child.running.poll() is None]
        for running in alive:
            running.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while any(running.poll() is None for running in alive) and time.monotonic() < deadline:
            time.sleep(0.02)
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):  # the whole group may have ended by itself
                os.killpg(child.running.pid, signal.SIGKILL)
            child.running.wait()
        self._children.clear()
        if self._has_started_servers:
            connection.close()
            servers.stop(self._local)
            self._has_started_servers = False


def _answers(vendor: str, place: SimulatorPlace) -> bool:
    try:
        simulated.control_of(vendor, place).calls(())
    except SimulatorUnreachable:
        return False
    return True


def _fresh_heartbeats() -> set[str]:
    """Returns the processes that really beat: those with a fresh row that changes while we look."""
    first = _read_heartbeats()
    beating: set[str] = set()
    ends = time.monotonic() + NEXT_BEAT_S
    while set(first) & set(COMMANDS) - beating and time.monotonic() < ends:
        time.sleep(0.1)
        now = _read_heartbeats()
        beating |= {name for name, beat_at in first.items() if now.get(name, beat_at) != beat_at}
    return beating


def _read_heartbeats() -> dict[str, datetime]:
    with queues(), connection.cursor() as cursor:
        table = Heartbeat._meta.db_table
        fresh = "beat_at > (SELECT clock_timestamp()) - make_interval(secs => %s) AND incarnation <> %s"
        cursor.execute(f"SELECT name, beat_at FROM {table} WHERE {fresh}", [FRESH_S, SUPERVISOR])  # noqa: S608
        return dict(cursor.fetchall())
