"""`manage.py simulate VENDOR [ACTION]`: runs a vendor's simulator, breaks it, mends it, looks inside."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices import simulated
from devices.simulated import NoSimulator
from lockservice.demo import corridor, places
from vendors.port.simulated import Breakable, Effect, SimulatorRefused, SimulatorUnreachable

ALL = "all"
EXAMPLES = """
  simulate ttlock                      run it here, until it is stopped (`up` runs those of the demo)
  simulate all status                  how each one stands, and what is wrong with it
  simulate salto dead                  it hangs up on every request, until `restore`
  simulate ttlock fail lost --times 3  it does what the next three requests ask, and their answers are lost
  simulate ttlock fail throttled       it says to every request that there are too many
  simulate assa-abloy latency 2000     every request takes two seconds longer
  simulate ttlock clock-off 101 1800   the lock of room 101 runs half an hour ahead (--property where two houses have a 101)
  simulate ttlock gateway-off 101      the gateway of room 101 is off; gateway-on brings it back
  simulate all restore                 takes all trouble back; keys stay
  simulate mock dump                   everything inside as JSON, digits and card numbers too
"""
FAILS = "drop: hangs up, nothing was done; lost: does it, and hangs up; error: fails; throttled: too many requests"


class Command(BaseCommand):
    help = "Runs a vendor's simulator, or tells the one that runs to break, mend, or show itself."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Keeps the lines of the examples."""
        formatter = argparse.RawDescriptionHelpFormatter
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = formatter
        parser.epilog = f"examples:{EXAMPLES}"
        return parser

    def add_arguments(self, parser: CommandParser) -> None:
        known = ", ".join(_run_by_the_demo()) or "none: these settings name no simulator"
        parser.add_argument("vendor", help=f"{known}, or another that has a simulator; `{ALL}` for status and restore")
        actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions")
        run = actions.add_parser("run", help="run it here (default); further arguments are the simulator's own")
        run.add_argument("rest", nargs=argparse.REMAINDER)
        actions.add_parser("status", help="its clock, doors, keys, and what is wrong with it")
        actions.add_parser("dump", help="everything inside, as JSON")
        actions.add_parser("dead", help="hang up on every request until `restore`")
        fail = actions.add_parser("fail", help="let the next requests go wrong", description=FAILS)
        fail.add_argument("effect", choices=[effect.value for effect in Effect])
        fail.add_argument("--times", type=_count, help="so many requests; default: all until `restore`")
        latency = actions.add_parser("latency", help="let every request take so much longer")
        latency.add_argument("milliseconds", type=int)
        clock = actions.add_parser("clock-off", help="set a door's own clock wrong")
        _takes_door(clock)
        clock.add_argument("seconds", type=float, help="ahead of true time; 0 puts it right, negative is behind")
        for name, state in (("gateway-off", "cut a door off: its gateway, or its own link"), ("gateway-on", "bring it back")):
            _takes_door(actions.add_parser(name, help=state))
        actions.add_parser("restore", help="take all trouble back; keys stay")

    def handle(self, *_args: Any, **options: Any) -> None:
        action = options["action"] or "run"
        try:
            if options["vendor"] == ALL:
                self._of_all(action)
            elif action == "run":
                self._run(options["vendor"], options.get("rest") or [])
            else:
                self._do(options["vendor"], action, options)
        except (NoSimulator, SimulatorUnreachable, SimulatorRefused, corridor.NoSuchDoor, ValueError) as error:
            raise CommandError(str(error)) from error

    def _of_all(self, action: str) -> None:
        if action not in ("status", "restore"):
            raise CommandError(f"{action} is for one vendor: {', '.join(_run_by_the_demo())}")
        for vendor in _run_by_the_demo():
            try:
                self._do(vendor, action, {})
            except SimulatorUnreachable:
                self.stdout.write(f"{vendor}: does not run")

    def _run(self, vendor: str, rest: list[str]) -> None:
        """Becomes the simulator: the process is replaced, so that signals reach it alone."""
        place = simulated.place_of(vendor)
        ports = ["--port", place.address.rpartition(":")[2], "--control-port", place.control.rpartition(":")[2]]
        argv = [sys.executable, "-m", "vendors.simulate", vendor, *ports, *rest]
        self.stdout.flush()
        os.execv(sys.executable, argv)  # noqa: S606 - the project's own program

    def _do(self, vendor: str, action: str, options: dict[str, Any]) -> None:
        control = simulated.breakable(vendor)
        if action == "dump":
            self.stdout.write(json.dumps(control.dump(), indent=2, ensure_ascii=False))
            return
        told = self._change(vendor, control, action, options)
        if told:
            self.stdout.write(f"{vendor}: {told}")
        self._say_status(vendor, control)

    def _change(self, vendor: str, control: Breakable, action: str, options: dict[str, Any]) -> str:
        """Does what was asked; returns what there is to say beside the status."""
        match action:
            case "dead":
                control.break_calls(Effect.DROP, None)
            case "fail":
                control.break_calls(Effect(options["effect"]), options["times"])
            case "latency":
                control.slow_down(options["milliseconds"])
            case "clock-off":
                control.set_door_clock(_door(vendor, options), options["seconds"])
            case "gateway-off" | "gateway-on":
                is_on = action == "gateway-on"
                return f"{control.set_reach(_door(vendor, options), is_reachable=is_on)} is {'on' if is_on else 'off'}"
            case "restore":
                control.heal()
        return ""

    def _say_status(self, vendor: str, control: Breakable) -> None:
        status = control.status()
        now = status.now.isoformat(timespec="seconds")
        self.stdout.write(f"{vendor}: {now}, {status.doors_count} doors, {status.keys_count} keys")
        for trouble in status.troubles or ("nothing is wrong",):
            self.stdout.write(f"  {trouble}")


def _run_by_the_demo() -> tuple[str, ...]:
    """Returns the vendors whose simulators `up` runs; others can be run here alone."""
    demo: tuple[str, ...] = getattr(settings, "DEMO_VENDOR_CODES", ())
    return tuple(vendor for vendor in simulated.vendors() if vendor in demo)


def _takes_door(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("door", help="a room's number, a door's label, or an id")
    parser.add_argument("--property", help="the house, where two have a door of that name")
    parser.add_argument("--tenant", default=places.TENANT_ID, help="default: the demo's")


def _door(vendor: str, options: dict[str, Any]) -> str:
    """Returns what the vendor calls a door. Only that vendor's doors come into question."""
    house = corridor.house_called(options["property"])
    return corridor.find_door(options["tenant"], options["door"], house, vendor=vendor).external_id


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number
