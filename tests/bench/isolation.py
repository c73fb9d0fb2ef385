"""`vendor_isolation`: one vendor is dead for minutes; how long do the others' guests wait for their keys?

Bookings arrive evenly, in an open loop, at every vendor alike: first with all vendors alive, then with one dead. Dead by `hang`
is a process that is stopped: it takes connections and never answers, and when it goes on it does what it was asked meanwhile; by
`drop` it hangs up at once. Nothing is scaled: breaker and retries are on real time. Issue time is from the booking's intended
start to the row of `issued`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from django.db import connection

from credentials.models import KeyCredential
from devices import simulated
from devices.simulated import SimulatorPlace
from lockservice.core import tenancy
from lockservice.demo.building import HousePlan, PlanDoor, PlanSystem, put_up
from lockservice.demo.desk_seat import Seat, needs_desk
from lockservice.embedded.local import free_port
from lockservice.replay.doors import DoorCheck
from sagas import acts, bus
from sagas.bus import BusMessage
from sagas.events import envelope
from sagas.events.registry import spec
from sagas.events.subjects import Subject
from sagas.flows.issue_key import DESK
from sagas.models import OutboxEvent, Saga
from sagas.outbox import new_event_id
from tests.bench.report import percentile
from tests.bench.waiting import wait_until
from tests.bench.workers import Workers
from tests.support.hotel import full_subject
from vendors.port.ids import new_id
from vendors.port.simulated import Breakable, Effect, SimulatorControl

BOUND = 1.3
VENDOR_MS = 50
GATEWAYS = 20
NO_LIMIT = 1_000_000_000
STAY = timedelta(days=2)
PATIENCE_S = 900.0
CLERK_LOOKS_S = 0.1
TELL_S = 15.0


@dataclass(frozen=True)
class Plan:
    """`bookings` at each vendor, evenly over `seconds`, which is also how long `dead` is dead."""

    vendors: tuple[str, ...]
    dead: str
    bookings: int
    seconds: float
    how: str = "hang"
    pairs: int = 1


@dataclass
class House:
    """A house of one vendor, with a room for each booking: a phone's key of some vendors is made only once its stay begins."""

    vendor: str
    code: str
    tenant_id: str
    property_id: str
    installation_id: str
    rooms: list[str]


@dataclass
class Outcome:
    """What one run gave: issue times in ms by vendor, breakers that opened, and seconds from healing to the last key."""

    spent_ms: Mapping[str, list[float]]
    opened: frozenset[str]
    recovered_s: float = 0.0


class Vendors:
    """The simulators, a process each, every request of which takes VENDOR_MS."""

    def __init__(self, names: Sequence[str]) -> None:
        self._running: dict[str, subprocess.Popen[str]] = {}
        self.places: dict[str, SimulatorPlace] = {}
        for name in names:
            self._start(name)

    def _start(self, name: str) -> None:
        argv = [sys.executable, "-m", "vendors.simulate", name, "--port", "0", "--control-port", "0"]
        process = self._running[name] = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        self.places[name] = SimulatorPlace(urlsplit(ready["url"]).netloc, ready["control"])
        control = self.control(name)
        assert isinstance(control, Breakable)
        control.slow_down(VENDOR_MS)

    def control(self, name: str) -> SimulatorControl:
        return simulated.control_of(name, self.places[name])

    @contextlib.contextmanager
    def dead(self, name: str | None, how: str) -> Iterator[None]:
        """Makes a vendor dead inside the block; None: nobody."""
        if name is None:
            yield
            return
        control = self.control(name)
        assert isinstance(control, Breakable)
        if how == "drop":
            control.break_calls(Effect.DROP, None)
        else:
            os.kill(self._running[name].pid, signal.SIGSTOP)
        try:
            yield
        finally:
            if how == "drop":
                control.heal()
                control.slow_down(VENDOR_MS)
            else:
                os.kill(self._running[name].pid, signal.SIGCONT)

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.communicate()


def measure(plan: Plan) -> dict[str, object]:
    """Measures pairs of all live and one dead; returns the figures. Ends the benchmark when the data is wrong."""
    vendors = Vendors(plan.vendors)
    alive: dict[str, list[float]] = {vendor: [] for vendor in plan.vendors}
    beside: dict[str, list[float]] = {vendor: [] for vendor in plan.vendors}
    recovered: list[float] = []
    try:
        for _ in range(plan.pairs):
            _add(alive, _run(plan, vendors, None))
            outcome = _run(plan, vendors, plan.dead)
            _add(beside, outcome)
            recovered.append(outcome.recovered_s)
    finally:
        vendors.close()
    others = [vendor for vendor in plan.vendors if vendor != plan.dead]
    by_vendor = {
        vendor: {
            "live_p50": round(percentile(alive[vendor], 50), 1),
            "dead_p50": round(percentile(beside[vendor], 50), 1),
            "live_p95": round(percentile(alive[vendor], 95), 1),
            "dead_p95": round(percentile(beside[vendor], 95), 1),
            "ratio": round(percentile(beside[vendor], 95) / percentile(alive[vendor], 95), 3),
        }
        for vendor in others
    }
    worst = max(others, key=lambda vendor: by_vendor[vendor]["ratio"])
    times = [spent for vendor in others for spent in beside[vendor]]
    return {
        "value": by_vendor[worst]["dead_p95"], "unit": "ms p95 of the worst vendor", "baseline": by_vendor[worst]["live_p95"],
        "ratio": by_vendor[worst]["ratio"], "min": round(min(times), 1), "max": round(max(times), 1), "n": len(times),
        "bound": BOUND, "within": by_vendor[worst]["ratio"] <= BOUND, "dead": plan.dead, "how": plan.how, "dead_s": plan.seconds,
        "bookings_each": plan.bookings, "vendor_ms": VENDOR_MS, "pairs": plan.pairs, "by_vendor": by_vendor,
        "last_key_after_healing_s": [round(spent, 1) for spent in recovered],
    }  # fmt: skip


