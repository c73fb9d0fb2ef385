"""Who gets in, and when, after a lost card, a room move, a companion's card and an early checkout; and what the API says meanwhile.

The locks are stand-alone: they know what the cards shown to them carry, and their own clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from credentials.models import CredentialDoor, KeyCredential
from lockservice.core import wake
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.models import Saga, SagaStep
from tests.doors.conftest import CLERK, House, Salto, SaltoPms, Visionline
from vendors.port.ids import new_id
from vendors.port.types import RevokeReason

Build = Callable[[type[House]], House]
A_MINUTE = timedelta(minutes=1)
PATIENCE_S = 90.0
"""Ends a wait for what must come. What is right does not depend on how soon it comes."""


@pytest.mark.parametrize("kind", [Salto, SaltoPms, Visionline])
def test_a_card_whose_doors_come_due_at_different_times_is_written_once_and_for_all_of_them(
    build: Build, kind: type[House]
) -> None:
    house = build(kind)
    stay = new_id("rsv")
    house.tell("booking.confirmed", stay, 1, ["101", "102"])
    (key,) = house.keys(stay)
    with tenant(house.hotel.tenant_id):  # as after a lost answer: each door has a jitter of its own
        rows = CredentialDoor.objects.filter(tenant_id=house.hotel.tenant_id, credential_id=key.id)
        rows.filter(device_id=house.hotel.devices["101"]).update(due_at=datetime.now(UTC) + timedelta(seconds=2))
    card = house.encode(key)
    ends = time.monotonic() + PATIENCE_S
    house.lay(card)
    while house.key(key.id).state != "active" and time.monotonic() < ends:
        time.sleep(0.2)
        house.work()
    assert house.opens(card) == ["101", "102"]
    with tenant(house.hotel.tenant_id):
        steps = SagaStep.objects.filter(tenant_id=house.hotel.tenant_id, credential_id=key.id)
        assert [(step.verb, len(step.doors)) for step in steps] == [("issue", 2)]


def _use_up_the_limit(house: House, seconds: float) -> None:
    """Leaves the installation's shared limit as other work leaves it: in debt for some seconds."""
    link, facts = wake.client(), house.hotel.installation_id
    now, parts = link.time()
    debt = -(24.0 * seconds)
    link.hset(f"limit:{{{facts}}}", mapping={"tokens": str(debt), "at": str(now + parts / 1_000_000)})


def _moved(build: Build) -> tuple[House, KeyCredential, str]:
    """A guest of Visionline who moved to 102, and whose card does not know yet."""
    house = build(Visionline)
    stay, card = house.check_in()
    house.tell("booking.dates_changed", stay, 2, ["102"])
    (key,) = house.keys(stay)
    return house, key, card


def test_a_card_on_the_encoder_is_written_though_our_own_limit_is_used_up_for_a_moment(build: Build) -> None:
    house, key, card = _moved(build)
    _use_up_the_limit(house, 0.6)
    house.encode(key, card)
    assert house.opens(card) == ["102"]
    body = house.told(key)
    assert (body["state"], body["card"]["mustBeUpdated"]) == ("active", False)


def test_a_person_at_the_encoder_is_told_when_the_limit_is_used_up_for_longer(build: Build) -> None:
    house, key, card = _moved(build)
    _use_up_the_limit(house, 60)
    house.encode(key, card)
    assert house.opens(card) == ["101"]
    with tenant(house.hotel.tenant_id):
        last = Saga.objects.filter(tenant_id=house.hotel.tenant_id, credential_id=key.id).order_by("position").last()
    assert last is not None
    assert (last.status, last.error_code, last.args) == ("dead", "MELMASTOON.LOCK.VENDOR_UNREACHABLE", {})
    _use_up_the_limit(house, 0)
    house.encode(key, card)
    assert house.opens(card) == ["102"]


# --- the first card and the companion's


def test_a_card_opens_its_room_within_its_window_and_no_other(house: House) -> None:
    stay, card = house.check_in()
    (key,) = house.keys(stay)
    assert house.opens(card) == ["101"]
    assert house.tries(card, "101", at=house.until(key) - A_MINUTE)
    assert not house.tries(card, "101", at=house.until(key) + A_MINUTE)
    body = house.told(key)
    assert (body["propagation"], body["doorsConfirmed"], body["card"]["mustBeUpdated"]) == ("confirmed", "1 of 1", False)


