"""Locks' logs are read on their turn: attempts count once however they came, within quota, from where the last reading ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from devices import call_counts, selectors
from devices.models import CallCount, LockDevice, RecordPoll, WebhookAddress
from lockservice.core.tenancy import queues, tenant
from sagas.flows import read_log
from sagas.flows.call_keys import issue_call_key
from tests.api.conftest import web
from tests.flows.conftest import alerts, keys, make_hotel, pin_of
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.push_site import Site, own_secrets
from tests.support.web_server import WebServer
from vendors.port.ids import new_id
from vendors.support.marks import mark_of

__all__ = ["web"]
Settle = Callable[..., int]
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def doors() -> Iterator[MockLocks]:
    """Give a mock vendor whose doors are put up by the test, apart from the session's."""
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture
def site(database: str, doors: MockLocks, web: WebServer) -> Site:
    place = Site(web, make_hotel(doors, secrets=own_secrets()))
    with tenant(place.hotel.tenant_id):  # nothing is pushed to this hotel unless a test says so
        WebhookAddress.objects.filter(tenant_id=place.hotel.tenant_id).delete()
    _set(doors, place.hotel)
    return place


def _set(doors: MockLocks, hotel: Hotel, **condition: Any) -> None:
    rows = [{"externalId": external, "label": name, **condition} for name, external in hotel.doors.items()]
    doors.ask("/seed", {"additive": True, "doors": rows})


def _try(doors: MockLocks, site: Site, label: str, value: str = "00000000") -> bool:
    return bool(doors.ask("/try", {"device": site.hotel.doors[label], "kind": "pin_code", "value": value})["open"])


def _turn(site: Site, label: str = "101") -> RecordPoll:
    with queues():
        return RecordPoll.objects.get(tenant_id=site.hotel.tenant_id, device_id=site.hotel.devices[label])


def _make_due(site: Site, **changes: Any) -> None:
    with queues():
        RecordPoll.objects.filter(tenant_id=site.hotel.tenant_id).update(due_at=datetime.now(UTC), **changes)


def _told(site: Site, label: str = "101") -> list[str]:
    return [item["subject"] for item in site.told(site.hotel.devices[label])]


