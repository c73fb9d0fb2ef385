"""How locks are: history, thresholds as events and alerts, polling within quota and beside the keys' work."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from devices import clock_setting, health, health_poll, selectors
from devices.health_check import CheckRefused
from devices.health_rules import Reading, Source
from devices.models import CallCount, DeviceReading, HealthPoll, LockDevice, VendorInstallation
from lockservice.core.tenancy import queues, tenant
from sagas.models import Alert, Lane, OutboxEvent
from tests.flows.conftest import alerts, events, keys, make_hotel, pin_of
from tests.support.hotel import Hotel, point
from tests.support.mock_locks import MockLocks
from tests.support.sweep_ttlock import TtlockCloud, TtlockHotel
from vendors.port.errors import LockError
from vendors.port.ids import new_id

Settle = Callable[..., int]


@pytest.fixture(scope="module")
def cloud() -> Iterator[TtlockCloud]:
    running = TtlockCloud()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def doors() -> Iterator[MockLocks]:
    """Give a mock vendor whose doors are put up by the test, apart from the session's."""
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture
def site(database: str, doors: MockLocks) -> Hotel:
    hotel = make_hotel(doors)
    _set(doors, hotel)
    return hotel


def _set(doors: MockLocks, hotel: Hotel, label: str | None = None, **condition: Any) -> None:
    for name, external in hotel.doors.items():
        if label in (None, name):
            doors.ask("/seed", {"additive": True, "doors": [{"externalId": external, "label": name, **condition}]})


def _device_events(hotel: Hotel, label: str) -> list[tuple[str, dict[str, Any]]]:
    """(short subject, data) of a device's events, after checking that their sequence has no gap."""
    with tenant(hotel.tenant_id):
        rows = list(
            OutboxEvent.objects.filter(tenant_id=hotel.tenant_id, ordering_key=hotel.devices[label]).order_by("sequence")
        )
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
    return [(row.subject.removeprefix("melmastoon.lock.device."), json.loads(bytes(row.body))["data"]) for row in rows]


def _row(hotel: Hotel, label: str) -> LockDevice:
    with tenant(hotel.tenant_id):
        return LockDevice.objects.get(tenant_id=hotel.tenant_id, id=hotel.devices[label])


def _poll(hotel: Hotel, checks: int = health_poll.ALL) -> health_poll.Report:
    return health_poll.poll(hotel.tenant_id, hotel.installation_id, checks=checks)


def _queue_row(hotel: Hotel) -> HealthPoll:
    with queues():
        return HealthPoll.objects.get(tenant_id=hotel.tenant_id, installation_id=hotel.installation_id)


def test_a_poll_writes_history_and_the_device_as_last_read(site: Hotel, doors: MockLocks) -> None:
    _set(doors, site, "101", batteryPercent=64, clockSkewS=-12)
    report = _poll(site)
    assert (report.outcome, report.listed, report.checked, report.crossed, report.calls) == ("polled", 4, 4, 0, 5)
    row = _row(site, "101")
    assert (row.battery_percent, row.clock_skew_ms, row.online) == (64, -12_000, True)
    assert row.checked_at is not None
    with tenant(site.tenant_id):
        found = health.history(site.tenant_id, row.id, datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC))
        assert [(r.source, r.online, r.battery_percent, r.clock_skew_ms) for r in found] == [
            ("list", True, 64, None), ("check", True, 64, -12_000),
        ]  # fmt: skip
        assert CallCount.objects.get(tenant_id=site.tenant_id).calls == 5
    assert _device_events(site, "101") == []


def test_a_weak_battery_is_one_event_and_one_alert_and_a_dying_one_is_another(site: Hotel, doors: MockLocks) -> None:
    for percent in (18, 17, 9, 8):
        _set(doors, site, "102", batteryPercent=percent)
        _poll(site, 1)
    told = _device_events(site, "102")
    assert [(subject, data.get("batteryPct", data.get("severity"))) for subject, data in told] == [
        ("battery_low.v1", 18), ("health_alert.v1", "warning"), ("battery_low.v1", 9), ("health_alert.v1", "critical"),
    ]  # fmt: skip
    assert told[0][1]["thresholdPct"] == 25
    assert told[1][1]["metric"] == {"batteryPct": 18}
    assert sorted(alerts(site)) == [("DEVICE_BATTERY_LOW", "critical"), ("DEVICE_BATTERY_LOW", "warning")]


