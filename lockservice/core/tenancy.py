"""Who sees which rows: every transaction names its tenant, or says that it works the queues.

One rule: the two database logins own nothing and inherit nothing, so a statement outside these blocks is refused by
PostgreSQL (permission denied), and a block sees only what row-level security lets its role and tenant see.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import Error, connection, transaction
from psycopg import errors, generators, pq, sql

from lockservice.core.outage import is_outage

APP_ROLE = "lock_app"
QUEUE_ROLE = "lock_queue"
UNATTRIBUTED = "tnt_00000000000000000000000000"
"""The tenant of dead letters whose own tenant could not be established."""

DEAD_IN_POOL = 16
"""At most so many dead connections in a row are dropped before an error is told; no pool here is larger."""

_TAKE_ROLE = "SELECT set_config('role', {}, true), set_config('app.tenant', {}, true), set_config('enable_seqscan', {}, true)"

_current: ContextVar[tuple[str, str] | None] = ContextVar("database_scope", default=None)


class ScopeConflict(RuntimeError):
    """A block for one tenant was opened inside a block for another. A programming error; never retried."""


@contextmanager
def tenant(tenant_id: str) -> Iterator[None]:
    """Opens a transaction that sees one tenant's rows. Nesting under the same tenant makes a savepoint.

    Raises ScopeConflict inside another tenant's block, and ValueError for an empty id.
    """
    if not tenant_id:
        raise ValueError("a tenant is required")
    with _scope(APP_ROLE, tenant_id):
        yield


@contextmanager
def queues() -> Iterator[None]:
    """Opens a transaction that sees the queue tables of all tenants and nothing else. Refused to the web login."""
    with _scope(QUEUE_ROLE, ""):
        yield


def switch_to_tenant(tenant_id: str) -> None:
    """Turns the running `queues()` transaction to one tenant, so that one batch may serve several."""
    _require_queue_block()
    _apply(APP_ROLE, tenant_id)


def switch_to_queues() -> None:
    """Turns the running `queues()` transaction back to the queue tables."""
    _require_queue_block()
    _apply(QUEUE_ROLE, "")


def current_tenant() -> str | None:
    """Returns the tenant of the block this code runs in; None outside a block or in a queue block."""
    scope = _current.get()
    return scope[1] or None if scope else None


@contextmanager
def _scope(role: str, tenant_id: str) -> Iterator[None]:
    outer = _current.get()
    if outer is not None and outer != (role, tenant_id):
        raise ScopeConflict(f"block {role} inside block {outer[0]}")
    if outer is not None:
        with transaction.atomic():
            yield
        return
    _wake_connection()
    try:
        with transaction.atomic():
            _begin(role, tenant_id)
            token = _current.set((role, tenant_id))
            try:
                yield
            finally:
                _current.reset(token)
    except Exception as error:
        if is_outage(error) and not connection.in_atomic_block:
            connection.close()  # the next block begins on a session that lives
        raise


def _wake_connection() -> None:
    """Gets a connection that lives. After a restart of the database the pool hands out dead ones, each of which fails at once
    and is dropped; so asking again is quick and, before the transaction's first statement, safe."""
    if connection.connection is not None:
        return
    for last in (False,) * DEAD_IN_POOL + (True,):
        connection.ensure_connection()  # waits at most the pool's timeout, then says that the database is away
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except Error as error:
            connection.close()
            if last or not is_outage(error):
                raise
        else:
            return


def _begin(role: str, tenant_id: str) -> None:
    """Begins the transaction and takes the role in one message. The driver would send BEGIN alone before the first statement,
    one way more of four in a short block (`tenant_block` of `make bench`). A transaction that has begun goes on."""
    driver = connection.connection
    if driver.info.transaction_status != pq.TransactionStatus.IDLE:
        _apply(role, tenant_id)
        return
    message = b"BEGIN; " + sql.SQL(_TAKE_ROLE).format(*map(sql.Literal, _settings(role, tenant_id))).as_bytes(driver)
    with connection.wrap_database_errors, driver.lock:
        driver.pgconn.send_query(message)
        for result in driver.wait(generators.execute(driver.pgconn)):
            if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
                raise errors.error_from_result(result, encoding=driver.info.encoding)


def _apply(role: str, tenant_id: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_TAKE_ROLE.replace("{}", "%s"), _settings(role, tenant_id))


def _settings(role: str, tenant_id: str) -> list[str]:
    """Returns the values for `_TAKE_ROLE`. A queue block looks for the few rows that are due among all there are, always by an
    index; how few the planner cannot know of an instant that it reads from a clock."""
    return [role, tenant_id, "off" if role == QUEUE_ROLE else "on"]


def _require_queue_block() -> None:
    if (_current.get() or ("", ""))[0] != QUEUE_ROLE:
        raise ScopeConflict("only a queue block may switch tenants")
