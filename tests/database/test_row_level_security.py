"""A query without a tenant sees nothing; a tenant sees itself; the logins can do no more than they must."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.flows.conftest import make_hotel
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

EXEMPT = {
    "core_figuresheet": "one row of numbers under closed words and ids of installations; what is shown to whom: lockservice.api.metrics",
    "core_hotelclock": "one row, the demo's clock; no tenant's data",
    "core_heartbeat": "signs of life of processes; no tenant's data",
    "sagas_relayshard": "leases of the relay; no tenant's data",
    "console_stafftenant": "which tenants a login may enter; read before one is chosen, written by the worker only",
    "sagas_watchcursor": "how far a walk of the watch has come: an id each, read by the queue role alone",
    "sagas_jobslot": "which scheduler took which slot; no tenant's data",
}
FRAMEWORK = ("django_", "auth_")

ConnectAs = Callable[[str], psycopg.Connection[tuple[object, ...]]]


@pytest.fixture(scope="module")
def locks() -> Iterator[MockLocks]:
    mock = MockLocks()
    yield mock
    mock.stop()


def _tables(connection: psycopg.Connection[tuple[object, ...]]) -> dict[str, tuple[bool, bool, str, bool]]:
    rows = connection.execute(
        "SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity, pg_get_userbyid(c.relowner), EXISTS (SELECT 1 FROM"
        " pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)"
        " FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace"
    ).fetchall()
    return {str(name): (bool(on), bool(forced), str(owner), bool(has)) for name, on, forced, owner, has in rows}


def test_every_table_is_secured_and_forced_or_exempt_with_a_reason(database: str, connect_as: ConnectAs) -> None:
    tables = _tables(connect_as("owner"))
    open_tables = {
        name for name, (on, forced, _, _) in tables.items() if not (on and forced) and not name.startswith(FRAMEWORK)
    }
    assert open_tables == set(EXEMPT)
    assert {name for name, (*_, has_tenant) in tables.items() if has_tenant and name in open_tables} == {"console_stafftenant"}
    assert {owner for _, _, owner, _ in tables.values()} == {"lock_owner"}


def test_the_logins_inherit_nothing_and_bypass_nothing(database: str, connect_as: ConnectAs) -> None:
    rows = (
        connect_as("worker")
        .execute(
            "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname LIKE 'lock\\_%'"
        )
        .fetchall()
    )
    assert {row[0] for row in rows} >= {"lock_owner", "lock_app", "lock_queue", "lock_web", "lock_worker"}
    assert not any(flag for row in rows for flag in row[1:])


def test_without_a_tenant_nothing_is_seen_in_any_table(database: str, locks: MockLocks, connect_as: ConnectAs) -> None:
    hotel = make_hotel(locks)
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    tenant_tables = [name for name, (on, *_) in _tables(connect_as("owner")).items() if on]
    for login in ("web", "worker"):
        connection = connect_as(login)
        for table in tenant_tables:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(f"SELECT 1 FROM {table} LIMIT 1")
        with connection.transaction():
            connection.execute("SELECT set_config('role', 'lock_app', true)")
            for table in tenant_tables:
                assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


def test_a_tenant_sees_its_own_rows_and_no_others(database: str, locks: MockLocks, connect_as: ConnectAs) -> None:
    mine, theirs = make_hotel(locks), make_hotel(locks)
    for hotel in (mine, theirs):
        hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    assert _seen(connect_as("web"), mine) == {mine.tenant_id}
    connection = connect_as("web")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
        _enter(connection, mine.tenant_id)
        connection.execute(
            "INSERT INTO core_room (tenant_id, property_id, room_id, label, floor, areas) VALUES (%s, 'p', 'r', 'x', '', '{}')",
            [theirs.tenant_id],
        )
    with connection.transaction():
        _enter(connection, mine.tenant_id)
        changed = connection.execute("UPDATE core_room SET label = 'x' WHERE tenant_id = %s", [theirs.tenant_id])
        assert changed.rowcount == 0


def test_nothing_is_left_of_a_tenant_after_its_transaction(database: str, locks: MockLocks, connect_as: ConnectAs) -> None:
    hotel = make_hotel(locks)
    connection = connect_as("worker")
    with connection.transaction():
        _enter(connection, hotel.tenant_id)
        assert connection.execute("SELECT count(*) FROM core_property").fetchone() == (1,)
    with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
        connection.execute("SELECT count(*) FROM core_property")


def test_the_web_login_cannot_take_the_queue_role(database: str, connect_as: ConnectAs) -> None:
    connection = connect_as("web")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
        connection.execute("SET LOCAL ROLE lock_queue")
    worker = connect_as("worker")
    with worker.transaction():
        worker.execute("SET LOCAL ROLE lock_queue")


def test_the_queue_role_sees_no_more_of_a_credential_than_its_schedule(database: str, connect_as: ConnectAs) -> None:
    connection = connect_as("worker")
    with connection.transaction():
        connection.execute("SET LOCAL ROLE lock_queue")
        connection.execute("SELECT tenant_id, id, state, ends_at FROM credentials_keycredential LIMIT 1")
    for column in ("holder_id", "issue_key", "rooms"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute("SET LOCAL ROLE lock_queue")
            connection.execute(f"SELECT {column} FROM credentials_keycredential LIMIT 1")


def test_a_credentials_story_can_only_grow(database: str, locks: MockLocks, connect_as: ConnectAs) -> None:
    hotel = make_hotel(locks)
    connection = connect_as("worker")
    for statement in ("UPDATE credentials_transition SET reason = 'x'", "DELETE FROM credentials_transition"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            _enter(connection, hotel.tenant_id)
            connection.execute(statement)
    for table in ("credentials_transition", "sagas_outboxevent"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            _enter(connection, hotel.tenant_id)
            connection.execute(f"TRUNCATE {table}")


@pytest.mark.parametrize(
    ("old", "new"), [("requested", "active"), ("active", "pending"), ("revoked", "active"), ("failed", "requested")]
)
def test_the_database_refuses_a_move_the_lifecycle_does_not_know(
    database: str, locks: MockLocks, connect_as: ConnectAs, old: str, new: str
) -> None:
    hotel = make_hotel(locks)
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    owner = connect_as("owner")
    path = {"requested": [], "active": ["pending", "active"], "failed": ["failed"], "revoked": ["pending", "active", "revoked"]}
    with owner.transaction():
        for state in path[old]:
            owner.execute(
                "UPDATE credentials_keycredential SET state = %s, revoke_reason = 'checkout' WHERE tenant_id = %s",
                [state, hotel.tenant_id],
            )
    with pytest.raises(psycopg.errors.CheckViolation), owner.transaction():
        owner.execute("UPDATE credentials_keycredential SET state = %s WHERE tenant_id = %s", [new, hotel.tenant_id])


def _enter(connection: psycopg.Connection[tuple[object, ...]], tenant_id: str) -> None:
    connection.execute("SELECT set_config('role', 'lock_app', true), set_config('app.tenant', %s, true)", [tenant_id])


def _seen(connection: psycopg.Connection[tuple[object, ...]], hotel: Hotel) -> set[object]:
    seen: set[object] = set()
    with connection.transaction():
        _enter(connection, hotel.tenant_id)
        for table, (on, *_) in _tables(connection).items():
            if on:
                seen |= {row[0] for row in connection.execute(f"SELECT DISTINCT tenant_id FROM {table}").fetchall()}
    return seen
