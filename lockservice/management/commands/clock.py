"""`manage.py clock`: moves the time of the demo's hotels, and of their simulated locks."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices import simulated
from lockservice.demo import moved_clock
from lockservice.demo.moved_clock import ClockState

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SPAN = re.compile(r"(?:\d+[dhms])+")


class Command(BaseCommand):
    help = "Shows or moves the hotels' clock. Leases, retries and rate limits stay on real time."
    requires_system_checks: list[str] = []  # a second of processor time at each start; `migrate` has made them

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_subparsers(dest="what")
        what.add_parser("show", help="say what time it is")
        stop = what.add_parser("stop", help="stand still at an instant, such as 2026-05-01T14:00:00+04:30")
        stop.add_argument("instant", type=_instant)
        for name, direction in (("advance", "on"), ("back", "back")):
            what.add_parser(name, help=f"move {direction} by 2h, 30m, 1d12h").add_argument("span", type=_span)
        what.add_parser("run", help="run on from where it stands")
        what.add_parser("real", help="go back to real time")

    def handle(self, *_args: Any, **options: Any) -> None:
        if not simulated.vendors():
            raise CommandError("only the demo's clock can be moved; these settings have no simulators")
        state = self._do(options)
        for vendor in [vendor for vendor in state.silent if vendor in settings.DEMO_VENDOR_CODES]:
            self.stderr.write(f"the {vendor} simulator does not run; it is told the time when the demo is seeded")
        self.stdout.write(_sentence(state))

    def _do(self, options: dict[str, Any]) -> ClockState:
        match options["what"]:
            case "stop":
                return moved_clock.stop_at(options["instant"])
            case "advance":
                return moved_clock.advance(options["span"])
            case "back":
                return moved_clock.advance(-options["span"])
            case "run":
                return moved_clock.run()
            case "real":
                return moved_clock.run_ahead(timedelta(0))
            case _:
                return moved_clock.read()


def _sentence(state: ClockState) -> str:
    text = state.now.astimezone(UTC).isoformat(timespec="seconds")
    if state.stopped:
        return f"{text}, standing still"
    return f"{text}, real time" if state.is_real else f"{text}, running"


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no instant") from error
    if instant.tzinfo is None:
        raise argparse.ArgumentTypeError("an instant needs a time zone, such as 2026-05-01T14:00:00Z")
    return instant


def _span(text: str) -> timedelta:
    if _SPAN.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no span; write 2h, 30m or 1d12h")
    parts = re.findall(r"(\d+)([dhms])", text)
    return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())
