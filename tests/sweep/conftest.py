"""A database for each flow: runner and publisher serve all tenants of a database, so a sweep has one of its own.

Rule: the databases are copies of one migrated template and are dropped at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import psycopg
import pytest
from django.conf import settings
from psycopg import sql

from lockservice.embedded import postgres, roles
from lockservice.embedded.local import REPOSITORY_ROOT, LocalDirectory
from tests.support.mock_locks import MockLocks
from tests.support.sweep_ttlock import TtlockCloud


@pytest.fixture(scope="session")
def locks() -> Iterator[MockLocks]:
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture(scope="session")
def cloud() -> Iterator[TtlockCloud]:
    running = TtlockCloud()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def template(embedded_servers: LocalDirectory) -> str:
    """Give the name of a migrated database that nobody is connected to."""
    name = f"{settings.DATABASES['default']['NAME']}_template"
    done = embedded_servers.run / f"{name}.migrated"
    with postgres.exclusive(embedded_servers, "test-databases"):
        if not done.exists():
            roles.create_database(embedded_servers, name)
            environment = {**os.environ, "LOCK_DB_LOGIN": "owner", "LOCK_DB_NAME": name}
            command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
            subprocess.run(command, cwd=REPOSITORY_ROOT, env=environment, check=True)
            done.touch()
    return name


@pytest.fixture
def own_database(embedded_servers: LocalDirectory, template: str) -> Iterator[str]:
    name = f"{template.removesuffix('_template')}_{uuid.uuid4().hex[:6]}"
    with (
        postgres.exclusive(embedded_servers, "test-databases"),
        psycopg.connect(postgres.endpoint(embedded_servers).superuser_dsn(), autocommit=True) as connection,
    ):
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER lock_owner").format(sql.Identifier(name), sql.Identifier(template))
        )
    roles.create_database(embedded_servers, name)  # an existing one is given its rights
    yield name
    roles.drop_database(embedded_servers, name)
