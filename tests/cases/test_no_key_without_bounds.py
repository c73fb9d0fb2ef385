"""How long a key may open, and how many rooms: by the house's policy, wherever the key comes from.

A key for a stay that no booking told of takes a supervisor and a reason, is recorded and told.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.stage import House, Stay, World

ROOMS = {str(number): "mock" for number in range(101, 125)}


@pytest.fixture
def hotel(house: Callable[..., House]) -> House:
    return house(ROOMS, policy={"longest_window_days": 60, "longest_unbooked_days": 7, "most_rooms": 20})


def _body(hotel: House, days: float, rooms: int = 1, **more: Any) -> dict[str, Any]:
    start = hotel.world.now
    return {
        "reservationId": "rsv_nobody_told_of",
        "propertyId": hotel.property_id,
        "rooms": list(hotel.rooms.values())[:rooms],
        "validFrom": start.isoformat(),
        "validUntil": (start + timedelta(days=days)).isoformat(),
        "holderId": "gst_walk_in",
        "preferredKinds": ["pin_code"],
        **more,
    }


def _refused(hotel: House, answer: Any) -> tuple[int, str, dict[str, Any]]:
    """The answer's status, code and fields, once it is sure that nothing came of the request."""
    hotel.world.settle()
    assert hotel.footprint() == {"keys": 0, "events": 0, "vendor calls": 0}
    body = answer.json()
    return answer.status_code, body["code"].removeprefix("MELMASTOON.LOCK."), body["fields"]


def test_a_clerk_makes_no_key_for_a_stay_nobody_told_of(hotel: House) -> None:
    answer = hotel.caller("front_desk").post("/lock/v1/credentials", _body(hotel, 1, reason="walk-in at night"))
    assert _refused(hotel, answer)[:2] == (403, "FORBIDDEN")


def test_a_supervisor_says_why_no_booking_told_of_the_stay(hotel: House) -> None:
    answer = hotel.caller("front_desk_supervisor").post("/lock/v1/credentials", _body(hotel, 1))
    assert _refused(hotel, answer) == (400, "VALIDATION_FAILED", {"reason": "is required"})


def test_a_supervisors_key_without_a_booking_opens_is_recorded_and_told(hotel: House) -> None:
    desk = hotel.caller("front_desk_supervisor", subject="usr_night")
    answer = desk.post("/lock/v1/credentials", _body(hotel, 1, reason="walk-in at night"))
    assert answer.status_code == 202, answer.content
    hotel.world.settle()
    stay = Stay(hotel, "rsv_nobody_told_of")
    assert [stay.opens("101"), stay.opens("102")] == [True, False]
    assert [alert["code"] for alert in hotel.alerts()] == ["KEY_WITHOUT_BOOKING"]
    assert ("usr_night", "issue", "walk-in at night") in hotel.recorded_actions()


@pytest.mark.parametrize("days", [7.1, 25_000])
def test_a_key_without_a_booking_is_no_longer_than_the_policy_allows(hotel: House, days: float) -> None:
    body = _body(hotel, days, reason="walk-in at night")
    status, code, fields = _refused(hotel, hotel.caller("front_desk_supervisor").post("/lock/v1/credentials", body))
    assert (status, code, list(fields)) == (400, "VALIDATION_FAILED", ["validUntil"])


def test_no_key_opens_more_rooms_than_the_policy_allows(hotel: House) -> None:
    body = _body(hotel, 1, rooms=21, reason="a group")
    status, code, fields = _refused(hotel, hotel.caller("front_desk_supervisor").post("/lock/v1/credentials", body))
    assert (status, code, list(fields)) == (400, "VALIDATION_FAILED", ["rooms"])


def test_a_key_of_a_booking_is_not_extended_beyond_the_policy(world: World, hotel: House) -> None:
    stay = hotel.book(["101"])
    path, until = f"/lock/v1/credentials/{stay.key()['id']}", (world.now + timedelta(days=61)).isoformat()
    before = hotel.footprint()
    answer = hotel.caller("front_desk").patch(path, {"validUntil": until})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["validUntil"])
    answer = hotel.caller("front_desk").patch(path, {"rooms": list(hotel.rooms.values())[:21]})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["rooms"])
    world.settle()
    assert hotel.footprint() == before
    assert not stay.opens("101", world.now + timedelta(days=59))


def test_a_second_key_of_a_booked_stay_has_the_same_bounds(world: World, hotel: House) -> None:
    stay = hotel.book(["101"])
    before = hotel.footprint()
    body = {"reservationId": stay.id, "validUntil": (world.now + timedelta(days=25_000)).isoformat()}
    answer = hotel.caller("front_desk").post("/lock/v1/credentials", body)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["validUntil"])
    world.settle()
    assert hotel.footprint() == before


def test_a_booking_until_the_end_of_the_century_gets_in_now_and_is_told(world: World, hotel: House) -> None:
    stay = hotel.book(["101"], end=world.now + timedelta(days=25_000))
    assert stay.opens("101")
    assert stay.opens("101", world.now + timedelta(days=59))
    assert not stay.opens("101", world.now + timedelta(days=61))
    assert [alert["code"] for alert in hotel.alerts()] == ["STAY_BEYOND_POLICY"]


def test_a_booking_of_many_rooms_gets_them_and_is_told(hotel: House) -> None:
    stay = hotel.book(list(ROOMS)[:21])
    assert [stay.opens(label) for label in list(ROOMS)[:22]] == [True] * 21 + [False]
    assert [alert["code"] for alert in hotel.alerts()] == ["STAY_BEYOND_POLICY"]
