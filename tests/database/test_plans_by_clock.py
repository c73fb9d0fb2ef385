"""Whatever asks a clock what is due reads what is due, not all that ever was: the plans of the service's own statements, taken while
they run on an estate.

One rule: sources are searched for comparisons with an instant, and each that is found has to be run here. A statement that reads
a table in sequence, or many rows to find few, fails, unless it stands in `COUNTS` with its reason.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from credentials import overlaps, pin_slots
from credentials.models import KeyCredential, Reservation
from credentials.services import KeyBatch
from credentials.targets import Verb
from devices import (
    break_glass,
    breaker,
    health,
    health_poll,
    lane_hold,
    read_back,
    relay_desks,
    relay_jobs,
    secret_due,
    secret_rotation,
    secret_upkeep,
    selectors,
    webhooks,
)
from devices.breaker_rules import Heard
from devices.models import RelayDesk, VendorInstallation, VendorWebhook
from devices.relay_jobs import RelayJob, Site
from lockservice.console import access
from lockservice.core import clock, ended_access, heartbeat
from lockservice.core import figures as sheet
from lockservice.core.tenancy import queues, tenant
from lockservice.embedded import postgres, roles, valkey
from lockservice.embedded.local import LocalDirectory
from sagas import acts, claims, figures, housekeeping
from sagas.bus.redis_streams import RedisStreamsBus
from sagas.flows import card_in_use, follow_stays, read_log, room_move, shared_rooms, take_webhook
from sagas.flows.one_change import Group
from sagas.models import DeadLetter, ReconcileRun, Violation
from sagas.publisher import Publisher, ensure_shards
from sagas.reconcile import ledger, owners, run, turns, vanishing
from sagas.reconcile.asking import Inquiry
from sagas.runner import Runner
from sagas.watch import look as watch
from tests.support import own_database
from tests.support.estate import Estate, House, Size, fill
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.plans import Plan, Scan, watched
from tests.support.stage.callers import api_caller, console_user
from tests.support.timed_sources import bare_clocks, timed_places
from vendors.port.errors import CardKey
from vendors.port.ids import new_id
from vendors.port.secrets import CardNumber
from vendors.support.marks import mark_of, tag_of

SIZE = Size(tenants=6, rooms=10, past=455, waiting=120)
BIG = 1_000
"""A table of so many rows grows with bookings, not with houses."""
pytestmark = pytest.mark.timeout(600)

FEW = 400
"""At most so many rows are read by one scan of a big table; of due things the estate has fewer."""
PAGES = 1_000
"""At most so many pages by one statement: two hundred look-ups of a few pages each."""

TINY = frozenset(
    {
        "core_hotelclock",
        "core_heartbeat",
        "core_figuresheet",
        "sagas_relayshard",
        "sagas_jobslot",
        "sagas_watchcursor",
        "django_session",
    }
)
"""Tables that hold a few rows however large the estate."""

COUNTS: dict[str, str] = {
    "SELECT \\?, count\\(\\*\\) FROM sagas_saga WHERE status = \\? UNION ALL": "counts what is open, in the index of what is open",
    'SELECT "credentials_credentialdoor".* "credentials_keycredential"."valid_until" >= ': (
        "a lock's keys of sixty days, by the lock or by the house's departures, whichever are fewer"
    ),
    "DELETE FROM sagas_inboxmessage WHERE received_at": "an index over ranges of pages: reads at least one of them",
}
"""Statements, as their beginning, that read more, with the reason."""

BY_HAND: dict[str, str] = {
    "lockservice/management/commands/up.py": "reads the heartbeats, a row for each process",
    "lockservice/replay/": "a replay's own questions, on a database that it fills itself",
    "sagas/management/commands/publish_outbox.py": "sends a span of events again, at a person's word",
}
"""Places that are not run here."""


@dataclass(frozen=True)
class Ground:
    """What the work is done on. `admin` plants what is due."""

    estate: Estate
    seconds: float
    admin: psycopg.Connection[tuple[object, ...]]
    redis_url: str

    @property
    def house(self) -> House:
        return self.estate.houses[0]

    def plant(self, statement: str, *values: object) -> None:
        assert self.admin.execute(statement, values).rowcount > 0, statement


@pytest.fixture(scope="module")
def ground(database: str, embedded_servers: LocalDirectory) -> Iterator[Ground]:
    name = own_database.copy(embedded_servers)
    locks = MockLocks()
    dsn = postgres.endpoint(embedded_servers).superuser_dsn(name)
    with own_database.turned_to(name), psycopg.connect(dsn, autocommit=True) as admin:
        started = time.process_time()
        estate = fill(embedded_servers, SIZE, url=locks.setting)
        yield Ground(estate, time.process_time() - started, admin, valkey.endpoint(embedded_servers).url())
    locks.stop()
    roles.drop_database(embedded_servers, name)


@pytest.fixture(scope="module")
def plans(ground: Ground) -> list[Plan]:
    """Give the plans of all work, done once."""
    with watched() as found:
        for work in WORK:
            work(ground)
    with watched() as asked:
        for work in ASKED:
            work(ground)
    return [*found, *(plan for plan in asked if plan.is_timed)]


# --- The work ---------------------------------------------------------------------------------


def _sagas(ground: Ground) -> None:
    ground.plant(
        "UPDATE sagas_saga SET due_at = now() - interval '1 s' WHERE id IN"
        " (SELECT id FROM sagas_saga WHERE status = 'retry' AND tenant_id = %s LIMIT 3)", ground.house.tenant_id,
    )  # fmt: skip
    ground.plant(
        "UPDATE sagas_saga SET hotel_due_at = now() - interval '1 s' WHERE id IN"
        " (SELECT id FROM sagas_saga WHERE status = 'timer' AND tenant_id = %s LIMIT 3)", ground.house.tenant_id,
    )  # fmt: skip
    runner = Runner(pool_size=4)
    ends = time.monotonic() + 30
    runner.run(until=lambda: time.monotonic() > ends, drain=True)
    assert runner.steps
    with queues():
        lanes = claims.claim_lanes("somebody", 4, [], [f"{ground.house.installation_id}:"])
        claims.renew("somebody", {lane: token for lane, (token, _) in lanes.items()})


def _moves(ground: Ground) -> None:
    """A guest whose old room is kept: is it somebody else's by now?"""
    house = ground.house
    reservation_id, key_id = list(house.keys.items())[6]
    ground.plant("UPDATE credentials_credentialdoor SET old_room = 'kept' WHERE credential_id = %s AND room_id <> ''", key_id)
    with tenant(house.tenant_id):
        batch = KeyBatch.load_stays(house.tenant_id, [reservation_id], clock.now())
        row = Reservation.objects.get(tenant_id=house.tenant_id, reservation_id=reservation_id)
        row.rooms = [house.rooms[0]]
        room_move._needed_now(batch, batch.keys[key_id], row)
        room_move._others(batch, batch.keys[key_id], row)


