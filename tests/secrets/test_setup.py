"""Setting a lock system up: tried at the vendor first, refused with another house's credential, nothing kept of what failed."""

from __future__ import annotations

import io
import json
import secrets as chance
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import override_settings

from devices import adapters, secret_setup
from devices.models import HealthPoll, SecretDue, SecretFingerprint, VendorInstallation
from devices.secret_setup import SetupRefused, Wanted
from lockservice.core.secret_store import MAX_BYTES, StoreUnavailable
from lockservice.core.tenancy import tenant
from tests.flows.conftest import make_hotel
from tests.support.google_secrets import GoogleServer
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.sweep_ttlock import TtlockCloud
from vendors.port.errors import LockError
from vendors.port.ids import new_id
from vendors.port.secrets import Token


@pytest.fixture(scope="module")
def cloud() -> Iterator[TtlockCloud]:
    running = TtlockCloud()
    yield running
    running.stop()


def mock(locks: MockLocks, hotel: Hotel, value: str, **other: Any) -> Wanted:
    given = {"settings": {"url": locks.setting}, "secrets": {"webhook_secret": Token(value)}, **other}
    return Wanted(property_id=hotel.property_id, vendor="mock", label="second lock system", **given)


def installed(hotel: Hotel) -> list[VendorInstallation]:
    with tenant(hotel.tenant_id):
        return list(VendorInstallation.objects.filter(tenant_id=hotel.tenant_id).order_by("id"))


def claims(hotel: Hotel) -> int:
    with tenant(hotel.tenant_id):
        return SecretFingerprint.objects.filter(tenant_id=hotel.tenant_id).count()


def test_a_new_lock_system_is_there_with_its_secrets_and_their_dates(hotel: Hotel, locks: MockLocks) -> None:
    value = f"set-{new_id('evt')}"
    made = secret_setup.set_up(hotel.tenant_id, mock(locks, hotel, value))
    row = next(row for row in installed(hotel) if row.id == made.installation_id)
    assert adapters.open_installation(row) == ({"url": locks.setting}, {"webhook_secret": value})
    assert (row.label, row.environment, row.active) == ("second lock system", "production", True)
    with tenant(hotel.tenant_id):
        due = SecretDue.objects.filter(tenant_id=hotel.tenant_id, installation_id=row.id)
        assert sorted(due.values_list("kind", flat=True)) == ["data_key", "secret"]
        assert HealthPoll.objects.filter(tenant_id=hotel.tenant_id, installation_id=row.id).count() == 1


def test_another_houses_credential_is_refused_before_it_is_stored(hotel: Hotel, locks: MockLocks) -> None:
    value = f"set-{new_id('evt')}"
    make_hotel(locks, secrets={"webhook_secret": value})
    with pytest.raises(SetupRefused) as caught:
        secret_setup.set_up(hotel.tenant_id, mock(locks, hotel, value))
    assert caught.value.code == "SECRET_REUSED"
    assert (len(installed(hotel)), claims(hotel)) == (1, 0)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"settings": {"address": "x"}}, "UNKNOWN_NAME"),
        ({"secrets": {"api_key": Token("x")}}, "UNKNOWN_NAME"),
        ({"secrets": {"webhook_secret": Token("\n")}}, "EMPTY_VALUE"),
        ({"settings": {"url": 5}}, "VENDOR_REFUSED"),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_kept(
    hotel: Hotel, locks: MockLocks, tmp_path: Path, change: dict[str, Any], code: str
) -> None:
    with override_settings(SECRET_STORE_FOLDER=str(tmp_path)), pytest.raises(SetupRefused) as caught:
        secret_setup.set_up(hotel.tenant_id, mock(locks, hotel, f"set-{new_id('evt')}", **change))
    assert caught.value.code == code
    assert (len(installed(hotel)), claims(hotel), list(tmp_path.iterdir())) == (1, 0, [])


def test_of_two_values_the_store_took_one_it_is_destroyed(hotel: Hotel, locks: MockLocks, tmp_path: Path) -> None:
    values = {"webhook_secret": Token(f"set-{new_id('evt')}"), "webhook_secret_next": Token("x" * (MAX_BYTES + 1))}
    with override_settings(SECRET_STORE_FOLDER=str(tmp_path)), pytest.raises(ValueError, match="a secret has 1 to"):
        secret_setup.set_up(hotel.tenant_id, mock(locks, hotel, "", secrets=values))
    assert [file.read_bytes() for file in tmp_path.rglob("*.sealed")] == [b""]
    assert (len(installed(hotel)), claims(hotel)) == (1, 0)


