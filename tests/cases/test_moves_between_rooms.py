"""A guest moves while she is in the house: a door of hers opens at every moment, whatever the new room's lock system does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.stage import Artifact, House, Stay, World

Houses = Callable[..., House]
PIN = {"kinds": ["pin_code"], "default_areas": []}
UNFINISHED = "ROOM_MOVE_UNFINISHED"
PIN_OR_CARD = {"kinds": ["pin_code", "rfid_card"], "default_areas": []}
NO_LOCK = "rmu_000000000000000000000000zz"
PAIRS = [("salto", "mock"), ("ttlock", "mock"), ("mock", "ttlock"), ("mock", "salto")]


def suspend(stay: Stay, vendor: str = "", reason: str = "manual") -> None:
    """Suspend the stay's key at a lock system, or its only one."""
    known = stay.keys()
    act(stay, "suspend", next(key["id"] for key in known if vendor in ("", key["vendor"])), {"reason": reason})


def act(stay: Stay, verb: str, key_id: str, body: dict[str, str] | None = None) -> None:
    """Let a manager act on a key."""
    answer = stay.house.caller("gm").post(f"/lock/v1/credentials/{key_id}/{verb}", body)
    assert answer.status_code in (200, 201, 202), answer.content
    stay.house.world.settle()


def companion(stay: Stay, holder: str, room: str) -> str:
    """Give somebody else a key of a room of the stay."""
    body = {"reservationId": stay.id, "holderId": holder, "rooms": [stay.house.rooms[room]]}
    assert stay.house.caller("gm").post("/lock/v1/credentials", body).status_code in (201, 202)
    stay.house.world.settle()
    known = stay.keys()
    return next(str(key["id"]) for key in known if key["holderId"] == holder)


def hang(hotel: House, door: str, room: str, folder: Path) -> None:
    """Say by the import of its system that the lock which hung at a door hangs at a room's now."""
    table = folder / "locks.csv"
    table.write_text(f"external_id,label,rooms,areas,shared\n{hotel.doors[door]},{room},{room},,no\n", encoding="utf-8")
    hotel.command("import_devices", hotel.tenant_id, hotel.installations[hotel.vendors[door]], table=str(table))
    hotel.world.settle()


def pins_by_holder(stay: Stay) -> dict[str, list[Artifact]]:
    """Collect the digits that each person of the stay has."""
    known = stay.keys()
    holders = {key["id"]: key["holderId"] for key in known}
    found: dict[str, list[Artifact]] = {holder: [] for holder in holders.values()}
    for pin in stay.collect():
        found[holders[pin.key_id]].append(pin)
    return found


def repair(stay: Stay) -> None:
    """Issue anew what used up its tries while a vendor was away."""
    keys = stay.keys()
    for key in keys:
        if key["state"] == "failed" and not key["replacedBy"]:
            answer = stay.house.caller().post(f"/lock/v1/credentials/{key['id']}/retry")
            assert answer.status_code in (200, 201, 202), answer.content
    stay.house.world.settle()


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_the_old_room_opens_until_the_other_lock_system_gives_the_new_one(
    world: World, house: Houses, old: str, new: str
) -> None:
    hotel = house({"101": old, "201": new}, policy=PIN)
    stay = hotel.book(["101"])
    first = stay.artifact()
    world.hang_up(new)
    stay.change(rooms=["201"])
    assert hotel.opens("101", first)
    kept = stay.credential(first.key_id)
    assert (kept["state"], [w["code"] for w in kept["warnings"]]) == ("active", ["OLD_ROOM_KEPT"])
    world.heal()
    world.settle()
    repair(stay)
    second = stay.artifact()
    assert (hotel.opens("201", second), hotel.opens("101", first)) == (True, False)
    assert stay.credential(first.key_id)["state"] == "revoked"
    assert world.waiting() == []


