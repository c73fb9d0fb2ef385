"""Corners that a second reader found: each was wrong once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from sagas import acts
from sagas.runner import Runner
from tests.flows.conftest import events, keys, make_hotel, pin_of
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id
from vendors.port.types import Window

Settle = Callable[..., int]
CLERK = acts.Actor("usr_clerk")


def test_changed_dates_of_a_booking_that_is_over_bring_no_key_back(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    later = hotel.opened_at + timedelta(days=9)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 3, ["101"], status="cancelled", end=later))
    settle(hotel)
    assert [key.state for key in keys(hotel)] == ["revoked"]
    assert locks.keys_at(hotel.doors["101"]) == []


def test_changed_dates_of_a_booking_under_review_leave_it_suspended(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.fraud_flagged", hotel.booking(stay, 2, ["101"], status="fraud_flagged"))
    settle(hotel)
    later = hotel.opened_at + timedelta(days=9)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 3, ["101"], status="fraud_flagged", end=later))
    settle(hotel)
    (key,) = keys(hotel)
    assert key.state == "suspended"
    assert not locks.opens(hotel.doors["101"], pin_of(hotel, key))


def test_a_house_that_left_gives_no_key_by_hand_and_replaces_none(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    (key,) = keys(hotel)
    from lockservice.core.places import Property
    from lockservice.core.tenancy import tenant

    with tenant(hotel.tenant_id):
        Property.objects.filter(tenant_id=hotel.tenant_id).update(active=False)
    now = datetime.now(UTC)
    window = Window(now, now + timedelta(days=1))
    command = acts.IssueCommand(hotel.property_id, (hotel.rooms["102"],), window, "gst_x", "rsv_x")
    for ask in (
        lambda: acts.issue(hotel.tenant_id, command, CLERK, "a"),
        lambda: acts.replace(hotel.tenant_id, key.id, CLERK, "b"),
    ):
        with pytest.raises(acts.Refused, match="TRANSITION_REFUSED"):
            ask()
    assert [k.state for k in keys(hotel)] == ["active"]
    assert locks.calls(hotel.doors["102"]) == []


def test_a_window_that_all_rooms_follow_is_told_though_a_shared_door_is_dead(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    lobby = new_id("lck")
    hotel = make_hotel(locks, f"deadDoors={lobby}", shared={"lobby": lobby})
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel, now=True, rounds=8)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["101"], end=hotel.opened_at + timedelta(days=9)))
    settle(hotel, now=True, rounds=8)
    (key,) = keys(hotel)
    assert (key.state, "DOORS_MISSING" in {warning["code"] for warning in key.warnings}) == ("active", True)
    assert "credential.updated" in events(hotel, key)
    assert locks.opens(hotel.doors["101"], pin_of(hotel, key), at=(hotel.opened_at + timedelta(days=8)).isoformat())


def test_two_doors_that_refuse_digits_in_one_answer_cost_one_draw(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, "fail=issue&times=3&error=KEY_ISSUE_FAILED&reason=pin_refused&retriable=0")
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101", "102"]))
    settle(hotel, now=True, rounds=6)
    (key,) = keys(hotel)
    assert (key.state, key.kind, key.pin_version) == ("active", "pin_code", 4)


def test_the_last_threads_are_kept_for_security_in_narrow_lanes_too() -> None:
    runner = Runner(pool_size=10)
    runner._flying = {Future(): SimpleNamespace(lane="vad_2:") for _ in range(8)}  # type: ignore[misc]
    runner._lanes = {"vad_1:gw1": (1, 1), "vad_1:": (1, 8), "tnt_1:internal": (1, 1)}
    slots, urgent = runner._slots()
    assert set(urgent) == {"vad_1:gw1", "vad_1:"}
    assert set(slots) == {"vad_1:gw1", "vad_1:", "tnt_1:internal"}


def test_lanes_that_may_be_quiet_leave_places_to_those_behind_them() -> None:
    runner = Runner()
    runner._lanes = {f"vad_{n}:": (1, 50) for n in range(60)}
    given: set[str] = set()
    for _ in range(60):
        slots, urgent = runner._slots()
        assert set(slots) == set(runner._lanes)  # for security every lane has a place in every round
        assert sum(places for lane, (_, places) in slots.items() if lane not in urgent) <= 103
        given |= set(slots) - set(urgent)
    assert given == set(runner._lanes)


def test_held_internal_lanes_stop_no_lane_behind_them() -> None:
    runner = Runner()
    runner._lanes = {**{f"tnt_{n}:internal": (1, 1) for n in range(5)}, "vad_1:gw1": (1, 1)}
    slots, _ = runner._slots()
    assert slots["vad_1:gw1"] == (1, 1)


def test_a_suspension_is_not_got_round_by_another_key(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    from dataclasses import replace

    from vendors.port.types import RevokeReason

    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.fraud_flagged", hotel.booking(stay, 2, ["101"], status="fraud_flagged"))
    settle(hotel)
    (key,) = keys(hotel)
    now = datetime.now(UTC)
    window = Window(now, now + timedelta(days=1))
    command = acts.IssueCommand(hotel.property_id, (hotel.rooms["101"],), window, "gst_x", stay)
    with pytest.raises(acts.Refused, match="TRANSITION_REFUSED"):
        acts.replace(hotel.tenant_id, key.id, CLERK, "r")
    with pytest.raises(acts.Refused, match="TRANSITION_REFUSED"):
        acts.issue(hotel.tenant_id, command, CLERK, "i")
    act = acts.revoke(hotel.tenant_id, key.id, RevokeReason.LOST, CLERK, "l")
    assert act.credential_id == key.id  # no successor
    with pytest.raises(acts.Refused, match="TRANSITION_REFUSED"):
        acts.issue(hotel.tenant_id, command, CLERK, "i2")
    settle(hotel)
    assert [k.state for k in keys(hotel)] == ["revoked"]
    assert locks.keys_at(hotel.doors["101"]) == []
    acts.issue(hotel.tenant_id, replace(command, may_resume=True), acts.Actor("usr_supervisor"), "i3")
    settle(hotel)
    assert [k.state for k in keys(hotel)] == ["revoked", "active"]


def test_a_second_lock_system_gives_no_open_key_to_a_stay_that_rests(database: str, locks: MockLocks, settle: Settle) -> None:
    from vendors.port.types import SuspendReason

    hotel = make_hotel(locks)
    make_hotel(locks, rooms={"201": new_id("lck")}, shared={}, into=hotel)
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    acts.suspend(hotel.tenant_id, keys(hotel)[0].id, SuspendReason.OVERDUE_PAYMENT, CLERK, "s")
    settle(hotel)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["101", "201"]))
    settle(hotel, now=True, rounds=3)
    assert sorted(key.state for key in keys(hotel)) == ["suspended", "suspended"]
    assert not any(locks.opens(hotel.doors["201"], pin_of(hotel, key)) for key in keys(hotel))
