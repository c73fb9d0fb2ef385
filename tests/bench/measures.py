"""The measurements. A throughput counts only if what it produced is right; each ends by checking its data."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import urllib3
from django.conf import settings
from django.db import connection

from credentials.models import KeyCredential
from lockservice.core import tenancy
from lockservice.embedded.local import REPOSITORY_ROOT, LocalDirectory
from sagas import bus
from sagas.bus import BusMessage
from sagas.dispatch import dispatch_together
from sagas.events import envelope, validate
from sagas.events.registry import spec
from sagas.models import Saga
from sagas.outbox import SHARDS
from sagas.publisher import ensure_shards
from tests.bench import isolation, raw
from tests.bench.report import Report
from tests.bench.waiting import wait_until
from tests.bench.workers import Workers
from tests.support.hotel import Hotel, build_hotel, full_subject
from vendors.port.ids import new_id

ALL = (
    "saga_steps",
    "relay",
    "tenant_block",
    "event_checks",
    "issue_end_to_end",
    "revoke_idle",
    "revoke_behind_10000",
    "vendor_isolation",
)
VENDOR_MS = 50
STAY = timedelta(days=3)
STEP_SAGAS = 1500
RELAY_ROWS = 20_000
EVENT_CHECKS = 5_000
BLOCKS = 2_000
BOOKINGS = 400
REVOKES = 60
ROOMS = 200


class Bench:
    """The measurements over one set of servers."""

    def __init__(
        self, local: LocalDirectory, database: str, runs: int, queued: int, report: Report, isolated: isolation.Plan
    ) -> None:  # fmt: skip
        self._local, self._database, self._runs, self._queued, self._report = local, database, runs, queued, report
        self._isolated = isolated
        self._url = settings.REDIS_URL
        self._mock: subprocess.Popen[str] | None = None
        self._ttlock: subprocess.Popen[str] | None = None

    def close(self) -> None:
        """Ends the simulators."""
        for process in (self._mock, self._ttlock):
            if process is not None:
                process.kill()
                process.communicate()

    def saga_steps(self) -> None:
        """One step is a plan and a record; two runner processes, vendor in-process, eight lanes of 50."""
        ours, plain = [], []
        for _ in range(self._runs):
            hotel = in_process_hotel(8)
            queue_bookings(hotel, STEP_SAGAS)
            workers = Workers("drain", "drain")
            workers.go()
            answers = workers.answers()
            ours.append(sum(answer["done"] for answer in answers) / max(answer["seconds"] for answer in answers))
            check_all_active(hotel, STEP_SAGAS)
            plain.append(raw.saga_steps(self._local, self._database))
        self._report.pairs("saga_steps", "steps/s", ours, plain, sagas=STEP_SAGAS, processes=2)

    def relay(self) -> None:
        """Outbox rows of 900 bytes to Redis Streams, one publisher."""
        ours, plain = [], []
        for _ in range(self._runs):
            tenant_id = fill_outbox(RELAY_ROWS)
            workers = Workers("publish")
            started = time.monotonic()
            workers.go()
            wait_until(lambda tenant_id=tenant_id: unpublished(tenant_id) == 0, 60)
            ours.append(RELAY_ROWS / (time.monotonic() - started))
            workers.go()
            workers.answers()
            plain.append(raw.relay(self._local, self._database, self._url, RELAY_ROWS))
        self._report.pairs("relay", "rows/s", ours, plain, rows=RELAY_ROWS, body_bytes=900)

    def tenant_block(self) -> None:
        """Blocks of one tenant with one statement each, against the same four statements of the driver, BEGIN sent by itself."""
        ours, plain = [], []
        tenant_id = new_id("tnt")
        for _ in range(self._runs):
            started = time.monotonic()
            for _ in range(BLOCKS):
                with tenancy.tenant(tenant_id), connection.cursor() as cursor:
                    cursor.execute("SELECT current_setting('app.tenant')")
                    assert cursor.fetchone() == (tenant_id,)
            ours.append(BLOCKS / (time.monotonic() - started))
            plain.append(raw.tenant_blocks(self._local, self._database, tenant_id, BLOCKS))
        self._report.pairs("tenant_block", "blocks/s", ours, plain, blocks=BLOCKS)

    def event_checks(self) -> None:
        """Events of a booking read and checked, against their JSON read alone; CPU time of one process."""
        raw_event = _confirmed_event()
        ours, plain = [], []
        for _ in range(self._runs):
            ours.append(_rate(lambda: validate.validate(*_read(raw_event))))
            plain.append(_rate(lambda: json.loads(raw_event)))
        self._report.pairs("event_checks", "events/s", ours, plain, events=EVENT_CHECKS, body_bytes=len(raw_event))

    def issue_end_to_end(self) -> None:
        """Booking on the bus to `issued` relayed: consumer, two runners and publisher; the vendor takes 50 ms over HTTP."""
        ours, plain = [], []
        for _ in range(self._runs):
            hotel = self._mock_hotel()
            workers = Workers("consume", "sagas", "sagas", "publish")
            workers.go()
            link = bus.from_settings()
            started = time.monotonic()
            link.publish([booking_message(hotel, n) for n in range(BOOKINGS)])
            wait_until(lambda hotel=hotel: issued_and_relayed(hotel) == BOOKINGS, 120)
            ours.append(BOOKINGS / (time.monotonic() - started))
            workers.go()
            workers.answers()
            link.close()
            check_all_active(hotel, BOOKINGS)
            plain.append(raw.saga_steps(self._local, self._database, 2))
        self._report.pairs("issue_end_to_end", "bookings/s", ours, plain, bookings=BOOKINGS, vendor_ms=VENDOR_MS)

    def revoke_idle(self) -> None:
        """Event on the bus to the vendor's first byte, nothing else to do; open loop, four a second."""
        self._revokes("revoke_idle", queued=0)

    def revoke_behind_10000(self) -> None:
        """The same while thousands of issues are queued on the same gateways."""
        self._revokes("revoke_behind_10000", queued=self._queued)

    def vendor_isolation(self) -> None:
        """The same bookings at every vendor, all alive and then one dead for minutes."""
        self._report.take("vendor_isolation", isolation.measure(self._isolated))

    def _revokes(self, name: str, queued: int) -> None:
        hotel, control = self._ttlock_hotel()
        stays = queue_bookings(hotel, REVOKES, rooms=list(hotel.rooms)[:REVOKES])
        workers = Workers("drain")
        workers.go()
        workers.answers()
        check_all_active(hotel, REVOKES)
        queue_bookings(hotel, queued, after=1)
        base = raw.revoke_path(self._local, self._database, self._url, f"{control}/health")
        workers = Workers("consume", "sagas", "sagas", "publish")
        workers.go()
        time.sleep(2)
        link = bus.from_settings()
        since = ask(control, "/calls")["last"]
        told = {}
        for position, stay in enumerate(stays):
            due = time.monotonic() + 0.25
            data = hotel.booking(stay, 2, [list(hotel.rooms)[position]], status="cancelled")
            told[hotel.doors[list(hotel.rooms)[position]]] = time.monotonic() * 1000
            link.publish([message(hotel, "booking.cancelled", stay, data)])
            time.sleep(max(0.0, due - time.monotonic()))
        time.sleep(3)
        left = open_issues(hotel)
        first = first_deletes(control, since)
        workers.kill()
        link.close()
        spent = [first[door] - at for door, at in told.items() if door in first]
        if len(spent) < REVOKES:
            raise SystemExit(f"{name}: {REVOKES - len(spent)} revokes never reached the vendor")
        self._report.latencies(name, spent, base, queued=queued, still_queued=left, vendor_ms=VENDOR_MS)

    def _mock_hotel(self) -> Hotel:
        if self._mock is None:
            self._mock = start_simulator("mock")
        assert self._mock.args
        rooms = {str(n): new_id("lck") for n in range(ROOMS)}
        url = f"{MOCK['setting']}?latencyMs={VENDOR_MS}"
        return build_hotel(vendor="mock", settings={"url": url}, rooms=rooms, lane_width=64)

    def _ttlock_hotel(self) -> tuple[Hotel, str]:
        if self._ttlock is None:
            self._ttlock = start_simulator("ttlock")
        return ttlock_hotel(ROOMS, gateways=20), TTLOCK["control"]


