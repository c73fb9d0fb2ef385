"""`manage.py import_devices TENANT INSTALLATION`: brings a vendor's locks into our books, mapped to rooms.

Without `--table` locks are mapped by their label; `--table FILE` is a CSV with external_id,label,rooms,areas,shared.
`--dry-run` asks the vendor and writes nothing. Running it again writes only what changed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices import registration, selectors
from devices.registration import Action, Line, Placing, TableWrong
from devices.selectors import UnknownDevice
from lockservice.core import tenancy
from vendors.port.errors import LockError


class Command(BaseCommand):
    help = "Brings a vendor's locks into our books."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", help="the tenant's id")
        parser.add_argument("installation", help="the installation's id")
        parser.add_argument("--table", metavar="FILE", help=f"CSV with {','.join(registration.COLUMNS)}")
        parser.add_argument("--dry-run", action="store_true", help="say what would be done")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Surveys, prints one line a lock, and writes unless it is a dry run."""
        tenant_id, installation_id = options["tenant"], options["installation"]
        try:
            table = self._table(tenant_id, installation_id, options["table"])
            lines = registration.survey(tenant_id, installation_id, table)
        except UnknownDevice as error:
            raise CommandError("no such installation in this tenant") from error
        except (TableWrong, OSError) as error:
            raise CommandError(str(error)) from error
        except LockError as error:
            raise CommandError(f"{error.vendor} gave no list: {error.code} ({error.reason.value})") from error
        except ValueError as error:
            raise CommandError(f"the installation's settings: {error}") from error
        self._show(lines, table)
        if options["dry_run"]:
            self.stdout.write("dry run: nothing was written")
            return
        written = registration.apply(tenant_id, installation_id, lines)
        self.stdout.write(f"{written} written")

    def _table(self, tenant_id: str, installation_id: str, path: str | None) -> dict[str, Placing]:
        if path is None:
            return {}
        with tenancy.tenant(tenant_id):
            facts = selectors.installation(tenant_id, installation_id)
            rooms = registration.room_ids(tenant_id, facts.property_id)
        with Path(path).open(encoding="utf-8-sig", newline="") as lines:
            return registration.read_table(lines, rooms)

    def _show(self, lines: list[Line], table: dict[str, Placing]) -> None:
        for line in lines:
            changes = f" ({', '.join(line.changes)})" if line.changes else ""
            notes = "".join(f"; {note}" for note in line.notes)
            self.stdout.write(f"{line.action.value:9} {line.external_id:24} {line.label}{changes}{notes}")
        unknown = sorted(set(table) - {line.external_id for line in lines if line.found is not None})
        for external_id in unknown:
            self.stdout.write(f"unlisted  {external_id:24} in the table, not at the vendor")
        counts = Counter(line.action for line in lines)
        self.stdout.write(", ".join(f"{counts[action]} {action.value}" for action in Action))
