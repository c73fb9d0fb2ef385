"""Locks and vendors over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from devices.models import Breaker, CallCount, DeviceReading, LockDevice, VendorInstallation
from lockservice.core.tenancy import tenant
from sagas.models import Alert
from tests.api.conftest import make_hotel, problem, records
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.web_server import Caller, WebServer, caller
from vendors import registry


def test_health_is_told_from_the_books_without_a_vendor_call(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    body = desk.get(f"/lock/v1/devices/{hotel.devices['101']}/health").json()
    assert body == {
        "deviceId": hotel.devices["101"], "online": True, "batteryPercent": None, "clockSkewMs": None, "utcOffsetSeconds": None,
        "firmware": None, "lastSeenAt": None,
    }  # fmt: skip
    assert locks.calls(hotel.doors["101"]) == []


@pytest.fixture
def known_locks() -> Iterator[MockLocks]:
    """Give a mock of its own: one whose doors were named knows no others."""
    mock = MockLocks()
    yield mock
    mock.stop()


def test_a_health_check_asks_the_vendor_and_notes_what_it_said(database: str, known_locks: MockLocks, web: WebServer) -> None:
    locks, hotel = known_locks, make_hotel(known_locks)
    desk = caller(web, hotel.tenant_id, "front_desk")
    locks.ask("/seed", {"doors": [{"externalId": hotel.doors["101"], "batteryPercent": 17, "clockSkewS": 3}], "additive": True})
    answer = desk.post(f"/lock/v1/devices/{hotel.devices['101']}/health-check", key="check")
    body = answer.json()
    assert (answer.status_code, body["online"], body["batteryPercent"], body["clockSkewMs"]) == (200, True, 17, 3000)
    assert body["lastSeenAt"] is not None
    assert desk.get(f"/lock/v1/devices/{hotel.devices['101']}/health").json() == body
    calls = len(locks.calls(hotel.doors["101"]))
    again = desk.post(f"/lock/v1/devices/{hotel.devices['101']}/health-check", key="check")
    assert (again.json(), again.headers["Idempotent-Replayed"]) == (body, "true")
    assert len(locks.calls(hotel.doors["101"])) == calls


def _calls_counted(hotel: Hotel) -> list[int]:
    with tenant(hotel.tenant_id):
        return list(CallCount.objects.filter(tenant_id=hotel.tenant_id).values_list("calls", flat=True))


def test_a_health_check_is_counted_whether_it_was_answered_or_not(database: str, locks: MockLocks, web: WebServer) -> None:
    for query, status in (("", 200), ("fail=health&pct=100&error=VENDOR_UNREACHABLE", 503)):
        hotel = make_hotel(locks, query)
        path = f"/lock/v1/devices/{hotel.devices['101']}/health-check"
        answer = caller(web, hotel.tenant_id, "front_desk").post(path, key="check")
        assert (answer.status_code, _calls_counted(hotel)) == (status, [1])


def test_no_vendor_is_asked_that_may_not_be(database: str, locks: MockLocks, web: WebServer) -> None:
    spent, silent, closed = (make_hotel(locks) for _ in range(3))
    now = datetime.now(UTC)
    with tenant(spent.tenant_id):
        VendorInstallation.objects.filter(tenant_id=spent.tenant_id).update(calls_per_month=3)
        place = {"tenant_id": spent.tenant_id, "installation_id": spent.installation_id}
        CallCount.objects.create(**place, month=f"{now:%Y-%m}", calls=3)
    with tenant(silent.tenant_id):
        place = {"tenant_id": silent.tenant_id, "installation_id": silent.installation_id}
        Breaker.objects.create(**place, state="open", last_at=now, open_until=now + timedelta(minutes=5))
    with tenant(closed.tenant_id):
        VendorInstallation.objects.filter(tenant_id=closed.tenant_id).update(active=False)
    for hotel, refusal, retriable in (
        (spent, (503, "VENDOR_UNREACHABLE"), False),
        (silent, (503, "VENDOR_UNREACHABLE"), True),
        (closed, (409, "DEVICE_NOT_PAIRED"), False),
    ):
        answer = caller(web, hotel.tenant_id, "front_desk").post(f"/lock/v1/devices/{hotel.devices['101']}/health-check")
        assert (problem(answer), answer.json()["retriable"]) == (refusal, retriable)
        assert locks.calls(*hotel.doors.values()) == []
    assert (_calls_counted(spent), _calls_counted(silent), _calls_counted(closed)) == ([3], [], [])


def test_a_lock_that_nothing_reaches_from_outside_is_not_offline(database: str, known_locks: MockLocks, web: WebServer) -> None:
    hotel = make_hotel(known_locks)
    known_locks.ask("/seed", {"doors": [{"externalId": hotel.doors["101"], "online": False}], "additive": True})
    with tenant(hotel.tenant_id):
        LockDevice.objects.filter(tenant_id=hotel.tenant_id, id=hotel.devices["101"]).update(has_remote=False)
    desk = caller(web, hotel.tenant_id, "front_desk")
    for _ in range(5):
        body = desk.post(f"/lock/v1/devices/{hotel.devices['101']}/health-check").json()
        assert body["online"] is True
    with tenant(hotel.tenant_id):
        assert not Alert.objects.filter(tenant_id=hotel.tenant_id).exists()


def test_a_vendor_that_does_not_answer_is_503_and_frees_the_key(database: str, locks: MockLocks, web: WebServer) -> None:
    hotel = make_hotel(locks, "fail=health&pct=100&error=VENDOR_UNREACHABLE")
    desk = caller(web, hotel.tenant_id, "front_desk")
    answer = desk.post(f"/lock/v1/devices/{hotel.devices['101']}/health-check")
    assert (problem(answer), answer.json()["retriable"]) == ((503, "VENDOR_UNREACHABLE"), True)
    assert records(hotel) == []
    with tenant(hotel.tenant_id):
        assert LockDevice.objects.get(id=hotel.devices["101"]).last_seen_at is None


def test_vendors_describe_themselves(desk: Caller) -> None:
    items = desk.get("/lock/v1/vendors").json()["items"]
    assert [item["vendor"] for item in items] == sorted(registry.manifests())
    mock = next(item for item in items if item["vendor"] == "mock")
    assert mock["capabilities"]["remoteIssue"] is True


def test_a_lock_that_is_not_there_is_404(desk: Caller) -> None:
    assert problem(desk.get("/lock/v1/devices/lck_none/health")) == (404, "NOT_FOUND")
    assert problem(desk.post("/lock/v1/devices/lck_none/health-check")) == (404, "NOT_FOUND")


def _read_days_ago(hotel: Hotel, label: str, *days: int) -> None:
    with tenant(hotel.tenant_id):
        for number in days:
            at = datetime.now(UTC) - timedelta(days=number)
            DeviceReading.objects.create(
                tenant_id=hotel.tenant_id, device_id=hotel.devices[label], at=at, source="check", online=number != 3,
                battery_percent=90 - number, clock_skew_ms=-number * 1000,
            )  # fmt: skip


def test_a_locks_health_over_time_is_a_list_to_plot(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    _read_days_ago(hotel, "101", 40, 4, 3, 2, 1)
    _read_days_ago(hotel, "102", 1)
    path = f"/lock/v1/devices/{hotel.devices['101']}/readings"
    first = desk.get(path + "?limit=3").json()
    rest = desk.get(path + f"?limit=3&cursor={first['nextCursor']}").json()
    items = first["items"] + rest["items"]
    assert [item["batteryPercent"] for item in items] == [86, 87, 88, 89]  # of the last 30 days, oldest first
    assert items[1]["online"] is False
    assert {**items[0], "at": None} == {
        "at": None, "source": "check", "online": True, "batteryPercent": 86, "clockSkewMs": -4000, "firmware": None,
    }  # fmt: skip
    assert rest["nextCursor"] is None
    since = (datetime.now(UTC) - timedelta(days=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    until = (datetime.now(UTC) - timedelta(days=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert [row["batteryPercent"] for row in desk.get(f"{path}?since={since}&until={until}").json()["items"]] == [50]
    assert locks.calls(hotel.doors["101"]) == []


@pytest.mark.parametrize("query", ["since=yesterday", "since=2026-05-01T00:00:00", "limit=0", "limit=9999", "cursor=x", "x=1"])
def test_readings_refuse_what_they_do_not_understand(hotel: Hotel, desk: Caller, query: str) -> None:
    answer = desk.get(f"/lock/v1/devices/{hotel.devices['101']}/readings?{query}")
    assert problem(answer) == (400, "VALIDATION_FAILED")


def test_another_tenants_readings_are_not_there(hotel: Hotel, web: WebServer, locks: MockLocks) -> None:
    stranger = caller(web, make_hotel(locks).tenant_id, "front_desk")
    assert problem(stranger.get(f"/lock/v1/devices/{hotel.devices['101']}/readings")) == (404, "NOT_FOUND")
