"""One comparison of one installation: door by door, page by page, from where it stands.

One rule: a run may be killed between any two lines. A page that was read is a row, a door that was judged is behind
`after_device`, and the next process goes on after it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db.models import F

from devices import adapters, breaker, breaker_rules, call_counts
from devices.breaker_rules import Heard
from devices.selectors import DeviceFacts, InstallationFacts, installation, property_devices
from lockservice.core import clock, tenancy
from sagas.alerts import NewAlert, raise_alerts
from sagas.models import Finding, ReconcileRun
from sagas.reconcile import findings, judging, repair, sightings, turns, vanishing
from sagas.reconcile.asking import (
    DESK_OFFLINE,
    PAGES_MAX,
    UNKNOWN_VENDOR,
    AdapterBroken,
    DoorSilent,
    EndlessList,
    Inquiry,
    Leafing,
    OutOfTime,
    VendorSilent,
)
from sagas.reconcile.compare import Kind
from sagas.reconcile.turns import LeaseLost, Turn

log = structlog.get_logger(__name__)

Stop = Callable[[], bool]

DESK_AGAIN = timedelta(hours=1)
VANISHED, ENDLESS = "vanished", "endless_list"
_QUIET = frozenset({"inactive", "cannot_list", DESK_OFFLINE})

RUNS_KEPT = timedelta(days=90)
FINDINGS_KEPT = timedelta(days=365)
"""A closed finding may hold who decided about a key, and why: the class `audit`."""


@dataclass(slots=True)
class Report:
    """What a comparison came to. outcome: done; busy (another process is at it); paused (goes on later); or why it ended early:
    inactive, unknown_vendor, settings, cannot_list, desk_offline, breaker, quota, unreachable, internal_error, lost,
    endless_list (the vendor repeats its pages), vanished (too many keys at once are not told any more; nothing of them is
    given again). counts are the open findings by kind."""

    tenant_id: str
    installation_id: str
    vendor: str = ""
    label: str = ""
    outcome: str = "done"
    detail: str = ""
    run_id: int | None = None
    resumed: bool = False
    doors_count: int = 0
    doors_done_count: int = 0
    doors_failed: dict[str, str] = field(default_factory=dict)
    pages_count: int = 0
    keys_count: int = 0
    calls_count: int = 0
    in_flight_count: int = 0
    new_count: int = 0
    resolved_count: int = 0
    repairs_count: int = 0
    counts: dict[str, int] = field(default_factory=dict)


class _Ends(Exception):
    """The installation cannot be compared now. `outcome` and `detail` say why."""

    def __init__(self, outcome: str, detail: str = "") -> None:
        super().__init__(outcome)
        self.outcome, self.detail = outcome, detail


def never() -> bool:
    """A stop that never comes."""
    return False


def reconcile(
    tenant_id: str,
    installation_id: str,
    *,
    repairs: bool = False,
    ends_at: float | None = None,
    stop: Stop = never,
    pause: Callable[[float], None] = time.sleep,
) -> Report:
    """Compares an installation with its doors, going on with a run that was left, and writes findings; with `repairs` starts
    what the rules allow.

    `ends_at` (monotonic seconds) and `stop` pause it; it goes on another time. No transaction may be open. Raises
    devices.selectors.UnknownDevice.
    """
    report = Report(tenant_id, installation_id)
    with tenancy.tenant(tenant_id):
        facts = installation(tenant_id, installation_id)
    report.vendor = facts.vendor
    turn = turns.take(tenant_id, installation_id)
    if turn is None:
        report.outcome, report.detail = "busy", "another comparison of this installation is running"
        return report
    due_at = None
    try:
        _Comparison(turn, facts, report, Inquiry(None, ends_at, pause), stop).run(repairs=repairs)
        if report.outcome != "paused":
            with tenancy.tenant(tenant_id):
                due_at = turns.next_night(tenant_id, installation_id, report.calls_count)
                if report.outcome == DESK_OFFLINE:
                    due_at = turns.real_now() + DESK_AGAIN
        else:
            with tenancy.tenant(tenant_id):
                due_at = turns.real_now()  # at once, and behind all that were due before
    except LeaseLost:
        report.outcome, report.detail = "lost", "another process took this comparison over"
    finally:
        turns.give_back(turn, due_at)
    _say(report)
    return report


def work_due(max_s: float, only: Iterable[str] | None = None) -> list[Report]:
    """Compares the installations whose night it is, for about `max_s` seconds. Any number of processes may do so at once."""
    ends_at = time.monotonic() + max_s
    turns.plan_new()
    tried: set[tuple[str, str]] = set()
    reports = []
    names = sorted(only) if only is not None else None
    while time.monotonic() < ends_at and (found := turns.next_due(tried, names)) is not None:
        tried.add(found)
        reports.append(reconcile(*found, repairs=settings.RECONCILE_REPAIRS, ends_at=ends_at))
    return reports


class _Comparison:
    """A run at work."""

    def __init__(self, turn: Turn, facts: InstallationFacts, report: Report, inquiry: Inquiry, stop: Stop) -> None:
        self._turn, self._facts, self._report, self._inquiry, self._stop = turn, facts, report, inquiry, stop
        self._tenant_id = turn.tenant_id
        inquiry.keep = self._keep

    def run(self, *, repairs: bool) -> None:
        """Does the run, or the rest of it."""
        row, devices = self._open(repairs=repairs)
        try:
            self._require_ready()
            for device in devices:
                if device.id > row.after_device:
                    self._door(row, device, repairs=repairs or row.repairs)
            self._require_plausible(row, devices)
            if row.repairs:
                self._repair_left(row)
            self._close(row, "done", "done")
        except OutOfTime:
            self._report.outcome = "paused"
        except _Ends as ending:
            self._close(row, "failed", ending.outcome, ending.detail)
        self._tell(row)

    def _open(self, *, repairs: bool) -> tuple[ReconcileRun, list[DeviceFacts]]:
        """Finds the run that was left, or starts one."""
        with tenancy.tenant(self._tenant_id):
            turns.renew(self._turn)
            devices = [
                d for d in property_devices(self._tenant_id, self._facts.property_id) if d.installation_id == self._facts.id
            ]
            mine = ReconcileRun.objects.filter(tenant_id=self._tenant_id, installation_id=self._facts.id, status="running")
            row = mine.first()
            self._report.resumed = row is not None
            if row is None:
                row = ReconcileRun(
                    tenant_id=self._tenant_id,
                    property_id=self._facts.property_id,
                    installation_id=self._facts.id,
                    vendor=self._facts.vendor,
                    started_at=clock.now(),
                )
            row.repairs = row.repairs or repairs
            row.doors_count = len(devices)
            row.save()
        return row, sorted(devices, key=lambda device: device.id)

    def _require_ready(self) -> None:
        """Builds the adapter. Raises _Ends where the vendor may or can not be asked."""
        with tenancy.tenant(self._tenant_id):
            adapters.vendor_clock().observe(clock.now())
            if not self._facts.active:
                raise _Ends("inactive")
            if not adapters.is_known(self._facts.vendor):
                raise _Ends(UNKNOWN_VENDOR, f"no vendor {self._facts.vendor} is known here")
            try:
                self._inquiry.port = adapters.port_of(self._tenant_id, self._facts)
            except ValueError as error:
                raise _Ends("settings", str(error)) from error
        try:
            can_list = self._inquiry.can_list
        except VendorSilent as silent:
            raise _Ends(silent.outcome, silent.detail) from silent
        except AdapterBroken as broken:
            raise _Ends("internal_error", str(broken)) from broken
        if not can_list:
            raise _Ends("cannot_list", "this vendor's protocol has no question for the keys at a door")

    def _door(self, row: ReconcileRun, device: DeviceFacts, *, repairs: bool) -> None:
        """Reads and judges one door. Raises OutOfTime, LeaseLost, _Ends."""
        if self._stop():
            raise OutOfTime
        self._require_open()
        with adapters.tally() as tally:
            try:
                self._read(row, device)
                seen = self._seen(row, device)
                suspicion = judging.suspect(self._inquiry, self._tenant_id, device, seen)
            except DoorSilent as silent:
                self._skip(row, device, silent)
                return
            except VendorSilent as silent:
                raise _Ends(silent.outcome, f"{silent.detail} at {device.label}") from silent
            except EndlessList as endless:
                raise _Ends(ENDLESS, f"{endless} at {device.label}") from endless
            except AdapterBroken as broken:
                raise _Ends("internal_error", str(broken)) from broken
            finally:
                self._account(row, tally.calls)
        self._write(row, device, suspicion, seen, repairs=repairs)

    def _require_open(self) -> None:
        with tenancy.tenant(self._tenant_id):
            now = clock.now()
            adapters.vendor_clock().observe(now)
            if self._facts.id in breaker.standing(self._tenant_id):
                raise _Ends("breaker", "the vendor leaves calls unanswered")
            limit = self._facts.calls_per_month or adapters.manifest(self._facts.vendor).calls_per_month
            if call_counts.is_spent(self._tenant_id, self._facts, limit, now):
                raise _Ends("quota", f"{limit} calls of this month are used up")

    def _require_plausible(self, row: ReconcileRun, devices: Iterable[DeviceFacts]) -> None:
        """Raises _Ends where so many keys are missing at once that the vendor is in doubt."""
        labels = {d.id: d.label for d in devices if d.label not in row.doors_failed}
        with tenancy.tenant(self._tenant_id):
            doubt = vanishing.doubt(self._tenant_id, labels, vanishing.missing_in(self._tenant_id, row.pk))
        if doubt:
            raise _Ends(VANISHED, doubt)

    def _read(self, row: ReconcileRun, device: DeviceFacts) -> None:
        """Reads the door's list from the page where it stands; each page is a transaction. Raises EndlessList."""
        leafing = Leafing()
        if row.device_id != device.id:
            row.device_id, row.cursor = device.id, ""
        while row.cursor is not None:
            page = self._inquiry.page(device.door(), row.cursor or None)
            with tenancy.tenant(self._tenant_id):
                turns.renew(self._turn)
                keys = [sightings.sighted(self._tenant_id, device.id, key) for key in page.keys]
                new_count = sightings.keep(self._tenant_id, row.pk, device.id, keys)
                cursor, row.cursor = row.cursor, page.next_cursor
                row.pages_count += 1
                row.keys_count += len(keys)
                row.save()
            leafing.turn(len(keys), new_count, cursor, page.next_cursor)
            if row.cursor is not None and row.pages_count > PAGES_MAX * (1 + row.doors_done_count):
                raise EndlessList("its pages have no end")
            if self._stop():
                raise OutOfTime

    def _seen(self, row: ReconcileRun, device: DeviceFacts) -> list[sightings.Sighting]:
        with tenancy.tenant(self._tenant_id):
            return sightings.kept(self._tenant_id, row.pk, device.id)

    def _write(
        self,
        row: ReconcileRun,
        device: DeviceFacts,
        suspicion: judging.Suspicion,
        seen: list[sightings.Sighting],
        *,
        repairs: bool,
    ) -> None:
        """Writes what is confirmed and steps on, in one transaction; then repairs, each in its own. What is missing waits for
        the run's end: until then nobody knows whether the vendor has lost sight of all."""
        with tenancy.tenant(self._tenant_id):
            turns.renew(self._turn)
            now = clock.now()
            differences, in_flight_count = judging.confirmed(self._tenant_id, device, suspicion)
            written = findings.write(self._tenant_id, row.pk, device, differences, seen, now)
            sightings.forget(self._tenant_id, row.pk, device.id)
            row.after_device, row.device_id, row.cursor = device.id, "", ""
            row.doors_done_count += 1
            row.in_flight_count += in_flight_count
            row.new_count += len(written.new_kinds)
            row.resolved_count += written.resolved_count
            row.counts = dict(Counter(row.counts) + Counter(kind.value for kind in written.new_kinds))
            row.save()
        if repairs:
            with tenancy.tenant(self._tenant_id):
                seen_there = Finding.objects.filter(tenant_id=self._tenant_id, id__in=written.open_ids)
                ids = list(seen_there.exclude(kind=Kind.MISSING).order_by("id").values_list("id", flat=True))
            self._repair(row, ids)

    def _repair_left(self, row: ReconcileRun) -> None:
        """Starts what waited for the run's end, and what a process that died between finding and repairing left undone."""
        with tenancy.tenant(self._tenant_id):
            left = Finding.objects.filter(tenant_id=self._tenant_id, run_id=row.pk, status=findings.OPEN)
            left = left.exclude(repair_asked_at__gte=row.started_at)
            ids = list(left.order_by("id").values_list("id", flat=True))
        self._repair(row, ids)

    def _repair(self, row: ReconcileRun, finding_ids: Iterable[int]) -> None:
        for finding_id in finding_ids:
            if repair.repair(self._tenant_id, finding_id).is_asked:
                row.repairs_count += 1
                self._count_repair(row)

    def _count_repair(self, row: ReconcileRun) -> None:
        with tenancy.tenant(self._tenant_id):
            turns.renew(self._turn)
            rows = ReconcileRun.objects.filter(tenant_id=self._tenant_id, pk=row.pk)
            rows.update(repairs_count=F("repairs_count") + 1)

    def _skip(self, row: ReconcileRun, device: DeviceFacts, silent: DoorSilent) -> None:
        """Leaves a door out that does not answer; its findings stay as they are."""
        with tenancy.tenant(self._tenant_id):
            turns.renew(self._turn)
            sightings.forget(self._tenant_id, row.pk, device.id)
            row.doors_failed = {**row.doors_failed, device.label: silent.error.code.rsplit(".", 1)[-1]}
            row.after_device, row.device_id, row.cursor = device.id, "", ""
            row.save()

    def _account(self, row: ReconcileRun, calls_count: int) -> None:
        """Counts the calls, and tells the breaker whether the vendor answered."""
        heard = [breaker_rules.heard(self._facts.id, "", None, error) for error in self._inquiry.errors]
        said = [Heard(self._facts.id, "", answered=True)] * self._inquiry.answered_count + [item for item in heard if item]
        self._inquiry.errors.clear()
        self._inquiry.answered_count = 0
        with tenancy.tenant(self._tenant_id):
            now = clock.now()
            row.calls_count += calls_count
            ReconcileRun.objects.filter(tenant_id=self._tenant_id, pk=row.pk).update(calls_count=row.calls_count)
            call_counts.add(self._tenant_id, {self._facts.id: call_counts.Counted(calls=calls_count)}, now)
            breaker.note(self._tenant_id, said, now, turns.real_now(), settings.RETRY_SCALE)

    def _close(self, row: ReconcileRun, status: str, outcome: str, detail: str = "") -> None:
        """Ends the run, and says what a person must know."""
        self._report.outcome = outcome
        with tenancy.tenant(self._tenant_id):
            turns.renew(self._turn)
            now = clock.now()
            row.status, row.outcome, row.detail, row.finished_at = status, outcome, detail[:300], now
            sightings.forget(self._tenant_id, row.pk)
            self._close_retired(row, now)
            self._forget_old(now)
            row.save()
            strangers_count = int(row.counts.get(Kind.STRANGER, 0))
            if strangers_count:
                findings.tell_of_strangers(self._tenant_id, row.property_id, row.installation_id, row.pk, strangers_count, now)
            if status == "failed" and outcome not in _QUIET:
                code, severity = ("KEYS_VANISHED", "critical") if outcome == VANISHED else ("RECONCILE_FAILED", "warning")
                alert = NewAlert(
                    f"reconcile:{row.installation_id}:{row.pk}", code, severity,
                    f"{row.vendor} was not compared to its end: {outcome} {detail}", findings.RUNBOOK, row.property_id,
                )  # fmt: skip
                raise_alerts(self._tenant_id, [alert], now)

    def _close_retired(self, row: ReconcileRun, now: datetime) -> None:
        """Closes the findings of locks that are no longer in use: nobody compares them any more."""
        here = {d.id for d in property_devices(self._tenant_id, row.property_id) if d.installation_id == row.installation_id}
        left = Finding.objects.filter(tenant_id=self._tenant_id, installation_id=row.installation_id)
        for finding in left.exclude(status=findings.RESOLVED).exclude(device_id__in=here).order_by("id"):
            findings.resolve(finding, "retired", now)
            row.resolved_count += 1

    def _forget_old(self, now: datetime) -> None:
        """Drops runs of three months ago, and findings that were closed a year ago."""
        mine = {"tenant_id": self._tenant_id, "installation_id": self._facts.id}
        ReconcileRun.objects.filter(**mine, started_at__lt=now - RUNS_KEPT).exclude(status="running").delete()
        Finding.objects.filter(**mine, status=findings.RESOLVED, resolved_at__lt=now - FINDINGS_KEPT).delete()

    def _keep(self) -> None:
        with tenancy.tenant(self._tenant_id):
            turns.renew(self._turn)

    def _tell(self, row: ReconcileRun) -> None:
        """Fills the report from the run's row and the findings that are open now."""
        report = self._report
        report.run_id, report.detail = row.pk, row.detail
        for name in (
            "doors_count", "doors_done_count", "doors_failed", "pages_count", "keys_count", "calls_count", "in_flight_count",
            "new_count", "resolved_count", "repairs_count",
        ):  # fmt: skip
            setattr(report, name, getattr(row, name))
        with tenancy.tenant(self._tenant_id):
            kinds = Finding.objects.filter(
                tenant_id=self._tenant_id, installation_id=self._facts.id, status=findings.OPEN
            ).values_list("kind", flat=True)
            report.counts = dict(sorted(Counter(kinds).items()))


def _say(report: Report) -> None:
    log.info(
        "reconcile.done", installation=report.installation_id, outcome=report.outcome, doors=report.doors_done_count,
        keys=report.keys_count, calls=report.calls_count, new=report.new_count, resolved=report.resolved_count,
        repairs=report.repairs_count, open=report.counts,
    )  # fmt: skip
