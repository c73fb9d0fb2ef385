"""Doors whose last call is still open, or whose neighbour is dead, when something else is decided about their key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from django.db import connection

from credentials.models import DoorState
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.housekeeping import sweep
from sagas.models import DeadLetter
from tests.flows.conftest import alerts, doors, events, fire_timers, keys, make_hotel, pin_of, sagas
from tests.support.hotel import Hotel, point
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id
from vendors.port.secrets import CardNumber
from vendors.port.types import SuspendReason

Settle = Callable[..., int]
CLERK = acts.Actor("usr_clerk")


def readdress(hotel: Hotel, locks: MockLocks, query: str) -> None:
    """Gives the hotel's installation other failures from now on."""
    point(hotel, f"{locks.setting}?{query}")


def test_a_key_called_off_while_its_lock_sleeps_is_taken_back_not_asked_after(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    hotel = make_hotel(locks, "deferred=2&on=issue", shared={})
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    assert keys(hotel)[0].state == "pending"
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel, now=True, rounds=3)
    (key,) = keys(hotel)
    assert (key.state, key.open_work) == ("failed", False)
    assert [call["verb"] for call in locks.calls(hotel.doors["101"])][-1] == "revoke"
    assert locks.keys_at(hotel.doors["101"]) == []


def test_a_deferred_key_is_asked_after_until_it_is_there(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, "deferred=2&on=issue", shared={})
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    settle(hotel, now=True, rounds=3)
    (key,) = keys(hotel)
    assert (key.state, locks.created_at(hotel.doors["101"])) == ("active", 1)
    assert locks.opens(hotel.doors["101"], pin_of(hotel, key))


def test_a_key_in_doubt_at_a_door_it_once_left_is_taken_back_after_a_refused_revoke(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    query = "unknown=1&on=issue&fail=revoke&times=1&retriable=0&error=KEY_REVOKE_FAILED"
    hotel = make_hotel(locks, query, shared={})
    stay = new_id("rsv")
    for version, room in enumerate(("101", "102"), start=1):
        hotel.tell("booking.confirmed", hotel.booking(stay, version, [room]))
        settle(hotel)
        settle(hotel, now=True, rounds=3)
    assert doors(hotel, keys(hotel)[0])["101"].state == DoorState.ABSENT
    hotel.tell("booking.confirmed", hotel.booking(stay, 3, ["101"]))
    settle(hotel)  # made again at 101, and the vendor could not say so
    assert len(locks.keys_at(hotel.doors["101"])) == 1
    hotel.tell("booking.cancelled", hotel.booking(stay, 4, ["101"], status="cancelled"))
    settle(hotel, now=True, rounds=4)
    assert locks.keys_at(hotel.doors["101"]) == []
    assert locks.keys_at(hotel.doors["102"]) == []
    assert keys(hotel)[0].open_work is False


def test_a_key_resumes_when_its_room_opens_though_a_shared_door_is_dead(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    key_id = keys(hotel)[0].id
    acts.suspend(hotel.tenant_id, key_id, SuspendReason.MANUAL, CLERK, "s1")
    settle(hotel)
    readdress(hotel, locks, f"deadDoors={hotel.doors['lobby']}")
    acts.unsuspend(hotel.tenant_id, key_id, CLERK, "u1")
    settle(hotel, now=True, rounds=8)
    (key,) = keys(hotel)
    pin = pin_of(hotel, key)
    assert locks.opens(hotel.doors["101"], pin)
    assert (key.state, key.resuming) == ("active", False)
    assert [warning["code"] for warning in key.warnings] == ["DOORS_MISSING"]
    assert events(hotel, key).count("credential.unsuspended") == 1
    assert ("DOOR_NOT_REACHED", "warning") in alerts(hotel)


def test_a_key_whose_room_does_not_resume_rests_again_at_every_other_door(
    hotel: Hotel, locks: MockLocks, settle: Settle
) -> None:
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    key_id = keys(hotel)[0].id
    acts.suspend(hotel.tenant_id, key_id, SuspendReason.MANUAL, CLERK, "s1")
    settle(hotel)
    readdress(hotel, locks, f"deadDoors={hotel.doors['101']}")
    acts.unsuspend(hotel.tenant_id, key_id, CLERK, "u1")
    settle(hotel, now=True, rounds=8)
    (key,) = keys(hotel)
    assert (key.state, key.resuming) == ("suspended", False)
    assert not locks.opens(hotel.doors["lobby"], pin_of(hotel, key))
    assert "credential.unsuspended" not in events(hotel, key)


def test_the_old_room_opens_until_the_new_one_does_though_its_tries_are_used_up(
    hotel: Hotel, locks: MockLocks, settle: Settle
) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    pin = pin_of(hotel, keys(hotel)[0])
    readdress(hotel, locks, f"deadDoors={hotel.doors['102']}")
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["102"]))
    settle(hotel)
    assert locks.opens(hotel.doors["101"], pin)  # else the guest has no door at all
    settle(hotel, now=True, rounds=8)
    assert locks.opens(hotel.doors["101"], pin)
    assert ("update", "dead") in sagas(hotel)
    assert ("DOOR_NOT_REACHED", "warning") in alerts(hotel)
    assert [warning["code"] for warning in keys(hotel)[0].warnings] == ["OLD_ROOM_KEPT", "DOORS_MISSING"]


