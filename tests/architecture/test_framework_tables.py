"""Django's own tables serve the console's sign-in, as the login that web processes use."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

ConnectAs = Callable[[str], psycopg.Connection[tuple[object, ...]]]


def test_the_web_login_may_keep_sessions_without_a_tenant(connect_as: ConnectAs) -> None:
    web = connect_as("web")
    web.execute("INSERT INTO django_session VALUES ('k1', 'data', now()) ON CONFLICT DO NOTHING")
    assert web.execute("SELECT count(*) FROM django_session WHERE session_key = 'k1'").fetchone() == (1,)
    assert web.execute("DELETE FROM django_session WHERE session_key = 'k1'").rowcount == 1


@pytest.mark.parametrize("login", ["web", "worker"])
def test_no_working_login_may_change_the_schema_or_its_history(connect_as: ConnectAs, login: str) -> None:
    connection = connect_as(login)
    for statement in (
        "DELETE FROM django_migrations",
        "TRUNCATE django_session",
        "ALTER TABLE auth_user ADD COLUMN x int",
        "CREATE TABLE mine (x int)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)
