"""A vendor that falls silent: its work waits without an attempt, one call looks, the others go on.

Rule: 30 s are scaled to 0.3 s.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from credentials.models import KeyCredential
from devices import breaker
from devices.breaker_rules import Heard
from devices.models import Breaker
from lockservice.core.tenancy import tenant
from sagas.models import OutboxEvent, Saga, SagaStep
from sagas.runner import Runner
from tests.flows.conftest import alerts, keys, make_hotel
from tests.support.hotel import Hotel, build_hotel, point
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

Settle = Callable[..., int]
DEAD = "mock://127.0.0.1:9"
ROOMS = [str(number) for number in range(101, 107)]


@pytest.fixture(autouse=True)
def _scaled(settings: Settings) -> None:
    settings.RETRY_SCALE = 0.01


def _book(hotel: Hotel, rooms: Sequence[str]) -> list[str]:
    stays = [new_id("rsv") for _ in rooms]
    for stay, room in zip(stays, rooms, strict=True):
        hotel.tell("booking.confirmed", hotel.booking(stay, 1, [room]))
    return stays


def _row(hotel: Hotel, installation: str | None = None) -> Breaker:
    with tenant(hotel.tenant_id):
        return Breaker.objects.get(tenant_id=hotel.tenant_id, installation_id=installation or hotel.installation_id)


def _changes(hotel: Hotel, installation: str | None = None) -> list[dict[str, Any]]:
    """The installation's events in order, after checking that their sequence has no gap."""
    with tenant(hotel.tenant_id):
        rows = list(
            OutboxEvent.objects.filter(tenant_id=hotel.tenant_id, ordering_key=installation or hotel.installation_id).order_by(
                "sequence"
            )
        )
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
    assert {row.subject for row in rows} <= {"melmastoon.lock.vendor_adapter.health_changed.v1"}
    return [json.loads(bytes(row.body))["data"] for row in rows]


def _moves(hotel: Hotel) -> list[tuple[str, str, str]]:
    return [(item["from"], item["to"], item["reason"]) for item in _changes(hotel)]


def _run(hotel: Hotel, until: Callable[[], bool], within_s: float = 15.0) -> None:
    with tenant(hotel.tenant_id):
        lanes = list(Saga.objects.filter(tenant_id=hotel.tenant_id).values_list("lane", flat=True).distinct())
    ends = time.monotonic() + within_s
    Runner(only=lanes).run(until=lambda: until() or time.monotonic() > ends)
    assert until(), f"not within {within_s} s"


def _states(hotel: Hotel, stays: Sequence[str]) -> set[str]:
    with tenant(hotel.tenant_id):
        rows = KeyCredential.objects.filter(tenant_id=hotel.tenant_id, reservation_id__in=stays)
        return set(rows.values_list("state", flat=True))


def _real_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


def _open(hotel: Hotel, seconds: float = 600.0) -> None:
    """Opens the hotel's breaker as twenty calls without an answer do, for a while."""
    with tenant(hotel.tenant_id):
        said = [Heard(hotel.installation_id, f"sag_{n}", False) for n in range(20)]
        breaker.note(hotel.tenant_id, said, datetime.now(UTC), _real_now(), seconds / 30.0)


def _end_pause(hotel: Hotel) -> None:
    """Lets the 30 s be over, and all that waits look again."""
    with tenant(hotel.tenant_id):
        past = _real_now() - timedelta(seconds=1)
        Breaker.objects.filter(tenant_id=hotel.tenant_id).update(open_until=past)
        Saga.objects.filter(tenant_id=hotel.tenant_id, status="retry").update(status="due", due_at=None)


