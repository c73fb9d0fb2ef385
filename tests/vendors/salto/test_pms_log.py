"""What a PMS server tells: the logs of its doors, and whether it answers at all."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.vendors.salto.hotel import CARD, NOON, H, Hotel
from tests.vendors.salto.pms_lines import (
    ACK,
    ENQ,
    ROOM,
    scripted,
)
from tests.vendors.salto.scripted_line import HANG_UP, ScriptedLine
from vendors.port.errors import (
    VendorUnreachable,
)
from vendors.port.types import (
    Door,
    Window,
)
from vendors.salto.pms_frames import encode


def test_the_log_arrives_with_the_card_that_carried_it(pms: Hotel) -> None:
    door, guest = pms.doors[0], pms.key()
    span = (NOON - H, NOON + 100 * H)
    assert guest.opens(door)
    pms.at(NOON + 80 * H)
    assert not guest.opens(door)
    assert pms.port.list_records(door, *span) == ()
    pms.shown(pms.street, guest.value)
    records = pms.port.list_records(door, *span)
    assert [(r.outcome, r.deny_reason, r.attempted_at) for r in records] == [
        ("granted", None, NOON),
        ("denied", "expired", NOON + 80 * H),
    ]
    assert len({record.external_event_id for record in records}) == 2
    assert records == pms.port.list_records(door, *span)


def test_a_log_without_years_is_dated_over_the_turn_of_the_year(new_hotel: Callable[..., Hotel]) -> None:
    hotel = new_hotel(transport="pms")
    eve = datetime(2026, 12, 31, 19, 0, tzinfo=UTC)
    hotel.at(eve)
    guest = hotel.key(window=Window(eve - H, eve + 48 * H))
    assert guest.opens(hotel.doors[0])
    hotel.at(eve + timedelta(hours=6))
    hotel.shown(hotel.street, guest.value)
    (record,) = hotel.port.list_records(hotel.doors[0], eve - H, eve + H)
    assert record.attempted_at == eve


def log_line(door: Door, *rows: tuple[str, str]) -> ScriptedLine:
    """A conversation for each line of a log, and one for its end, all over one connection."""
    told = [("WF", door.external_id, day, minute, "0", "0", "101", "#0") for day, minute in rows]
    answers = [*told, ("WO", door.external_id)]
    asked = ["WF", *["WN"] * len(rows)]
    steps = [
        ((ENQ, [ACK]), (encode((which, door.external_id)), [ACK, encode(answer)]))
        for which, answer in zip(asked, answers, strict=True)
    ]
    return ScriptedLine(*(part for step in steps for part in step))


def test_a_line_of_the_log_whose_time_makes_no_sense_leaves_the_others_readable(pms: Hotel) -> None:
    rows = [("30/11", "10:00"), ("31/02", "10:00"), ("x", "10:00"), ("30/11", "25:61"), ("", ""), ("30/11", "10:05")]
    line = log_line(pms.doors[0], *rows)
    records = scripted(pms, line).list_records(pms.doors[0], NOON - 48 * H, NOON)
    assert [f"{record.attempted_at:%d %H:%M}" for record in records] == ["30 05:30", "30 05:35"]
    assert (line.is_spent, line.is_closed) == (True, True)


def test_a_log_longer_than_five_hundred_lines_is_read_to_its_newest(pms: Hotel) -> None:
    rows = [(f"{1 + index // 60:02d}/11", f"10:{index % 60:02d}") for index in range(600)] + [("01/12", "12:00")]
    records = scripted(pms, log_line(pms.doors[0], *rows)).list_records(pms.doors[0], NOON - 24 * H, NOON)
    assert [f"{record.attempted_at:%d %H:%M}" for record in records] == ["01 07:30"]


def test_a_log_without_end_is_given_up(pms: Hotel) -> None:
    told = [ACK, encode(("WF", "101", "30/11", "10:00", "0"))]
    which = itertools.chain(["WF"], itertools.repeat("WN", 3100))
    steps = [((ENQ, [ACK]), (encode((command, "101")), list(told))) for command in which]
    line = ScriptedLine(*(part for step in steps for part in step))
    port = scripted(pms, line)
    with pytest.raises(VendorUnreachable, match="timeout"):
        port.list_records(ROOM, NOON - H, NOON)


def test_a_server_that_writes_the_month_first_is_read_so(new_hotel: Callable[..., Hotel]) -> None:
    hotel = new_hotel(transport="pms", log_dates="mm/dd")
    hotel.simulator.post("/seed", {"property": hotel.property, "monthFirst": True})
    guest = hotel.key()
    assert guest.opens(hotel.doors[0])
    hotel.shown(hotel.street, guest.value)
    (record,) = hotel.port.list_records(hotel.doors[0], NOON - H, NOON + H)
    assert record.attempted_at == NOON
    hotel.extra["log_dates"] = "yyyy"
    with pytest.raises(ValueError, match="log_dates"):
        hotel.build()


def test_health_is_whether_the_server_answers_and_asks_for_no_log(pms: Hotel) -> None:
    health = pms.port.health_check(pms.doors[0])
    assert (health.online, health.battery_percent, health.clock_skew_ms) == (True, None, None)
    assert pms.calls() == ["PMS INFO"]


@pytest.mark.parametrize(("letters", "online"), [("ES", True), ("NF", False)])
def test_an_interface_that_does_not_know_the_question_answers_all_the_same(pms: Hotel, letters: str, online: bool) -> None:
    line = ScriptedLine((ENQ, [ACK]), (encode(("INFO",)), [ACK, encode((letters,))]))
    if online:
        assert scripted(pms, line).health_check(ROOM).online
        return
    with pytest.raises(VendorUnreachable):
        scripted(pms, line).health_check(ROOM)


@pytest.mark.parametrize("by_connection", [False, True], ids=["place kept by server", "place kept by connection"])
def test_a_log_is_read_whole_while_health_is_asked_for(pms: Hotel, by_connection: bool) -> None:
    pms.simulator.post("/seed", {"property": pms.property, "logPlaceByConnection": by_connection})
    guest = pms.key()
    for minute in range(6):
        pms.at(NOON + timedelta(minutes=minute))
        assert guest.opens(pms.doors[0])
    pms.shown(pms.street, guest.value)
    span = (NOON - H, NOON + H)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(pms.build().health_check, pms.doors[0]) for _ in range(6)]
        reading = [pool.submit(pms.build().list_records, pms.doors[0], *span) for _ in range(3)]
        assert all(answer.result(30).online for answer in asked)
        told = [[record.attempted_at for record in answer.result(30)] for answer in reading]
    assert told == [[NOON + timedelta(minutes=minute) for minute in range(6)]] * 3


def test_a_log_whose_line_breaks_tells_nothing_instead_of_a_part(pms: Hotel) -> None:
    first = ((ENQ, [ACK]), (encode(("WF", "101")), [ACK, encode(("WF", "101", "30/11", "10:00", "0", "0", "101", "#0"))]))
    line = ScriptedLine(*first, (ENQ, [HANG_UP]))
    with pytest.raises(VendorUnreachable) as caught:
        scripted(pms, line).list_records(ROOM, NOON - 48 * H, NOON)
    assert caught.value.throttled, "nothing was lost by asking: it is asked again, from the first line"


def test_an_opening_by_a_button_or_from_a_computer_is_no_cards(pms: Hotel) -> None:
    for how in ("button", "pc"):
        pms.simulator.post("/door", {"property": pms.property, "device": pms.street.external_id, "opened": how})
    guest = pms.key(doors=(pms.doors[0], pms.street))
    assert guest.opens(pms.street)
    records = pms.port.list_records(pms.street, NOON - H, NOON + H)
    assert [(record.outcome, record.kind) for record in records] == [("granted", None), ("granted", None), ("granted", CARD)]
