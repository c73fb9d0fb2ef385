"""Two bookings overlap in one room: somebody is told, and nobody who is in the house is shut out by the other's key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.stage import Artifact, House, Stay, World

Houses = Callable[..., House]
OVERLAP = "STAYS_OVERLAP"
CARDS = {"kinds": ["rfid_card"], "default_areas": []}
PHONES = {"kinds": ["mobile_app"], "default_areas": []}
NUMBERS = ({"phoneE164": "+93700000001"}, {"phoneE164": "+93700000002"})


def _with_cards(house: Houses, vendor: str, *rooms: str) -> House:
    """Return a house whose cards are written at the desk, which is there."""
    hotel = house(dict.fromkeys(rooms, vendor), policy=CARDS)
    if vendor == "generic-wiegand":
        hotel.seat_desk()
    return hotel


def _at_desk(stay: Stay, card: Artifact | None) -> Artifact | None:
    """Return the card of a guest who comes to the desk if she has to: a new one, or her own, which was written again."""
    key = stay.key()
    return (stay.house.encode(key["id"]) if key["waitingFor"] == "desk" else None) or card


def warnings(stay: Stay) -> list[str]:
    """Return the codes of the warnings on the stay's newest key."""
    return [warning["code"] for warning in stay.key()["warnings"]]


def act(stay: Stay, verb: str, **body: str) -> None:
    """Let the desk do something with the stay's key."""
    answer = stay.house.caller("gm").post(f"/lock/v1/credentials/{stay.key()['id']}/{verb}", body)
    assert answer.status_code in (200, 201, 202), answer.content
    stay.house.world.settle()


@pytest.mark.parametrize("vendor", ["mock", "ttlock", "salto"])
def test_two_guests_with_digits_both_get_in_and_the_overlap_is_told_once(world: World, house: Houses, vendor: str) -> None:
    hotel = house({"101": vendor}, policy={"kinds": ["pin_code"], "default_areas": []})
    first = hotel.book(["101"])
    assert (warnings(first), hotel.alerts()) == ([], [])
    second = hotel.book(["101"])
    assert [stay.opens("101") for stay in (first, second)] == [True, True]
    assert (warnings(first), warnings(second)) == ([OVERLAP], [OVERLAP])
    assert [alert["code"] for alert in hotel.alerts()] == [OVERLAP]
    first.check_out()
    assert (warnings(second), second.opens("101"), first.opens("101")) == ([], True, False)


def test_who_moves_out_and_back_in_is_told_of_again_to_both(world: World, house: Houses) -> None:
    hotel = house({"101": "mock", "102": "mock"}, policy={"kinds": ["pin_code"], "default_areas": []})
    first, second = hotel.book(["101"]), hotel.book(["102"])
    for room, told in (("101", [OVERLAP]), ("102", []), ("101", [OVERLAP])):
        second.change(rooms=[room])
        assert warnings(second) == told
        assert warnings(first) == told
        assert [stay.opens("101") for stay in (first, second)] == [True, room == "101"]


def test_a_stay_that_becomes_shorter_ends_the_overlap_for_both(world: World, house: Houses) -> None:
    hotel = house({"101": "mock"}, policy={"kinds": ["pin_code"], "default_areas": []})
    first = hotel.book(["101"], end=world.now + timedelta(days=3))
    second = hotel.book(["101"], start=world.now + timedelta(days=1), end=world.now + timedelta(days=4))
    assert [warnings(first), warnings(second)] == [[OVERLAP], [OVERLAP]]
    first.change(end=world.now + timedelta(hours=20))
    assert [warnings(first), warnings(second)] == [[], []]