def test_silence_opens_the_breaker_and_the_next_key_waits_without_an_attempt(database: str, locks: MockLocks) -> None:
    hotel = make_hotel(locks, rooms={room: new_id("lck") for room in ROOMS}, shared={}, policy={"kinds": ["pin_code"]})
    point(hotel, DEAD)
    _book(hotel, ROOMS)
    _run(hotel, lambda: _is_open(hotel))
    first = _changes(hotel)[0]
    assert (first["from"], first["to"], first["reason"]) == ("closed", "open", "error_rate_threshold")
    assert first["metric"] == {"errorRatePct": 100.0, "windowSize": first["metric"]["windowSize"]}
    assert 20 <= first["metric"]["windowSize"] <= 28  # at most a lane's width more were under way
    assert (first["vendor"], first["environment"], first["vendorAdapterId"]) == ("mock", "production", hotel.installation_id)
    assert alerts(hotel).count(("VENDOR_BREAKER_OPEN", "critical")) == 1
    with tenant(hotel.tenant_id):
        attempts = dict(Saga.objects.filter(tenant_id=hotel.tenant_id).values_list("id", "attempts"))
        Breaker.objects.filter(tenant_id=hotel.tenant_id).update(open_until=_real_now() + timedelta(hours=1))
    (late,) = _book(hotel, ["101"])
    _run(hotel, lambda: _waits(hotel, late))
    with tenant(hotel.tenant_id):
        saga = Saga.objects.get(tenant_id=hotel.tenant_id, reservation_id=late)
        assert (saga.status, saga.attempts, saga.error_code) == ("retry", 0, "VENDOR_BREAKER_OPEN")
        assert {key: saga.attempts for key, saga in Saga.objects.in_bulk(list(attempts)).items()} == attempts
    (key,) = keys(hotel, late)
    assert (key.state, key.event_sequence) == ("requested", 1)


def _is_open(hotel: Hotel) -> bool:
    with tenant(hotel.tenant_id):
        return Breaker.objects.filter(tenant_id=hotel.tenant_id, state="open").exists()


def _waits(hotel: Hotel, stay: str) -> bool:
    with tenant(hotel.tenant_id):
        return Saga.objects.filter(tenant_id=hotel.tenant_id, reservation_id=stay, status="retry").exists()


def test_the_vendor_comes_back_and_all_its_work_completes_with_one_key_each(database: str, locks: MockLocks) -> None:
    hotel = make_hotel(locks, rooms={room: new_id("lck") for room in ROOMS}, shared={}, policy={"kinds": ["pin_code"]})
    point(hotel, DEAD)
    stays = _book(hotel, ROOMS)
    _run(hotel, lambda: ("half_open", "open", "probe_unanswered") in _moves(hotel))
    point(hotel, locks.setting)
    _run(hotel, lambda: _states(hotel, stays) <= {"active", "failed"} and _row(hotel).state == "closed")
    moves = _moves(hotel)
    assert moves[0] == ("closed", "open", "error_rate_threshold")
    assert moves[-2:] == [("open", "half_open", "probe"), ("half_open", "closed", "probe_answered")]
    assert set(moves[1:-2]) == {("open", "half_open", "probe"), ("half_open", "open", "probe_unanswered")}
    assert _row(hotel).outcomes.count("0") == 0
    with tenant(hotel.tenant_id):
        active = KeyCredential.objects.filter(tenant_id=hotel.tenant_id, state="active")
        rooms = {key.rooms[0] for key in active}
    assert active
    for label in ROOMS:
        assert locks.created_at(hotel.doors[label]) == int(hotel.rooms[label] in rooms)


def test_an_outage_of_one_installation_leaves_the_other_alone(database: str, locks: MockLocks, settle: Settle) -> None:
    hotel = make_hotel(locks, rooms={"101": new_id("lck")}, shared={})
    dead = hotel.installation_id
    build_hotel(vendor="mock", settings={"url": locks.setting}, rooms={"201": new_id("lck")}, into=hotel)
    healthy, hotel.installation_id = hotel.installation_id, dead
    point(hotel, DEAD)
    _open(hotel)
    waiting, served = _book(hotel, ["101"]), _book(hotel, ["201"])
    settle(hotel)
    assert (_states(hotel, waiting), _states(hotel, served)) == ({"requested"}, {"active"})
    assert (_row(hotel, healthy).state, _row(hotel, healthy).outcomes) == ("closed", "1")
    assert _changes(hotel, healthy) == []


def test_a_vendor_that_hangs_holds_up_nobody_else(database: str, locks: MockLocks) -> None:
    rooms = {str(number): new_id("lck") for number in range(101, 121)}
    hotel = make_hotel(locks, "latencyMs=20000", rooms=rooms, shared={})
    hung = hotel.installation_id
    healthy_rooms = {str(number): new_id("lck") for number in range(201, 221)}
    build_hotel(vendor="mock", settings={"url": locks.setting}, rooms=healthy_rooms, into=hotel)
    waiting, served = _book(hotel, list(rooms)), _book(hotel, list(healthy_rooms))
    _run(hotel, lambda: _states(hotel, served) == {"active"})
    assert _states(hotel, waiting) <= {"requested", "pending"}
    with tenant(hotel.tenant_id):
        assert not Breaker.objects.filter(tenant_id=hotel.tenant_id, installation_id=hung).exists()  # nothing came back yet
        out = Saga.objects.filter(tenant_id=hotel.tenant_id, installation_id=hung, status="running").count()
        assert 1 <= out <= 8  # a lane's width is all that a vendor can hold
        assert SagaStep.objects.filter(tenant_id=hotel.tenant_id).count() == 20