def test_a_clock_thirty_minutes_off_is_told_and_stands_on_the_key_and_in_its_event(
    site: Hotel, doors: MockLocks, settle: Settle
) -> None:
    _set(doors, site, "101", clockSkewS=1800)
    _poll(site)
    (alert,) = _device_events(site, "101")
    assert (alert[0], alert[1]["alert"], alert[1]["severity"]) == ("health_alert.v1", "clock_skew", "critical")
    assert alert[1]["metric"] == {"clockSkewMs": 1_800_000}
    assert alerts(site) == [("DEVICE_CLOCK_SKEW", "critical")]
    selectors.forget()
    stay, other = new_id("rsv"), new_id("rsv")
    site.tell("booking.confirmed", site.booking(stay, 1, ["101"]))
    site.tell("booking.confirmed", site.booking(other, 1, ["102"]))
    settle(site)
    (key,), (straight,) = keys(site, stay), keys(site, other)
    expected = {"code": "CLOCK_SKEW", "detail": "the clock of 101 is 30 minutes fast; the key opens there by that clock"}
    assert (key.state, key.warnings, straight.warnings) == ("active", [expected], [])
    assert events(site, key)[-1] == "credential.issued"
    with tenant(site.tenant_id):
        issued = OutboxEvent.objects.get(tenant_id=site.tenant_id, ordering_key=key.id, subject__contains=".issued.")
    assert json.loads(bytes(issued.body))["data"]["warnings"] == [expected]


def test_a_lock_is_offline_after_two_polls_and_online_after_one(site: Hotel, doors: MockLocks) -> None:
    _set(doors, site, "103", online=False)
    _poll(site, 0)
    assert (_device_events(site, "103"), _row(site, "103").online) == ([], False)  # as read; told after the second
    _poll(site, 0)
    _poll(site, 0)
    assert _row(site, "103").online is False
    _set(doors, site, "103", online=True)
    _poll(site, 0)
    told = _device_events(site, "103")
    assert [subject for subject, _ in told] == ["offline.v1", "health_alert.v1", "online.v1"]
    assert (told[0][1]["reason"], told[0][1]["lastSeenAt"]) == ("not_reached", None)
    assert (_row(site, "103").online, alerts(site)) == (True, [("DEVICE_OFFLINE", "warning")])


def test_old_firmware_is_told_once_where_the_installation_asks(site: Hotel) -> None:
    with tenant(site.tenant_id):
        VendorInstallation.objects.filter(tenant_id=site.tenant_id).update(firmware_minimum="6.5")
        for _ in range(2):
            health.observe(site.tenant_id, {site.devices["101"]: Reading(Source.LIST, firmware="6.4.1")}, datetime.now(UTC))
    (told,) = _device_events(site, "101")
    assert (told[1]["alert"], told[1]["metric"]) == ("firmware_out_of_date", {"firmware": "6.4.1"})
    assert told[1]["threshold"] == {"minimum": "6.5"}
    assert alerts(site) == []


def test_locks_missed_and_locks_not_looked_at_for_longest_come_first(site: Hotel, doors: MockLocks) -> None:
    now = datetime.now(UTC)
    with tenant(site.tenant_id):
        for hours, label in enumerate(("101", "102", "103", "lobby"), start=1):
            row = LockDevice.objects.filter(tenant_id=site.tenant_id, id=site.devices[label])
            row.update(checked_at=now - timedelta(hours=hours), standing={"missed": 1} if label == "101" else {})
    before = _checked(site)
    report = _poll(site, 2)
    changed = {label for label, at in _checked(site).items() if at != before[label]}
    assert (report.checked, changed) == (2, {"lobby", "103"})  # the list reached 101 again: it is missed no more


