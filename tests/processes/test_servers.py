"""The embedded servers start once, survive a crash, coexist and end with whoever they are tied to."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lockservice.embedded import postgres, process, roles, servers, valkey
from lockservice.embedded.local import LocalDirectory, LocalDirectoryError


@pytest.fixture
def local() -> Iterator[LocalDirectory]:
    with tempfile.TemporaryDirectory(prefix="lock-") as folder:
        directory = LocalDirectory(Path(folder) / "local")
        yield directory
        servers.stop(directory, "immediate")


def _owner(local: LocalDirectory) -> psycopg.Connection[tuple[object, ...]]:
    place = postgres.endpoint(local)
    return psycopg.connect(
        host="127.0.0.1",
        port=place.port,
        user="lock_owner",
        password=roles.password(local, "owner"),
        dbname=roles.DATABASE,
        autocommit=True,
    )


def test_a_second_start_uses_the_running_servers(local: LocalDirectory) -> None:
    servers.start(local)
    first = (postgres.running_pid(local), valkey.running_pid(local))
    servers.start(local)
    assert None not in first
    assert (postgres.running_pid(local), valkey.running_pid(local)) == first


def test_what_was_committed_survives_the_death_of_both_servers(local: LocalDirectory) -> None:
    servers.start(local)
    with _owner(local) as connection:
        connection.execute("CREATE TABLE kept (word text)")
        connection.execute("INSERT INTO kept VALUES ('here')")
    assert servers.stop(local, "immediate") == ["valkey", "postgres"]
    assert (postgres.running_pid(local), valkey.running_pid(local)) == (None, None)
    servers.start(local)
    with _owner(local) as connection:
        assert connection.execute("SELECT word FROM kept").fetchall() == [("here",)]


def test_a_server_killed_outright_starts_again(local: LocalDirectory) -> None:
    servers.start(local)
    killed = postgres.running_pid(local)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert process.wait_until(lambda: postgres.running_pid(local) is None, 5)
    servers.start(local)
    assert postgres.is_ready(local)
    assert postgres.running_pid(local) != killed


def test_a_process_id_now_used_by_a_stranger_is_neither_believed_nor_signalled(local: LocalDirectory) -> None:
    servers.start(local)
    servers.stop(local)
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        (local.postgres / "postmaster.pid").write_text(f"{stranger.pid}\n{local.postgres}\n0\n1\n\n\n\nready\n")
        (local.run / "valkey.pid").write_text(f"{stranger.pid}\n")
        assert servers.stop(local) == []
        servers.start(local)
        assert postgres.is_ready(local)
        assert valkey.is_ready(local)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_port_taken_by_somebody_else_is_given_up(local: LocalDirectory) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", local.port("postgres")))
        taken.listen()
        servers.start(local)
        assert postgres.endpoint(local).port != taken.getsockname()[1]
        with _owner(local) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_no_port_is_promised_to_two_servers_of_a_directory(local: LocalDirectory) -> None:
    names = [f"server-{number}" for number in range(150)]
    ports = [local.port(name) for name in names]
    ports += [local.choose_new_port(name) for name in names[:50]]
    assert len({local.port(name) for name in names}) == 150
    assert ports[50:150] == [local.port(name) for name in names[50:]]


def test_tied_servers_end_when_their_starter_is_killed(local: LocalDirectory) -> None:
    code = (
        "import sys, time; from pathlib import Path; from lockservice.embedded import servers;"
        "from lockservice.embedded.local import LocalDirectory;"
        "servers.start(LocalDirectory(Path(sys.argv[1])), tethered=True); print('up', flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code, str(local.root)], stdout=subprocess.PIPE)
    with starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"up\n"
        assert postgres.running_pid(local) is not None
        assert valkey.running_pid(local) is not None
        starter.kill()
    assert process.wait_until(lambda: postgres.running_pid(local) is None, 10)
    assert process.wait_until(lambda: valkey.running_pid(local) is None, 10)


def test_secrets_are_readable_by_their_owner_only_and_stay_the_same(local: LocalDirectory) -> None:
    first = local.secret("example")
    assert local.secret("example") == first
    assert len(first) >= 43
    assert len(local.data_key_file.read_bytes()) == 32
    for file in (local.secrets / "example", local.data_key_file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for folder in (local.root, local.secrets, local.keys):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_path_too_long_for_a_socket_gets_a_short_private_folder() -> None:
    with tempfile.TemporaryDirectory() as folder:
        local = LocalDirectory(Path(folder) / ("x" * 100) / "local")
        sockets = local.socket_directory()
        try:
            assert len(str(sockets / ".s.PGSQL.65535.lock")) <= 107
            assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        finally:
            sockets.rmdir()


def test_a_directory_that_is_a_link_to_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(LocalDirectoryError):
        LocalDirectory(tmp_path / "link").prepare()
