"""The world of a test process: a database of its own, the bus, a clock that stands still until it is moved, and simulators.

One rule: consumer, runner, sweeps and publisher are the product's own, called in turn by this thread until nothing is due.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from django.conf import settings
from django.db.models import Value
from django.test.utils import override_settings

from credentials.models import CredentialDoor
from devices import adapters, simulated
from devices.models import Breaker
from devices.simulated import SimulatorPlace
from lockservice.core import clock
from lockservice.core.tenancy import queues, tenant
from lockservice.demo import moved_clock
from lockservice.embedded import postgres, roles, valkey
from lockservice.embedded.local import REPOSITORY_ROOT, LocalDirectory
from sagas.bus.port import BusMessage
from sagas.bus.redis_streams import RedisStreamsBus
from sagas.bus.topology import SERVICE_GROUP
from sagas.consumer import Consumer, topics_by_urgency
from sagas.events import envelope, registry
from sagas.flows.take_webhook import take_due
from sagas.housekeeping import sweep
from sagas.models import Lane, OutboxEvent, Saga
from sagas.publisher import Publisher, ensure_shards
from sagas.runner import Runner
from sagas.watch.look import look_at_all
from tests.support import own_database
from tests.support.rate_pause import waited_for_limit
from tests.vendors.site import Simulator
from vendors.port.simulated import Breakable, Effect

if TYPE_CHECKING:
    from tests.support.stage.house import House

TETHER = REPOSITORY_ROOT / "lockservice" / "embedded" / "tether.py"
LISTENER = "stage-listener"
QUIET_S = 90.0
UNPUBLISHED = "unpublished"
THREADS = 8


class NotQuiet(AssertionError):
    """Work is left although nothing should be: a lane or an event is stuck."""


class World:
    """See the package. Open it with `World.open`, and each test's part of it with `scene`."""

    def __init__(self, local: LocalDirectory, database: str, redis_url: str) -> None:
        self._local = local
        self.database = database
        self.redis_url = redis_url
        self.bus_prefix = f"{{stage-{secrets.token_hex(4)}}}"
        self.bus = RedisStreamsBus(redis_url, prefix=self.bus_prefix, lease_s=6.0)
        self.houses: list[House] = []
        self.told: list[dict[str, Any]] = []
        self._consumer = Consumer(self.bus)
        self._publisher = Publisher(self.bus)
        self._simulators: dict[str, Simulator] = {}
        self._gateway: subprocess.Popen[str] | None = None
        self._gateway_port = 0

    @classmethod
    @contextmanager
    def open(cls, local: LocalDirectory) -> Iterator[World]:
        """Make the database; simulators start when a house first asks for them."""
        database = own_database.copy(local)
        world = cls(local, database, valkey.endpoint(local).url())
        try:
            yield world
        finally:
            for simulator in world._simulators.values():
                simulator.stop()
            if world._gateway is not None:
                world.end_process(world._gateway)
            world.bus.close()
            own_database.let_go(database)
            roles.drop_database(local, database)

    @contextmanager
    def scene(self) -> Iterator[World]:
        """One test's part: this process works on the world's database, at the present whole minute, without houses."""
        with ExitStack() as stack:
            stack.enter_context(own_database.turned_to(self.database, keep=True))
            stack.enter_context(override_settings(BUS_PREFIX=self.bus_prefix, SIMULATORS=self._places()))
            self.houses, self.told = [], []
            self.bus.subscribe(topics_by_urgency(), SERVICE_GROUP)
            self.bus.subscribe(_produced(), LISTENER)
            with queues():
                ensure_shards()
            self.stop_clock(datetime.now(UTC).replace(second=0, microsecond=0))
            try:
                yield self
            finally:
                self.heal()
                for house in self.houses:
                    house.close()
                adapters.vendor_clock().observe(datetime.now(UTC))

    @contextmanager
    def as_owner(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Open a connection of the tables' owner to the world's database."""
        place = postgres.endpoint(self._local)
        with psycopg.connect(
            host=str(place.socket_directory), port=place.port, dbname=self.database, user=roles.role_name("owner"),
            password=roles.password(self._local, "owner"),
        ) as connection:  # fmt: skip
            yield connection

    # -- time

    @property
    def now(self) -> datetime:
        """The hotel's present instant."""
        with queues():
            return clock.now()

    def stop_clock(self, instant: datetime) -> None:
        """Set the hotel's clock and those of all simulators; they stand still there. Nothing is worked."""
        moved_clock.stop_at(instant)

    def advance(self, **by: float) -> None:
        """Move the clocks on by `timedelta(**by)` and work until nothing is due."""
        self.stop_clock(self.now + timedelta(**by))
        self.settle()

    def advance_to(self, instant: datetime) -> None:
        """Move the clocks to an instant and work until nothing is due."""
        self.stop_clock(instant)
        self.settle()

    # -- the bus

    def publish(self, topic: str, key: str, body: bytes) -> None:
        """Put a message on the bus, as another service does. Nothing is worked."""
        self.bus.publish([BusMessage(topic, key, body)])

    def events(self, tenant_id: str, subject_part: str = "") -> list[dict[str, Any]]:
        """Return what the service has published of a tenant so far, in order of arrival, as decoded JSON."""
        while deliveries := self.bus.receive(_produced(), LISTENER, "listener", 200, 0):
            for delivery in deliveries:
                body = envelope.decode(delivery.message.body)
                self.told.append(
                    {"subject": body.subject, "tenantId": body.tenant_id, "data": body.data, "sequence": body.sequence,
                     "id": body.id, "key": delivery.message.key}
                )  # fmt: skip
            self.bus.acknowledge(LISTENER, deliveries)
        return [row for row in self.told if row["tenantId"] == tenant_id and subject_part in row["subject"]]

    # -- the service

    def settle(self, *, retries: int = 8) -> None:
        """Work until nothing is due: messages, ended windows, pushes, sagas, events.

        `retries` is how often waiting retries are made due at once, as if their time (seconds to minutes) had passed.
        Raises NotQuiet where due work is left.
        """
        ends = time.monotonic() + QUIET_S
        while True:
            statuses = self._work_once(ends)
            if not statuses.isdisjoint(("due", "running", UNPUBLISHED)):
                continue
            if retries <= 0 or "retry" not in statuses or not self.hasten_retries():
                return
            retries -= 1

    def take_in(self) -> None:
        """Take in what is on the bus, and leave the work it starts undone."""
        while self._consumer.round(0):
            pass

    def watch(self) -> None:
        """Let the watch look at everything once. What it starts is left undone."""
        look_at_all()

    def work_without_retries(self) -> None:
        """Work until nothing is due; what waits for a retry goes on waiting."""
        self.settle(retries=0)

    def hasten_retries(self) -> int:
        """Make every waiting retry of this test's houses due now; returns how many sagas."""
        count = 0
        for house in self.houses:
            waited_for_limit(house.tenant_id)
            with tenant(house.tenant_id):
                rows = Saga.objects.filter(tenant_id=house.tenant_id, status="retry")
                count += rows.update(status="due", due_at=None)
                CredentialDoor.objects.filter(tenant_id=house.tenant_id, due_at__isnull=False).update(due_at=None)
        return count

    def let_breakers_ask(self) -> None:
        """Let the pause of every open breaker of this test's houses be over: the next call is its probe."""
        for house in self.houses:
            with tenant(house.tenant_id):
                rows = Breaker.objects.filter(tenant_id=house.tenant_id)
                rows.filter(state="open").update(open_until=datetime.now(UTC))
                rows.filter(state="half_open").update(probe_until=datetime.now(UTC))

    @contextmanager
    def retries_shortened(self, scale: float) -> Iterator[None]:
        """Let every wait before a retry take only so much of its time, as if the machine were slower by as much."""
        with override_settings(RETRY_SCALE=scale):
            yield

    def waiting(self) -> list[str]:
        """Return flow and status of every saga of this test's houses that is not at its end."""
        found = []
        for house in self.houses:
            with tenant(house.tenant_id):
                rows = Saga.objects.filter(tenant_id=house.tenant_id).exclude(status__in=("done", "dead"))
                found += [f"{flow} is {status}" for flow, status in rows.values_list("flow", "status")]
        return found

    def _work_once(self, ends: float) -> set[str]:
        """Work through all that is due once; return what is left, as `_look` does."""
        if time.monotonic() > ends:
            raise NotQuiet(f"left after {QUIET_S} s: {self._due()}")
        while self._consumer.round(0):
            pass
        sweep()
        take_due()
        left = self._look()
        if left - {UNPUBLISHED}:
            runner = Runner(only=self._lanes(), pool_size=THREADS, release_s=0)
            runner.run(until=lambda: time.monotonic() > ends, drain=True)
            left = self._look()
        if UNPUBLISHED not in left:
            return left
        self._publisher.run(until=lambda: time.monotonic() > ends, drain=True)
        return self._look()

    def _look(self) -> set[str]:
        """Return the statuses of this test's open sagas, and UNPUBLISHED where an event waits. One statement a house."""
        found: set[str] = set()
        for house in self.houses:
            with tenant(house.tenant_id):
                events = OutboxEvent.objects.filter(tenant_id=house.tenant_id, published_at__isnull=True, blocked=False)
                sagas = Saga.objects.filter(tenant_id=house.tenant_id).exclude(status__in=("done", "dead"))
                seen = events.values_list(Value(UNPUBLISHED)).union(sagas.values_list("status"))
                found |= {status for (status,) in seen}
        return found

    def _due(self) -> list[str]:
        left: list[str] = []
        for house in self.houses:
            with tenant(house.tenant_id):
                sagas = Saga.objects.filter(tenant_id=house.tenant_id, status__in=("due", "running"))
                left += [f"{flow} is {status}" for flow, status in sagas.values_list("flow", "status")]
                events = OutboxEvent.objects.filter(tenant_id=house.tenant_id, published_at__isnull=True, blocked=False)
                left += [f"unpublished {subject}" for subject in events.values_list("subject", flat=True)]
        return left

    def _lanes(self) -> list[str]:
        found: list[str] = []
        for house in self.houses:
            with tenant(house.tenant_id):
                found += Lane.objects.filter(tenant_id=house.tenant_id).values_list("key", flat=True)
        return found

    # -- simulators

    def simulator(self, vendor: str) -> Simulator:
        """Return the vendor's simulator, started when first asked for and set to the world's clock."""
        if vendor not in self._simulators:
            self._simulators[vendor] = Simulator.start(vendor)
            settings.SIMULATORS.update(self._places())
            simulated.control_of(vendor, self.place(vendor)).set_clock(self.now, running=False)
        return self._simulators[vendor]

    def place(self, vendor: str) -> SimulatorPlace:
        """Return where a vendor's simulator listens."""
        running = self.simulator(vendor)
        return SimulatorPlace(running.url.rpartition("//")[2], running.control)

    def control(self, vendor: str) -> Breakable:
        """Return the control port of a vendor's simulator, to break and to heal it."""
        control = simulated.control_of(vendor, self.place(vendor))
        assert isinstance(control, Breakable)
        return control

    def hang_up(self, vendor: str) -> None:
        """Let the vendor hang up on every request, with nothing done, until it is healed."""
        self.control(vendor).break_calls(Effect.DROP, None)

    def break_calls(self, vendor: str, effect: str, times: int | None) -> None:
        """Let the vendor's next so many requests go wrong: drop, lost, error, throttled; None: all until it is healed."""
        self.control(vendor).break_calls(Effect(effect), times)

    def heal(self) -> None:
        """Take all faults of all simulators back; keys stay."""
        for vendor in self._simulators:
            self.control(vendor).heal()

    def _places(self) -> dict[str, dict[str, str]]:
        return {
            vendor: {"address": running.url.rpartition("//")[2], "control": running.control}
            for vendor, running in self._simulators.items()
        }

    # -- other processes

    def gateway_port(self) -> int:
        """Return where desk programs of all houses come to; the gateway starts when it is first asked for."""
        if self._gateway is None or self._gateway.poll() is not None:
            self._gateway = self.start_process("manage.py", "bridge_gateway", "--port", "0")
            assert self._gateway.stdout is not None
            said = self._gateway.stdout.readline()
            self._gateway_port = int(said.strip().rstrip("/").split(":")[2].partition("/")[0])
        return self._gateway_port

    def start_process(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a Python program on this world's database, which ends with this process at the latest."""
        return subprocess.Popen(
            [sys.executable, str(TETHER), str(os.getpid()), str(int(signal.SIGTERM)), sys.executable, *arguments],
            cwd=REPOSITORY_ROOT, env=self.child_environment(), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def end_process(self, process: subprocess.Popen[str]) -> None:
        """End a program that was started here."""
        process.terminate()
        process.wait(15)
        if process.stdout is not None:
            process.stdout.close()

    def child_environment(self) -> dict[str, str]:
        """Return the environment of a process that works on this world's database, as the worker."""
        return {
            **os.environ, "DJANGO_SETTINGS_MODULE": "lockservice.settings.testing", "LOCK_DB_NAME": self.database,
            "LOCK_DB_LOGIN": "worker", "PYTHONUNBUFFERED": "1",
        }  # fmt: skip

    def call(self, work: Callable[[], Any]) -> Any:
        """Run something and work until nothing is due; returns what it gave."""
        result = work()
        self.settle()
        return result


def _produced() -> Sequence[str]:
    topics = [spec.topic for spec in registry.produced() if spec.topic]
    return list(dict.fromkeys(topics))
