"""Quotas, capacities and what the clock tidies away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from credentials.models import Artifact, PinSlot, Reservation
from devices import call_counts
from devices.models import CallCount
from lockservice.core import clock
from lockservice.core.tenancy import tenant
from sagas.housekeeping import tidy_tenant
from tests.flows.conftest import alerts, events, keys, make_hotel, pin_of, sagas
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

Settle = Callable[..., int]


def test_a_spent_month_lets_only_security_work_call_the_vendor(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, calls_per_month=1000)
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    pin = pin_of(hotel, keys(hotel)[0])
    with tenant(hotel.tenant_id):
        month = call_counts.month_of(clock.now())
        row = CallCount.objects.get(tenant_id=hotel.tenant_id, month=month)
        assert row.calls == 1
        CallCount.objects.filter(pk=row.pk).update(calls=1000)
    call_counts._kept.clear()
    late = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(late, 1, ["102"]))
    settle(hotel)
    (waiting,) = keys(hotel, late)
    assert (waiting.state, locks.calls(hotel.doors["102"])) == ("requested", [])
    assert alerts(hotel) == [("VENDOR_QUOTA_SPENT", "critical")]
    assert ("issue", "retry") in sagas(hotel)
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel)
    assert not locks.opens(hotel.doors["101"], pin)


def test_a_full_door_gives_the_next_kind_its_doors_can_carry(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, "capacity=1", shared={})
    for number in range(2):
        hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), number + 1, ["101"]))
        settle(hotel)
    first, second = keys(hotel)
    assert (first.kind, second.kind, second.state) == ("pin_code", "mobile_app", "active")
    assert [warning["code"] for warning in second.warnings] == ["STAYS_OVERLAP", "KIND_CHANGED"]
    assert events(hotel, second)[-1] == "credential.issued"


def test_spent_pins_rest_and_are_then_free_again(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.checked_out", hotel.booking(stay, 2, ["101"], status="checked_out"))
    settle(hotel)
    with tenant(hotel.tenant_id):
        slots = list(PinSlot.objects.filter(tenant_id=hotel.tenant_id))
        assert len(slots) == 2
        rest = slots[0].rests_until - clock.now()
        assert timedelta(days=29, hours=23) < rest <= timedelta(days=30)
        PinSlot.objects.filter(tenant_id=hotel.tenant_id).update(rests_until=clock.now() - timedelta(seconds=1))
    tidy_tenant(hotel.tenant_id)
    with tenant(hotel.tenant_id):
        assert not PinSlot.objects.filter(tenant_id=hotel.tenant_id).exists()


def test_after_the_stay_the_digits_and_the_guest_are_erased(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    tidy_tenant(hotel.tenant_id)
    with tenant(hotel.tenant_id):
        assert Artifact.objects.get(tenant_id=hotel.tenant_id).value_sealed is not None
    hotel.tell("booking.checked_out", hotel.booking(stay, 2, ["101"], status="checked_out"))
    settle(hotel)
    with tenant(hotel.tenant_id):
        Reservation.objects.filter(tenant_id=hotel.tenant_id).update(
            valid_from=clock.now() - timedelta(days=99), valid_until=clock.now() - timedelta(days=91)
        )
    tidy_tenant(hotel.tenant_id)
    with tenant(hotel.tenant_id):
        assert Artifact.objects.get(tenant_id=hotel.tenant_id).value_sealed is None
        row = Reservation.objects.get(tenant_id=hotel.tenant_id)
        assert (row.guest_sealed, row.guest_id) == (None, "")


def test_a_key_that_needs_the_desk_waits_for_it_and_goes_on_with_a_card(
    database: str, locks: MockLocks, settle: Settle
) -> None:
    from sagas import acts
    from vendors.port.secrets import CardNumber

    hotel = make_hotel(locks, policy={"kinds": ["rfid_card"]})
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, key.waiting_for, locks.calls(hotel.doors["101"])) == ("requested", "desk", [])
    acts.encode(hotel.tenant_id, key.id, acts.Actor("usr_clerk"), "e1", card_number=CardNumber("3661413478"))
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, key.waiting_for) == ("active", "")
    body = {"device": hotel.doors["101"], "kind": "rfid_card", "value": "3661413478", "dry": True}
    assert locks.ask("/try", body)["open"] is True


def test_phone_and_pin_keys_wait_for_papers_where_the_house_wants_it(database: str, locks: MockLocks, settle: Settle) -> None:
    from sagas import acts

    hotel = make_hotel(locks, policy={"require_id_verification": True})
    shown, unseen = new_id("rsv"), new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(shown, 1, ["101"], idVerified=True))
    hotel.tell("booking.confirmed", hotel.booking(unseen, 1, ["102"]))
    settle(hotel)
    assert [key.state for key in keys(hotel, shown)] == ["active"]
    (key,) = keys(hotel, unseen)
    assert (key.state, key.waiting_for) == ("requested", "id")
    acts.confirm_identity(hotel.tenant_id, key.id, acts.Actor("usr_clerk"), acts.new_act_id())
    settle(hotel)
    assert [key.state for key in keys(hotel, unseen)] == ["active"]


def test_the_vendor_is_called_only_so_long_before_arrival(database: str, locks: MockLocks, settle: Settle) -> None:
    from tests.flows.conftest import fire_timers

    hotel = make_hotel(locks, policy={"issue_lead_hours": 72})
    start = hotel.opened_at + timedelta(days=30)
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"], start=start))
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, sagas(hotel), locks.calls(hotel.doors["101"])) == ("requested", [("issue", "timer")], [])
    fire_timers(hotel)
    settle(hotel)
    assert [key.state for key in keys(hotel)] == ["active"]


def test_a_revoke_that_never_succeeds_ends_with_the_window(database: str, locks: MockLocks, settle: Settle) -> None:
    from django.db import connection

    hotel = make_hotel(locks, "fail=revoke&error=KEY_REVOKE_FAILED", shared={})
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel, now=True, rounds=9)
    (key,) = keys(hotel)
    assert (key.state, key.open_work) == ("revoked", True)  # far more than five calls: it is never given up inside the window
    assert len([call for call in locks.calls(hotel.doors["101"]) if call["verb"] == "revoke"]) >= 9
    with tenant(hotel.tenant_id), connection.cursor() as cursor:
        moved = "SET valid_from = now() - interval '3 days', valid_until = now() - interval '1 second'"
        cursor.execute(f"UPDATE credentials_keycredential {moved} WHERE id = %s", [key.id])
        cursor.execute(
            "UPDATE credentials_credentialdoor SET carried_until = now() - interval '1 second' WHERE credential_id = %s",
            [key.id],
        )
    settle(hotel, now=True)
    (key,) = keys(hotel)
    assert (key.open_work, key.propagation) == (False, "unknown")
    assert events(hotel, key)[-1] == "vendor.error"
    assert all(status == "done" for _, status in sagas(hotel))


def test_a_deactivated_property_gives_no_new_keys(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    hotel.tell("melmastoon.tenant.property.deactivated.v1", {"propertyId": hotel.property_id})
    assert hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"])) == "applied"
    settle(hotel)
    assert keys(hotel) == []


def test_a_deactivated_user_loses_her_keys_every_time(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    from datetime import UTC, datetime

    from sagas import acts
    from vendors.port.types import Window

    now = datetime.now(UTC)
    for number in range(2):
        window = Window(now - timedelta(hours=1), now + timedelta(days=1))
        command = acts.IssueCommand(
            hotel.property_id,
            (hotel.rooms["101"],),
            window,
            "usr_leaver",
            f"rsv_{number}",
            reason="test",
            may_issue_unbooked=True,
        )
        acts.issue(hotel.tenant_id, command, acts.Actor("usr_gm"), f"give-{number}")
        settle(hotel)
        assert keys(hotel)[number].state == "active"
        assert hotel.tell("melmastoon.iam.user.deactivated.v1", {"userId": "usr_leaver"}) == "applied"
        settle(hotel)
        settle(hotel)
        assert [key.state for key in keys(hotel)] == ["revoked"] * (number + 1)
