"""What must be rotated until when, told as urgently as it is; one installation's trouble is its own."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command

from devices import adapters, secret_due, secret_rotation, secret_rules, secret_upkeep, webhooks_addresses
from devices.models import SecretDue, SecretRotation, VendorInstallation
from devices.secret_upkeep import Place
from lockservice.core.secret_store import SecretName, secret_store
from lockservice.core.tenancy import tenant
from tests.flows.conftest import alerts, make_hotel
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id
from vendors.port.secrets import Token

NAME = "webhook_secret"
DAY = timedelta(days=1)


@pytest.fixture
def house(database: str, locks: MockLocks) -> Hotel:
    return make_hotel(locks, secrets={NAME: fresh().reveal()})


def fresh() -> Token:
    return Token(f"secret-{new_id('evt')}")


def due(hotel: Hotel) -> dict[str, tuple[str, timedelta]]:
    """Returns name → (reason, time left) of the open rows."""
    with tenant(hotel.tenant_id):
        lines = secret_due.listed(hotel.tenant_id, datetime.now(UTC))
    return {line.name: (line.reason, line.left) for line in lines}


@pytest.mark.parametrize("was_told", [True, False])
def test_what_is_late_already_and_becomes_urgent_is_told_as_urgent(house: Hotel, was_told: bool) -> None:
    with tenant(house.tenant_id):
        SecretDue.objects.filter(tenant_id=house.tenant_id, name=NAME).update(due_at=datetime.now(UTC) - DAY)
    if was_told:
        secret_due.tell_late()
    for detail in ("lck_1", "lck_2"):
        with tenant(house.tenant_id):
            secret_rotation.make_due(house.tenant_id, house.installation_id, detail=detail)
        secret_due.tell_late()
    told = [("SECRET_ROTATION_LATE", "warning")] if was_told else []
    assert alerts(house) == [*told, ("SECRET_ROTATION_LATE", "critical")]
    reason, left = due(house)[NAME]
    assert (reason, left < -DAY) == ("decommissioned", True)


def test_what_was_told_and_is_brought_forward_is_told_again(house: Hotel) -> None:
    for ago in (timedelta(0), timedelta(hours=1)):
        with tenant(house.tenant_id):
            secret_rotation.make_due(house.tenant_id, house.installation_id, -ago, "manual")
        secret_due.tell_late()
        secret_due.tell_late()
    assert alerts(house) == [("SECRET_ROTATION_LATE", "warning")] * 2


@pytest.mark.parametrize("overlap", [secret_rules.OVERLAP, timedelta(0)])
def test_a_value_the_store_has_no_more_is_replaced_by_a_rotation(house: Hotel, overlap: timedelta) -> None:
    secret_store().destroy(SecretName(house.tenant_id, house.property_id, house.installation_id, NAME), 1)
    new = fresh()
    place = (house.tenant_id, house.installation_id)
    assert secret_rotation.rotate(*place, {NAME: new}, actor_id="usr_1", overlap=overlap).stage == "switched"
    with tenant(house.tenant_id):
        row = VendorInstallation.objects.get(tenant_id=house.tenant_id, id=house.installation_id)
    assert adapters.open_installation(row)[1] == {NAME: new.reveal()}
    with pytest.raises(secret_rotation.RotationRefused, match="the old values are gone"):
        secret_rotation.roll_back(*place)
    with tenant(house.tenant_id):
        SecretRotation.objects.filter(tenant_id=house.tenant_id).update(retire_at=datetime.now(UTC) - DAY)
    while secret_rotation.retire_due(*place):
        with tenant(house.tenant_id):
            SecretRotation.objects.filter(tenant_id=house.tenant_id).update(retire_at=datetime.now(UTC) - DAY)
    with tenant(house.tenant_id):
        assert list(SecretRotation.objects.values_list("stage", flat=True)) == ["retired"]


def test_a_webhook_address_made_without_an_overlap_takes_the_old_one_no_more(house: Hotel) -> None:
    with tenant(house.tenant_id):
        before = webhooks_addresses.rotate(house.tenant_id, house.installation_id).reveal()
    said = io.StringIO()
    words = (house.tenant_id, house.installation_id, "--webhook-address", "--overlap-hours", "0")
    call_command("rotate_secrets", *words, stdout=said)
    after = said.getvalue().strip().rpartition("/")[2]
    assert webhooks_addresses.recipient_of("mock", house.installation_id, after).tenant_id == house.tenant_id
    with pytest.raises(webhooks_addresses.AddressUnknown):
        webhooks_addresses.recipient_of("mock", house.installation_id, before)


def test_an_installation_that_cannot_be_handled_is_left_and_the_others_are_not(house: Hotel, locks: MockLocks) -> None:
    gone, broken = (make_hotel(locks, secrets={NAME: fresh().reveal()}) for _ in range(2))
    for hotel in (house, gone, broken):
        rotation = secret_rotation.stage(hotel.tenant_id, hotel.installation_id, {NAME: fresh()}, actor_id="usr_1")
        with tenant(hotel.tenant_id):
            if hotel is gone:
                VendorInstallation.objects.filter(tenant_id=hotel.tenant_id).update(vendor="discontinued")
            if hotel is broken:
                SecretRotation.objects.filter(tenant_id=hotel.tenant_id, id=rotation).update(versions={NAME: 5})
    places = [Place(hotel.tenant_id, hotel.installation_id) for hotel in (gone, broken, house)]
    told = [(done.steps, done.problem.partition(":")[0]) for done in secret_upkeep.keep(places)]
    assert told == [((), "go_on"), ((), "go_on"), (("rotation switched",), "")]
