"""A web server on the web login, a hotel on the mock vendor for each test, and a runner on the worker's login."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from credentials.models import KeyCredential, Reservation
from lockservice.core.idempotency import IdempotencyRecord
from lockservice.core.tenancy import tenant
from sagas.models import Lane, OutboxEvent, Saga
from sagas.runner import Runner
from tests.support.hotel import Hotel, build_hotel
from tests.support.mock_locks import MockLocks
from tests.support.web_server import Caller, WebServer, caller
from vendors.port.ids import new_id

CODE = "MELMASTOON.LOCK."


@pytest.fixture(scope="session")
def web(database: str) -> Iterator[WebServer]:
    """Give the web server of this session."""
    server = WebServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def locks() -> Iterator[MockLocks]:
    """Give the mock vendor's process of this session."""
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture
def hotel(database: str, locks: MockLocks) -> Hotel:
    """Give a hotel with rooms 101, 102 and 103 and a street door."""
    return make_hotel(locks)


@pytest.fixture
def desk(web: WebServer, hotel: Hotel) -> Caller:
    """Give a front-desk clerk of the hotel."""
    return caller(web, hotel.tenant_id, "front_desk", properties=(hotel.property_id,))


@pytest.fixture
def boss(web: WebServer, hotel: Hotel) -> Caller:
    """Give a supervisor of the hotel."""
    return caller(web, hotel.tenant_id, "front_desk_supervisor", properties=(hotel.property_id,), subject="usr_boss")


def make_hotel(locks: MockLocks, query: str = "", **options: Any) -> Hotel:
    """Builds a hotel on the mock; `query` are failures of the mock's address."""
    url = locks.setting + (f"?{query}" if query else "")
    rooms = options.pop("rooms", {label: new_id("lck") for label in ("101", "102", "103")})
    shared = options.pop("shared", {"lobby": new_id("lck")})
    return build_hotel(vendor="mock", settings={"url": url}, rooms=rooms, shared=shared, **options)


def work(hotel: Hotel) -> int:
    """Runs the hotel's due work to its end, as a worker would; returns the steps."""
    return Runner(only=_lanes(hotel)).run(until=lambda: False, drain=True, max_s=30)


@contextmanager
def worker(hotel: Hotel) -> Iterator[None]:
    """Keeps a worker running beside the test. The hotel's lanes must exist already: `open_lanes` makes them."""
    stopped = threading.Event()
    runner = Runner(only=open_lanes(hotel))
    thread = threading.Thread(target=lambda: _run(runner, stopped))
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(20)


def _run(runner: Runner, stopped: threading.Event) -> None:
    from django.db import connection

    try:
        runner.run(until=stopped.is_set)
    finally:
        connection.close()


def open_lanes(hotel: Hotel) -> list[str]:
    """Makes the lane of the hotel's installation, and returns its name."""
    key = f"{hotel.installation_id}:"
    with tenant(hotel.tenant_id):
        Lane.objects.get_or_create(key=key, defaults={"tenant_id": hotel.tenant_id, "width": 8})
    return [key]


def _lanes(hotel: Hotel) -> list[str]:
    with tenant(hotel.tenant_id):
        return list(Lane.objects.filter(tenant_id=hotel.tenant_id).values_list("key", flat=True))


def issue_body(hotel: Hotel, *rooms: str, **extra: Any) -> dict[str, Any]:
    """Returns a good body for an issue of a known stay without a key, from an hour ago for two days."""
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    return {
        "reservationId": extra.get("reservationId") or known_stay(hotel, rooms or ("101",), start, start + timedelta(days=2)),
        "propertyId": hotel.property_id,
        "rooms": [hotel.rooms[label] for label in (rooms or ("101",))],
        "validFrom": start.isoformat(),
        "validUntil": (start + timedelta(days=2)).isoformat(),
        "holderId": "gst_guest",
        **extra,
    }


def known_stay(hotel: Hotel, rooms: Sequence[str], start: datetime, end: datetime) -> str:
    """Makes the projection of a booking whose key nobody has asked for yet; returns its id."""
    stay = new_id("rsv")
    with tenant(hotel.tenant_id):
        Reservation.objects.create(
            tenant_id=hotel.tenant_id, reservation_id=stay, property_id=hotel.property_id, version=1, status="confirmed",
            rooms=[hotel.rooms[label] for label in rooms],
            valid_from=start, valid_until=end, updated_at=start,
        )  # fmt: skip
    return stay


def issue_key(hotel: Hotel, desk: Caller, *rooms: str, **extra: Any) -> dict[str, Any]:
    """Issues a key, runs the work, and returns the active credential's body."""
    answer = desk.post("/lock/v1/credentials", issue_body(hotel, *rooms, **extra))
    assert answer.status_code == 202, answer.text
    work(hotel)
    found = desk.get(f"/lock/v1/credentials/{answer.json()['credential']['id']}")
    assert (found.status_code, found.json()["state"]) == (200, "active"), found.text
    return dict(found.json())


def problem(answer: Any) -> tuple[int, str]:
    """Returns (status, short code) of an answer that must be a complete problem body."""
    assert answer.headers["Content-Type"] == "application/problem+json", answer.text
    body = answer.json()
    assert set(body) == {"type", "title", "status", "code", "detail", "retriable", "traceId", "fields"}
    assert body["status"] == answer.status_code
    assert body["code"].startswith(CODE)
    return body["status"], body["code"].removeprefix(CODE)


@pytest.fixture
def nothing_happens(hotel: Hotel, locks: MockLocks) -> Iterator[None]:
    """Refuses the test if a credential, saga, event or vendor call of the hotel came of it."""
    before = footprint(hotel, locks)
    yield
    work(hotel)
    assert footprint(hotel, locks) == before


def footprint(hotel: Hotel, locks: MockLocks) -> dict[str, int]:
    """Counts everything that an act may leave behind."""
    with tenant(hotel.tenant_id):
        counts = {
            model.__name__: model.objects.filter(tenant_id=hotel.tenant_id).count()
            for model in (KeyCredential, Saga, OutboxEvent)
        }
    return counts | {"calls": len(locks.calls(*hotel.doors.values()))}


def records(hotel: Hotel) -> list[IdempotencyRecord]:
    """Returns the hotel's idempotency rows."""
    with tenant(hotel.tenant_id):
        return list(IdempotencyRecord.objects.filter(tenant_id=hotel.tenant_id).order_by("id"))


def together(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Runs an act in threads that start at the same moment; returns what each gave."""
    gate, results = threading.Barrier(count), [None] * count

    def run(number: int) -> None:
        gate.wait()
        results[number] = act(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
