"""`manage.py rotate_secrets`: changes vendor secrets with an overlap, renews keys, and tells what must be done until when.

Without arguments it does everything that needs nobody: brings old rows up, wraps data keys anew, renews them once a year, goes
on with staged rotations, ends overlaps, tells of what is late. `--list` shows what is due, with the days left.

With TENANT, INSTALLATION and `--secret NAME=FILE` it puts a new value in place of the old: no vendor here has an API that makes
one, so a person makes it at the vendor's portal and gives it in a file or, with `-`, on standard input; never as an argument,
which every process of the machine can read. The value is tried at the vendor first. `--webhook-address` makes a new address and
prints it once. `--roll-back` puts the old values back while they are valid.

Every step is safe to repeat: interrupt it when you like, and run it again.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices import secret_due, secret_rotation, secret_upkeep, selectors, webhooks_addresses
from devices.secret_due import DueLine
from devices.secret_rotation import Rotated, RotationRefused, RotationWaits
from devices.secret_rules import OVERLAP
from devices.selectors import UnknownDevice
from lockservice.core import clock, tenancy
from lockservice.core.kms_file import KeyFolder
from lockservice.core.secret_store import MAX_BYTES, StoreUnavailable
from vendors.port.secrets import Token

ACTOR: Final = "rotate_secrets"
HOURS: Final = timedelta(hours=1)


class Command(BaseCommand):
    help = "Rotates vendor secrets and keys; --list tells what is due."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", nargs="?", default="", help="the tenant's id")
        parser.add_argument("installation", nargs="?", default="", help="the installation's id")
        parser.add_argument("--list", action="store_true", help="show what is due, and change nothing")
        parser.add_argument("--secret", action="append", default=[], metavar="NAME=FILE", help="a new value; FILE `-` is stdin")
        parser.add_argument("--overlap-hours", type=float, default=None, help="how long the old value stays valid")
        parser.add_argument("--webhook-address", action="store_true", help="make a new webhook address and print it once")
        parser.add_argument("--roll-back", action="store_true", help="put the old values back, or drop staged ones")
        parser.add_argument("--new-key", action="store_true", help="make the next version of the local key-encryption key")
        parser.add_argument("--actor", default=ACTOR, help="who asks, for the record")
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Does one of the things above."""
        try:
            self._handle(options)
        except UnknownDevice as error:
            raise CommandError("no such installation in this tenant") from error
        except RotationRefused as error:
            raise CommandError(f"{error.code}: {error}") from error
        except (RotationWaits, StoreUnavailable) as error:
            raise CommandError(f"{error}; what is staged stays so, run the command again") from error

    def _handle(self, options: dict[str, Any]) -> None:
        tenant_id, installation_id = options["tenant"], options["installation"]
        if options["list"]:
            self._list(tenant_id, installation_id)
            return
        if options["new_key"]:
            self._new_key(dry_run=options["dry_run"])
        if options["secret"] or options["webhook_address"] or options["roll_back"]:
            if not installation_id:
                raise CommandError("name the tenant and the installation")
            self._one(tenant_id, installation_id, options)
            return
        self._upkeep(tenant_id, installation_id, dry_run=options["dry_run"])

    def _one(self, tenant_id: str, installation_id: str, options: dict[str, Any]) -> None:
        hours = options["overlap_hours"]
        overlap = None if hours is None else hours * HOURS
        if options["dry_run"]:
            with tenancy.tenant(tenant_id):
                facts = selectors.installation(tenant_id, installation_id)
            names = [_split(item)[0] for item in options["secret"]]
            self.stdout.write(f"dry run: {facts.vendor} {facts.id}: {', '.join(names) or 'no secret'}; nothing was changed")
            return
        if options["roll_back"]:
            self._tell(secret_rotation.roll_back(tenant_id, installation_id))
        if options["secret"]:
            values = read_values(options["secret"])
            self._tell(
                secret_rotation.rotate(
                    tenant_id,
                    installation_id,
                    values,
                    actor_id=options["actor"],
                    overlap=OVERLAP if overlap is None else overlap,
                )
            )
        if options["webhook_address"]:
            with tenancy.tenant(tenant_id):
                facts = selectors.installation(tenant_id, installation_id)
                taken = webhooks_addresses.OVERLAP if overlap is None else overlap
                token = secret_rotation.rotate_address(tenant_id, installation_id, taken)
            self.stdout.write(webhooks_addresses.path_of(facts, token))

    def _upkeep(self, tenant_id: str, installation_id: str, *, dry_run: bool) -> None:
        places = secret_upkeep.places(tenant_id, installation_id)
        touched = left = 0
        for number, done in enumerate(secret_upkeep.keep(places, dry_run=dry_run), start=1):
            touched, left = touched + bool(done.steps), left + bool(done.problem)
            for step in done.steps:
                self.stdout.write(f"[{number}/{len(places)}] {done.place.installation_id}: {step}")
            if done.problem:
                self.stderr.write(f"[{number}/{len(places)}] {done.place.installation_id}: left: {done.problem}")
        if dry_run:
            self.stdout.write(f"dry run: {len(places)} installations, {touched} with work; nothing was changed")
            return
        closed, late = secret_upkeep.finish()
        self.stdout.write(
            f"{len(places)} installations, {touched} worked on, {left} left; {closed} break-glass requests ended; {late} late"
        )
        if left:
            raise CommandError("some installations were left; run it again when their store, key service or vendor answers")

    def _list(self, tenant_id: str, installation_id: str) -> None:
        tenants = [tenant_id] if tenant_id else secret_due.tenants_with_rows()
        count = 0
        for one in tenants:
            with tenancy.tenant(one):
                lines = secret_due.listed(one, clock.real_now(), installation_id)
            for line in lines:
                self.stdout.write(_line(line))
                count += 1
        self.stdout.write(f"{count} open")

    def _new_key(self, *, dry_run: bool) -> None:
        if settings.KEY_ENCRYPTION != "file":
            raise CommandError("Cloud KMS makes its versions itself; --new-key is for a key folder")
        folder = KeyFolder(Path(settings.KEK_FOLDER))
        if dry_run:
            self.stdout.write(f"dry run: would make version {folder.version() + 1} of the key-encryption key")
            return
        self.stdout.write(f"key-encryption key: version {folder.add_version()}; keep the older ones for backups")

    def _tell(self, rotated: Rotated) -> None:
        ending = "new" if rotated.stage == secret_rotation.ROLLED_BACK else "old"
        until = f", the {ending} value ends {rotated.retire_at:%Y-%m-%d %H:%M} UTC" if rotated.retire_at else ""
        self.stdout.write(f"{rotated.id}: {', '.join(rotated.names)} {rotated.stage}{until}")


