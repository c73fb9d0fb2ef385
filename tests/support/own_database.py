"""Databases of a test's own, copied from one migrated template, and a process turned to one of them for a while.

One rule: names begin with the session's database, so that what a killed session leaves is dropped by the next one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connections
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg import sql
from psycopg_pool import ConnectionPool

from lockservice.embedded import postgres, roles
from lockservice.embedded.local import REPOSITORY_ROOT, LocalDirectory


def template(local: LocalDirectory) -> str:
    """Return the name of a migrated database that nobody is connected to; the first call makes it."""
    name = f"{_session_name()}_template"
    done = local.run / f"{name}.migrated"
    with postgres.exclusive(local, "test-databases"):
        if not done.exists():
            roles.create_database(local, name)
            environment = {**os.environ, "LOCK_DB_LOGIN": "owner", "LOCK_DB_NAME": name}
            command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
            subprocess.run(command, cwd=REPOSITORY_ROOT, env=environment, check=True)
            done.touch()
    return name


def copy(local: LocalDirectory, name: str = "") -> str:
    """Make a copy of the template with the rights of the service's logins; returns its name."""
    source = template(local)
    name = name or f"{_session_name()}_{uuid.uuid4().hex[:6]}"
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER lock_owner")
    with (
        postgres.exclusive(local, "test-databases"),
        psycopg.connect(postgres.endpoint(local).superuser_dsn(), autocommit=True) as connection,
    ):
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(source)))
    roles.create_database(local, name)  # an existing one is given its rights
    return name


@contextmanager
def turned_to(name: str, *, keep: bool = False) -> Iterator[None]:
    """Let this process's ORM use another database. Threads that hold a connection must have ended.

    With `keep`, connections of both databases stay open for the next turn; then `let_go` of the other one before it is dropped.
    """
    before = connections.databases["default"]["NAME"]
    _turn(name, keep=keep)
    try:
        yield
    finally:
        _turn(before, keep=keep)


def let_go(name: str) -> None:
    """Close the connections that were kept to a database."""
    pool = _kept.pop(name, None)
    if pool is not None:
        pool.close()


_kept: dict[str, ConnectionPool] = {}


def _turn(name: str, *, keep: bool) -> None:
    database, pools = connections.databases["default"], DatabaseWrapper._connection_pools
    connections.close_all()
    if (pool := pools.pop("default", None)) is not None:
        if keep:
            _kept[database["NAME"]] = pool
        else:
            pool.close()
    database["NAME"] = name
    if name in _kept:
        pools["default"] = _kept.pop(name)


def _session_name() -> str:
    return os.environ["LOCK_DB_NAME"]
