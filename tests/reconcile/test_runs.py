"""A comparison goes on where it was, is made by one process at a time, and ends with a clear word where a vendor is silent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connections
from django.db.models import F

from devices import selectors
from devices.call_counts import month_of
from devices.models import CallCount, LockDevice, VendorInstallation
from lockservice.core.tenancy import tenant
from sagas.models import Finding, KeySighting, ReconcileRun, ReconcileTurn
from sagas.reconcile import turns
from sagas.reconcile.preview import preview
from sagas.reconcile.run import reconcile, work_due
from tests.flows.conftest import keys, make_hotel, pin_of
from tests.reconcile.conftest import Hands, alert_codes, book, found, look, settle
from tests.support.hotel import Hotel, build_hotel, point
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

ROOMS = ("101", "102", "103")


def plant_many(hotel: Hotel, locks: MockLocks, label: str, count: int) -> None:
    hands = Hands(locks, hotel)
    for number in range(count):
        hands.plant(label, str(100_000 + number), name=f"code {number}")


def run_row(hotel: Hotel) -> ReconcileRun:
    with tenant(hotel.tenant_id):
        return ReconcileRun.objects.filter(tenant_id=hotel.tenant_id).latest("id")


def expire_lease(hotel: Hotel) -> None:
    """Lets the lease of a process that died run out, as ninety seconds would."""
    with tenant(hotel.tenant_id):
        past = datetime.now(UTC) - timedelta(seconds=1)
        assert ReconcileTurn.objects.filter(tenant_id=hotel.tenant_id).update(lease_until=past) == 1


def readdress(hotel: Hotel, locks: MockLocks, query: str) -> None:
    """Gives the hotel's installation other failures from now on."""
    point(hotel, f"{locks.setting}?{query}")


def lists(hotel: Hotel, locks: MockLocks) -> int:
    """How often a list of keys was asked for."""
    return len([call for call in locks.calls(*hotel.doors.values()) if call["verb"] == "inventory"])


def test_a_thousand_keys_over_pages_are_all_compared(hotel: Hotel, locks: MockLocks) -> None:
    plant_many(hotel, locks, "101", 1000)
    book(hotel, "102")
    report = look(hotel)
    assert (report.outcome, report.pages_count, report.keys_count) == ("done", 12, 1001)
    assert report.counts == {"stranger": 1000}
    assert alert_codes(hotel) == ["UNKNOWN_KEYS_FOUND"]
    again = look(hotel)
    assert (again.new_count, again.resolved_count, again.counts) == (0, 0, {"stranger": 1000})


def test_a_paused_comparison_goes_on_in_the_middle_of_a_door(hotel: Hotel, locks: MockLocks) -> None:
    first = min(hotel.devices, key=lambda label: hotel.devices[label])
    plant_many(hotel, locks, first, 250)
    pages = 0

    def stop() -> bool:
        nonlocal pages
        pages = run_row(hotel).pages_count
        return pages == 2

    report = look(hotel, stop=stop)
    assert (report.outcome, report.pages_count, report.doors_done_count) == ("paused", 2, 0)
    assert found(hotel) == []
    asked = lists(hotel, locks)
    report = look(hotel)
    assert (report.outcome, report.resumed, report.pages_count, report.keys_count) == ("done", True, 5, 250)
    assert report.counts == {"stranger": 250}
    assert lists(hotel, locks) - asked == 3  # the last page of the first door, and one of each other


