"""Locks and vendors over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devices.models import LockDevice
from lockservice.core.tenancy import tenant
from tests.api.conftest import make_hotel, problem, records
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.web_server import Caller, WebServer, caller
from vendors import registry


def test_health_is_told_from_the_books_without_a_vendor_call(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    body = desk.get(f"/lock/v1/devices/{hotel.devices['101']}/health").json()
    assert body == {
        "deviceId": hotel.devices["101"], "online": True, "batteryPercent": None, "clockSkewMs": None, "firmware": None,
        "lastSeenAt": None,
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
