"""The watch finds what it looks for: a planted secret that leaks lets the run fail, wherever it went."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import redis

from lockservice.embedded import postgres, roles, valkey
from lockservice.embedded.local import REPOSITORY_ROOT, LocalDirectory
from tests.support import leak_search, own_database
from tests.support.marked import KEYPAD, MARKS, Marks

CONFTEST = """
from tests.support.leak_watch import LeakWatch

def pytest_configure(config):
    config.pluginmanager.register(LeakWatch(config))
"""
SILENT = "assert len(marked.token()) > 40"
LEAKS = {
    "print": "print('login with', marked.token())",
    "log": "import logging; logging.getLogger('x').warning('pin %s refused', marked.pin())",
    "child process": "import subprocess; subprocess.run(['echo', marked.card_number()], check=True)",
    "exception text": "raise ValueError(f'no such card {marked.card_number()}')",
    "repr": "print(repr({'Authorization': 'Basic ' + __import__('base64').b64encode(b'me:' + marked.token().encode()).decode()}))",
    "hexadecimal": "print(marked.pin().encode().hex())",
    "warning": "import warnings; warnings.warn(marked.token())",
    "drawn at a marked keypad": "print('code', '479479774')",
    "unmarked but noted": "print(marked.plant('0123456789abcdef0123456789abcdef'))",
    "unmarked in an address": "print('GET /keys/' + marked.plant('5555666677778888aaaabbbb') + '/doors?ref=1')",
    "unmarked with other signs": "print('ref=' + marked.plant('a1/b2+c3-d4{e5}:f6=='))",
    "process log": "import os, pathlib; (pathlib.Path(os.environ['MELMASTOON_LOCAL']) / 'log' / 'web.log').write_text(marked.token())",
}


@pytest.fixture
def other() -> Marks:
    """Marks of another run, so that this run's own search is not set off."""
    return Marks(secrets.token_hex(5))


def _run(folder: Path, bodies: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """A run of its own, watched, on servers that do not run: one test for each body."""
    (folder / "conftest.py").write_text(CONFTEST)
    tests = [f"def test_{name.replace(' ', '_')}():\n    {body}\n" for name, body in bodies.items()]
    (folder / "test_some.py").write_text("\n\n".join(["from tests.support import marked\n", *tests]))
    local = folder / "local"
    (local / "log").mkdir(parents=True, mode=0o700, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOCK_", "PYTEST_", "DJANGO_"))}
    return subprocess.run(
        [
            sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:django", "-p", "no:cacheprovider",
            "-p", "no:valkey", "--allow-unix-socket", *options, str(folder),
        ],
        cwd=folder, env={**kept, "PYTHONPATH": str(REPOSITORY_ROOT), "MELMASTOON_LOCAL": str(local)},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def _told(done: subprocess.CompletedProcess[str]) -> str:
    """What the watch says at the end."""
    return done.stdout.partition("= planted secrets =")[2].partition("= short test summary")[0]


@pytest.mark.parametrize("options", [(), ("-n", "2", "-p", "randomly")], ids=["one process", "parallel and in random order"])
def test_every_way_to_leak_is_found_and_named_by_its_place_without_the_secret(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = _run(tmp_path, LEAKS, *options)
    assert done.returncode == 1, done.stdout
    told = _told(done)
    for way in LEAKS:
        place = "web.log" if way == "process log" else f"test_{way.replace(' ', '_')}"
        assert place in told, (way, told)
    assert not re.search(r"planted[0-9a-f]{10}|479479774|0123456789abcdef", told)


def test_one_leak_lets_a_run_fail_in_which_every_test_passes(tmp_path: Path) -> None:
    options = ("--junit-xml", str(tmp_path / "result.xml"), "-o", "junit_logging=all")
    done = _run(tmp_path, {"print": LEAKS["print"]}, *options)
    assert "1 passed" in done.stdout
    assert done.returncode == 1, done.stdout
    assert "test_print, Captured stdout call" in _told(done)
    assert "result.xml" in _told(done)


def test_a_run_that_keeps_its_secrets_passes_and_says_what_was_searched(tmp_path: Path) -> None:
    done = _run(tmp_path, {"silent": SILENT})
    assert done.returncode == 0, done.stdout
    assert "no planted secret in" in _told(done)


def test_a_leak_in_any_column_of_any_table_is_found(embedded_servers: LocalDirectory, other: Marks) -> None:
    database = own_database.copy(embedded_servers)  # others look through all tables of the common one meanwhile
    with psycopg.connect(postgres.endpoint(embedded_servers).superuser_dsn(database), autocommit=True) as connection:
        try:
            connection.execute("CREATE TABLE leak_probe (id int, words text, body bytea, facts jsonb)")
            rows = [
                (1, f"code {other.pin()}", b"", "{}"),
                (2, "", f'{{"token":"{other.token()}"}}'.encode(), "{}"),
                (3, "", b"", f'{{"card": {other.card_number()}}}'),
                (4, "nothing", secrets.token_bytes(400), '{"n": 123456789}'),
            ]
            for row in rows:
                connection.execute("INSERT INTO leak_probe VALUES (%s, %s, %s, %s)", row)
            found, counts = leak_search.in_database(other, embedded_servers, database)
        finally:
            connection.close()
            roles.drop_database(embedded_servers, database)
    assert [leak.place for leak in found] == [f"table leak_probe, column {name}" for name in ("body", "facts", "words")]
    assert counts["leak_probe"] == 4
    assert {"sagas_outboxevent", "sagas_inboxmessage", "sagas_saga", "sagas_deadletter", "sagas_alert"} <= set(counts)


def test_a_leak_in_any_kind_of_valkey_key_and_in_its_file_is_found(embedded_servers: LocalDirectory, other: Marks) -> None:
    client = redis.Redis.from_url(valkey.endpoint(embedded_servers).url(7))
    name = f"leak-probe-{secrets.token_hex(4)}"
    writes: list[Callable[[str], object]] = [
        lambda key: client.set(key, other.token()),
        lambda key: client.lpush(key, f'{{"body": "{other.pin()}"}}'),
        lambda key: client.sadd(key, other.card_number()),
        lambda key: client.hset(key, other.token(), "1"),
        lambda key: client.xadd(key, {"data": other.token()}),
        lambda key: client.zadd(key, {other.pin(): 1.0}),
    ]
    try:
        for number, write in enumerate(writes):
            write(f"{name}-{number}")
        found, count = leak_search.in_valkey(other, frozenset(), embedded_servers)
    finally:
        client.delete(*(f"{name}-{number}" for number in range(len(writes))))
        client.close()
    assert len({leak.place for leak in found}) == len(writes)
    assert count >= len(writes)


def test_marks_are_not_seen_in_innocent_text() -> None:
    innocent = [
        "2026-11-28T02:04:05.123456789Z", f"id {MARKS.prefix}", f"{MARKS.prefix}12345678", "479479", f"9{KEYPAD * 3}", "planted",
        secrets.token_hex(4000), f"\\x{secrets.token_hex(300)}",
    ]  # fmt: skip
    assert [text for text in innocent if leak_search.in_text(MARKS, frozenset(), text, "")] == []


@pytest.mark.parametrize("lead", range(4))
def test_a_mark_is_seen_in_base64_however_it_is_aligned(other: Marks, lead: int) -> None:
    import base64

    text = base64.b64encode(b"u" * lead + other.token().encode() + b"tail").decode()
    assert len(leak_search.in_text(other, frozenset(), text, "x")) == 1
