"""A key that cannot be given goes on as another kind, or at another lock system: one live key, nothing left of the first."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from credentials import house
from credentials.models import KeyCredential, KeyPolicyRow, PinSlot
from devices import selectors
from devices.models import LockDevice
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.models import OutboxEvent, Saga, SagaStatus
from tests.flows.conftest import alerts, events, keys, make_hotel, pin_of, sagas
from tests.flows.test_doors_in_doubt import readdress
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id
from vendors.port.secrets import CardNumber

Settle = Callable[..., int]
CLERK = acts.Actor("usr_clerk")
CARD = "3661413478"
UNSUPPORTED = "fail=issue&times=1&error=KEY_ISSUE_FAILED&reason=kind_unsupported&retriable=0"


def policy(hotel: Hotel, **values: object) -> None:
    with tenant(hotel.tenant_id):
        KeyPolicyRow.objects.update_or_create(
            tenant_id=hotel.tenant_id, property_id=hotel.property_id, defaults={"values": values}
        )
    house.forget()


def capable(hotel: Hotel, label: str, **capabilities: bool) -> None:
    with tenant(hotel.tenant_id):
        row = LockDevice.objects.get(tenant_id=hotel.tenant_id, id=hotel.devices[label])
        row.capabilities = {**row.capabilities, **capabilities}
        row.save()
    selectors.forget()


def live(hotel: Hotel, stay: str) -> list[KeyCredential]:
    return [key for key in keys(hotel, stay) if key.state in ("requested", "pending", "active", "suspended")]


def payloads(hotel: Hotel, key: KeyCredential, short: str) -> list[dict[str, Any]]:
    with tenant(hotel.tenant_id):
        rows = OutboxEvent.objects.filter(
            tenant_id=hotel.tenant_id, ordering_key=key.id, subject=f"melmastoon.lock.credential.{short}.v1"
        )
        return [json.loads(bytes(row.body))["data"] for row in rows.order_by("sequence")]


def by_card(locks: MockLocks, door: str, number: str = CARD) -> bool:
    return bool(locks.ask("/try", {"device": door, "kind": "rfid_card", "value": number, "dry": True})["open"])


def test_a_kind_the_vendor_calls_unsupported_is_followed_by_the_next_one(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    hotel = make_hotel(locks, UNSUPPORTED, shared={})
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel, now=True, rounds=3)
    (key,) = keys(hotel)
    assert (key.state, key.kind) == ("active", "mobile_app")
    assert [(w["code"], w["detail"]) for w in key.warnings] == [
        ("KIND_CHANGED", "pin_code was not possible (kind_unsupported); mobile_app was given")
    ]
    assert events(hotel, key) == ["credential.requested", "credential.pending", "credential.issued"]
    assert payloads(hotel, key, "issued")[0]["warnings"] == key.warnings
    assert [held["kind"] for held in locks.keys_at(hotel.doors["101"])] == ["mobile_app"]
    with tenant(hotel.tenant_id):
        assert list(PinSlot.objects.filter(tenant_id=hotel.tenant_id, rests_until__isnull=True)) == []


def test_where_only_a_card_is_left_the_guest_is_sent_to_the_desk(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, UNSUPPORTED, shared={})
    capable(hotel, "101", mobile_key=False)
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel, now=True, rounds=3)
    first, second = keys(hotel)
    assert (first.state, first.replaced_by) == ("failed", second.id)
    assert (second.state, second.kind, second.waiting_for, second.replaces) == ("requested", "rfid_card", "desk", first.id)
    assert [w["code"] for w in second.warnings] == ["KIND_CHANGED"]
    assert events(hotel, first) == ["credential.requested", "credential.pending", "credential.failed", "vendor.error"]
    assert payloads(hotel, first, "failed")[0]["metadata"] == {"fallsBack": True}
    (requested,) = payloads(hotel, second, "requested")
    assert (requested["waitingFor"], requested["replaces"]) == ("desk", first.id)
    assert locks.keys_at(hotel.doors["101"]) == []
    readdress(hotel, locks, "")
    acts.encode(hotel.tenant_id, second.id, CLERK, "e1", card_number=CardNumber(CARD))
    settle(hotel)
    assert [key.state for key in keys(hotel)] == ["failed", "active"]
    assert payloads(hotel, second, "issued")[0]["warnings"] == second.warnings
    assert by_card(locks, hotel.doors["101"])


def test_a_kiosk_is_sent_to_no_desk(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, UNSUPPORTED, shared={})
    capable(hotel, "101", mobile_key=False, qr=False)
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"], channelHint="kiosk"))
    settle(hotel, now=True, rounds=3)
    (key,) = keys(hotel)
    assert (key.state, key.replaced_by) == ("failed", None)
    assert ("KEY_ISSUE_FAILED", "critical") in alerts(hotel)


def test_a_lock_out_of_reach_spends_the_budget_and_then_gives_another_kind(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    query = "fail=issue&error=VENDOR_UNREACHABLE&reason=door_offline"
    hotel = make_hotel(locks, f"{query}&times=9", shared={})
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel, now=True, rounds=5)
    readdress(hotel, locks, f"{query}&times=4")
    settle(hotel, now=True, rounds=6)
    first, second = keys(hotel)
    assert (first.state, first.kind) == ("failed", "pin_code")
    assert (second.state, second.kind) == ("active", "mobile_app")
    assert [held["kind"] for held in locks.keys_at(hotel.doors["101"])] == ["mobile_app"]
    assert all(status == "done" for _, status in sagas(hotel))


def test_a_key_in_doubt_is_proven_absent_while_its_successor_lives(database: str, locks: MockLocks, settle: Settle) -> None:
    """The answers to giving the PIN are all lost; the lock holds it all the same."""
    hotel = make_hotel(locks, "lost=5&on=issue", shared={})
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel, now=True, rounds=9)
    first, second = keys(hotel)
    assert (first.state, first.open_work) == ("failed", False)
    assert (second.kind, second.waiting_for) == ("rfid_card", "desk")
    assert locks.keys_at(hotel.doors["101"]) == []
    assert len(live(hotel, stay)) == 1


def test_a_booking_cancelled_meanwhile_gets_no_successor(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, UNSUPPORTED, shared={})
    capable(hotel, "101", mobile_key=False)
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    first = keys(hotel)[0]
    with tenant(hotel.tenant_id):  # as if the successor's saga had not run yet
        KeyCredential.objects.filter(tenant_id=hotel.tenant_id, id=first.id).update(replaced_by=None)
        Saga.objects.filter(tenant_id=hotel.tenant_id, flow="fall_back").update(status=SagaStatus.DUE, finished_at=None)
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel, now=True, rounds=2)
    assert [key.state for key in keys(hotel)] == ["failed"] * len(keys(hotel))
    assert live(hotel, stay) == []


def test_dates_changed_before_the_successor_is_given_are_the_successors(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    hotel = make_hotel(locks, UNSUPPORTED, shared={})
    capable(hotel, "101", mobile_key=False)
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    end = hotel.opened_at + timedelta(days=9)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["102"], end=end))
    settle(hotel)
    (card,) = live(hotel, stay)
    assert (card.rooms, card.valid_until) == ([hotel.rooms["102"]], end + timedelta(hours=2))


# --- the fall-back installation


def spare(locks: MockLocks, hotel: Hotel, rooms: dict[str, str]) -> str:
    """A second lock system at the same rooms, named by the policy as the one for outages."""
    first = dict(hotel.rooms), dict(hotel.doors), hotel.installation_id
    make_hotel(locks, rooms={"spare": new_id("lck")}, shared={}, into=hotel)
    added, hotel.installation_id = hotel.installation_id, first[2]
    with tenant(hotel.tenant_id):
        row = LockDevice.objects.get(tenant_id=hotel.tenant_id, id=hotel.devices["spare"])
        row.rooms = [hotel.rooms[label] for label in rooms]
        row.save()
    selectors.forget()
    policy(hotel, fallback_installation_id=added, outage_patience_minutes=0)
    return added


@pytest.fixture
def two_systems(database: str, locks: MockLocks) -> tuple[Hotel, str]:
    hotel = make_hotel(locks, rooms={"101": new_id("lck")}, shared={})
    return hotel, spare(locks, hotel, {"101": ""})


def test_while_its_vendor_lives_a_room_gets_no_key_of_the_spare_system(
    two_systems: tuple[Hotel, str], locks: MockLocks, settle: Settle
) -> None:
    hotel, _ = two_systems
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, key.installation_id) == ("active", hotel.installation_id)
    assert locks.keys_at(hotel.doors["spare"]) == []


def test_an_outage_that_outlasts_the_policy_moves_the_key_to_the_spare_system(
    two_systems: tuple[Hotel, str], locks: MockLocks, settle: Settle
) -> None:
    hotel, other = two_systems
    readdress(hotel, locks, "lost=9&on=issue")  # the vendor does the work and never says so
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel, now=True, rounds=9)
    first, second = keys(hotel)
    assert (first.state, second.state, second.installation_id) == ("failed", "active", other)
    assert [w["code"] for w in second.warnings] == ["LOCK_SYSTEM_CHANGED"]
    assert locks.opens(hotel.doors["spare"], pin_of(hotel, second))
    readdress(hotel, locks, "")  # it heals
    settle(hotel, now=True, rounds=3)
    first = keys(hotel)[0]
    assert (first.open_work, locks.keys_at(hotel.doors["101"])) == (False, [])
    assert len(live(hotel, stay)) == 1
    # the stay goes on at the spare system, whatever the booking says next
    end = hotel.opened_at + timedelta(days=8)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["101"], end=end))
    settle(hotel, now=True, rounds=2)
    assert [(k.state, k.installation_id == other) for k in keys(hotel)] == [("failed", False), ("active", True)]
    assert keys(hotel)[1].valid_until == end + timedelta(hours=2)
    assert locks.keys_at(hotel.doors["101"]) == []
    hotel.tell("booking.checked_out", hotel.booking(stay, 3, ["101"], status="checked_out", end=end))
    settle(hotel, now=True, rounds=2)
    assert (live(hotel, stay), locks.keys_at(hotel.doors["spare"])) == ([], [])


def open_breaker(hotel: Hotel) -> None:
    from django.db import connection

    with tenant(hotel.tenant_id), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO devices_breaker (tenant_id, installation_id, state, outcomes, last_at, open_until, probe_saga,"
            " event_sequence, changed_at) VALUES (%s, %s, 'open', '', now(), now() + interval '1 hour', '', 0, now())",
            [hotel.tenant_id, hotel.installation_id],
        )


def test_behind_an_open_breaker_a_guest_of_today_is_moved_and_one_of_next_week_waits(
    two_systems: tuple[Hotel, str], locks: MockLocks, settle: Settle
) -> None:
    hotel, other = two_systems
    open_breaker(hotel)
    today, later = new_id("rsv"), new_id("rsv")
    start = hotel.opened_at + timedelta(days=7)
    hotel.tell("booking.confirmed", hotel.booking(today, 1, ["101"]))
    hotel.tell("booking.confirmed", hotel.booking(later, 1, ["101"], start=start))
    settle(hotel, now=True, rounds=5)
    first, second = keys(hotel, today)
    assert (first.state, first.failure_code, second.state, second.installation_id) == (
        "failed", "VENDOR_UNREACHABLE", "active", other
    )  # fmt: skip
    assert events(hotel, first) == ["credential.requested", "credential.failed"]
    assert locks.opens(hotel.doors["spare"], pin_of(hotel, second))
    assert [(key.state, key.installation_id) for key in keys(hotel, later)] == [("requested", hotel.installation_id)]
    assert locks.calls(hotel.doors["101"]) == []


def test_within_the_policys_patience_the_key_waits(two_systems: tuple[Hotel, str], locks: MockLocks, settle: Settle) -> None:
    hotel, other = two_systems
    policy(hotel, fallback_installation_id=other, outage_patience_minutes=600)
    open_breaker(hotel)
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel, now=True, rounds=3)
    assert [(key.state, key.installation_id) for key in keys(hotel)] == [("requested", hotel.installation_id)]


def test_without_a_spare_system_an_outage_ends_at_the_desk(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, shared={}, policy={"outage_patience_minutes": 0})
    open_breaker(hotel)
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel, now=True, rounds=3)
    assert [(key.state, key.kind, key.waiting_for) for key in keys(hotel)] == [
        ("failed", "pin_code", ""), ("requested", "rfid_card", "desk")
    ]  # fmt: skip


def test_a_room_the_spare_system_does_not_reach_is_left_where_it_is(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, shared={})
    capable(hotel, "102", card_encoding=False)
    spare(locks, hotel, {"101": ""})
    open_breaker(hotel)
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["102"]))
    settle(hotel, now=True, rounds=3)
    assert [(key.state, key.installation_id) for key in keys(hotel)] == [("requested", hotel.installation_id)]


def test_a_stay_that_has_its_own_key_at_the_spare_system_opens_the_other_room_with_the_same_digits(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    hotel = make_hotel(locks, rooms={"101": new_id("lck")}, shared={})
    other = spare(locks, hotel, {"101": "", "spare": ""})
    second_door = new_id("lck")
    with tenant(hotel.tenant_id):  # each of the two rooms has a lock of its own there
        row = LockDevice.objects.get(tenant_id=hotel.tenant_id, id=hotel.devices["spare"])
        row.rooms = [hotel.rooms["spare"]]
        row.save()
        row.pk, row.external_id, row.label, row.rooms = new_id("lck"), second_door, "101 spare", [hotel.rooms["101"]]
        row._state.adding = True
        row.save(force_insert=True)
    selectors.forget()
    policy(hotel, fallback_installation_id=other, outage_patience_minutes=600)
    open_breaker(hotel)
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101", "spare"]))
    settle(hotel, now=True, rounds=2)
    (held,) = [key for key in keys(hotel, stay) if key.installation_id == other]
    pin = pin_of(hotel, held)
    assert [locks.opens(door, pin) for door in (hotel.doors["spare"], second_door)] == [True, False]

    policy(hotel, fallback_installation_id=other, outage_patience_minutes=0)
    settle(hotel, now=True, rounds=4)
    (failed,) = [key for key in keys(hotel, stay) if key.state == "failed"]
    (held,) = live(hotel, stay)
    assert (failed.replaced_by, held.state, set(held.rooms)) == (held.id, "active", {hotel.rooms["101"], hotel.rooms["spare"]})
    assert pin_of(hotel, held) == pin
    assert [locks.opens(door, pin) for door in (hotel.doors["spare"], second_door)] == [True, True]
    assert [w["code"] for w in held.warnings] == ["LOCK_SYSTEM_CHANGED"]
    assert alerts(hotel) == [("KEY_ISSUE_FAILED", "warning")] * len(alerts(hotel))

    with tenant(hotel.tenant_id):  # the same again changes nothing
        Saga.objects.filter(tenant_id=hotel.tenant_id, flow="fall_back").update(status=SagaStatus.DUE, finished_at=None)
    settle(hotel, now=True, rounds=2)
    assert (len(keys(hotel, stay)), [k.desired_version for k in live(hotel, stay)]) == (2, [held.desired_version])
    end = hotel.opened_at + timedelta(days=8)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["101", "spare"], end=end))
    settle(hotel, now=True, rounds=2)
    (held,) = live(hotel, stay)
    assert (set(held.rooms), held.valid_until) == ({hotel.rooms["101"], hotel.rooms["spare"]}, end + timedelta(hours=2))
    assert [locks.opens(door, pin) for door in (hotel.doors["spare"], second_door)] == [True, True]
