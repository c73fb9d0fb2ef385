"""A lock that was set to another zone's time opens by it: that is told before a guest stands outside, and can be mended."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.support.stage import CommandFailed, House, Stay, World

TTLOCK = "ttlock"
HOUR_MS = 3_600_000
KABUL, CHINA, TOKYO = 16_200_000, 8 * HOUR_MS, 9 * HOUR_MS
CODE = "TZ_OFFSET_MISMATCH"
POLICY = {"kinds": ["pin_code"], "default_areas": []}


def pair(hotel: House, vendors_idea: int, clock: int) -> None:
    """Set what the vendor takes the clock of room 101 to be, and what that clock shows: ms from UTC."""
    lock = {"lockId": int(hotel.doors["101"]), "timezoneRawOffset": vendors_idea, "doorTimezoneRawOffset": clock}
    body = {"account": {"clientId": f"app-{hotel.code}"}, "locks": [lock]}
    hotel.world.simulator(TTLOCK).post("/seed", body)


def warnings(stay: Stay) -> list[str]:
    return [warning["code"] for warning in stay.key()["warnings"]]


def tonight(hotel: House) -> str:
    answer = hotel.console("front_desk").get("/console/")
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def apart(house: Callable[..., House]) -> House:
    """Give a hotel in Kabul whose room 101 no gateway reaches; its clock is right, and the vendor takes it for China's."""
    hotel = house({"101": TTLOCK}, stand_alone=["101"], policy=POLICY, limits={"calls_per_minute": 6000})
    pair(hotel, vendors_idea=CHINA, clock=KABUL)
    return hotel


def test_it_is_told_by_the_next_poll(apart: House) -> None:
    apart.poll_health()
    (alert,) = apart.alerts(CODE)
    assert (alert["severity"], alert["runbook"]) == ("critical", "lock/device-health")
    assert "101 is set to UTC+08:00, the house keeps UTC+04:30" in alert["detail"]
    assert "3 h 30 min late" in alert["detail"]
    apart.poll_health()
    assert len(apart.alerts(CODE)) == 1
    page = apart.console("gm").get("/console/devices/lockdevice/")
    assert "UTC+08:00" in page.content.decode()


def test_it_is_told_when_locks_are_imported(apart: House) -> None:
    said = apart.command("import_devices", apart.tenant_id, apart.installations[TTLOCK], "--dry-run")
    assert "set to UTC+08:00, the house keeps UTC+04:30" in said
    assert apart.alerts(CODE) == []
    apart.command("import_devices", apart.tenant_id, apart.installations[TTLOCK])
    assert [alert["severity"] for alert in apart.alerts(CODE)] == ["critical"]


def test_a_key_given_there_is_not_said_to_get_the_guest_in(world: World, apart: House) -> None:
    apart.poll_health()
    stay = apart.book(["101"], start=world.now + timedelta(minutes=5))
    assert warnings(stay) == ["FIRST_USE_24H", CODE]
    assert not apart.opens("101", stay.artifact(), world.now + timedelta(hours=1))
    verdict = stay.told()["verdict"]
    assert (verdict["answer"], verdict["why"]) == ("shut", "clock_off")
    rows = [row for row in re.findall(r"<tr>.*?</tr>", tonight(apart), re.DOTALL) if stay.guest in row]
    assert rows
    assert not any("gets in" in row for row in rows)


def test_a_key_given_before_anybody_knew_is_not_said_to_get_the_guest_in_once_it_is_known(world: World, apart: House) -> None:
    stay = apart.book(["101"])
    assert not apart.opens("101", stay.artifact(), world.now + timedelta(hours=1))
    apart.poll_health()
    verdict = stay.told()["verdict"]
    assert (verdict["answer"], verdict["why"]) == ("shut", "clock_off")