def _ended_windows(ground: Ground) -> None:
    ground.plant(
        "UPDATE credentials_keycredential SET ends_at = now() - interval '1 s' WHERE id = ANY(%s)",
        list(ground.house.keys.values())[:3],
    )  # fmt: skip
    assert housekeeping.sweep() == 3


def _tidy(ground: Ground) -> None:
    ground.plant(
        "UPDATE sagas_inboxmessage SET received_at = now() - interval '91 days' WHERE id IN (SELECT min(id) FROM sagas_inboxmessage)"
    )
    assert housekeeping.tidy() == SIZE.tenants
    with tenant(ground.house.tenant_id):
        pin_slots.forget_rested(ground.house.tenant_id, clock.now())


def _pushes(ground: Ground) -> None:
    house = ground.house
    now = datetime.now(UTC)
    record = {
        "id": secrets.token_hex(8), "device": house.external[house.devices["lobby"]], "outcome": "granted",
        "at": now.isoformat(), "why": None, "nonce": "ab" * 6, "kind": "pin_code",
    }  # fmt: skip
    with tenant(house.tenant_id):
        row = VendorWebhook.objects.create(
            id=new_id("whk"), tenant_id=house.tenant_id, installation_id=house.installation_id, vendor="mock",
            external_event_id=secrets.token_hex(8), type="access.granted", received_at=now, due_at=now, records=[record],
        )  # fmt: skip
    assert take_webhook.take_due() == 1
    with tenant(house.tenant_id):
        read_back.hold(row, [house.devices["lobby"]], polls=True)
        webhooks._first_time(house.tenant_id, house.installation_id, "mock", secrets.token_hex(8))