def _line(line: DueLine) -> str:
    when = f"LATE by {_span(-line.left)}" if line.is_late else f"{_span(line.left)} left"
    who = "a person makes it at the vendor" if line.needs_person else "by itself"
    detail = f" {line.detail}" if line.detail else ""
    return f"{line.tenant_id} {line.installation_id} {line.kind} {line.name}: {when} ({line.reason}{detail}; {who})"


def _span(span: timedelta) -> str:
    return f"{span.days} days" if span >= timedelta(days=2) else f"{int(span / HOURS)} h"


def _split(item: str) -> tuple[str, str]:
    name, sign, source = item.partition("=")
    if not sign or not name or not source:
        raise CommandError("--secret takes NAME=FILE, or NAME=- for standard input; a value is never an argument")
    return name, source


def read_values(items: list[str]) -> dict[str, Token]:
    """Reads each new value whole, without the line end that editors add."""
    pairs = [_split(item) for item in items]
    if sum(source == "-" for _, source in pairs) > 1:
        raise CommandError("only one value can come from standard input")
    values = {}
    for name, source in pairs:
        try:
            text = sys.stdin.read(MAX_BYTES + 1) if source == "-" else Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{name}: the file cannot be read ({type(error).__name__})") from error
        if len(text) > MAX_BYTES:
            raise CommandError(f"{name}: too long for a secret")
        values[name] = Token(text.rstrip("\r\n"))
    return values
