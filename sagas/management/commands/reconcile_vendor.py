"""`manage.py reconcile_vendor`: our books against what the vendors' doors hold.

    reconcile_vendor                                 compares those whose night it is, as beat does
    reconcile_vendor TENANT INSTALLATION             compares one now (all active ones of the tenant without INSTALLATION)
        --dry-run | --repair | --list                writes nothing | repairs by rule | shows the findings, asks nobody
        --json | --csv                               for programs
    reconcile_vendor TENANT INSTALLATION --give-missing-again --actor WHO --why TEXT
                                                     a person confirms that keys which vanished at once are gone
    reconcile_vendor TENANT --finding ID (--adopt STAY | --known | --remove | --repair) --actor WHO --why TEXT

It may be interrupted at any point and run again: it goes on where it was. Status 1: an installation was not compared to its
end.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices.models import VendorInstallation
from devices.selectors import UnknownDevice, installation
from lockservice.core import tenancy, wake
from sagas import reconcile_acts
from sagas.acts import Actor, Refused
from sagas.reconcile import preview, report, run
from sagas.reconcile.report import Line
from sagas.reconcile.run import Report
from sagas.reconcile_acts import Decision
from sagas.tasks import stop_on_signals

WELL = frozenset({"done", "busy", "paused", "cannot_list", "desk_offline", "inactive"})
SLICE_S = 3600.0
RUN_SUMMARY_LINES = 2
"""What `report.as_text` says of the run, before its findings."""

Told = list[tuple[Report, list[Line]]]


class Command(BaseCommand):
    help = "Compares our books with what the vendors' doors hold."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", nargs="?", help="the tenant's id")
        parser.add_argument("installation", nargs="?", help="the installation's id")
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--dry-run", action="store_true", help="read only: no finding, no alert, no repair")
        how.add_argument("--list", action="store_true", help="show the findings and ask nobody")
        parser.add_argument("--repair", action="store_true", help="start what the rules allow")
        parser.add_argument("--rules", action="store_true", help="print what --repair does about each kind")
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true")
        form.add_argument("--csv", action="store_true")
        parser.add_argument("--finding", type=int, metavar="ID", help="decide about one finding")
        parser.add_argument("--give-missing-again", action="store_true", help="what is missing is gone indeed: give it again")
        decision = parser.add_mutually_exclusive_group()
        decision.add_argument("--adopt", metavar="STAY", help="it is a key of this reservation")
        decision.add_argument("--known", action="store_true", help="it is known and stays")
        decision.add_argument("--remove", action="store_true", help="take it from the door")
        parser.add_argument("--actor", help="who decides: a user's id")
        parser.add_argument("--why", default="", help="why; kept with the decision")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Decides, lists, or compares."""
        if options["rules"]:
            self.stdout.write(report.rules())
            return
        if options["finding"] is not None or options["give_missing_again"]:
            self._decide(options)
            return
        if options["list"]:
            self._list(options)
            return
        told = self._compare(options)
        self._print(told, options)
        late = [item.installation_id for item, _ in told if item.outcome not in WELL]
        if late:
            raise CommandError(f"not compared to the end: {', '.join(late)}")

    def _list(self, options: dict[str, Any]) -> None:
        """Prints the findings and nothing else: nobody was asked, so there is no run to tell of."""
        tenant_id = options["tenant"]
        if not tenant_id:
            raise CommandError("name the tenant")
        told = [_listed(tenant_id, installation_id) for installation_id in _installations(tenant_id, options["installation"])]
        if options["csv"]:
            report.write_csv(told, self.stdout)  # type: ignore[arg-type]
        elif options["json"]:
            found = [
                {
                    "tenant_id": item.tenant_id, "installation_id": item.installation_id, "vendor": item.vendor,
                    "findings": [asdict(line) for line in lines],
                }
                for item, lines in told
            ]  # fmt: skip
            self.stdout.write(json.dumps(found, indent=2))
        else:
            for item, lines in told:
                findings = report.as_text(item, lines).splitlines()[RUN_SUMMARY_LINES:]
                self.stdout.write("\n".join([f"{item.installation_id} ({item.vendor})", *findings]))
                self._say_zone(lines)

    def _compare(self, options: dict[str, Any]) -> Told:
        tenant_id = options["tenant"]
        if not tenant_id:
            if options["dry_run"] or options["repair"]:
                raise CommandError("name the tenant")
            found = run.work_due(SLICE_S)
            return [(item, _lines(item)) for item in found]
        told: Told = []
        stop = stop_on_signals()
        for installation_id in _installations(tenant_id, options["installation"]):
            if stop():
                break
            try:
                told.append(_one(tenant_id, installation_id, options, stop))
            except UnknownDevice as error:
                raise CommandError("no such installation in this tenant") from error
        return told

    def _print(self, told: Told, options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(report.as_json(told))
        elif options["csv"]:
            report.write_csv(told, self.stdout)  # type: ignore[arg-type]
        else:
            for item, lines in told:
                self.stdout.write(report.as_text(item, lines))
                self._say_zone(lines)
            if not told:
                self.stdout.write("nothing is due")

    def _say_zone(self, lines: list[Line]) -> None:
        if any(line.foundFrom or line.foundUntil for line in lines):
            self.stdout.write("  times are UTC")

    def _decide(self, options: dict[str, Any]) -> None:
        tenant_id, finding_id = options["tenant"], options["finding"]
        if not tenant_id or not options["actor"]:
            raise CommandError("a decision needs the tenant, --actor and --why")
        decision = Decision(Actor(options["actor"]), options["why"])
        try:
            if options["give_missing_again"]:
                said = _given_again(tenant_id, options["installation"], decision)
            else:
                said = _decided(tenant_id, finding_id, options, decision)
        except Refused as refused:
            raise CommandError(f"{refused.code}: {refused.detail}") from refused
        wake.hint("sagas.drain", "saga")
        self.stdout.write(said)


def _one(tenant_id: str, installation_id: str, options: dict[str, Any], stop: run.Stop) -> tuple[Report, list[Line]]:
    if options["dry_run"]:
        return preview.preview(tenant_id, installation_id)
    ends_at = time.monotonic() + SLICE_S
    item = run.reconcile(tenant_id, installation_id, repairs=options["repair"], ends_at=ends_at, stop=stop)
    if item.repairs_count:
        wake.hint("sagas.drain", "saga")
    return item, _lines(item)


def _listed(tenant_id: str, installation_id: str) -> tuple[Report, list[Line]]:
    with tenancy.tenant(tenant_id):
        try:
            vendor = installation(tenant_id, installation_id).vendor
        except UnknownDevice as error:
            raise CommandError("no such installation in this tenant") from error
    item = Report(tenant_id, installation_id, vendor=vendor, outcome="listed")
    return item, _lines(item)


def _lines(item: Report) -> list[Line]:
    with tenancy.tenant(item.tenant_id):
        return report.lines_of(item.tenant_id, item.installation_id)


def _installations(tenant_id: str, installation_id: str | None) -> list[str]:
    if installation_id:
        return [installation_id]
    with tenancy.tenant(tenant_id):
        rows = VendorInstallation.objects.filter(tenant_id=tenant_id, active=True).order_by("id")
        return list(rows.values_list("id", flat=True))


def _given_again(tenant_id: str, installation_id: str | None, decision: Decision) -> str:
    if installation_id not in _installations(tenant_id, None):
        raise CommandError("no such installation in this tenant")
    count = reconcile_acts.give_missing_again(tenant_id, str(installation_id), decision)
    return f"{count} keys are given again\n"


def _decided(tenant_id: str, finding_id: int, options: dict[str, Any], decision: Decision) -> str:
    if options["adopt"]:
        act = reconcile_acts.adopt(tenant_id, finding_id, options["adopt"], decision)
        return f"adopted as {act.credential_id}"
    if options["known"]:
        reconcile_acts.know(tenant_id, finding_id, decision)
        return "known from now on"
    if options["remove"]:
        act = reconcile_acts.remove(tenant_id, finding_id, decision)
        return f"its removal is under way as {act.credential_id}"
    if options["repair"]:
        reconcile_acts.repair_now(tenant_id, finding_id, decision)
        return "its repair is under way"
    raise CommandError("say what to do with the finding: --adopt STAY, --known, --remove or --repair")
