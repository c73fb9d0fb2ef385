"""`manage.py webhook_address TENANT INSTALLATION`: makes a new address for a vendor's pushes and prints it, once.

The address before is taken for another day (`--overlap-hours`): meanwhile the new one is typed at the vendor's portal.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices import secret_rotation, selectors, webhooks_addresses
from devices.selectors import UnknownDevice
from lockservice.core import tenancy


class Command(BaseCommand):
    help = "Makes a new address for a vendor's pushes and prints it, once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", help="the tenant's id")
        parser.add_argument("installation", help="the installation's id")
        parser.add_argument("--overlap-hours", type=float, default=webhooks_addresses.OVERLAP / timedelta(hours=1))

    def handle(self, *_args: Any, **options: Any) -> None:
        """Rotates and prints."""
        tenant_id = options["tenant"]
        try:
            with tenancy.tenant(tenant_id):
                facts = selectors.installation(tenant_id, options["installation"])
                token = secret_rotation.rotate_address(tenant_id, facts.id, timedelta(hours=options["overlap_hours"]))
        except UnknownDevice as error:
            raise CommandError("no such installation in this tenant") from error
        self.stdout.write(webhooks_addresses.path_of(facts, token))