def test_a_guest_moved_back_to_her_first_room_keeps_her_digits(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    for version, room in enumerate(("101", "102", "101"), start=1):
        hotel.tell("booking.confirmed", hotel.booking(stay, version, [room]))
        settle(hotel)
        if version == 1:
            pin = pin_of(hotel, keys(hotel)[0])
    settle(hotel, now=True, rounds=2)
    (key,) = keys(hotel)
    assert (pin_of(hotel, key), key.warnings) == (pin, [])
    assert locks.opens(hotel.doors["101"], pin)
    assert not locks.opens(hotel.doors["102"], pin)


def test_a_no_show_who_comes_before_her_card_was_encoded_is_not_locked_out(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    hotel = make_hotel(locks, policy={"kinds": ["rfid_card"]}, shared={})
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    hotel.tell("booking.no_show", hotel.booking(stay, 2, ["101"], status="no_show"))
    fire_timers(hotel)
    settle(hotel)
    hotel.tell("booking.confirmed", hotel.booking(stay, 3, ["101"]))
    (key,) = keys(hotel)
    acts.encode(hotel.tenant_id, key.id, CLERK, "e1", card_number=CardNumber("3661413478"))
    settle(hotel)
    settle(hotel, now=True, rounds=2)
    (key,) = keys(hotel)
    assert (key.state, key.suspend_reason) == ("active", "")
    assert locks.ask("/try", {"device": hotel.doors["101"], "kind": "rfid_card", "value": "3661413478", "dry": True})["open"]
    assert all(status == "done" for _, status in sagas(hotel))


def test_a_guest_reported_after_her_window_ended_is_no_error(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(days=4)
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.no_show", hotel.booking(stay, 2, ["101"], status="no_show"))
    fire_timers(hotel)
    settle(hotel)
    assert keys(hotel)[0].state == "suspended"
    over = {"start": start, "end": start + timedelta(days=2)}
    with tenant(hotel.tenant_id), connection.cursor() as cursor:  # as if the hotel's clock had passed the end
        cursor.execute(
            "UPDATE credentials_keycredential SET valid_from = %s, valid_until = %s, ends_at = %s WHERE tenant_id = %s",
            [over["start"], over["end"] + timedelta(hours=2), over["end"] + timedelta(hours=2), hotel.tenant_id],
        )
    assert hotel.tell("booking.confirmed", hotel.booking(stay, 3, ["101"], **over)) == "applied"
    with tenant(hotel.tenant_id):
        assert DeadLetter.objects.filter(tenant_id=hotel.tenant_id).count() == 0


def test_a_key_still_on_its_way_when_its_window_ends_is_called_off(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, "deferred=100000&on=issue", shared={})
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    assert keys(hotel)[0].state == "pending"
    with tenant(hotel.tenant_id), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE credentials_keycredential SET valid_from = now() - interval '3 days', valid_until = now() - interval '1 s',"
            " ends_at = now() - interval '1 s' WHERE tenant_id = %s",
            [hotel.tenant_id],
        )
    sweep()
    settle(hotel, now=True, rounds=2)
    (key,) = keys(hotel)
    assert (key.state, key.open_work) == ("failed", False)
    assert events(hotel, key)[-1] == "credential.failed"
    assert all(status == "done" for _, status in sagas(hotel))


def test_a_revoke_held_back_by_the_vendors_quota_is_told_and_soon_asked_again(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    hotel = make_hotel(locks, "fail=revoke&reason=quota&retryAfterS=900000", shared={})
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel)
    assert sorted(alerts(hotel)) == [("KEY_REVOKE_FAILED", "critical"), ("VENDOR_QUOTA_SPENT", "critical")]
    (key,) = keys(hotel)
    due = doors(hotel, key)["101"].due_at
    assert due is not None
    assert due - datetime.now(UTC) <= timedelta(minutes=11)


def test_a_key_held_up_by_the_vendors_quota_is_told_and_given_once_the_limit_is_lifted(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    hotel = make_hotel(locks, "fail=issue&reason=quota&retryAfterS=900000", shared={})
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    assert alerts(hotel) == [("VENDOR_QUOTA_SPENT", "critical")]
    (key,) = keys(hotel)
    due = doors(hotel, key)["101"].due_at
    assert due is not None
    assert due - datetime.now(UTC) <= timedelta(minutes=11)
    readdress(hotel, locks, "")
    settle(hotel, now=True)
    (key,) = keys(hotel)
    assert key.state == "active"
    assert locks.opens(hotel.doors["101"], pin_of(hotel, key))


def test_a_door_that_the_vendor_cannot_reach_is_not_in_doubt(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, shared={})
    readdress(hotel, locks, f"deadDoors={hotel.doors['101']}")
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    assert doors(hotel, keys(hotel)[0])["101"].verb == ""
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, key.open_work) == ("failed", False)
    assert [call["verb"] for call in locks.calls(hotel.doors["101"])] == ["issue"]
    assert alerts(hotel) == []


def test_a_suspended_key_moved_to_another_lock_system_stays_suspended(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, shared={})
    make_hotel(locks, rooms={"201": new_id("lck")}, shared={}, into=hotel)
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    acts.suspend(hotel.tenant_id, keys(hotel)[0].id, SuspendReason.OVERDUE_PAYMENT, CLERK, "s1")
    settle(hotel)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["201"]))
    settle(hotel)
    settle(hotel, now=True, rounds=2)
    (key,) = [key for key in keys(hotel) if key.state != "revoked"]
    assert (key.rooms, key.state, key.suspend_reason) == ([hotel.rooms["201"]], "suspended", "overdue_payment")
    assert not locks.opens(hotel.doors["201"], pin_of(hotel, key))
