"""A failed key that is tried again, by hand or by a booking that changed: what comes of it is what the stay is now."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections

from credentials.models import KeyCredential, KeyPolicyRow, Reservation
from lockservice.core.tenancy import tenant
from sagas import acts, pin_acts
from sagas.models import Lane, OutboxEvent, Saga
from sagas.runner import Runner
from tests.flows.conftest import fire_timers, keys, make_hotel, pin_of
from tests.flows.test_doors_in_doubt import readdress
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id
from vendors.port.secrets import CardNumber, Pin
from vendors.port.types import RevokeReason, SuspendReason, Window

Settle = Callable[..., int]
CLERK = acts.Actor("usr_clerk")
DIGITS = "73915264"
CARD = "3661413478"


@pytest.fixture
def pins(database: str, locks: MockLocks) -> Hotel:
    """Give a hotel of PIN keys alone, so that a door that refuses has no way round."""
    return make_hotel(locks, policy={"kinds": ["pin_code"]})


def refusing(locks: MockLocks, is_refusing: bool) -> None:
    """Lets every door refuse keys for good, or take them again."""
    locks.ask("/faults", {"profile": "fail=issue&pct=100&retriable=false"} if is_refusing else {})


def failed_key(hotel: Hotel, locks: MockLocks, settle: Settle, stay: str, rooms: list[str], **extra: Any) -> KeyCredential:
    """Books a stay whose key fails for good at its doors, which take keys again afterwards."""
    refusing(locks, True)
    try:
        hotel.tell("booking.confirmed", hotel.booking(stay, 1, rooms, **extra))
        settle(hotel, now=True, rounds=8)
    finally:
        refusing(locks, False)
    (key,) = keys(hotel, stay)
    assert (key.state, key.replaced_by, key.revoke_reason) == ("failed", None, "")
    return key


def called_off(hotel: Hotel, settle: Settle, ending: str, status: str) -> tuple[str, KeyCredential]:
    """Ends a stay while its key is on its way."""
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    hotel.tell(ending, hotel.booking(stay, 2, ["101"], status=status))
    settle(hotel)
    (key,) = keys(hotel, stay)
    assert (key.state, key.failure_code) == ("failed", "ABANDONED")
    return stay, key


def left_behind(hotel: Hotel) -> tuple[int, int, int]:
    """Counts the hotel's keys, sagas and events."""
    with tenant(hotel.tenant_id):
        tables = (KeyCredential, Saga, OutboxEvent)
        found = [table.objects.filter(tenant_id=hotel.tenant_id).count() for table in tables]  # type: ignore[attr-defined]
    return found[0], found[1], found[2]


def rooms_of(hotel: Hotel, key: KeyCredential) -> list[str]:
    """Returns the labels of a key's rooms."""
    return sorted(label for label, room in hotel.rooms.items() if room in key.rooms)


def live(hotel: Hotel, stay: str) -> list[KeyCredential]:
    """Returns the stay's keys that open or may still come to."""
    return [key for key in keys(hotel, stay) if key.state not in ("failed", "revoked")]


@pytest.mark.parametrize(
    ("ending", "status", "words"),
    [
        ("booking.cancelled", "cancelled", "the booking was cancelled"),
        ("booking.checked_out", "checked_out", "the guest has checked out"),
    ],
)
def test_a_stay_that_has_ended_gets_no_key_by_any_act(
    ending: str, status: str, words: str, hotel: Hotel, locks: MockLocks, settle: Settle
) -> None:
    stay, key = called_off(hotel, settle, ending, status)
    now = datetime.now(UTC)
    window = Window(now - timedelta(hours=1), now + timedelta(days=2))
    command = acts.IssueCommand(hotel.property_id, (hotel.rooms["101"],), window, "gst_x", stay, may_resume=True)
    before = left_behind(hotel)
    for act in (
        lambda: acts.retry(hotel.tenant_id, key.id, CLERK, acts.new_act_id()),
        lambda: pin_acts.choose(hotel.tenant_id, key.id, Pin(DIGITS), CLERK, "c"),
        lambda: acts.issue(hotel.tenant_id, command, CLERK, "i"),
    ):
        with pytest.raises(acts.Refused) as refused:
            act()
        assert (refused.value.code, refused.value.detail) == ("STAY_ENDED", words)
    assert left_behind(hotel) == before
    settle(hotel)
    assert [one.state for one in keys(hotel, stay)] == ["failed"]
    assert (locks.calls(hotel.doors["101"]), locks.opens(hotel.doors["101"], DIGITS)) == ([], False)


