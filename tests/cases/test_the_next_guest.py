"""The next guest comes: her key ends the last one's, and nobody's whose stay goes on, though it was made before hers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.stage import Artifact, House, Stay, World
from tests.support.stage.desk import SYSTEMS, act, at_desk, hand, house_by, warnings, written

Houses = Callable[..., House]
OVERLAP = "STAYS_OVERLAP"
CARDS = {"kinds": ["rfid_card"], "default_areas": []}
PHONES = {"kinds": ["mobile_app"], "default_areas": []}
NUMBERS = ({"phoneE164": "+93700000001"}, {"phoneE164": "+93700000002"})


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_the_next_guests_phone_ends_the_key_of_one_whose_stay_is_over(world: World, house: Houses, vendor: str) -> None:
    hotel = house({"101": vendor}, policy=PHONES | {"late_grace_minutes": 180})
    first = hotel.book(["101"], contact=NUMBERS[0], end=world.now + timedelta(hours=2))
    start = world.now + timedelta(hours=3)
    second = hotel.book(["101"], contact=NUMBERS[1], start=start, end=world.now + timedelta(days=1))
    assert OVERLAP not in warnings(first)
    world.advance(hours=3, minutes=5)
    world.settle()
    assert second.opens("101")
    second_phone = second.artifact()
    assert hotel.use("101", second_phone)
    assert not first.opens("101")
    hotel.reconcile()
    assert hotel.alerts() == []


def _turned_over(
    world: World, house: Houses, vendor: str, policy: Any, *, companion: bool = False
) -> tuple[House, list[Stay], list[Artifact]]:
    """Let a guest's stay be over, and the next guest come and open the room, while the first key's late grace still runs."""
    hotel = house({"101": vendor, "102": vendor}, policy=policy)
    first = hotel.book(["101"], contact=NUMBERS[0], end=world.now + timedelta(hours=2))
    keys = [hand(first)]
    if companion:
        body = {"reservationId": first.id, "holderId": "gst_companion"}
        assert hotel.caller("front_desk_supervisor").post("/lock/v1/credentials", body).status_code in (201, 202)
        world.settle()
        keys.append(hand(first))
    assert all(hotel.use("101", key) for key in keys)
    world.advance(hours=2, minutes=20)
    world.settle()
    second = hotel.book(["101"], contact=NUMBERS[1], start=world.now - timedelta(minutes=10), end=world.now + timedelta(days=2))
    keys.append(hand(second))
    assert hotel.use("101", keys[-1])
    assert not any(hotel.use("101", key) for key in keys[:-1])
    return hotel, [first, second], keys


@pytest.mark.parametrize("policy", [PHONES, CARDS], ids=["phone", "card"])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_stay_that_goes_on_after_the_next_guest_came_gets_a_key_that_joins(
    world: World, house: Houses, vendor: str, policy: Any
) -> None:
    hotel, (first, second), (old, hers) = _turned_over(world, house, vendor, policy)
    first.change(end=world.now + timedelta(days=1))
    if policy is CARDS:
        assert first.key()["waitingFor"] == "desk"
        assert first.told()["verdict"]["answer"] == "coming"
    new = hand(first)
    assert [hotel.use("101", one) for one in (new, hers, new, hers)] == [True] * 4
    assert [hotel.use(room, one) for room, one in (("101", old), ("102", old), ("102", new))] == [False] * 3
    assert [alert["code"] for alert in hotel.alerts()] == [OVERLAP]
    assert (warnings(first), OVERLAP in warnings(second)) == ([OVERLAP], True)
    hotel.reconcile()
    world.advance(hours=25)
    assert [hotel.use("101", one) for one in (old, new, hers)] == [False, True, True]
    world.advance(hours=2)
    assert [hotel.use("101", one) for one in (old, new, hers)] == [False, False, True]
    assert [alert["code"] for alert in hotel.alerts()] == [OVERLAP]


@pytest.mark.parametrize("policy", [PHONES, CARDS], ids=["phone", "card"])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_companion_too_gets_another_key_when_the_stay_goes_on_beside_the_next_guest(
    world: World, house: Houses, vendor: str, policy: Any
) -> None:
    hotel, (first, _), (*old, hers) = _turned_over(world, house, vendor, policy, companion=True)
    first.change(end=world.now + timedelta(days=1))
    if policy is CARDS:
        assert [key["waitingFor"] for key in first.keys()[:2]] == ["desk", "desk"]
        for _ in range(2):
            first.encode()
    new = first.collect()[-2:]
    assert [hotel.use("101", one) for one in (*new, hers, *new)] == [True] * 5
    assert [hotel.use("101", one) for one in old] == [False, False]
    known = first.keys()
    live = [key["holderId"] for key in known if key["state"] == "active"]
    assert sorted(live) == sorted([f"gst_{first.id[-8:]}", "gst_companion"])


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_what_is_told_again_of_a_stay_that_goes_on_makes_no_further_key(world: World, house: Houses, vendor: str) -> None:
    hotel, (first, _), (_, hers) = _turned_over(world, house, vendor, PHONES)
    earlier = first.data()
    first.change(end=world.now + timedelta(days=1))
    new = first.artifact()
    for data in (earlier, first.data()):
        hotel.emit("booking.dates_changed", data)
    first.change(end=world.now + timedelta(days=2))
    assert (len(first.keys()), first.artifact()) == (2, new)
    assert [hotel.use("101", one) for one in (new, hers)] == [True, True]


@pytest.mark.parametrize("policy", [PHONES, CARDS], ids=["phone", "card"])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_stay_that_goes_on_after_the_next_guest_has_left_again_gets_a_key(
    world: World, house: Houses, vendor: str, policy: Any
) -> None:
    hotel, (first, second), (old, hers) = _turned_over(world, house, vendor, policy)
    second.check_out()
    first.change(end=world.now + timedelta(days=1))
    new = hand(first)
    assert [hotel.use("101", one) for one in (new, old, hers, new)] == [True, False, False, True]


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_suspended_guest_stays_so_when_her_stay_goes_on_beside_the_next_guest(
    world: World, house: Houses, vendor: str
) -> None:
    hotel, (first, _), (_, hers) = _turned_over(world, house, vendor, PHONES)
    act(first, "suspend", reason="manual")
    first.change(end=world.now + timedelta(days=1))
    assert (first.key()["state"], first.opens("101"), hotel.use("101", hers)) == ("suspended", False, True)
    act(first, "unsuspend")
    assert [hotel.use("101", one) for one in (first.artifact(), hers)] == [True, True]


def test_hours_that_make_a_stay_longer_give_its_guest_a_key_beside_the_next_one(world: World, house: Houses) -> None:
    hotel = house({"101": "salto"}, policy=PHONES)
    leaves = world.now.astimezone(ZoneInfo(hotel.zone)) + timedelta(hours=2)
    hotel.change_property(check_out_time=leaves.time())
    days = {"checkIn": (leaves.date() - timedelta(days=1)).isoformat(), "checkOut": leaves.date().isoformat()}
    first = hotel.book(["101"], contact=NUMBERS[0], **days)
    old = first.artifact()
    world.advance(hours=2, minutes=20)
    second = hotel.book(["101"], contact=NUMBERS[1], start=world.now - timedelta(minutes=10))
    assert [hotel.use("101", one) for one in (second.artifact(), old)] == [True, False]
    hotel.change_property(check_out_time=(leaves + timedelta(hours=2)).time())
    hotel.emit("tenant.config_updated", {"propertyId": hotel.property_id, "keys": ["property.hours"]})
    assert [hotel.use("101", one) for one in (first.artifact(), second.artifact(), old)] == [True, True, False]


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_the_next_guests_card_made_ahead_has_ended_nothing_when_the_stay_goes_on(
    world: World, house: Houses, vendor: str
) -> None:
    hotel = house({"101": vendor}, policy=CARDS)
    first = hotel.book(["101"], end=world.now + timedelta(hours=2))
    first.encode()
    second = hotel.book(["101"], start=world.now + timedelta(hours=3), end=world.now + timedelta(days=1))
    second.encode()
    known = first.key()["id"]
    first.change(end=world.now + timedelta(hours=2, minutes=30))
    assert (first.key()["id"], len(first.keys())) == (known, 1)
    second.cancel()
    world.advance(hours=3, minutes=30)
    first.change(end=world.now + timedelta(days=1))
    assert (first.key()["id"], len(first.keys())) == (known, 1)


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_next_guest_who_came_into_the_room_by_a_change_counts_when_the_stay_goes_on(
    world: World, house: Houses, vendor: str
) -> None:
    hotel = house({"101": vendor, "102": vendor}, policy=CARDS)
    start = world.now + timedelta(hours=2, minutes=10)
    second = hotel.book(["102"], start=start, end=world.now + timedelta(days=1))
    hers = second.encode()
    world.advance(minutes=1)
    first = hotel.book(["101"], end=world.now + timedelta(hours=2))
    old = first.encode()
    second.change(rooms=["101"])
    hers = at_desk(second, hers)
    world.advance(hours=2, minutes=20)
    assert hers is not None
    assert old is not None
    assert [hotel.use("101", one) for one in (hers, old)] == [True, False]
    first.change(end=world.now + timedelta(days=1))
    new = first.encode()
    assert new is not None
    assert [hotel.use("101", one) for one in (new, hers, old)] == [True, True, False]


def _in_turn(hotel: House, policy: Any, *times: tuple[float, float]) -> tuple[list[Stay], list[Artifact]]:
    """Book 101 for guests one after the other, from and until so many hours from now, and hand each her key."""
    now, stays, keys = hotel.world.now, [], []
    for n, (start, end) in enumerate(times):
        stay = hotel.book(
            ["101"],
            contact={"phoneE164": f"+9370000000{n}"},
            start=now + timedelta(hours=start),
            end=now + timedelta(hours=end),
        )
        stays.append(stay)
        keys.append(hand(stay))
    return stays, keys


@pytest.mark.parametrize("times", [[(24, 72), (24, 48)], [(24, 72), (26, 48)], [(26, 48), (24, 72)]], ids=str)
@pytest.mark.parametrize("system", SYSTEMS)
def test_cards_that_are_made_ahead_for_stays_that_overlap_open_for_both(
    world: World, house: Houses, system: str, times: list[tuple[float, float]]
) -> None:
    hotel = house_by(house, system, CARDS)
    _, cards = _in_turn(hotel, CARDS, *times)
    world.advance(hours=27)
    assert [hotel.use("101", card) for card in (*cards, *cards)] == [True] * 4


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_card_made_ahead_ends_nobodys_when_its_stay_begins_earlier(world: World, house: Houses, system: str) -> None:
    hotel = house_by(house, system, CARDS)
    (first, second), (old, other) = _in_turn(hotel, CARDS, (-1, 5), (24, 48))
    assert hotel.use("101", old)
    second.change(start=world.now - timedelta(minutes=10))
    assert (first.key()["waitingFor"] == "desk") is (system != "generic-wiegand")
    new, other = hand(first), written(second, other)
    assert [hotel.use("101", card) for card in (other, new, other, new)] == [True] * 4
    assert hotel.use("101", old) is (system == "generic-wiegand")
    assert [alert["code"] for alert in hotel.alerts()] == [OVERLAP]
    world.advance(hours=8)
    assert [hotel.use("101", card) for card in (other, new)] == [True, False]


@pytest.mark.parametrize("policy", [PHONES, CARDS], ids=["phone", "card"])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_key_moved_ahead_into_a_room_ends_nobodys_when_its_stay_begins_earlier(
    world: World, house: Houses, vendor: str, policy: Any
) -> None:
    hotel = house_by(house, vendor, policy)
    (first,), (old,) = _in_turn(hotel, policy, (-1, 5))
    second = hotel.book(["102"], contact=NUMBERS[1])
    other = hand(second)
    assert (hotel.use("101", old), hotel.use("102", other)) == (True, True)
    second.change(rooms=["101"], start=world.now + timedelta(days=1), end=world.now + timedelta(days=3))
    assert (first.opens("101"), len(first.keys())) == (True, 1)
    second.change(start=world.now - timedelta(minutes=10))
    new, other = hand(first), hand(second)
    assert [hotel.use("101", key) for key in (other, new, other, new)] == [True] * 4
    assert [hotel.use("101", old), hotel.use("102", new)] == [False, False]
    assert [alert["code"] for alert in hotel.alerts()] == [OVERLAP]
    hotel.reconcile()
    assert [hotel.use("101", key) for key in (other, new)] == [True, True]
    assert [alert["code"] for alert in hotel.alerts()] == [OVERLAP]


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_companions_and_who_shares_the_room_keep_it_when_the_next_stay_begins_earlier(
    world: World, house: Houses, vendor: str
) -> None:
    hotel = house_by(house, vendor, CARDS)
    (first, sharing), _ = _in_turn(hotel, CARDS, (-1, 5), (-1, 4))
    _companion(first)
    first.encode()
    (second,), (other,) = _in_turn(hotel, CARDS, (24, 48))
    second.change(start=world.now + timedelta(hours=4, minutes=30))
    made = [first.encode(), first.encode(), sharing.encode()]
    new = [card for card in made if card is not None]
    assert [hotel.use("101", card) for card in (*new, *new)] == [True] * 6
    world.advance(hours=4, minutes=40)
    assert [hotel.use("101", card) for card in (written(second, other), *new[:2], other)] == [True] * 4


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_suspended_guest_stays_so_when_the_next_stay_begins_earlier(world: World, house: Houses, vendor: str) -> None:
    hotel = house_by(house, vendor, PHONES)
    (first,), _ = _in_turn(hotel, PHONES, (-1, 5))
    second = hotel.book(["102"], contact=NUMBERS[1])
    second.change(rooms=["101"], start=world.now + timedelta(days=1), end=world.now + timedelta(days=3))
    act(first, "suspend", reason="manual")
    second.change(start=world.now - timedelta(minutes=10))
    other = second.artifact()
    assert (first.key()["state"], first.opens("101"), hotel.use("101", other)) == ("suspended", False, True)
    act(first, "unsuspend")
    assert [hotel.use("101", key) for key in (first.artifact(), other)] == [True, True]


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_guest_before_whom_another_now_comes_gets_a_card_that_opens(world: World, house: Houses, vendor: str) -> None:
    hotel = house_by(house, vendor, CARDS)
    (first, second), (_, other) = _in_turn(hotel, CARDS, (24, 48), (72, 96))
    second.change(start=world.now - timedelta(minutes=10), end=world.now + timedelta(hours=5))
    new = first.encode()
    assert new is not None
    assert hotel.use("101", written(second, other))
    world.advance(hours=25)
    assert [hotel.use("101", card) for card in (new, other, new)] == [True, False, True]


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_stay_that_begins_earlier_and_still_after_the_last_one_changes_no_key_of_that(
    world: World, house: Houses, vendor: str
) -> None:
    hotel = house_by(house, vendor, CARDS)
    (first, second), (old, other) = _in_turn(hotel, CARDS, (-1, 5), (24, 48))
    second.change(start=world.now + timedelta(hours=5))
    assert (len(first.keys()), hotel.use("101", old)) == (1, True)
    world.advance(hours=5, minutes=10)
    assert [hotel.use("101", card) for card in (written(second, other), old)] == [True, False]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_stay_that_goes_on_beside_a_card_made_ahead_gets_one_that_joins(world: World, house: Houses, system: str) -> None:
    hotel = house_by(house, system, CARDS)
    (first, _), (old, other) = _in_turn(hotel, CARDS, (-1, 5), (24, 48))
    assert hotel.use("101", old)
    first.change(end=world.now + timedelta(hours=72))
    new = written(first, hand(first))
    assert hotel.use("101", new)
    world.advance(hours=25)
    assert [hotel.use("101", card) for card in (other, new, other, new)] == [True] * 4
    world.advance(hours=26)
    assert [hotel.use("101", card) for card in (other, new)] == [False, True]


def _companion(stay: Stay) -> None:
    body = {"reservationId": stay.id, "holderId": "gst_companion"}
    assert stay.house.caller("front_desk_supervisor").post("/lock/v1/credentials", body).status_code in (201, 202)
    stay.house.world.settle()


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_second_card_ends_nobodys_though_the_next_guests_was_made_before_it(world: World, house: Houses, system: str) -> None:
    hotel = house_by(house, system, CARDS)
    (first, _), (old, other) = _in_turn(hotel, CARDS, (-1, 5), (24, 48))
    assert hotel.use("101", old)
    _companion(first)
    own = first.encode()
    old = hand(first) if first.key()["waitingFor"] == "desk" else old
    assert own is not None
    assert [hotel.use("101", card) for card in (old, own, old)] == [True] * 3
    world.advance(hours=25)
    assert [hotel.use("101", card) for card in (other, own, old)] == [True, False, False]


@pytest.mark.parametrize("comes", ["books", "moves"])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_who_joins_a_guest_ends_nobodys_though_the_next_guests_card_was_made_before(
    world: World, house: Houses, vendor: str, comes: str
) -> None:
    hotel = house_by(house, vendor, CARDS)
    (first, _), (old, _) = _in_turn(hotel, CARDS, (-1, 5), (24, 48))
    joining = hotel.book(["102"] if comes == "moves" else ["101"], end=world.now + timedelta(hours=4))
    own = hand(joining)
    if comes == "moves":
        joining.change(rooms=["101"])
    assert first.key()["waitingFor"] == "desk"
    new = first.encode()
    own = written(joining, own)
    assert new is not None
    assert [hotel.use("101", card) for card in (new, own, new)] == [True] * 3
    assert not hotel.use("101", old)


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_phone_of_a_companion_ends_nobodys_though_the_next_guests_moved_in_before(
    world: World, house: Houses, vendor: str
) -> None:
    hotel = house_by(house, vendor, PHONES)
    (first,), _ = _in_turn(hotel, PHONES, (-1, 5))
    second = hotel.book(["102"], contact=NUMBERS[1])
    second.change(rooms=["101"], start=world.now + timedelta(days=1), end=world.now + timedelta(days=3))
    _companion(first)
    keys = first.collect()[-2:]
    assert len({key.value for key in keys}) == 2
    assert [hotel.use("101", key) for key in (*keys, *keys)] == [True] * 4


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_card_written_after_the_next_guests_goes_on_beside_a_second_one(world: World, house: Houses, vendor: str) -> None:
    hotel = house_by(house, vendor, CARDS)
    first = hotel.book(["101"], end=world.now + timedelta(hours=5))
    _in_turn(hotel, CARDS, (24, 48))
    world.advance(minutes=1)
    old = first.encode()
    world.advance(minutes=1)
    _companion(first)
    own = first.encode()
    assert old is not None
    assert own is not None
    assert (len(first.keys()), [hotel.use("101", card) for card in (old, own, old)]) == (2, [True] * 3)