def test_every_lock_has_its_turn_and_an_attempt_becomes_a_row_and_an_event(
    site: Site, doors: MockLocks, settle: Settle
) -> None:
    site.hotel.tell("booking.confirmed", site.hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(site.hotel)
    (key,) = keys(site.hotel)
    assert _try(doors, site, "101", pin_of(site.hotel, key))
    assert not _try(doors, site, "102")
    _make_due(site)
    reports = site.read_due()
    assert sorted(r.device_id for r in reports) == sorted(site.hotel.devices.values())
    assert {(r.outcome, r.calls) for r in reports} == {("read", 1)}
    assert [(a.outcome, a.credential_id, a.credential_state) for a in site.attempts()] == [
        ("granted", key.id, "active"), ("denied", None, ""),
    ]  # fmt: skip
    assert (_told(site, "101"), _told(site, "102")) == (["audit.attempt.v1"], ["audit.attempt.v1"])
    assert site.read_due() == []
    turn = _turn(site)
    assert (turn.outcome, turn.lease_until, turn.hinted) == ("read", None, False)
    assert turn.polled_at is not None
    assert abs((turn.due_at - turn.polled_at).total_seconds() - read_log.INTERVAL_S) < 2


def test_read_again_and_again_an_attempt_counts_once(site: Site, doors: MockLocks) -> None:
    _try(doors, site, "101")
    assert [site.read("101").new for _ in range(3)] == [1, 0, 0]
    assert [site.read("101").listed for _ in range(2)] == [1, 1]  # the readings overlap
    assert (_told(site), len(site.attempts())) == (["audit.attempt.v1"], 1)


@pytest.mark.parametrize("first", ["push", "log"])
def test_pushed_and_read_in_either_order_an_attempt_counts_once(
    site: Site, doors: MockLocks, settle: Settle, first: str
) -> None:
    site.token = site.rotate()
    site.hotel.tell("booking.confirmed", site.hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(site.hotel)
    record = site.open_anyway(doors, "101", mark_of(issue_call_key(keys(site.hotel)[0], 0)))
    news = {"push": [], "log": []}  # type: dict[str, list[int]]
    for way in (first, "log" if first == "push" else "push"):
        if way == "push":
            site.push(record)
            news["push"].append(site.work())
        else:
            news["log"].append(site.read("101").new)
    assert news == {"push": [1], "log": [0 if first == "push" else 1]}
    assert (_told(site), len(site.attempts())) == (["audit.attempt.v1"], 1)
    assert [row.outcome for row in site.webhooks()] == ["applied" if first == "push" else "duplicate"]


def test_what_reached_the_vendor_late_is_found_within_the_overlap_and_days_later_by_the_look_back(
    site: Site, doors: MockLocks
) -> None:
    site.read("101")
    _set(doors, site.hotel, clockSkewS=-45 * 60)  # the record is of three quarters of an hour ago
    _try(doors, site, "101")
    assert site.read("101").new == 1
    _set(doors, site.hotel, clockSkewS=-3 * 86_400)
    _try(doors, site, "101")
    _make_due(site, looked_back_at=datetime.now(UTC) - HOUR)
    assert site.read("101").new == 0  # it has looked back today
    _make_due(site, looked_back_at=datetime.now(UTC) - timedelta(days=1, hours=1))
    assert site.read("101").new == 1
    looked = _turn(site).looked_back_at
    assert looked is not None
    assert datetime.now(UTC) - looked < HOUR


def test_a_lock_whose_clock_runs_ahead_is_read_as_far_ahead(site: Site, doors: MockLocks) -> None:
    with tenant(site.hotel.tenant_id):
        LockDevice.objects.filter(tenant_id=site.hotel.tenant_id).update(clock_skew_ms=5 * 3_600_000)
    selectors.forget()
    _set(doors, site.hotel, clockSkewS=5 * 3600)
    _try(doors, site, "101")
    assert site.read("101").new == 1


def test_a_vendor_that_pushes_is_read_once_a_day_all_the_same(site: Site) -> None:
    site.token = site.rotate()
    assert site.read("101").pause_s == read_log.PUSHED_INTERVAL_S


def test_a_reading_pays_for_its_calls_with_a_tenth_of_the_months_quota(database: str, doors: MockLocks, web: WebServer) -> None:
    site = Site(web, make_hotel(doors, secrets=own_secrets(), calls_per_month=30_000))
    with tenant(site.hotel.tenant_id):
        WebhookAddress.objects.filter(tenant_id=site.hotel.tenant_id).delete()
    _set(doors, site.hotel)
    locks = len(site.hotel.devices)
    assert site.read("101").pause_s == locks * 30 * 86_400 / 3_000
    with tenant(site.hotel.tenant_id):
        assert CallCount.objects.get(tenant_id=site.hotel.tenant_id).calls == 1


def test_with_the_quota_spent_nobody_is_asked(database: str, doors: MockLocks, web: WebServer) -> None:
    site = Site(web, make_hotel(doors, secrets=own_secrets(), calls_per_month=1))
    _set(doors, site.hotel)
    assert site.read("101").outcome == "read"
    call_counts._kept.clear()
    before = doors.calls(*site.hotel.doors.values())
    assert (site.read("101").outcome, doors.calls(*site.hotel.doors.values())) == ("quota", before)


def test_a_dead_vendor_moves_nothing_on_and_the_next_reading_finds_all(site: Site, doors: MockLocks) -> None:
    site.read("101")
    known = _turn(site).read_until
    _try(doors, site, "101")
    doors.ask("/faults", {"profile": "fail=records&pct=100"})
    try:
        assert site.read("101").outcome == "unreachable"
        assert (_turn(site).read_until, site.attempts()) == (known, [])
    finally:
        doors.ask("/faults", {})
    assert site.read("101").new == 1


def test_two_workers_at_once_write_an_attempt_once(site: Site, doors: MockLocks) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    for _ in range(5):
        _try(doors, site, "101")

    def read(_: int) -> int:
        try:
            return site.read("101").new
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(read, range(8))) == 5
    assert (_told(site), len(site.attempts())) == (["audit.attempt.v1"] * 5, 5)


def test_a_reading_whose_process_died_is_done_again_after_its_lease(site: Site, doors: MockLocks) -> None:
    _try(doors, site, "101")
    _make_due(site, lease_until=datetime.now(UTC) + timedelta(minutes=4))  # somebody took it, asked, and died
    assert site.read_due() == []
    _make_due(site, lease_until=datetime.now(UTC) - timedelta(seconds=1))
    assert len(site.read_due()) == len(site.hotel.devices)
    assert len(site.attempts()) == 1


def test_a_log_that_makes_no_sense_stops_no_other_and_ends_with_a_person(site: Site, doors: MockLocks) -> None:
    _try(doors, site, "102")
    with queues():
        RecordPoll.objects.filter(tenant_id=site.hotel.tenant_id, device_id=site.hotel.devices["101"]).update(
            read_until=datetime.min.replace(tzinfo=UTC) + timedelta(minutes=1)  # no span can be made of this
        )
    _make_due(site)
    reports = {report.device_id: report.outcome for report in site.read_due()}
    assert reports[site.hotel.devices["101"]] == "bug"
    assert reports[site.hotel.devices["102"]] == "read"
    assert [attempt.device_id for attempt in site.attempts()] == [site.hotel.devices["102"]]
    assert alerts(site.hotel) == [("INTERNAL_ERROR", "critical")]


def test_where_only_pushes_are_asked_back_the_other_locks_keep_their_turn(site: Site) -> None:
    _make_due(site)
    with queues():
        row = RecordPoll.objects.filter(tenant_id=site.hotel.tenant_id, device_id=site.hotel.devices["102"])
        row.update(hinted=True)
    only = [site.hotel.installation_id]
    assert [report.device_id for report in read_log.read_due(only=only, hinted=True)] == [site.hotel.devices["102"]]
    assert read_log.read_due(only=only, hinted=True) == []
    assert len(read_log.read_due(only=only)) == len(site.hotel.devices) - 1


def test_a_lock_in_use_no_more_is_not_read(site: Site) -> None:
    with tenant(site.hotel.tenant_id):
        LockDevice.objects.filter(tenant_id=site.hotel.tenant_id, id=site.hotel.devices["101"]).update(active=False)
    selectors.forget()
    assert site.read("101").outcome == "inactive"
