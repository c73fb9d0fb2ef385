"""The secret store, in files and at Google: versions that never change, one winner each, clear failures."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from lockservice.core.crc32c import crc32c
from lockservice.core.crypto import SealBroken
from lockservice.core.secret_cache import FRESH_S, KEPT_S, PAUSE_S, HeldSecrets
from lockservice.core.secret_store import MAX_BYTES, SecretMissing, SecretName, SecretStore, StoreUnavailable
from lockservice.core.secret_store_file import FileStore
from lockservice.core.secret_store_google import GoogleStore
from tests.support.google_secrets import GoogleServer
from vendors.port.secrets import Token

Name = Callable[..., SecretName]


def test_the_checksum_has_the_standards_check_value() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


def test_versions_count_up_and_each_keeps_its_value(store: SecretStore, name: Name) -> None:
    assert [store.add(name(), Token(value)) for value in ("first", "second", "дари ۱۲۳\nline two")] == [1, 2, 3]
    assert [store.read(name(), number).reveal() for number in (1, 2, 3)] == ["first", "second", "дари ۱۲۳\nline two"]
    assert store.add(name("webhook_secret"), Token("other")) == 1


def test_a_destroyed_version_is_gone_for_good_and_its_number_is_not_given_again(store: SecretStore, name: Name) -> None:
    for value in ("first", "second"):
        store.add(name(), Token(value))
    store.destroy(name(), 2)
    store.destroy(name(), 2)
    with pytest.raises(SecretMissing):
        store.read(name(), 2)
    assert store.read(name(), 1).reveal() == "first"
    assert store.add(name(), Token("third")) == 3


def test_what_was_never_written_is_missing_and_destroying_it_does_nothing(store: SecretStore, name: Name) -> None:
    store.add(name(), Token("first"))
    with pytest.raises(SecretMissing):
        store.read(name(), 2)
    with pytest.raises(SecretMissing):
        store.read(name("api_key"), 1)
    store.destroy(name("api_key"), 1)


def test_an_empty_or_too_long_value_is_refused_without_being_repeated(store: SecretStore, name: Name) -> None:
    for value in ("", "x" * (MAX_BYTES + 1)):
        with pytest.raises(ValueError, match=r"^a secret has 1 to \d+ bytes$"):
            store.add(name(), Token(value))


@pytest.mark.parametrize("writers", [8])
def test_many_writers_at_once_get_a_version_each(store: SecretStore, name: Name, writers: int) -> None:
    with ThreadPoolExecutor(writers) as pool:
        versions = list(pool.map(lambda number: (store.add(name(), Token(f"value {number}")), number), range(writers)))
    assert sorted(version for version, _ in versions) == list(range(1, writers + 1))
    assert all(store.read(name(), version).reveal() == f"value {number}" for version, number in versions)


def test_names_with_odd_characters_stay_apart_and_inside_the_namespace(store: SecretStore, name: Name) -> None:
    odd = ["a/../../b", "a--b", "a-2d-b", "a.b", "ä b"]
    for number, text in enumerate(odd):
        store.add(name(property_id=text), Token(f"secret {number}"))
    assert [store.read(name(property_id=text), 1).reveal() for text in odd] == [f"secret {n}" for n in range(len(odd))]


@pytest.mark.parametrize("text", ["", "Client", "a/b", "a b", "x" * 41])
def test_a_secrets_name_is_a_plain_word(text: str) -> None:
    with pytest.raises(ValueError, match="lower-case word"):
        SecretName("tnt_1", "ppt_1", "vad_1", text)


# --- Files ------------------------------------------------------------------------------------


def test_files_are_sealed_and_only_their_owner_reads_them(tmp_path: Path, name: Name) -> None:
    root = tmp_path / "secret-store"
    FileStore(root).add(name(), Token("in plain sight"))
    files = [path for path in root.rglob("*") if path.is_file()]
    assert [path.relative_to(root).parts for path in files] == [(*name().parts, "1.sealed")]
    assert name().parts[0] == "lock"
    assert b"in plain sight" not in files[0].read_bytes()
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_dir()} == {0o700}


def test_a_file_moved_to_another_secret_does_not_open(tmp_path: Path, name: Name) -> None:
    store = FileStore(tmp_path / "secret-store")
    for secret in ("client_secret", "webhook_secret"):
        store.add(name(secret), Token(secret))
    folder = tmp_path.joinpath("secret-store", *name().parts)
    (folder / "1.sealed").replace(folder.parent / "webhook_secret" / "1.sealed")
    with pytest.raises(SealBroken):
        store.read(name("webhook_secret"), 1)


def test_a_folder_that_is_away_is_an_outage_and_not_a_missing_secret(tmp_path: Path, name: Name) -> None:
    store = FileStore(tmp_path / "secret-store")
    store.add(name(), Token("first"))
    (tmp_path / "secret-store").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailable) as caught:
        store.read(name(), 1)
    assert caught.value.retriable


WRITER = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "lockservice.settings.embedded"
import django; django.setup()
from pathlib import Path
from lockservice.core.secret_store import SecretName
from lockservice.core.secret_store_file import FileStore
from vendors.port.secrets import Token
store = FileStore(Path(sys.argv[1]))
name = SecretName("tnt_1", "ppt_1", "vad_1", "api_key")
print("ready", flush=True); sys.stdin.readline()
for number in range(20):
    print(store.add(name, Token(f"{sys.argv[2]}:{number}")), flush=True)
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    root = tmp_path / "secret-store"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(root), who], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": "."},
        )
        for who in ("a", "b", "c")
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    answers = {who: process.communicate("go\n", timeout=60)[0] for who, process in zip("abc", processes, strict=True)}
    written = {who: [int(line) for line in text.split()] for who, text in answers.items()}
    assert sorted(version for versions in written.values() for version in versions) == list(range(1, 61))
    store, secret = FileStore(root), SecretName("tnt_1", "ppt_1", "vad_1", "api_key")
    for who, versions in written.items():
        assert [store.read(secret, version).reveal() for version in versions] == [f"{who}:{n}" for n in range(20)]


def test_a_writer_that_is_killed_leaves_whole_versions_only(tmp_path: Path) -> None:
    root = tmp_path / "secret-store"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), "k"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": "."},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()
    heard = [int(process.stdout.readline()) for _ in range(3)]
    process.kill()
    process.communicate()
    store, secret = FileStore(root), SecretName("tnt_1", "ppt_1", "vad_1", "api_key")
    assert [store.read(secret, version).reveal() for version in heard] == ["k:0", "k:1", "k:2"]
    last = store.add(secret, Token("after"))
    assert [store.read(secret, version).reveal() for version in range(1, last)] == [f"k:{n}" for n in range(last - 1)]


# --- Google's wire ----------------------------------------------------------------------------


def test_googles_secrets_are_named_by_prefix_and_kept_where_told(google: GoogleServer, name: Name) -> None:
    GoogleStore("hotel-project", locations=("europe-west3", "europe-west4"), endpoint=google.endpoint).add(name(), Token("x"))
    owner = name()
    path = (
        f"projects/hotel-project/secrets/lock--{owner.tenant_id}--{owner.property_id}--{owner.installation_id}--client_secret"
    )
    assert google.secrets.secrets[path] == [b"x"]
    replicas = google.secrets.settings[path].replication.user_managed.replicas
    assert [replica.location for replica in replicas] == ["europe-west3", "europe-west4"]


@pytest.mark.parametrize(
    ("code", "retriable"),
    [
        (grpc.StatusCode.UNAVAILABLE, True),
        (grpc.StatusCode.DEADLINE_EXCEEDED, True),
        (grpc.StatusCode.INTERNAL, True),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, True),
        (grpc.StatusCode.PERMISSION_DENIED, False),
        (grpc.StatusCode.UNAUTHENTICATED, False),
    ],
)
def test_googles_failures_say_whether_trying_again_helps(
    google: GoogleServer, name: Name, code: grpc.StatusCode, retriable: bool
) -> None:
    store = GoogleStore("hotel-project", endpoint=google.endpoint)
    version = store.add(name(), Token("very secret value"))
    google.secrets.trouble.code = code
    for call in (
        lambda: store.read(name(), version),
        lambda: store.add(name(), Token("another secret")),
        lambda: store.destroy(name(), version),
    ):
        with pytest.raises(StoreUnavailable) as caught:
            call()
        assert caught.value.retriable is retriable
        assert "secret value" not in str(caught.value)
    google.secrets.trouble.code = None
    assert store.read(name(), version).reveal() == "very secret value"


def test_a_damaged_answer_of_google_is_none(google: GoogleServer, name: Name) -> None:
    store = GoogleStore("hotel-project", endpoint=google.endpoint)
    version = store.add(name(), Token("whole"))
    google.secrets.trouble.damages = True
    with pytest.raises(StoreUnavailable, match="damaged"):
        store.read(name(), version)


def test_only_this_machine_is_reached_without_tls(name: Name) -> None:
    with pytest.raises(ValueError, match="only loopback"):
        GoogleStore("hotel-project", endpoint="secretmanager.example.com:443").read(name(), 1)


# --- Held in a process ------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _held(google: GoogleServer, name: Name, clock: Clock) -> tuple[HeldSecrets, GoogleStore]:
    store = GoogleStore("hotel-project", endpoint=google.endpoint)
    version = store.add(name(), Token("held"))
    return HeldSecrets({"client_secret": (name(), version)}, lambda: store, now_s=clock), store


def test_a_value_is_read_once_and_looked_at_again_after_an_hour(google: GoogleServer, name: Name, clock: Clock) -> None:
    held, _store = _held(google, name, clock)
    before = google.secrets.reads
    for _ in range(3):
        assert held.values()["client_secret"].reveal() == "held"
    clock.now += FRESH_S - 1
    held.values()
    assert google.secrets.reads - before == 1
    clock.now += 2
    held.values()
    assert google.secrets.reads - before == 2


def test_while_the_store_is_down_the_last_value_is_used_for_six_hours_and_then_no_more(
    google: GoogleServer, name: Name, clock: Clock
) -> None:
    held, _store = _held(google, name, clock)
    held.values()
    google.secrets.trouble.code = grpc.StatusCode.UNAVAILABLE
    clock.now += KEPT_S - 1
    assert held.values()["client_secret"].reveal() == "held"
    clock.now += PAUSE_S + 1
    with pytest.raises(StoreUnavailable):
        held.values()
    google.secrets.trouble.code = None
    clock.now += PAUSE_S + 1
    assert held.values()["client_secret"].reveal() == "held"


def test_a_store_that_failed_is_left_alone_for_a_while(google: GoogleServer, name: Name, clock: Clock) -> None:
    held, _store = _held(google, name, clock)
    google.secrets.trouble.code = grpc.StatusCode.UNAVAILABLE
    before = google.secrets.reads
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            held.values()
    assert google.secrets.reads - before == 1
    clock.now += PAUSE_S
    with pytest.raises(StoreUnavailable):
        held.values()
    assert google.secrets.reads - before == 2


def test_a_value_the_store_says_is_gone_is_not_used_again_also_not_while_it_is_down(
    google: GoogleServer, name: Name, clock: Clock
) -> None:
    held, store = _held(google, name, clock)
    held.values()
    store.destroy(name(), 1)
    clock.now += FRESH_S + 1
    with pytest.raises(SecretMissing):
        held.values()
    google.secrets.trouble.code = grpc.StatusCode.UNAVAILABLE
    with pytest.raises(StoreUnavailable):
        held.values()
    google.secrets.trouble.code = None
    clock.now += PAUSE_S + 1
    with pytest.raises(SecretMissing):
        held.values()
