"""`manage.py run_sagas`: polls PostgreSQL and runs what is due, broker or no broker."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

import structlog
from django.core.management.base import BaseCommand, CommandParser
from django.db import InterfaceError, OperationalError, connection

from lockservice.core import tenancy
from lockservice.core.heartbeat import beat
from sagas.flows.read_log import read_due
from sagas.flows.take_webhook import take_due
from sagas.housekeeping import sweep
from sagas.runner import Runner, Stop
from sagas.tasks import stop_on_signals

log = structlog.get_logger(__name__)
SWEEP_S = 1.0
READ_S = 2.0


class Command(BaseCommand):
    """Runs until stopped; `--drain` ends when nothing is due."""

    help = "Runs due saga steps; progress that needs no broker."

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds the options."""
        parser.add_argument("--drain", action="store_true", help="end when nothing is due")

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs."""
        stop = stop_on_signals()
        for work in (_keep_house, _ask_back):
            threading.Thread(target=work, args=(stop,), daemon=True).start()
        steps = Runner().run(until=stop, drain=options["drain"])
        self.stdout.write(f"{steps} steps")


def _keep_house(stop: Stop) -> None:
    """Sweeps ended windows, works on pushes and gives signs of life, on its own connection."""
    incarnation = uuid.uuid4().hex
    while not stop():
        try:
            sweep()
            take_due()
            with tenancy.queues():
                beat("sagas", incarnation)
        except (OperationalError, InterfaceError) as error:
            log.warning("sweep.waits", error=type(error).__name__)
            connection.close()
        time.sleep(SWEEP_S)
    connection.close()


def _ask_back(stop: Stop) -> None:
    """Reads the logs that pushes wait for, on its own connection: a key that is over and opens is told without the broker."""
    while not stop():
        try:
            read_due(READ_S, hinted=True)
        except (OperationalError, InterfaceError) as error:
            log.warning("read_back.waits", error=type(error).__name__)
            connection.close()
        time.sleep(READ_S)
    connection.close()
