"""A whole service of its own to be killed: embedded servers in a folder of their own, and the product's processes on them.

Rule: everything here ends by its process id. The test's own connections are pointed at the estate while a test lasts, so that
it books, asks and checks through the product's code.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psycopg
from celery import Celery
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, connections

from lockservice.embedded import postgres, roles, servers, valkey
from lockservice.embedded.local import REPOSITORY_ROOT, LocalDirectory
from sagas.bus.redis_streams import RedisStreamsBus

DATABASE_AWAY = (OperationalError, InterfaceError, psycopg.OperationalError)


class Part:
    """One process of the service, started again as often as it is asked for."""

    def __init__(self, estate: Estate, name: str, argv: list[str], environment: dict[str, str]) -> None:
        self.name = name
        self._estate = estate
        self.argv = argv
        self._environment = environment
        self.log = estate.local.log / f"{name}.log"
        self.starts = 0
        self.started_at = 0.0  # POSIX time
        self._was_killed = False
        self._process: subprocess.Popen[bytes] | None = None
        self.log.unlink(missing_ok=True)
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                self.argv, cwd=REPOSITORY_ROOT, env=self._environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        self.starts += 1
        self.started_at = time.time()
        self._was_killed = False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kills the process and all of its children (a Celery worker forks) at once."""
        if self._process is None:
            return
        if self.is_alive:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._was_killed = True
        self._process.wait()

    @property
    def ended_by_itself(self) -> bool:
        """Whether it ended though nobody killed it: no process of the service may."""
        return not self.is_alive and not self._was_killed

    def freeze(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def said(self, word: str) -> int:
        return self.log.read_text(errors="replace").count(word)

    def last_words(self) -> str:
        return "\n".join([f"--- {self.name}", *self.log.read_text(errors="replace").splitlines()[-25:]])


class Estate:
    """See the module. `data_key` seals columns here as in the test's own process."""

    def __init__(self, root: Path, data_key: bytes) -> None:
        self.local = LocalDirectory(root)
        self.local.prepare()
        self.local.data_key_file.chmod(0o600)
        self.local.data_key_file.write_bytes(data_key)
        self._share(self.local.secret_store_folder, settings.SECRET_STORE_FOLDER)  # vendors' secrets are put there by the test
        self._share(self.local.key_encryption_folder, settings.KEK_FOLDER)
        self.parts: list[Part] = []
        servers.start(self.local)
        self._manage("migrate", "--verbosity", "0", LOCK_DB_LOGIN="owner")

    @staticmethod
    def _share(place: Path, folder: str) -> None:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        place.symlink_to(folder)

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCK_")}
        return {
            **kept,
            "MELMASTOON_LOCAL": str(self.local.root),
            "DJANGO_SETTINGS_MODULE": "lockservice.settings.embedded",
            "LOCK_DB_LOGIN": "worker",
            "LOCK_LOG_LEVEL": "WARNING",
            **more,
        }

    # -- processes

    def consumer(self, name: str = "consumer", **environment: str) -> Part:
        return self._part(name, [sys.executable, "manage.py", "consume_events"], environment)

    def publisher(self, name: str = "publisher", **environment: str) -> Part:
        return self._part(name, [sys.executable, "manage.py", "publish_outbox"], environment)

    def runner(self, name: str = "sagas", **environment: str) -> Part:
        return self._part(name, [sys.executable, "manage.py", "run_sagas"], environment)

    def worker(self, name: str = "worker", **environment: str) -> Part:
        argv = [
            sys.executable, "-m", "celery", "--quiet", "-A", "lockservice.celery", "worker", "--queues",
            "security,saga,bulk,webhooks", "--concurrency", "1", "--without-gossip", "--without-mingle", "--loglevel", "warning",
            "--hostname", f"{name}@estate",
        ]  # fmt: skip
        return self._part(name, argv, environment)

    def kill_all(self) -> None:
        """Ends every process. Raises AssertionError where one had ended by itself."""
        ended = [part.last_words() for part in self.parts if part.ended_by_itself]
        for part in self.parts:
            part.kill()
            print(part.last_words())  # noqa: T201 - pytest shows it beside a failure
        self.parts.clear()
        assert not ended, "\n".join(["these ended by themselves:", *ended])

    def bus(self, **options: Any) -> RedisStreamsBus:
        return RedisStreamsBus(valkey.endpoint(self.local).url(), **options)

    # -- servers

    def empty_valkey(self) -> None:
        """Kills Valkey and takes all it kept."""
        valkey.stop(self.local, kill=True)
        shutil.rmtree(self.local.valkey, ignore_errors=True)

    def start_valkey(self) -> None:
        valkey.start(self.local)

    @property
    def postgres_port(self) -> int:
        return postgres.endpoint(self.local).port

    def crash_postgres(self) -> None:
        postgres.stop(self.local, "immediate")

    def start_postgres(self) -> None:
        postgres.start(self.local)

    def terminate_backends(self) -> int:
        """Ends every session of the service's logins, as an administrator would; returns how many."""
        with psycopg.connect(postgres.endpoint(self.local).superuser_dsn(), autocommit=True) as admin:
            rows = admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE 'lock\\_%'"
            ).fetchall()
            return len(rows)

    def is_at_work(self, part: Part) -> bool:
        """Says whether a part, since it was started last, has come up: a Celery worker answers, another has opened its first
        session with the database."""
        if "celery" in part.argv:
            with Celery(broker=valkey.endpoint(self.local).url(1)) as app:
                return bool(app.control.ping([f"{part.name}@estate"], timeout=1.0))
        with psycopg.connect(postgres.endpoint(self.local).superuser_dsn(), autocommit=True) as admin:
            sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND backend_start > to_timestamp(%s)"
            row = admin.execute(sessions, [f"melmastoon-{part.name}", part.started_at]).fetchone()
            return bool(row and row[0])

    def remove(self) -> None:
        self.kill_all()
        servers.stop(self.local, "immediate")
        shutil.rmtree(self.local.root, ignore_errors=True)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Points this process's database connections at the estate."""
        place = postgres.endpoint(self.local)
        database = connections.settings["default"]
        names = ("NAME", "HOST", "PORT", "PASSWORD")
        before = {name: database[name] for name in names}
        drop_connections()
        database.update(
            NAME=roles.DATABASE, HOST=str(place.socket_directory), PORT=str(place.port),
            PASSWORD=roles.password(self.local, "worker"),
        )  # fmt: skip
        try:
            yield
        finally:
            drop_connections()
            database.update(before)

    def beat(self) -> Part:
        argv = [
            sys.executable, "-m", "celery", "--quiet", "-A", "lockservice.celery", "beat", "--loglevel", "warning", "--pidfile", "",
        ]  # fmt: skip
        return self._part("beat", argv, {})

    def _part(self, name: str, argv: list[str], environment: dict[str, str]) -> Part:
        part = Part(self, name, argv, self.environment(LOCK_PROCESS_NAME=name, **environment))
        self.parts.append(part)
        return part

    def _manage(self, *arguments: str, **environment: str) -> None:
        subprocess.run(
            [sys.executable, "manage.py", *arguments], cwd=REPOSITORY_ROOT, env=self.environment(**environment), check=True
        )