def test_a_key_of_a_booking_before_the_present_one_is_not_issued_anew(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay, key = called_off(hotel, settle, "booking.cancelled", "cancelled")
    hotel.tell("booking.confirmed", hotel.booking(stay, 3, ["102"]))
    settle(hotel)
    before = left_behind(hotel)
    with pytest.raises(acts.Refused, match="STAY_ENDED: the key is of an earlier booking"):
        acts.retry(hotel.tenant_id, key.id, CLERK, acts.new_act_id())
    assert left_behind(hotel) == before
    assert [(one.state, rooms_of(hotel, one), one.incarnation) for one in keys(hotel, stay)] == [
        ("failed", ["101"], 1),
        ("active", ["102"], 2),
    ]


def test_after_a_move_the_key_is_tried_at_the_new_room_by_itself_and_opens_no_other_guests(
    pins: Hotel, locks: MockLocks, settle: Settle
) -> None:
    stay, other = new_id("rsv"), new_id("rsv")
    key = failed_key(pins, locks, settle, stay, ["101"])
    moved = pins.booking(stay, 2, ["102"])
    assert pins.tell("booking.dates_changed", moved) == "applied"
    pins.tell("booking.confirmed", pins.booking(other, 1, ["101"]))
    settle(pins)
    old, new = keys(pins, stay)
    assert (old.id, old.replaced_by, new.replaces) == (key.id, new.id, key.id)
    assert (new.state, rooms_of(pins, new)) == ("active", ["102"])
    assert locks.opens(pins.doors["102"], pin_of(pins, new))
    assert not locks.opens(pins.doors["101"], pin_of(pins, new))
    before = left_behind(pins)
    with pytest.raises(acts.Refused, match="TRANSITION_REFUSED: a successor was issued already"):
        acts.retry(pins.tenant_id, key.id, CLERK, acts.new_act_id())
    assert (pins.tell("booking.dates_changed", moved), left_behind(pins)) == ("ignored", before)


def test_a_booking_that_changes_tries_a_failed_key_once_for_each_change(pins: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    failed_key(pins, locks, settle, stay, ["101"])
    refusing(locks, True)
    try:
        assert pins.tell("booking.confirmed", pins.booking(stay, 2, ["101"])) == "applied"  # nothing that matters to a key
        settle(pins, now=True, rounds=8)
        assert [key.state for key in keys(pins, stay)] == ["failed"]
        for event in ("first", "again", "and again"):
            pins.tell("booking.dates_changed", pins.booking(stay, 3, ["102"], event=event))
            settle(pins, now=True, rounds=8)
        assert [(key.state, rooms_of(pins, key)) for key in keys(pins, stay)] == [("failed", ["101"]), ("failed", ["102"])]
        pins.tell("booking.dates_changed", pins.booking(stay, 4, ["101"]))  # back where a key failed before
        settle(pins, now=True, rounds=8)
    finally:
        refusing(locks, False)
    pins.tell("booking.dates_changed", pins.booking(stay, 5, ["101"], end=datetime.now(UTC) + timedelta(days=6)))
    settle(pins)
    found = keys(pins, stay)
    assert [key.state for key in found] == ["failed", "failed", "failed", "active"]
    assert [key.replaces for key in found] == [None, *[key.id for key in found[:-1]]]
    assert locks.opens(pins.doors["101"], pin_of(pins, found[-1]), at=(datetime.now(UTC) + timedelta(days=5)).isoformat())


def test_a_key_that_a_person_called_off_is_not_brought_back_by_a_change(hotel: Hotel, settle: Settle) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    acts.revoke(hotel.tenant_id, keys(hotel, stay)[0].id, RevokeReason.SECURITY, CLERK, "off")
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["102"]))
    settle(hotel)
    assert [key.state for key in keys(hotel, stay)] == ["failed"]


@pytest.mark.parametrize("chosen", [False, True], ids=["retry", "chosen digits"])
def test_issued_anew_the_key_is_what_the_newest_version_says(
    chosen: bool, pins: Hotel, locks: MockLocks, settle: Settle
) -> None:
    stay, other = new_id("rsv"), new_id("rsv")
    failed_key(pins, locks, settle, stay, ["101"])
    refusing(locks, True)
    try:
        end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=8)
        pins.tell("booking.dates_changed", pins.booking(stay, 2, ["102"], end=end))
        settle(pins, now=True, rounds=8)
    finally:
        refusing(locks, False)
    second = keys(pins, stay)[-1]
    _move_projection(pins, stay, "103", end + timedelta(days=1))
    pins.tell("booking.confirmed", pins.booking(other, 1, ["102"]))
    if chosen:
        act = pin_acts.choose(pins.tenant_id, second.id, Pin(DIGITS), CLERK, "choose")
    else:
        act = acts.retry(pins.tenant_id, second.id, CLERK, acts.new_act_id())
    settle(pins)
    third = next(key for key in keys(pins, stay) if key.id == act.credential_id)
    assert (third.state, rooms_of(pins, third), third.replaces) == ("active", ["103"], second.id)
    assert third.valid_until == end + timedelta(days=1, hours=2)
    digits = pin_of(pins, third)
    assert (digits == DIGITS) is chosen
    late = (end + timedelta(days=1)).isoformat()
    assert [locks.opens(pins.doors[label], digits, at=late) for label in ("101", "102", "103")] == [False, False, True]
    with pytest.raises(acts.Refused, match="a successor was issued already"):
        acts.retry(pins.tenant_id, second.id, CLERK, acts.new_act_id())