def test_a_companions_card_joins_and_shuts_nobody_out_and_leaves_alone(house: House) -> None:
    stay, card = house.check_in()
    second = house.companion(stay)
    joined = house.encode(second)
    for shown in (card, joined, card, joined):
        assert house.tries(shown, "101")
    acts.revoke(house.hotel.tenant_id, second.id, RevokeReason.CHECKOUT, CLERK, "companion-leaves")
    house.work()
    assert house.key(second.id).state == "revoked"
    assert house.bound(second) == ("propagating", house.bound(second)[1])
    until = house.bound(second)[1]
    assert until is not None
    assert house.tries(card, "101")
    assert not house.tries(joined, "101", at=until + A_MINUTE)


def test_the_last_guests_card_opens_until_the_next_guests_is_used(house: House) -> None:
    stay, before = house.check_in()
    assert house.tries(before, "101")
    house.tell("booking.early_checkout", stay, 2, ["101"], status="checked_out")
    _, after = house.check_in()
    assert house.tries(before, "101")
    assert house.tries(after, "101")
    assert not house.tries(before, "101")


# --- a lost card


def test_a_lost_card_opens_as_long_as_the_api_says_and_dies_when_its_successor_is_used(house: House) -> None:
    stay, lost = house.check_in()
    (key,) = house.keys(stay)
    assert house.tries(lost, "101")
    successor = house.lose(key)
    word, until = house.bound(key)
    assert (house.key(key.id).state, word, until) == ("revoked", "propagating", house.until(key))
    assert house.tries(lost, "101")  # the finder gets in, and the API says that it may be so, and until when
    assert not house.tries(lost, "101", at=until + A_MINUTE)
    card = house.encode(successor)
    if isinstance(house, Salto) and not isinstance(house, SaltoPms):
        house.street(card)  # the deny list travels on the new card
    assert house.tries(card, "101")
    assert not house.tries(lost, "101")
    assert house.told(successor)["state"] == "active"
    (_, issued) = next(row for row in house.events(successor) if row[0] == "issued")
    assert issued["warnings"] == house.told(successor)["warnings"]


def test_companions_whose_cards_die_with_the_lost_one_are_issued_again(house: House) -> None:
    stay, lost = house.check_in()
    (key,) = house.keys(stay)
    companion = house.companion(stay)
    old = house.encode(companion)
    assert house.tries(old, "101")
    card = house.encode(house.lose(key))
    assert house.tries(card, "101")
    if not house.names_companions:
        assert house.tries(old, "101")  # the lost card is denied by name: the companion stays in
        assert house.key(companion.id).state == "active"
        return
    assert not house.tries(old, "101")
    ended = house.key(companion.id)
    again = house.key(str(ended.replaced_by))
    assert (ended.state, ended.revoke_reason) == ("revoked", "replaced")
    (_, revoked) = house.events(ended)[-1]
    assert (revoked["reason"], revoked["metadata"]["trigger"]) == ("replaced", "also_killed")
    assert (again.state, again.waiting_for, again.intent) == ("requested", "desk", "additional")
    assert [w["code"] for w in house.told(again)["warnings"]] == ["CARD_KILLED"]
    (subject, requested) = house.events(again)[0]
    assert (subject, requested["waitingFor"], requested["replaces"]) == ("requested", "desk", ended.id)
    fresh = house.encode(again)
    for shown in (fresh, card, fresh):
        assert house.tries(shown, "101")
    assert not house.tries(old, "101")
    assert not house.tries(lost, "101")
    live = [k for k in house.keys(stay) if k.state == "active"]
    assert len(live) == 2


def _capacity(house: House, count: int) -> None:
    """How many keys the vendor's deny list holds."""
    house.simulator.post("/seed", {"property": f"hotel-{house.tail}", "denylistCapacity": count})


def _issued_again(house: House, companion: KeyCredential) -> KeyCredential:
    """The key that a companion gets for hers, which waits at the desk."""
    ended = house.key(companion.id)
    assert (ended.state, ended.revoke_reason) == ("revoked", "replaced")
    again = house.key(str(ended.replaced_by))
    assert (again.state, again.waiting_for, again.intent) == ("requested", "desk", "additional")
    return again


