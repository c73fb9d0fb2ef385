"""`manage.py register_installation TENANT PROPERTY VENDOR`: sets a lock system up at a property and prints its id.

Settings come as JSON from a file, each secret from a file of its own or, with `-`, from standard input; never as an argument.
The vendor is asked for its list of locks before anything is kept (`--untried` leaves that out). A credential that another
property uses is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices import secret_setup
from devices.management.commands.rotate_secrets import read_values
from devices.secret_setup import SetupRefused, Wanted
from lockservice.core.kms import KeyUnavailable
from lockservice.core.secret_store import StoreUnavailable
from vendors.port.errors import LockError


class Command(BaseCommand):
    help = "Sets a lock system up at a property and prints its id."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", help="the tenant's id")
        parser.add_argument("property", help="the property's id")
        parser.add_argument("vendor", help="the vendor's code")
        parser.add_argument("--label", required=True, help="what people call it")
        parser.add_argument("--settings-file", required=True, metavar="FILE", help="settings as a JSON object")
        parser.add_argument("--secret", action="append", default=[], metavar="NAME=FILE", help="a secret; FILE `-` is stdin")
        parser.add_argument("--environment", default="production")
        parser.add_argument("--untried", action="store_true", help="do not ask the vendor first")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Sets it up."""
        wanted = Wanted(
            property_id=options["property"],
            vendor=options["vendor"],
            label=options["label"],
            settings=_read_settings(options["settings_file"]),
            secrets=read_values(options["secret"]),
            environment=options["environment"],
        )
        try:
            made = secret_setup.set_up(options["tenant"], wanted, is_tried=not options["untried"])
        except SetupRefused as error:
            raise CommandError(f"{error.code}: {error}") from error
        except LockError as error:
            raise CommandError(f"{error.vendor} gave no list: {error.code} ({error.reason.value}); nothing was kept") from error
        except (StoreUnavailable, KeyUnavailable) as error:
            raise CommandError(f"{error}; nothing was kept") from error
        except LookupError as error:
            raise CommandError(f"no vendor {options['vendor']}") from error
        if made.locks is None:
            told = "the vendor was not asked; import_devices asks for its locks and brings them into the books"
        else:
            told = f"the vendor lists {made.locks} locks; import_devices brings them into the books"
        self.stdout.write(f"{made.installation_id}: {told}")


def _read_settings(path: str) -> dict[str, object]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandError(f"the settings cannot be read ({type(error).__name__})") from error
    if not isinstance(found, dict):
        raise CommandError("the settings must be a JSON object")
    return found
