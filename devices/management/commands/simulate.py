"""`manage.py simulate VENDOR`: runs a vendor's simulator on loopback, at the address this service's settings name."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices import simulated


class Command(BaseCommand):
    help = "Runs a vendor's simulator until it is stopped; further arguments are the simulator's own."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "vendor", help=f"one of {', '.join(simulated.vendors()) or 'none: these settings name no simulator'}"
        )
        parser.add_argument("rest", nargs=argparse.REMAINDER, help="arguments of the simulator")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Becomes the simulator: the process is replaced, so that signals reach it alone."""
        try:
            place = simulated.place_of(options["vendor"])
        except simulated.NoSimulator as error:
            raise CommandError(str(error)) from error
        ports = ["--port", place.address.rpartition(":")[2], "--control-port", place.control.rpartition(":")[2]]
        argv = [sys.executable, "-m", "vendors.simulate", options["vendor"], *ports, *options["rest"]]
        self.stdout.flush()
        os.execv(sys.executable, argv)  # noqa: S606 - the project's own program
