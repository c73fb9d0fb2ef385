"""The watch reads page by page: all is looked at in the end, little at a time, whoever looks and whoever is killed."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection

from lockservice.core.tenancy import queues, tenant
from lockservice.embedded import postgres, roles
from lockservice.embedded.local import LocalDirectory
from sagas.models import Alert, Lane, Saga, Violation
from sagas.watch import pages
from sagas.watch.look import CHECKS, look, look_at_all
from tests.support import own_database
from tests.support.estate import Estate, Size, fill
from tests.support.plans import watched

SIZE = Size(tenants=2, rooms=110, past=20, waiting=210)
"""Of live keys, of doors that may open, of keys with open work and of stays there is more than a page."""

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def estate(database: str, embedded_servers: LocalDirectory) -> Iterator[tuple[Estate, psycopg.Connection[tuple[object, ...]]]]:
    name = own_database.copy(embedded_servers)
    dsn = postgres.endpoint(embedded_servers).superuser_dsn(name)
    with own_database.turned_to(name), psycopg.connect(dsn, autocommit=True) as admin:
        yield fill(embedded_servers, SIZE), admin
    roles.drop_database(embedded_servers, name)


Ground = tuple[Estate, psycopg.Connection[tuple[object, ...]]]


def _begin_anew(admin: psycopg.Connection[tuple[object, ...]]) -> None:
    admin.execute("UPDATE sagas_watchcursor SET after = '', next_at = clock_timestamp()")


def _found(estate: Estate) -> int:
    count = 0
    for house in estate.houses:
        with tenant(house.tenant_id):
            count += Violation.objects.filter(tenant_id=house.tenant_id).count()
    return count


def test_a_house_with_a_past_gives_no_cause_for_alarm(estate: Ground) -> None:
    look_at_all()
    assert _found(estate[0]) == 0


def test_one_look_reads_one_page_of_each_check(estate: Ground) -> None:
    _begin_anew(estate[1])
    with watched() as plans:
        look()
    read = [scan.rows for plan in plans for scan in plan.scans if plan.sql.lstrip().startswith("WITH")]
    assert 2 * pages.PAGE <= max(read) <= 3 * pages.PAGE  # the doors of a page of keys: two each, or three
    rows = estate[1].execute("SELECT name, after <> '' FROM sagas_watchcursor ORDER BY name").fetchall()
    assert {str(name) for name, goes_on in rows if goes_on} == {
        "ended_key", "key_without_stay", "live_key", "open_work", "stay_without_key",
    }  # fmt: skip


@pytest.mark.parametrize("last", [False, True])
def test_every_key_is_reached_page_by_page(estate: Ground, last: bool) -> None:
    """The first and the last of all, in the order of the walk."""
    ground, admin = estate
    order = "DESC" if last else "ASC"
    row = admin.execute(
        "SELECT tenant_id, id FROM credentials_keycredential WHERE state = 'active'"
        f" ORDER BY tenant_id {order}, id {order} LIMIT 1"
    ).fetchone()
    assert row is not None
    tenant_id, key_id = str(row[0]), str(row[1])
    admin.execute("UPDATE credentials_credentialdoor SET carried_until = now() WHERE credential_id = %s", [key_id])
    _begin_anew(admin)
    looks = 0
    while not _alerts(tenant_id, key_id):
        look()
        looks += 1
        assert looks < 10
    assert looks == (
        1 if not last else -(-_count(admin, "credentials_keycredential WHERE state NOT IN ('revoked', 'failed')") // pages.PAGE)
    )
    assert _alerts(tenant_id, key_id) == ["LIVE_KEY_DIFFERS"]
    look_at_all()
    assert _alerts(tenant_id, key_id) == ["LIVE_KEY_DIFFERS"]
    assert _found(ground) == 1


def test_two_processes_share_the_pages(estate: Ground) -> None:
    _begin_anew(estate[1])
    with queues(), connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sagas_watchcursor FOR UPDATE SKIP LOCKED")
        assert len(cursor.fetchall()) == len(CHECKS) + 1
        other = estate[1].execute("SELECT name FROM sagas_watchcursor FOR UPDATE SKIP LOCKED").fetchall()
    assert other == []


def test_a_lane_is_noted_when_work_is_due_and_forgotten_when_none_is(estate: Ground) -> None:
    ground, admin = estate
    lane = f"{ground.houses[0].installation_id}:"
    admin.execute("UPDATE sagas_saga SET status = 'done' WHERE status = 'due'")
    with queues():
        pages.due_lanes("")
        assert Lane.objects.get(key=lane).due_since is None
    admin.execute("UPDATE sagas_saga SET status = 'due' WHERE id = (SELECT min(id) FROM sagas_saga WHERE lane = %s)", [lane])
    with queues():
        assert pages.due_lanes("").suspects == ()
        since = Lane.objects.get(key=lane).due_since
        assert since is not None
        pages.due_lanes("")
        assert Lane.objects.get(key=lane).due_since == since
        assert Saga.objects.filter(status="due").count() == 1


def _alerts(tenant_id: str, key_id: str) -> list[str]:
    with tenant(tenant_id):
        return list(Alert.objects.filter(tenant_id=tenant_id, credential_id=key_id).values_list("code", flat=True))


def _count(admin: psycopg.Connection[tuple[object, ...]], what: str) -> int:
    row = admin.execute(f"SELECT count(*) FROM {what}").fetchone()
    assert row is not None
    return int(str(row[0]))
