"""`manage.py consume_events`: takes events off the bus."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from sagas import bus
from sagas.alive import SignsOfLife
from sagas.consumer import Consumer
from sagas.tasks import stop_on_signals


class Command(BaseCommand):
    """Runs until stopped; `--drain` ends when nothing arrives."""

    help = "Consumes events from the bus into the inbox and starts what they ask for."
    requires_system_checks: list[str] = []  # a second of processor time at each start; `migrate` has made them

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds the options."""
        parser.add_argument("--drain", action="store_true", help="end when nothing arrives any more")

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs."""
        stop = stop_on_signals()
        link = bus.from_settings()
        with SignsOfLife("consumer"):
            handled = Consumer(link).run(until=stop, drain=options["drain"])
        link.close()
        self.stdout.write(f"{handled} messages")
