#!/usr/bin/env python3
"""Django's command line for the service.

The one rule: schema work always logs in as the owner of the schema, whatever the environment says.
"""

import os
import sys

OWNER_COMMANDS = frozenset({"migrate", "makemigrations", "sqlmigrate", "showmigrations", "optimizemigration"})


def main() -> None:
    """Run one management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lockservice.settings.embedded")
    if len(sys.argv) > 1 and sys.argv[1] in OWNER_COMMANDS:
        os.environ["LOCK_DB_LOGIN"] = "owner"
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
