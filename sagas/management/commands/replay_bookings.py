"""`manage.py replay_bookings FILE`: real bookings become keys at simulated doors, on a clock that is moved."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error

from devices import simulated
from devices.simulated import NoSimulator, SimulatorPlace
from lockservice.core.outage import is_outage
from lockservice.demo.schema import MigratingFailed
from lockservice.replay import bookings, generate
from lockservice.replay.bookings import Booking, UnreadableRow
from lockservice.replay.crew import CrewFailed
from lockservice.replay.drive import StandsStill
from lockservice.replay.play import Request, play
from lockservice.replay.report import Report
from sagas.bus.port import BusError
from vendors.port.simulated import SimulatorRefused, SimulatorUnreachable

DISAGREES, INTERRUPTED = 1, 130


class Command(BaseCommand):
    help = (
        "Replays a hotel-bookings file (.csv or .csv.gz) through the whole service and checks doors, events and bookings. "
        "Moves the hotel's clock while it runs. May be interrupted and run again. Ends with status 0 only if everything agrees."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", type=Path, help="a file in the public format")
        parser.add_argument("--generate", type=int, metavar="N", help="make N bookings up in place of a file")
        parser.add_argument("--seed", type=int, default=1, help="of the bookings that are made up; default 1")
        parser.add_argument("--write", type=Path, help="with --generate: only write the file")
        parser.add_argument("--limit", type=int, help="only the first so many rows")
        pace = parser.add_mutually_exclusive_group()
        pace.add_argument("--speed", type=float, help="hotel seconds a real second, such as 3600")
        pace.add_argument("--as-fast", action="store_true", help="as fast as it goes (default)")
        parser.add_argument("--vendor", default="", help="which vendor's locks; default: the first of the settings")
        parser.add_argument(
            "--spread", metavar="VENDORS", nargs="?", const="",
            help="share the rooms among these vendors, such as ttlock,salto; without a list: those of the demo",
        )  # fmt: skip
        parser.add_argument("--desk", action="store_true", help="a virtual desk makes the cards that need one; else they wait")
        parser.add_argument("--tenant", help="the tenant's id; default: one of the file's own")
        parser.add_argument(
            "--simulator", help="ADDRESS,CONTROL of a simulator that runs, such as 127.0.0.1:7001,http://127.0.0.1:7002"
        )
        parser.add_argument(
            "--runners", type=int, default=0,
            help="so many saga runners, a consumer and a publisher as processes; default 0: this process does it all",
        )  # fmt: skip
        parser.add_argument("--report", type=Path, help="write the report as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        rows = self._rows(options)
        if options["write"]:
            with options["write"].open("w", encoding="utf-8", newline="") as text:
                self.stdout.write(f"{bookings.write_rows(rows, text)} bookings written")
            return
        if not rows:
            raise CommandError("there is no booking in there")
        try:
            outcome = play(_request(rows, options), sys.stdout, self._say)
        except KeyboardInterrupt:
            self._say("\ninterrupted; run it again to go on (`manage.py clock real` gives the clock back)")
            sys.exit(INTERRUPTED)
        except (
            CrewFailed,
            StandsStill,
            MigratingFailed,
            BusError,
            NoSimulator,
            SimulatorUnreachable,
            SimulatorRefused,
        ) as error:
            raise CommandError(str(error)) from error
        except Error as error:
            if not is_outage(error):
                raise
            raise CommandError(f"the database was away ({error}); run it again to go on") from error
        self._conclude(outcome, options["report"])

    def _rows(self, options: dict[str, Any]) -> list[Booking]:
        if (options["file"] is None) == (options["generate"] is None):
            raise CommandError("give a file, or --generate N")
        if options["generate"] is not None:
            return generate.generate(options["generate"], options["seed"])[: options["limit"]]
        try:
            return bookings.read_file(options["file"], options["limit"])
        except UnreadableRow as error:
            raise CommandError(f"{options['file']}: {error}") from error
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror or error}") from error

    def _conclude(self, outcome: Report, file: Path | None) -> None:
        if file is not None:
            file.write_text(json.dumps(outcome.as_json(), indent=2, default=str) + "\n", encoding="utf-8")
        self._say("\n".join(outcome.lines()))
        if outcome.faults:
            sys.exit(DISAGREES)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _request(rows: list[Booking], options: dict[str, Any]) -> Request:
    known = simulated.vendors()
    if not known:
        raise CommandError("a replay needs simulators, which these settings do not have")
    vendors = _vendors(options, known)
    place = None
    if options["simulator"]:
        address, comma, control = options["simulator"].partition(",")
        if not comma:
            raise CommandError("--simulator takes ADDRESS,CONTROL")
        if len(vendors) > 1:
            raise CommandError("--simulator takes the place of one vendor's; leave --spread out")
        place = SimulatorPlace(address, control)
    return Request(
        bookings=rows,
        vendors=vendors,
        tenant_id=options["tenant"],
        place=place,
        speed=options["speed"],
        runners=options["runners"],
        has_desk=options["desk"],
    )


def _vendors(options: dict[str, Any], known: tuple[str, ...]) -> tuple[str, ...]:
    if options["spread"] is None:
        return (options["vendor"] or known[0],)
    if options["vendor"]:
        raise CommandError("give --vendor or --spread")
    named = tuple(filter(None, options["spread"].split(","))) or settings.DEMO_VENDOR_CODES
    strangers = [vendor for vendor in named if vendor not in known]
    if strangers or len(set(named)) < len(named):
        raise CommandError(f"--spread takes vendors with a simulator, each once: {', '.join(known)}")
    return named
