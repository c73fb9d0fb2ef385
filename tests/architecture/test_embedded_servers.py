"""The embedded servers and roles are what the service relies on."""

from __future__ import annotations

import socket
from collections.abc import Callable

import psycopg
import pytest
import redis
from django.db import connection
from pytest_socket import SocketConnectBlockedError

ConnectAs = Callable[[str], psycopg.Connection[tuple[object, ...]]]


def test_the_web_login_may_become_the_application_but_never_the_queue_role(connect_as: ConnectAs) -> None:
    web = connect_as("web")
    web.execute("SET ROLE lock_app")
    web.execute("RESET ROLE")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        web.execute("SET ROLE lock_queue")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        web.execute("SET ROLE lock_owner")


def test_the_worker_login_may_become_both_but_never_the_owner(connect_as: ConnectAs) -> None:
    worker = connect_as("worker")
    for role in ("lock_app", "lock_queue"):
        worker.execute(f"SET ROLE {role}")
        worker.execute("RESET ROLE")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        worker.execute("SET ROLE lock_owner")


def test_no_role_of_the_service_can_bypass_row_security(connect_as: ConnectAs) -> None:
    found = connect_as("owner").execute(
        "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolinherit, rolcanlogin"
        " FROM pg_roles WHERE rolname LIKE 'lock\\_%' ORDER BY 1"
    )
    assert found.fetchall() == [
        ("lock_app", False, False, False, False, False, False),
        ("lock_owner", False, False, False, False, True, True),
        ("lock_queue", False, False, False, False, False, False),
        ("lock_web", False, False, False, False, False, True),
        ("lock_worker", False, False, False, False, False, True),
    ]


def test_acknowledged_commits_are_on_disk(connect_as: ConnectAs) -> None:
    owner = connect_as("owner")
    shown = [owner.execute(f"SHOW {name}").fetchone() for name in ("fsync", "synchronous_commit", "full_page_writes")]
    assert shown == [("on",), ("on",), ("on",)]


def test_the_orm_runs_as_the_worker_login(database: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT session_user, current_user, current_database()")
        assert cursor.fetchone() == ("lock_worker", "lock_worker", database)


def test_valkey_evicts_nothing_and_asks_for_its_password(valkey_url: str) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        found = client.config_get("maxmemory-policy", "appendonly", "appendfsync", "bind")
        port = client.connection_pool.connection_kwargs["port"]
    assert found == {
        "maxmemory-policy": "noeviction",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "bind": "127.0.0.1",
    }
    with redis.Redis(port=port) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


def test_the_suite_reaches_no_host_but_loopback() -> None:
    blocked = pytest.warns(UserWarning, match="192.0.2.1"), pytest.raises(SocketConnectBlockedError)
    with socket.socket() as line, blocked[0], blocked[1]:
        line.connect(("192.0.2.1", 80))
