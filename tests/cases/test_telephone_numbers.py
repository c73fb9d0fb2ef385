"""A key for a phone goes to the number that the guest has, however it was written, or it is no key for a phone."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.stage import Artifact, House, Stay, World

Houses = Callable[..., House]
PHONE, PIN = "mobile_app", "pin_code"
UNUSABLE, CHANGED = "PHONE_UNUSABLE", "KIND_CHANGED"
PHONES_ONLY = {"kinds": [PHONE], "default_areas": []}
PHONES_FIRST = {"kinds": [PHONE, PIN], "default_areas": []}
PINS_FIRST = {"kinds": [PIN], "default_areas": []}
WRITTEN = {
    "101": ("0700123401", "+93700123401"),
    "102": ("(0) 700-123 402", "+93700123402"),
    "103": ("0093 700 123 403", "+93700123403"),
    "104": ("\u06f0\u06f7\u06f0\u06f0\u06f1\u06f2\u06f3\u06f4\u06f0\u06f4", "+93700123404"),  # Persian digits
    "105": (
        "\u0660\u0660\u0669\u0663 \u0667\u0660\u0660 \u0661\u0662\u0663 \u0664\u0660\u0665",
        "+93700123405",
    ),  # Arabic-Indic
    "106": ("+93700123406", "+93700123406"),
    "107": ("00351 912 345 678", "+351912345678"),
}
NO_NUMBERS = (
    "12345",
    "0700123456 ext. 12",
    "020 123 4567",
    "ask at the desk",
    "0700 123 456 or, in the evening, 0700 123 457; please no calls",
)
MASKED = ("+93700123XXX", "0700FLOWER")


def warnings(stay: Stay) -> list[str]:
    return [warning["code"] for warning in stay.key()["warnings"]]


def rings(hotel: House, room: str, number: str) -> bool:
    """Say whether the phone with this number opens a room of a SALTO house."""
    return hotel.opens(room, Artifact(PHONE, number, ""))


def receivers(hotel: House, vendor: str) -> list[str]:
    """Return to whom the vendor sends this house's keys for phones."""
    dump = hotel.world.simulator(vendor).get(f"/dump?house={hotel.code}")
    return sorted(phone["owner"] for row in dump["houses"] for phone in row["phones"])


def test_however_a_number_is_written_the_guests_own_phone_opens_the_door(world: World, house: Houses) -> None:
    hotel = house(dict.fromkeys(WRITTEN, "salto"), policy=PHONES_ONLY)
    stays = {room: hotel.book([room], contact={"phoneE164": written}) for room, (written, _) in WRITTEN.items()}
    assert {room: stay.key()["state"] for room, stay in stays.items()} == dict.fromkeys(WRITTEN, "active")
    for room, (_, number) in WRITTEN.items():
        assert {at: rings(hotel, at, number) for at in WRITTEN} == {at: at == room for at in WRITTEN}
    assert [warnings(stay) for stay in stays.values()] == [[]] * len(WRITTEN)


def test_a_vendor_of_another_make_gets_the_same_number(world: World, house: Houses) -> None:
    hotel = house({"101": "assa-abloy", "102": "assa-abloy"}, policy=PHONES_ONLY)
    stays = [hotel.book([room], contact={"phoneE164": WRITTEN[room][0]}) for room in ("101", "102")]
    assert receivers(hotel, "assa-abloy") == ["+93700123401", "+93700123402"]
    assert [stay.opens(room) for stay, room in zip(stays, ("101", "102"), strict=True)] == [True, True]


@pytest.mark.parametrize("written", NO_NUMBERS)
def test_a_guest_whose_number_reaches_no_phone_gets_another_kind_of_key(world: World, house: Houses, written: str) -> None:
    hotel = house({"101": "salto"}, policy=PHONES_FIRST)
    stay = hotel.book(["101"], contact={"phoneE164": written})
    key = stay.key()
    assert (key["kind"], key["state"], warnings(stay)) == (PIN, "active", [UNUSABLE, CHANGED])
    assert stay.opens("101")
    assert not rings(hotel, "101", written)
    told = json.dumps([hotel.events(), hotel.alerts(), key])
    assert written not in told


