"""A card that lies on the encoder still holds another guest's key: nobody loses a key, or gains a door, unasked."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.stage import Artifact, House, Stay, World

Houses = Callable[..., House]
CARDS = {"kinds": ["rfid_card"], "default_areas": []}
VENDORS = {
    "salto": "salto", "salto by pms": "salto", "assa-abloy": "assa-abloy", "generic-wiegand": "generic-wiegand",
    "generic lock without a line": "generic-wiegand",
}  # fmt: skip
"""Lock systems whose encoder reads what lies on it, and whose they are."""
READING = pytest.mark.parametrize("system", list(VENDORS))
WAIT_S = 60.0
CODE = "CARD_IN_USE"


def at_the_desk(house: Houses, system: str, rooms: tuple[str, ...] = ("101", "102")) -> House:
    """Put up rooms with a desk that writes the card a person lays down."""
    vendor = VENDORS[system]
    alone = rooms if system == "generic lock without a line" else ()
    hotel = house(dict.fromkeys(rooms, vendor), policy=CARDS, stand_alone=alone)
    if system == "salto by pms":
        hotel.speak_pms()
    if vendor == "generic-wiegand":
        hotel.seat_desk(vendor)
    return hotel


def lay_again(hotel: House, system: str, card: Artifact) -> None:
    """Lay a card that a guest has, long after it was written: a desk that still knows it would wait for it to be taken away."""
    hotel.lay(VENDORS[system], card)
    if VENDORS[system] == "generic-wiegand":
        hotel.close()
        hotel.seat_desk(VENDORS[system])


def ask(stay: Stay, **body: Any) -> str:
    """Press *encode* for the stay's key that waits for the desk. Returns its id."""
    waiting = next(key for key in stay.keys() if key["waitingFor"] == "desk")  # noqa: SIM118 - asks the API
    answer = stay.house.caller().post(f"/lock/v1/credentials/{waiting['id']}/encode", body)
    assert answer.status_code in (200, 202), answer.content
    return str(waiting["id"])


def come_to_rest(stay: Stay, key_id: str) -> dict[str, Any]:
    """Work until a key is active or waits for the desk, also where a desk in the house does the work."""
    ends = time.monotonic() + WAIT_S
    while True:
        stay.house.world.settle()
        key = stay.credential(key_id)
        if key["state"] not in ("requested", "pending") or key["waitingFor"]:
            return key
        assert time.monotonic() < ends, f"the key comes to no rest: {key}"
        time.sleep(0.05)


def written(stay: Stay, number: str, **body: Any) -> Artifact:
    """Have the stay's key written on the card that lies there, and hand it over."""
    key = come_to_rest(stay, ask(stay, **body))
    assert key["state"] == "active", key
    return Artifact("rfid_card", number, key["id"])


def between_two_cards(house: Houses, system: str) -> tuple[House, Stay, Artifact, Artifact]:
    """Return a guest of 102 without a card, and the cards of 101, which lies on the encoder, and of 103."""
    hotel = at_the_desk(house, system, ("101", "102", "103"))
    first, second, third = (hotel.book([room]) for room in ("101", "102", "103"))
    hers, other = (written(stay, hotel.lay(VENDORS[system])) for stay in (first, third))
    lay_again(hotel, system, hers)
    return hotel, second, hers, other


def told(stay: Stay) -> str:
    """Return which key lies on the card, as the stay's waiting key tells it."""
    return str(stay.key()["cardInUse"])


def codes(key: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in key["warnings"]]


def hidden(page: str, name: str) -> str:
    """Return the value of a page's hidden field."""
    found = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)"', page)
    assert found, f"no hidden {name}"
    return found[1]


def opened(hotel: House, card: Artifact) -> list[bool]:
    return [hotel.opens(door, card) for door in ("101", "102")]


@READING
def test_the_next_key_is_not_written_on_a_card_in_use(world: World, house: Houses, system: str) -> None:
    hotel = at_the_desk(house, system)
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hers = written(first, hotel.lay(VENDORS[system]))
    lay_again(hotel, system, hers)
    key = come_to_rest(second, ask(second))
    assert (key["state"], key["waitingFor"]) == ("pending", "desk")
    assert CODE in codes(key)
    assert "encode" in key["allowedActions"]
    assert opened(hotel, hers) == [True, False]
    assert first.key()["state"] == "active"
    assert hotel.held("102") == []
    fresh = written(second, hotel.lay(VENDORS[system]))
    assert [opened(hotel, hers), opened(hotel, fresh)] == [[True, False], [False, True]]
    assert CODE not in codes(second.key())