def test_a_move_at_a_living_vendor_takes_the_old_room_at_once(world: World, house: Houses) -> None:
    hotel = house({"101": "salto", "201": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    first = stay.artifact()
    stay.change(rooms=["201"])
    assert (hotel.opens("201", stay.artifact()), hotel.opens("101", first)) == (True, False)
    assert (hotel.alerts(), world.waiting()) == ([], [])


@pytest.mark.parametrize("vendor", ["mock", "ttlock"])
def test_a_dead_new_room_of_the_same_system_leaves_the_old_one_to_the_guest(world: World, house: Houses, vendor: str) -> None:
    hotel = house({"101": vendor, "102": vendor, "103": vendor}, policy=PIN | {"outage_patience_minutes": 0})
    stay = hotel.book(["101"])
    pin = stay.artifact()
    world.hang_up(vendor)
    stay.change(rooms=["102"], end=stay.end + timedelta(days=2))
    assert (hotel.opens("101", pin), hotel.opens("102", pin)) == (True, False)
    assert len(hotel.alerts(UNFINISHED)) == 1
    world.heal()
    assert hotel.caller().post(f"/lock/v1/credentials/{pin.key_id}/retry").status_code in (200, 202)
    world.settle()
    assert (hotel.opens("101", pin), hotel.opens("102", pin)) == (False, True)
    assert stay.key()["warnings"] == []


def test_the_old_room_follows_a_longer_stay_while_the_new_one_is_dead(world: World, house: Houses) -> None:
    hotel = house({"101": "salto", "201": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    world.hang_up("mock")
    stay.change(rooms=["201"])
    stay.change(end=stay.end + timedelta(days=2))
    world.advance(days=3)
    assert hotel.opens("101", pin)
    stay.check_out()
    assert not hotel.opens("101", pin)


def test_after_the_policys_patience_somebody_is_told_and_the_old_room_stays_hers(world: World, house: Houses) -> None:
    hotel = house({"101": "salto", "201": "mock"}, policy=PIN | {"outage_patience_minutes": 0})
    stay = hotel.book(["101"])
    pin = stay.artifact()
    world.hang_up("mock")
    stay.change(rooms=["201"])
    assert hotel.opens("101", pin)
    (alert,) = hotel.alerts(UNFINISHED)
    assert (alert["severity"], alert["key"], alert["runbook"]) == ("warning", pin.key_id, "lock/room-move")
    world.advance(hours=5)
    assert hotel.opens("101", pin)
    assert len(hotel.alerts(UNFINISHED)) == 1


def test_the_old_rooms_next_stay_takes_it_and_somebody_is_told(world: World, house: Houses) -> None:
    hotel = house({"101": "salto", "201": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    world.hang_up("mock")
    stay.change(rooms=["201"])
    following = hotel.book(["101"], start=world.now + timedelta(hours=2), end=world.now + timedelta(days=1))
    assert hotel.opens("101", pin)
    world.advance(hours=2, minutes=1)
    assert [hotel.opens("101", artifact) for artifact in (pin, following.artifact())] == [False, True]
    assert [alert["severity"] for alert in hotel.alerts(UNFINISHED)] == ["critical"]


def test_within_one_system_too_the_next_stay_takes_the_old_room(world: World, house: Houses) -> None:
    hotel = house({"101": "mock", "102": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    following = hotel.book(["101"], start=world.now + timedelta(hours=2), end=world.now + timedelta(days=1))
    world.control("mock").set_reach(hotel.doors["102"], is_reachable=False)
    stay.change(rooms=["102"])
    assert hotel.opens("101", pin)
    world.advance(hours=2, minutes=1)
    assert [hotel.opens("101", artifact) for artifact in (pin, following.artifact())] == [False, True]
    assert [alert["severity"] for alert in hotel.alerts(UNFINISHED)] == ["critical"]


def test_the_lock_of_an_old_room_that_hangs_elsewhere_now_does_not_open_to_who_moved_out(world: World, house: Houses) -> None:
    hotel = house({"101": "mock", "102": "mock", "103": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    world.control("mock").set_reach(hotel.doors["102"], is_reachable=False)
    stay.change(rooms=["102"])
    assert hotel.opens("101", pin)
    hotel.swap_locks("101", "103")
    assert hotel.book(["103"]).opens("103")
    assert not hotel.opens("103", pin)
    assert [(alert["severity"], alert["key"]) for alert in hotel.alerts(UNFINISHED)] == [("critical", pin.key_id)]
    assert "OLD_ROOM_KEPT" not in [warning["code"] for warning in stay.key()["warnings"]]


def test_an_old_room_stays_hers_though_the_lock_of_her_new_one_was_swapped(world: World, house: Houses) -> None:
    hotel = house({"101": "mock", "102": "mock", "103": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    for room in ("102", "103"):
        world.control("mock").set_reach(hotel.doors[room], is_reachable=False)
    stay.change(rooms=["102"])
    hotel.swap_locks("102", "103")
    assert hotel.opens("101", pin)
    world.control("mock").set_reach(hotel.doors["102"], is_reachable=True)
    act(stay, "retry", pin.key_id)
    assert [hotel.opens(room, pin) for room in ("101", "102", "103")] == [False, True, False]


def keep_and_swap(world: World, house: Houses) -> tuple[House, Stay, Artifact]:
    """Move a guest to a room whose lock system is away, so that she keeps 101, and swap the lock of 101 with that of 102."""
    hotel = house({"101": "ttlock", "102": "ttlock", "201": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    world.hang_up("mock")
    stay.change(rooms=["201"])
    assert hotel.opens("101", pin)
    hotel.swap_locks("101", "102")
    assert (hotel.opens("101", pin), hotel.opens("102", pin)) == (True, False)
    return hotel, stay, pin


def comes_back(stay: Stay) -> None:
    """Let the lock system of the new room be well again, and the guest get in there."""
    stay.house.world.heal()
    stay.house.world.let_breakers_ask()
    stay.house.world.settle()
    repair(stay)
    assert stay.opens("201")


def test_the_next_guests_room_is_shut_to_who_moved_out_though_its_lock_was_swapped(world: World, house: Houses) -> None:
    hotel, _, pin = keep_and_swap(world, house)
    following = hotel.book(["101"], start=world.now + timedelta(hours=2), end=world.now + timedelta(days=1))
    world.advance(hours=2, minutes=5)
    assert following.opens("101")
    assert not hotel.opens("101", pin)
    assert [alert["severity"] for alert in hotel.alerts(UNFINISHED)] == ["critical"]


def test_an_old_room_whose_lock_was_swapped_is_taken_once_the_new_one_opens(world: World, house: Houses) -> None:
    hotel, stay, pin = keep_and_swap(world, house)
    comes_back(stay)
    assert not hotel.opens("101", pin)


def test_an_old_room_that_got_a_lock_of_another_system_is_taken_once_the_new_one_opens(
    world: World, house: Houses, tmp_path: Path
) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock", "201": "mock", "301": "salto"}, policy=PIN)
    stay = hotel.book(["101"])
    world.hang_up("mock")
    stay.change(rooms=["201"])
    hang(hotel, "301", "101", tmp_path)
    hang(hotel, "101", "102", tmp_path)
    (second,) = (artifact for artifact in stay.collect() if hotel.opens("301", artifact))
    comes_back(stay)
    assert not hotel.opens("301", second)


def test_of_two_old_rooms_one_that_got_a_lock_of_another_system_does_not_open_there(
    world: World, house: Houses, tmp_path: Path
) -> None:
    hotel = house({"101": "ttlock", "102": "ttlock", "103": "ttlock", "201": "mock", "301": "salto"}, policy=PIN)
    stay = hotel.book(["101", "102"])
    pin = stay.artifact()
    world.hang_up("mock")
    stay.change(rooms=["201"])
    hang(hotel, "301", "101", tmp_path)
    hang(hotel, "101", "103", tmp_path)
    assert [hotel.opens(door, pin) for door in ("101", "102")] == [False, True]
    assert not any(hotel.opens("301", artifact) for artifact in stay.collect())
    assert [alert["severity"] for alert in hotel.alerts("ROOM_WITHOUT_LOCK")] == ["critical"]
    following = hotel.book(["102"])
    assert (following.opens("102"), hotel.opens("102", pin)) == (True, False)


@pytest.mark.parametrize("end", ["cancel", "check_out"])
def test_a_stay_that_ends_while_it_moves_keeps_no_room(world: World, house: Houses, end: str) -> None:
    hotel = house({"101": "salto", "201": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    world.hang_up("mock")
    stay.change(rooms=["201"])
    getattr(stay, end)()
    assert not hotel.opens("101", pin)
    world.heal()
    world.settle()
    assert hotel.held("201") == []
    assert world.waiting() == []


def test_a_booking_moved_back_keeps_the_key_it_had(world: World, house: Houses) -> None:
    hotel = house({"101": "salto", "201": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    world.hang_up("mock")
    stay.change(rooms=["201"])
    stay.change(rooms=["101"])
    world.heal()
    world.settle()
    assert hotel.opens("101", pin)
    assert stay.credential(pin.key_id)["warnings"] == []
    assert (hotel.held("201"), world.waiting()) == ([], [])


def test_a_booking_moved_again_leaves_both_rooms_behind(world: World, house: Houses) -> None:
    hotel = house({"101": "salto", "201": "mock", "301": "ttlock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    world.hang_up("mock")
    stay.change(rooms=["201"])
    stay.change(rooms=["301"])
    third = stay.artifact()
    assert (hotel.opens("301", third), hotel.opens("101", pin)) == (True, False)
    world.heal()
    world.settle()
    assert hotel.held("201") == []


def test_a_companion_keeps_the_old_room_and_gets_the_new_one(world: World, house: Houses) -> None:
    hotel = house({"101": "salto", "201": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    body = {"reservationId": stay.id, "preferredKinds": ["pin_code"]}
    assert hotel.caller().post("/lock/v1/credentials", body).status_code in (201, 202)
    world.settle()
    guests = stay.collect()
    assert [hotel.opens("101", pin) for pin in guests] == [True, True]
    world.hang_up("mock")
    stay.change(rooms=["201"])
    assert [hotel.opens("101", pin) for pin in guests] == [True, True]
    world.heal()
    repair(stay)
    fresh = [pin for pin in stay.collect() if pin not in guests]
    assert [hotel.opens("201", pin) for pin in fresh] == [True, True]
    assert [hotel.opens("101", pin) for pin in guests] == [False, False]


def test_a_companion_whose_key_stays_for_the_shared_doors_gets_the_new_room_too(world: World, house: Houses) -> None:
    hotel = house({"101": "ttlock", "201": "mock"}, shared={"lobby": "ttlock"}, policy=PIN | {"default_areas": ["lobby"]})
    stay = hotel.book(["101"])
    body = {"reservationId": stay.id, "preferredKinds": ["pin_code"]}
    assert hotel.caller().post("/lock/v1/credentials", body).status_code in (201, 202)
    world.settle()
    guests = stay.collect()
    assert [(hotel.opens("101", pin), hotel.opens("lobby", pin)) for pin in guests] == [(True, True)] * 2
    stay.change(rooms=["201"])
    fresh = [pin for pin in stay.collect() if pin not in guests]
    assert [hotel.opens("201", pin) for pin in fresh] == [True, True]
    assert [(hotel.opens("101", pin), hotel.opens("lobby", pin)) for pin in guests] == [(False, True)] * 2
    stay.change(rooms=["101"])
    assert [pin for pin in stay.collect() if pin not in (*guests, *fresh)] == []
    assert [(hotel.opens("101", pin), hotel.opens("lobby", pin)) for pin in guests] == [(True, True)] * 2
    assert [hotel.opens("201", pin) for pin in fresh] == [False, False]
    stay.change(rooms=["201"])
    last = [pin for pin in stay.collect() if pin not in (*guests, *fresh)]
    assert [hotel.opens("201", pin) for pin in last] == [True, True]


def test_a_key_that_is_suspended_when_its_booking_moves_is_taken_at_once(world: World, house: Houses) -> None:
    hotel = house({"101": "salto", "201": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    answer = hotel.caller().post(f"/lock/v1/credentials/{pin.key_id}/suspend", {"reason": "manual"})
    assert answer.status_code in (200, 202)
    world.settle()
    world.hang_up("mock")
    stay.change(rooms=["201"])
    assert not hotel.opens("101", pin)
    assert hotel.held("101") == []
    world.heal()


@pytest.mark.parametrize(("left", "resting"), [("mock", "ttlock"), ("ttlock", "mock"), ("salto", "mock")])
@pytest.mark.parametrize("rooms", [["102"], ["102", "202"]])
def test_the_old_room_does_not_wait_for_one_whose_key_a_person_suspended(
    world: World, house: Houses, left: str, resting: str, rooms: list[str]
) -> None:
    hotel = house({"101": resting, "102": resting, "201": left, "202": left}, policy=PIN)
    stay = hotel.book(["101", "201"])
    keys, pins = stay.keys(), {pin.key_id: pin for pin in stay.collect()}
    suspended, active = (next(key["id"] for key in keys if key["vendor"] == vendor) for vendor in (resting, left))
    verbs = f"/lock/v1/credentials/{suspended}"
    assert hotel.caller("gm").post(f"{verbs}/suspend", {"reason": "manual"}).status_code in (200, 202)
    world.settle()
    stay.change(rooms=rooms)
    assert (hotel.opens("201", pins[active]), hotel.opens("102", pins[suspended])) == (False, False)
    assert hotel.opens("202", pins[active]) == ("202" in rooms)
    assert "OLD_ROOM_KEPT" not in [warning["code"] for warning in stay.credential(active)["warnings"]]
    assert stay.credential(suspended)["state"] == "suspended"
    assert (hotel.alerts(), world.waiting()) == ([], [])
    assert hotel.caller("gm").post(f"{verbs}/unsuspend").status_code in (200, 202)
    world.settle()
    assert hotel.opens("102", pins[suspended])


def test_an_old_room_is_kept_though_a_companions_key_is_suspended(world: World, house: Houses) -> None:
    hotel = house({"101": "mock", "102": "mock", "201": "salto"}, policy=PIN)
    stay = hotel.book(["101", "201"])
    keys = stay.keys()
    ids = {key["vendor"]: key["id"] for key in keys}
    pins = {pin.key_id: pin for pin in stay.collect()}
    body = {"reservationId": stay.id, "rooms": [hotel.rooms["101"]], "preferredKinds": ["pin_code"]}
    answer = hotel.caller().post("/lock/v1/credentials", body)
    assert answer.status_code in (201, 202), answer.content
    world.settle()
    keys = stay.keys()
    (companion,) = [key["id"] for key in keys if key["id"] not in ids.values()]
    assert hotel.caller().post(f"/lock/v1/credentials/{companion}/suspend", {"reason": "manual"}).status_code in (200, 202)
    world.settle()
    world.control("mock").set_reach(hotel.doors["102"], is_reachable=False)
    stay.change(rooms=["102"])
    assert stay.credential(companion)["state"] == "suspended"
    assert hotel.opens("201", pins[ids["salto"]])
    world.heal()


def test_a_person_takes_the_old_room_back_before_the_new_one_opens(world: World, house: Houses) -> None:
    hotel = house({"101": "salto", "201": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    world.hang_up("mock")
    stay.change(rooms=["201"])
    kept = stay.credential(pin.key_id)
    assert "leave_old_room" in kept["allowedActions"]
    answer = hotel.caller().post(f"/lock/v1/credentials/{pin.key_id}/leave-old-room")
    assert answer.status_code in (200, 202), answer.content
    world.settle()
    assert not hotel.opens("101", pin)
    world.heal()


def test_nobody_gives_up_an_old_room_that_no_key_has(world: World, house: Houses) -> None:
    hotel = house({"101": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    before = hotel.footprint()
    assert "leave_old_room" not in stay.key()["allowedActions"]
    assert hotel.caller().post(f"/lock/v1/credentials/{pin.key_id}/leave-old-room").status_code == 409
    world.settle()
    assert hotel.footprint() == before
    assert hotel.opens("101", pin)


@pytest.mark.parametrize("last", ["101", "201"])
def test_a_suspended_guest_stays_so_over_a_room_without_a_lock(world: World, house: Houses, last: str) -> None:
    stay = house({"101": "ttlock", "201": "mock"}, policy=PIN).book(["101"])
    suspend(stay)
    stay.change(rooms=[NO_LOCK])
    stay.change(rooms=[last])
    assert (stay.key()["suspendReason"], stay.opens(last)) == ("manual", False)
    act(stay, "unsuspend", stay.key()["id"])
    assert stay.opens(last)


def test_a_suspended_guest_who_moves_away_and_back_at_once_stays_so(world: World, house: Houses) -> None:
    stay = house({"101": "ttlock", "201": "mock"}, policy=PIN).book(["101"])
    suspend(stay)
    stay.change(rooms=["201"], settle=False)
    stay.change(rooms=["101"])
    assert (stay.key()["state"], stay.opens("101")) == ("suspended", False)


def test_a_suspended_room_of_another_lock_system_that_is_left_and_taken_again_stays_so(world: World, house: Houses) -> None:
    stay = house({"101": "ttlock", "201": "mock"}, policy=PIN).book(["101", "201"])
    suspend(stay, "ttlock")
    stay.change(rooms=["201"])
    assert stay.opens("201")
    stay.change(rooms=["101", "201"])
    assert [stay.opens("101"), stay.opens("201")] == [False, True]


@pytest.mark.parametrize(("which", "rooms"), [("gst_a", ["201"]), ("gst_b", ["301"])])
def test_of_two_companions_the_suspended_one_is_so_at_the_lock_system_they_move_to(
    world: World, house: Houses, which: str, rooms: list[str]
) -> None:
    stay = house({"101": "ttlock", "201": "mock", "301": "salto"}, policy=PIN).book(["101", "201"])
    ids = {"gst_a": companion(stay, "gst_a", "101"), "gst_b": companion(stay, "gst_b", "201")}
    act(stay, "suspend", ids[which], {"reason": "manual"})
    stay.change(rooms=rooms)
    known = stay.keys()
    states = {key["holderId"]: key["state"] for key in known if key["state"] not in ("revoked", "failed")}
    assert states == {f"gst_{stay.id[-8:]}": "active", "gst_a": "active", "gst_b": "active"} | {which: "suspended"}


def test_a_guest_who_pays_while_the_key_of_her_new_room_is_on_its_way_gets_in(world: World, house: Houses) -> None:
    hotel = house({"101": "ttlock", "201": "mock"}, policy=PIN)
    stay = hotel.book(["101"])
    suspend(stay, reason="overdue_payment")
    world.hang_up("mock")
    stay.change(rooms=["201"], settle=False)
    world.work_without_retries()
    assert (stay.key()["state"], stay.key()["suspendReason"]) == ("pending", "overdue_payment")
    paid = {"reservationId": stay.id, "paymentStatus": "captured", "capturedAt": world.now.isoformat()}
    hotel.emit("payment.captured", paid, settle=False)
    world.work_without_retries()
    world.heal()
    world.settle()
    assert (stay.key()["suspendReason"], stay.opens("201")) == (None, True)


def test_a_failed_key_tried_again_does_not_rest_for_a_companion(world: World, house: Houses) -> None:
    stay = house({"101": "ttlock", "201": "mock"}, policy=PIN).book(["101"])
    act(stay, "suspend", companion(stay, "gst_companion", "101"), {"reason": "manual"})
    world.hang_up("mock")
    stay.change(rooms=["101", "201"])
    world.heal()
    repair(stay)
    assert stay.opens("201")


def test_a_room_taken_from_a_booking_and_given_back_opens_at_the_houses_second_lock_system(world: World, house: Houses) -> None:
    hotel = house({"101": "ttlock", "201": "mock"}, policy=PIN)
    stay = hotel.book(["201"])
    for _ in range(2):
        stay.change(rooms=[])
        stay.change(rooms=["201"])
        assert hotel.dead_letters() == []
        assert stay.opens("201")
    stay.change(rooms=[], settle=False)
    stay.change(rooms=["201"])
    assert (hotel.dead_letters(), stay.opens("201")) == ([], True)


def test_a_suspended_guest_whose_room_is_taken_from_her_booking_and_given_back_stays_so(world: World, house: Houses) -> None:
    stay = house({"101": "ttlock", "201": "mock"}, policy=PIN).book(["201"])
    suspend(stay)
    stay.change(rooms=[])
    stay.change(rooms=["201"])
    assert (stay.key()["state"], stay.opens("201")) == ("suspended", False)


def _two_who_move_to_cards(house: Houses, old: str, new: str) -> tuple[Stay, dict[str, list[Artifact]], str, str]:
    """Let a guest and her companion move to a room whose lock system writes cards; return their digits and waiting keys too."""
    hotel = house({"101": old, "201": new}, policy=PIN_OR_CARD)
    if new == "generic-wiegand":
        hotel.seat_desk()
    stay = hotel.book(["101"])
    companion(stay, "gst_companion", "101")
    pins = pins_by_holder(stay)
    stay.change(rooms=["201"])
    known = stay.keys()
    waiting = {key["holderId"]: key["id"] for key in known if key["waitingFor"] == "desk"}
    assert len(waiting) == 2
    assert all(hotel.opens("101", pin) for held in pins.values() for pin in held)
    return stay, pins, waiting.pop("gst_companion"), *waiting.values()


@pytest.mark.parametrize("first", ["companion", "guest"])
@pytest.mark.parametrize(("old", "new"), [("mock", "assa-abloy"), ("ttlock", "generic-wiegand")])
def test_one_guests_card_for_the_new_room_does_not_take_the_others_old_room(
    world: World, house: Houses, old: str, new: str, first: str
) -> None:
    stay, pins, of_companion, of_guest = _two_who_move_to_cards(house, old, new)
    hotel = stay.house
    (hers,), (companions,) = pins[f"gst_{stay.id[-8:]}"], pins["gst_companion"]
    written, other = (of_companion, of_guest) if first == "companion" else (of_guest, of_companion)
    card = hotel.encode(written)
    assert card is not None
    assert hotel.use("201", card)
    assert [hotel.opens("101", hers), hotel.opens("101", companions)] == [first == "companion", first == "guest"]
    assert stay.told()["verdict"]["why"] == ("waits_for_desk" if first == "companion" else "")
    assert hotel.encode(other) is not None
    assert [hotel.opens("101", hers), hotel.opens("101", companions)] == [False, False]
    assert stay.told()["verdict"]["answer"] == "opens"


@pytest.mark.parametrize(("old", "new"), [("salto", "mock"), ("mock", "ttlock"), ("ttlock", "mock"), ("mock", "salto")])
@pytest.mark.parametrize("holder", ["gst_companion", ""], ids=["named", "in the guest's name"])
def test_one_lost_answer_at_the_new_room_leaves_each_guest_a_door(
    world: World, house: Houses, old: str, new: str, holder: str
) -> None:
    hotel = house({"101": old, "201": new}, policy=PIN)
    stay = hotel.book(["101"])
    body = {"reservationId": stay.id} | ({"holderId": holder} if holder else {})
    assert hotel.caller("gm").post("/lock/v1/credentials", body).status_code in (201, 202)
    world.settle()
    pins = stay.collect()
    world.break_calls(new, "error", 1)
    stay.change(rooms=["201"], settle=False)
    world.work_without_retries()
    opens_there = [pin for pin in stay.collect() if pin not in pins and hotel.opens("201", pin)]
    assert len(opens_there) + sum(hotel.opens("101", pin) for pin in pins) == 2
    world.settle()
    repair(stay)
    fresh = [pin for pin in stay.collect() if pin not in pins]
    assert [hotel.opens("201", pin) for pin in fresh] == [True, True]
    assert [hotel.opens("101", pin) for pin in pins] == [False, False]


def test_a_companion_does_not_wait_for_a_room_that_only_the_guest_has(world: World, house: Houses) -> None:
    hotel = house({"101": "mock", "102": "mock", "201": "salto"}, policy=PIN)
    stay = hotel.book(["101", "201"])
    own = companion(stay, "gst_companion", "101")
    (pin,) = (pin for pin in stay.collect() if pin.key_id == own)
    world.control("mock").set_reach(hotel.doors["102"], is_reachable=False)
    stay.change(rooms=["102", "201"])
    assert hotel.opens("101", pin)
    world.control("mock").set_reach(hotel.doors["102"], is_reachable=True)
    act(stay, "retry", own)
    assert [hotel.opens(room, pin) for room in ("101", "102")] == [False, True]


def test_companions_of_two_rooms_who_move_to_one_keep_their_own_until_each_has_hers(world: World, house: Houses) -> None:
    hotel = house({"101": "ttlock", "201": "mock", "301": "assa-abloy"}, policy=PIN_OR_CARD)
    stay = hotel.book(["101", "201"])
    ids = {companion(stay, "gst_a", "101"): "gst_a", companion(stay, "gst_b", "201"): "gst_b"}
    rooms, pins = {"gst_a": "101", "gst_b": "201"}, {ids[pin.key_id]: pin for pin in stay.collect() if pin.key_id in ids}
    stay.change(rooms=["301"])
    known = stay.keys()
    waiting = {key["holderId"]: key["id"] for key in known if key["waitingFor"] == "desk"}
    assert len(waiting) == 3
    for done, holder in enumerate(("gst_b", "gst_a")):
        assert hotel.encode(waiting[holder]) is not None
        assert [hotel.opens(rooms[who], pins[who]) for who in ("gst_b", "gst_a")] == [False, not done]


def test_a_room_left_before_and_let_again_does_not_end_the_keeping_of_the_last_one(world: World, house: Houses) -> None:
    hotel = house(dict.fromkeys(("101", "102", "103"), "mock"), policy=PIN)
    stay = hotel.book(["101"])
    pin = stay.artifact()
    stay.change(rooms=["102"])
    assert hotel.book(["101"]).opens("101")
    world.control("mock").set_reach(hotel.doors["103"], is_reachable=False)
    stay.change(rooms=["103"])
    assert [hotel.opens(room, pin) for room in ("101", "102", "103")] == [False, True, False]


@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize("systems", [("ttlock", "mock"), ("salto", "assa-abloy")], ids="-".join)
def test_a_guest_suspended_at_her_old_room_is_so_at_the_new_one(
    world: World, house: Houses, systems: tuple[str, str], is_resumed: bool
) -> None:
    hotel = house({"101": systems[0], "201": systems[1]}, policy=PIN | {"kinds": ["pin_code", "mobile_app"]})
    stay = hotel.book(["101"], contact={"phoneE164": "+93700000001"})
    pin = stay.artifact()
    world.hang_up(systems[1])
    stay.emit("booking.dates_changed", settle=False, rooms=["201"])
    world.work_without_retries()
    assert hotel.opens("101", pin)
    verbs, supervisor = f"/lock/v1/credentials/{pin.key_id}", hotel.caller("front_desk_supervisor")
    for verb, body in (("suspend", {"reason": "manual"}), ("unsuspend", {}))[: 1 + is_resumed]:
        assert supervisor.post(f"{verbs}/{verb}", body).status_code in (200, 202)
        world.work_without_retries()
        assert hotel.opens("101", pin) == (verb == "unsuspend")
    world.heal()
    world.let_breakers_ask()
    world.settle()
    repair(stay)
    assert (stay.opens("201"), hotel.opens("101", pin)) == (is_resumed, False)
    if not is_resumed:
        assert (stay.key()["state"], stay.key()["suspendReason"]) == ("suspended", "manual")
        assert supervisor.post(f"/lock/v1/credentials/{stay.key()['id']}/unsuspend").status_code in (200, 202)
        world.settle()
        assert stay.opens("201")