def test_a_guest_who_leaves_the_day_the_next_one_comes_overlaps_with_nobody(world: World, house: Houses) -> None:
    hotel = house({"101": "mock"}, policy={"kinds": ["pin_code"], "late_grace_minutes": 180})
    leaving = hotel.book(["101"], end=world.now + timedelta(hours=2))
    coming = hotel.book(["101"], start=world.now + timedelta(hours=2), end=world.now + timedelta(days=1))
    assert (warnings(leaving), warnings(coming), hotel.alerts()) == ([], [], [])


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy", "generic-wiegand"])
def test_a_second_stays_card_joins_the_guest_who_is_in_the_room(world: World, house: Houses, vendor: str) -> None:
    hotel = _with_cards(house, vendor, "101")
    first, second = hotel.book(["101"]), hotel.book(["101"])
    cards = [first.encode(), second.encode()]
    assert all(cards)
    for card in (*cards, *cards):
        assert card is not None
        assert hotel.use("101", card)
    assert [alert["code"] for alert in hotel.alerts()] == [OVERLAP]


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_the_next_guests_card_still_ends_the_card_of_one_who_has_left(world: World, house: Houses, vendor: str) -> None:
    hotel = house({"101": vendor}, policy=CARDS)
    first = hotel.book(["101"])
    old = first.encode()
    first.check_out()
    second = hotel.book(["101"])
    new = second.encode()
    assert old is not None
    assert new is not None
    assert hotel.use("101", new)
    assert not hotel.use("101", old)


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_two_guests_with_phones_both_get_in_and_one_leaves(world: World, house: Houses, vendor: str) -> None:
    hotel = house({"101": vendor}, policy=PHONES)
    first, second = (hotel.book(["101"], contact=number) for number in NUMBERS)
    assert [stay.opens("101") for stay in (first, second)] == [True, True]
    assert [alert["code"] for alert in hotel.alerts()] == [OVERLAP]
    first.check_out()
    assert [stay.opens("101") for stay in (first, second)] == [False, True]
    assert OVERLAP not in warnings(second)


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_guest_who_moves_into_a_room_that_is_let_ends_nobodys_phones_key(world: World, house: Houses, vendor: str) -> None:
    hotel = house(dict.fromkeys(("101", "102", "103"), vendor), policy=PHONES)
    first, second = (hotel.book([room], contact=number) for room, number in zip(("101", "102"), NUMBERS, strict=True))
    second.change(rooms=["101"])
    assert [first.opens("101"), second.opens("101"), second.opens("102")] == [True, True, False]
    second.change(rooms=["103"])
    assert [first.opens("101"), second.opens("101"), second.opens("103")] == [True, False, True]


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy", "generic-wiegand"])
def test_a_guest_who_moves_into_a_room_that_is_let_ends_nobodys_card(world: World, house: Houses, vendor: str) -> None:
    hotel = _with_cards(house, vendor, "101", "102", "103")
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hers, card = first.encode(), second.encode()
    for room, is_shared in (("101", True), ("103", False)):
        second.change(rooms=[room])
        card = _at_desk(second, card)
        assert hers is not None
        assert card is not None
        assert [hotel.use("101", hers), hotel.use(room, card), hotel.use("101", hers)] == [True] * 3
        assert hotel.use("101", card) is is_shared


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_guest_of_two_rooms_gets_both_though_only_one_of_them_is_let(world: World, house: Houses, vendor: str) -> None:
    hotel = house({"101": vendor, "102": vendor}, policy={"kinds": ["mobile_app", "pin_code"], "default_areas": []})
    first = hotel.book(["102"], contact=NUMBERS[0])
    second = hotel.book(["101", "102"], contact=NUMBERS[1])
    assert (second.key()["state"], second.key()["kind"]) == ("active", "mobile_app")
    assert [second.opens("101"), second.opens("102"), first.opens("102"), first.opens("101")] == [True, True, True, False]
    third = hotel.book(["101", "102"], contact={"phoneE164": "+93700000003"})
    assert [stay.opens(door) for stay in (second, third) for door in ("101", "102")] == [True] * 4


@pytest.mark.parametrize("let", ["101", "102"])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy", "generic-wiegand"])
def test_a_card_for_two_rooms_of_which_one_is_let_opens_the_other_at_once(
    world: World, house: Houses, vendor: str, let: str
) -> None:
    hotel = _with_cards(house, vendor, "101", "102")
    first, second = hotel.book([let]), hotel.book(["101", "102"])
    hers, card = first.encode(), second.encode()
    assert hers is not None
    assert card is not None
    free = "102" if let == "101" else "101"
    assert [hotel.use(let, hers), hotel.use(free, card), hotel.use(let, hers)] == [True] * 3
    opens_both = hotel.use(let, card)
    assert opens_both or "CARD_MUST_BE_UPDATED" in warnings(second)
    assert hotel.use(let, hers)
    assert not hotel.use(free, hers)
    if not opens_both:  # until the desk has written the card once more
        assert second.told()["verdict"]["answer"] != "opens"