class Progress:
    """Looks at a growing number every 50 ms from a thread of its own and knows the longest time it stood still.

    The time is counted in looks, each a wait and one question to the database, and a look counts for the shortest of the run. On
    a machine with nothing else to do that is the clock's time. On a busy one a look takes longer, as all work does, so that the
    figure is the service's and not the machine's. `longest_real_s` is by the clock.
    """

    EVERY_S = 0.05

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.last = 0
        self.longest_real_s = 0.0
        self._looks, self._longest_looks, self._shortest_s = 0, 0, float("inf")
        self._moved_at = self._looked_at = time.monotonic()

    def __enter__(self) -> Self:
        self._moved_at = self._looked_at = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10)

    @property
    def longest_gap_s(self) -> float:
        """The longest time without a step, in looks."""
        return self._longest_looks * self._shortest_s if self._longest_looks else 0.0

    def begin_anew(self) -> None:
        """Counts from now: what kept the work is only now away."""
        self._moved_at, self._looks = time.monotonic(), 0

    def _watch(self) -> None:
        while not self._over.wait(self.EVERY_S):
            self._looks += 1
            try:
                now_at = self._count()
            except DATABASE_AWAY:
                connection.close()
                continue
            moment = time.monotonic()
            self._shortest_s = min(self._shortest_s, moment - self._looked_at)
            self._looked_at = moment
            if now_at != self.last:
                self._longest_looks = max(self._longest_looks, self._looks)
                self.longest_real_s = max(self.longest_real_s, moment - self._moved_at)
                self.last, self._moved_at, self._looks = now_at, moment, 0
        connection.close()


def eventually(condition: Callable[[], bool], within_s: float, what: str = "") -> float:
    """Waits until the condition holds and returns the seconds it took. Raises AssertionError after `within_s`."""
    started = time.monotonic()
    while True:
        try:
            if condition():
                return time.monotonic() - started
        except DATABASE_AWAY:
            connection.close()
        if time.monotonic() - started > within_s:
            raise AssertionError(f"not within {within_s} s: {what}")
        time.sleep(0.05)


def drop_connections() -> None:
    connections.close_all()
    for one in connections.all(initialized_only=True):
        one.close_pool()
