"""Real PostgreSQL and Valkey for the tests that ask for them.

The one rule: tests run on one shared, migrated database as `lock_worker`, the login that workers
use, so row-level security applies to them. No test is wrapped in a transaction; each makes a tenant
of its own and cleans nothing. A test that touches the database asks for the fixture `database`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connections
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from pytest_django.plugin import DjangoDbBlocker

from lockservice.embedded import postgres, process, roles, servers, valkey
from lockservice.embedded.local import LocalDirectory
from tests.support import own_database
from tests.support.every_other import left_out
from tests.support.folder_seconds import FolderSeconds
from tests.support.guarded_backend import guard
from tests.support.leak_watch import LeakWatch

ConnectAs = Callable[[roles.Login], psycopg.Connection[tuple[object, ...]]]

# How long an example takes says something about the machine, not about the property.
hypothesis_settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("any machine")

THINNED = (
    "tests/cases/",
    "tests/api/test_slow_callers.py",
    "tests/api/test_surroundings.py",
    "tests/bus/test_contract.py",
    "tests/console/test_browser.py",
    "tests/console/test_device_pages.py",
    "tests/console/test_findings_browser.py",
    "tests/reconcile/test_wires.py",
    "tests/vendors/test_live_path.py",
)
"""Tests that take seconds a variant."""

_TEST_DATABASES = "test_"
_session_lock: int | None = None


def pytest_configure(config: pytest.Config) -> None:
    """Note that this session uses the servers (parallel workers belong to their controller), and watch what it writes."""
    global _session_lock  # noqa: PLW0603 - held open until the process ends
    if not _is_worker(config):
        local = LocalDirectory.from_environment().prepare()
        _session_lock = os.open(local.run / "test-sessions.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(_session_lock, fcntl.LOCK_SH)
        config.pluginmanager.register(FolderSeconds(), "folder-seconds")
    config.pluginmanager.register(LeakWatch(config), "leak-watch")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers, unless another session still uses them."""
    if _is_worker(config) or _session_lock is None:
        return
    try:
        fcntl.flock(_session_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # the last session stops them
    servers.stop(LocalDirectory.from_environment())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that tests recorded as their evidence (`record_property("figure", …)`)."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    figures = [
        str(value)
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == "figure"
    ]
    if figures:
        terminalreporter.section("figures")
        terminalreporter.write("\n".join([*sorted(figures), ""]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave every other variant of long tests to `make chaos`, before the marks are looked at; refuse the mark that would wrap a
    test in a transaction outside of any tenant."""
    for item in left_out(item for item in items if item.nodeid.startswith(THINNED)):
        item.add_marker(pytest.mark.chaos)
    wrapped = [item.nodeid for item in items if item.get_closest_marker("django_db")]
    if wrapped:
        message = f"use the fixture `database` in place of the mark django_db: {', '.join(wrapped)}"
        raise pytest.UsageError(message)


@pytest.fixture(scope="session")
def embedded_servers() -> LocalDirectory:
    """Give the local directory of running servers."""
    local = LocalDirectory.from_environment()
    servers.start(local)
    with redis.Redis.from_url(
        valkey.endpoint(local).url()
    ) as server:  # rate limits are full at once, not only 18 s after its start (devices/limits.py)
        server.hset("limit:since", mapping={"run": server.info("server")["run_id"], "at": 0})
    return local


@pytest.fixture(scope="session")
def database(embedded_servers: LocalDirectory, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """Give the name of this session's migrated database and allow the ORM to use it."""
    name = settings.DATABASES["default"]["NAME"]
    _make_once(embedded_servers, name)
    with django_db_blocker.unblock():
        yield name
        connections.close_all()
        for connection in connections.all(initialized_only=True):
            connection.close_pool()


@pytest.fixture(autouse=True)
def _nothing_slow_in_a_transaction() -> Iterator[None]:
    """Fail a test in whose transactions something slow happened, also where the exception was caught."""
    yield
    slow = list(guard.found)
    guard.found.clear()
    assert not slow, "\n".join(slow)


@pytest.fixture(autouse=True)
def _connection_goes_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """Return this thread's connection to the pool, so that no test inherits another's session."""
    yield
    if "database" in request.fixturenames:
        connections.close_all()


@pytest.fixture
def valkey_url(embedded_servers: LocalDirectory) -> str:
    """Give the address of the embedded Valkey, database 0; use key names of your own."""
    return valkey.endpoint(embedded_servers).url()


@pytest.fixture
def connect_as(database: str, embedded_servers: LocalDirectory) -> Iterator[ConnectAs]:
    """Give a function that opens a plain autocommit connection for a login: owner, web or worker."""
    opened: list[psycopg.Connection[tuple[object, ...]]] = []

    def connect(login: roles.Login) -> psycopg.Connection[tuple[object, ...]]:
        place = postgres.endpoint(embedded_servers)
        connection = psycopg.connect(
            host=str(place.socket_directory),
            port=place.port,
            dbname=database,
            user=roles.role_name(login),
            password=roles.password(embedded_servers, login),
            autocommit=True,
        )
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


def _make_once(local: LocalDirectory, name: str) -> None:
    """Make the session's database from the migrated template; of several parallel workers the first does it."""
    done = local.run / f"{name}.migrated"
    with postgres.exclusive(local, "session-database"):
        if done.exists():
            return
        with postgres.exclusive(local, "test-databases"):
            _drop_left_over(local)
        own_database.copy(local, name)
        done.touch()


def _drop_left_over(local: LocalDirectory) -> None:
    for name in roles.databases(local, _TEST_DATABASES):
        owner = name.removeprefix(_TEST_DATABASES).partition("_")[0]
        if not (owner.isdigit() and process.is_alive(int(owner))):
            roles.drop_database(local, name)
            (local.run / f"{name}.migrated").unlink(missing_ok=True)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")
