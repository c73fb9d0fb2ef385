"""What never should be, planted behind the service's back: the watch finds it, tells it once, and the door is right again.

It is told once more only after it was well in between.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.support.stage import House, Stay, World

VENDORS = ("ttlock", "salto")


def _watch(stay: Stay) -> None:
    """Let the watch look twice, and the service do what follows from it."""
    stay.house.world.watch()
    stay.house.world.settle()
    stay.house.world.watch()


def _told(stay: Stay) -> list[tuple[str, str]]:
    return [(alert["code"], alert["severity"]) for alert in stay.house.alerts()]


def _key_of(stay: Stay) -> str:
    return str(stay.key()["id"])


@pytest.fixture
def hotel(house: Callable[..., House]) -> Callable[[str], House]:
    """Give a function that puts up a house on one lock system, whose keys are digits or a phone's."""

    def build(vendor: str) -> House:
        return house({"101": vendor, "102": vendor}, policy={"kinds": ["pin_code", "mobile_app"]})

    return build


# --- A door that nobody works on --------------------------------------------------------------


def _suspend_in_the_books(stay: Stay) -> None:
    stay.house.plant(
        "UPDATE credentials_keycredential SET state = 'suspended', suspend_reason = 'manual', open_work = true"
        " WHERE tenant_id = %(tenant)s AND id = %(key)s", key=_key_of(stay),
    )  # fmt: skip


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_door_nobody_works_on_is_worked_on_and_told_once(hotel: Callable[[str], House], vendor: str) -> None:
    stay = hotel(vendor).book(["101"])
    assert stay.opens("101")
    _suspend_in_the_books(stay)
    stay.house.world.settle()
    assert stay.opens("101")
    _watch(stay)
    assert not stay.opens("101")
    assert _told(stay) == [("OPEN_DOOR_UNATTENDED", "critical")]
    assert stay.house.alerts()[0]["runbook"] == "lock/work-lost"


def test_a_door_nobody_works_on_is_told_again_when_it_comes_back(hotel: Callable[[str], House], world: World) -> None:
    stay = hotel("ttlock").book(["101"])
    stay.collect()
    _suspend_in_the_books(stay)
    _watch(stay)
    answer = stay.house.caller("front_desk_supervisor").post(f"/lock/v1/credentials/{_key_of(stay)}/unsuspend")
    assert answer.status_code in (200, 202)
    world.settle()
    assert stay.opens("101")
    _suspend_in_the_books(stay)
    _watch(stay)
    assert not stay.opens("101")
    assert _told(stay) == [("OPEN_DOOR_UNATTENDED", "critical")] * 2


def test_a_guest_whose_work_was_lost_gets_her_key(hotel: Callable[[str], House], world: World) -> None:
    stay = hotel("ttlock").book(["101"], settle=False)
    world.take_in()
    stay.house.plant("DELETE FROM sagas_saga WHERE tenant_id = %(tenant)s")
    world.settle()
    assert stay.collect() == []
    _watch(stay)
    assert stay.opens("101")
    assert _told(stay) == [("OPEN_DOOR_UNATTENDED", "warning")]


def test_a_key_whose_tries_are_spent_is_left_to_people(hotel: Callable[[str], House], world: World) -> None:
    house = hotel("ttlock")
    stay = house.book(["101"])
    stay.collect()
    world.hang_up("ttlock")
    stay.change(end=stay.end + timedelta(days=1), settle=False)
    world.settle(retries=30)
    before = _told(stay)
    _watch(stay)
    assert _told(stay) == before
    assert [code for code, _ in before] == ["CHANGE_REFUSED"]


# --- A live key whose door disagrees ----------------------------------------------------------


def _extend_in_the_books(stay: Stay, **by: float) -> None:
    stay.end += timedelta(**by)
    stay.house.plant(
        "UPDATE credentials_keycredential SET valid_until = valid_until + %(by)s, ends_at = ends_at + %(by)s"
        " WHERE tenant_id = %(tenant)s AND id = %(key)s", key=_key_of(stay), by=timedelta(**by),
    )  # fmt: skip


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_live_key_whose_door_has_another_end_is_put_right(hotel: Callable[[str], House], vendor: str) -> None:
    stay = hotel(vendor).book(["101"])
    stay.collect()
    for times in (1, 2):
        _extend_in_the_books(stay, days=1)
        last_hour = stay.end - timedelta(hours=1)
        assert not stay.opens("101", last_hour)
        _watch(stay)
        assert stay.opens("101", last_hour)
        assert _told(stay) == [("LIVE_KEY_DIFFERS", "warning")] * times


def test_a_live_key_without_any_door_is_told(hotel: Callable[[str], House]) -> None:
    stay = hotel("ttlock").book(["101"])
    stay.house.plant("DELETE FROM credentials_credentialdoor WHERE tenant_id = %(tenant)s")
    _watch(stay)
    assert _told(stay) == [("LIVE_KEY_DIFFERS", "critical")]


# --- An ended key whose door may open ---------------------------------------------------------


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_ended_key_that_may_still_open_is_taken_back(hotel: Callable[[str], House], vendor: str) -> None:
    stay = hotel(vendor).book(["101"])
    stay.collect()
    key = _key_of(stay)
    stay.house.plant(
        "UPDATE credentials_keycredential SET state = 'revoked', revoke_reason = 'security', ended_at = now()"
        " WHERE tenant_id = %(tenant)s AND id = %(key)s", key=key,
    )  # fmt: skip
    assert stay.opens("101")
    _watch(stay)
    assert not stay.opens("101")
    assert _told(stay) == [("ENDED_KEY_MAY_OPEN", "critical")]
    stay.house.plant(
        "UPDATE credentials_credentialdoor SET state = 'present' WHERE tenant_id = %(tenant)s AND credential_id = %(key)s",
        key=key,
    )
    _watch(stay)
    assert _told(stay) == [("ENDED_KEY_MAY_OPEN", "critical")] * 2