def _move_projection(hotel: Hotel, stay: str, label: str, end: datetime) -> None:
    """Moves the stay's projection alone, as an event does that finds no key to bring along."""
    with tenant(hotel.tenant_id):
        rows = Reservation.objects.filter(tenant_id=hotel.tenant_id, reservation_id=stay)
        rows.update(rooms=[hotel.rooms[label]], valid_until=end, updated_at=datetime.now(UTC), version=3)


def test_a_companions_failed_key_is_issued_anew_as_asked_for_until_the_stay_moves(
    pins: Hotel, locks: MockLocks, settle: Settle
) -> None:
    stay = new_id("rsv")
    pins.tell("booking.confirmed", pins.booking(stay, 1, ["101", "102"]))
    settle(pins)
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=12)
    window = Window(until - timedelta(hours=14), until)
    command = acts.IssueCommand(pins.property_id, (pins.rooms["102"],), window, "gst_friend", stay)
    made = []
    refusing(locks, True)
    try:
        for name in ("one", "two"):
            made.append(acts.issue(pins.tenant_id, command, CLERK, name).credential_id)
            settle(pins, now=True, rounds=8)
    finally:
        refusing(locks, False)
    act = acts.retry(pins.tenant_id, made[0], CLERK, acts.new_act_id())
    settle(pins)
    friend = next(key for key in keys(pins, stay) if key.id == act.credential_id)
    assert (friend.state, rooms_of(pins, friend), friend.valid_until) == ("active", ["102"], until)
    assert not locks.opens(pins.doors["101"], pin_of(pins, friend))
    pins.tell("booking.dates_changed", pins.booking(stay, 2, ["103"]))
    settle(pins)
    act = acts.retry(pins.tenant_id, made[1], CLERK, acts.new_act_id())
    settle(pins)
    friend = next(key for key in keys(pins, stay) if key.id == act.credential_id)
    assert (friend.state, rooms_of(pins, friend)) == ("active", ["103"])
    digits = pin_of(pins, friend)
    assert [locks.opens(pins.doors[label], digits) for label in ("101", "102", "103")] == [False, False, True]


def test_a_stay_that_left_the_keys_lock_system_gets_no_key_there(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, shared={}, policy={"kinds": ["pin_code"]})
    make_hotel(locks, rooms={"201": new_id("lck")}, shared={}, into=hotel)
    stay = new_id("rsv")
    key = failed_key(hotel, locks, settle, stay, ["101"])
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["201"]))
    settle(hotel)
    before = left_behind(hotel)
    with pytest.raises(acts.Refused, match="TRANSITION_REFUSED: the stay has no room at the key's lock system"):
        acts.retry(hotel.tenant_id, key.id, CLERK, acts.new_act_id())
    assert left_behind(hotel) == before
    (new,) = live(hotel, stay)
    assert (new.state, rooms_of(hotel, new), locks.opens(hotel.doors["201"], pin_of(hotel, new))) == ("active", ["201"], True)