@pytest.mark.parametrize("moved_to", [["101", "102"], ["102", "101"], ["101", "102", "103"]])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_guest_moves_into_several_rooms_of_which_one_is_let(
    world: World, house: Houses, vendor: str, moved_to: list[str]
) -> None:
    hotel = house(dict.fromkeys(("101", "102", "103"), vendor), policy=PHONES)
    first, second = hotel.book(["101"], contact=NUMBERS[0]), hotel.book(["103"], contact=NUMBERS[1])
    hers = first.artifact()
    second.change(rooms=moved_to)
    own = second.artifact()
    assert [hotel.use(room, own) for room in ("101", "102", "103")] == [True, True, "103" in moved_to]
    assert (hotel.use("101", hers), hotel.use("102", hers)) == (True, False)
    assert second.told()["verdict"]["why"] == "occupied"  # all that is told of it


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy", "generic-wiegand"])
def test_a_card_moves_into_several_rooms_of_which_one_is_let(world: World, house: Houses, vendor: str) -> None:
    hotel = _with_cards(house, vendor, "101", "102", "103")
    first, second = hotel.book(["101"]), hotel.book(["103"])
    hers, card = first.encode(), second.encode()
    second.change(rooms=["101", "102"])
    card = _at_desk(second, card)
    assert hers is not None
    assert card is not None
    assert [hotel.use("101", hers), hotel.use("101", card), hotel.use("102", card), hotel.use("101", hers)] == [True] * 4
    assert not hotel.use("103", card)


@pytest.mark.parametrize("rooms", [["102"], ["101", "102"], ["102", "103"], ["101", "102", "103"]])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_key_whose_answer_was_lost_ends_nobodys_when_the_booking_names_a_let_room_since(
    world: World, house: Houses, vendor: str, rooms: list[str]
) -> None:
    hotel = house(dict.fromkeys(("101", "102", "103"), vendor), policy=PHONES)
    first = hotel.book(["102"], contact=NUMBERS[0])
    hers = first.artifact()
    world.break_calls(vendor, "lost", None)
    second = hotel.book(["101"], contact=NUMBERS[1], settle=False)
    world.work_without_retries()
    second.change(rooms=rooms, settle=False)
    world.take_in()
    world.heal()
    world.settle()
    own = second.artifact()
    assert [room for room in ("101", "102", "103") if hotel.use(room, own)] == rooms
    assert hotel.opens("102", hers)


@pytest.mark.parametrize("policy", [PHONES, CARDS], ids=["phone", "card"])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_suspended_guest_gets_in_again_though_another_was_given_her_room(
    world: World, house: Houses, vendor: str, policy: dict[str, list[str]]
) -> None:
    hotel = house({"101": vendor}, policy=policy)
    first = hotel.book(["101"], contact=NUMBERS[0])
    hers = first.encode() if policy is CARDS else first.artifact()
    act(first, "suspend", reason="manual")
    second = hotel.book(["101"], contact=NUMBERS[1])
    other = second.encode() if policy is CARDS else second.artifact()
    assert hers is not None
    assert other is not None
    assert [hotel.use("101", other), hotel.use("101", hers)] == [True, False]
    act(first, "unsuspend")
    assert [hotel.use("101", hers), hotel.use("101", other), hotel.use("101", hers)] == [True] * 3


@pytest.mark.parametrize("policy", [PHONES, CARDS], ids=["phone", "card"])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_two_guests_who_swap_rooms_at_once_both_get_in(
    world: World, house: Houses, vendor: str, policy: dict[str, list[str]]
) -> None:
    hotel = house({"101": vendor, "102": vendor}, policy=policy)
    first, second = (hotel.book([room], contact=number) for room, number in zip(("101", "102"), NUMBERS, strict=True))
    keys = [stay.encode() if policy is CARDS else stay.artifact() for stay in (first, second)]
    first.change(rooms=["102"], settle=False)
    second.change(rooms=["101"])
    for _ in range(2):
        assert [hotel.use(room, key) for room, key in zip(("102", "101"), keys, strict=True) if key] == [True, True]
    assert [hotel.use(room, key) for room, key in zip(("101", "102"), keys, strict=True) if key] == [False, False]


@pytest.mark.parametrize("nights", [1, 2], ids=["leaves before she comes", "shares with her"])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_key_made_ahead_is_not_ended_by_a_guest_who_comes_before(
    world: World, house: Houses, vendor: str, nights: int
) -> None:
    hotel = house({"101": vendor}, policy=PHONES)
    first = hotel.book(["101"], contact=NUMBERS[0])
    hers = first.artifact()
    first.change(start=world.now + timedelta(days=1), end=world.now + timedelta(days=3))
    second = hotel.book(["101"], contact=NUMBERS[1], end=world.now + timedelta(days=nights, hours=-4))
    assert hotel.use("101", second.artifact())
    world.advance(days=1, hours=1)
    assert (hotel.use("101", hers), first.told()["verdict"]["answer"] != "shut") == (True, True)
    world.advance(days=1)
    assert (hotel.use("101", hers), second.opens("101")) == (True, False)


