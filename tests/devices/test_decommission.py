"""A lock, or a lock system, out of service for good: its keys leave it, guests get in elsewhere or somebody is told."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from devices import health_poll, secret_due, selectors
from devices.models import LockDevice, SecretDue, VendorInstallation, WebhookAddress
from lockservice.core.tenancy import tenant
from sagas import acts, device_acts
from sagas.acts import Actor, Refused
from sagas.flows import read_log
from sagas.models import Alert, OutboxEvent, Saga
from tests.flows.conftest import alerts, doors, events, keys, make_hotel, pin_of, sagas
from tests.flows.test_fall_back import open_breaker
from tests.support.hotel import Hotel, build_hotel
from tests.support.mock_locks import MockLocks
from tests.support.push_site import own_secrets
from vendors.port.ids import new_id
from vendors.port.types import SuspendReason

Settle = Callable[..., int]
MANAGER = Actor("usr_manager")


@pytest.fixture(scope="module")
def other() -> Iterator[MockLocks]:
    """Give a second lock system's process."""
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture
def place(database: str, locks: MockLocks) -> Hotel:
    return make_hotel(locks, secrets=own_secrets())


def _book(hotel: Hotel, settle: Settle, *rooms: str) -> str:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, list(rooms)))
    settle(hotel)
    return stay


def _retire(hotel: Hotel, label: str) -> device_acts.Decommissioned:
    return device_acts.decommission_device(hotel.tenant_id, hotel.devices[label], MANAGER)


def _second_lock(hotel: Hotel, label: str, **place: object) -> str:
    """Puts up another lock at the room of a label; returns its external id."""
    external = new_id("lck")
    with tenant(hotel.tenant_id):
        row = LockDevice.objects.get(tenant_id=hotel.tenant_id, id=hotel.devices[label])
        row.pk, row.external_id, row.label, row._state.adding = new_id("lck"), external, f"{label} new", True
        for name, value in place.items():
            setattr(row, name, value)
        row.save(force_insert=True)
        hotel.devices[f"{label} new"] = row.pk
    selectors.forget()
    return external


def _due(hotel: Hotel) -> list[SecretDue]:
    with tenant(hotel.tenant_id):
        rows = SecretDue.objects.filter(tenant_id=hotel.tenant_id, done_at__isnull=True, reason="decommissioned")
        return list(rows.order_by("name"))


