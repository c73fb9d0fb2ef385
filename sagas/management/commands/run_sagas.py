"""`manage.py run_sagas`: polls PostgreSQL and runs what is due, broker or no broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import connection

from lockservice.core.loops import LoopGuard
from sagas.alive import SignsOfLife
from sagas.flows.read_log import read_due
from sagas.flows.take_webhook import take_due
from sagas.housekeeping import sweep
from sagas.runner import Runner, Stop
from sagas.tasks import stop_on_signals
from sagas.watch.look import look

SWEEP_S = 1.0
READ_S = 2.0
WATCH_S = 2.0


def _read_logs() -> None:
    """Reads the logs that pushes wait for: a key that is over and opens is told without the broker."""
    read_due(READ_S, hinted=True)


LOOPS: tuple[tuple[str, Callable[[], object], float], ...] = (
    ("sweep", sweep, SWEEP_S),
    ("webhooks", take_due, SWEEP_S),
    ("read_back", _read_logs, READ_S),
    ("watch", look, WATCH_S),
)
"""What goes on beside the runner: name, work, seconds between two turns."""


class Command(BaseCommand):
    """Runs until stopped; `--drain` ends when nothing is due."""

    help = "Runs due saga steps; progress that needs no broker."
    requires_system_checks: list[str] = []  # a second of processor time at each start; `migrate` has made them

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds the options."""
        parser.add_argument("--drain", action="store_true", help="end when nothing is due")

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs."""
        stop = stop_on_signals()
        with SignsOfLife("sagas"):
            for name, work, pause_s in LOOPS:
                threading.Thread(target=keep_doing, args=(name, work, pause_s, stop), daemon=True).start()
            steps = Runner().run(until=stop, drain=options["drain"])
        self.stdout.write(f"{steps} steps")


def keep_doing(name: str, work: Callable[[], object], pause_s: float, stop: Stop) -> None:
    """Does the work again and again until stopped, whatever becomes of one turn. Its connection is free in the pauses."""
    with LoopGuard(name, stopped=stop) as guard:
        while not stop():
            try:
                work()
            except Exception as error:  # noqa: BLE001 - the guard logs it and notes it in the heartbeat
                guard.failed(error)
            else:
                guard.succeeded()
                connection.close()
            time.sleep(pause_s)