def test_a_room_that_the_vendor_does_not_know_is_told_though_the_others_were_joined(world: World, house: Houses) -> None:
    hotel = house(dict.fromkeys(("101", "102", "103"), "assa-abloy"), policy=PHONES)
    hotel.book(["102"], contact=NUMBERS[0])
    world.simulator("assa-abloy").post("/doors", {"device": hotel.doors["103"], "removed": True})
    second = hotel.book(["101", "102", "103"], contact=NUMBERS[1])
    assert [second.opens(room) for room in ("101", "102", "103")] == [True, True, False]
    assert second.told()["verdict"]["answer"] != "opens"
    assert "DOOR_NOT_REACHED" in [alert["code"] for alert in hotel.alerts()]


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


def _hand(stay: Stay, policy: Any) -> Artifact:
    """Return the newest key of a guest: her phone's, or the card that the desk writes for her where her key waits for it."""
    made = stay.encode() if policy is CARDS and stay.key()["waitingFor"] == "desk" else None
    return made or stay.artifact()


def _turned_over(
    world: World, house: Houses, vendor: str, policy: Any, *, companion: bool = False
) -> tuple[House, list[Stay], list[Artifact]]:
    """Let a guest's stay be over, and the next guest come and open the room, while the first key's late grace still runs."""
    hotel = house({"101": vendor, "102": vendor}, policy=policy)
    first = hotel.book(["101"], contact=NUMBERS[0], end=world.now + timedelta(hours=2))
    keys = [_hand(first, policy)]
    if companion:
        body = {"reservationId": first.id, "holderId": "gst_companion"}
        assert hotel.caller("front_desk_supervisor").post("/lock/v1/credentials", body).status_code in (201, 202)
        world.settle()
        keys.append(_hand(first, policy))
    assert all(hotel.use("101", key) for key in keys)
    world.advance(hours=2, minutes=20)
    world.settle()
    second = hotel.book(["101"], contact=NUMBERS[1], start=world.now - timedelta(minutes=10), end=world.now + timedelta(days=2))
    keys.append(_hand(second, policy))
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
    new = _hand(first, policy)
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
    new = _hand(first, policy)
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
    hers = _at_desk(second, hers)
    world.advance(hours=2, minutes=20)
    assert hers is not None
    assert old is not None
    assert [hotel.use("101", one) for one in (hers, old)] == [True, False]
    first.change(end=world.now + timedelta(days=1))
    new = first.encode()
    assert new is not None
    assert [hotel.use("101", one) for one in (new, hers, old)] == [True, True, False]


def _by(house: Houses, system: str, policy: Any) -> House:
    """Return a house of two rooms with a lock system, asked by the protocol that its name says."""
    vendor = {"salto by pms": "salto", "visionline": "assa-abloy"}.get(system, system)
    hotel = house({"101": vendor, "102": vendor}, policy=policy)
    if system == "salto by pms":
        hotel.speak_pms()
    if system == "visionline":
        hotel.speak_visionline(named=True)
    if system == "generic-wiegand":
        hotel.seat_desk()
    return hotel


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
        keys.append(_hand(stay, policy))
    return stays, keys


def _written(stay: Stay, card: Artifact) -> Artifact:
    """Return the card of a guest who comes to the desk, where hers is written again if it is to be."""
    if "encode" in stay.key()["allowedActions"]:
        _write_again(stay.house, stay, card)
    return card


SYSTEMS = ["salto", "assa-abloy", "salto by pms", "visionline", "generic-wiegand"]


