"""What lies in an installation's row and what does not; rows from before; stores that are down; a credential of another house."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from django.test import override_settings

from devices import adapters, secret_rotation, secret_upkeep, selectors
from devices.models import SecretDue, SecretFingerprint, VendorInstallation
from devices.secret_fingerprints import SecretReused
from devices.secret_upkeep import Place
from lockservice.core import crypto
from lockservice.core.crypto import SealBroken
from lockservice.core.kms_file import KeyFolder
from lockservice.core.places import Tenant
from lockservice.core.tenancy import tenant
from tests.flows.conftest import keys, make_hotel, pin_of
from tests.support.google_secrets import GoogleServer
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.errors import LockError
from vendors.port.ids import new_id
from vendors.port.protocol import Inventory, Lookup, Resume, Webhook
from vendors.port.secrets import Token
from vendors.support.signatures import sign

Settle = Callable[..., int]
KEY = "projects/p/locations/l/keyRings/melmastoon-lock/cryptoKeys/lock-config"


def own(*names: str) -> dict[str, str]:
    return {name: f"{name}-{new_id('evt')}" for name in names or ("webhook_secret",)}


def row_of(hotel: Hotel) -> VendorInstallation:
    with tenant(hotel.tenant_id):
        return VendorInstallation.objects.get(tenant_id=hotel.tenant_id, id=hotel.installation_id)


def opened(hotel: Hotel) -> tuple[dict[str, object], dict[str, str]]:
    return adapters.open_installation(row_of(hotel))


def port_of(hotel: Hotel) -> Any:
    selectors.forget()
    with tenant(hotel.tenant_id):
        return adapters.port_of(hotel.tenant_id, selectors.installation(hotel.tenant_id, hotel.installation_id))


def made_old(hotel: Hotel, secrets: dict[str, str]) -> None:
    """Puts the row back to how it lay before data keys and the store."""
    settings, _ = opened(hotel)
    with tenant(hotel.tenant_id):
        row = VendorInstallation.objects.get(tenant_id=hotel.tenant_id, id=hotel.installation_id)
        for column, content in (("settings_sealed", settings), ("secrets_sealed", secrets)):
            place = ("devices_vendorinstallation", row.id, column)
            setattr(row, column, crypto.seal("lock-config", row.tenant_id, place, json.dumps(content)))
        row.data_key_wrapped, row.data_key_name, row.secret_versions = None, "", {}
        row.version += 1
        row.save()
        SecretDue.objects.filter(tenant_id=hotel.tenant_id).delete()
        SecretFingerprint.objects.filter(tenant_id=hotel.tenant_id).delete()


def upkeep(hotel: Hotel, *, dry_run: bool = False) -> list[str]:
    (done,) = secret_upkeep.keep([Place(hotel.tenant_id, hotel.installation_id)], dry_run=dry_run)
    assert done.problem == ""
    return list(done.steps)


# --- What lies where --------------------------------------------------------------------------


def test_the_row_holds_names_and_versions_and_opens_to_what_was_sealed(database: str, locks: MockLocks) -> None:
    secrets = own("webhook_secret", "webhook_secret_next")
    hotel = make_hotel(locks, secrets=secrets)
    row = row_of(hotel)
    assert row.secret_versions == {"webhook_secret": 1, "webhook_secret_next": 2}
    assert row.secrets_sealed is None
    whole = b"".join(bytes(value) for value in (row.settings_sealed, row.data_key_wrapped))
    assert not [value for value in secrets.values() if value.encode() in whole]
    assert locks.setting.encode() not in whole
    assert opened(hotel) == ({"url": locks.setting}, secrets)


def test_two_installations_never_share_a_data_key(database: str, locks: MockLocks) -> None:
    one, two = make_hotel(locks), make_hotel(locks)
    mine, theirs = row_of(one), row_of(two)
    mine.data_key_wrapped = theirs.data_key_wrapped
    with pytest.raises(SealBroken):
        adapters.open_installation(mine)
    mine = row_of(one)
    mine.settings_sealed = theirs.settings_sealed
    with pytest.raises(SealBroken):
        adapters.open_installation(mine)


def test_sealing_the_same_again_makes_no_new_version_and_another_value_does(database: str, locks: MockLocks) -> None:
    secrets = own()
    hotel = make_hotel(locks, secrets=secrets)
    for wanted, version in ((secrets, 1), (own(), 2)):
        with tenant(hotel.tenant_id):
            row = VendorInstallation.objects.get(tenant_id=hotel.tenant_id, id=hotel.installation_id)
        adapters.seal_installation(row, {"url": locks.setting}, wanted)
        assert row_of(hotel).secret_versions == {"webhook_secret": version}
        assert opened(hotel)[1] == wanted


def test_nothing_is_sealed_while_a_transaction_is_open(database: str, locks: MockLocks) -> None:
    hotel = make_hotel(locks)
    row = row_of(hotel)
    with pytest.raises(RuntimeError, match="a transaction is open"), tenant(hotel.tenant_id):
        adapters.seal_installation(row, {"url": locks.setting}, own())
    after = row_of(hotel)
    assert (after.version, after.secret_versions, bytes(after.settings_sealed)) == (1, {}, bytes(row.settings_sealed))


def test_a_secret_the_vendor_does_not_know_is_refused(database: str, locks: MockLocks) -> None:
    with pytest.raises(ValueError, match="mock knows no secret api_key"):
        make_hotel(locks, secrets=own("api_key"))


# --- From before ------------------------------------------------------------------------------


def test_a_row_from_before_works_as_it_is_and_is_brought_up_once(database: str, locks: MockLocks, settle: Settle) -> None:
    secrets = own()
    hotel = make_hotel(locks, secrets=secrets)
    made_old(hotel, secrets)
    assert opened(hotel) == ({"url": locks.setting}, secrets)
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    assert locks.opens(hotel.doors["101"], pin_of(hotel, keys(hotel)[0]))
    version = row_of(hotel).version
    assert upkeep(hotel, dry_run=True) == ["would be brought up to data key and store"]
    assert row_of(hotel).secrets_sealed is not None
    assert upkeep(hotel) == ["brought up: 1 secrets to the store"]
    row = row_of(hotel)
    # The number of the version goes on: the store still holds the one of before.
    assert (row.secrets_sealed, row.secret_versions, row.version) == (None, {"webhook_secret": 2}, version + 1)
    assert opened(hotel) == ({"url": locks.setting}, secrets)
    with tenant(hotel.tenant_id):
        due = SecretDue.objects.filter(tenant_id=hotel.tenant_id, done_at__isnull=True)
        assert sorted(due.values_list("kind", "name")) == [("data_key", "settings"), ("secret", "webhook_secret")]
    assert upkeep(hotel) == []


def test_a_secret_rotated_before_its_row_was_brought_up_stays_rotated(database: str, locks: MockLocks) -> None:
    secrets, new = own(), own()
    hotel = make_hotel(locks, secrets=secrets)
    made_old(hotel, secrets)
    values = {name: Token(value) for name, value in new.items()}
    secret_rotation.rotate(hotel.tenant_id, hotel.installation_id, values, actor_id="usr_1")
    assert opened(hotel)[1] == new
    assert upkeep(hotel) == ["brought up: 0 secrets to the store"]
    assert (row_of(hotel).secrets_sealed, row_of(hotel).secret_versions) == (None, {"webhook_secret": 2})
    assert opened(hotel)[1] == new
    with pytest.raises(secret_rotation.RotationRefused, match="used here before"):
        again = {name: Token(value) for name, value in secrets.items()}
        secret_rotation.rotate(hotel.tenant_id, hotel.installation_id, again, actor_id="usr_1")


def test_a_row_from_before_is_brought_up_together_with_its_due_dates_or_not_at_all(
    database: str, locks: MockLocks, connect_as: Callable[[str], psycopg.Connection[tuple[object, ...]]]
) -> None:
    secrets, owner = own(), connect_as("owner")
    hotel = make_hotel(locks, secrets=secrets)
    made_old(hotel, secrets)
    refusal = f"no_due_{hotel.tenant_id.lower()}"
    owner.execute(f"ALTER TABLE devices_secretdue ADD CONSTRAINT {refusal} CHECK (tenant_id <> '{hotel.tenant_id}') NOT VALID")
    try:
        (done,) = secret_upkeep.keep([Place(hotel.tenant_id, hotel.installation_id)])
    finally:
        owner.execute(f"ALTER TABLE devices_secretdue DROP CONSTRAINT {refusal}")
    assert (done.steps, done.problem) == ((), "bring_up: IntegrityError")
    assert row_of(hotel).secrets_sealed is not None
    assert upkeep(hotel) == ["brought up: 1 secrets to the store"]
    with tenant(hotel.tenant_id):
        due = SecretDue.objects.filter(tenant_id=hotel.tenant_id, done_at__isnull=True)
        assert sorted(due.values_list("kind", "name")) == [("data_key", "settings"), ("secret", "webhook_secret")]


# --- Wrapped anew -----------------------------------------------------------------------------


def test_a_new_key_encryption_key_wraps_anew_and_leaves_the_settings_bytes_alone(
    database: str, locks: MockLocks, tmp_path: Path
) -> None:
    with override_settings(KEK_FOLDER=str(tmp_path / "kek")):
        hotel = make_hotel(locks, secrets=own())
        before = row_of(hotel)
        assert upkeep(hotel) == []
        KeyFolder(tmp_path / "kek").add_version()
        assert upkeep(hotel, dry_run=True) == ["would be wrapped anew"]
        assert upkeep(hotel) == ["wrapped anew"]
        after = row_of(hotel)
        assert bytes(after.settings_sealed) == bytes(before.settings_sealed)
        assert bytes(after.data_key_wrapped or b"") != bytes(before.data_key_wrapped or b"")
        assert after.version == before.version
        assert opened(hotel) == adapters.open_installation(before)
        assert upkeep(hotel) == []


def test_a_tenant_with_a_key_of_its_own_has_its_settings_under_that_key(
    database: str, locks: MockLocks, google: GoogleServer
) -> None:
    own_key = f"projects/tenant/locations/l/keyRings/r/cryptoKeys/{new_id('tnt')}"
    for name in (KEY, own_key):
        google.kms.make(name)
    with override_settings(KEY_ENCRYPTION="kms", CONFIG_KEY_NAME=KEY, KMS_ENDPOINT=google.endpoint):
        hotel = make_hotel(locks)
        assert row_of(hotel).data_key_name == KEY
        with tenant(hotel.tenant_id):
            Tenant.objects.filter(tenant_id=hotel.tenant_id).update(config_key_name=own_key)
        sealed = bytes(row_of(hotel).settings_sealed)
        assert upkeep(hotel) == ["wrapped anew"]
        row = row_of(hotel)
        assert (row.data_key_name, bytes(row.settings_sealed)) == (own_key, sealed)
        google.kms.calls.clear()
        assert opened(hotel)[0] == {"url": locks.setting}
        assert google.kms.calls == [("decrypt", own_key)]


# --- Down -------------------------------------------------------------------------------------


def test_a_store_that_is_down_stops_nobody_who_has_the_secrets_and_tells_everybody_else(
    database: str, locks: MockLocks, settle: Settle, google: GoogleServer
) -> None:
    with override_settings(SECRET_STORE="google", SECRETS_PROJECT="p", SECRETS_ENDPOINT=google.endpoint):
        warm, cold = make_hotel(locks, secrets=own()), make_hotel(locks, secrets=own())
        assert port_of(warm).describe_adapter().vendor == "mock"
        google.secrets.trouble.code = grpc.StatusCode.UNAVAILABLE
        for hotel in (warm, cold):
            hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
            settle(hotel)
        (key,) = keys(warm)
        assert locks.opens(warm.doors["101"], pin_of(warm, key))
        (waiting,) = keys(cold)
        assert (waiting.state, locks.calls(cold.doors["101"])) == ("pending", [])
        with pytest.raises(LockError) as caught:
            port_of(cold).list_devices(cold.property_id)
        error = caught.value
        assert (error.reason, error.retriable, error.throttled, error.vendor_message) == (
            "settings", True, True, "not asked: the secret store: ServiceUnavailable"
        )  # fmt: skip
        google.secrets.trouble.code = None


def test_a_version_that_was_destroyed_is_for_a_person_to_repair(database: str, locks: MockLocks) -> None:
    hotel = make_hotel(locks, secrets=own())
    with tenant(hotel.tenant_id):
        row = VendorInstallation.objects.get(tenant_id=hotel.tenant_id, id=hotel.installation_id)
        row.secret_versions, row.version = {"webhook_secret": 7}, row.version + 1
        row.save()
    with pytest.raises(LockError) as caught:
        port_of(hotel).list_devices(hotel.property_id)
    assert (caught.value.reason, caught.value.retriable) == ("settings", False)
    assert caught.value.vendor_message == "settings: no version 7 of webhook_secret"


def test_a_key_service_that_is_down_is_asked_again_later(database: str, locks: MockLocks, google: GoogleServer) -> None:
    google.kms.make(KEY)
    with override_settings(KEY_ENCRYPTION="kms", CONFIG_KEY_NAME=KEY, KMS_ENDPOINT=google.endpoint):
        hotel = make_hotel(locks)
        google.kms.trouble.code = grpc.StatusCode.UNAVAILABLE
        google.kms.calls.clear()
        for _ in range(3):
            with pytest.raises(LockError) as caught:
                port_of(hotel).list_devices(hotel.property_id)
            assert (caught.value.reason, caught.value.throttled) == ("settings", True)
        assert google.kms.calls == [("decrypt", KEY)]


def test_settings_that_are_wrong_are_named_without_their_values(database: str, locks: MockLocks) -> None:
    hotel = make_hotel(locks)
    with tenant(hotel.tenant_id):
        row = VendorInstallation.objects.get(tenant_id=hotel.tenant_id, id=hotel.installation_id)
    adapters.seal_installation(row, {"url": 5}, {})
    with pytest.raises(LockError) as caught:
        port_of(hotel).list_devices(hotel.property_id)
    assert (caught.value.reason, caught.value.retriable) == ("settings", False)


# --- A new version in every process -----------------------------------------------------------


def test_a_new_version_is_used_without_a_restart_and_the_port_stays_while_nothing_changes(
    database: str, locks: MockLocks
) -> None:
    hotel = make_hotel(locks, secrets=own())
    first = port_of(hotel)
    assert port_of(hotel) is first
    body, now = b'{"records": []}', datetime.now(UTC)
    secrets = own()
    assert not first.verify({"X-Webhook-Signature": sign(Token(secrets["webhook_secret"]), body, now)}, body, now)
    with tenant(hotel.tenant_id):
        row = VendorInstallation.objects.get(tenant_id=hotel.tenant_id, id=hotel.installation_id)
    adapters.seal_installation(row, {"url": locks.setting}, secrets)
    second = port_of(hotel)
    assert second is not first
    assert second.verify({"X-Webhook-Signature": sign(Token(secrets["webhook_secret"]), body, now)}, body, now)


def test_the_port_has_the_optional_verbs_of_its_adapter_and_no_others(database: str, locks: MockLocks) -> None:
    port = port_of(make_hotel(locks))
    assert isinstance(port, Lookup)
    assert isinstance(port, Inventory)
    assert isinstance(port, Webhook)
    plain = port_of(make_hotel(locks))
    assert not hasattr(plain, "no_such_verb")
    assert isinstance(plain, Resume) == hasattr(plain, "resume")


# --- Of another house -------------------------------------------------------------------------


def test_a_credential_of_another_property_is_refused_without_saying_whose(database: str, locks: MockLocks) -> None:
    secrets = own()
    first = make_hotel(locks, secrets=secrets)
    with pytest.raises(SecretReused) as caught:
        make_hotel(locks, secrets=secrets)
    assert str(caught.value) == (
        "webhook_secret: this value is in use at another property; have the vendor make one for this property alone"
    )
    assert not any(text in str(caught.value) for text in (first.tenant_id, first.property_id, secrets["webhook_secret"]))


def test_a_credential_refused_leaves_nothing_behind(database: str, locks: MockLocks) -> None:
    secrets = own("webhook_secret")
    make_hotel(locks, secrets=secrets)
    stranger = make_hotel(locks)
    before = row_of(stranger)
    with pytest.raises(SecretReused):
        adapters.seal_installation(row_of(stranger), {"url": locks.setting}, {**own("webhook_secret_next"), **secrets})
    after = row_of(stranger)
    assert (after.secret_versions, bytes(after.settings_sealed)) == (before.secret_versions, bytes(before.settings_sealed))
    with tenant(stranger.tenant_id):
        assert not SecretFingerprint.objects.filter(tenant_id=stranger.tenant_id).exists()


def test_two_installations_of_one_property_may_share_an_account(database: str, locks: MockLocks) -> None:
    secrets = own()
    hotel = make_hotel(locks, secrets=secrets)
    again = make_hotel(locks, secrets=secrets, into=hotel, rooms={"201": new_id("lck")}, shared={})
    assert opened(again)[1] == secrets


def test_a_fingerprint_tells_nothing_of_the_value(database: str, locks: MockLocks) -> None:
    secrets = own()
    hotel = make_hotel(locks, secrets=secrets)
    with tenant(hotel.tenant_id):
        (row,) = SecretFingerprint.objects.filter(tenant_id=hotel.tenant_id)
    assert len(bytes(row.fingerprint)) == 32
    assert bytes(row.fingerprint) == crypto.blind_index("vendor-secret", "", f"mock\x1f{secrets['webhook_secret']}")