def test_a_lost_card_that_a_full_deny_list_did_not_take_dies_when_its_successor_is_used(build: Build) -> None:
    house = build(Salto)
    stay, lost = house.check_in()
    (key,) = house.keys(stay)
    companion = house.companion(stay)
    old = house.encode(companion)
    assert house.tries(old, "101")
    _capacity(house, 0)
    successor = house.lose(key)
    assert [warning["code"] for warning in house.told(key)["warnings"]] == ["DENYLIST_FULL"]
    assert house.bound(key) == ("propagating", house.until(key))
    _capacity(house, 100)  # places were recovered; the lost key is not among those that are denied
    card = house.encode(successor)
    assert house.tries(lost, "101")  # as the API says
    assert house.tries(card, "101")
    assert not house.tries(lost, "101")
    fresh = house.encode(_issued_again(house, companion))
    assert [house.tries(shown, "101") for shown in (card, fresh, lost, old)] == [True, True, False, False]


class NotCancellable(Salto):
    """A house whose keys take no place in the pool of cancellable ones."""

    settings = {"cancellable_keys": False}


def test_a_successors_card_that_is_laid_down_late_has_the_companions_issued_again_too(build: Build) -> None:
    house = build(NotCancellable)
    house.simulator.post("/seed", {"property": f"hotel-{house.tail}", "encoderTimeoutS": 60})
    stay, lost = house.check_in()
    (key,) = house.keys(stay)
    companion = house.companion(stay)
    old = house.encode(companion)
    assert house.tries(old, "101")
    successor = house.lose(key)
    acts.encode(house.hotel.tenant_id, successor.id, CLERK, "late")
    house.work()
    assert house.key(successor.id).state == "pending"
    assert house.key(companion.id).state == "active"
    card, ends = "770011", time.monotonic() + PATIENCE_S
    house.lay(card)
    while [house.key(key_id).state for key_id in (successor.id, companion.id)] != [
        "active",
        "revoked",
    ] and time.monotonic() < ends:
        time.sleep(0.2)
        house.work()
    house.lay(None)
    assert [house.tries(shown, "101") for shown in (card, lost, old)] == [True, False, False]
    fresh = house.encode(_issued_again(house, companion))
    assert [house.tries(shown, "101") for shown in (card, fresh)] == [True, True]


# --- a room move


def test_after_a_move_the_card_opens_the_old_room_until_the_desk_writes_it_and_the_api_says_so(house: House) -> None:
    stay, card = house.check_in()
    assert house.opens(card) == ["101"]
    house.tell("booking.dates_changed", stay, 2, ["102"])
    (key,) = house.keys(stay)
    body = house.told(key)
    assert (body["state"], body["card"]["mustBeUpdated"], "encode" in body["allowedActions"]) == ("active", True, True)
    assert body["card"]["carried"] < body["card"]["desired"]
    assert house.opens(card) == ["101"]  # in the guest's pocket nothing has changed
    assert house.bound(key) == ("propagating", house.until(key))
    told = house.doors_told(key)
    assert told["101"] == ("absent", "propagating")  # taken in our books; the lock still acts on the card
    assert told["102"][0] == "present"
    (_, updated) = house.events(key)[-1]
    assert list(updated["changes"]) == ["rooms"]
    assert "CARD_MUST_BE_UPDATED" in [w["code"] for w in updated["warnings"]]
    house.encode(key, card)
    assert house.opens(card) == ["102"]
    body = house.told(key)
    assert (body["card"]["mustBeUpdated"], body["propagation"], body["doorsConfirmed"]) == (False, "confirmed", "1 of 1")
    assert body["card"]["carried"] == body["card"]["desired"]
    assert "encode" not in body["allowedActions"]
    (_, written) = house.events(key)[-1]
    assert list(written["changes"]) == ["cardVersion"]
    assert len(house.keys(stay)) == 1


def test_the_next_guest_of_the_room_that_was_left_ends_the_old_card_there(house: House) -> None:
    stay, card = house.check_in()
    assert house.tries(card, "101")
    house.tell("booking.dates_changed", stay, 2, ["102"])
    _, after = house.check_in("101")
    assert house.tries(after, "101")
    assert not house.tries(card, "101")
    house.encode(house.keys(stay)[0], card)
    assert house.opens(card) == ["102"]
    assert house.opens(after) == ["101"]