@pytest.mark.parametrize("times", [[(24, 72), (24, 48)], [(24, 72), (26, 48)], [(26, 48), (24, 72)]], ids=str)
@pytest.mark.parametrize("system", SYSTEMS)
def test_cards_that_are_made_ahead_for_stays_that_overlap_open_for_both(
    world: World, house: Houses, system: str, times: list[tuple[float, float]]
) -> None:
    hotel = _by(house, system, CARDS)
    _, cards = _in_turn(hotel, CARDS, *times)
    world.advance(hours=27)
    assert [hotel.use("101", card) for card in (*cards, *cards)] == [True] * 4


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_card_made_ahead_ends_nobodys_when_its_stay_begins_earlier(world: World, house: Houses, system: str) -> None:
    hotel = _by(house, system, CARDS)
    (first, second), (old, other) = _in_turn(hotel, CARDS, (-1, 5), (24, 48))
    assert hotel.use("101", old)
    second.change(start=world.now - timedelta(minutes=10))
    assert (first.key()["waitingFor"] == "desk") is (system != "generic-wiegand")
    new, other = _hand(first, CARDS), _written(second, other)
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
    hotel = _by(house, vendor, policy)
    (first,), (old,) = _in_turn(hotel, policy, (-1, 5))
    second = hotel.book(["102"], contact=NUMBERS[1])
    other = _hand(second, policy)
    assert (hotel.use("101", old), hotel.use("102", other)) == (True, True)
    second.change(rooms=["101"], start=world.now + timedelta(days=1), end=world.now + timedelta(days=3))
    assert (first.opens("101"), len(first.keys())) == (True, 1)
    second.change(start=world.now - timedelta(minutes=10))
    new, other = _hand(first, policy), _hand(second, policy)
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
    hotel = _by(house, vendor, CARDS)
    (first, sharing), _ = _in_turn(hotel, CARDS, (-1, 5), (-1, 4))
    _companion(first)
    first.encode()
    (second,), (other,) = _in_turn(hotel, CARDS, (24, 48))
    second.change(start=world.now + timedelta(hours=4, minutes=30))
    made = [first.encode(), first.encode(), sharing.encode()]
    new = [card for card in made if card is not None]
    assert [hotel.use("101", card) for card in (*new, *new)] == [True] * 6
    world.advance(hours=4, minutes=40)
    assert [hotel.use("101", card) for card in (_written(second, other), *new[:2], other)] == [True] * 4


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_suspended_guest_stays_so_when_the_next_stay_begins_earlier(world: World, house: Houses, vendor: str) -> None:
    hotel = _by(house, vendor, PHONES)
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
    hotel = _by(house, vendor, CARDS)
    (first, second), (_, other) = _in_turn(hotel, CARDS, (24, 48), (72, 96))
    second.change(start=world.now - timedelta(minutes=10), end=world.now + timedelta(hours=5))
    new = first.encode()
    assert new is not None
    assert hotel.use("101", _written(second, other))
    world.advance(hours=25)
    assert [hotel.use("101", card) for card in (new, other, new)] == [True, False, True]


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_stay_that_begins_earlier_and_still_after_the_last_one_changes_no_key_of_that(
    world: World, house: Houses, vendor: str
) -> None:
    hotel = _by(house, vendor, CARDS)
    (first, second), (old, other) = _in_turn(hotel, CARDS, (-1, 5), (24, 48))
    second.change(start=world.now + timedelta(hours=5))
    assert (len(first.keys()), hotel.use("101", old)) == (1, True)
    world.advance(hours=5, minutes=10)
    assert [hotel.use("101", card) for card in (_written(second, other), old)] == [True, False]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_stay_that_goes_on_beside_a_card_made_ahead_gets_one_that_joins(world: World, house: Houses, system: str) -> None:
    hotel = _by(house, system, CARDS)
    (first, _), (old, other) = _in_turn(hotel, CARDS, (-1, 5), (24, 48))
    assert hotel.use("101", old)
    first.change(end=world.now + timedelta(hours=72))
    new = _written(first, _hand(first, CARDS))
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
    hotel = _by(house, system, CARDS)
    (first, _), (old, other) = _in_turn(hotel, CARDS, (-1, 5), (24, 48))
    assert hotel.use("101", old)
    _companion(first)
    own = first.encode()
    old = _hand(first, CARDS) if first.key()["waitingFor"] == "desk" else old
    assert own is not None
    assert [hotel.use("101", card) for card in (old, own, old)] == [True] * 3
    world.advance(hours=25)
    assert [hotel.use("101", card) for card in (other, own, old)] == [True, False, False]


