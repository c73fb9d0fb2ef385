"""What is changed behind our back at a door is found, told once, repaired by rule, and gone in the next comparison."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from credentials.models import PinSlot
from devices import selectors
from devices.models import LockDevice
from lockservice.core import crypto
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.models import Finding, KeySighting, OutboxEvent, ReconcileRun
from tests.flows.conftest import doors, events, keys, pin_of
from tests.reconcile.conftest import Hands, alert_codes, book, found, look, settle
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id
from vendors.port.secrets import CardNumber
from vendors.port.types import RevokeReason, SuspendReason
from vendors.support.marks import mark_of, tag_of

CLERK = acts.Actor("usr_clerk")


def test_where_books_and_doors_agree_nothing_is_found(hotel: Hotel) -> None:
    book(hotel, "101")
    book(hotel, "102")
    report = look(hotel, repairs=True)
    assert (report.outcome, report.doors_done_count, report.keys_count, report.new_count) == ("done", 3, 2, 0)
    assert found(hotel) == []
    assert alert_codes(hotel) == []


def test_a_key_taken_behind_our_back_is_given_again_with_the_same_digits(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    (key,) = keys(hotel)
    pin, door = pin_of(hotel, key), hotel.doors["101"]
    hands.drop("101")
    assert not locks.opens(door, pin)
    report = look(hotel)
    assert (report.counts, report.repairs_count) == ({"missing": 1}, 0)
    assert alert_codes(hotel) == ["DRIFT_KEY_MISSING"]
    assert look(hotel, repairs=True).repairs_count == 1
    settle(hotel)
    assert locks.opens(door, pin)
    report = look(hotel, repairs=True)
    assert (report.counts, report.resolved_count, report.repairs_count) == ({}, 1, 0)
    assert [row.resolution for row in found(hotel, "resolved")] == ["repaired"]
    assert pin_of(hotel, keys(hotel)[0]) == pin
    assert events(hotel, key)[-1] == "vendor.error"


def test_a_window_changed_at_the_door_is_set_right(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    (key,) = keys(hotel)
    pin, door = pin_of(hotel, key), hotel.doors["101"]
    late = key.valid_until + timedelta(days=30)
    hands.alter("101", **{"from": key.valid_from.isoformat(), "until": late.isoformat()})
    report = look(hotel, repairs=True)
    assert report.counts == {"window_differs": 1}
    assert [(row.danger, row.found_until, row.wanted_until) for row in found(hotel)] == [("opens", late, key.valid_until)]
    assert alert_codes(hotel) == ["DRIFT_KEY_OPENS"]
    settle(hotel)
    after = (key.valid_until + timedelta(hours=1)).isoformat()
    assert locks.opens(door, pin)
    assert not locks.opens(door, pin, at=after)
    assert look(hotel).counts == {}


def test_a_revoked_key_that_came_back_is_taken_back_again(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    (key,) = keys(hotel)
    pin, door = pin_of(hotel, key), hotel.doors["101"]
    acts.revoke(hotel.tenant_id, key.id, RevokeReason.CHECKOUT, CLERK, "out")
    settle(hotel)
    hands.plant("101", pin, mark=mark_of(key.issue_key), tag=tag_of(key.id))
    assert locks.opens(door, pin)
    report = look(hotel, repairs=True)
    assert (report.counts, report.repairs_count) == ({"present_but_revoked": 1}, 1)
    assert alert_codes(hotel) == ["DRIFT_KEY_OPENS"]
    settle(hotel)
    assert not locks.opens(door, pin)
    assert locks.keys_at(door) == []
    assert look(hotel, repairs=True).counts == {}
    assert keys(hotel)[0].state == "revoked"


def test_two_leftovers_of_a_revoked_key_are_both_taken(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    (key,) = keys(hotel)
    acts.revoke(hotel.tenant_id, key.id, RevokeReason.CHECKOUT, CLERK, "out")
    settle(hotel)
    for digits in ("771204", "480913"):
        hands.plant("101", digits, mark=mark_of(key.issue_key), tag=tag_of(key.id))
    assert look(hotel, repairs=True).counts == {"present_but_revoked": 2}
    settle(hotel)
    assert locks.keys_at(hotel.doors["101"]) == []
    assert look(hotel).counts == {}


def test_an_orphan_of_a_key_that_is_over_is_taken_from_a_door_it_never_had(
    hotel: Hotel, locks: MockLocks, hands: Hands
) -> None:
    book(hotel, "101")
    (key,) = keys(hotel)
    acts.revoke(hotel.tenant_id, key.id, RevokeReason.CHECKOUT, CLERK, "out")
    settle(hotel)
    hands.plant("103", "771204", mark=mark_of(key.issue_key), tag=tag_of(key.id))
    report = look(hotel, repairs=True)
    assert (report.counts, report.repairs_count) == ({"orphan": 1}, 1)
    settle(hotel)
    assert locks.keys_at(hotel.doors["103"]) == []
    assert look(hotel).counts == {}
    assert doors(hotel, keys(hotel)[0])["103"].state == "absent"


def test_an_orphan_that_no_credential_explains_is_left_to_a_person(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    hands.plant("101", "771204", mark=mark_of("elsewhere"), tag=tag_of(new_id("key")))
    report = look(hotel, repairs=True)
    assert (report.counts, report.repairs_count) == ({"orphan": 1}, 0)
    settle(hotel)
    assert len(locks.keys_at(hotel.doors["101"])) == 1


def test_a_stranger_is_told_and_never_taken_by_a_rule(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    hands.plant("101", "904512", name="Cleaner Gulnora")
    for _ in range(3):
        report = look(hotel, repairs=True)
        assert (report.counts, report.repairs_count) == ({"stranger": 1}, 0)
        settle(hotel)
    assert len(found(hotel)) == 1
    assert alert_codes(hotel) == ["UNKNOWN_KEYS_FOUND"]
    assert locks.opens(hotel.doors["101"], "904512")
    assert keys(hotel) == []


def test_a_suspended_key_that_opens_is_put_to_rest_again(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    (key,) = keys(hotel)
    pin, door = pin_of(hotel, key), hotel.doors["101"]
    acts.suspend(hotel.tenant_id, key.id, SuspendReason.MANUAL, CLERK, "s")
    settle(hotel)
    assert look(hotel).counts == {}
    hands.alter("101", suspended=False)
    assert locks.opens(door, pin)
    assert look(hotel, repairs=True).counts == {"not_resting": 1}
    settle(hotel)
    assert not locks.opens(door, pin)
    assert look(hotel).counts == {}
    assert keys(hotel)[0].state == "suspended"


def test_a_live_key_that_rests_at_the_door_opens_again(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    (key,) = keys(hotel)
    hands.alter("101", suspended=True)
    assert not locks.opens(hotel.doors["101"], pin_of(hotel, key))
    assert look(hotel, repairs=True).counts == {"window_differs": 1}
    assert alert_codes(hotel) == ["DRIFT_KEY_MISSING"]
    settle(hotel)
    assert locks.opens(hotel.doors["101"], pin_of(hotel, key))
    assert look(hotel).counts == {}


def test_a_second_key_of_one_credential_is_left_to_a_person(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    (key,) = keys(hotel)
    hands.plant("101", "771204", mark=mark_of(key.issue_key), tag=tag_of(key.id))
    report = look(hotel, repairs=True)
    assert (report.counts, report.repairs_count) == ({"duplicate": 1}, 0)
    assert len(locks.keys_at(hotel.doors["101"])) == 2


def test_a_key_on_its_way_is_no_finding(hotel: Hotel, locks: MockLocks) -> None:
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    report = look(hotel, repairs=True)
    assert (report.counts, report.in_flight_count) == ({}, 1)
    settle(hotel)
    (key,) = keys(hotel)
    acts.revoke(hotel.tenant_id, key.id, RevokeReason.CHECKOUT, CLERK, "out")
    report = look(hotel, repairs=True)
    assert (report.counts, report.in_flight_count) == ({}, 1)
    settle(hotel)
    assert look(hotel).counts == {}
    assert locks.keys_at(hotel.doors["101"]) == []


def test_a_repair_is_not_started_twice_while_it_runs(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    hands.drop("101")
    assert look(hotel, repairs=True).repairs_count == 1
    assert look(hotel, repairs=True).repairs_count == 0
    settle(hotel)
    assert len(locks.keys_at(hotel.doors["101"])) == 1
    assert locks.created_at(hotel.doors["101"]) == 2


def test_what_comes_back_after_every_repair_is_left_to_a_person(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    for _ in range(3):
        hands.drop("101")
        assert look(hotel, repairs=True).repairs_count == 1
        settle(hotel)
    hands.drop("101")
    assert look(hotel, repairs=True).repairs_count == 0
    assert locks.keys_at(hotel.doors["101"]) == []
    assert [(row.kind, row.repairs_count) for row in found(hotel)] == [("missing", 3)]


def test_findings_of_a_lock_that_went_out_of_use_are_closed(hotel: Hotel, hands: Hands) -> None:
    hands.plant("101", "904512")
    look(hotel)
    with tenant(hotel.tenant_id):
        LockDevice.objects.filter(tenant_id=hotel.tenant_id, id=hotel.devices["101"]).update(active=False)
    selectors.forget()
    report = look(hotel)
    assert (report.counts, report.resolved_count) == ({}, 1)
    assert [row.resolution for row in found(hotel, "resolved")] == ["retired"]


def test_a_strangers_digits_are_not_given_to_a_guest(hotel: Hotel, hands: Hands) -> None:
    hands.plant("101", "904512")
    look(hotel)
    index = crypto.blind_index("artifact", hotel.tenant_id, "904512")
    with tenant(hotel.tenant_id):
        (slot,) = PinSlot.objects.filter(tenant_id=hotel.tenant_id)
        assert (bytes(slot.pin_index), slot.device_id, slot.rests_until) == (index, hotel.devices["101"], None)
    hands.drop("101")
    look(hotel)
    with tenant(hotel.tenant_id):
        (slot,) = PinSlot.objects.filter(tenant_id=hotel.tenant_id)
        assert slot.rests_until is not None
        assert slot.rests_until > datetime.now(UTC) + timedelta(days=29)


def test_neither_digits_nor_names_nor_references_lie_in_the_clear(hotel: Hotel, hands: Hands) -> None:
    ref = hands.plant("101", "904512", name="Cleaner Gulnora")
    look(hotel)
    with tenant(hotel.tenant_id):
        tables = (Finding, KeySighting, ReconcileRun, OutboxEvent, PinSlot)
        rows = [str(row) for table in tables for row in table.objects.filter(tenant_id=hotel.tenant_id).values_list()]
        assert Finding.objects.filter(tenant_id=hotel.tenant_id).count() == 1
        assert KeySighting.objects.filter(tenant_id=hotel.tenant_id).count() == 0
    text = " ".join(rows)
    assert [secret for secret in ("904512", "Gulnora", ref) if secret in text] == []


def test_a_card_that_is_missing_waits_for_the_desk(hotel: Hotel, hands: Hands, locks: MockLocks) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"], preferredKinds=["rfid_card"]))
    (key,) = keys(hotel)
    acts.encode(hotel.tenant_id, key.id, CLERK, "e", card_number=CardNumber("3661413478"))
    settle(hotel)
    hands.drop("101")
    report = look(hotel, repairs=True)
    assert (report.counts, report.repairs_count) == ({"missing": 1}, 0)
    assert locks.keys_at(hotel.doors["101"]) == []
