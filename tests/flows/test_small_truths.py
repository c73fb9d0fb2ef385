"""Keys that must rest from their first moment, and shared doors on another lock system than the room's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from credentials import artifacts
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.runner import Runner
from tests.flows.conftest import doors, events, fire_timers, keys, make_hotel, pin_of, sagas
from tests.flows.test_fall_back import payloads
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

Settle = Callable[..., int]


def while_the_vendor_works(monkeypatch: pytest.MonkeyPatch, verb: str, meanwhile: Callable[[], object]) -> None:
    """Lets something happen after the vendor has done the first call of a verb and before its answer is recorded."""
    done: list[bool] = []
    recorded = Runner._record

    def record(self: Runner) -> int:
        waiting = [answer for future in self._flying if future.done() for answer in [future.result()]]
        if not done and any(answer.call.verb == verb for answer in waiting):
            done.append(True)
            meanwhile()
        return recorded(self)

    monkeypatch.setattr(Runner, "_record", record)


def test_a_guest_flagged_while_the_vendor_works_is_never_told_that_her_key_is_ready(
    hotel: Hotel, locks: MockLocks, settle: Settle, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay = new_id("rsv")
    flagged = hotel.booking(stay, 2, ["101"], status="fraud_flagged")
    while_the_vendor_works(monkeypatch, "issue", lambda: hotel.tell("booking.fraud_flagged", flagged))
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    settle(hotel, now=True, rounds=2)
    (key,) = keys(hotel)
    assert (key.state, key.suspend_reason) == ("suspended", "fraud_review")
    told = ["credential.requested", "credential.pending", "credential.issued", "credential.suspended"]
    assert events(hotel, key) == told
    (issued,) = payloads(hotel, key, "issued")
    assert "artifact" not in issued["delivery"]  # nothing to hand over
    assert [w["code"] for w in issued["warnings"]] == ["SUSPENDED_AT_ONCE"]
    assert key.warnings == []
    assert not locks.opens(hotel.doors["101"], pin_of(hotel, key))
    assert not locks.opens(hotel.doors["lobby"], pin_of(hotel, key))
    with tenant(hotel.tenant_id):
        reference = artifacts.current(hotel.tenant_id, [key.id])[key.id].id
    with pytest.raises(acts.Refused, match="TRANSITION_REFUSED"):
        acts.exchange(hotel.tenant_id, reference, acts.Actor("svc_app"), "k1")
    assert all(status == "done" for _, status in sagas(hotel))


def test_a_no_show_who_came_meanwhile_is_given_her_key_as_any_guest(
    hotel: Hotel, locks: MockLocks, settle: Settle, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay = new_id("rsv")

    def reported_and_come() -> None:
        hotel.tell("booking.no_show", hotel.booking(stay, 2, ["101"], status="no_show"))
        fire_timers(hotel)
        hotel.tell("booking.confirmed", hotel.booking(stay, 3, ["101"]))

    while_the_vendor_works(monkeypatch, "issue", reported_and_come)
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    settle(hotel, now=True, rounds=2)
    (key,) = keys(hotel)
    assert (key.state, key.suspend_reason) == ("active", "")
    assert locks.opens(hotel.doors["101"], pin_of(hotel, key))
    assert "artifact" in payloads(hotel, key, "issued")[0]["delivery"]


# --- shared doors elsewhere


@pytest.fixture
def street_elsewhere(database: str, locks: MockLocks) -> Hotel:
    """Rooms on one lock system, the street door on another."""
    hotel = make_hotel(locks, shared={})
    rooms = hotel.installation_id
    make_hotel(locks, rooms={"201": new_id("lck")}, into=hotel)
    hotel.installation_id = rooms
    return hotel


def test_a_shared_door_of_another_lock_system_gets_a_key_of_its_own(
    street_elsewhere: Hotel, locks: MockLocks, settle: Settle
) -> None:
    hotel, stay = street_elsewhere, new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    room, street = keys(hotel, stay)
    assert [(key.state, len(key.rooms), key.areas) for key in (room, street)] == [("active", 1, []), ("active", 0, ["lobby"])]
    assert set(doors(hotel, street)) == {"lobby"}
    assert locks.opens(hotel.doors["101"], pin_of(hotel, room))
    assert locks.opens(hotel.doors["lobby"], pin_of(hotel, street))
    assert locks.keys_at(hotel.doors["201"]) == []
    hotel.tell("booking.confirmed", hotel.booking(stay, 2, ["101"]))  # the same again changes nothing
    settle(hotel)
    assert len(keys(hotel, stay)) == 2
    hotel.tell("booking.checked_out", hotel.booking(stay, 3, ["101"], status="checked_out"))
    settle(hotel)
    assert [key.state for key in keys(hotel, stay)] == ["revoked", "revoked"]
    assert locks.keys_at(hotel.doors["lobby"]) == []


def test_a_guest_moved_to_the_other_lock_system_keeps_the_street_door_and_loses_her_old_room(
    street_elsewhere: Hotel, locks: MockLocks, settle: Settle
) -> None:
    hotel, stay = street_elsewhere, new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["201"]))
    settle(hotel)
    settle(hotel, now=True, rounds=2)
    assert [(key.state, key.rooms) for key in keys(hotel, stay)] == [
        ("revoked", [hotel.rooms["101"]]), ("active", [hotel.rooms["201"]])
    ]  # fmt: skip
    street = keys(hotel, stay)[1]
    for door in ("201", "lobby"):
        assert locks.opens(hotel.doors[door], pin_of(hotel, street))
    assert locks.keys_at(hotel.doors["101"]) == []
    hotel.tell("booking.dates_changed", hotel.booking(stay, 3, ["102"]))
    settle(hotel)
    settle(hotel, now=True, rounds=2)
    live = [key for key in keys(hotel, stay) if key.state == "active"]
    assert sorted((len(key.rooms), key.areas) for key in live) == [(0, ["lobby"]), (1, [])]
    assert locks.opens(hotel.doors["lobby"], pin_of(hotel, live[0]))
    assert locks.keys_at(hotel.doors["201"]) == []


def test_a_booking_without_a_room_gets_no_key_of_the_street_alone(street_elsewhere: Hotel, settle: Settle) -> None:
    hotel, stay = street_elsewhere, new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, []))
    settle(hotel)
    assert [(key.state, key.waiting_for) for key in keys(hotel, stay)] == [("requested", "room")]
    hotel.tell("booking.confirmed", hotel.booking(stay, 2, ["101"]))
    settle(hotel)
    settle(hotel, now=True, rounds=2)
    assert sorted((key.state, len(key.rooms)) for key in keys(hotel, stay)) == [("active", 0), ("active", 1)]