@pytest.mark.parametrize("comes", ["books", "moves"])
@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_who_joins_a_guest_ends_nobodys_though_the_next_guests_card_was_made_before(
    world: World, house: Houses, vendor: str, comes: str
) -> None:
    hotel = _by(house, vendor, CARDS)
    (first, _), (old, _) = _in_turn(hotel, CARDS, (-1, 5), (24, 48))
    joining = hotel.book(["102"] if comes == "moves" else ["101"], end=world.now + timedelta(hours=4))
    own = _hand(joining, CARDS)
    if comes == "moves":
        joining.change(rooms=["101"])
    assert first.key()["waitingFor"] == "desk"
    new = first.encode()
    own = _written(joining, own)
    assert new is not None
    assert [hotel.use("101", card) for card in (new, own, new)] == [True] * 3
    assert not hotel.use("101", old)


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_phone_of_a_companion_ends_nobodys_though_the_next_guests_moved_in_before(
    world: World, house: Houses, vendor: str
) -> None:
    hotel = _by(house, vendor, PHONES)
    (first,), _ = _in_turn(hotel, PHONES, (-1, 5))
    second = hotel.book(["102"], contact=NUMBERS[1])
    second.change(rooms=["101"], start=world.now + timedelta(days=1), end=world.now + timedelta(days=3))
    _companion(first)
    keys = first.collect()[-2:]
    assert len({key.value for key in keys}) == 2
    assert [hotel.use("101", key) for key in (*keys, *keys)] == [True] * 4


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_card_written_after_the_next_guests_goes_on_beside_a_second_one(world: World, house: Houses, vendor: str) -> None:
    hotel = _by(house, vendor, CARDS)
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


@pytest.mark.parametrize("vendor", ["mock", "ttlock", "salto"])
def test_digits_that_the_next_guest_does_not_end_go_on_when_the_stay_does(world: World, house: Houses, vendor: str) -> None:
    hotel = house({"101": vendor}, policy={"kinds": ["pin_code"], "default_areas": []})
    first = hotel.book(["101"], end=world.now + timedelta(hours=2))
    digits = first.artifact()
    world.advance(hours=2, minutes=20)
    second = hotel.book(["101"], start=world.now - timedelta(minutes=10))
    assert second.opens("101")
    first.change(end=world.now + timedelta(days=1))
    assert (len(first.keys()), first.artifact(), first.opens("101")) == (1, digits, True)


def test_companions_of_one_booking_overlap_with_nobody(world: World, house: Houses) -> None:
    hotel = house({"101": "assa-abloy"}, policy=PHONES)
    stay = hotel.book(["101"])
    body = {"reservationId": stay.id, "holderId": "gst_companion"}
    assert hotel.caller("front_desk_supervisor").post("/lock/v1/credentials", body).status_code in (201, 202)
    world.settle()
    phones = stay.collect()
    assert [hotel.use("101", phone) for phone in phones] == [True, True]
    told = {warning["code"] for key in stay.told()["keys"] for warning in key["credential"]["warnings"]}
    assert (hotel.alerts(), OVERLAP in told) == ([], False)


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_phones_key_that_a_walk_in_ended_is_found_told_and_given_again(world: World, house: Houses, vendor: str) -> None:
    hotel = house({"101": vendor}, policy=PHONES)
    stay = hotel.book(["101"], contact=NUMBERS[0])
    assert stay.opens("101")
    walk_in = hotel.walk_in("101")
    assert not stay.opens("101")
    hotel.reconcile()
    (alert,) = hotel.alerts("DRIFT_KEY_MISSING")
    assert (alert["severity"], alert["key"]) == ("critical", stay.key()["id"])
    assert (stay.opens("101"), hotel.use("101", walk_in)) == (True, True)


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy"])
def test_a_card_that_a_walk_in_ended_is_told_and_nobodys_key_is_ended(world: World, house: Houses, vendor: str) -> None:
    hotel = house({"101": vendor}, policy=CARDS)
    stay = hotel.book(["101"])
    card = stay.encode()
    assert card is not None
    assert hotel.use("101", card)
    walk_in = hotel.walk_in("101")
    assert not hotel.use("101", card)
    hotel.reconcile()
    assert [(alert["code"], alert["key"]) for alert in hotel.alerts("DRIFT_KEY_MISSING")] == [
        ("DRIFT_KEY_MISSING", stay.key()["id"])
    ]
    assert "differs" in {door["why"] for door in stay.told()["verdict"]["doors"]}
    assert hotel.use("101", walk_in)


