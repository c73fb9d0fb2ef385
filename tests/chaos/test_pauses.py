"""Processes are stopped for longer than their sessions may idle and their leases last, and go on: nothing buried, nothing doubled.

Rule: these are the real processes, stopped by SIGSTOP as a suspended or overloaded machine stops them, at a chosen point: a line in
between sees the statement that a process is about to make, and stops the process before the server has it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
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

IDLE_S = 5.0
"""So long a worker's session may idle in a transaction before the server ends it."""
KILLED = "terminating connection due to idle-in-transaction timeout"


class Stopper:
    """A line to the database that stops a process for `pause_s` seconds when it sends a statement with a mark in it, once."""

    def __init__(self, estate: Estate, pause_s: float) -> None:
        self.proxy = TcpProxy("127.0.0.1", estate.postgres_port)
        self.proxy.hold_s = self._look
        # Stopped, the process hears nothing: it reads the server's last words when it goes on, and the end of the line after them.
        self.proxy.linger_s = pause_s - IDLE_S + 1.5
        self._pause_s = pause_s
        self._armed: tuple[Part, bytes] | None = None
        self._stopped = threading.Event()
        self._went_on = threading.Event()

    @property
    def environment(self) -> dict[str, str]:
        return {"LOCK_DB_HOST": "127.0.0.1", "LOCK_DB_PORT": str(self.proxy.port)}

    def arm(self, part: Part, mark: bytes) -> None:
        self._stopped.clear()
        self._went_on.clear()
        self._armed = (part, mark)

    def await_stop(self) -> None:
        assert self._stopped.wait(60), f"{self._armed} was not stopped"

    def await_thaw(self) -> None:
        assert self._went_on.wait(self._pause_s + 10)

    def _look(self, piece: bytes) -> float:
        armed = self._armed
        if armed is None or armed[1] not in piece or self._stopped.is_set():
            return 0.0
        self.stop_now(armed[0])
        self._stopped.set()
        return self._pause_s + 3.0

    def stop_now(self, part: Part) -> None:
        """Stops a process, wherever it is, and lets it go on after the pause."""
        self._went_on.clear()
        part.freeze()

        def thaw() -> None:
            part.thaw()
            self._went_on.set()

        threading.Timer(self._pause_s, thaw).start()


@contextmanager
def stoppers(estate: Estate, pause_s: float, count: int) -> Iterator[list[Stopper]]:
    lines = [Stopper(estate, pause_s) for _ in range(count)]
    yield lines
    estate.kill_all()
    for line in lines:
        line.proxy.stop()


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
    doors = [door for hotel in hotels for door in hotel.doors.values()]
    bus, booked = estate.bus(), 0
    with stoppers(estate, pause_s, 3) as (running, consuming, relaying):
        runner = estate.runner(**running.environment)
        consumer = estate.consumer(**consuming.environment)
        relay = estate.publisher(**relaying.environment)

        @contextmanager
        def beside() -> Iterator[None]:
            """Ten more bookings; processes that take over what the stopped ones had."""
            nonlocal booked
            Producer(bus, hotels, 10, after=booked).send()
            booked += 10
            yield
            others = [estate.runner("other-runner"), estate.consumer("other-consumer"), estate.publisher("other-publisher")]
            for stopper in (running, consuming, relaying):
                stopper.await_thaw()
            eventually(lambda: issued(hotels) == booked, 60, f"{booked} keys issued")
            for other in others:
                other.kill()

        running.arm(runner, b"credential.pending")
        consuming.arm(consumer, b"sagas_inboxmessage")
        relaying.arm(relay, b"SET published_at")
        with beside():
            consuming.await_stop()
            consuming.await_thaw()
            running.await_stop()
            relaying.await_stop()
        running.arm(runner, b"sagas_sagastep")
        with beside():
            running.await_stop()
        with beside():
            calls = len(locks.calls(*doors))
            eventually(lambda: len(locks.calls(*doors)) > calls, 60, "a call is out")
            running.stop_now(runner)
        wait_for_the_end(estate, hotels, booked, 90)
        assert (estate.local.log / "postgres.log").read_text(errors="replace").count(KILLED) >= 4
        assert all(part.is_alive for part in (runner, consumer, relay))
    nothing_lost_or_doubled(hotels, locks, booked)
    _nothing_buried(hotels)
    bus.close()


def test_a_runner_stopped_while_it_sweeps_goes_on_sweeping(estate: Estate, locks: MockLocks) -> None:
    hotel = mock_hotel(locks, rooms=2, policy={"late_grace_minutes": 0})
    with stoppers(estate, 6.5, 1) as (sweeping,):
        runner = estate.runner(**sweeping.environment)
        sweeping.arm(runner, b"ends_at <= (SELECT")
        sweeping.await_stop()
        sweeping.await_thaw()
        stay = new_id("rsv")
        with queues():
            ends = clock.now() + timedelta(seconds=8)
        hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"], end=ends))
        eventually(lambda: issued([hotel]) == 1, 30, "the key is given")
        eventually(lambda: _state(hotel, stay) == "revoked", 40, "the key is taken back when its window ends")
        eventually(lambda: locks.keys_at(hotel.doors["101"]) == [], 20, "and is gone from the door")
        eventually(lambda: _detail("sagas") == "", 10, "its heartbeat says that all is well")
    _nothing_buried([hotel])


def _detail(name: str) -> str:
    with queues():
        return Heartbeat.objects.get(name=name).detail


def _state(hotel: Hotel, stay: str) -> str:
    with tenant(hotel.tenant_id):
        return KeyCredential.objects.get(tenant_id=hotel.tenant_id, reservation_id=stay).state