@READING
def test_a_confirmed_card_is_written_and_its_guest_gets_another(world: World, house: Houses, system: str) -> None:
    hotel = at_the_desk(house, system)
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hers = written(first, hotel.lay(VENDORS[system]))
    lay_again(hotel, system, hers)
    assert come_to_rest(second, ask(second))["waitingFor"] == "desk"
    card = written(second, hers.value, confirmCardInUse=told(second))
    assert opened(hotel, card) == [False, True]
    world.settle()
    lost = first.credential(hers.key_id)
    assert (lost["state"], first.key()["waitingFor"]) == ("revoked", "desk")
    assert "CARD_OVERWRITTEN" in codes(first.key())


@READING
def test_a_card_of_the_same_stay_is_written_without_asking(world: World, house: Houses, system: str) -> None:
    hotel = at_the_desk(house, system)
    stay = hotel.book(["101"])
    hers = written(stay, hotel.lay(VENDORS[system]))
    companion = {"reservationId": stay.id, "preferredKinds": ["rfid_card"]}
    assert hotel.caller().post("/lock/v1/credentials", companion).status_code in (201, 202)
    world.settle()
    lay_again(hotel, system, hers)
    card = written(stay, hers.value)
    world.settle()
    assert opened(hotel, card) == [True, False]
    other = stay.key()
    assert (stay.credential(hers.key_id)["state"], other["waitingFor"]) == ("revoked", "desk")
    assert "CARD_OVERWRITTEN" in codes(other)
    second = written(stay, hotel.lay(VENDORS[system]))
    assert [opened(hotel, one) for one in (card, second)] == [[True, False], [True, False]]


@READING
def test_a_guests_own_old_card_is_written_for_her_new_key(world: World, house: Houses, system: str) -> None:
    hotel = at_the_desk(house, system)
    stay = hotel.book(["101"])
    hers = written(stay, hotel.lay(VENDORS[system]))
    answer = hotel.caller("front_desk_supervisor").post(f"/lock/v1/credentials/{hers.key_id}/replace", {})
    assert answer.status_code in (200, 201, 202), answer.content
    world.settle()
    lay_again(hotel, system, hers)
    card = written(stay, hers.value)
    assert card.key_id != hers.key_id
    assert opened(hotel, card) == [True, False]
    assert CODE not in codes(stay.credential(card.key_id))


def suspend(stay: Stay, *, ends: bool = False) -> None:
    """Suspend the stay's key, or let it open again."""
    verb, body = ("unsuspend", {}) if ends else ("suspend", {"reason": "manual"})
    answer = stay.house.caller("front_desk_supervisor").post(f"/lock/v1/credentials/{stay.key()['id']}/{verb}", body)
    assert answer.status_code in (200, 202), answer.content
    stay.house.world.settle()


@READING
def test_a_card_whose_key_rests_is_in_use(world: World, house: Houses, system: str) -> None:
    hotel = at_the_desk(house, system)
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hers = written(first, hotel.lay(VENDORS[system]))
    suspend(first)
    lay_again(hotel, system, hers)
    key = come_to_rest(second, ask(second))
    assert (key["state"], key["waitingFor"], CODE in codes(key)) == ("pending", "desk", True)
    suspend(first, ends=True)
    assert opened(hotel, hers) == [True, False]


@pytest.mark.parametrize("named", [False, True])
def test_a_card_written_while_its_visionline_key_rested_stays_the_next_guests(world: World, house: Houses, named: bool) -> None:
    hotel = at_the_desk(house, "assa-abloy")
    hotel.speak_visionline(named=named)
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hers = written(first, hotel.lay("assa-abloy"))
    suspend(first)
    hotel.lay("assa-abloy", hers)
    card = written(second, hers.value)
    suspend(first, ends=True)
    assert opened(hotel, card) == [False, True]
    assert second.key()["state"] == "active"
    assert first.key()["state"] == "suspended"
    assert [(alert["code"], alert["key"]) for alert in hotel.alerts()] == [("DOOR_NOT_REACHED", hers.key_id)]
    assert codes(first.key()) == ["DOORS_MISSING"]


