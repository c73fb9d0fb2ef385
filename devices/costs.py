"""What a tenant's vendors cost in a month: call counters times price lists, and what was counted but has no price.

A month is the vendor's own, as its quota counts it. Calls, keys given and keys taken back are those recorded in it; locks are
those in use when the report is made, since what was in use earlier is kept nowhere.

One rule: figures are exact and unrounded; what has no price is listed as such and never counted as free.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Protocol

from django.db.models import Count

from devices import prices
from devices.models import CallCount, LockDevice, VendorInstallation
from devices.prices import Item, Price, PriceList
from lockservice.core import tenancy

COLUMNS: Final = (
    "tenant", "month", "property", "installation", "label", "vendor", "item", "quantity", "included", "unit_price",
    "currency", "cost", "price_valid_from",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One installation and item. `cost` is None where the item has no price in that month."""

    property_id: str
    installation_id: str
    label: str
    vendor: str
    item: Item
    quantity: int
    price: Price | None

    @property
    def cost(self) -> Decimal | None:
        """What the quantity costs, exactly; None without a price."""
        return self.price.cost(self.quantity) if self.price else None


@dataclass(frozen=True, slots=True)
class CostReport:
    """A tenant's month. `priced` says of each vendor whether any price is in force."""

    tenant_id: str
    month: str
    lines: tuple[Line, ...]
    priced: Mapping[str, bool]

    @property
    def totals(self) -> dict[str, Decimal]:
        """Sums by currency, in the currencies' order; empty when nothing has a price."""
        sums: dict[str, Decimal] = defaultdict(Decimal)
        for line in self.lines:
            if line.price is not None:
                sums[line.price.currency] += line.price.cost(line.quantity)
        return dict(sorted(sums.items()))

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Vendors of which no price is in force, by code."""
        return tuple(sorted(vendor for vendor, is_priced in self.priced.items() if not is_priced))


class Sink(Protocol):
    """What a table is written to."""

    def write(self, text: str, /) -> object: ...


def report(tenant_id: str, month: str) -> CostReport:
    """Returns the tenant's costs of a month `YYYY-MM`. Inside the tenant's block.

    Raises ValueError for a month that is none, prices.PriceListWrong for a list that cannot be read.
    """
    prices.first_of(month)
    counts = {row.installation_id: row for row in CallCount.objects.filter(tenant_id=tenant_id, month=month)}
    held = LockDevice.objects.filter(tenant_id=tenant_id, active=True).values("installation_id").annotate(n=Count("pk"))
    locks = {row["installation_id"]: row["n"] for row in held}
    lists: dict[str, PriceList] = {}
    lines: list[Line] = []
    rows = VendorInstallation.objects.filter(tenant_id=tenant_id).defer("settings_sealed", "secrets_sealed")
    for row in rows.order_by("property_id", "label", "id"):
        count = counts.get(row.id)
        if not row.active and count is None:
            continue
        if row.vendor not in lists:
            lists[row.vendor] = prices.price_list(row.vendor)
        quantities = {
            Item.CALL: count.calls if count else 0,
            Item.ISSUE: count.issues if count else 0,
            Item.REVOKE: count.revokes if count else 0,
            Item.LOCK: locks.get(row.id, 0),
            Item.MONTH: 1,
        }
        lines += [
            Line(row.property_id, row.id, row.label, row.vendor, item, quantity, lists[row.vendor].price(item, month))
            for item, quantity in quantities.items()
        ]
    priced = {vendor: any(line.price for line in lines if line.vendor == vendor) for vendor in lists}
    return CostReport(tenant_id, month, tuple(lines), priced)


def tenants() -> list[str]:
    """Returns every tenant that has an installation, by id. Opens a queue block of its own."""
    from devices.models import HealthPoll  # the one table of installations that the queue role sees

    with tenancy.queues():
        return sorted(set(HealthPoll.objects.values_list("tenant_id", flat=True)))


def write_csv(reports: Sequence[CostReport], out: Sink) -> None:
    """Writes the reports as CSV with a head line: one row an installation and item, amounts exact with a point."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for found in reports:
        for line in found.lines:
            price = line.price
            writer.writerow(
                [
                    found.tenant_id,
                    found.month,
                    line.property_id,
                    line.installation_id,
                    _plain(line.label),
                    line.vendor,
                    line.item.value,
                    line.quantity,
                    price.included if price else "",
                    exact(price.amount) if price else "",
                    price.currency if price else "",
                    exact(line.cost) if line.cost is not None else "",
                    price.valid_from.isoformat() if price else "",
                ]
            )


def exact(amount: Decimal) -> str:
    """Returns an amount with every digit it has and never an exponent."""
    return f"{amount:f}"


def _plain(label: str) -> str:
    """A label that a spreadsheet would take for a formula is kept a text."""
    return f"'{label}" if label.startswith(("=", "+", "-", "@", "\t")) else label
