"""`manage.py first_key`: one booking becomes one key that opens the door."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices.simulated import NoSimulator
from lockservice.demo import corridor, first_key, places, seeding
from lockservice.demo.places import DemoDoor, DemoHouse
from lockservice.demo.running import DemoDidNotStart, demo
from lockservice.embedded.local import REPOSITORY_ROOT
from sagas.bus.port import BusError
from vendors.port.simulated import SimulatorRefused, SimulatorUnreachable

STAYS_SHUT = 1
INTERRUPTED = 130


class Command(BaseCommand):
    help = "Starts the demo if it is not up, books a room, waits for the key and tries it at the simulated door."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--property", default=places.HOTEL_SILK.code, help="hotel-silk (default) or guesthouse-rudaki")
        parser.add_argument("--room", help="a room's number; default: any")
        parser.add_argument("--wait", type=float, default=30.0, help="seconds to wait for the key; default 30")
        parser.add_argument("--demo-is-up", action="store_true", help="only book and try")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            house = places.house_named(options["property"])
            room = _room(house, options["room"])
        except LookupError as error:
            raise CommandError(str(error)) from error
        if options["demo_is_up"]:
            self._prove(house, room, options["wait"])
            return
        sys.exit(self._with_demo(house, room, options["wait"]))

    def _with_demo(self, house: DemoHouse, room: DemoDoor, wait_s: float) -> int:
        """The proof runs in a process of its own: only one that starts after the demo knows the demo's ports for sure."""
        started_at = time.monotonic()
        argv = [sys.executable, "manage.py", "first_key", "--demo-is-up", "--property", house.code, "--room", room.label]
        try:
            with demo(settings.LOCAL_DIRECTORY) as was_started:
                if was_started:
                    self._say(f"the demo is up after {time.monotonic() - started_at:.1f} s")
                code = subprocess.run([*argv, "--wait", str(wait_s)], cwd=REPOSITORY_ROOT, check=False).returncode
            if was_started:
                self._say(f"the demo is stopped; {time.monotonic() - started_at:.1f} s in all")
        except DemoDidNotStart as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self._say("interrupted; everything is stopped")
            return INTERRUPTED
        return code

    def _prove(self, house: DemoHouse, room: DemoDoor, wait_s: float) -> None:
        try:
            proof = first_key.prove(house, room, wait_s=wait_s, say=self._say)
        except (first_key.NoKeyCame, BusError, corridor.NoKey, corridor.NoSuchDoor) as error:
            raise CommandError(str(error)) from error
        except (NoSimulator, SimulatorUnreachable, SimulatorRefused) as error:
            raise CommandError(f"the door cannot be asked: {error}") from error
        verdict = "opens" if proof.answer.is_open else "stays shut"
        self._say(
            f"door {proof.room} {verdict} ({proof.answer.why.replace('_', ' ')}), {proof.seconds:.2f} s after the booking"
        )
        if not proof.answer.is_open:
            sys.exit(STAYS_SHUT)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _room(house: DemoHouse, label: str | None) -> DemoDoor:
    rooms = list(house.rooms())
    if label is None:
        return random.SystemRandom().choice([room for room in rooms if seeding.gives_keys_at_once(house, room)])
    for room in rooms:
        if room.label == label:
            if not seeding.gives_keys_at_once(house, room):
                raise LookupError(f"a key of room {label} is a card, which the desk makes: take another room")
            return room
    raise LookupError(f"{house.name} has no room {label}; it has {', '.join(room.label for room in rooms)}")
