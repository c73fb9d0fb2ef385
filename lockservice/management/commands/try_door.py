"""`manage.py try_door DOOR`: does this PIN, card or phone open that simulated door now?"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices.simulated import NoSimulator
from lockservice.core import clock
from lockservice.core.tenancy import queues
from lockservice.demo import corridor, places
from lockservice.demo.corridor import FoundDoor
from vendors.port.simulated import SimulatorRefused, SimulatorUnreachable
from vendors.port.types import CredentialKind

STAYS_SHUT = 1


class Command(BaseCommand):
    help = "Asks a simulated lock whether it opens, and why not. Ends with status 0 only if it does."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("door", help="a room's number, a door's label, or an id")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--pin", help="digits to type")
        what.add_argument("--card", help="a card's number")
        what.add_argument("--phone", help="what the phone holds: its token, or the receiver's name")
        what.add_argument("--reservation", help="whatever the guest of this reservation was given")
        parser.add_argument("--property", help="the house, where two have a door of that name")
        parser.add_argument("--tenant", default=places.TENANT_ID, help="default: the demo's")
        parser.add_argument("--at", type=_instant, help="judge at another instant; leaves no trace at the lock")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            kind, value, door = self._presented(options)
            answer = corridor.try_door(door, kind, value, options["at"])
        except (corridor.NoKey, corridor.NoSuchDoor, NoSimulator, SimulatorUnreachable, SimulatorRefused) as error:
            raise CommandError(str(error)) from error
        when = _local(options["at"] or _hotel_now(), door.time_zone)
        verdict = "opens" if answer.is_open else "stays shut"
        self.stdout.write(f"{door.label} at {door.property_name} {verdict}: {answer.why.replace('_', ' ')} ({kind}, {when})")
        if not answer.is_open:
            sys.exit(STAYS_SHUT)

    def _presented(self, options: dict[str, Any]) -> tuple[CredentialKind, str, FoundDoor]:
        tenant_id, house = options["tenant"], corridor.house_called(options["property"])
        if options["reservation"]:
            key = corridor.key_of(tenant_id, options["reservation"])
            door = corridor.find_door(tenant_id, options["door"], house or key.property_id)
            is_card = key.kind in corridor.CARDS
            return key.kind, corridor.card_at(tenant_id, door, key) if is_card else key.value, door
        for name, kind in (
            ("pin", CredentialKind.PIN_CODE),
            ("card", CredentialKind.RFID_CARD),
            ("phone", CredentialKind.MOBILE_APP),
        ):
            if options[name]:
                return kind, options[name], corridor.find_door(tenant_id, options["door"], house)
        raise CommandError("nothing to present")


def _hotel_now() -> datetime:
    with queues():
        return clock.now()


def _local(instant: datetime, time_zone: str) -> str:
    return instant.astimezone(ZoneInfo(time_zone)).strftime("%Y-%m-%d %H:%M")


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise CommandError("--at: an instant needs a time zone, such as 2026-05-01T14:00:00Z")
    return instant
