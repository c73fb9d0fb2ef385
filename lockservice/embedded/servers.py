"""Both embedded servers together, with their roles and database.

The one rule: starting is idempotent and quick, so everything that needs the servers just starts them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lockservice.embedded import postgres, roles, valkey
from lockservice.embedded.local import LocalDirectory
from lockservice.embedded.postgres import StopMode


def start(local: LocalDirectory, *, tethered: bool = False) -> None:
    """Start what is not running and make roles and database at first; about 1.5 s, then 0.1 s.

    Raises:
        postgres.PostgresError, valkey.ValkeyError: a server did not become ready.
    """
    local.prepare()
    if tethered:
        # The kernel ties a child to the thread that made it, so both start from this thread.
        valkey.start(local, tethered=True)
        postgres.start(local, tethered=True)
    else:
        with ThreadPoolExecutor(1) as side:
            other = side.submit(valkey.start, local)
            postgres.start(local)
            other.result()
    roles.ensure(local)


def stop(local: LocalDirectory, mode: StopMode = "fast") -> list[str]:
    """Stop both and give the names of those that were running."""
    stopped = []
    if valkey.stop(local, kill=mode == "immediate"):
        stopped.append("valkey")
    if postgres.stop(local, mode):
        stopped.append("postgres")
    return stopped


def environment(local: LocalDirectory) -> dict[str, str]:
    """Give names and values for tools outside of Django, passwords included."""
    database = postgres.endpoint(local)
    values = {
        "MELMASTOON_LOCAL": str(local.root),
        "LOCK_DB_HOST": str(database.socket_directory),
        "LOCK_DB_PORT": str(database.port),
        "LOCK_DB_NAME": roles.DATABASE,
        "LOCK_REDIS_URL": valkey.endpoint(local).url(),
    }
    for login in roles.LOGINS:
        values[f"LOCK_DB_PASSWORD_{login.upper()}"] = roles.password(local, login)
    return values