def test_security_work_is_the_probe_when_the_pause_is_over(hotel: Hotel, locks: MockLocks, settle: Settle) -> None:
    (stay,) = _book(hotel, ["101"])
    settle(hotel)
    _open(hotel)
    (late,) = _book(hotel, ["102"])
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel)
    asked = len(locks.calls(hotel.doors["101"], hotel.doors["102"]))
    assert ("KEY_REVOKE_FAILED", "critical") in alerts(hotel)
    with tenant(hotel.tenant_id):
        dues = dict(Saga.objects.filter(tenant_id=hotel.tenant_id, status="retry").values_list("reservation_id", "due_at"))
    assert dues[stay] < dues[late]
    _end_pause(hotel)
    settle(hotel, now=True, rounds=3)
    new = [call["verb"] for call in locks.calls(hotel.doors["101"], hotel.doors["102"])[asked:]]
    assert new == ["revoke", "issue"]
    assert _moves(hotel)[1:] == [("open", "half_open", "probe"), ("half_open", "closed", "probe_answered")]


def test_of_many_askers_one_gets_the_probe(hotel: Hotel) -> None:
    _open(hotel)
    _end_pause(hotel)

    def ask(number: int) -> bool:
        try:
            with tenant(hotel.tenant_id):
                known = breaker.standing(hotel.tenant_id)
                now = _real_now()
                gate = breaker.ask(
                    hotel.tenant_id, hotel.installation_id, known,
                    saga_id=f"sag_{number}", urgent=False, hotel_now=now, real_now=now,
                )  # fmt: skip
                return gate.open and gate.probing
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(ask, range(12)))
    assert got.count(True) == 1
    assert _row(hotel).probe_saga == f"sag_{got.index(True)}"
    assert _moves(hotel)[1:] == [("open", "half_open", "probe")]


def test_a_probe_that_never_answered_is_taken_over_after_its_time(hotel: Hotel) -> None:
    _open(hotel)
    _end_pause(hotel)
    with tenant(hotel.tenant_id):
        now = _real_now()
        for saga, at, expected in (
            ("sag_a", now, True),
            ("sag_b", now + timedelta(seconds=89), False),
            ("sag_b", now + timedelta(seconds=90), True),
        ):
            known = breaker.standing(hotel.tenant_id)
            gate = breaker.ask(
                hotel.tenant_id, hotel.installation_id, known, saga_id=saga, urgent=False, hotel_now=at, real_now=at
            )
            assert gate.open is expected, (saga, gate)
        breaker.note(hotel.tenant_id, [Heard(hotel.installation_id, "sag_a", True)], now, now)
        assert _row(hotel).state == "half_open"  # the answer of a probe that was given up closes nothing
        breaker.note(hotel.tenant_id, [Heard(hotel.installation_id, "sag_b", True)], now, now)
    assert _row(hotel).state == "closed"


def test_refusals_of_a_live_vendor_open_nothing(database: str, locks: MockLocks, settle: Settle) -> None:
    rooms = {str(number): new_id("lck") for number in range(101, 131)}
    hotel = make_hotel(locks, "fail=issue&error=KEY_ISSUE_FAILED&retriable=0", rooms=rooms, shared={})
    stays = _book(hotel, list(rooms))
    settle(hotel)
    assert _states(hotel, stays) == {"failed"}
    assert (_row(hotel).state, _row(hotel).outcomes) == ("closed", "1" * 30)
    assert ("VENDOR_BREAKER_OPEN", "critical") not in alerts(hotel)


def test_after_five_quiet_minutes_old_silence_says_nothing(hotel: Hotel) -> None:
    with tenant(hotel.tenant_id):
        now = _real_now()
        old = [Heard(hotel.installation_id, "sag_a", False)] * 19
        breaker.note(hotel.tenant_id, old, now, now - timedelta(seconds=301))
        breaker.note(hotel.tenant_id, [Heard(hotel.installation_id, "sag_b", False)], now, now)
    assert (_row(hotel).state, _row(hotel).outcomes) == ("closed", "0")