def _two_cards(house: Houses, rooms: tuple[str, str]) -> tuple[House, list[Stay], list[Any]]:
    """Let two guests' cards be written over the PMS protocol, and be used at their rooms."""
    hotel = house({"101": "salto", "102": "salto"}, policy=CARDS | {"late_grace_minutes": 0})
    hotel.speak_pms()
    stays = [hotel.book([room], end=hotel.world.now + timedelta(days=3)) for room in rooms]
    cards = [stay.encode() for stay in stays]
    assert all(card is not None and hotel.use(room, card) for room, card in zip(rooms, cards, strict=True))
    return hotel, stays, cards


def _write_again(hotel: House, stay: Stay, card: Any) -> None:
    assert "encode" in stay.key()["allowedActions"]
    hotel.lay("salto", card)
    hotel.encode(stay.key()["id"])


def _used(hotel: House, card: Any) -> list[str]:
    """Use a card twice at each room: an on-line lock writes on it what the server knows."""
    found: list[str] = []
    for _ in range(2):
        found = [room for room in ("101", "102") if hotel.use(room, card)]
    return found


@pytest.mark.parametrize("mover", [0, 1])
def test_one_of_two_guests_of_a_room_moves_and_the_others_card_does_not(world: World, house: Houses, mover: int) -> None:
    hotel, stays, cards = _two_cards(house, ("101", "101"))
    stays[mover].change(rooms=["102"])
    assert _used(hotel, cards[1 - mover]) == ["101"]
    assert stays[1 - mover].told()["verdict"]["answer"] == "opens"
    assert stays[mover].told()["verdict"]["answer"] != "opens"
    _write_again(hotel, stays[mover], cards[mover])
    assert [_used(hotel, cards[mover]), _used(hotel, cards[1 - mover])] == [["102"], ["101"]]
    assert [stay.told()["verdict"]["answer"] for stay in stays] == ["opens", "opens"]


def test_a_card_that_moves_into_a_let_room_joins_there_at_the_encoder(world: World, house: Houses) -> None:
    hotel, stays, cards = _two_cards(house, ("101", "102"))
    stays[1].change(rooms=["101"])
    assert _used(hotel, cards[0]) == ["101"]
    assert stays[1].told()["verdict"]["answer"] != "opens"
    _write_again(hotel, stays[1], cards[1])
    assert [_used(hotel, card) for card in cards] == [["101"], ["101"]]
    assert [stay.told()["verdict"]["why"] for stay in stays] == ["occupied", "occupied"]


def test_the_guest_who_came_first_checks_out_and_the_other_goes_on_opening(world: World, house: Houses) -> None:
    hotel, stays, cards = _two_cards(house, ("101", "101"))
    stays[0].check_out()
    assert (_used(hotel, cards[1]), stays[1].told()["verdict"]["answer"]) == (["101"], "opens")
    stays[1].change(rooms=["102"])  # the card of the guest who has left may still open: it does not move either
    assert "102" not in _used(hotel, cards[0])


@pytest.mark.parametrize("hours", [3, 96])
def test_one_of_two_guests_of_a_room_leaves_at_another_time(world: World, house: Houses, hours: int) -> None:
    hotel, stays, cards = _two_cards(house, ("101", "101"))
    stays[1].change(end=world.now + timedelta(hours=hours))
    assert [_used(hotel, card) for card in cards] == [["101"], ["101"]]
    assert stays[1].told()["verdict"]["why"] == "card_old"
    _write_again(hotel, stays[1], cards[1])
    assert stays[1].told()["verdict"]["why"] == "occupied"
    world.advance(hours=5)
    assert [hotel.opens("101", card) for card in cards] == [True, hours > 5]
    world.advance(hours=73)
    assert [hotel.opens("101", card) for card in cards] == [False, hours > 78]


@pytest.mark.parametrize("let", ["101", "102"])
def test_a_card_over_pms_for_two_rooms_of_which_one_is_let_opens_both_once_written_again(
    world: World, house: Houses, let: str
) -> None:
    hotel = house({"101": "salto", "102": "salto"}, policy=CARDS)
    hotel.speak_pms()
    first, second = hotel.book([let]), hotel.book(["101", "102"])
    hers, card = first.encode(), second.encode()
    assert hers is not None
    assert [_used(hotel, hers), _used(hotel, card)] == [[let], ["102" if let == "101" else "101"]]
    assert (second.told()["verdict"]["why"], "DOORS_MISSING" in warnings(second)) == ("card_old", False)
    _write_again(hotel, second, card)
    assert [_used(hotel, hers), _used(hotel, card)] == [[let], ["101", "102"]]
    assert (second.told()["verdict"]["why"], second.key()["allowedActions"].count("encode")) == ("occupied", 0)


