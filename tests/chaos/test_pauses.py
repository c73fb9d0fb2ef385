"""Processes are stopped for longer than their sessions may idle and their leases last, and go on: nothing buried, nothing doubled.

Rule: these are the real processes, stopped by SIGSTOP as a suspended or overloaded machine stops them, at a chosen point: a line in
between sees the statement that a process is about to make, and stops it before the answer comes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from credentials.models import KeyCredential
from lockservice.core import clock
from lockservice.core.heartbeat import Heartbeat
from lockservice.core.tenancy import queues, tenant
from sagas.models import Alert, DeadLetter, Saga
from tests.chaos.conftest import mock_hotel
from tests.chaos.estate import Estate, Part, eventually
from tests.chaos.load import Producer, issued, nothing_lost_or_doubled, wait_for_the_end
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.proxy import TcpProxy
from vendors.port.ids import new_id

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

BOOKINGS = 60
KILLED = "terminating connection due to idle-in-transaction timeout"


@dataclass
class Stopper:
    """Stops a process when it sends a statement with the mark in it, once."""

    proxy: TcpProxy
    part: Part | None = None
    mark: bytes = b""
    stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.proxy.hold_s = self._look

    def arm(self, part: Part, mark: bytes) -> None:
        self.part, self.mark = part, mark

    def _look(self, piece: bytes) -> float:
        if self.part is not None and self.mark in piece and not self.stopped.is_set():
            self.part.freeze()
            self.stopped.set()
        return 0.0


@contextmanager
def stoppers(estate: Estate, count: int) -> Iterator[list[Stopper]]:
    lines = [TcpProxy("127.0.0.1", estate.postgres_port) for _ in range(count)]
    yield [Stopper(line) for line in lines]
    estate.kill_all()
    for line in lines:
        line.stop()


def _through(stopper: Stopper) -> dict[str, str]:
    return {"LOCK_DB_HOST": "127.0.0.1", "LOCK_DB_PORT": str(stopper.proxy.port)}


def _nothing_buried(hotels: list[Hotel]) -> None:
    for hotel in hotels:
        with tenant(hotel.tenant_id):
            assert list(DeadLetter.objects.filter(tenant_id=hotel.tenant_id).values_list("detail", flat=True)) == []
            assert (
                list(Saga.objects.filter(tenant_id=hotel.tenant_id, status="dead").values_list("error_detail", flat=True)) == []
            )
            assert list(Alert.objects.filter(tenant_id=hotel.tenant_id).values_list("code", "detail")) == []


@pytest.mark.parametrize("pause_s", [6.5, 20.0])
def test_runner_consumer_and_relay_stopped_inside_a_transaction_and_in_a_vendors_call(
    pause_s: float, estate: Estate, locks: MockLocks
) -> None:
    hotels = [mock_hotel(locks, "latencyMs=300", rooms=20) for _ in range(2)]
    with stoppers(estate, 4) as (planning, recording, consuming, relaying):
        marks = {
            "consumer": (consuming, estate.consumer(**_through(consuming)), b"sagas_inboxmessage"),
            "publisher": (relaying, estate.publisher(**_through(relaying)), b"SET published_at"),
            "planner": (planning, estate.runner("planner", **_through(planning)), b"credential.pending"),
            "recorder": (recording, estate.runner("recorder", **_through(recording)), b"sagas_sagastep"),
        }
        caller = estate.runner("caller")
        bus = estate.bus()
        producer = Producer(bus, hotels, BOOKINGS, per_second=20)
        producer.start()
        eventually(lambda: issued(hotels) >= 5, 60, "work is under way")
        for stopper, part, mark in marks.values():
            stopper.arm(part, mark)
        for name, (stopper, _, _) in marks.items():
            assert stopper.stopped.wait(60), f"{name} was not stopped"
        calls_before = len(locks.calls(*(door for hotel in hotels for door in hotel.doors.values())))
        eventually(
            lambda: (
                len(locks.calls(*(door for hotel in hotels for door in hotel.doors.values()))) > calls_before
                or issued(hotels) >= BOOKINGS - 20
            ),
            60,
            "the last runner calls the vendor",
        )
        caller.freeze()
        time.sleep(pause_s)
        for part in (caller, *(part for _, part, _ in marks.values())):
            part.thaw()
        producer.join()
        wait_for_the_end(estate, hotels, BOOKINGS, 90)
        log = (estate.local.log / "postgres.log").read_text(errors="replace")
        assert log.count(KILLED) >= len(marks)
        assert all(part.is_alive for part in (caller, *(part for _, part, _ in marks.values())))
    nothing_lost_or_doubled(hotels, locks, BOOKINGS)
    _nothing_buried(hotels)
    bus.close()


def test_a_runner_stopped_while_it_sweeps_goes_on_sweeping(estate: Estate, locks: MockLocks) -> None:
    hotel = mock_hotel(locks, rooms=2, policy={"late_grace_minutes": 0})
    with stoppers(estate, 1) as (sweeping,):
        runner = estate.runner(**_through(sweeping))
        sweeping.arm(runner, b"ends_at <= (SELECT")
        assert sweeping.stopped.wait(60)
        time.sleep(6.5)
        runner.thaw()
        stay = new_id("rsv")
        with queues():
            ends = clock.now() + timedelta(seconds=8)
        hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"], end=ends))
        eventually(lambda: issued([hotel]) == 1, 30, "the key is given")
        eventually(lambda: _state(hotel, stay) == "revoked", 40, "the key is taken back when its window ends")
        assert locks.keys_at(hotel.doors["101"]) == []
        with queues():
            assert Heartbeat.objects.get(name="sagas").detail == ""
    _nothing_buried([hotel])


def _state(hotel: Hotel, stay: str) -> str:
    with tenant(hotel.tenant_id):
        return KeyCredential.objects.get(tenant_id=hotel.tenant_id, reservation_id=stay).state