def _logs(ground: Ground) -> None:
    ground.plant("UPDATE devices_recordpoll SET due_at = now() + interval '1 hour', hinted = false")
    ground.plant(
        "UPDATE devices_recordpoll SET due_at = now() - interval '1 s', hinted = device_id <> %s WHERE device_id = ANY(%s)",
        *(ground.house.devices["lobby"], list(ground.house.devices.values())[-3:]),
    )  # fmt: skip
    assert len(read_log.read_due(hinted=True)) == 2
    assert len(read_log.read_due()) >= 1


def _polls(ground: Ground) -> None:
    ground.plant(
        "UPDATE devices_healthpoll SET due_at = now() + interval '1 hour' WHERE tenant_id <> %s", ground.house.tenant_id
    )
    ground.plant("UPDATE devices_healthpoll SET due_at = now() - interval '1 s' WHERE tenant_id = %s", ground.house.tenant_id)
    assert [report.outcome for report in health_poll.poll_due()] == ["polled"]
    with tenant(ground.house.tenant_id):
        health.forget_old(ground.house.tenant_id, list(ground.house.devices.values()), clock.now())
    with lane_hold.held(f"{ground.estate.houses[1].installation_id}:") as free:
        assert free


def _comparison(ground: Ground) -> None:
    house = ground.house
    ground.plant("UPDATE sagas_reconcileturn SET due_at = now() - interval '1 s' WHERE tenant_id = %s", house.tenant_id)
    assert len(run.work_due(60)) == 1
    with tenant(house.tenant_id):
        device = selectors.devices(house.tenant_id, house.property_id, [house.devices["lobby"]])[house.devices["lobby"]]
        assert owners.stays_at(house.tenant_id, device, clock.now())
        assert vanishing.should_be_at(house.tenant_id, [device.id], {})
        assert ledger.books_of(house.tenant_id, device).expected
        batch = KeyBatch.load(house.tenant_id, list(house.keys.values())[:1], clock.now())
        key = next(iter(batch.keys.values()))
        assert not shared_rooms.is_beside_stranger(batch, key, batch.doors_at(key))
        key.vendor, key.kind = "salto", "rfid_card"  # in memory: such a key is one for all of its rooms
        assert not overlaps.is_held(key, batch.doors_at(key), [key.kind], clock.now())
        key.issued_at = key.valid_from
        assert not overlaps.is_turned_over(key, batch.doors_at(key), [key.kind], clock.now(), clock.now())
        assert not overlaps.left_behind(key, batch.doors_at(key), [key.kind], clock.now())
        assert not overlaps.outranked(key, batch.doors_at(key), [key.kind], clock.now(), clock.now())
        assert not shared_rooms.with_other_stay(batch, key, Group(tuple(batch.doors_at(key)), Verb.UPDATE))
        row = ReconcileRun.objects.filter(tenant_id=house.tenant_id, status="done").latest("started_at")
        facts = selectors.installation(house.tenant_id, house.installation_id)
        turn = turns.Turn(house.tenant_id, house.installation_id, "nobody")
        comparison = run._Comparison(turn, facts, run.Report(house.tenant_id, house.installation_id), Inquiry(None), run.never)  # type: ignore[arg-type]
    comparison._repair_left(row)


