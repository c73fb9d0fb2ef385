"""`manage.py set_lock_clock TENANT DEVICE…`: sets locks' clocks through their gateway, to the property's time.

Keys at the lock are given their windows again where the vendor reckons otherwise than before. Running it again changes nothing.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices import clock_setting
from devices.health_check import CheckRefused
from devices.selectors import UnknownDevice
from vendors.port.errors import LockError


class Command(BaseCommand):
    help = "Sets the clocks of locks that a gateway reaches."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", help="the tenant's id")
        parser.add_argument("devices", nargs="+", metavar="DEVICE", help="a lock's id")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Sets one clock after the other; fails at the end if one could not be set."""
        failed = 0
        for device_id in options["devices"]:
            try:
                clock_setting.set_clock(options["tenant"], device_id)
            except UnknownDevice:
                outcome = "no such lock in this tenant"
            except CheckRefused as refused:
                outcome = refused.detail
            except LockError as error:
                outcome = f"{error.vendor} refused: {error.code} ({error.reason.value})"
            else:
                self.stdout.write(f"{device_id}  set")
                continue
            failed += 1
            self.stderr.write(f"{device_id}  not set: {outcome}")
        if failed:
            raise CommandError(f"{failed} of {len(options['devices'])} clocks were not set")
