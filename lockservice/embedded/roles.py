"""The cluster's roles and the making of databases for them.

The one rule: this is the only place that uses the superuser, through the Unix socket, and only for
roles, databases and the extension; no process of the service ever logs in with it. The statements
are in `roles.sql` and `database.sql`, which production runs as they are.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import psycopg
from psycopg import sql

from lockservice.embedded import postgres
from lockservice.embedded.local import LocalDirectory, replace_file

Login = Literal["owner", "web", "worker"]

DATABASE = "melmastoon"
LOGINS: tuple[Login, ...] = ("owner", "web", "worker")

_HERE = Path(__file__).parent
_ROLES_SQL = _HERE / "roles.sql"
_DATABASE_SQL = _HERE / "database.sql"
_ENCODING = "utf-8"


def role_name(login: Login) -> str:
    """Give the database role of a login: `lock_owner`, `lock_web` or `lock_worker`."""
    return f"lock_{login}"


def password(local: LocalDirectory, login: Login) -> str:
    """Give the generated password of a login."""
    return local.secret(f"{role_name(login)}.password")


def ensure(local: LocalDirectory) -> None:
    """Make the roles and the service's database on a running server; quick when already done.

    Raises:
        psycopg.Error: the server does not run or refused a statement.
    """
    done_file = local.run / "roles.done"
    wanted = _fingerprint(local)
    with postgres.exclusive(local, "roles"):
        if done_file.exists() and done_file.read_text(encoding=_ENCODING) == wanted:
            return
        with _superuser(local, "postgres") as connection:
            connection.execute(_ROLES_SQL.read_bytes())
            for login in LOGINS:
                _set_password(connection, role_name(login), password(local, login))
        create_database(local, DATABASE)
        replace_file(done_file, wanted)


def create_database(local: LocalDirectory, name: str) -> None:
    """Make an empty database owned by `lock_owner` that the other logins may connect to.

    An existing one is kept and brought to the same rights.
    """
    with _superuser(local, "postgres") as connection:
        found = connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchone()
        if found is None:
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER lock_owner").format(sql.Identifier(name)))
    with _superuser(local, name) as connection:
        connection.execute(_DATABASE_SQL.read_bytes())


def drop_database(local: LocalDirectory, name: str) -> None:
    """Remove a database and end its sessions; a missing one is fine."""
    with _superuser(local, "postgres") as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def databases(local: LocalDirectory, prefix: str) -> list[str]:
    """Give the names of the databases that start with the prefix, sorted."""
    with _superuser(local, "postgres") as connection:
        rows = connection.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s) ORDER BY 1", (prefix,)
        ).fetchall()
    return [str(row[0]) for row in rows]


def _superuser(local: LocalDirectory, database: str) -> psycopg.Connection[tuple[object, ...]]:
    dsn = postgres.endpoint(local).superuser_dsn(database)
    return psycopg.connect(dsn, autocommit=True, connect_timeout=10)


def _set_password(connection: psycopg.Connection[tuple[object, ...]], role: str, clear: str) -> None:
    # Hashed here, so that the clear text never stands in a statement that the server could log.
    hashed = connection.pgconn.encrypt_password(clear.encode(), role.encode(), b"scram-sha-256").decode()
    connection.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(hashed)))


def _fingerprint(local: LocalDirectory) -> str:
    parts = [_ROLES_SQL.read_bytes(), _DATABASE_SQL.read_bytes()]
    parts += [password(local, login).encode() for login in LOGINS]
    parts.append((local.postgres / "PG_VERSION").stat().st_ctime_ns.to_bytes(8))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
