#!/usr/bin/env python3
"""Django's command line for the service.

The one rule: schema work always logs in as the owner of the schema, whatever the environment says.
"""

import os
import sys

OWNER_COMMANDS = frozenset({"migrate", "makemigrations", "sqlmigrate", "showmigrations", "optimizemigration"})

NO_DJANGO = (
    "this Python has no Django: run `.venv/bin/python manage.py ...` in the repository's folder (`make venv` makes .venv once)"
)


def main() -> None:
    """Run one management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lockservice.settings.embedded")
    if len(sys.argv) > 1 and sys.argv[1] in OWNER_COMMANDS:
        os.environ["LOCK_DB_LOGIN"] = "owner"
    try:
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as error:
        if error.name != "django":
            raise
        sys.exit(NO_DJANGO)
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