def _beside_a_let_room(house: Houses, others: list[str]) -> tuple[House, Stay, Any]:
    """Let a guest's card for 101 be written over the PMS protocol where others have the rooms named."""
    hotel = house(dict.fromkeys(("101", "102", "103"), "salto"), policy=CARDS)
    hotel.speak_pms()
    for room in others:
        hotel.use(room, hotel.book([room]).encode())
    stay = hotel.book(["101"])
    card = stay.encode()
    assert hotel.use("101", card)
    return hotel, stay, card


@pytest.mark.parametrize("others", [["103"], ["101", "103"]])
def test_a_card_over_pms_moves_into_a_free_room_and_a_let_one(world: World, house: Houses, others: list[str]) -> None:
    hotel, stay, card = _beside_a_let_room(house, others)
    stay.change(rooms=["102", "103"])
    for verb in ("encode", "retry", "encode"):  # a room to start a stay in is written before one to join in
        if verb in stay.key()["allowedActions"]:
            hotel.lay("salto", card)
            act(stay, verb)
    assert [hotel.use(room, card) for room in ("101", "102", "103")] == [False, True, True]
    assert stay.told()["verdict"]["why"] == "occupied"


@pytest.mark.parametrize("others", [[], ["101"], ["103"], ["101", "103"]])
def test_a_card_over_pms_gains_a_let_room_and_for_a_free_one_a_new_card_is_asked_for(
    world: World, house: Houses, others: list[str]
) -> None:
    hotel, stay, card = _beside_a_let_room(house, others)
    gained = ["103"] if "103" in others else []
    stay.change(rooms=["101", "102", *gained])
    assert ("encode" in stay.key()["allowedActions"]) == bool(gained)
    if gained:
        _write_again(hotel, stay, card)
    assert [room for room in ("101", "102", "103") if hotel.use(room, card)] == ["101", *gained]
    key = stay.key()
    assert "encode" not in key["allowedActions"]
    (missing,) = (warning["detail"] for warning in key["warnings"] if warning["code"] == "DOORS_MISSING")
    assert "Replace" in missing
    act(stay, "replace")
    fresh = Artifact("rfid_card", hotel.lay("salto"), stay.key()["id"])
    act(stay, "encode")
    for _ in range(2):
        if "encode" in stay.key()["allowedActions"]:
            hotel.lay("salto", fresh)
            act(stay, "encode")
    assert [room for room in ("101", "102", "103") if hotel.use(room, fresh)] == ["101", "102", *gained]


def test_a_card_over_pms_leaves_one_of_two_let_rooms_for_a_free_one_by_a_new_card(world: World, house: Houses) -> None:
    hotel = house(dict.fromkeys(("101", "102", "103"), "salto"), policy=CARDS)
    hotel.speak_pms()
    for room in ("101", "103"):
        hotel.use(room, hotel.book([room]).encode())
    stay = hotel.book(["101", "103"])
    card = stay.encode()
    stay.change(rooms=["101", "102"])
    assert [hotel.use(room, card) for room in ("101", "102", "103")] == [True, False, True]
    _write_again(hotel, stay, card)
    assert [hotel.use(room, card) for room in ("101", "102", "103")] == [True, False, False]
    key = stay.key()
    assert "encode" not in key["allowedActions"]
    assert any("Replace" in warning["detail"] for warning in key["warnings"])
    act(stay, "replace")
    fresh = Artifact("rfid_card", hotel.lay("salto"), stay.key()["id"])
    for _ in range(2):
        if "encode" in stay.key()["allowedActions"]:
            act(stay, "encode")
    assert [hotel.use(room, fresh) for room in ("101", "102", "103")] == [True, True, False]


@pytest.mark.parametrize("vendor", ["ttlock", "mock"])
def test_two_stays_are_told_of_though_the_locks_of_a_guests_two_rooms_changed_places(
    world: World, house: Houses, vendor: str
) -> None:
    hotel = house(dict.fromkeys(("101", "103"), vendor), policy={"kinds": ["pin_code"], "default_areas": []})
    first = hotel.book(["101", "103"])
    hotel.swap_locks("101", "103")
    assert [first.opens(room) for room in ("101", "103")] == [True, True]
    second = hotel.book(["101"])
    assert [stay.opens("101") for stay in (first, second)] == [True, True]
    assert (warnings(first), warnings(second)) == ([OVERLAP], [OVERLAP])
