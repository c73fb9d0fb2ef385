"""`manage.py vendor_costs`: what vendors cost each tenant in a month, from call counters and price lists.

Prints sums by tenant, or with `--csv FILE` writes every line (`-` for standard output).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from devices import call_counts, costs
from devices.costs import CostReport
from devices.prices import PriceListWrong
from lockservice.core import clock, tenancy


class Command(BaseCommand):
    help = "What vendors cost each tenant in a month."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--month", metavar="YYYY-MM", help="the month; the present one if not given")
        parser.add_argument("--tenant", help="one tenant's id; every tenant if not given")
        parser.add_argument("--csv", metavar="FILE", help="write every line as CSV, `-` for standard output")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Reports."""
        month = options["month"] or _present_month()
        tenants = [options["tenant"]] if options["tenant"] else costs.tenants()
        try:
            reports = [_of(tenant_id, month) for tenant_id in tenants]
        except (PriceListWrong, ValueError) as error:
            raise CommandError(str(error)) from error
        if options["csv"] == "-":
            costs.write_csv(reports, self.stdout)
            return
        if options["csv"]:
            with Path(options["csv"]).open("w", encoding="utf-8", newline="") as out:
                costs.write_csv(reports, out)
            self.stdout.write(f"{sum(len(found.lines) for found in reports)} lines of {month} written")
            return
        for found in reports:
            self.stdout.write(_told(found))
        if not reports:
            self.stdout.write("no tenant has a lock system")


def _of(tenant_id: str, month: str) -> CostReport:
    with tenancy.tenant(tenant_id):
        return costs.report(tenant_id, month)


def _present_month() -> str:
    with tenancy.queues():
        return call_counts.month_of(clock.now())


def _told(found: CostReport) -> str:
    sums = ", ".join(f"{costs.exact(amount)} {currency}" for currency, amount in found.totals.items()) or "no price applies"
    calls = sum(line.quantity for line in found.lines if line.item == "call")
    missing = f"; no price list: {', '.join(found.unpriced)}" if found.unpriced else ""
    return f"{found.tenant_id} {found.month}: {sums} ({calls} calls{missing})"
