"""`manage.py up`: the whole service on this machine, with its own database and broker.

The one rule: Ctrl-C, a closed terminal or the death of this process ends everything it started.
"""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connection, connections
from django.utils.module_loading import import_string

from lockservice.core import heartbeat, tenancy
from lockservice.core.outage import through_outages
from lockservice.demo import schema
from lockservice.embedded import postgres, servers, valkey
from lockservice.embedded.local import LocalDirectory
from lockservice.supervisor import Console, ProcessSpec, StartFailed, Stopped, Supervisor

log = structlog.get_logger(__name__)
_SERVERS_ROUND_S = 1.0
_SEEDING_S = 60.0
"""So long an outage of the database is waited out while demo data is made."""


class Command(BaseCommand):
    help = "Starts PostgreSQL, Valkey, migrations, demo data and all processes; Ctrl-C stops all of them."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--port", type=int, help="preferred port of the web process; the next free one is taken")
        parser.add_argument("--ready-file", type=Path, help="write addresses as JSON when everything is ready")
        parser.add_argument("--no-progress", action="store_true", help="no live line, for logs")
        parser.add_argument("--end-with-parent", action="store_true", help="stop when the starting process is gone")
        parser.add_argument("--without", action="append", default=[], metavar="NAME", help="leave a process out")

    def handle(self, *_args: Any, **options: Any) -> None:
        local: LocalDirectory = settings.LOCAL_DIRECTORY
        started_at = time.monotonic()
        _log_apart(local)
        with _only_one(local):
            console = Console(sys.stdout, progress=not options["no_progress"])
            supervisor = Supervisor(
                local,
                _specs(options["port"], options["without"]),
                console=console,
                heartbeat_ages=_heartbeat_ages,
                keep_servers=_ServerKeeper(local, console),
                tell_failing=_tell_failing,
            )
            supervisor.catch_signals()
            if options["end_with_parent"]:
                supervisor.end_with_parent()
            try:
                self._run(supervisor, options["ready_file"], started_at)
            except Stopped:
                console.say("stopped before everything was ready")
            except (StartFailed, postgres.PostgresError, valkey.ValkeyError) as error:
                raise CommandError(str(error)) from error
            except Exception as error:
                log.exception("up.failed")
                raise CommandError(f"the start failed: {type(error).__name__}: {error}; see {local.log / 'up.log'}") from error
            finally:
                console.progress("stopping")
                supervisor.shut_down()
                connection.close()
                servers.stop(local)
                if options["ready_file"]:
                    options["ready_file"].unlink(missing_ok=True)
                console.say("everything has stopped")

    def _run(self, supervisor: Supervisor, ready_file: Path | None, started_at: float) -> None:
        console, local = supervisor.console, supervisor.local
        console.progress("starting PostgreSQL and Valkey")
        supervisor.start_early()
        servers.start(local, tethered=True)
        _follow_servers(local)
        if not schema.is_current(local):
            console.progress("bringing the schema up to date")
            argv = ["{python}", "manage.py", "migrate", "--verbosity", "1"]
            supervisor.run_step("migrate", argv, {"LOCK_DB_LOGIN": "owner"})
        supervisor.start_rest()
        supervisor.await_early()
        for name in settings.UP_SEEDERS:
            console.progress(f"demo data: {name}")
            _seed(name, local)

        def announce() -> None:
            console.say(f"ready after {time.monotonic() - started_at:.1f} s; Ctrl-C stops everything; logs in {local.log}")
            for name, url in supervisor.urls.items():
                console.say(f"  {name:<28}{url}")
            if settings.UP_ANNOUNCE:
                console.say(import_string(settings.UP_ANNOUNCE)(supervisor.urls))
            if ready_file:
                supervisor.write_ready_file(ready_file)

        supervisor.start_all()  # what is not ready by then is told, and waited for
        supervisor.watch(announce)


class _ServerKeeper:
    """Brings a dead embedded server back, looking once a second."""

    def __init__(self, local: LocalDirectory, console: Console) -> None:
        self._local = local
        self._console = console
        self._looked_at = 0.0

    def __call__(self) -> bool:
        """Say whether one of them is to be found at another port now."""
        now = time.monotonic()
        if now - self._looked_at < _SERVERS_ROUND_S:
            return False
        self._looked_at = now
        before = _server_ports(self._local)
        for name, server in (("PostgreSQL", postgres), ("Valkey", valkey)):
            if server.running_pid(self._local) is None:
                self._console.say(f"{name} is gone; starting it again")
                try:
                    server.start(self._local, tethered=True)
                except (postgres.PostgresError, valkey.ValkeyError) as error:
                    self._console.alarm(f"{name}: {error}")
        if _server_ports(self._local) == before:
            return False
        _follow_servers(self._local)
        return True


class _only_one:  # noqa: N801 - used like a function
    """Holds the directory's lock for `up`; two of them would fight over its processes."""

    def __init__(self, local: LocalDirectory) -> None:
        self._file = local.prepare().run / "up.lock"
        self._handle = -1

    def __enter__(self) -> None:
        self._handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._handle)
            raise CommandError(f"another `up` runs on {self._file.parent.parent}") from error

    def __exit__(self, *_error: object) -> None:
        os.close(self._handle)


def _log_apart(local: LocalDirectory) -> None:
    """What this process logs itself goes to `log/up.log`: the terminal is for sentences."""
    handler = logging.FileHandler(local.prepare().log / "up.log", encoding="utf-8")
    root = logging.getLogger()
    handler.setFormatter(root.handlers[0].formatter if root.handlers else None)
    root.handlers = [handler]


def _server_ports(local: LocalDirectory) -> tuple[int, int]:
    return postgres.endpoint(local).port, valkey.endpoint(local).port


def _follow_servers(local: LocalDirectory) -> None:
    """Point this process at PostgreSQL where it listens now: its port may have been somebody else's when settings were read."""
    database = connections.settings["default"]
    port = str(postgres.endpoint(local).port)
    if "LOCK_DB_PORT" not in os.environ and database["PORT"] != port:
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's has one
        database["PORT"] = port


def _seed(name: str, local: LocalDirectory) -> None:
    """Run a seeding command in this process, its output in `log/<name>.log`, while the other processes start."""
    file = local.log / f"{name}.log"
    with file.open("a", encoding="utf-8") as output:
        try:
            through_outages(lambda: call_command(name, stdout=output, stderr=output), _SEEDING_S)
        except CommandError as error:
            raise StartFailed(f"{name} failed: {error}") from error
        except Exception as error:
            traceback.print_exc(file=output)
            raise StartFailed(f"{name} failed: {type(error).__name__}: {error}; see {file}") from error


def _specs(port: int | None, without: list[str]) -> list[ProcessSpec]:
    specs = [ProcessSpec.from_settings(entry) for entry in settings.UP_PROCESSES]
    unknown = set(without) - {spec.name for spec in specs}
    if unknown:
        raise CommandError(f"no such process: {', '.join(sorted(unknown))}")
    return [replace(spec, port=port) if spec.name == "web" and port else spec for spec in specs if spec.name not in without]


def _heartbeat_ages() -> Mapping[str, float] | None:
    """Give each row's age in seconds on the database's clock, or None while the database is away."""
    try:
        with tenancy.queues():
            return heartbeat.ages()
    except Error:
        return None


def _tell_failing(failing: Mapping[str, str]) -> bool:
    """Note what does not start where the console shows it; False while the database is away."""
    try:
        with tenancy.queues():
            heartbeat.note_failing(failing)
    except Error:
        return False
    return True