def test_a_killed_command_is_gone_on_with_by_the_next(hotel: Hotel, locks: MockLocks) -> None:
    first = min(hotel.devices, key=lambda label: hotel.devices[label])
    plant_many(hotel, locks, first, 350)
    readdress(hotel, locks, "latencyMs=150")
    command = [sys.executable, "manage.py", "reconcile_vendor", hotel.tenant_id, hotel.installation_id]
    process = subprocess.Popen(command, env={**os.environ, "LOCK_DB_NAME": _database()}, stdout=subprocess.DEVNULL)
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        with tenant(hotel.tenant_id):
            row = ReconcileRun.objects.filter(tenant_id=hotel.tenant_id).first()
        if row is not None and row.pages_count >= 2:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = run_row(hotel)
    assert (before.status, before.doors_done_count) == ("running", 0)
    assert before.pages_count in (2, 3, 4)
    busy = look(hotel)
    assert busy.outcome == "busy"
    expire_lease(hotel)
    readdress(hotel, locks, "")
    report = look(hotel)
    assert (report.outcome, report.resumed, report.run_id) == ("done", True, before.pk)
    assert (report.pages_count, report.keys_count, report.counts) == (6, 350, {"stranger": 350})
    with tenant(hotel.tenant_id):
        assert KeySighting.objects.filter(tenant_id=hotel.tenant_id).count() == 0


def test_repairs_that_a_killed_process_had_not_started_are_started_by_the_next(
    hotel: Hotel, locks: MockLocks, hands: Hands
) -> None:
    first = min(hotel.devices, key=lambda label: hotel.devices[label])
    book(hotel, first)
    hands.drop(first)
    look(hotel, stop=lambda: run_row(hotel).doors_done_count == 1)  # found; then as if killed before a repair
    assert [row.repair_asked_at for row in found(hotel)] == [None]
    report = look(hotel, repairs=True)
    assert (report.resumed, report.repairs_count) == (True, 1)
    settle(hotel)
    assert locks.opens(hotel.doors[first], pin_of(hotel, keys(hotel)[0]))


def test_of_two_at_once_one_works_and_the_other_says_so(hotel: Hotel, locks: MockLocks) -> None:
    plant_many(hotel, locks, "101", 30)
    readdress(hotel, locks, "latencyMs=100")
    reports = []

    def work() -> None:
        try:
            reports.append(look(hotel))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(report.outcome for report in reports) == ["busy", "done"]
    assert len(found(hotel)) == 30
    with tenant(hotel.tenant_id):
        assert ReconcileRun.objects.filter(tenant_id=hotel.tenant_id).count() == 1


def test_who_lost_the_lease_writes_nothing_more(hotel: Hotel, locks: MockLocks) -> None:
    plant_many(hotel, locks, "101", 3)
    stolen = []

    def stop() -> bool:
        if not stolen:
            expire_lease(hotel)
            stolen.append(turns.take(hotel.tenant_id, hotel.installation_id))
        return False

    report = look(hotel, stop=stop)
    assert report.outcome == "lost"
    assert found(hotel) == []
    assert stolen[0] is not None
    turns.give_back(stolen[0])
    assert look(hotel).counts == {"stranger": 3}


def _due(*hotels: Hotel) -> None:
    """Gives each hotel's installation a turn that is due, the first one's for longest."""
    for hours, hotel in enumerate(reversed(hotels), start=1):
        with tenant(hotel.tenant_id):
            ReconcileTurn.objects.create(
                tenant_id=hotel.tenant_id,
                installation_id=hotel.installation_id,
                due_at=datetime.now(UTC) - timedelta(hours=hours),
            )


def test_a_dead_vendor_ends_its_own_comparison_and_no_other(database: str, locks: MockLocks) -> None:
    dead = build_hotel(vendor="mock", settings={"url": "mock://127.0.0.1:9", "timeout_s": 1}, rooms={"1": new_id("lck")})
    alive = make_hotel(locks, shared={})
    Hands(locks, alive).plant("101")
    _due(dead, alive)
    reports = work_due(60, only=[dead.installation_id, alive.installation_id])
    assert [(r.installation_id, r.outcome) for r in reports] == [
        (dead.installation_id, "unreachable"),
        (alive.installation_id, "done"),
    ]
    assert reports[0].detail.startswith("VENDOR_UNREACHABLE")
    assert alert_codes(dead) == ["RECONCILE_FAILED"]
    assert reports[1].counts == {"stranger": 1}
    assert run_row(dead).status == "failed"