def _say(text: str) -> None:
    print(f"vendor_isolation: {text}", flush=True)


def _add(times: dict[str, list[float]], outcome: Outcome) -> None:
    for vendor, spent in outcome.spent_ms.items():
        times[vendor] += spent


def _run(plan: Plan, vendors: Vendors, dead: str | None) -> Outcome:
    tenant_id = new_id("tnt")
    houses = [_build(vendor, tenant_id, vendors.places[vendor], plan.bookings) for vendor in plan.vendors]
    workers = Workers("consume", "sagas", "sagas", "publish")
    workers.go()
    try:
        with contextlib.ExitStack() as desks:
            for house in houses:
                if needs_desk(house.vendor):
                    desks.enter_context(_desk(house, vendors.places[house.vendor]))
            return _measured(plan, vendors, dead, houses, workers)
    finally:
        workers.kill()


def _measured(plan: Plan, vendors: Vendors, dead: str | None, houses: Sequence[House], workers: Workers) -> Outcome:
    tenant_id = houses[0].tenant_id
    time.sleep(2)  # warm up
    _say(f"{plan.bookings} bookings at each of {', '.join(plan.vendors)} over {plan.seconds:g} s; dead: {dead or 'nobody'}")
    with vendors.dead(dead, plan.how):
        started = _publish(plan, houses)
    healed = time.monotonic()
    _wait_until_all_active(tenant_id, plan.bookings * len(houses))
    recovered_s = time.monotonic() - healed
    workers.go()
    workers.answers()
    _say(f"{dead or 'nobody'} was dead; the last key came {recovered_s:.1f} s later")
    opened = _opened(tenant_id, houses)
    if opened != ({dead} if dead else set()):
        raise SystemExit(f"vendor_isolation: breakers opened at {sorted(opened) or 'nobody'}, dead was {dead or 'nobody'}")
    for house in houses:
        _check_doors(house, vendors.control(house.vendor), plan.bookings)
    return Outcome(_spent(tenant_id, houses, started), frozenset(opened), recovered_s)


def _build(vendor: str, tenant_id: str, place: SimulatorPlace, rooms: int) -> House:
    code, base = f"bench-{secrets.token_hex(6)}", 1 + secrets.randbelow(190_000)
    house = House(vendor, code, tenant_id, new_id("ppt"), new_id("vad"), [new_id("rmu") for _ in range(rooms)])
    limits = {"calls_per_minute": NO_LIMIT, "calls_per_month": NO_LIMIT}
    doors = [
        PlanDoor(n + 1, str(n + 1), n % GATEWAYS + 1, new_id("lck"), vendor, room_id, "1")
        for n, room_id in enumerate(house.rooms)
    ]  # fmt: skip
    plan = HousePlan(
        tenant_id=tenant_id, tenant_name="Bench", property_id=house.property_id, name=vendor, time_zone="UTC", utc_offset_s=0,
        systems=[PlanSystem(vendor, vendor, place, code, base, house.installation_id, limits)],
        doors=doors, policy={}, is_hurried=True,
    )  # fmt: skip
    put_up(plan, secrets.token_hex(16))
    return house


@contextlib.contextmanager
def _desk(house: House, place: SimulatorPlace) -> Iterator[None]:
    """A gateway, a desk at it, and a clerk who encodes a card for whoever wants one."""
    port, over = free_port(), threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        seat = Seat(house.vendor, house.code, place.address, house.tenant_id, house.property_id, Path(folder))
        argvs = (["manage.py", "bridge_gateway", "--port", str(port)], seat.argv(port))
        running = [subprocess.Popen([sys.executable, *argv], stdout=subprocess.DEVNULL) for argv in argvs]
        try:
            wait_until(seat.is_connected, 30)
            clerk = threading.Thread(target=_encode, args=(house, over))
            clerk.start()
            yield
        finally:
            over.set()
            for process in reversed(running):
                process.terminate()
                process.wait(10)
    clerk.join()


