"""Visionline on its wire: encoders, overriding and joining, cards known by number, wall time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.vendors.asking import Tipping
from tests.vendors.assa_abloy.conftest import NewHouse, StandaloneVisionline
from tests.vendors.assa_abloy.harness import VisionlineSite
from tests.vendors.site import handle_for, new_key, request_for, stay
from vendors import registry
from vendors.assa_abloy.adapter import VisionlinePort
from vendors.assa_abloy.local_time import from_wall, is_twice, read_zone, to_wall, whole_minutes
from vendors.port.clock import FixedClock
from vendors.port.errors import CardEncoderOffline, KeyIssueFailed, Reason, VendorUnreachable
from vendors.port.types import (
    CallMeta,
    CredentialKind,
    Intent,
    Outcome,
    RevokeReason,
    SuspendReason,
    UpdateInput,
    Window,
)

CARD, PHONE = CredentialKind.RFID_CARD, CredentialKind.MOBILE_APP


@pytest.fixture
def site(new_house: NewHouse) -> VisionlineSite:
    site: VisionlineSite = new_house(VisionlineSite)
    return site


def with_settings(site: VisionlineSite, **settings: object) -> VisionlinePort:
    port = registry.build(site.code, site.context(settings={**site.settings(), **settings}))
    assert isinstance(port, VisionlinePort)
    return port


def targets_of(site: VisionlineSite, act: Callable[[], object]) -> list[str]:
    before = len(site.proxy.paths)
    act()
    return site.proxy.paths[before:]


def meta(attempt: int = 1) -> CallMeta:
    return CallMeta(new_key(), attempt)


# --- what is asked for


@pytest.mark.parametrize(
    ("intent", "flag"), [(Intent.NEW, "override"), (Intent.REPLACEMENT, "override"), (Intent.ADDITIONAL, "autoJoin")]
)
def test_an_intent_becomes_a_flag(site: VisionlineSite, intent: Intent, flag: str) -> None:
    site.port.issue_credential(request_for(site, CARD, site.doors[:1]))
    targets = targets_of(site, lambda: site.port.issue_credential(request_for(site, CARD, site.doors[:1], intent=intent)))
    assert sorted(targets[-1].partition("?")[2].split("&")) == sorted(["action=encode", "encoder=desk-1", f"{flag}=true"])


def test_a_change_joins_its_own_stay_and_never_overrides(site: VisionlineSite) -> None:
    request = request_for(site, CARD)
    result = site.port.issue_credential(request)
    longer = handle_for(request, result, window=stay(-1, 90))
    targets = targets_of(site, lambda: site.port.update_credential(UpdateInput(longer, meta())))
    assert not any("override=" in target or "autoJoin" in target for target in targets)
    first, second = site.dump()["vendor"]
    assert (first["status"], second["status"], first["stays"] == second["stays"]) == ("overwritten", "active", True)


def test_a_limit_between_a_new_key_and_the_end_of_the_old_is_an_attempt_and_no_second_one_is_made(site: VisionlineSite) -> None:
    site.limiter = tipping = Tipping()
    site.refresh()
    request = request_for(site, PHONE, site.doors[:1])
    result = site.port.issue_credential(request)
    longer = UpdateInput(handle_for(request, result, window=stay(-1, 90)), meta())
    tipping.before(4, site.limit)  # asked for the door, read the old, made the new; the old is still to end
    with pytest.raises(VendorUnreachable) as caught:
        site.port.update_credential(longer)
    assert (caught.value.reason, caught.value.retriable, caught.value.throttled) == (Reason.RATE, True, False)
    made = len(site.dump()["vendor"])
    site.port.update_credential(replace(longer, meta=replace(longer.meta, attempt=2)))
    assert (len(site.dump()["vendor"]), site.keys_at(site.doors[0])) == (made, 1)
    assert made == 2


def test_a_resumed_key_never_joins_the_next_guests_stay(new_house: NewHouse) -> None:
    site = new_house(StandaloneVisionline)
    request = request_for(site, PHONE, site.doors[:1])
    result = site.port.issue_credential(request)
    site.port.suspend_credential(handle_for(request, result), SuspendReason.NO_SHOW, meta())
    other = request_for(site, CARD, site.doors[:1])
    taken = site.port.issue_credential(other)
    assert site.opens(site.doors[0], CARD, site.presented(taken, other))
    site.port.unsuspend_credential(handle_for(request, result), meta())
    assert site.tried(site.doors[0], PHONE, site.presented(result, request)) == "overridden"


# --- encoders


def test_the_encoder_waits_until_a_card_is_laid(new_house: NewHouse) -> None:
    site = new_house(VisionlineSite, cardWaitMs=60_000)
    port = with_settings(site, encoder="desk-2", encode_timeout_s=60.0)
    before = site.request_count()

    def lay_once_asked() -> None:
        while site.request_count() == before:
            threading.Event().wait(0.01)
        site.simulator.post("/place", {"house": site.house, "encoder": "desk-2", "serial": "4242"})

    person = threading.Thread(target=lay_once_asked)
    person.start()
    result = port.issue_credential(request_for(site, CARD, site.doors[:1]))
    person.join()
    assert [r.outcome for r in result.doors] == [Outcome.DONE]
    assert site.opens(site.doors[0], CARD, "4242")


def test_nobody_lays_a_card_and_the_desk_must_ask_again(new_house: NewHouse) -> None:
    site = new_house(VisionlineSite, cardWaitMs=20)
    with pytest.raises(KeyIssueFailed) as caught:
        with_settings(site, encoder="desk-2").issue_credential(request_for(site, CARD))
    assert not caught.value.retriable
    assert "no card was laid on the encoder" in caught.value.vendor_message
    assert site.dump()["vendor"] == []


def test_an_encoder_that_serves_somebody_else_is_asked_again_later(new_house: NewHouse) -> None:
    site = new_house(VisionlineSite, cardWaitMs=1500)
    port = with_settings(site, encoder="desk-2", encode_timeout_s=5.0)
    refused: list[Exception] = []

    def first() -> None:
        try:
            port.issue_credential(request_for(site, CARD, site.doors[:1]))
        except KeyIssueFailed as error:
            refused.append(error)

    clerk = threading.Thread(target=first)
    before = site.request_count()
    clerk.start()
    while site.request_count() == before:
        threading.Event().wait(0.01)
    with pytest.raises(CardEncoderOffline) as caught:
        while clerk.is_alive():
            port.issue_credential(request_for(site, CARD, site.doors[:1]))
    assert (caught.value.reason, caught.value.retriable) == (Reason.BUSY, True)
    clerk.join()
    assert len(refused) == 1


def test_an_unknown_encoder_is_offline_for_good(site: VisionlineSite) -> None:
    for encoder in ("desk-9", None):
        with pytest.raises(CardEncoderOffline) as caught:
            with_settings(site, encoder=encoder).issue_credential(request_for(site, CARD))
        assert not caught.value.retriable


def test_a_card_with_a_valid_key_is_refused_and_keeps_it(site: VisionlineSite) -> None:
    port = with_settings(site, encoder="desk-2")
    site.simulator.post("/place", {"house": site.house, "encoder": "desk-2", "serial": "88"})
    port.issue_credential(request_for(site, CARD, site.doors[:1]))
    with pytest.raises(KeyIssueFailed) as caught:
        port.issue_credential(request_for(site, CARD, site.doors[1:2]))
    assert "still holds a valid key" in caught.value.vendor_message
    assert [site.opens(door, CARD, "88") for door in site.doors] == [True, False, False]


def test_a_card_whose_number_is_known_needs_no_encoder_at_networked_doors(site: VisionlineSite) -> None:
    port = with_settings(site, has_online_cards=True, encoder=None)
    request = request_for(site, CARD)
    targets = targets_of(site, lambda: port.issue_credential(request))
    assert "action=" not in targets[-1]
    value = request.card_number.reveal() if request.card_number else ""
    assert [site.opens(door, CARD, value) for door in site.doors] == [True, True, True]


def test_a_card_must_be_written_where_one_door_is_off_the_network(site: VisionlineSite) -> None:
    port = with_settings(site, has_online_cards=True, encoder=None)
    doors = (site.doors[0], replace(site.doors[1], has_remote=False))
    with pytest.raises(CardEncoderOffline):
        port.issue_credential(request_for(site, CARD, doors))


# --- a lost answer


def test_a_lost_answer_is_looked_for_by_room_and_label_and_nothing_is_asked_twice(site: VisionlineSite) -> None:
    site.port.list_devices("p")
    request = request_for(site, CARD, site.doors[:1])
    site.simulator.post("/faults", {"path": "/cards", "method": "POST", "drop": "after", "times": 1})
    result = site.port.issue_credential(request)
    assert [r.outcome for r in result.doors] == [Outcome.DONE]
    assert result.calls == 2
    assert len(site.dump()["vendor"]) == 1


def test_what_cannot_be_found_after_a_lost_answer_is_not_asked_for_again_in_the_same_call(site: VisionlineSite) -> None:
    site.port.list_devices("p")
    site.simulator.post("/faults", {"path": "/cards", "method": "POST", "drop": "before", "times": 1})
    request = request_for(site, CARD, site.doors[:1])
    with pytest.raises(Exception, match="timeout") as caught:
        site.port.issue_credential(request)
    assert caught.value.retriable is True  # type: ignore[attr-defined]
    assert site.dump()["vendor"] == []


def test_the_label_is_32_hex_digits_and_says_nothing_of_the_guest(site: VisionlineSite) -> None:
    request = request_for(site, CARD)
    site.port.issue_credential(request)
    (row,) = site.dump()["vendor"]
    assert (len(row["label"]), set(row["label"]) <= set("0123456789abcdef")) == (32, True)


def test_revoking_one_room_of_three_leaves_the_others(site: VisionlineSite) -> None:
    request = request_for(site, CARD)
    result = site.port.issue_credential(request)
    handle = handle_for(request, result)
    one = replace(handle, doors=handle.doors[:1])
    assert {r.outcome for r in site.port.revoke_credential(one, RevokeReason.SECURITY, meta()).doors} == {Outcome.DONE}
    value = site.presented(result, request)
    assert [site.opens(door, CARD, value) for door in site.doors] == [False, True, True]


# --- wall time


@pytest.mark.parametrize("zone", ["Asia/Kabul", "Asia/Kathmandu", "Europe/Berlin", "UTC-03:30"])
def test_a_key_opens_at_the_propertys_wall_time_to_the_minute(new_house: NewHouse, zone: str) -> None:
    class There(VisionlineSite):
        time_zone = zone

    site = new_house(There)
    request = request_for(site, CARD, site.doors[:1], window=stay(2, 20))
    result = site.port.issue_credential(request)
    value, second = site.presented(result, request), timedelta(seconds=1)
    start, end = request.window.valid_from, request.window.valid_until
    opens = [site.opens(site.doors[0], CARD, value, at) for at in (start - second, start, end - second, end)]
    assert opens == [False, True, True, False]


def test_both_nights_of_the_clock_change_keep_the_window_or_warn(new_house: NewHouse) -> None:
    class Berlin(VisionlineSite):
        time_zone = "Europe/Berlin"

    site = new_house(Berlin)
    site.clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
    site.simulator.post("/clock", {"now": "2026-03-01T00:00:00+00:00", "running": False})
    site.refresh()
    spring = Window(datetime(2026, 3, 28, 14, tzinfo=UTC), datetime(2026, 3, 29, 10, tzinfo=UTC))
    autumn = Window(datetime(2026, 10, 24, 13, tzinfo=UTC), datetime(2026, 10, 25, 11, tzinfo=UTC))
    for window in (spring, autumn):
        request = request_for(site, PHONE, site.doors[:1], window=window)
        result = site.port.issue_credential(request)
        assert "WALL_TIME_TWICE" not in {w.code for w in result.warnings}
        value = site.presented(result, request)
        ends = (window.valid_from, window.valid_until - timedelta(seconds=1), window.valid_until)
        assert [site.opens(site.doors[0], PHONE, value, at) for at in ends] == [True, True, False]
    twice = Window(datetime(2026, 10, 24, 13, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC))
    result = site.port.issue_credential(request_for(site, PHONE, site.doors[:1], window=twice))
    assert "WALL_TIME_TWICE" in {w.code for w in result.warnings}


def test_wall_time_is_read_back_as_written() -> None:
    kabul, berlin = read_zone("Asia/Kabul"), ZoneInfo("Europe/Berlin")
    noon = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
    assert to_wall(noon, kabul) == "20260101T1430"
    assert from_wall("20260101T1430", kabul) == noon
    assert to_wall(noon, read_zone("UTC-03:30")) == "20260101T0630"
    assert from_wall("20261025T0230", berlin) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert [is_twice(datetime(2026, 10, 25, hour, 30, tzinfo=UTC), berlin) for hour in (0, 1, 2)] == [True, True, False]
    for name in ("Mars/Olympus", "UTC+5", "", "../etc"):
        with pytest.raises(ValueError):
            read_zone(name)


def test_parts_of_a_minute_are_cut_so_that_a_key_never_opens_outside_its_window() -> None:
    start = datetime(2026, 1, 1, 14, 30, 1, tzinfo=UTC)
    window = whole_minutes(Window(start, start + timedelta(minutes=10)))
    assert window == Window(datetime(2026, 1, 1, 14, 31, tzinfo=UTC), datetime(2026, 1, 1, 14, 40, tzinfo=UTC))
    whole = Window(window.valid_from, window.valid_until)
    assert whole_minutes(whole) == whole


def test_a_card_for_rooms_that_do_not_follow_each_other_is_refused_and_a_phone_takes_them(site: VisionlineSite) -> None:
    apart = (site.doors[0], site.doors[2])
    with pytest.raises(KeyIssueFailed) as caught:
        site.port.issue_credential(request_for(site, CARD, apart))
    assert (caught.value.reason, caught.value.retriable) == (Reason.DOOR_FULL, False)
    assert site.dump()["vendor"] == []
    request = request_for(site, PHONE, apart)
    value = site.presented(site.port.issue_credential(request), request)
    assert [site.opens(door, PHONE, value) for door in site.doors] == [True, False, True]
