"""`manage.py decommission TENANT ID`: takes a lock (`lck_…`) or a whole lock system (`vad_…`) out of service for good.

Its keys are taken back there, guests who lose their door get another way in or a person is told, and the vendor credentials it
was reached with are due for rotation within 24 hours. The same command again changes nothing.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from credentials.lifecycle import LIVE
from credentials.models import CredentialDoor
from devices.models import LockDevice, VendorInstallation
from lockservice.core import tenancy
from sagas import device_acts
from sagas.acts import Actor, Refused

INSTALLATION = "vad_"


class Command(BaseCommand):
    """Decommissions, or says what that would mean."""

    help = "Takes a lock or a lock system out of service for good."

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds the arguments."""
        parser.add_argument("tenant", help="the tenant's id")
        parser.add_argument("id", help="the lock's or the lock system's id")
        parser.add_argument("--actor", default="operator", help="who does it, for the record (operator)")
        parser.add_argument("--dry-run", action="store_true", help="say what would be done")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Does it and prints one line."""
        tenant_id, subject = options["tenant"], options["id"]
        if options["dry_run"]:
            self._preview(tenant_id, subject)
            return
        act = device_acts.decommission_installation if subject.startswith(INSTALLATION) else device_acts.decommission_device
        try:
            done = act(tenant_id, subject, Actor(options["actor"]))
        except Refused as refused:
            raise CommandError(refused.detail) from refused
        if not done.is_new:
            self.stdout.write(f"{subject} was decommissioned before; nothing changed")
            return
        rotate = f"; rotate its vendor credentials by {done.rotate_by:%Y-%m-%d %H:%M} UTC" if done.rotate_by else ""
        self.stdout.write(f"{len(done.device_ids)} locks decommissioned; keys leave them under {done.saga_id}{rotate}")

    def _preview(self, tenant_id: str, subject: str) -> None:
        with tenancy.tenant(tenant_id):
            if subject.startswith(INSTALLATION):
                system_id, asked = subject, LockDevice.objects.filter(tenant_id=tenant_id, installation_id=subject)
            else:
                asked = LockDevice.objects.filter(tenant_id=tenant_id, id=subject)
                system_id = asked.values_list("installation_id", flat=True).first() or ""
            system = VendorInstallation.objects.filter(tenant_id=tenant_id, id=system_id).first()
            locks = list(asked.values_list("id", flat=True))
            doors = CredentialDoor.objects.filter(
                tenant_id=tenant_id, device_id__in=locks, dropped=False, credential__state__in=sorted(LIVE)
            )
            keys = doors.values("credential_id").distinct().count()
        if system is None:
            raise CommandError("no such lock or lock system in this tenant")
        of = f"{system.id} ({system.vendor})"
        self.stdout.write(f"dry run: {len(locks)} locks of {of} would be decommissioned and {keys} live keys leave them")