def _checked(hotel: Hotel) -> dict[str, datetime | None]:
    return {label: _row(hotel, label).checked_at for label in hotel.devices}


def test_every_installation_is_due_once_and_then_after_its_pause(site: Hotel) -> None:
    reports = health_poll.poll_due(only=[site.installation_id])
    assert [(r.installation_id, r.outcome, r.checked) for r in reports] == [(site.installation_id, "polled", 2)]
    row = _queue_row(site)
    assert (row.outcome, row.lease_until, row.calls) == ("polled", None, 3)
    assert row.polled_at is not None
    assert abs((row.due_at - row.polled_at).total_seconds() - health_poll.INTERVAL_S) < 1
    assert health_poll.poll_due(only=[site.installation_id]) == []


def test_a_poll_pays_for_its_calls_with_a_tenth_of_the_months_quota(database: str, doors: MockLocks) -> None:
    hotel = make_hotel(doors, calls_per_month=30_000)
    _set(doors, hotel)
    report = _poll(hotel, 2)
    assert (report.calls, report.pause_s) == (3, 3 * 30 * 86_400 / 3_000)


def test_nobody_is_asked_once_the_quota_is_spent(database: str, doors: MockLocks) -> None:
    hotel = make_hotel(doors, calls_per_month=4)
    _set(doors, hotel)
    assert _poll(hotel, 3).calls == 4
    from devices import call_counts

    call_counts._kept.clear()
    asked = doors.calls(*hotel.doors.values())
    report = _poll(hotel)
    assert (report.outcome, report.calls, doors.calls(*hotel.doors.values())) == ("quota", 0, asked)


def test_a_dead_vendor_ends_the_poll_and_counts_for_its_breaker(site: Hotel) -> None:
    point(site, "mock://127.0.0.1:9")
    for _ in range(20):
        report = _poll(site)
        assert (report.outcome, report.listed, report.checked, report.pause_s) == ("unreachable", 0, 0, 120.0)
    assert _poll(site).outcome == "breaker"
    with tenant(site.tenant_id):
        assert not DeviceReading.objects.filter(tenant_id=site.tenant_id).exists()
        assert Alert.objects.filter(tenant_id=site.tenant_id, code="VENDOR_BREAKER_OPEN").count() == 1
    assert _row(site, "101").online is True  # what was not read is not guessed


def test_a_dead_vendor_whose_locks_clocks_are_set_counts_for_its_breaker(site: Hotel) -> None:
    point(site, "mock://127.0.0.1:9")
    for _ in range(20):
        with pytest.raises(LockError):
            clock_setting.set_clock(site.tenant_id, site.devices["101"])
    with pytest.raises(CheckRefused):
        clock_setting.set_clock(site.tenant_id, site.devices["101"])
    assert alerts(site) == [("VENDOR_BREAKER_OPEN", "critical")]


def test_readings_are_kept_for_ninety_days(site: Hotel) -> None:
    with tenant(site.tenant_id):
        for days in (89, 91):
            at = datetime.now(UTC) - timedelta(days=days)
            health.observe(site.tenant_id, {site.devices["101"]: Reading(Source.LIST, battery_percent=days)}, at)
    _poll(site, 0)
    with tenant(site.tenant_id):
        rows = DeviceReading.objects.filter(tenant_id=site.tenant_id, device_id=site.devices["101"]).order_by("at")
        assert [row.battery_percent for row in rows] == [89, 90]  # the mock's battery


def test_a_gateway_with_work_is_not_disturbed_and_a_free_one_is_given_back(database: str, cloud: TtlockCloud) -> None:
    place = TtlockHotel(cloud)
    hotel = place.hotel
    lanes = [f"{hotel.installation_id}:{gateway}" for gateway in place.gateways]
    with queues():
        for lane in lanes:
            Lane.objects.create(key=lane, tenant_id=hotel.tenant_id, owner="")
        Lane.objects.filter(key=lanes[0]).update(owner="runner", lease_until=datetime.now(UTC) + timedelta(minutes=5), token=7)
    report = _poll(hotel)
    assert (report.outcome, report.listed, report.checked) == ("polled", 2, 1)
    assert place.calls("lock/queryDate") == 1
    assert (_row(hotel, "101").checked_at, _row(hotel, "201").checked_at is not None) == (None, True)
    assert abs(_row(hotel, "201").clock_skew_ms or 0) < 5_000
    with queues():
        found = {row.key: (row.owner, row.token, row.lease_until is None) for row in Lane.objects.filter(key__in=lanes)}
    assert found == {lanes[0]: ("runner", 7, False), lanes[1]: ("", 1, True)}