@pytest.mark.parametrize("is_the_houses", [True, False], ids=["the house's time", "the vendor's time"])
@pytest.mark.parametrize("zone", [("Asia/Kabul", KABUL), ("Asia/Tokyo", TOKYO)], ids=["Kabul", "Tokyo"])
def test_whichever_time_the_lock_shows_the_key_opens_at_no_instant_outside_its_window(
    world: World, house: Callable[..., House], zone: tuple[str, int], is_the_houses: bool
) -> None:
    hotel = house({"101": TTLOCK}, policy={**POLICY, "late_grace_minutes": 0}, zone=zone[0])
    pair(hotel, vendors_idea=CHINA, clock=zone[1] if is_the_houses else CHINA)
    hotel.command("import_devices", hotel.tenant_id, hotel.installations[TTLOCK])
    start = world.now + timedelta(hours=2)
    end = start + timedelta(hours=20)
    code = hotel.book(["101"], start=start, end=end).artifact()
    outside = [start - timedelta(minutes=minutes) for minutes in (1, 60, 200)]
    outside += [end + timedelta(minutes=minutes) for minutes in (0, 60, 200)]
    assert not any(hotel.opens("101", code, at) for at in outside)
    assert hotel.opens("101", code, start + timedelta(hours=10))


def test_a_lock_within_reach_is_mended_and_its_keys_are_given_again(world: World, house: Callable[..., House]) -> None:
    hotel = house({"101": TTLOCK}, policy=POLICY)
    pair(hotel, vendors_idea=CHINA, clock=KABUL)
    stay = hotel.book(["101"])
    code = stay.artifact()
    assert not hotel.opens("101", code, world.now + timedelta(minutes=1))
    hotel.poll_health()
    assert hotel.alerts(CODE)
    assert "set" in hotel.command("set_lock_clock", hotel.tenant_id, hotel.devices["101"])
    world.settle()
    assert hotel.opens("101", code, world.now + timedelta(minutes=1))
    assert hotel.opens("101", code, stay.end + timedelta(minutes=90))
    assert not hotel.opens("101", code, stay.end + timedelta(minutes=121))
    late = hotel.book(["101"], start=world.now + timedelta(minutes=5))
    assert warnings(late) == ["STAYS_OVERLAP"]
    assert hotel.opens("101", late.artifact(), world.now + timedelta(minutes=6))


def test_a_lock_out_of_reach_is_not_mended_from_afar(apart: House) -> None:
    apart.poll_health()
    before = apart.footprint()
    with pytest.raises(CommandFailed, match="1 of 1 clocks were not set"):
        apart.command("set_lock_clock", apart.tenant_id, apart.devices["101"])
    assert apart.footprint() == before


def test_a_code_given_before_the_lock_was_mended_at_the_door_is_told(world: World, apart: House) -> None:
    apart.poll_health()
    stay = apart.book(["101"])
    assert CODE in warnings(stay)
    pair(apart, vendors_idea=KABUL, clock=KABUL)
    apart.poll_health()
    world.settle()
    assert CODE in warnings(stay)
    assert any("replace them" in alert["detail"] for alert in apart.alerts(CODE))
    fresh = apart.book(["101"], start=world.now + timedelta(minutes=5))
    assert warnings(fresh) == ["STAYS_OVERLAP", "FIRST_USE_24H"]
    assert apart.opens("101", fresh.artifact(), world.now + timedelta(hours=1))


def test_a_clock_that_was_read_and_is_right_outranks_what_the_vendor_counts_with(
    world: World, house: Callable[..., House]
) -> None:
    hotel = house({"101": TTLOCK}, policy=POLICY)
    pair(hotel, vendors_idea=CHINA, clock=CHINA)
    hotel.poll_health()
    stay = hotel.book(["101"])
    assert warnings(stay) == []
    assert hotel.opens("101", stay.artifact())


def test_summer_and_winter_time_of_the_house_both_count_as_its_own(house: Callable[..., House]) -> None:
    hotel = house({"101": TTLOCK}, stand_alone=["101"], policy=POLICY, zone="Europe/Berlin")
    for offset_h in (1, 2):
        pair(hotel, vendors_idea=offset_h * HOUR_MS, clock=offset_h * HOUR_MS)
        hotel.poll_health()
    assert hotel.alerts(CODE) == []
    pair(hotel, vendors_idea=CHINA, clock=CHINA)
    hotel.poll_health()
    (alert,) = hotel.alerts(CODE)
    assert "101 is set to UTC+08:00, the house keeps UTC+0" in alert["detail"]


def test_a_house_whose_zone_is_corrected_is_compared_anew(apart: House) -> None:
    pair(apart, vendors_idea=KABUL, clock=KABUL)
    apart.poll_health()
    assert apart.alerts(CODE) == []
    apart.change_property(time_zone="Asia/Dushanbe")
    apart.poll_health()
    (alert,) = apart.alerts(CODE)
    assert "UTC+04:30, the house keeps UTC+05:00" in alert["detail"]
