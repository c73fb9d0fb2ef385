"""A claim that was committed without the runner hearing of it is worked on at once, not when its lane falls idle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connections

from lockservice.core.tenancy import tenant
from lockservice.embedded import postgres
from lockservice.embedded.local import LocalDirectory
from sagas.models import Lane
from sagas.runner import Runner
from tests.chaos.conftest import mock_doors, mock_hotel
from tests.chaos.estate import drop_connections
from tests.support.checkers import check
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.proxy import TcpProxy
from vendors.port.ids import new_id


@contextmanager
def _through(proxy: TcpProxy) -> Iterator[None]:
    """This process reaches the database through the proxy."""
    database = connections.settings["default"]
    before = {name: database[name] for name in ("HOST", "PORT")}
    drop_connections()
    database.update(HOST="127.0.0.1", PORT=str(proxy.port))
    try:
        yield
    finally:
        drop_connections()
        database.update(before)


@pytest.fixture
def proxy(embedded_servers: LocalDirectory) -> Iterator[TcpProxy]:
    line = TcpProxy("127.0.0.1", postgres.endpoint(embedded_servers).port)
    yield line
    line.stop()


def _stays(hotel: Hotel, count: int) -> None:
    for number in range(count):
        stay = new_id("rsv")
        hotel.tell("booking.confirmed", hotel.booking(stay, 1, [sorted(hotel.rooms)[number]]))


def test_a_claim_whose_commit_was_cut_off_does_not_wait_for_an_idle_lane(
    database: str, locks: MockLocks, proxy: TcpProxy
) -> None:
    hotel = mock_hotel(locks, "latencyMs=150", rooms=12, lane_width=1)
    _stays(hotel, 12)
    with tenant(hotel.tenant_id):
        lanes = list(Lane.objects.filter(tenant_id=hotel.tenant_id).values_list("key", flat=True))
    sent = bytearray()

    def cut(piece: bytes) -> bool:
        """Behind the first commit after the first saga was planned (its key is handed over)."""
        sent.extend(piece)
        return proxy.cuts == 0 and b"credential.pending" in sent and b"COMMIT" in piece

    proxy.cut_behind = cut
    with _through(proxy):
        Runner(only=lanes).run(until=lambda: False, drain=True, max_s=30)
    assert proxy.cuts == 1
    door = hotel.doors[min(hotel.rooms)]
    called = [call["doors"][0] for call in locks.calls(*hotel.doors.values())]
    assert called.index(door) == 0  # first come, first served: not after the eleven others
    assert sorted(called) == sorted(hotel.doors.values())
    check(hotel, mock_doors(locks, hotel), published=False)