def test_settings_that_open_nothing_end_their_own_comparison_and_no_other(database: str, locks: MockLocks) -> None:
    wrong = build_hotel(vendor="mock", settings={"url": "nonsense"}, rooms={"1": new_id("lck")})
    alive = make_hotel(locks, shared={})
    _due(wrong, alive)
    reports = work_due(60, only=[wrong.installation_id, alive.installation_id])
    assert [(r.installation_id, r.outcome) for r in reports] == [
        (wrong.installation_id, "settings"),
        (alive.installation_id, "done"),
    ]
    assert (alert_codes(wrong), run_row(wrong).status) == (["RECONCILE_FAILED"], "failed")
    shown = preview(wrong.tenant_id, wrong.installation_id)[0]
    assert (shown.outcome, shown.detail) == ("settings", run_row(wrong).detail)
    assert shown.detail.startswith("settings: ")


def test_an_installation_whose_vendor_is_gone_ends_its_own_comparison_and_no_other(database: str, locks: MockLocks) -> None:
    orphan, alive = make_hotel(locks, shared={}), make_hotel(locks, shared={})
    with tenant(orphan.tenant_id):
        VendorInstallation.objects.filter(tenant_id=orphan.tenant_id).update(vendor="bygone", version=F("version") + 1)
    selectors.forget()
    _due(orphan, alive)
    reports = work_due(60, only=[orphan.installation_id, alive.installation_id])
    assert [(r.installation_id, r.outcome) for r in reports] == [
        (orphan.installation_id, "unknown_vendor"),
        (alive.installation_id, "done"),
    ]
    said = "no vendor bygone is known here"
    assert (alert_codes(orphan), run_row(orphan).status, run_row(orphan).detail) == (["RECONCILE_FAILED"], "failed", said)
    shown = preview(orphan.tenant_id, orphan.installation_id)[0]
    assert (shown.outcome, shown.detail) == ("unknown_vendor", said)


def test_a_dead_door_is_left_out_and_its_findings_stay(database: str, locks: MockLocks) -> None:
    hotel = make_hotel(locks, shared={})
    Hands(locks, hotel).plant("101")
    assert look(hotel).counts == {"stranger": 1}
    readdress(hotel, locks, f"deadDoors={hotel.doors['101']}")
    report = look(hotel)
    assert (report.outcome, report.doors_done_count, report.doors_failed) == ("done", 2, {"101": "VENDOR_UNREACHABLE"})
    assert report.counts == {"stranger": 1}


def hotel_of_many_doors(locks: MockLocks) -> Hotel:
    """Each door costs a call; a minute allows 120, 24 of them at once, a fifth of those kept for security."""
    rooms = {label: new_id("lck") for label in map(str, range(101, 126))}
    return make_hotel(locks, shared={}, rooms=rooms, calls_per_minute=120)