def test_a_window_that_is_over_is_refused(pins: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    key = failed_key(pins, locks, settle, stay, ["101"])
    now = datetime.now(UTC)
    pins.tell("booking.dates_changed", pins.booking(stay, 2, ["101"], end=now - timedelta(hours=3)))
    before = left_behind(pins)
    with pytest.raises(acts.Refused, match="CREDENTIAL_EXPIRED"):
        acts.retry(pins.tenant_id, key.id, CLERK, acts.new_act_id())
    assert left_behind(pins) == before


def test_after_a_no_show_the_key_issued_anew_rests_until_the_guest_comes(pins: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    with tenant(pins.tenant_id):
        values = {"kinds": ["pin_code"], "no_show_suspend_after_hours": 0}
        KeyPolicyRow.objects.filter(tenant_id=pins.tenant_id).update(values=values)
    key = failed_key(pins, locks, settle, stay, ["101"])
    pins.tell("booking.no_show", pins.booking(stay, 2, ["101"], status="no_show"))
    fire_timers(pins)
    settle(pins)
    act = acts.retry(pins.tenant_id, key.id, CLERK, acts.new_act_id())
    settle(pins, now=True, rounds=3)
    _, new = keys(pins, stay)
    assert (new.id, new.state, new.suspend_reason) == (act.credential_id, "suspended", SuspendReason.NO_SHOW)
    assert not locks.opens(pins.doors["101"], pin_of(pins, new))
    pins.tell("booking.confirmed", pins.booking(stay, 3, ["101"]))
    settle(pins, now=True, rounds=3)
    assert locks.opens(pins.doors["101"], pin_of(pins, new))


def test_a_stay_that_rests_gets_no_open_key_by_issuing_a_failed_one_anew(pins: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    pins.tell("booking.confirmed", pins.booking(stay, 1, ["101"]))
    settle(pins)
    (first,) = keys(pins, stay)
    command = acts.IssueCommand(
        pins.property_id, tuple(first.rooms), Window(first.valid_from, first.valid_until), "gst_f", stay
    )
    refusing(locks, True)
    try:
        failed = acts.issue(pins.tenant_id, command, CLERK, "friend").credential_id
        settle(pins, now=True, rounds=8)
    finally:
        refusing(locks, False)
    acts.suspend(pins.tenant_id, first.id, SuspendReason.OVERDUE_PAYMENT, CLERK, "s")
    settle(pins)
    act = acts.retry(pins.tenant_id, failed, CLERK, acts.new_act_id())
    settle(pins, now=True, rounds=3)
    new = next(key for key in keys(pins, stay) if key.id == act.credential_id)
    assert (new.state, new.suspend_reason) == ("suspended", SuspendReason.OVERDUE_PAYMENT)
    assert not locks.opens(pins.doors["101"], pin_of(pins, new))


def at_the_doors_alone(hotel: Hotel) -> None:
    """Runs what is due at the doors to its end, and leaves what is to be given instead to a later moment."""
    with tenant(hotel.tenant_id):
        names = list(Lane.objects.filter(tenant_id=hotel.tenant_id).values_list("key", flat=True))
    Runner(only=[name for name in names if not name.endswith(":internal")]).run(until=lambda: False, drain=True, max_s=30)


@pytest.mark.parametrize("who", ["guest", "companion"])
def test_a_room_left_before_the_other_kind_is_given_is_opened_by_no_successor(
    who: str, database: str, locks: MockLocks, settle: Settle
) -> None:
    unsupported = "fail=issue&times=1&error=KEY_ISSUE_FAILED&reason=kind_unsupported&retriable=0"
    hotel = make_hotel(locks, shared={}, policy={"kinds": ["pin_code", "rfid_card"]})
    stay, other = new_id("rsv"), new_id("rsv")
    if who == "companion":
        hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
        settle(hotel)
    readdress(hotel, locks, unsupported)
    if who == "guest":
        hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    else:
        (first,) = keys(hotel, stay)
        window = Window(first.valid_from, first.valid_until)
        acts.issue(hotel.tenant_id, acts.IssueCommand(hotel.property_id, tuple(first.rooms), window, "gst_f", stay), CLERK, "f")
    at_the_doors_alone(hotel)
    readdress(hotel, locks, "")
    failed = keys(hotel, stay)[-1]
    assert (failed.state, failed.replaced_by) == ("failed", None)
    count = len(keys(hotel, stay))
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["102"]))
    assert len(keys(hotel, stay)) == count  # the other kind is about to be given: one key, not two
    hotel.tell("booking.confirmed", hotel.booking(other, 1, ["101"]))
    settle(hotel)
    (card,) = [key for key in live(hotel, stay) if key.replaces == failed.id]
    assert (card.kind, card.waiting_for, rooms_of(hotel, card)) == ("rfid_card", "desk", ["102"])
    acts.encode(hotel.tenant_id, card.id, CLERK, "e", card_number=CardNumber(CARD))
    settle(hotel)
    asked = [{"device": hotel.doors[label], "kind": "rfid_card", "value": CARD, "dry": True} for label in ("101", "102")]
    assert [locks.ask("/try", door)["open"] for door in asked] == [False, True]


def test_of_many_who_issue_it_anew_at_once_one_gets_a_key(pins: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    key = failed_key(pins, locks, settle, stay, ["101"])
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda _: _retry(pins, key.id), range(4)))
    settle(pins)
    assert sorted(outcomes) == ["TRANSITION_REFUSED"] * 3 + ["issued"]
    assert [one.state for one in keys(pins, stay)] == ["failed", "active"]


def _retry(hotel: Hotel, key_id: str) -> str:
    try:
        acts.retry(hotel.tenant_id, key_id, CLERK, acts.new_act_id())
    except acts.Refused as refused:
        return refused.code
    finally:
        connections.close_all()
    return "issued"