def test_a_confirmation_is_for_the_key_that_was_told_of(world: World, house: Houses) -> None:
    hotel = house({"101": "salto", "102": "salto", "103": "salto"}, policy=CARDS)
    first, second, third = hotel.book(["101"]), hotel.book(["102"]), hotel.book(["103"])
    hers = written(first, hotel.lay("salto"))
    other = written(third, hotel.lay("salto"))
    hotel.lay("salto", hers)
    assert come_to_rest(second, ask(second))["waitingFor"] == "desk"
    hotel.lay("salto", other)
    assert come_to_rest(second, ask(second, confirmCardInUse=told(second)))["waitingFor"] == "desk"
    assert hotel.opens("103", other)
    assert not hotel.opens("102", other)


@READING
def test_a_confirmation_is_not_taken_for_the_card_another_clerk_laid(world: World, house: Houses, system: str) -> None:
    hotel, second, hers, other = between_two_cards(house, system)
    assert come_to_rest(second, ask(second))["cardInUse"] == hers.key_id  # the first clerk is told
    lay_again(hotel, system, other)
    assert come_to_rest(second, ask(second))["cardInUse"] == other.key_id  # and so is a second one, of her card
    calls, events, before = hotel.vendor_calls(), len(hotel.events()), second.key()
    address = f"/lock/v1/credentials/{before['id']}/encode"
    answer = hotel.caller().post(address, {"confirmCardInUse": hers.key_id})
    assert (answer.status_code, answer.json()["code"]) == (409, f"MELMASTOON.LOCK.{CODE}")
    assert answer.json()["fields"]["confirmCardInUse"] == other.key_id
    browser, page = hotel.console(), f"/console/credentials/keycredential/{before['id']}/act/encode/"
    form = {"act_id": "7" * 32, "reason": "she has lost it", "confirm_card_in_use": "on", "card_in_use": hers.key_id}
    refused = browser.post(page, form)
    assert refused.status_code == 409
    assert hidden(refused.content.decode(), "card_in_use") == other.key_id
    world.settle()
    assert (hotel.vendor_calls(), len(hotel.events()), second.key()) == (calls, events, before)
    assert [hotel.opens(door, other) for door in ("102", "103")] == [False, True]
    card = written(second, other.value, confirmCardInUse=other.key_id)
    assert [hotel.opens(door, card) for door in ("102", "103")] == [True, False]
    assert opened(hotel, hers) == [True, False]


@READING
def test_a_confirmation_is_spent_once_another_card_was_told_of(world: World, house: Houses, system: str) -> None:
    hotel, second, hers, other = between_two_cards(house, system)
    come_to_rest(second, ask(second))
    lay_again(hotel, system, other)  # after a person was told of hers, and before she confirms
    assert come_to_rest(second, ask(second, confirmCardInUse=hers.key_id))["cardInUse"] == other.key_id
    lay_again(hotel, system, hers)
    key = come_to_rest(second, ask(second))
    assert (key["state"], key["cardInUse"]) == ("pending", hers.key_id)
    assert opened(hotel, hers) == [True, False]
    card = written(second, hers.value, confirmCardInUse=hers.key_id)
    assert opened(hotel, card) == [False, True]


@READING
@pytest.mark.parametrize("rooms", [("103",), ("103", "104")])
def test_a_key_that_moves_while_its_card_is_in_use_is_written(
    world: World, house: Houses, system: str, rooms: tuple[str, ...]
) -> None:
    hotel = at_the_desk(house, system, ("101", "102", "103", "104"))
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hers = written(first, hotel.lay(VENDORS[system]))
    lay_again(hotel, system, hers)
    come_to_rest(second, ask(second))
    second.change(rooms=list(rooms))
    card = written(second, hotel.lay(VENDORS[system]))
    assert [hotel.opens(door, card) for door in ("101", "102", "103", "104")] == [False, False, True, "104" in rooms]
    assert opened(hotel, hers) == [True, False]


@READING
def test_a_key_that_is_over_asks_nobody_about_a_card(world: World, house: Houses, system: str) -> None:
    hotel = at_the_desk(house, system)
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hers = written(first, hotel.lay(VENDORS[system]))
    lay_again(hotel, system, hers)
    key_id = come_to_rest(second, ask(second))["id"]
    second.cancel()
    key = second.credential(key_id)
    assert (key["state"], key["cardInUse"], CODE in codes(key)) == ("failed", None, False)
    assert opened(hotel, hers) == [True, False]