def test_a_property_of_another_tenant_is_not_there(hotel: Hotel, locks: MockLocks) -> None:
    with pytest.raises(SetupRefused) as caught:
        secret_setup.set_up(new_id("tnt"), mock(locks, hotel, f"set-{new_id('evt')}"))
    assert caught.value.code == "UNKNOWN_PROPERTY"


def test_a_vendor_that_does_not_take_the_secret_or_is_silent_leaves_no_claim(hotel: Hotel, cloud: TtlockCloud) -> None:
    account = {
        "clientId": f"app{chance.token_hex(4)}", "clientSecret": chance.token_hex(8),
        "username": f"owner{chance.token_hex(4)}@example.org", "password": chance.token_hex(8),
    }  # fmt: skip
    cloud.ask("/seed", {"account": account, "gateways": [{"name": "floor 1"}]})
    import hashlib

    good = {
        "client_secret": Token(account["clientSecret"]), "username": Token(account["username"]),
        "password_md5": Token(hashlib.md5(account["password"].encode(), usedforsecurity=False).hexdigest()),
    }  # fmt: skip
    settings = {"base_url": cloud.url, "client_id": account["clientId"]}

    def wanted(**other: Token) -> Wanted:
        return Wanted(hotel.property_id, "ttlock", "TTLock", settings, {**good, **other})

    with pytest.raises(SetupRefused) as caught:
        secret_setup.set_up(hotel.tenant_id, wanted(client_secret=Token(chance.token_hex(8))))
    assert caught.value.code == "VENDOR_REFUSED"
    cloud.ask("/faults", {"clientId": account["clientId"], "path": "lock/list", "effect": "http500", "times": 1})
    with pytest.raises(LockError):
        secret_setup.set_up(hotel.tenant_id, wanted())
    assert (len(installed(hotel)), claims(hotel)) == (1, 0)
    assert secret_setup.set_up(hotel.tenant_id, wanted()).locks == 0
    assert len(installed(hotel)) == 2


def test_a_store_that_is_down_leaves_no_claim(hotel: Hotel, locks: MockLocks, google: GoogleServer) -> None:
    google.secrets.trouble.code = grpc.StatusCode.UNAVAILABLE
    with (
        override_settings(SECRET_STORE="google", SECRETS_PROJECT="p", SECRETS_ENDPOINT=google.endpoint),
        pytest.raises(StoreUnavailable),
    ):
        secret_setup.set_up(hotel.tenant_id, mock(locks, hotel, f"set-{new_id('evt')}"))
    assert (len(installed(hotel)), claims(hotel)) == (1, 0)


def test_the_command_reads_files_and_prints_the_id_and_no_secret(hotel: Hotel, locks: MockLocks, tmp_path: Path) -> None:
    value, out = f"set-{new_id('evt')}", io.StringIO()
    (tmp_path / "settings").write_text(json.dumps({"url": locks.setting}))
    (tmp_path / "secret").write_text(f"{value}\n")
    (tmp_path / "other").write_text(f"set-{new_id('evt')}\n")
    words = [
        hotel.tenant_id, hotel.property_id, "mock", "--label", "New doors", "--settings-file", str(tmp_path / "settings"),
        "--secret", f"webhook_secret={tmp_path / 'secret'}",
    ]  # fmt: skip
    call_command("register_installation", *words, stdout=out)
    row = installed(hotel)[-1]
    assert out.getvalue().startswith(f"{row.id}: the vendor lists ")
    assert value not in out.getvalue()
    assert adapters.open_installation(row)[1] == {"webhook_secret": value}
    untried = io.StringIO()
    call_command("register_installation", *words[:-1], f"webhook_secret={tmp_path / 'other'}", "--untried", stdout=untried)
    said = "the vendor was not asked; import_devices asks for its locks and brings them into the books"
    assert untried.getvalue() == f"{installed(hotel)[-1].id}: {said}\n"
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("register_installation", *words[:6], str(tmp_path / "nothing"), stdout=out)
    with pytest.raises(CommandError, match="no vendor nobody"):
        call_command("register_installation", *words[:2], "nobody", *words[3:], stdout=out)
