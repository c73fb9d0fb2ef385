"""Data keys and the keys that wrap them: in a folder, and in Cloud KMS over its wire."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import grpc
import pytest

from lockservice.core import crypto_envelope
from lockservice.core.crypto import SealBroken
from lockservice.core.crypto_envelope import WrappedKey
from lockservice.core.kms import KeyUnavailable, KeyWrapper
from lockservice.core.kms_file import KeyFolder
from lockservice.core.kms_google import CloudKms
from tests.support.google_secrets import GoogleServer

PLACE = ("devices_vendorinstallation", "vad_1", "settings_sealed")
KEY = "projects/p/locations/l/keyRings/melmastoon-lock/cryptoKeys/lock-config"
OWN = "projects/p/locations/l/keyRings/melmastoon-lock/cryptoKeys/of-one-tenant"


@pytest.fixture(params=["file", "kms"])
def wrapper(request: pytest.FixtureRequest, tmp_path: Path, google: GoogleServer) -> KeyWrapper:
    if request.param == "file":
        return KeyFolder(tmp_path / "kek")
    for name in (KEY, OWN):
        google.kms.make(name)
    return CloudKms(endpoint=google.endpoint)


def _turn(wrapper: KeyWrapper, google: GoogleServer) -> None:
    """The key-encryption key gets a new version, as each of them does."""
    if isinstance(wrapper, KeyFolder):
        wrapper.add_version()
    else:
        google.kms.rotate(KEY)


def test_what_a_data_key_seals_opens_at_its_place_and_nowhere_else(wrapper: KeyWrapper) -> None:
    key, wrapped = crypto_envelope.new_data_key(wrapper, KEY, "tnt_a", PLACE)
    sealed = crypto_envelope.seal(key, "lock-config", "tnt_a", PLACE, '{"url": "x"}')
    again = crypto_envelope.unwrap(wrapper, wrapped, "tnt_a", PLACE)
    assert crypto_envelope.unseal(again, "lock-config", "tnt_a", PLACE, sealed) == '{"url": "x"}'
    assert crypto_envelope.is_envelope(sealed)
    for tenant, place in (("tnt_b", PLACE), ("tnt_a", (PLACE[0], "vad_2", PLACE[2]))):
        with pytest.raises(SealBroken):
            crypto_envelope.unseal(again, "lock-config", tenant, place, sealed)
        with pytest.raises(SealBroken):
            crypto_envelope.unwrap(wrapper, wrapped, tenant, place)


def test_every_installation_has_a_key_of_its_own(wrapper: KeyWrapper) -> None:
    (one, wrapped_one), (two, wrapped_two) = (crypto_envelope.new_data_key(wrapper, KEY, "tnt_a", PLACE) for _ in range(2))
    assert one != two
    assert wrapped_one != wrapped_two
    assert "plain" not in repr(one)
    assert "wrapped=" not in repr(wrapped_one)


def test_wrapping_anew_changes_the_wrapped_key_and_not_what_it_sealed(wrapper: KeyWrapper, google: GoogleServer) -> None:
    key, wrapped = crypto_envelope.new_data_key(wrapper, KEY, "tnt_a", PLACE)
    sealed = crypto_envelope.seal(key, "lock-config", "tnt_a", PLACE, "settings")
    _turn(wrapper, google)
    assert wrapper.is_current(KEY, wrapped.wrapped) in (False, None)
    anew = crypto_envelope.rewrap(wrapper, wrapped, KEY, "tnt_a", PLACE)
    assert anew.wrapped != wrapped.wrapped
    assert wrapper.is_current(KEY, anew.wrapped) in (True, None)
    for either in (wrapped, anew):  # a restored backup still has the old one
        opened = crypto_envelope.unwrap(wrapper, either, "tnt_a", PLACE)
        assert crypto_envelope.unseal(opened, "lock-config", "tnt_a", PLACE, sealed) == "settings"


def test_a_tenants_own_key_is_another_key(wrapper: KeyWrapper) -> None:
    _key, wrapped = crypto_envelope.new_data_key(wrapper, KEY, "tnt_a", PLACE)
    moved = crypto_envelope.rewrap(wrapper, wrapped, OWN, "tnt_a", PLACE)
    assert crypto_envelope.unwrap(wrapper, moved, "tnt_a", PLACE) == crypto_envelope.unwrap(wrapper, wrapped, "tnt_a", PLACE)
    with pytest.raises(SealBroken):
        crypto_envelope.unwrap(wrapper, WrappedKey(KEY, moved.wrapped), "tnt_a", PLACE)


def test_any_changed_byte_of_a_wrapped_key_breaks_it(tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path / "kek")
    wrapped = folder.wrap(KEY, os.urandom(32), b"context")
    for position in range(4, len(wrapped)):
        changed = bytearray(wrapped)
        changed[position] ^= 1
        with pytest.raises(SealBroken):
            folder.unwrap(KEY, bytes(changed), b"context")


def test_key_files_are_their_owners_and_are_made_once(tmp_path: Path) -> None:
    one, two = KeyFolder(tmp_path / "kek"), KeyFolder(tmp_path / "kek")
    wrapped = one.wrap(KEY, b"k" * 32, b"c")
    assert two.unwrap(KEY, wrapped, b"c") == b"k" * 32
    assert (two.add_version(first=True), two.version()) == (1, 1)
    assert (two.add_version(), one.version()) == (2, 2)
    files = sorted((tmp_path / "kek").iterdir())
    assert [file.name for file in files] == ["1.kek", "2.kek"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    files[0].unlink()
    with pytest.raises(KeyUnavailable) as caught:
        KeyFolder(tmp_path / "kek").unwrap(KEY, wrapped, b"c")
    assert not caught.value.retriable


@pytest.mark.parametrize(
    ("code", "retriable"),
    [
        (grpc.StatusCode.UNAVAILABLE, True),
        (grpc.StatusCode.DEADLINE_EXCEEDED, True),
        (grpc.StatusCode.PERMISSION_DENIED, False),
    ],
)
def test_kms_failures_say_whether_trying_again_helps(google: GoogleServer, code: grpc.StatusCode, retriable: bool) -> None:
    google.kms.make(KEY)
    kms = CloudKms(endpoint=google.endpoint)
    wrapped = kms.wrap(KEY, b"k" * 32, b"c")
    google.kms.trouble.code = code
    for call in (lambda: kms.wrap(KEY, b"k" * 32, b"c"), lambda: kms.unwrap(KEY, wrapped, b"c")):
        with pytest.raises(KeyUnavailable) as caught:
            call()
        assert caught.value.retriable is retriable


def test_a_key_that_is_not_there_is_for_a_person_to_repair(google: GoogleServer) -> None:
    with pytest.raises(KeyUnavailable) as caught:
        CloudKms(endpoint=google.endpoint).wrap("projects/p/cryptoKeys/nowhere", b"k" * 32, b"c")
    assert not caught.value.retriable


def test_a_damaged_answer_of_kms_is_none(google: GoogleServer) -> None:
    google.kms.make(KEY)
    kms = CloudKms(endpoint=google.endpoint)
    wrapped = kms.wrap(KEY, b"k" * 32, b"c")
    google.kms.trouble.damages = True
    with pytest.raises(KeyUnavailable, match="damaged"):
        kms.unwrap(KEY, wrapped, b"c")
    with pytest.raises(KeyUnavailable, match="damaged"):
        kms.wrap(KEY, b"k" * 32, b"c")