def _metrics(ground: Ground) -> None:
    ground.plant("INSERT INTO sagas_jobslot (job, slot, taken_at) VALUES ('old', 'slot', now() - interval '8 days')")
    assert figures.count_due() > 20
    with queues():
        assert sheet.read_sheet() is not None
        heartbeat.beat("sagas", "one")
        assert heartbeat.ages()


def _events(ground: Ground) -> None:
    house = ground.house
    hotel = Hotel(house.tenant_id, house.property_id, house.installation_id, rooms={"101": house.rooms[0]})
    start = datetime.now(UTC) + timedelta(days=30)
    assert hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"], start=start)) == "applied"
    with tenant(house.tenant_id):
        follow_stays.next_page(house.tenant_id, {"property": house.property_id})
    unread = {name: value for name, value in hotel.booking("rsv_x", 1, ["101"]).items() if name != "version"}
    assert hotel.tell("booking.confirmed", unread) == "buried"
    with tenant(house.tenant_id):
        letter = DeadLetter.objects.get(tenant_id=house.tenant_id, replayed_at__isnull=True)
    acts.replay_dead_letter(house.tenant_id, letter.id, acts.Actor("usr_x"))
    with queues():
        ensure_shards()
    publisher = Publisher(RedisStreamsBus(ground.redis_url, prefix=f"{{plans-{secrets.token_hex(4)}}}"))
    assert publisher.run(until=lambda: False, drain=True) > 0


def _breaker(ground: Ground) -> None:
    house = ground.house
    real = datetime.now(UTC)
    with tenant(house.tenant_id):
        silent = [Heard(house.installation_id, f"sag_{number}", answered=False) for number in range(100)]
        breaker.note(house.tenant_id, silent, clock.now(), real)
        later = real + timedelta(hours=1)
        gate = breaker.ask(
            house.tenant_id, house.installation_id, breaker.standing(house.tenant_id), saga_id="sag_probe", urgent=False,
            hotel_now=clock.now(), real_now=later,
        )  # fmt: skip
        assert gate.probing
        breaker.note(house.tenant_id, [Heard(house.installation_id, "sag_probe", answered=True)], clock.now(), later)
        assert breaker.standing(house.tenant_id) == {}


def _secrets(ground: Ground) -> None:
    house = ground.house
    ground.plant(
        "INSERT INTO devices_secretrotation (id, tenant_id, installation_id, stage, versions, overlap_s, actor_id, started_at,"
        " retire_at, ended_at, error) SELECT 'srt_' || n, %s, %s, 'retired', '{}', 60, 'usr_x', now() - interval '1 day',"
        " now() - interval '1 hour', now(), '' FROM generate_series(1, 300) n", house.tenant_id, house.installation_id,
    )  # fmt: skip
    ground.plant(
        "INSERT INTO devices_breakglass (id, tenant_id, property_id, installation_id, secret_name, incident, reason, requested_by,"
        " state, requested_at, expires_at) SELECT 'bgl_' || n, %s, %s, %s, 'webhook_secret', 'INC-1', 'because', 'usr_x', CASE n"
        " WHEN 1 THEN 'requested' ELSE 'closed' END, now() - interval '2 days', now() - interval '1 day'"
        " FROM generate_series(1, 300) n", house.tenant_id, house.property_id, house.installation_id,
    )  # fmt: skip
    ground.plant(
        "UPDATE devices_secretdue SET due_at = now() - interval '1 day' WHERE done_at IS NULL AND tenant_id = %s",
        house.tenant_id,
    )
    secret_upkeep.run_hourly()
    with pytest.raises(break_glass.BreakGlassRefused):
        break_glass.ask(
            house.tenant_id, house.installation_id, "none", incident="INC-1", reason="to see a plan", actor_id="usr_x"
        )
    secret_rotation.retire_due(house.tenant_id)
    with tenant(house.tenant_id):
        row = VendorInstallation.objects.get(tenant_id=house.tenant_id, id=house.installation_id)
        secret_rotation._forget_interrupted(row, datetime.now(UTC))
        secret_due.bring_forward(row, "secret", ("name-0",), datetime.now(UTC), "cadence", "", datetime.now(UTC))