def test_the_rate_limit_is_kept_by_waiting(database: str, locks: MockLocks) -> None:
    hotel = hotel_of_many_doors(locks)
    waits: list[float] = []
    started = time.monotonic()

    def pause(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(seconds)

    report = look(hotel, pause=pause)
    took_s = time.monotonic() - started
    assert (report.outcome, report.calls_count, report.pages_count) == ("done", 25, 25)
    assert waits or took_s > 3.5  # a machine so slow never comes to the end of what is free
    assert report.calls_count <= 24 * 0.8 + took_s * 1.6 + 1
    with tenant(hotel.tenant_id):
        assert CallCount.objects.get(tenant_id=hotel.tenant_id).calls == 25


def test_a_slice_that_ends_while_waiting_is_continued(database: str, locks: MockLocks) -> None:
    hotel = hotel_of_many_doors(locks)
    outcomes = []
    while not outcomes or outcomes[-1] != "done":
        if outcomes:
            time.sleep(1)  # as beat does, which comes again after a while
        report = reconcile(hotel.tenant_id, hotel.installation_id, ends_at=time.monotonic() + 0.5)
        outcomes.append(report.outcome)
        assert len(outcomes) < 100
    assert outcomes[0] == "paused"
    assert (report.pages_count, report.doors_done_count, report.calls_count) == (25, 25, 25)


def test_a_spent_quota_ends_it_before_the_vendor_is_asked(database: str, locks: MockLocks) -> None:
    hotel = make_hotel(locks, shared={}, calls_per_month=30)
    with tenant(hotel.tenant_id):
        month = month_of(datetime.now(UTC), "mock")
        CallCount.objects.create(tenant_id=hotel.tenant_id, installation_id=hotel.installation_id, month=month, calls=30)
    report = look(hotel)
    assert (report.outcome, report.calls_count) == ("quota", 0)
    assert lists(hotel, locks) == 0
    assert alert_codes(hotel) == ["RECONCILE_FAILED"]


def test_a_vendor_that_lists_nothing_is_said_to(database: str) -> None:
    hotel = build_hotel(
        vendor="salto",
        settings={"transport": "pms", "pms_address": "127.0.0.1:9", "time_zone": "Asia/Kabul", "encoder": "1"},
        rooms={"101": "101"},
    )
    report = look(hotel)
    assert (report.outcome, report.calls_count) == ("cannot_list", 0)
    assert alert_codes(hotel) == []


def test_without_a_desk_what_only_a_desk_can_read_is_read_later(database: str) -> None:
    hotel = build_hotel(vendor="generic-wiegand", settings={"locks": "controller"}, rooms={"101": "301"})
    report = look(hotel)
    assert (report.outcome, report.doors_done_count) == ("desk_offline", 0)
    assert alert_codes(hotel) == []
    with tenant(hotel.tenant_id):
        row = ReconcileTurn.objects.get(tenant_id=hotel.tenant_id)
    assert timedelta(minutes=50) < row.due_at - datetime.now(UTC) <= timedelta(hours=1)


def test_keys_given_and_taken_while_a_door_is_read_are_no_findings(hotel: Hotel, locks: MockLocks) -> None:
    old = book(hotel, "101")

    def meanwhile() -> bool:
        """Between two doors' first page and their judgement the guest leaves and the next one gets her key."""
        if run_row(hotel).pages_count == 1 and not fresh:
            hotel.tell("booking.checked_out", hotel.booking(old, 2, ["101"], status="checked_out"))
            settle(hotel)
            fresh.append(book(hotel, "101"))
        return False

    fresh: list[str] = []
    with tenant(hotel.tenant_id):  # 101 is read first
        row = LockDevice.objects.get(tenant_id=hotel.tenant_id, id=hotel.devices["101"])
        others = LockDevice.objects.filter(tenant_id=hotel.tenant_id).exclude(id=row.id)
        others.update(active=False)
    selectors.forget()
    report = look(hotel, repairs=True, stop=meanwhile)
    assert (report.outcome, report.counts, report.repairs_count) == ("done", {}, 0)
    assert len(fresh) == 1
    (present,) = locks.keys_at(hotel.doors["101"])
    assert present["value"] == pin_of(hotel, keys(hotel, fresh[0])[0])
    assert alert_codes(hotel) == []


def test_the_night_of_a_house_is_between_one_and_five_by_its_own_clock(hotel: Hotel) -> None:
    with tenant(hotel.tenant_id):
        dues = [turns.next_night(hotel.tenant_id, hotel.installation_id)]
    local = [due.astimezone(ZoneInfo("Asia/Kabul")) for due in dues]
    assert [1 <= due.hour < 5 for due in local] == [True]
    look(hotel)
    with tenant(hotel.tenant_id):
        row = ReconcileTurn.objects.get(tenant_id=hotel.tenant_id)
    assert (row.due_at, row.owner, row.lease_until) == (dues[0], "", None)


def test_every_installation_gets_its_night(hotel: Hotel) -> None:
    while turns.plan_new():  # two hundred at a time, and other tests' installations come first
        pass
    with tenant(hotel.tenant_id):
        row = ReconcileTurn.objects.get(tenant_id=hotel.tenant_id, installation_id=hotel.installation_id)
        assert row.due_at > datetime.now(UTC)
        assert Finding.objects.filter(tenant_id=hotel.tenant_id).count() == 0
    assert work_due(5, only=[hotel.installation_id]) == []


def _database() -> str:
    return str(settings.DATABASES["default"]["NAME"])