def test_a_lock_that_was_swapped_hands_its_keys_to_the_new_one(place: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = _book(place, settle, "101")
    old, new = place.doors["101"], _second_lock(place, "101")
    done = _retire(place, "101")
    settle(place)
    (key,) = keys(place, stay)
    assert (key.state, key.id, key.open_work) == ("active", keys(place)[0].id, False)
    pin = pin_of(place, key)
    assert (locks.opens(new, pin), locks.opens(old, pin), locks.keys_at(old)) == (True, False, [])
    assert events(place, key)[-1] == "credential.updated"
    assert (done.device_ids, done.is_new) == ((place.devices["101"],), True)
    assert alerts(place) == []


def test_a_shared_doors_keys_go_and_stay_at_their_rooms(place: Hotel, locks: MockLocks, settle: Settle) -> None:
    stays = [_book(place, settle, label) for label in ("101", "102")]
    _retire(place, "lobby")
    settle(place)
    for stay, label in zip(stays, ("101", "102"), strict=True):
        (key,) = keys(place, stay)
        assert (key.state, key.areas) == ("active", [])
        assert locks.opens(place.doors[label], pin_of(place, key))
        assert not locks.opens(place.doors["lobby"], pin_of(place, key))
    assert locks.keys_at(place.doors["lobby"]) == []
    assert alerts(place) == []


def test_a_guest_whose_only_lock_goes_gets_a_key_at_the_other_lock_system_of_her_room(
    place: Hotel, locks: MockLocks, other: MockLocks, settle: Settle
) -> None:
    first = place.installation_id
    room, old = place.rooms["101"], place.doors["101"]
    build_hotel(
        vendor="mock", settings={"url": other.setting}, secrets=own_secrets(), rooms={}, shared={}, into=place,
    )  # fmt: skip
    stay = _book(place, settle, "101")
    with tenant(place.tenant_id):
        second = VendorInstallation.objects.exclude(id=first).get(tenant_id=place.tenant_id)
    new = _second_lock(place, "101", installation_id=second.id)
    _retire(place, "101")
    settle(place, rounds=2)
    before, after = keys(place, stay)
    assert (before.state, before.revoke_reason, before.replaced_by) == ("revoked", "security", after.id)
    assert (after.state, after.installation_id, after.replaces, after.rooms) == ("active", second.id, before.id, [room])
    assert (after.valid_from, after.valid_until) == (before.valid_from, before.valid_until)
    assert other.opens(new, pin_of(place, after))
    assert locks.keys_at(old) == []
    assert alerts(place) == [("KEY_MOVED_TO_OTHER_LOCKS", "warning")]


def test_a_guest_without_any_other_lock_is_told_of_and_her_key_is_dead(place: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = _book(place, settle, "101")
    (key,) = keys(place, stay)
    pin = pin_of(place, key)
    _retire(place, "101")
    settle(place)
    (key,) = keys(place, stay)
    assert (key.state, key.revoke_reason, key.open_work) == ("revoked", "security", False)
    assert [locks.opens(place.doors[label], pin) for label in ("101", "lobby")] == [False, False]
    with tenant(place.tenant_id):
        found = Alert.objects.get(tenant_id=place.tenant_id)
    assert (found.code, found.severity, found.credential_id, found.runbook) == (
        "ROOM_WITHOUT_LOCK", "critical", key.id, "lock/decommission",
    )  # fmt: skip


def test_a_stay_of_two_rooms_keeps_the_one_that_has_a_lock(place: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = _book(place, settle, "101", "102")
    _retire(place, "101")
    settle(place)
    (key,) = keys(place, stay)
    assert (key.state, key.rooms) == ("active", [place.rooms["102"]])
    assert locks.opens(place.doors["102"], pin_of(place, key))
    assert not locks.opens(place.doors["101"], pin_of(place, key))
    assert alerts(place) == [("ROOM_WITHOUT_LOCK", "critical")]


def test_a_key_at_rest_rests_at_the_other_lock_system_too(place: Hotel, other: MockLocks, settle: Settle) -> None:
    first = place.installation_id
    build_hotel(vendor="mock", settings={"url": other.setting}, secrets=own_secrets(), rooms={}, shared={}, into=place)
    stay = _book(place, settle, "101")
    place.tell("booking.fraud_flagged", place.booking(stay, 2, ["101"], status="fraud_flagged"))
    settle(place)
    with tenant(place.tenant_id):
        second = VendorInstallation.objects.exclude(id=first).get(tenant_id=place.tenant_id)
    new = _second_lock(place, "101", installation_id=second.id)
    _retire(place, "101")
    settle(place, now=True, rounds=4)
    before, after = keys(place, stay)
    assert (before.state, after.state, after.suspend_reason) == ("revoked", "suspended", "fraud_review")
    assert not other.opens(new, pin_of(place, after))


def _second_system(place: Hotel, other: MockLocks) -> tuple[str, str]:
    """Puts up another lock system with a lock at 101 of its own; returns its id and the lock's external id."""
    first = place.installation_id
    build_hotel(vendor="mock", settings={"url": other.setting}, secrets=own_secrets(), rooms={}, shared={}, into=place)
    with tenant(place.tenant_id):
        second = VendorInstallation.objects.exclude(id=first).get(tenant_id=place.tenant_id)
    return second.id, _second_lock(place, "101", installation_id=second.id)


def test_a_key_about_to_be_woken_opens_at_the_other_lock_system(place: Hotel, other: MockLocks, settle: Settle) -> None:
    stay = _book(place, settle, "101")
    (key,) = keys(place, stay)
    acts.suspend(place.tenant_id, key.id, SuspendReason.MANUAL, MANAGER, acts.new_act_id())
    settle(place)
    _, new = _second_system(place, other)
    acts.unsuspend(place.tenant_id, key.id, MANAGER, acts.new_act_id())
    _retire(place, "101")
    settle(place, now=True, rounds=4)
    before, after = keys(place, stay)
    assert (before.state, after.state) == ("revoked", "active")
    assert other.opens(new, pin_of(place, after))


def test_a_key_that_was_to_rest_once_it_is_there_rests_at_the_other_lock_system(
    place: Hotel, other: MockLocks, settle: Settle
) -> None:
    open_breaker(place)  # nothing is given at the first one
    stay = _book(place, settle, "101")
    place.tell("booking.fraud_flagged", place.booking(stay, 2, ["101"], status="fraud_flagged"))
    settle(place)
    assert [key.state for key in keys(place, stay)] == ["requested"]
    _, new = _second_system(place, other)
    _retire(place, "101")
    settle(place, now=True, rounds=4)
    before, after = keys(place, stay)
    assert (before.state, after.state, after.suspend_reason) == ("failed", "suspended", "fraud_review")
    assert not other.opens(new, pin_of(place, after))


def test_a_guest_with_a_key_at_both_lock_systems_of_her_room_keeps_the_other_one_and_gets_no_second(
    place: Hotel, locks: MockLocks, other: MockLocks, settle: Settle
) -> None:
    second, new = _second_system(place, other)
    stay = _book(place, settle, "101")
    mine = next(key for key in keys(place, stay) if key.installation_id == second)
    _retire(place, "101")
    settle(place, now=True, rounds=4)
    assert sorted((key.installation_id == second, key.state) for key in keys(place, stay)) == [
        (False, "revoked"), (True, "active"),
    ]  # fmt: skip
    assert other.opens(new, pin_of(place, mine))
    assert len(other.keys_at(new)) == 1
    assert alerts(place) == []


def test_the_same_act_again_and_a_walk_that_was_killed_change_nothing_more(
    place: Hotel, locks: MockLocks, settle: Settle
) -> None:
    _book(place, settle, "101")
    _second_lock(place, "101")
    first = _retire(place, "101")
    again = _retire(place, "101")
    assert (again.is_new, again.saga_id, first.is_new) == (False, first.saga_id, True)
    settle(place)
    (key,) = keys(place)
    told, calls = events(place, key), locks.calls(*place.doors.values())
    with tenant(place.tenant_id):  # as if it had died before it noted how far it was
        Saga.objects.filter(id=first.saga_id).update(status="due", args={"deviceIds": [place.devices["101"]]}, due_at=None)
    settle(place, now=True, rounds=3)
    assert (events(place, key), locks.calls(*place.doors.values())) == (told, calls)
    assert [status for flow, status in sagas(place) if flow == "decommission"] == ["done"]
    assert len(_due(place)) == 1


def test_a_key_given_there_meanwhile_by_who_did_not_know_yet_is_found_by_the_second_walk(
    place: Hotel, locks: MockLocks, settle: Settle
) -> None:
    _second_lock(place, "101")
    _retire(place, "101")
    settle(place)
    with tenant(place.tenant_id):
        LockDevice.objects.filter(id=place.devices["101"]).update(active=True)  # what another process still believes
    selectors.forget()
    stay = _book(place, settle, "101")
    with tenant(place.tenant_id):
        LockDevice.objects.filter(id=place.devices["101"]).update(active=False)
    (key,) = keys(place, stay)
    assert locks.opens(place.doors["101"], pin_of(place, key))
    settle(place, now=True, rounds=3)
    assert not locks.opens(place.doors["101"], pin_of(place, key))
    assert doors(place, key)["101 new"].state == "present"


def test_the_vendors_credentials_are_due_within_a_day_and_told_of_when_late(place: Hotel) -> None:
    asked = datetime.now(UTC)
    done = _retire(place, "101")
    (row,) = _due(place)
    assert (row.kind, row.name, row.detail, row.installation_id) == (
        "secret", "webhook_secret", place.devices["101"], place.installation_id,
    )  # fmt: skip
    assert timedelta(hours=23, minutes=59) < row.due_at - asked < timedelta(hours=24, minutes=1)
    assert done.rotate_by is not None
    assert abs(done.rotate_by - row.due_at) < timedelta(seconds=5)
    with tenant(place.tenant_id):
        SecretDue.objects.filter(id=row.id).update(due_at=asked - timedelta(minutes=1))
    secret_due.tell_late()
    assert [severity for code, severity in alerts(place) if "LATE" in code or "OVERDUE" in code or "ROTAT" in code] == [
        "critical"
    ]


def test_a_whole_lock_system_goes_with_its_locks_and_its_address(place: Hotel, locks: MockLocks, settle: Settle) -> None:
    from devices import webhooks_addresses

    with tenant(place.tenant_id):
        webhooks_addresses.rotate(place.tenant_id, place.installation_id)
    stays = [_book(place, settle, label) for label in ("101", "102")]
    done = device_acts.decommission_installation(place.tenant_id, place.installation_id, MANAGER)
    assert sorted(done.device_ids) == sorted(place.devices.values())
    settle(place)
    assert [keys(place, stay)[0].state for stay in stays] == ["revoked", "revoked"]
    assert [locks.keys_at(door) for door in place.doors.values()] == [[]] * 4
    assert alerts(place) == [("ROOM_WITHOUT_LOCK", "critical")] * 2
    with tenant(place.tenant_id):
        row = VendorInstallation.objects.get(tenant_id=place.tenant_id)
        assert (row.active, row.decommissioned_by) == (False, "usr_manager")
        assert not WebhookAddress.objects.filter(tenant_id=place.tenant_id).exists()
        assert not LockDevice.objects.filter(tenant_id=place.tenant_id, active=True).exists()
    selectors.forget()
    assert health_poll.poll(place.tenant_id, place.installation_id).outcome == "inactive"
    assert read_log.read(place.tenant_id, place.devices["101"]).outcome == "inactive"
    again = device_acts.decommission_installation(place.tenant_id, place.installation_id, MANAGER)
    assert (again.is_new, again.saga_id) == (False, done.saga_id)


def test_another_tenants_lock_is_not_there(place: Hotel, locks: MockLocks) -> None:
    stranger = make_hotel(locks, secrets=own_secrets())
    with pytest.raises(Refused) as refused:
        device_acts.decommission_device(stranger.tenant_id, place.devices["101"], MANAGER)
    assert refused.value.code == "NOT_FOUND"
    with tenant(stranger.tenant_id):
        assert not OutboxEvent.objects.filter(tenant_id=stranger.tenant_id).exists()
        assert not Saga.objects.filter(tenant_id=stranger.tenant_id).exists()
    with tenant(place.tenant_id):
        assert LockDevice.objects.get(id=place.devices["101"]).active


def test_the_command_says_first_what_it_would_do(place: Hotel, settle: Settle) -> None:
    _book(place, settle, "101")
    out = io.StringIO()
    call_command("decommission", place.tenant_id, place.devices["101"], dry_run=True, stdout=out)
    call_command("decommission", place.tenant_id, place.devices["101"], stdout=out)
    call_command("decommission", place.tenant_id, place.devices["101"], stdout=out)
    first, second, third = out.getvalue().splitlines()
    assert first == f"dry run: 1 locks of {place.installation_id} (mock) would be decommissioned and 1 live keys leave them"
    assert second.startswith("1 locks decommissioned; keys leave them under sag_")
    assert "; rotate its vendor credentials by " in second
    assert third == f"{place.devices['101']} was decommissioned before; nothing changed"
    with pytest.raises(CommandError, match="no such lock"):
        call_command("decommission", place.tenant_id, new_id("lck"), dry_run=True)