def _desk(ground: Ground) -> None:
    house = ground.house
    site = Site(house.tenant_id, house.property_id, house.installation_id, "mock")
    with tenant(house.tenant_id):
        desk = RelayDesk(
            tenant_id=house.tenant_id, desk_id="desk-2", property_id=house.property_id, connection="c2", vendors=["mock"]
        )
        relay_desks.arrive(desk, 600)
        place = house.devices[house.rooms[0]]
        job = RelayJob(
            "sha256:job", "key_x", "write", {}, (place,), advance=(place,), lasts_until=clock.now() + timedelta(days=1)
        )
        made = relay_jobs.submit(site, job, clock.now())
        assert [offer.job_id for offer in relay_jobs.offers(desk, 5)] == [made.job_id]
        assert relay_jobs.accept(desk, made.job_id)
        relay_jobs.look(house.tenant_id, made.job_id)
        assert relay_jobs.to_cancel(desk) == []
        assert relay_jobs.to_ask(desk) == []
        assert relay_desks.here(house.tenant_id, house.property_id)
        relay_jobs.forget(house.tenant_id, clock.now())


def _callers(ground: Ground) -> None:
    house = ground.house
    caller = api_caller(house.tenant_id, "front_desk_supervisor", (house.property_id,), "usr_x")
    key_id = list(house.keys.values())[5]
    for _ in range(2):
        answer = caller.post(f"/lock/v1/credentials/{key_id}/suspend", {"reason": "manual"}, key="plans-one")
        assert answer.status_code in (200, 202), answer.content
    with tenant(house.tenant_id):
        assert health.history(house.tenant_id, house.devices["lobby"], datetime.now(UTC) - timedelta(days=1), datetime.now(UTC))
        ended_access.end(house.tenant_id, "usr_nobody")
    answer = caller.get(f"/lock/v1/devices/{house.devices['lobby']}/readings")
    assert answer.status_code == 200, answer.content


def _console(ground: Ground) -> None:
    house = ground.house
    client = console_user(house.tenant_id, "front_desk_supervisor")
    support = console_user(house.tenant_id, "support")
    for address in (
        "",
        "credentials/keycredential/",
        "credentials/keycredential/?open=1",
        "credentials/reservation/",
        "devices/lockdevice/",
        "sagas/alert/",
    ):
        assert client.get(f"/console/{address}").status_code == 200, address
    for address in ("sagas/saga/", "sagas/outboxevent/", "sagas/inboxmessage/", "sagas/deadletter/"):
        assert support.get(f"/console/{address}").status_code == 200, address
    login = get_user_model().objects.get(pk=client.session["_auth_user_id"]).get_username()
    access._id_before(login, house.tenant_id)


def _card_in_use(ground: Ground) -> None:
    house, key_id = ground.house, list(ground.house.keys.values())[9]
    ground.plant("UPDATE credentials_keycredential SET kind = 'rfid_card' WHERE id = %s", key_id)
    with tenant(house.tenant_id):
        key = KeyCredential.objects.get(tenant_id=house.tenant_id, id=key_id)
        by_tag, by_mark = (CardKey("name", tag=tag_of(key_id)), CardKey("name", nonce=mark_of(key.issue_key)))
        owners_found = [
            card_in_use.owner_of(house.tenant_id, house.property_id, found, clock.now()) for found in (by_tag, by_mark)
        ]
        assert owners_found == [key, key]
        assert card_in_use.with_number(key, CardNumber("17"), clock.now()) == []


def _watch(ground: Ground) -> None:
    key_id = list(ground.house.keys.values())[8]
    ground.plant("UPDATE credentials_credentialdoor SET carried_until = now() WHERE credential_id = %s", key_id)
    ground.plant("UPDATE sagas_lane SET due_since = now() - interval '1 hour' WHERE tenant_id = %s", ground.house.tenant_id)
    watch.look_at_all()
    with tenant(ground.house.tenant_id):
        assert Violation.objects.filter(tenant_id=ground.house.tenant_id, subject=key_id, mended_at__isnull=True).exists()


