"""Nothing slow happens inside a transaction: the tests' database backend raises where it would."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.contrib.auth.hashers import make_password
from django.db import connection, transaction
from django.test import Client

from lockservice.console import demo
from lockservice.console.access import grant
from lockservice.console.roles import Role
from lockservice.core import crypto_envelope
from lockservice.core.kms import key_wrapper
from lockservice.core.secret_store import SecretName, secret_store
from lockservice.core.tenancy import queues, tenant
from tests.support.guarded_backend import guard
from tests.support.guarded_backend.guard import SlowInTransaction
from vendors.port.ids import new_id
from vendors.port.secrets import Token


@pytest.fixture
def tenant_id(database: str) -> str:
    return new_id("tnt")


def _connect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), timeout=1):
        pass


def _wrap() -> None:
    crypto_envelope.new_data_key(key_wrapper(), "a-key", "tnt_a", ("table", "row", "column"))


def _store() -> None:
    secret_store().add(SecretName("tnt_a", "ppt_a", "vad_a", "password"), Token("a secret"))


def _hash() -> None:
    make_password("correct horse battery staple")


def _write(folder: Path) -> None:
    (folder / "file").write_text("text")


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


SLOW: dict[str, Callable[[Path], object]] = {
    "a password's hash": lambda folder: _hash(),
    "a connection to": lambda folder: _connect(),
    "a write to the file": _write,
    "a sync of a file": _sync,
    "KeyFolder.wrap": lambda folder: _wrap(),
    "FileStore.add": lambda folder: _store(),
    "a sleep": lambda folder: time.sleep(0.01),
    "a start of": lambda folder: subprocess.run([sys.executable, "-c", ""], check=True),
}


@pytest.fixture
def _found_is_meant() -> Iterator[None]:
    yield
    guard.found.clear()


@pytest.mark.usefixtures("_found_is_meant")
@pytest.mark.parametrize("what", SLOW)
def test_what_is_slow_is_refused_inside_a_transaction_and_done_outside(what: str, tenant_id: str, tmp_path: Path) -> None:
    SLOW[what](tmp_path)
    blocks = (lambda: tenant(tenant_id), queues, transaction.atomic)
    for block in blocks:
        with pytest.raises(SlowInTransaction, match=what), block():
            SLOW[what](tmp_path)
    assert len(guard.found) == len(blocks)
    SLOW[what](tmp_path)


@pytest.mark.usefixtures("_found_is_meant")
def test_what_was_caught_is_still_found(tenant_id: str) -> None:
    with tenant(tenant_id), pytest.raises(AssertionError):
        hashlib.scrypt(b"password", salt=b"salt", n=2, r=1, p=1)
    assert "a password's hash inside a transaction" in guard.found[0]
    assert "test_nothing_slow.py" in guard.found[0]


def test_the_databases_own_connections_and_other_threads_are_free(tenant_id: str, tmp_path: Path) -> None:
    done: list[str] = []

    def beside() -> None:
        for what, work in SLOW.items():
            work(tmp_path)
            done.append(what)

    with tenant(tenant_id):
        thread = threading.Thread(target=beside)
        thread.start()
        with connection.cursor() as cursor:
            while thread.is_alive():  # asked all the while: a session may not idle for longer than a slow machine takes
                cursor.execute("SELECT pg_sleep(0.05)")
        (tmp_path / "file").read_text()
    assert done == list(SLOW)


def test_a_process_of_the_tests_is_watched_too(tenant_id: str) -> None:
    code = (
        "import django; django.setup()\n"
        "from lockservice.core.tenancy import tenant\n"
        "import time\n"
        f"with tenant({tenant_id!r}): time.sleep(0.01)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "SlowInTransaction: a sleep inside a transaction" in done.stderr


# --- What it found --------------------------------------------------------------------------------


def test_people_are_made_without_a_password_being_hashed_in_a_transaction(tenant_id: str) -> None:
    prefix = f"{secrets.token_hex(4)}-"
    words = {f"{prefix}{name}": secrets.token_urlsafe(8) for name, _ in demo.logins()}
    for _ in range(2):
        people = demo.ensure_users(tenant_id, words.__getitem__, prefix=prefix)
    assert {login for login, _, _ in people} == set(words)
    login, word = next(iter(words.items()))
    assert authenticate(username=login, password=word) is not None
    assert authenticate(username=login, password="another") is None


def test_no_page_of_the_console_makes_people_or_sets_their_passwords(tenant_id: str) -> None:
    login = f"root-{secrets.token_hex(4)}"
    grant(login, tenant_id, Role.GM)
    root = get_user_model().objects.get(username=login)
    root.is_superuser = True
    root.save()
    client = Client()
    client.force_login(root)
    assert client.get("/console/").status_code == 200
    for path in ("auth/user/", "auth/user/add/", f"auth/user/{root.pk}/password/", "auth/group/"):
        assert client.get(f"/console/{path}").status_code == 404, path
