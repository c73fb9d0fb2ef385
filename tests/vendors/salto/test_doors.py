"""Who gets in, and when: stand-alone doors that learn only from cards, asked after every act of a stay.

Each test tells what the adapter said in between, because a hotel acts on that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.vendors.salto.hotel import CARD, NOON, PHONE, H, Hotel, meta
from tests.vendors.site import request_for
from vendors.port.errors import KeyIssueFailed
from vendors.port.types import Intent, Outcome, Propagation, RevokeReason, SuspendReason, UpdateInput, Window

CONFIRMED, PROPAGATING = Propagation.CONFIRMED, Propagation.PROPAGATING


@pytest.fixture(params=["cloud", "pms"])
def either(request: pytest.FixtureRequest, new_hotel: Callable[..., Hotel]) -> Hotel:
    """What the doors do is the same whichever way the key came."""
    return new_hotel(transport=request.param)


# --- new guest, companion


def test_the_last_guest_gets_in_until_the_next_guest_has_used_the_door(either: Hotel) -> None:
    door = either.doors[0]
    first = either.key()
    assert first.opens(door)
    second = either.key()
    assert first.opens(door), "the door has not met the new key yet"
    assert second.opens(door)
    assert either.shown(door, first.value) == (False, "superseded")
    assert second.opens(door)


def test_the_cloud_tells_until_when_the_last_guest_gets_in(hotel: Hotel) -> None:
    hotel.key()
    second = hotel.key()
    (warning,) = second.result.warnings
    assert warning.code == "OLD_KEY_UNTIL_FIRST_USE"
    assert (NOON + 72 * H).isoformat() in warning.detail
    assert second.result.doors[0].propagation is CONFIRMED


def test_a_companions_card_joins_the_stay_and_locks_nobody_out(either: Hotel) -> None:
    guest = either.key()
    companion = either.key(Intent.ADDITIONAL)
    for key in (guest, companion, guest, companion):
        assert key.opens(either.doors[0])
    assert either.generation(either.doors[0]) == 1
    assert companion.result.also_killed == ()


def test_a_companions_card_before_the_first_card_is_refused_and_may_be_tried_again(either: Hotel) -> None:
    request = request_for(either, CARD, either.doors[:1], intent=Intent.ADDITIONAL, window=Window(NOON, NOON + H))
    with pytest.raises(KeyIssueFailed) as caught:
        either.port.issue_credential(request)
    assert caught.value.retriable
    assert either.generation(either.doors[0]) == 0


def test_two_companions_and_the_guest_are_all_killed_by_a_wrong_new(either: Hotel) -> None:
    """Why intent matters: a second NEW for the same party."""
    guest, companion = either.key(), either.key(Intent.ADDITIONAL)
    wrong = either.key(Intent.NEW)
    assert wrong.opens(either.doors[0])
    assert [key.opens(either.doors[0]) for key in (guest, companion)] == [False, False]


# --- lost card


def test_a_lost_card_over_the_cloud_dies_alone_and_the_companion_stays(hotel: Hotel) -> None:
    door = hotel.doors[0]
    lost, companion = hotel.key(), hotel.key(Intent.ADDITIONAL)
    fresh = hotel.key(Intent.REPLACEMENT, replaces=lost.handle())
    assert fresh.result.also_killed == ()
    told = hotel.port.revoke_credential(lost.handle(), RevokeReason.LOST, meta()).doors[0]
    assert (told.outcome, told.propagation, told.effective_not_after) == (Outcome.DONE, PROPAGATING, NOON + 72 * H)
    assert lost.opens(door), "nobody has told the door yet, and the adapter said so"
    assert fresh.opens(door), "made before the deny list grew, so it brings no news"
    assert companion.opens(door)
    assert fresh.opens(hotel.street) is False, "the street was not asked for"
    assert fresh.opens(door), "now the card brings the deny list from the street door"
    assert hotel.shown(door, lost.value) == (False, "revoked")
    assert companion.opens(door)
    assert fresh.opens(door)


def test_a_lost_card_is_dead_at_an_on_line_door_at_once(hotel: Hotel) -> None:
    lost = hotel.key(doors=(hotel.doors[0], hotel.street))
    assert lost.opens(hotel.street)
    result = hotel.port.revoke_credential(lost.handle(), RevokeReason.LOST, meta())
    told = {r.device_id: (r.propagation, r.effective_not_after) for r in result.doors}
    assert told == {
        hotel.doors[0].device_id: (PROPAGATING, NOON + 72 * H),
        "lck_street": (CONFIRMED, None),
    }
    assert hotel.shown(hotel.street, lost.value) == (False, "revoked")
    # The street door gave the lost card the deny list that names it; the card carries its own end to the room.
    assert hotel.shown(hotel.doors[0], lost.value) == (False, "revoked")


def test_an_on_line_door_that_is_cut_off_knows_what_it_was_told_until_then(hotel: Hotel) -> None:
    lost, kept = (
        hotel.key(doors=(hotel.doors[0], hotel.street)),
        hotel.key(Intent.ADDITIONAL, doors=(hotel.doors[0], hotel.street)),
    )
    hotel.port.revoke_credential(lost.handle(), RevokeReason.LOST, meta())
    hotel.simulator.post("/door", {"property": hotel.property, "device": hotel.street.external_id, "dead": True})
    hotel.port.revoke_credential(kept.handle(), RevokeReason.LOST, meta())
    assert hotel.shown(hotel.street, lost.value) == (False, "revoked")
    assert kept.opens(hotel.street)


def test_a_lost_card_over_the_pms_protocol_takes_the_companions_with_it_and_says_so(pms: Hotel) -> None:
    door = pms.doors[0]
    lost, companion = pms.key(), pms.key(Intent.ADDITIONAL)
    fresh = pms.key(Intent.REPLACEMENT, replaces=lost.handle())
    assert [warning.code for warning in fresh.result.warnings] == ["COMPANIONS_NEED_NEW_CARDS"]
    told = pms.port.revoke_credential(lost.handle(), RevokeReason.LOST, meta()).doors[0]
    assert (told.propagation, told.effective_not_after) == (PROPAGATING, NOON + 72 * H)
    assert lost.opens(door)
    assert fresh.opens(door)
    assert [lost.opens(door), companion.opens(door)] == [False, False]


def test_where_cards_cannot_be_cancelled_a_replacement_names_whom_it_kills(new_hotel: Callable[..., Hotel]) -> None:
    hotel = new_hotel(cancellable_keys=False)
    lost, companion = hotel.key(), hotel.key(Intent.ADDITIONAL)
    fresh = hotel.key(Intent.REPLACEMENT, replaces=lost.handle())
    assert fresh.result.also_killed == (companion.request.credential_id,)
    assert fresh.opens(hotel.doors[0])
    assert companion.opens(hotel.doors[0]) is False


def test_the_staff_card_that_cancels_a_guest_ends_the_stay_at_that_door_at_once(either: Hotel) -> None:
    guest = either.key()
    assert guest.opens(either.doors[0])
    either.simulator.post("/door", {"property": either.property, "device": either.doors[0].external_id, "cancelGuest": True})
    assert either.shown(either.doors[0], guest.value) == (False, "revoked")
    assert either.key().opens(either.doors[0])


def test_once_the_server_has_heard_that_the_next_guest_used_the_door_the_last_key_is_confirmed_dead(hotel: Hotel) -> None:
    first = hotel.key()
    second = hotel.key(doors=(hotel.doors[0], hotel.street))
    second.opens(hotel.doors[0])
    told = hotel.port.revoke_credential(first.handle(), RevokeReason.LOST, meta()).doors[0]
    assert (told.propagation, told.effective_not_after) == (PROPAGATING, NOON + 72 * H)
    second.opens(hotel.street)
    told = hotel.port.revoke_credential(first.handle(), RevokeReason.LOST, meta()).doors[0]
    assert (told.propagation, told.effective_not_after) == (CONFIRMED, None)
    assert first.opens(hotel.doors[0]) is False


# --- room move


def test_a_room_move_is_told_as_propagating_until_the_card_has_passed_an_updater(hotel: Hotel) -> None:
    old, new, _ = hotel.doors
    guest = hotel.key(doors=(old, hotel.street))
    handle = guest.handle()
    moved = hotel.port.update_credential(
        UpdateInput(replace(handle, doors=handle.doors[1:]), meta(), added=(new,), removed=handle.doors[:1])
    )
    told = {r.device_id: (r.propagation, r.effective_not_after) for r in moved.doors}
    assert told[old.device_id] == (PROPAGATING, NOON + 72 * H)
    assert told[new.device_id] == (PROPAGATING, None)
    assert [warning.code for warning in moved.warnings] == ["CARD_MUST_BE_UPDATED"]
    assert "carries version 1, should carry 2" in moved.warnings[0].detail
    assert [guest.opens(door) for door in (old, new)] == [True, False]
    assert guest.opens(hotel.street), "the street door updates the card"
    assert [guest.opens(door) for door in (old, new)] == [False, True]
    again = hotel.port.update_credential(
        UpdateInput(replace(handle, doors=handle.doors[1:]), meta(), added=(new,), removed=handle.doors[:1])
    )
    assert {r.propagation for r in again.doors} == {CONFIRMED}
    assert again.warnings == ()


def test_a_room_move_over_the_pms_protocol_ends_the_old_room_only_with_the_card(pms: Hotel) -> None:
    old, new, _ = pms.doors
    guest = pms.key()
    moved = pms.port.update_credential(UpdateInput(guest.handle(doors=()), meta(), added=(new,), removed=guest.handle().doors))
    told = {r.device_id: (r.outcome, r.propagation, r.effective_not_after) for r in moved.doors}
    assert told == {
        old.device_id: (Outcome.DONE, PROPAGATING, NOON + 72 * H),
        new.device_id: (Outcome.DONE, PROPAGATING, None),
    }
    assert [warning.code for warning in moved.warnings] == ["CARD_MUST_BE_UPDATED"]
    assert [guest.opens(door) for door in (old, new)] == [True, False]
    assert pms.shown(pms.street, guest.value)[0] is False
    assert [guest.opens(door) for door in (old, new)] == [False, True]
    next_guest = pms.key()
    assert next_guest.opens(old)


def test_a_companions_move_follows_the_stay(pms: Hotel) -> None:
    _, new, _ = pms.doors
    guest, companion = pms.key(), pms.key(Intent.ADDITIONAL)
    for key in (guest, companion):
        result = pms.port.update_credential(UpdateInput(key.handle(doors=()), meta(), added=(new,), removed=key.handle().doors))
        assert {door.outcome for door in result.doors} == {Outcome.DONE}
    for key in (guest, companion):
        pms.shown(pms.street, key.value)
    assert [key.opens(new) for key in (guest, companion, guest)] == [True, True, True]


# --- early checkout, shorter and longer stays


def test_after_an_early_checkout_the_card_opens_until_its_expiry_or_the_next_guest_and_the_bound_says_so(either: Hotel) -> None:
    door = either.doors[0]
    guest = either.key()
    told = either.port.revoke_credential(guest.handle(), RevokeReason.CHECKOUT, meta()).doors[0]
    assert (told.outcome, told.propagation, told.effective_not_after) == (Outcome.DONE, PROPAGATING, NOON + 72 * H)
    assert told.ref is None
    assert guest.opens(door)
    either.at(NOON + 72 * H - timedelta(minutes=1))
    assert guest.opens(door)
    either.at(NOON + 72 * H)
    assert either.shown(door, guest.value) == (False, "expired")
    late = either.port.revoke_credential(guest.handle(), RevokeReason.CHECKOUT, meta(2)).doors[0]
    assert (late.propagation, late.effective_not_after) == (CONFIRMED, None)


def test_after_an_early_checkout_the_next_guest_shuts_the_last_one_out(either: Hotel) -> None:
    door = either.doors[0]
    guest = either.key()
    either.port.revoke_credential(guest.handle(), RevokeReason.CHECKOUT, meta())
    following = either.key()
    assert following.opens(door)
    assert either.shown(door, guest.value) == (False, "superseded")


def test_the_bound_is_the_end_on_the_card_not_the_one_in_the_record(either: Hotel) -> None:
    """The stay is shortened, then the key revoked: the card still carries the first end."""
    door = either.doors[0]
    guest = either.key()
    shorter = guest.handle(window=Window(NOON - H, NOON + 24 * H))
    changed = either.port.update_credential(UpdateInput(shorter, meta()))
    told = changed.doors[0]
    assert (told.outcome, told.propagation, told.effective_not_after) == (Outcome.DONE, PROPAGATING, NOON + 72 * H)
    refs = {r.device_id: r.ref for r in changed.doors}
    known = replace(shorter, doors=tuple(replace(d, ref=refs[d.device_id]) for d in shorter.doors))
    told = either.port.revoke_credential(known, RevokeReason.CANCELLATION, meta()).doors[0]
    assert (told.propagation, told.effective_not_after) == (PROPAGATING, NOON + 72 * H)
    either.at(NOON + 48 * H)
    assert guest.opens(door), "as announced"


def test_a_longer_stay_reaches_the_card_at_an_updater(hotel: Hotel) -> None:
    guest = hotel.key(doors=(hotel.doors[0], hotel.street))
    longer = guest.handle(window=Window(NOON - H, NOON + 96 * H))
    changed = hotel.port.update_credential(UpdateInput(longer, meta()))
    told = {r.device_id: (r.propagation, r.effective_not_after) for r in changed.doors}
    assert told == {hotel.doors[0].device_id: (PROPAGATING, None), "lck_street": (CONFIRMED, None)}
    hotel.at(NOON + 80 * H)
    assert guest.opens(hotel.doors[0]) is False
    assert guest.opens(hotel.street)
    assert guest.opens(hotel.doors[0])


# --- suspension, phones, areas, limits


def test_a_suspended_card_goes_on_opening_a_stand_alone_door_and_the_warning_says_so(either: Hotel) -> None:
    guest = either.key()
    rested = either.port.suspend_credential(guest.handle(), SuspendReason.NO_SHOW, meta())
    assert [warning.code for warning in rested.warnings] == ["SUSPEND_NOT_EFFECTIVE_OFFLINE"]
    (told,) = rested.doors
    assert (told.outcome, told.propagation, told.effective_not_after) == (Outcome.DONE, PROPAGATING, NOON + 72 * H)
    assert guest.opens(either.doors[0])


def test_a_phone_in_reach_follows_at_once_and_one_out_of_reach_when_it_is_back(hotel: Hotel) -> None:
    door = hotel.doors[0]
    guest = hotel.key(kind=PHONE)
    assert hotel.shown(door, guest.value, PHONE)[0]
    hotel.simulator.post("/phone", {"property": hotel.property, "phone": guest.value, "connected": False})
    told = hotel.port.revoke_credential(guest.handle(), RevokeReason.SECURITY, meta()).doors[0]
    assert (told.propagation, told.effective_not_after) == (PROPAGATING, NOON + 72 * H)
    assert hotel.shown(door, guest.value, PHONE)[0]
    other = hotel.key(kind=PHONE)
    told = hotel.port.revoke_credential(other.handle(), RevokeReason.SECURITY, meta()).doors[0]
    assert (told.propagation, told.effective_not_after) == (CONFIRMED, None)


def test_an_area_is_an_authorisation_on_the_same_card(either: Hotel) -> None:
    plain = either.key()
    guest = either.key(doors=(either.doors[0], either.gym))
    assert [guest.opens(door) for door in (either.doors[0], either.gym)] == [True, True]
    assert either.shown(either.gym, plain.value) == (False, "not_permitted")


def test_an_area_is_given_and_taken_like_a_room(hotel: Hotel) -> None:
    guest = hotel.key(doors=(hotel.doors[0], hotel.street))
    added = hotel.port.update_credential(UpdateInput(guest.handle(), meta(), added=(hotel.gym,)))
    assert {r.device_id: r.propagation for r in added.doors}["lck_gym"] is PROPAGATING
    assert guest.opens(hotel.gym) is False
    guest.opens(hotel.street)
    assert guest.opens(hotel.gym)
    taken = hotel.port.update_credential(UpdateInput(guest.handle(), meta(), removed=(hotel.gym,)))
    told = {r.device_id: (r.propagation, r.effective_not_after) for r in taken.doors}["lck_gym"]
    assert told == (PROPAGATING, NOON + 72 * H)
    assert guest.opens(hotel.gym), "as announced"
    guest.opens(hotel.street)
    assert hotel.shown(hotel.gym, guest.value) == (False, "not_permitted")


def test_a_card_carries_four_rooms_and_a_fifth_is_refused_without_a_call(new_hotel: Callable[..., Hotel]) -> None:
    hotel = new_hotel()
    rooms = tuple(replace(hotel.doors[0], device_id=f"lck_{n}", external_id=f"{n}") for n in range(5))
    before = hotel.request_count()
    with pytest.raises(KeyIssueFailed) as caught:
        hotel.port.issue_credential(request_for(hotel, CARD, rooms))
    assert not caught.value.retriable
    assert hotel.request_count() == before


def test_when_the_pool_of_cancellable_keys_is_used_up_no_key_is_made_and_a_person_must_act(hotel: Hotel) -> None:
    hotel.simulator.post("/seed", {"property": hotel.property, "denylistCapacity": 1})
    hotel.key()
    with pytest.raises(KeyIssueFailed) as caught:
        hotel.key(Intent.ADDITIONAL)
    assert (caught.value.retriable, caught.value.reason) == (False, "settings")
    hotel.extra["cancellable_keys"] = False
    hotel.refresh()
    with pytest.raises(KeyIssueFailed):
        hotel.key(Intent.ADDITIONAL)
    assert len(hotel.dump()["keys"]) == 1


def test_when_the_deny_list_is_full_a_key_is_taken_off_the_list_with_a_warning_and_the_true_bound(hotel: Hotel) -> None:
    guest = hotel.key()
    hotel.simulator.post("/seed", {"property": hotel.property, "denylistCapacity": 0})
    result = hotel.port.revoke_credential(guest.handle(), RevokeReason.LOST, meta())
    assert [warning.code for warning in result.warnings] == ["DENYLIST_FULL"]
    assert result.doors[0].effective_not_after == NOON + 72 * H
    guest.opens(hotel.street)
    assert guest.opens(hotel.doors[0])


def test_a_doors_clock_decides_not_ours(either: Hotel) -> None:
    door = either.doors[0]
    guest = either.key(window=Window(NOON - H, NOON + 2 * H))
    either.simulator.post("/door", {"property": either.property, "device": door.external_id, "clockSkewS": 3600})
    either.at(NOON + timedelta(minutes=59))
    assert guest.opens(door)
    either.at(NOON + timedelta(minutes=60))
    assert either.shown(door, guest.value) == (False, "expired")
