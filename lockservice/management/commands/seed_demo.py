"""`manage.py seed_demo`: the demo's hotels, locks and people."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from devices import simulated
from lockservice.demo import people, places, seeding
from vendors.port.simulated import SimulatorRefused, SimulatorUnreachable


class Command(BaseCommand):
    help = "Puts up the demo's hotels and locks; run again it adds what is missing and changes nothing else."
    requires_system_checks: list[str] = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        if not simulated.vendors():
            raise CommandError("the demo needs simulators, which these settings do not have")
        try:
            for house in places.HOUSES:
                built = seeding.seed_house(house)
                for system in house.systems:
                    doors_count, vendor = len(built[system.name].doors), seeding.vendor_of(house, system)
                    self.stdout.write(f"{house.name}: {doors_count} doors, {vendor}")
            seeding.follow_clock()
        except (SimulatorUnreachable, SimulatorRefused) as error:
            raise CommandError(str(error)) from error
        people.ensure_people()