def _encode(house: House, over: threading.Event) -> None:
    clerk = acts.Actor("usr_bench_clerk")
    waiting = KeyCredential.objects.filter(tenant_id=house.tenant_id, vendor=house.vendor, state="requested", waiting_for=DESK)
    while not over.wait(CLERK_LOOKS_S):
        with tenancy.tenant(house.tenant_id):
            ids = list(waiting.order_by("requested_at").values_list("id", flat=True)[:50])
        for key_id in ids:
            try:
                acts.encode(house.tenant_id, key_id, clerk, f"bench:{key_id}")
            except acts.Refused as refused:  # the desk is away for a moment; she looks again
                _say(f"the desk: {refused.code}")
                break
    connection.close()


def _publish(plan: Plan, houses: Sequence[House]) -> dict[str, float]:
    """Publishes each booking at its time; returns the intended instants by reservation."""
    link = bus.from_settings()
    began, total = time.time(), plan.bookings * len(houses)
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    started: dict[str, float] = {}
    for position in range(total):
        due = began + plan.seconds * position / total
        time.sleep(max(0.0, due - time.time()))
        house, number = houses[position % len(houses)], position // len(houses)
        stay = new_id("rsv")
        link.publish([_booking(house, stay, house.rooms[number], day)])
        started[stay] = due
    time.sleep(max(0.0, began + plan.seconds - time.time()))
    link.close()
    return started


def _booking(house: House, stay: str, room: str, start: datetime) -> BusMessage:
    subject = full_subject("booking.confirmed")
    event = envelope.Envelope(
        id=new_event_id(), subject=subject, source="/services/reservation-service", time=datetime.now(UTC),
        tenant_id=house.tenant_id,
        data={
            "reservationId": stay, "propertyId": house.property_id, "version": 1, "status": "confirmed", "rooms": [room],
            "validFrom": start.isoformat(), "validUntil": (start + STAY).isoformat(), "paymentStatus": "captured",
            "guest": {"id": f"gst_{stay[-8:]}", "displayName": "Мадина Каримзода", "contact": {}, "locale": "tg"},
        },
    )  # fmt: skip
    return BusMessage(spec(subject).topic or "", stay, envelope.encode(event), {})


def _wait_until_all_active(tenant_id: str, count: int) -> None:
    """Waits for every key. Ends the benchmark for one that failed, or does not come."""
    ends, told_at = time.monotonic() + PATIENCE_S, time.monotonic()
    while True:
        with tenancy.tenant(tenant_id):
            states = list(KeyCredential.objects.filter(tenant_id=tenant_id).values_list("state", flat=True))
            undone = Saga.objects.filter(tenant_id=tenant_id).exclude(status="done").count()
        if states.count("active") == count and not undone:
            return
        if states.count("failed") or time.monotonic() > ends:
            found = {state: states.count(state) for state in sorted(set(states))}
            raise SystemExit(f"vendor_isolation: of {count} keys {found}, {undone} sagas not done: the figure is void")
        if time.monotonic() - told_at > TELL_S:
            told_at = time.monotonic()
            _say(f"{states.count('active')} of {count} keys, {undone} sagas under way")
        time.sleep(0.25)


def _opened(tenant_id: str, houses: Sequence[House]) -> set[str]:
    vendor_of = {house.installation_id: house.vendor for house in houses}
    with tenancy.tenant(tenant_id):
        subject = Subject.VENDOR_ADAPTER_HEALTH_CHANGED.value
        bodies = OutboxEvent.objects.filter(tenant_id=tenant_id, subject=subject).values_list("body", flat=True)
        events = [envelope.decode(bytes(body)).data for body in bodies]
    return {vendor_of[str(data["vendorAdapterId"])] for data in events if data["to"] == "open"}


def _check_doors(house: House, control: SimulatorControl, count: int) -> None:
    """No double effect: the doors hold the keys of the ledger, each once, and they open what they should."""
    found = DoorCheck(house.tenant_id, house.property_id, {house.vendor: control}).look(datetime.now(UTC))[house.vendor]
    if found.differences or found.keys_count != count:
        told = "; ".join(f"{item.door} {item.what}" for item in found.differences[:5])
        raise SystemExit(f"vendor_isolation: {house.vendor}: {found.keys_count} of {count} keys at the doors; {told}")


def _spent(tenant_id: str, houses: Sequence[House], started: Mapping[str, float]) -> dict[str, list[float]]:
    with tenancy.tenant(tenant_id):
        keys = {row.id: row for row in KeyCredential.objects.filter(tenant_id=tenant_id)}
        subject = full_subject("melmastoon.lock.credential.issued.v1")
        rows = OutboxEvent.objects.filter(tenant_id=tenant_id, subject=subject).values_list("ordering_key", "created_at")
        issued = dict(rows)
    spent: dict[str, list[float]] = {house.vendor: [] for house in houses}
    for key_id, at in issued.items():
        key = keys[key_id]
        spent[key.vendor].append((at.timestamp() - started[str(key.reservation_id)]) * 1000)
    return spent
