"""Says whether the database knows every migration of this checkout, and migrates it if not.

One rule: schema work is the owner's, so it runs in a process that logs in as the owner.
"""

from __future__ import annotations

import os
import subprocess
import sys

import psycopg
from django.conf import settings
from django.db.migrations.loader import MigrationLoader

from lockservice.embedded import postgres, roles
from lockservice.embedded.local import REPOSITORY_ROOT, LocalDirectory


class MigratingFailed(RuntimeError):
    """`migrate` ended with an error; the text is what it said. Repair first."""


def is_current(local: LocalDirectory) -> bool:
    """Says whether nothing is left to migrate; asking costs a tenth of what migrating does."""
    place = postgres.endpoint(local)
    with psycopg.connect(
        host=str(place.socket_directory),
        port=place.port,
        dbname=settings.DATABASES["default"]["NAME"],
        user=roles.role_name("owner"),
        password=roles.password(local, "owner"),
    ) as asked:
        if asked.execute("SELECT to_regclass('django_migrations')").fetchone() == (None,):
            return False
        applied = set(asked.execute("SELECT app, name FROM django_migrations").fetchall())
    return set(MigrationLoader(None, ignore_no_migrations=True).disk_migrations) <= applied


def bring_up_to_date(local: LocalDirectory) -> None:
    """Migrates unless nothing is left to do. Raises MigratingFailed."""
    if is_current(local):
        return
    done = subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=REPOSITORY_ROOT, env={**os.environ, "LOCK_DB_LOGIN": "owner"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise MigratingFailed(done.stderr[-2000:])