@pytest.mark.parametrize("vendor", ["salto", "assa-abloy", "generic-wiegand"])
def test_rooms_gained_while_the_card_is_in_use_are_on_the_card(world: World, house: Houses, vendor: str) -> None:
    hotel = house({"101": vendor, "102": vendor, "103": vendor}, policy=CARDS)
    if vendor == "generic-wiegand":
        hotel.seat_desk(vendor)
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hers = written(first, hotel.lay(vendor))
    lay_again(hotel, vendor, hers)
    assert come_to_rest(second, ask(second))["waitingFor"] == "desk"
    second.change(rooms=["102", "103"])
    card = written(second, hotel.lay(vendor))
    assert [hotel.opens(door, card) for door in ("101", "102", "103")] == [False, True, True]
    assert [opened(hotel, hers), codes(second.key())] == [[True, False], []]


def test_a_card_whose_own_writing_is_unclear_cannot_be_confirmed_away(world: World, house: Houses) -> None:
    hotel = at_the_desk(house, "salto by pms")
    first, second = hotel.book(["101"]), hotel.book(["102"])
    number = hotel.lay("salto")
    for fault in ({"command": "CN", "do": "drop", "times": 1}, {"command": "LT", "do": "drop", "skip": 1, "times": 1}):
        hotel.fault("salto", {"surface": "pms", "property": hotel.code, **fault})
    with world.retries_shortened(1000):  # nobody looks again before the next guest stands there
        first_key = ask(first)
        world.work_without_retries()
        assert first.credential(first_key)["state"] == "pending"
        second_key = ask(second)
        world.work_without_retries()
        assert second.credential(second_key)["waitingFor"] == "desk"
        calls = hotel.vendor_calls()
        answer = hotel.caller().post(f"/lock/v1/credentials/{second_key}/encode", {"confirmCardInUse": told(second)})
        assert (answer.status_code, answer.json()["code"]) == (409, f"MELMASTOON.LOCK.{CODE}")
        world.work_without_retries()
        assert (second.credential(second_key)["waitingFor"], hotel.vendor_calls()) == ("desk", calls)
    world.settle()
    assert first.credential(first_key)["state"] == "active"
    hers = Artifact("rfid_card", number, first_key)
    assert opened(hotel, hers) == [True, False]
    card = written(second, number, confirmCardInUse=told(second))
    assert opened(hotel, card) == [False, True]


def test_the_operation_says_that_the_card_is_in_use(world: World, house: Houses) -> None:
    hotel = at_the_desk(house, "salto")
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hotel.lay("salto", written(first, hotel.lay("salto")))
    key_id, caller = second.key()["id"], hotel.caller()
    answer = caller.post(f"/lock/v1/credentials/{key_id}/encode", {})
    come_to_rest(second, key_id)
    operation = caller.get(answer.headers["Location"]).json()
    assert (operation["status"], operation["errorCode"]) == ("failed", CODE)
    hotel.lay("salto")
    answer = caller.post(f"/lock/v1/credentials/{key_id}/encode", {})
    come_to_rest(second, key_id)
    operation = caller.get(answer.headers["Location"]).json()
    assert (operation["status"], operation["errorCode"]) == ("succeeded", None)


def test_the_console_tells_of_a_card_in_use_and_asks(world: World, house: Houses) -> None:
    hotel = house({"101": "salto", "102": "salto"}, policy=CARDS)
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hers = written(first, hotel.lay("salto"))
    hotel.lay("salto", hers)
    key = come_to_rest(second, ask(second))
    browser = hotel.console()
    address = f"/console/credentials/keycredential/{key['id']}/"
    page = browser.get(f"{address}change/").content.decode()
    assert CODE in page
    assert "confirm_card_in_use" in page
    assert key["id"] in browser.get("/console/credentials/keycredential/?waiting=desk").content.decode()
    form = {"act_id": "5" * 32, "reason": "the first guest has lost it here", "confirm_card_in_use": "on"}
    form["card_in_use"] = hidden(page, "card_in_use")
    assert form["card_in_use"] == hers.key_id
    assert browser.post(f"{address}act/encode/", form).status_code == 302
    assert come_to_rest(second, key["id"])["state"] == "active"
    assert opened(hotel, hers) == [False, True]


@pytest.mark.parametrize("system", ["salto", "salto by pms", "assa-abloy"])
def test_a_guest_who_has_left_keeps_no_card_from_the_next(world: World, house: Houses, system: str) -> None:
    hotel = at_the_desk(house, system)
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hers = written(first, hotel.lay(VENDORS[system]))
    first.check_out()
    lay_again(hotel, system, hers)
    card = written(second, hers.value)
    assert opened(hotel, card) == [False, True]