WORK: tuple[Callable[[Ground], None], ...] = (
    _sagas, _moves, _ended_windows, _tidy, _pushes, _logs, _polls, _comparison, _metrics, _events, _breaker, _secrets, _desk,
    _card_in_use, _watch,
)  # fmt: skip
ASKED: tuple[Callable[[Ground], None], ...] = (_callers, _console)
"""What people ask for. A list of all there is may read all there is, but not to find what is due."""


# --- What they read ---------------------------------------------------------------------------


def test_the_estate_is_large(ground: Ground, record_property: Callable[[str, object], None]) -> None:
    record_property("figure", f"estate: {ground.estate.total} rows, {ground.seconds:.1f} s of processor time")
    assert ground.estate.total >= 100_000
    known = ground.admin.execute("SELECT reltuples FROM pg_class WHERE relname = 'sagas_outboxevent'").fetchone()
    assert known is not None
    assert 0.8 < float(str(known[0])) / ground.estate.rows["sagas_outboxevent"] < 1.2  # the planner knows, from a sample


def test_the_clock_is_read_once_for_a_statement() -> None:
    assert bare_clocks() == []


def test_every_place_that_asks_a_clock_is_run(plans: list[Plan]) -> None:
    run_here = {place for plan in plans for place in plan.places}
    left = [place for place in timed_places() if place not in run_here and not place[0].startswith(tuple(BY_HAND))]
    assert left == []


def test_no_statement_is_prepared(ground: Ground) -> None:
    """A prepared statement may get a plan for any values, which knows nothing of what is due."""
    with connection.cursor() as cursor:
        assert connection.connection.prepare_threshold is None
        assert type(cursor.cursor).__mro__[1].__name__ != "ServerBindingCursor"


def test_no_statement_reads_what_is_not_due(ground: Ground, plans: list[Plan]) -> None:
    book = _Book(ground.admin)
    wrong = {f"{why}\n{plan.shape}\n{plan.places[:2]}" for plan in plans if (why := book.growing(plan)) and not _is_count(plan)}
    assert not wrong, "\n\n".join(sorted(wrong))


class _Book:
    """What is known of tables and indexes."""

    def __init__(self, admin: psycopg.Connection[tuple[object, ...]]) -> None:
        sizes = admin.execute("SELECT relname, reltuples::int FROM pg_class WHERE relkind = 'r'").fetchall()
        self._sizes = {str(name): int(str(count)) for name, count in sizes}
        indexes = admin.execute(
            "SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_class c"
            " JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relkind = 'i' GROUP BY 1"
        ).fetchall()
        self._columns: dict[str, list[str]] = {str(name): list(columns) for name, columns in indexes}  # type: ignore[call-overload]

    def growing(self, plan: Plan) -> str:
        """Say what of a plan grows with what is not due; empty for nothing."""
        for scan in plan.scans:
            size = self._sizes.get(scan.table, 0)
            if size >= BIG and (scan.kind == "Seq Scan" or scan.rows > FEW):
                return f"{scan.kind} on {scan.table} {scan.index}: {scan.rows} of {size} rows"
            if size >= BIG and (over := self._leapt_over(scan)):
                return f"{scan.kind} on {scan.table} {scan.index} goes over every {over}"
        if plan.pages > PAGES:
            return f"{plan.pages} pages"
        unaided = [table for table in plan.unaided if table not in TINY]
        return f"no index helps at {', '.join(unaided)}" if unaided else ""

    def _leapt_over(self, scan: Scan) -> str:
        """Return a column of the index that stands before one that is asked for, and is not asked for itself."""
        columns = self._columns.get(scan.index, [])
        asked = [bool(re.search(rf"\b{column}\b", scan.condition)) for column in columns]
        return next((columns[n] for n in range(len(columns)) if not asked[n] and any(asked[n:])), "")


def _is_count(plan: Plan) -> bool:
    return any(re.match(begin, plan.shape) for begin in COUNTS)