@pytest.mark.parametrize("written", MASKED)
def test_a_masked_number_reaches_no_strangers_phone(world: World, house: Houses, written: str) -> None:
    hotel = house({"101": "salto"}, policy=PHONES_FIRST)
    stay = hotel.book(["101"], contact={"phoneE164": written})
    assert (stay.key()["kind"], warnings(stay), stay.opens("101")) == (PIN, [UNUSABLE, CHANGED], True)
    for number in ("+93700123999", "+93700356937"):  # what a keypad's letters would make of them
        assert not rings(hotel, "101", number)


def test_without_another_kind_the_key_fails_and_says_why_and_no_vendor_is_asked(world: World, house: Houses) -> None:
    hotel = house({"101": "salto"}, policy=PHONES_ONLY)
    stay = hotel.book(["101"], contact={"phoneE164": "12345"})
    key = stay.key()
    assert (key["state"], key["failureCode"], warnings(stay)) == ("failed", "KEY_ISSUE_FAILED", [UNUSABLE])
    (failed,) = hotel.events("credential.failed")
    assert failed["data"]["failureReason"] == "no_phone"
    (alert,) = hotel.alerts()
    assert (alert["code"], alert["severity"], alert["key"]) == ("KEY_ISSUE_FAILED", "critical", key["id"])
    assert hotel.vendor_calls() == 0
    page = hotel.console().get(f"/console/credentials/keycredential/{key['id']}/change/")
    assert UNUSABLE in page.content.decode()


def test_a_corrected_number_gets_the_key_that_failed(world: World, house: Houses) -> None:
    hotel = house({"101": "salto"}, policy=PHONES_ONLY)
    stay = hotel.book(["101"], contact={"phoneE164": "12345"})
    stay.change(contact={"phoneE164": "0700123456"})
    if stay.key()["state"] == "failed":
        retried = hotel.caller("front_desk_supervisor").post(f"/lock/v1/credentials/{stay.key()['id']}/retry", {})
        assert retried.status_code in (200, 201, 202), retried.content
        world.settle()
    assert (stay.key()["state"], warnings(stay)) == ("active", [])
    assert rings(hotel, "101", "+93700123456")


def test_a_vendor_that_can_do_without_a_number_gets_none_that_cannot_be_read(world: World, house: Houses) -> None:
    hotel = house({"101": "assa-abloy"}, policy=PHONES_ONLY)
    stay = hotel.book(["101"], contact={"phoneE164": "12345"})
    assert (stay.key()["state"], UNUSABLE in warnings(stay), stay.opens("101")) == ("active", True, True)
    assert receivers(hotel, "assa-abloy") == [f"gst_{stay.id[-8:]}"]


@pytest.mark.parametrize(("written", "kind"), [("0700 123 456", PHONE), ("12345", PIN)])
def test_a_key_asked_for_at_the_desk_goes_to_the_same_number(world: World, house: Houses, written: str, kind: str) -> None:
    hotel = house({"101": "salto"}, policy=PINS_FIRST)
    stay = hotel.book(["101"], contact={"phoneE164": written})
    assert stay.key()["kind"] == PIN
    body = {"reservationId": stay.id, "preferredKinds": [PHONE]}
    made = hotel.caller().post("/lock/v1/credentials", body, key="phone").json()["credential"]["id"]
    world.settle()
    key = stay.credential(made)
    assert (key["kind"], key["state"]) == (kind, "active")
    assert UNUSABLE not in [w["code"] for w in key["warnings"]] or kind == PIN
    assert rings(hotel, "101", "+93700123456") == (kind == PHONE)


def test_the_house_says_whose_numbers_come_without_a_countrys_code(world: World, house: Houses) -> None:
    hotel = house({"101": "salto"}, policy={**PHONES_ONLY, "phone_country": "PT"})
    stay = hotel.book(["101"], contact={"phoneE164": "912 345 678"})
    assert (stay.key()["state"], rings(hotel, "101", "+351912345678")) == ("active", True)


def test_where_no_country_is_known_a_number_without_a_code_is_none(world: World, house: Houses) -> None:
    hotel = house({"101": "salto", "102": "salto"}, policy=PHONES_FIRST, zone="UTC")
    local, abroad = (hotel.book([room], contact={"phoneE164": WRITTEN[of][0]}) for room, of in (("101", "101"), ("102", "103")))
    assert [stay.key()["kind"] for stay in (local, abroad)] == [PIN, PHONE]
    assert rings(hotel, "102", "+93700123403")