# --- A stay that has begun, without a key -----------------------------------------------------


def _lose_the_key(stay: Stay) -> None:
    for table in ("credentials_credentialdoor", "credentials_artifact", "credentials_pinslot", "sagas_saga"):
        stay.house.plant(f"DELETE FROM {table} WHERE tenant_id = %(tenant)s AND credential_id = %(key)s", key=_key_of(stay))
    stay.house.plant("DELETE FROM credentials_keycredential WHERE tenant_id = %(tenant)s AND id = %(key)s", key=_key_of(stay))


def test_a_stay_that_has_begun_without_a_key_gets_one(hotel: Callable[[str], House]) -> None:
    stay = hotel("ttlock").book(["101"])
    for times in (1, 2):
        _lose_the_key(stay)
        assert stay.keys() == []
        _watch(stay)
        assert stay.house.opens("101", stay.artifact())
        assert _told(stay) == [("STAY_WITHOUT_KEY", "critical")] * times
    assert stay.house.alerts()[0]["runbook"] == "lock/stay-without-key"


def test_a_stay_still_to_come_without_a_key_is_no_matter_yet(hotel: Callable[[str], House], world: World) -> None:
    start = world.now + timedelta(days=2)
    stay = hotel("ttlock").book(["101"], start=start, end=start + timedelta(days=1))
    _lose_the_key(stay)
    _watch(stay)
    assert _told(stay) == []
    world.advance_to(start + timedelta(minutes=1))
    _watch(stay)
    assert _told(stay) == [("STAY_WITHOUT_KEY", "critical")]
    assert stay.opens("101")


def test_a_stay_whose_key_a_person_took_back_gets_no_other(hotel: Callable[[str], House], world: World) -> None:
    stay = hotel("ttlock").book(["101"])
    body = {"reason": "security"}
    answer = stay.house.caller("front_desk_supervisor").post(f"/lock/v1/credentials/{_key_of(stay)}/revoke", body)
    assert answer.status_code in (200, 202)
    world.settle()
    before = stay.house.footprint()
    _watch(stay)
    assert _told(stay) == []
    assert stay.house.footprint() == before


# --- A key without a stay ---------------------------------------------------------------------


@pytest.mark.parametrize("status", ["cancelled", "checked_out"])
def test_a_key_whose_stay_has_ended_is_taken_back(hotel: Callable[[str], House], status: str) -> None:
    stay = hotel("ttlock").book(["101"])
    stay.collect()
    stay.house.plant("UPDATE credentials_reservation SET status = %(status)s WHERE tenant_id = %(tenant)s", status=status)
    assert stay.opens("101")
    _watch(stay)
    assert not stay.opens("101")
    assert _told(stay) == [("KEY_WITHOUT_STAY", "critical")]
    assert stay.house.events("credential.revoked")[0]["data"]["metadata"]["trigger"] == "stay_ended"


def test_a_key_whose_stay_nobody_told_of_is_left_to_people(hotel: Callable[[str], House], world: World) -> None:
    stay = hotel("ttlock").book(["101"])
    stay.collect()
    for times in (1, 2):
        stay.house.plant("DELETE FROM credentials_reservation WHERE tenant_id = %(tenant)s")
        _watch(stay)
        assert stay.opens("101")
        assert _told(stay) == [("KEY_WITHOUT_STAY", "warning")] * times
        stay.emit("booking.confirmed")
        world.watch()


# --- A lane that makes no progress ------------------------------------------------------------


def test_a_lane_whose_due_work_makes_no_progress_is_told(hotel: Callable[[str], House], world: World) -> None:
    house = hotel("ttlock")
    for times in (1, 2):
        stay = house.book(["101" if times == 1 else "102"], settle=False)
        world.take_in()
        world.watch()
        assert len(house.alerts("LANE_STUCK")) == times - 1
        house.plant(
            "UPDATE sagas_lane SET due_since = clock_timestamp() - interval '6 minutes',"
            " progressed_at = clock_timestamp() - interval '6 minutes' WHERE tenant_id = %(tenant)s AND due_since IS NOT NULL"
        )
        world.watch()
        world.watch()
        alerts = house.alerts("LANE_STUCK")
        assert [(alert["severity"], alert["runbook"]) for alert in alerts] == [("critical", "lock/lane-stuck")] * times
        assert "nothing came of it for 6 minutes; no process holds it; first: issue" in alerts[-1]["detail"]
        world.settle()
        assert stay.opens("101" if times == 1 else "102")
        world.watch()


def test_a_lane_that_goes_on_is_no_matter_however_much_is_due(hotel: Callable[[str], House], world: World) -> None:
    house = hotel("ttlock")
    house.book(["101"])
    house.book(["102"], settle=False)
    world.take_in()
    world.watch()
    house.plant(
        "UPDATE sagas_lane SET due_since = clock_timestamp() - interval '1 hour', progressed_at = clock_timestamp()"
        " WHERE tenant_id = %(tenant)s AND due_since IS NOT NULL"
    )
    world.watch()
    assert house.alerts() == []


def test_a_house_where_all_is_well_is_told_nothing(hotel: Callable[[str], House], world: World) -> None:
    house = hotel("ttlock")
    stays = [house.book(["101"]), house.book(["102"])]
    stays[0].change(end=stays[0].end + timedelta(days=1))
    stays[1].cancel()
    before = house.footprint()
    world.watch()
    world.settle()
    assert house.alerts() == []
    assert house.footprint() == before
