"""Costs: what the tenant's vendors cost in a month, and the same as a file.

One rule: a sum is shown only of what has a price; what has none says so beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from devices import call_counts, costs
from devices.costs import CostReport, Line
from devices.models import CallCount, VendorInstallation
from devices.prices import Item, PriceListWrong
from lockservice.console.read_only import page_url
from lockservice.console.roles import Right
from lockservice.console.session import Desk, desk_of
from lockservice.core import clock
from lockservice.core.auth_permissions import Permission

ITEMS = {
    Item.CALL: _("calls"),
    Item.ISSUE: _("keys given, by door"),
    Item.REVOKE: _("keys taken back, by door"),
    Item.LOCK: _("locks in use"),
    Item.MONTH: _("lock system"),
}
MONTHS_OFFERED = 13


@dataclass(frozen=True, slots=True)
class Row:
    """One line as the page shows it."""

    item: Any
    quantity: int
    included: int
    price: str
    cost: str


@dataclass(frozen=True, slots=True)
class SystemCosts:
    """One lock system with its lines and its sums."""

    label: str
    url: str
    house: str
    vendor: str
    rows: list[Row]
    sums: list[str]


def page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Shows a month, or with `format=csv` gives it as a file. Inside the tenant's block."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    desk = desk_of(request)
    if not desk.may(Right.COSTS_READ):
        raise PermissionDenied
    present = call_counts.month_of(clock.now())
    month = request.GET.get("month") or present
    problem = ""
    found = None
    try:
        found = costs.report(desk.tenant_id, month)
    except PriceListWrong as error:
        problem = gettext("A price list cannot be read: %(why)s") % {"why": error}
    except ValueError:
        problem = gettext("There is no such month. A month is written as 2026-11.")
    if found is not None and request.GET.get("format") == "csv":
        return _file(found)
    context = {
        **site.each_context(request),
        "title": _("Costs"),
        "month": month if found else present,
        "months": _months(desk.tenant_id, present),
        "problem": problem,
        "systems": _systems(desk, found) if found else [],
        "sums": _sums(found.totals) if found else [],
        "unpriced": found.unpriced if found else (),
    }
    return TemplateResponse(request, "console/costs.html", context, status=400 if problem else 200)


def _file(found: CostReport) -> HttpResponse:
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="vendor-costs-{found.month}.csv"'
    costs.write_csv([found], response)
    return response


def _months(tenant_id: str, present: str) -> list[str]:
    counted = CallCount.objects.filter(tenant_id=tenant_id).values_list("month", flat=True).distinct()
    return sorted({*counted, present}, reverse=True)[:MONTHS_OFFERED]


def _systems(desk: Desk, found: CostReport) -> list[SystemCosts]:
    by_system: dict[str, list[Line]] = {}
    for line in found.lines:
        by_system.setdefault(line.installation_id, []).append(line)
    return [
        SystemCosts(
            label=lines[0].label,
            url=page_url(VendorInstallation, system) if desk.may(Permission.DEVICE_READ) else "",
            house=desk.houses.get(lines[0].property_id, lines[0].property_id),
            vendor=lines[0].vendor,
            rows=[_row(line) for line in lines],
            sums=_sums(CostReport(found.tenant_id, found.month, tuple(lines), {}).totals),
        )
        for system, lines in by_system.items()
    ]


def _row(line: Line) -> Row:
    price = line.price
    return Row(
        item=ITEMS[line.item],
        quantity=line.quantity,
        included=price.included if price else 0,
        price=f"{costs.exact(price.amount)} {price.currency}" if price else "",
        cost=f"{costs.exact(price.cost(line.quantity))} {price.currency}" if price else "",
    )


def _sums(totals: dict[str, Decimal]) -> list[str]:
    return [f"{costs.exact(amount)} {currency}" for currency, amount in totals.items()]
