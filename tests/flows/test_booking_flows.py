"""What reservation events do to keys, asked at the door."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tests.flows.conftest import alerts, doors, events, fire_timers, keys, make_hotel, pin_of, sagas
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

Settle = Callable[..., int]
ISSUED = ["credential.requested", "credential.pending", "credential.issued"]


def test_a_confirmed_booking_opens_its_room_and_the_street_door(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    assert hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"])) == "applied"
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, key.propagation, key.kind, key.open_work) == ("active", "confirmed", "pin_code", False)
    pin = pin_of(hotel, key)
    assert len(pin) == 8  # a shared door is among its doors
    assert locks.opens(hotel.doors["101"], pin)
    assert locks.opens(hotel.doors["lobby"], pin)
    assert not locks.opens(hotel.doors["102"], pin)
    assert events(hotel, key) == ISSUED


def test_second_confirmation_issues_no_second_key(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    data = hotel.booking(stay, 1, ["101"])
    body_id = "evt_same"
    assert hotel.tell("booking.confirmed", data, body_id) == "applied"
    assert hotel.tell("booking.confirmed", data, body_id) == "duplicate"
    assert hotel.tell("booking.confirmed", data) == "ignored"
    settle(hotel)
    assert len(keys(hotel)) == 1
    assert locks.created_at(hotel.doors["101"]) == 1


def test_checkout_takes_the_key_back_at_every_door(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    pin = pin_of(hotel, keys(hotel)[0])
    hotel.tell("booking.checked_out", hotel.booking(stay, 2, ["101"], status="checked_out"))
    assert keys(hotel)[0].state == "revoked"  # persisted at once, before the vendor was told
    assert locks.opens(hotel.doors["101"], pin)
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, key.propagation, key.revoke_reason, key.open_work) == ("revoked", "confirmed", "checkout", False)
    assert not locks.opens(hotel.doors["101"], pin)
    assert not locks.opens(hotel.doors["lobby"], pin)
    assert events(hotel, key) == [*ISSUED, "credential.revoked"]


def test_dates_and_room_changed_together_move_the_same_pin(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    first = hotel.booking(stay, 1, ["101"])
    hotel.tell("booking.confirmed", first)
    settle(hotel)
    pin = pin_of(hotel, keys(hotel)[0])
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["102"], start=start, end=start + timedelta(days=9)))
    settle(hotel)
    (key,) = keys(hotel)
    assert key.state == "active"
    assert pin_of(hotel, key) == pin
    assert locks.opens(hotel.doors["102"], pin)
    assert not locks.opens(hotel.doors["101"], pin)
    late = (start + timedelta(days=8)).isoformat()
    assert locks.opens(hotel.doors["102"], pin, at=late)
    assert locks.opens(hotel.doors["lobby"], pin, at=late)
    assert events(hotel, key) == [*ISSUED, "credential.updated"]


def test_cancellation_before_the_vendor_was_called_calls_no_vendor(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, key.open_work) == ("failed", False)
    assert events(hotel, key) == ["credential.requested", "credential.failed"]
    assert locks.calls(hotel.doors["101"]) == []


def test_a_reinstated_booking_gets_a_new_key(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel)
    hotel.tell("booking.confirmed", hotel.booking(stay, 3, ["101"]))
    settle(hotel)
    old, new = keys(hotel)
    assert (old.state, old.revoke_reason, new.state, new.incarnation) == ("revoked", "cancellation", "active", 2)
    assert locks.opens(hotel.doors["101"], pin_of(hotel, new))
    assert not locks.opens(hotel.doors["101"], pin_of(hotel, old))


def test_a_cancellation_that_comes_first_leaves_a_tombstone(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    thin = {"reservationId": stay, "propertyId": hotel.property_id, "version": 2, "status": "cancelled"}
    assert hotel.tell("booking.cancelled", thin) == "applied"
    assert hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"])) == "ignored"
    settle(hotel)
    assert keys(hotel) == []
    assert locks.calls(hotel.doors["101"]) == []


def test_no_show_suspends_after_the_delay_and_only_if_still_so(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    gone, came = new_id("rsv"), new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(gone, 1, ["101"]))
    hotel.tell("booking.confirmed", hotel.booking(came, 1, ["102"]))
    settle(hotel)
    for stay, room in ((gone, "101"), (came, "102")):
        hotel.tell("booking.no_show", hotel.booking(stay, 2, [room], status="no_show"))
    settle(hotel)
    assert [key.state for key in keys(hotel)] == ["active", "active"]
    hotel.tell("booking.confirmed", hotel.booking(came, 3, ["102"]))
    fire_timers(hotel)
    settle(hotel)
    (absent,), (present,) = keys(hotel, gone), keys(hotel, came)
    assert (absent.state, absent.suspend_reason, present.state) == ("suspended", "no_show", "active")
    assert not locks.opens(hotel.doors["101"], pin_of(hotel, absent))
    assert locks.opens(hotel.doors["102"], pin_of(hotel, present))


def test_a_guest_who_comes_after_a_no_show_gets_in_again(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.no_show", hotel.booking(stay, 2, ["101"], status="no_show"))
    fire_timers(hotel)
    settle(hotel)
    hotel.tell("booking.confirmed", hotel.booking(stay, 3, ["101"]))
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, key.suspend_reason) == ("active", "")
    assert locks.opens(hotel.doors["101"], pin_of(hotel, key))
    assert events(hotel, key) == [*ISSUED, "credential.suspended", "credential.unsuspended"]


def test_fraud_suspends_at_once_even_a_key_on_its_way(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    active, fresh = new_id("rsv"), new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(active, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.confirmed", hotel.booking(fresh, 1, ["102"]))
    for stay, room in ((active, "101"), (fresh, "102")):
        hotel.tell("booking.fraud_flagged", hotel.booking(stay, 2, [room], status="fraud_flagged"))
    settle(hotel)
    settle(hotel, now=True)
    for stay, room in ((active, "101"), (fresh, "102")):
        (key,) = keys(hotel, stay)
        assert (key.state, key.suspend_reason) == ("suspended", "fraud_review")
        assert not locks.opens(hotel.doors[room], pin_of(hotel, key))


def test_a_suspended_key_is_updated_and_resumes_with_the_new_window(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    from lockservice.core.tenancy import tenant
    from sagas import acts
    from vendors.port.types import SuspendReason

    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    (key,) = keys(hotel)
    clerk = acts.Actor("usr_clerk")
    acts.suspend(hotel.tenant_id, key.id, SuspendReason.OVERDUE_PAYMENT, clerk, "a1")
    settle(hotel)
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=20)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["101"], end=end))
    settle(hotel)
    assert keys(hotel)[0].state == "suspended"
    paid = {"reservationId": stay, "paymentStatus": "captured", "capturedAt": datetime.now(UTC).isoformat()}
    assert hotel.tell("melmastoon.payment.captured.v1", paid) == "applied"
    settle(hotel)
    (key,) = keys(hotel)
    assert key.state == "active"
    with tenant(hotel.tenant_id):
        assert key.valid_until == end + timedelta(hours=2)
    assert locks.opens(hotel.doors["101"], pin_of(hotel, key), at=(end - timedelta(hours=1)).isoformat())


def test_a_booking_without_a_room_waits_and_goes_on_with_one(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, []))
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, key.waiting_for) == ("requested", "room")
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["103"]))
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, key.waiting_for) == ("active", "")
    assert locks.opens(hotel.doors["103"], pin_of(hotel, key))


def test_rooms_on_two_installations_get_two_keys(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks)
    make_hotel(locks, rooms={"201": new_id("lck")}, shared={}, into=hotel)
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101", "201"]))
    settle(hotel)
    first, second = keys(hotel)
    assert {first.state, second.state} == {"active"}
    assert first.installation_id != second.installation_id
    for key in (first, second):
        room = "101" if hotel.rooms["101"] in key.rooms else "201"
        assert locks.opens(hotel.doors[room], pin_of(hotel, key))


def test_a_room_move_to_another_installation_ends_one_key_and_starts_another(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    hotel = make_hotel(locks, shared={})
    make_hotel(locks, rooms={"201": new_id("lck")}, shared={}, into=hotel)
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["201"]))
    settle(hotel)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 3, ["101"]))
    settle(hotel)
    states = sorted(key.state for key in keys(hotel))
    assert states == ["active", "revoked", "revoked"]
    (live,) = [key for key in keys(hotel) if key.state == "active"]
    assert live.rooms == [hotel.rooms["101"]]
    assert locks.opens(hotel.doors["101"], pin_of(hotel, live))
    assert locks.keys_at(hotel.doors["201"]) == []


def test_one_of_three_doors_dead_gives_a_key_that_says_so(database: str, locks: MockLocks, settle: Settle) -> None:
    rooms = {label: new_id("lck") for label in ("101", "102", "103")}
    hotel = make_hotel(locks, f"deadDoors={rooms['103']}", rooms=rooms, shared={})
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101", "102", "103"]))
    settle(hotel)
    (key,) = keys(hotel)
    assert key.state == "active"
    assert [w["code"] for w in key.warnings] == ["DOORS_PENDING"]
    pin = pin_of(hotel, key)
    assert [locks.opens(rooms[label], pin) for label in ("101", "102", "103")] == [True, True, False]
    settle(hotel, now=True, rounds=8)
    (key,) = keys(hotel)
    assert (key.state, key.open_work) == ("active", True)
    assert ("issue", "dead") in sagas(hotel)
    assert doors(hotel, key)["103"].attempts <= 5
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101", "102", "103"], status="cancelled"))
    settle(hotel)
    assert [locks.opens(rooms[label], pin) for label in ("101", "102", "103")] == [False, False, False]


def test_the_first_failed_revoke_raises_one_critical_alert_and_goes_on(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, "fail=revoke&times=7&error=KEY_REVOKE_FAILED")
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    pin = pin_of(hotel, keys(hotel)[0])
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel)
    assert alerts(hotel) == [("KEY_REVOKE_FAILED", "critical")]
    (key,) = keys(hotel)
    assert (key.state, key.open_work, key.propagation) == ("revoked", True, "unknown")
    assert locks.opens(hotel.doors["101"], pin)
    settle(hotel, now=True, rounds=8)
    (key,) = keys(hotel)
    assert (key.open_work, key.propagation) == (False, "confirmed")
    assert not locks.opens(hotel.doors["101"], pin)
    assert alerts(hotel) == [("KEY_REVOKE_FAILED", "critical")]


def test_a_vendor_that_never_answers_fails_the_key_after_five_calls(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, "fail=issue")
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel, now=True, rounds=7)
    key, card = keys(hotel)
    assert (key.state, key.failure_code) == ("failed", "VENDOR_UNREACHABLE")
    assert events(hotel, key) == ["credential.requested", "credential.pending", "credential.failed", "vendor.error"]
    issue_calls = [call for call in locks.calls(hotel.doors["101"]) if call["verb"] == "issue"]
    assert len(issue_calls) == 5
    assert ("KEY_ISSUE_FAILED", "warning") in alerts(hotel)  # the guest goes on to the desk
    assert (card.state, card.kind, card.waiting_for) == ("requested", "rfid_card", "desk")
    assert locks.keys_at(hotel.doors["101"]) == []


def test_lost_answers_make_one_key_and_no_orphan(database: str, locks: MockLocks, settle: Settle) -> None:
    for lost in range(1, 5):
        hotel = make_hotel(locks, f"lost={lost}&on=issue")
        stay = new_id("rsv")
        hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
        settle(hotel, now=True, rounds=7)
        (key,) = keys(hotel)
        assert key.state == "active"
        assert locks.created_at(hotel.doors["101"]) == 1
        assert locks.opens(hotel.doors["101"], pin_of(hotel, key))


def test_a_key_that_failed_with_a_lost_answer_is_found_and_removed(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, "lost=9&on=issue")
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel, now=True, rounds=9)
    key, card = keys(hotel)
    assert (key.state, key.open_work) == ("failed", False)
    assert (card.kind, card.waiting_for, card.replaces) == ("rfid_card", "desk", key.id)
    assert locks.keys_at(hotel.doors["101"]) == []


def test_a_refused_pin_is_drawn_again_three_times_then_another_kind_is_given(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    twice = make_hotel(locks, "fail=issue&times=2&error=KEY_ISSUE_FAILED&reason=pin_refused&retriable=0")
    twice.tell("booking.confirmed", twice.booking(new_id("rsv"), 1, ["101"]))
    settle(twice, now=True, rounds=5)
    (key,) = keys(twice)
    assert (key.state, key.kind, key.pin_version) == ("active", "pin_code", 3)
    assert locks.opens(twice.doors["101"], pin_of(twice, key))
    always = make_hotel(locks, "fail=issue&times=4&error=KEY_ISSUE_FAILED&reason=pin_refused&retriable=0")
    always.tell("booking.confirmed", always.booking(new_id("rsv"), 1, ["101"]))
    settle(always, now=True, rounds=7)
    (key,) = keys(always)
    assert (key.state, key.kind) == ("active", "mobile_app")
    assert [w["code"] for w in key.warnings] == ["KIND_CHANGED"]


def test_a_deactivated_property_loses_every_key(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    for room in ("101", "102", "103"):
        hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, [room]))
    settle(hotel)
    pins = {room: pin_of(hotel, key) for room, key in zip(("101", "102", "103"), keys(hotel), strict=True)}
    assert hotel.tell("melmastoon.tenant.property.deactivated.v1", {"propertyId": hotel.property_id}) == "applied"
    settle(hotel)
    settle(hotel)
    assert [(key.state, key.revoke_reason) for key in keys(hotel)] == [("revoked", "security")] * 3
    assert not any(locks.opens(hotel.doors[room], pin) for room, pin in pins.items())


def test_an_additional_key_leaves_the_first_alone(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    from sagas import acts
    from vendors.port.types import Window

    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    now = datetime.now(UTC).replace(microsecond=0)
    command = acts.IssueCommand(
        hotel.property_id,
        (hotel.rooms["101"],),
        Window(now - timedelta(hours=1), now + timedelta(days=1)),
        "gst_companion",
        stay,
    )
    first = acts.issue(hotel.tenant_id, command, acts.Actor("usr_clerk"), "act-1")
    again = acts.issue(hotel.tenant_id, command, acts.Actor("usr_clerk"), "act-1")
    assert first.credential_id == again.credential_id
    settle(hotel)
    primary, companion = keys(hotel)
    assert (primary.ordinal, companion.ordinal, companion.intent, companion.state) == (0, 1, "additional", "active")
    assert locks.opens(hotel.doors["101"], pin_of(hotel, primary))
    assert locks.opens(hotel.doors["101"], pin_of(hotel, companion))
    acts.revoke(
        hotel.tenant_id,
        companion.id,
        __import__("vendors.port.types", fromlist=["RevokeReason"]).RevokeReason.CHECKOUT,
        acts.Actor("usr_clerk"),
        "act-2",
    )
    settle(hotel)
    assert locks.opens(hotel.doors["101"], pin_of(hotel, primary))
    assert not locks.opens(hotel.doors["101"], pin_of(hotel, companion))


def test_a_lost_key_is_replaced_and_both_records_name_each_other(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    from sagas import acts

    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    (old,) = keys(hotel)
    old_pin = pin_of(hotel, old)
    act = acts.replace(hotel.tenant_id, old.id, acts.Actor("usr_clerk"), "lost-1")
    settle(hotel)
    old, new = keys(hotel)
    assert (act.credential_id, old.replaced_by, new.replaces, new.intent) == (new.id, new.id, old.id, "replacement")
    assert (old.state, old.revoke_reason, new.state) == ("revoked", "lost", "active")
    assert not locks.opens(hotel.doors["101"], old_pin)
    assert locks.opens(hotel.doors["101"], pin_of(hotel, new))


def test_a_window_that_ended_revokes_what_is_live(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    from django.db import connection

    from lockservice.core.tenancy import tenant
    from sagas.housekeeping import sweep

    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    with tenant(hotel.tenant_id), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE credentials_keycredential SET ends_at = clock_timestamp() - interval '1 s' WHERE tenant_id = %s",
            [hotel.tenant_id],
        )
    sweep()
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, key.revoke_reason) == ("revoked", "checkout")
    assert locks.keys_at(hotel.doors["101"]) == []
