"""What a lock system lists is no proof of what a lock holds: a guest who may not get in does not, and one who may does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.stage import Artifact, House, World

TTLOCK = "ttlock"


@pytest.fixture
def hotel(house: Callable[..., House]) -> House:
    """Give a hotel whose locks keep codes in a memory of their own."""
    return house({"101": TTLOCK, "102": TTLOCK}, policy={"kinds": ["pin_code"], "default_areas": []})


def lock_of(hotel: House, room: str) -> int:
    return int(hotel.doors[room])


def tell(hotel: House, route: str, **body: Any) -> Any:
    """Speak to the control port of the simulator about room 101."""
    return hotel.world.simulator(TTLOCK).post(route, {"lockId": lock_of(hotel, "101"), **body})


def digits_at(hotel: House, room: str) -> list[Artifact]:
    return [Artifact(held.kind.value, held.value, "") for held in hotel.held(room) if not held.is_resting]


def test_a_code_that_only_the_door_has_opens_nothing_once_cancelled(world: World, hotel: House) -> None:
    tell(hotel, "/faults", path="keyboardPwd/add", effect="skip_cloud")
    stay = hotel.book(["101"], settle=False)
    world.work_without_retries()
    (code,) = digits_at(hotel, "101")
    assert hotel.opens("101", code)
    stay.cancel()
    assert not hotel.opens("101", code)
    assert digits_at(hotel, "101") == []
    assert world.waiting() == []


def test_where_such_a_code_cannot_be_taken_the_door_stays_open_work(world: World, hotel: House) -> None:
    tell(hotel, "/faults", path="keyboardPwd/add", effect="skip_cloud")
    stay = hotel.book(["101"], settle=False)
    world.work_without_retries()
    (code,) = digits_at(hotel, "101")
    client = {"clientId": f"app-{hotel.code}", "deleteByCode": "list"}
    world.simulator(TTLOCK).post("/habits", client)
    stay.cancel()
    assert hotel.opens("101", code)
    key = stay.key()
    assert (key["state"], key["propagation"]) != ("failed", "confirmed")
    assert [alert["severity"] for alert in hotel.alerts("KEY_REVOKE_FAILED")] == ["critical"]
    world.simulator(TTLOCK).post("/habits", client | {"deleteByCode": "lock"})
    world.settle()
    assert not hotel.opens("101", code)


@pytest.mark.parametrize("name", ["Room 101, pays in cash", ""], ids=["under another name", "without a name"])
def test_a_code_entered_again_by_hand_ends_with_the_stay(hotel: House, name: str) -> None:
    stay = hotel.book(["101"])
    code = stay.artifact()
    assert tell(hotel, "/cloud", renumber=code.value, name=name)["records"] == 1
    stay.check_out()
    assert not hotel.opens("101", code)
    assert stay.key()["propagation"] == "confirmed"


def test_a_code_entered_again_by_hand_is_extended_with_the_stay(world: World, hotel: House) -> None:
    stay = hotel.book(["101"])
    code = stay.artifact()
    tell(hotel, "/cloud", renumber=code.value, name="Room 101, pays in cash")
    stay.change(end=stay.end + timedelta(days=2))
    world.advance(days=3)
    assert hotel.opens("101", code)
    assert stay.artifact() == code
    stay.check_out()
    assert not hotel.opens("101", code)


def test_a_code_that_the_list_lost_ends_with_the_stay(hotel: House) -> None:
    stay = hotel.book(["101"])
    code = stay.artifact()
    tell(hotel, "/cloud", forget=code.value)
    stay.check_out()
    assert not hotel.opens("101", code)


@pytest.mark.parametrize("habit", [0, -2009], ids=["deletes what it lost", "refuses to delete what it lost"])
def test_a_lock_that_lost_its_codes_gets_the_guests_again_with_her_dates(world: World, hotel: House, habit: int) -> None:
    world.simulator(TTLOCK).post("/habits", {"clientId": f"app-{hotel.code}", "absentDelete": habit})
    stay = hotel.book(["101"])
    code = stay.artifact()
    tell(hotel, "/door", wipe=True)
    assert not hotel.opens("101", code)
    stay.change(end=stay.end + timedelta(days=1))
    assert hotel.opens("101", code)
    assert hotel.opens("101", code, world.now + timedelta(days=2, hours=12))
    assert stay.key()["state"] == "active"
    assert stay.artifact() == code


def test_a_lock_that_lost_its_codes_gets_a_resumed_guests_again(world: World, hotel: House) -> None:
    stay = hotel.book(["101"])
    code, key = stay.artifact(), stay.key()["id"]
    desk = hotel.caller("front_desk_supervisor")
    assert desk.post(f"/lock/v1/credentials/{key}/suspend", {"reason": "manual"}).status_code < 300
    world.settle()
    tell(hotel, "/door", wipe=True)
    assert desk.post(f"/lock/v1/credentials/{key}/unsuspend", {}).status_code < 300
    world.settle()
    assert hotel.opens("101", code)


# -- a lock out of reach has one code for each window


@pytest.fixture
def apart(house: Callable[..., House]) -> House:
    """Give a hotel whose room 101 no gateway reaches."""
    policy = {"kinds": ["pin_code", "mobile_app"], "default_areas": []}
    return house({"101": TTLOCK}, stand_alone=["101"], policy=policy, limits={"calls_per_minute": 6000})


@pytest.mark.parametrize("habit", ["same_id", "new_id"])
def test_two_guests_with_one_window_have_codes_of_their_own(world: World, apart: House, habit: str) -> None:
    world.simulator(TTLOCK).post("/habits", {"clientId": f"app-{apart.code}", "sameWindow": habit})
    first, second = apart.book(["101"]), apart.book(["101"])
    one, two = first.artifact(), second.artifact()
    assert one.value != two.value
    assert [apart.opens("101", code) for code in (one, two)] == [True, True]
    second.cancel()
    assert apart.opens("101", one)
    assert first.key()["state"] == "active"


def test_a_cancelled_guests_code_is_not_given_to_the_next(world: World, apart: House) -> None:
    start, end = world.now + timedelta(hours=3), world.now + timedelta(days=2)
    cancelled = apart.book(["101"], start=start, end=end)
    old = cancelled.artifact()
    cancelled.cancel()
    next_guest = apart.book(["101"], start=start, end=end)
    assert next_guest.artifact().value != old.value


def test_when_no_window_is_left_the_guest_gets_a_key_of_another_kind(apart: House) -> None:
    stays = [apart.book(["101"]) for _ in range(10)]
    kinds = [stay.key()["kind"] for stay in stays]
    assert kinds[0] == "pin_code"
    assert "mobile_app" in kinds
    assert all(stay.key()["state"] == "active" for stay in stays)
    codes = [stay.artifact().value for stay, kind in zip(stays, kinds, strict=True) if kind == "pin_code"]
    assert len(set(codes)) == len(codes)
    assert all(stay.opens("101") for stay in stays)


# -- a quota that only the vendor counts


def test_a_quota_that_the_vendor_counts_is_told_and_asked_again_after_it_was_lifted(world: World, hotel: House) -> None:
    rule = {"path": "keyboardPwd/add", "clientId": f"app-{hotel.code}", "errcode": 30007, "times": None}
    world.simulator(TTLOCK).post("/faults", rule)
    stay = hotel.book(["101"], settle=False)
    world.work_without_retries()
    (alert,) = hotel.alerts("VENDOR_QUOTA_SPENT")
    assert (alert["severity"], alert["runbook"]) == ("critical", "lock/vendor-quota")
    assert stay.key()["state"] == "pending"
    world.heal()
    world.settle()
    assert stay.opens("101")


def test_a_quota_spent_in_a_quiet_house_is_told_by_its_poll(world: World, hotel: House) -> None:
    rule = {"path": "lock/list", "clientId": f"app-{hotel.code}", "errcode": 30007, "times": None}
    world.simulator(TTLOCK).post("/faults", rule)
    hotel.poll_health()
    assert [alert["severity"] for alert in hotel.alerts("VENDOR_QUOTA_SPENT")] == ["critical"]


def test_an_empty_list_after_an_error_is_no_proof_that_a_code_is_gone(world: World, hotel: House) -> None:
    stay = hotel.book(["101"])
    assert stay.opens("101")
    world.control(TTLOCK).lie()
    world.break_calls(TTLOCK, "error", None)
    stay.cancel()
    assert stay.opens("101")
    assert stay.key()["propagation"] != "confirmed"
    assert [alert["key"] for alert in hotel.alerts("KEY_REVOKE_FAILED")] == [stay.key()["id"]]
    world.heal()
    world.let_breakers_ask()
    world.settle()
    assert (stay.opens("101"), stay.key()["propagation"]) == (False, "confirmed")
