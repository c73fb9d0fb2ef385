"""What was on the doors before: guessed at, adopted, known or taken away by a person, never by a rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from credentials.models import PinSlot
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.acts import Refused
from sagas.reconcile_acts import Decision, adopt, know, remove, repair_now
from tests.flows.conftest import events, keys, make_hotel, pin_of
from tests.reconcile.conftest import Hands, book, found, look, settle
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id
from vendors.support.marks import mark_of, tag_of

GM = Decision(acts.Actor("usr_gm"), "asked the guest")
DIGITS = "904512"


def stay_window(hotel: Hotel) -> dict[str, str]:
    """The window a booking without further words has, as a key at the door carries it."""
    return {"from": hotel.opened_at.isoformat(), "until": (hotel.opened_at + timedelta(days=3)).isoformat()}


def rows_of(hotel: Hotel) -> int:
    with tenant(hotel.tenant_id):
        return len(keys(hotel)) + sum(len(events(hotel, key)) for key in keys(hotel))


def test_a_key_with_the_guests_name_and_window_is_guessed_to_be_hers(hotel: Hotel, hands: Hands) -> None:
    stay = book(hotel, "101")
    book(hotel, "102")
    hands.plant("101", DIGITS, name="زهرا احمدی 101", **stay_window(hotel))
    look(hotel)
    (row,) = found(hotel)
    best = row.guesses[0]
    assert (best["who"], best["reservationId"], best["confidence"]) == ("stay", stay, 95)
    assert best["why"] == [
        "its name at the vendor is the guest's",
        "begins and ends with the stay",
        "the stay's room is behind this door",
    ]
    assert "زهرا" not in str(row.guesses)


@pytest.mark.parametrize(
    ("key", "who", "least"),
    [
        ({"name": "Cleaner", "until": (datetime.now(UTC) + timedelta(days=400)).isoformat()}, "staff", 85),
        ({"until": (datetime.now(UTC) + timedelta(days=400)).isoformat()}, "staff", 55),
        ({"from": "2020-01-01T00:00:00+00:00", "until": "2020-01-03T00:00:00+00:00"}, "over", 95),
        ({"name": "x"}, "unknown", 0),
    ],
)
def test_staff_ended_and_unknown_keys_are_told_apart(
    hotel: Hotel, hands: Hands, key: dict[str, Any], who: str, least: int
) -> None:
    hands.plant("101", DIGITS, **key)
    look(hotel)
    (row,) = found(hotel)
    assert (row.guesses[0]["who"], row.guesses[0]["confidence"]) == (who, least)


def test_an_adopted_key_keeps_its_digits_and_leaves_with_the_stay(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    stay = book(hotel, "101")
    hands.plant("101", DIGITS, **stay_window(hotel))
    look(hotel)
    (row,) = found(hotel)
    act = adopt(hotel.tenant_id, row.pk, stay, GM)
    settle(hotel)
    (own, adopted) = keys(hotel, stay)
    assert (adopted.id, adopted.state, adopted.ordinal, adopted.open_work) == (act.credential_id, "active", 1, False)
    assert events(hotel, adopted) == ["credential.requested", "credential.pending", "credential.issued"]
    assert pin_of(hotel, adopted) == DIGITS
    assert locks.opens(hotel.doors["101"], DIGITS)
    report = look(hotel, repairs=True)
    assert (report.counts, report.repairs_count) == ({}, 0)
    hotel.tell("booking.checked_out", hotel.booking(stay, 2, ["101"], status="checked_out"))
    settle(hotel)
    assert locks.keys_at(hotel.doors["101"]) == []
    assert {key.state for key in keys(hotel, stay)} == {"revoked"}
    assert own.id != adopted.id
    (closed,) = found(hotel, "resolved")
    assert (closed.resolution, closed.decided_by, closed.decided_why) == ("adopted", "usr_gm", "asked the guest")
    assert (closed.ref_sealed, closed.pin_sealed, closed.label_sealed) == (None, None, None)
    with tenant(hotel.tenant_id):
        slots = PinSlot.objects.filter(tenant_id=hotel.tenant_id, credential_id=adopted.id)
        assert [slot.rests_until is not None for slot in slots] == [True]


def test_an_adopted_key_never_outlives_its_stay(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    stay = book(hotel, "101")
    hands.plant("101", DIGITS, until=(datetime.now(UTC) + timedelta(days=300)).isoformat())
    look(hotel)
    adopt(hotel.tenant_id, found(hotel)[0].pk, stay, GM)
    settle(hotel)
    (own, adopted) = keys(hotel, stay)
    assert adopted.valid_until == own.valid_until
    late = (own.valid_until + timedelta(hours=1)).isoformat()
    assert locks.opens(hotel.doors["101"], DIGITS)
    assert not locks.opens(hotel.doors["101"], DIGITS, at=late)
    assert look(hotel).counts == {}


def test_an_adopted_key_follows_the_stay_to_its_new_room_with_the_same_digits(
    hotel: Hotel, locks: MockLocks, hands: Hands
) -> None:
    stay = book(hotel, "101")
    hands.plant("101", DIGITS, **stay_window(hotel))
    look(hotel)
    adopt(hotel.tenant_id, found(hotel)[0].pk, stay, GM)
    hotel.tell("booking.dates_changed", hotel.booking(stay, 2, ["102"]))
    settle(hotel)
    assert locks.opens(hotel.doors["102"], DIGITS)
    assert locks.keys_at(hotel.doors["101"]) == []


def test_a_known_key_stays_and_is_not_told_again(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    hands.plant("101", DIGITS, name="Owner")
    look(hotel)
    (row,) = found(hotel)
    know(hotel.tenant_id, row.pk, Decision(acts.Actor("usr_gm"), "the owner's own code"))
    report = look(hotel, repairs=True)
    assert (report.counts, report.new_count) == ({}, 0)
    assert locks.opens(hotel.doors["101"], DIGITS)
    (known,) = found(hotel, "ignored")
    assert (known.pk, known.decided_by, known.decided_why) == (row.pk, "usr_gm", "the owner's own code")
    hands.drop("101")
    look(hotel)
    assert [item.resolution for item in found(hotel, "resolved")] == ["gone"]


def test_a_removal_takes_the_key_through_a_saga_and_says_who_asked(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    own = pin_of(hotel, keys(hotel)[0])
    hands.plant("101", DIGITS)
    look(hotel)
    act = remove(hotel.tenant_id, found(hotel)[0].pk, Decision(acts.Actor("usr_gm"), "former employee"))
    assert locks.opens(hotel.doors["101"], DIGITS)
    settle(hotel)
    assert not locks.opens(hotel.doors["101"], DIGITS)
    assert locks.opens(hotel.doors["101"], own)
    removed = next(key for key in keys(hotel) if key.id == act.credential_id)
    assert (removed.state, removed.open_work, removed.revoke_reason, removed.reservation_id) == (
        "failed",
        False,
        "security",
        None,
    )
    assert events(hotel, removed) == ["credential.requested", "credential.failed"]
    assert look(hotel, repairs=True).counts == {}
    (closed,) = found(hotel, "resolved")
    assert (closed.resolution, closed.decided_why, closed.credential_id) == ("removed", "former employee", removed.id)


def test_of_a_keys_two_copies_the_chosen_one_goes(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    (key,) = keys(hotel)
    hands.plant("101", "771204", mark=mark_of(key.issue_key), tag=tag_of(key.id))
    look(hotel)
    remove(hotel.tenant_id, found(hotel)[0].pk, GM)
    settle(hotel)
    assert not locks.opens(hotel.doors["101"], "771204")
    assert locks.opens(hotel.doors["101"], pin_of(hotel, key))
    assert look(hotel).counts == {}


def test_a_person_may_start_a_repair(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    book(hotel, "101")
    hands.drop("101")
    look(hotel)
    (row,) = found(hotel)
    repair_now(hotel.tenant_id, row.pk, GM)
    settle(hotel)
    assert locks.opens(hotel.doors["101"], pin_of(hotel, keys(hotel)[0]))
    with pytest.raises(Refused, match="TRANSITION_REFUSED"):
        repair_now(hotel.tenant_id, row.pk, GM)


def test_what_cannot_be_adopted_is_refused_without_a_trace(hotel: Hotel, locks: MockLocks, hands: Hands) -> None:
    here, elsewhere = book(hotel, "101"), book(hotel, "102")
    hands.plant("101", DIGITS)
    look(hotel)
    (row,) = found(hotel)
    before, calls = rows_of(hotel), len(locks.calls(*hotel.doors.values()))
    cases = [
        (row.pk, new_id("rsv"), GM, "NOT_FOUND"),
        (row.pk + 1_000_000, here, GM, "NOT_FOUND"),
        (row.pk, elsewhere, GM, "VALIDATION_FAILED"),
        (row.pk, here, Decision(GM.actor, "x"), "VALIDATION_FAILED"),
    ]
    for finding, stay, decision, code in cases:
        with pytest.raises(Refused) as refused:
            adopt(hotel.tenant_id, finding, stay, decision)
        assert refused.value.code == code
    hotel.tell("booking.cancelled", hotel.booking(elsewhere, 2, ["101"], status="cancelled"))
    with pytest.raises(Refused, match="not confirmed"):
        adopt(hotel.tenant_id, row.pk, elsewhere, GM)
    know(hotel.tenant_id, row.pk, GM)
    adopted = adopt(hotel.tenant_id, row.pk, here, GM)
    with pytest.raises(Refused, match="closed"):
        adopt(hotel.tenant_id, row.pk, here, GM)
    with pytest.raises(Refused, match="closed"):
        remove(hotel.tenant_id, row.pk, GM)
    assert len(locks.calls(*hotel.doors.values())) == calls
    assert len(keys(hotel, here)) == 2
    assert adopted.credential_id in {key.id for key in keys(hotel, here)}
    assert before > 0


def test_a_key_of_ours_is_not_adopted(hotel: Hotel, hands: Hands) -> None:
    stay = book(hotel, "101")
    hands.alter("101", suspended=True)
    look(hotel)
    (row,) = found(hotel)
    for act in (
        lambda: adopt(hotel.tenant_id, row.pk, stay, GM),
        lambda: remove(hotel.tenant_id, row.pk, GM),
        lambda: know(hotel.tenant_id, row.pk, GM),
    ):
        with pytest.raises(Refused, match="our books know this key"):
            act()
    assert [finding.pk for finding in found(hotel)] == [row.pk]
    assert len(keys(hotel)) == 1


def test_another_tenants_finding_is_not_there(hotel: Hotel, hands: Hands, locks: MockLocks) -> None:
    hands.plant("101", DIGITS)
    look(hotel)
    other = make_hotel(locks, shared={})
    with pytest.raises(Refused, match="NOT_FOUND"):
        know(other.tenant_id, found(hotel)[0].pk, GM)