def test_a_card_number_of_another_guest_is_refused_before_anything_is_asked(world: World, house: Houses) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock"}, policy=CARDS)
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hers = first.encode(cardNumber="3000000001")
    assert hers is not None
    calls, key = hotel.vendor_calls(), second.key()
    body = {"cardNumber": "3000000001"}
    answer = hotel.caller().post(f"/lock/v1/credentials/{key['id']}/encode", body)
    assert (answer.status_code, answer.json()["code"]) == (409, f"MELMASTOON.LOCK.{CODE}")
    world.settle()
    assert (second.key()["state"], second.key()["waitingFor"]) == ("requested", "desk")
    assert hotel.vendor_calls() == calls
    assert opened(hotel, hers) == [True, False]
    browser = hotel.console()
    form = {"act_id": "6" * 32, "reason": "at the desk", "card_number": "3000000001"}
    address = f"/console/credentials/keycredential/{key['id']}/act/encode/"
    asked = browser.post(address, form)
    assert asked.status_code == 409
    page = asked.content.decode()
    assert "confirm_card_in_use" in page
    form |= {"confirm_card_in_use": "on", "card_in_use": hidden(page, "card_in_use")}
    assert browser.post(address, form).status_code == 302
    world.settle()
    assert hotel.opens("102", hers)
    assert first.credential(hers.key_id)["state"] == "revoked"


@pytest.mark.parametrize("shared", [{}, {"lobby": "ttlock"}], ids=["room", "room and lobby"])
def test_a_number_of_the_same_stay_is_taken_without_asking(world: World, house: Houses, shared: dict[str, str]) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock"}, shared=shared, policy={"kinds": ["rfid_card"]})
    stay = hotel.book(["101"])
    hers = stay.encode(cardNumber="3000000002")
    assert hers is not None
    companion = {"reservationId": stay.id, "preferredKinds": ["rfid_card"]}
    assert hotel.caller().post("/lock/v1/credentials", companion).status_code in (201, 202)
    world.settle()
    key_id = ask(stay, cardNumber="3000000002")
    world.settle()
    assert (stay.credential(key_id)["state"], stay.credential(hers.key_id)["state"]) == ("active", "revoked")
    assert stay.key()["waitingFor"] == "desk"
    assert [hotel.opens(door, hers) for door in ("101", "102", *shared)] == [True, False, *(True for _ in shared)]


def test_a_confirmed_number_opens_the_lobby_for_the_next_guest(world: World, house: Houses) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock"}, shared={"lobby": "ttlock"}, policy={"kinds": ["rfid_card"]})
    first, second = hotel.book(["101"]), hotel.book(["102"])
    hers = first.encode(cardNumber="3000000003")
    assert hers is not None
    ask(second, cardNumber="3000000003", confirmCardInUse=hers.key_id)
    world.settle()
    assert (second.key()["state"], first.credential(hers.key_id)["state"]) == ("active", "revoked")
    assert [hotel.opens(door, hers) for door in ("101", "102", "lobby")] == [False, True, True]


def test_a_lost_cards_number_is_given_again_once_the_lock_has_let_go_of_it(world: World, house: Houses) -> None:
    hotel = house({"101": "ttlock"}, shared={"lobby": "ttlock"}, policy={"kinds": ["rfid_card"]})
    stay = hotel.book(["101"])
    hers = stay.encode(cardNumber="3000000004")
    assert hers is not None
    answer = hotel.caller("front_desk_supervisor").post(f"/lock/v1/credentials/{hers.key_id}/replace", {})
    assert answer.status_code in (200, 201, 202), answer.content
    key_id = ask(stay, cardNumber="3000000004")
    world.settle()
    assert stay.credential(key_id)["state"] == "active"
    assert [hotel.opens(door, hers) for door in ("101", "lobby")] == [True, True]


@pytest.mark.parametrize("room", ["101", "102"])
def test_a_number_given_in_the_moment_its_guest_leaves_opens_for_the_next(world: World, house: Houses, room: str) -> None:
    policy = {"kinds": ["rfid_card"], "late_grace_minutes": 0, "early_grace_minutes": 0}
    hotel = house({"101": "ttlock", "102": "ttlock"}, shared={"lobby": "ttlock"}, policy=policy)
    end = world.now + timedelta(hours=2)
    first, second = hotel.book(["101"], end=end), hotel.book([room], start=end, end=end + timedelta(days=2))
    hers = first.encode(cardNumber="3000000005")
    assert hers is not None
    world.stop_clock(end)  # nobody has taken her key back yet
    ask(second, cardNumber="3000000005")
    world.settle()
    assert second.key()["state"] == "active"
    assert [hotel.opens(door, hers) for door in ("101", "102", "lobby")] == [room == "101", room == "102", True]
