"""`manage.py poll_health`: asks vendors how their locks are; without arguments those installations that are due.

With TENANT and INSTALLATION it polls that one now and looks at every lock live. `--history DEVICE` prints a lock's readings of
the last 90 days as CSV, to plot.
"""

from __future__ import annotations

import csv
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices import health, health_poll
from devices.health_poll import Report
from devices.selectors import UnknownDevice
from lockservice.core import clock, tenancy


class Command(BaseCommand):
    help = "Asks vendors how their locks are."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", nargs="?", help="the tenant's id")
        parser.add_argument("installation", nargs="?", help="the installation's id")
        parser.add_argument("--history", metavar="DEVICE", help="print a lock's readings as CSV and ask nobody (needs TENANT)")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Polls, or prints."""
        tenant_id, installation_id = options["tenant"], options["installation"]
        if options["history"]:
            if not tenant_id:
                raise CommandError("--history needs the tenant")
            self._print_history(tenant_id, options["history"])
            return
        if tenant_id and not installation_id:
            raise CommandError("name the installation, or nothing at all")
        if not tenant_id:
            reports = health_poll.poll_due()
        else:
            try:
                reports = [health_poll.poll(tenant_id, installation_id, checks=health_poll.ALL)]
            except UnknownDevice as error:
                raise CommandError("no such installation in this tenant") from error
        for report in reports:
            self.stdout.write(_line(report))
        if not reports:
            self.stdout.write("nothing is due")

    def _print_history(self, tenant_id: str, device_id: str) -> None:
        with tenancy.tenant(tenant_id):
            now = clock.now()
            rows = health.history(tenant_id, device_id, now - health.KEPT, now + timedelta(seconds=1))
        out = csv.writer(self.stdout, lineterminator="\n")
        out.writerow(["at", "source", "online", "batteryPercent", "clockSkewMs", "firmware"])
        for row in rows:
            online = "" if row.online is None else str(row.online).lower()
            out.writerow([row.at.isoformat(), row.source, online, row.battery_percent, row.clock_skew_ms, row.firmware])


def _line(report: Report) -> str:
    return (
        f"{report.installation_id}: {report.outcome}, {report.listed} listed, {report.checked} looked at,"
        f" {report.crossed} thresholds crossed, {report.calls} calls, again in {report.pause_s:.0f} s"
    )