def test_a_guest_and_her_companion_both_move_and_neither_shuts_the_other_out(house: House) -> None:
    stay, card = house.check_in()
    joined = house.encode(house.companion(stay))
    assert [house.opens(shown) for shown in (card, joined)] == [["101"], ["101"]]
    house.tell("booking.dates_changed", stay, 2, ["102"])
    first, second = house.keys(stay)
    assert [house.told(key)["card"]["mustBeUpdated"] for key in (first, second)] == [True, True]
    house.encode(first, card)
    house.encode(second, joined)
    for shown in (card, joined, card):
        assert house.opens(shown) == ["102"]
    assert [house.told(key)["card"]["mustBeUpdated"] for key in (first, second)] == [False, False]


@pytest.mark.parametrize("kind", [Salto, Visionline], ids=["salto", "visionline"])
def test_no_card_on_the_encoder_changes_nothing_and_is_told(kind: type[House], build: Build) -> None:
    house = build(kind)
    stay, card = house.check_in()
    house.tell("booking.dates_changed", stay, 2, ["102"])
    (key,) = house.keys(stay)
    house.lay(None)
    act = acts.encode(house.hotel.tenant_id, key.id, CLERK, "nobody-lays-a-card")
    house.work()
    with tenant(house.hotel.tenant_id):
        saga = Saga.objects.get(tenant_id=house.hotel.tenant_id, id=act.saga_id)
    assert (saga.status, bool(saga.error_code)) == ("dead", True)
    assert house.told(key)["card"]["mustBeUpdated"] is True
    assert house.opens(card) == ["101"]
    house.encode(key, card)  # and asked again it is done
    assert house.opens(card) == ["102"]


# --- the window


def test_a_longer_stay_is_on_the_card_once_the_desk_has_written_it(house: House) -> None:
    stay, card = house.check_in()
    (key,) = house.keys(stay)
    first_end = house.until(key)
    assert house.tries(card, "101")
    house.tell("booking.dates_changed", stay, 2, ["101"], end=house.end + timedelta(days=2))
    (key,) = house.keys(stay)
    assert house.told(key)["card"]["mustBeUpdated"] is True
    assert not house.tries(card, "101", at=first_end + A_MINUTE)
    house.encode(key, card)
    assert house.told(key)["card"]["mustBeUpdated"] is False
    assert house.tries(card, "101", at=first_end + A_MINUTE)
    assert house.tries(card, "101", at=house.until(key) - A_MINUTE)
    assert not house.tries(card, "101", at=house.until(key) + A_MINUTE)


def test_a_shorter_stay_opens_until_the_end_written_on_the_card_and_the_api_names_it(house: House) -> None:
    stay, card = house.check_in()
    (key,) = house.keys(stay)
    written = house.until(key)
    house.tell("booking.dates_changed", stay, 2, ["101"], end=house.end - timedelta(days=1))
    (key,) = house.keys(stay)
    word, until = house.bound(key)
    assert (word, until) == ("propagating", written)
    assert house.tries(card, "101", at=written - A_MINUTE)
    assert not house.tries(card, "101", at=written + A_MINUTE)
    house.encode(key, card)
    assert house.bound(key) == ("confirmed", None)
    assert not house.tries(card, "101", at=house.until(key) + A_MINUTE)


# --- early checkout


def test_after_an_early_checkout_the_card_opens_until_the_next_guest_or_its_end_and_the_api_says_so(house: House) -> None:
    stay, card = house.check_in()
    (key,) = house.keys(stay)
    assert house.tries(card, "101")
    house.tell("booking.early_checkout", stay, 2, ["101"], status="checked_out")
    (key,) = house.keys(stay)
    assert (key.state, key.revoke_reason) == ("revoked", "checkout")
    assert house.bound(key) == ("propagating", house.until(key))
    assert house.tries(card, "101")
    assert not house.tries(card, "101", at=house.until(key) + A_MINUTE)
    _, after = house.check_in()
    assert house.tries(after, "101")
    assert not house.tries(card, "101")
    (_, revoked) = house.events(key)[-1]
    assert revoked["metadata"]["vendorRevokeOk"] is False
