"""A lock's clock that was off is right again: keys given meanwhile get their whole window back, and the warning goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from devices import health_poll, selectors
from lockservice.core.tenancy import tenant
from sagas.models import OutboxEvent, Saga
from tests.flows.conftest import events, keys, pin_of, sagas
from tests.support.hotel import Hotel
from tests.support.sweep_ttlock import TtlockCloud, TtlockHotel
from vendors.port.ids import new_id

Settle = Callable[..., int]
MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def cloud() -> Iterator[TtlockCloud]:
    running = TtlockCloud()
    yield running
    running.stop()


def _clock(place: TtlockHotel, minutes: float, label: str = "101") -> None:
    """Sets a lock's clock wrong, or right, and lets a poll notice."""
    place.cloud.ask("/door", {"lockId": place.locks[label], "clockOffsetMs": int(minutes * 60_000)})
    health_poll.poll(place.hotel.tenant_id, place.hotel.installation_id, checks=health_poll.ALL)
    selectors.forget()


def _stay(hotel: Hotel, rooms: list[str]) -> tuple[datetime, datetime]:
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    end = start + timedelta(days=1)
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, rooms, start=start, end=end))
    return start, end


def _updated(hotel: Hotel, key_id: str) -> list[dict[str, Any]]:
    with tenant(hotel.tenant_id):
        rows = OutboxEvent.objects.filter(tenant_id=hotel.tenant_id, ordering_key=key_id, subject__contains=".updated.")
        return [json.loads(bytes(row.body))["data"]["changes"] for row in rows.order_by("sequence")]


@pytest.mark.parametrize("minutes", [30, -30])
def test_a_key_gets_its_whole_window_back_and_loses_its_warning(
    database: str, cloud: TtlockCloud, settle: Settle, minutes: int
) -> None:
    place = TtlockHotel(cloud)
    hotel = place.hotel
    _clock(place, minutes)
    start, _ = _stay(hotel, ["101"])
    settle(hotel)
    (key,) = keys(hotel)
    assert [warning["code"] for warning in key.warnings] == ["CLOCK_SKEW"]
    pin = pin_of(hotel, key)
    _clock(place, 0)
    until = key.valid_until

    def opens(at: datetime) -> bool:
        return place.doors.opens(hotel.doors["101"], "pin_code", pin, at)

    first, last = start + MINUTE, until - MINUTE
    assert (opens(first), opens(last)) == ((False, True) if minutes > 0 else (True, False))  # cut, though the clock is right
    settle(hotel)
    assert [opens(at) for at in (start - MINUTE, first, last, until + MINUTE)] == [False, True, True, False]
    (key,) = keys(hotel)
    assert (key.state, key.warnings, key.open_work) == ("active", [], False)
    assert events(hotel, key)[-1] == "credential.updated"
    ((name, change),) = _updated(hotel, key.id)[0].items()
    assert name == ("validFrom" if minutes > 0 else "validUntil")
    grown = datetime.fromisoformat(change["to"]) - datetime.fromisoformat(change["from"])
    assert abs(abs(grown) - timedelta(minutes=30)) < timedelta(seconds=15)
    assert datetime.fromisoformat(change["to"]) == (key.valid_from if minutes > 0 else key.valid_until)


def test_the_second_walk_finds_nothing_more_and_calls_nobody(database: str, cloud: TtlockCloud, settle: Settle) -> None:
    place = TtlockHotel(cloud)
    _clock(place, 30)
    _stay(place.hotel, ["101"])
    settle(place.hotel)
    _clock(place, 0)
    settle(place.hotel)
    changed = place.done("keyboardPwd/change")
    settle(place.hotel, now=True)
    assert place.done("keyboardPwd/change") == changed == 1
    assert [status for flow, status in sagas(place.hotel) if flow == "clock_again"] == ["done"]


def test_a_key_with_another_lock_still_off_keeps_its_warning(database: str, cloud: TtlockCloud, settle: Settle) -> None:
    place = TtlockHotel(cloud)
    _clock(place, 30)
    _clock(place, -20, "201")
    _stay(place.hotel, ["101", "201"])
    settle(place.hotel)
    _clock(place, 0)
    settle(place.hotel, now=True, rounds=2)
    (key,) = keys(place.hotel)
    assert [warning["code"] for warning in key.warnings] == ["CLOCK_SKEW"]
    assert len(_updated(place.hotel, key.id)) == 1
    _clock(place, 0, "201")
    settle(place.hotel, now=True, rounds=2)
    (key,) = keys(place.hotel)
    assert (key.warnings, len(_updated(place.hotel, key.id))) == ([], 2)


def test_a_clock_that_was_never_off_starts_nothing(database: str, cloud: TtlockCloud) -> None:
    place = TtlockHotel(cloud)
    for minutes in (0, 3, 0):  # within what counts as right
        _clock(place, minutes)
    with tenant(place.hotel.tenant_id):
        assert not Saga.objects.filter(tenant_id=place.hotel.tenant_id).exists()