MOCK: dict[str, str] = {}
TTLOCK: dict[str, str] = {}
_http = urllib3.PoolManager()


def start_simulator(vendor: str) -> subprocess.Popen[str]:
    """Starts a vendor's simulator and notes its addresses."""
    process = subprocess.Popen(
        [sys.executable, "-m", "vendors.simulate", vendor, "--port", "0", "--control-port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    (MOCK if vendor == "mock" else TTLOCK).update(json.loads(process.stdout.readline()))
    return process


def ask(control: str, path: str, body: Any = None) -> Any:
    """Speaks to a control port."""
    answer = _http.request("GET" if body is None else "POST", f"{control}{path}", json=body)
    assert answer.status == 200, answer.data
    return answer.json()


def _confirmed_event() -> bytes:
    subject = full_subject("booking.confirmed")
    examples = json.loads((REPOSITORY_ROOT / "tests/unit/sagas/events/examples/inbound.json").read_text(encoding="utf-8"))
    event = envelope.compose(
        subject, examples[subject][0], event_id="evt_1", time=datetime(2026, 4, 30, tzinfo=UTC), tenant_id="tnt_1",
        trace_id="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )  # fmt: skip
    return envelope.encode(event)


def _read(raw_event: bytes) -> tuple[str, dict[str, Any]]:
    decoded = envelope.decode(raw_event)
    return decoded.subject, decoded.data


def _rate(work: Callable[[], object]) -> float:
    started = time.process_time()
    for _ in range(EVENT_CHECKS):
        work()
    return EVENT_CHECKS / (time.process_time() - started)


def in_process_hotel(installations: int) -> Hotel:
    """Makes a hotel whose vendor costs nothing."""
    hotel = None
    for number in range(installations):
        rooms = {f"{number}-{n}": new_id("lck") for n in range(25)}
        hotel = build_hotel(vendor="mock", settings={"url": "mock://?capacity=100000"}, rooms=rooms, lane_width=50, into=hotel)
    assert hotel is not None
    return hotel


def ttlock_hotel(rooms: int, gateways: int) -> Hotel:
    """Makes a hotel on the TTLock simulator, rooms spread over gateways, each call taking 50 ms."""
    account = {"clientId": new_id("dev"), "clientSecret": "s" * 32, "username": new_id("usr"), "password": "demo-password"}
    labels = [f"{n % gateways + 1}{n // gateways:02}" for n in range(rooms)]
    wanted = {"account": account, "rooms": labels, "shared": [], "gatewayPer": "floor"}
    seeded = ask(TTLOCK["control"], "/seed/hotel", wanted)
    ask(TTLOCK["control"], "/latency", {"cloudMs": 0, "gatewayMs": VENDOR_MS})
    locks = {lock["alias"]: str(lock["lockId"]) for lock in seeded["locks"]}
    serial = {str(lock["lockId"]): str(lock["gatewayId"]) for lock in seeded["locks"]}
    return build_hotel(
        vendor="ttlock",
        settings={"base_url": TTLOCK["url"], "client_id": account["clientId"]},
        secrets={
            "client_secret": account["clientSecret"],
            "username": seeded["account"].get("username", account["username"]),
            "password_md5": hashlib.md5(account["password"].encode(), usedforsecurity=False).hexdigest(),
        },
        rooms=locks,
        gateways=serial,
        calls_per_minute=1_000_000,
        calls_per_month=1_000_000_000,
    )


def booking_message(hotel: Hotel, number: int) -> BusMessage:
    """Returns one confirmation for the bus."""
    stay = new_id("rsv")
    return message(hotel, "booking.confirmed", stay, _booking(hotel, stay, number, list(hotel.rooms)))


def message(hotel: Hotel, subject: str, key: str, data: dict[str, Any]) -> BusMessage:
    """Returns an event as its producer would publish it."""
    return BusMessage(spec(full_subject(subject)).topic or "", key, hotel.event(subject, data), {})


def queue_bookings(hotel: Hotel, count: int, rooms: list[str] | None = None, *, after: int = 0) -> list[str]:
    """Takes bookings in without running their sagas; returns the reservations. Each room was given away `after` times before."""
    labels = rooms or list(hotel.rooms)
    stays = [new_id("rsv") for _ in range(count)]
    bodies = [
        hotel.event("booking.confirmed", _booking(hotel, stay, n + after * len(labels), labels)) for n, stay in enumerate(stays)
    ]
    for first in range(0, count, 50):
        dispatch_together([envelope.decode(body) for body in bodies[first : first + 50]])
    return stays


def _booking(hotel: Hotel, stay: str, number: int, rooms: list[str]) -> dict[str, Any]:
    """Returns the n-th booking over rooms: in one room a stay follows the other, as in a house that is not overbooked."""
    before, place = divmod(number, len(rooms))
    start = hotel.opened_at + before * STAY
    return hotel.booking(stay, 1, [rooms[place]], start=start, end=start + STAY)


def check_all_active(hotel: Hotel, count: int) -> None:
    """The figures count only if every key is active and every saga is done."""
    with tenancy.tenant(hotel.tenant_id):
        active = KeyCredential.objects.filter(tenant_id=hotel.tenant_id, state="active").count()
        undone = Saga.objects.filter(tenant_id=hotel.tenant_id).exclude(status="done").count()
    if (active, undone) != (count, 0):
        raise SystemExit(f"{active} of {count} keys active, {undone} sagas not done: the figure is void")


def fill_outbox(rows: int) -> str:
    """Writes outbox rows of a tenant of their own and returns it."""
    tenant_id = new_id("tnt")
    with tenancy.queues(), connection.cursor() as cursor:
        ensure_shards()
        cursor.execute("UPDATE sagas_outboxevent SET published_at = clock_timestamp() WHERE published_at IS NULL")
        cursor.execute(
            "INSERT INTO sagas_outboxevent (id, tenant_id, subject, topic, ordering_key, sequence, shard, body, created_at,"
            " attempts, blocked) SELECT 'evt_' || %s || n, %s, 'melmastoon.lock.credential.issued.v1', 'bench.relay',"
            " 'key_' || (n / 4), n %% 4 + 1, (n / 4) %% %s, convert_to(%s || repeat('x', 860), 'UTF8'), clock_timestamp(), 0, false"
            " FROM generate_series(0, %s) n",
            [tenant_id, tenant_id, SHARDS, f'"tenantId":"{tenant_id}"', rows - 1],
        )
    return tenant_id


def unpublished(tenant_id: str) -> int:
    """Counts a tenant's rows still to be relayed."""
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM sagas_outboxevent WHERE tenant_id = %s AND published_at IS NULL", [tenant_id])
        return int(cursor.fetchone()[0])


def issued_and_relayed(hotel: Hotel) -> int:
    """Counts the hotel's `issued` events that were relayed."""
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM sagas_outboxevent WHERE tenant_id = %s AND published_at IS NOT NULL"
            " AND subject = 'melmastoon.lock.credential.issued.v1'",
            [hotel.tenant_id],
        )
        return int(cursor.fetchone()[0])


def open_issues(hotel: Hotel) -> int:
    """Counts issue sagas that are still to do."""
    with tenancy.tenant(hotel.tenant_id):
        return Saga.objects.filter(tenant_id=hotel.tenant_id, flow="issue").exclude(status="done").count()


def first_deletes(control: str, since: int) -> dict[str, float]:
    """Returns when (monotonic ms) each lock's vendor first heard of a removal."""
    first: dict[str, float] = {}
    for call in ask(control, f"/calls?since={since}&limit=1000000")["calls"]:
        if call["path"].endswith("keyboardPwd/delete") and str(call["lockId"]) not in first:
            first[str(call["lockId"])] = call["at"]
    return first