def test_a_dead_gateway_makes_its_locks_offline_and_leaves_the_others(database: str, cloud: TtlockCloud) -> None:
    place = TtlockHotel(cloud)
    place.gateway_online(False)
    for _ in range(2):
        _poll(place.hotel)
    assert (_row(place.hotel, "101").online, _row(place.hotel, "201").online) == (False, True)
    assert [subject for subject, _ in _device_events(place.hotel, "101")][:1] == ["offline.v1"]
    place.gateway_online(True)
    _poll(place.hotel)
    assert _device_events(place.hotel, "101")[-1][0] == "online.v1"


def test_the_command_polls_one_installation_and_prints_a_history_to_plot(site: Hotel, doors: MockLocks) -> None:
    _set(doors, site, "101", batteryPercent=51, clockSkewS=2)
    out = io.StringIO()
    call_command("poll_health", site.tenant_id, site.installation_id, stdout=out)
    assert out.getvalue() == (
        f"{site.installation_id}: polled, 4 listed, 4 looked at, 0 thresholds crossed, 5 calls, again in 900 s\n"
    )
    out = io.StringIO()
    call_command("poll_health", site.tenant_id, history=site.devices["101"], stdout=out)
    head, *lines = out.getvalue().splitlines()
    assert head == "at,source,online,batteryPercent,clockSkewMs,firmware"
    assert [line.partition(",")[2] for line in lines] == ["list,true,51,,", "check,true,51,2000,"]


def test_readings_of_one_lock_at_once_cross_a_threshold_once(site: Hotel) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def read(_: int) -> int:
        try:
            with tenant(site.tenant_id):
                reading = Reading(Source.CHECK, battery_percent=20)
                return len(health.observe(site.tenant_id, {site.devices["101"]: reading}, datetime.now(UTC)))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(read, range(12))) == 1
    assert len(_device_events(site, "101")) == 2


@pytest.mark.parametrize("minutes", [30, -30])
def test_a_ttlock_clock_thirty_minutes_off_opens_no_minute_outside_of_the_stay(
    database: str, cloud: TtlockCloud, settle: Settle, minutes: int
) -> None:
    place = TtlockHotel(cloud)
    hotel = place.hotel
    cloud.ask("/door", {"lockId": place.locks["101"], "clockOffsetMs": minutes * 60_000})
    _poll(hotel)
    assert alerts(hotel) == [("DEVICE_CLOCK_SKEW", "critical")]
    selectors.forget()
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    end = start + timedelta(days=1)
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"], start=start, end=end))
    settle(hotel)
    (key,) = keys(hotel)
    assert (key.state, [warning["code"] for warning in key.warnings]) == ("active", ["CLOCK_SKEW"])
    with tenant(hotel.tenant_id):
        issued = OutboxEvent.objects.get(tenant_id=hotel.tenant_id, ordering_key=key.id, subject__contains=".issued.")
    assert [warning["code"] for warning in json.loads(bytes(issued.body))["data"]["warnings"]] == ["CLOCK_SKEW"]
    pin = pin_of(hotel, key)

    def opens(at: datetime) -> bool:
        return place.doors.opens(hotel.doors["101"], "pin_code", pin, at)

    minute = timedelta(minutes=1)
    until = key.valid_until  # the stay's end and the house's grace
    assert [opens(at) for at in (start - minute, start - 29 * minute, until + minute, until + 29 * minute)] == [False] * 4
    assert opens(start + timedelta(hours=12))
    assert (opens(start + minute), opens(until - minute)) == ((True, False) if minutes > 0 else (False, True))
