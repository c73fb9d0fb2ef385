"""What vendors cost: exact figures from counters and the operator's prices, by tenant, and never a made-up price."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from devices import adapters, call_counts, costs, prices
from devices.models import CallCount
from devices.prices import Item, PriceListWrong
from lockservice.core.tenancy import tenant
from tests.flows.conftest import keys, make_hotel
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from vendors.port.ids import new_id

MONTH = "2026-11"
PRICES = """
[[price]]
item = "call"
amount = "0.0004"
currency = "USD"
valid_from = 2026-01-01
included = 1000

[[price]]
item = "call"
amount = "0.0005"
currency = "USD"
valid_from = 2026-11-01
included = 1000

[[price]]
item = "call"
amount = "9"
currency = "USD"
valid_from = 2026-12-01

[[price]]
item = "issue"
amount = "0.10"
currency = "USD"
valid_from = 2026-11-01

[[price]]
item = "lock"
amount = "35"
currency = "AFN"
valid_from = 2026-02-01
"""


@pytest.fixture(scope="module")
def locks() -> Iterator[MockLocks]:
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture
def priced(tmp_path: Path) -> Iterator[Path]:
    """Give a folder with the operator's prices of the mock vendor, in force."""
    (tmp_path / "mock.toml").write_text(PRICES)
    with override_settings(VENDOR_PRICES=str(tmp_path)):
        yield tmp_path


def _counted(locks: MockLocks, **counts: int) -> Hotel:
    """A hotel of two rooms and a street door, with these counters in the month."""
    hotel = make_hotel(locks, rooms={"101": new_id("lck"), "102": new_id("lck")}, shared={"lobby": new_id("lck")})
    with tenant(hotel.tenant_id):
        CallCount.objects.create(tenant_id=hotel.tenant_id, installation_id=hotel.installation_id, month=MONTH, **counts)
    return hotel


def _report(hotel: Hotel, month: str = MONTH) -> costs.CostReport:
    with tenant(hotel.tenant_id):
        return costs.report(hotel.tenant_id, month)


def test_a_month_costs_what_the_prices_of_that_month_say_to_the_last_digit(
    database: str, locks: MockLocks, priced: Path
) -> None:
    found = _report(_counted(locks, calls=3_333, issues=7, revokes=5))
    lines = {line.item: (line.quantity, line.cost) for line in found.lines}
    assert lines == {
        Item.CALL: (3_333, Decimal("1.1665")),  # 2,333 beyond the 1,000 included, at 0.0005
        Item.ISSUE: (7, Decimal("0.70")),
        Item.REVOKE: (5, None),  # nobody said what it costs
        Item.LOCK: (3, Decimal(105)),
        Item.MONTH: (1, None),
    }
    assert found.totals == {"AFN": Decimal(105), "USD": Decimal("1.8665")}
    assert found.unpriced == ()


def test_an_earlier_month_has_the_earlier_price_and_included_units_are_no_credit(
    database: str, locks: MockLocks, priced: Path
) -> None:
    hotel = _counted(locks, calls=1)
    with tenant(hotel.tenant_id):
        CallCount.objects.create(tenant_id=hotel.tenant_id, installation_id=hotel.installation_id, month="2026-10", calls=2_000)
    assert _report(hotel, "2026-10").totals == {"AFN": Decimal(105), "USD": Decimal("0.4000")}
    assert _report(hotel).totals == {"AFN": Decimal(105), "USD": Decimal("0.00")}
    assert _report(hotel, "2025-12").totals == {}


def test_without_an_operators_list_there_is_no_price_and_the_report_says_so(database: str, locks: MockLocks) -> None:
    found = _report(_counted(locks, calls=50_000))
    assert {line.cost for line in found.lines} == {None}
    assert (found.totals, found.unpriced) == ({}, ("mock",))


@pytest.mark.parametrize("vendor", sorted(adapters.manifests()))
def test_no_shipped_list_holds_a_price(vendor: str) -> None:
    assert prices.price_list(vendor) == prices.PriceList(vendor, (), is_operators=False)


def test_one_tenants_report_knows_nothing_of_another(database: str, locks: MockLocks, priced: Path) -> None:
    mine, theirs = _counted(locks, calls=2_000), _counted(locks, calls=900_000)
    assert _report(mine).totals["USD"] == Decimal("0.5000")
    with tenant(mine.tenant_id):
        assert costs.report(theirs.tenant_id, MONTH).lines == ()


def test_the_command_prints_sums_and_writes_every_line(database: str, locks: MockLocks, priced: Path, tmp_path: Path) -> None:
    hotel = _counted(locks, calls=3_000, issues=2)
    out = io.StringIO()
    call_command("vendor_costs", "--month", MONTH, "--tenant", hotel.tenant_id, stdout=out)
    assert out.getvalue() == f"{hotel.tenant_id} {MONTH}: 105 AFN, 1.2000 USD (3000 calls)\n"
    file = tmp_path / "out.csv"
    call_command("vendor_costs", "--month", MONTH, "--tenant", hotel.tenant_id, "--csv", str(file), stdout=io.StringIO())
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert tuple(rows[0]) == costs.COLUMNS
    assert [(row["item"], row["quantity"], row["unit_price"], row["currency"], row["cost"]) for row in rows] == [
        ("call", "3000", "0.0005", "USD", "1.0000"),
        ("issue", "2", "0.10", "USD", "0.20"),
        ("revoke", "0", "", "", ""),
        ("lock", "3", "35", "AFN", "105"),
        ("month", "1", "", "", ""),
    ]
    assert {row["tenant"] for row in rows} == {hotel.tenant_id}


def test_without_a_tenant_every_tenant_is_reported_once(database: str, locks: MockLocks, priced: Path) -> None:
    hotels = [_counted(locks, calls=2_000), _counted(locks, calls=4_000)]
    out = io.StringIO()
    call_command("vendor_costs", "--month", MONTH, stdout=out)
    lines = out.getvalue().splitlines()
    mine = [line for line in lines if line.split()[0] in {hotel.tenant_id for hotel in hotels}]
    assert sorted(line.split(": ")[1] for line in mine) == [
        "105 AFN, 0.5000 USD (2000 calls)",
        "105 AFN, 1.5000 USD (4000 calls)",
    ]


@pytest.mark.parametrize("month", ["2026-13", "26-11", "2026-11-01", "now"])
def test_a_month_that_is_none_is_refused(database: str, month: str) -> None:
    with pytest.raises(CommandError):
        call_command("vendor_costs", "--month", month, "--tenant", new_id("tnt"), stdout=io.StringIO())


def test_keys_given_and_taken_back_are_counted_by_door_beside_the_calls(
    database: str, locks: MockLocks, settle: Callable[..., int]
) -> None:
    hotel = make_hotel(locks, rooms={"101": new_id("lck")}, shared={})
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    settle(hotel)
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    settle(hotel)
    assert [key.state for key in keys(hotel)] == ["revoked"]
    with tenant(hotel.tenant_id):
        (row,) = CallCount.objects.filter(tenant_id=hotel.tenant_id)
    assert (row.calls, row.issues, row.revokes) == (2, 1, 1)


def test_a_month_begins_where_the_vendors_quota_does() -> None:
    from datetime import UTC, datetime

    evening = datetime(2026, 10, 31, 17, 0, tzinfo=UTC)
    offsets = {code: manifest.quota_utc_offset_h for code, manifest in adapters.manifests().items()}
    for code, offset in offsets.items():
        assert call_counts.month_of(evening, code) == ("2026-11" if offset >= 7 else "2026-10")
    assert call_counts.month_of(evening) == "2026-10"
    assert 8 in offsets.values()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("price = 3", "single price"),
        ("price = [3]", "single price"),
        ("[[price]]\nitem = 'call'\namount = 0.1\ncurrency = 'USD'\nvalid_from = 2026-11-01", "in quotes"),
        ("[[price]]\nitem = 'call'\namount = '-1'\ncurrency = 'USD'\nvalid_from = 2026-11-01", "0 or more"),
        ("[[price]]\nitem = 'call'\namount = 'NaN'\ncurrency = 'USD'\nvalid_from = 2026-11-01", "0 or more"),
        ("[[price]]\nitem = 'door'\namount = '1'\ncurrency = 'USD'\nvalid_from = 2026-11-01", "item is none of"),
        ("[[price]]\nitem = 'call'\namount = '1'\ncurrency = 'usd'\nvalid_from = 2026-11-01", "capital letters"),
        ("[[price]]\nitem = 'call'\namount = '1'\ncurrency = 'USD'\nvalid_from = 2026-11-15", "first day"),
        ("[[price]]\nitem = 'call'\namount = '1'\ncurrency = 'USD'\nvalid_from = 2026-11-01\nfree = 3", "free is none of"),
        (PRICES + "[[price]]\nitem = 'lock'\namount = '1'\ncurrency = 'EUR'\nvalid_from = 2026-12-01", "two currencies"),
        (PRICES + "[[price]]\nitem = 'lock'\namount = '1'\ncurrency = 'AFN'\nvalid_from = 2026-02-01", "from one day"),
        ("[[price", "ours.toml"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(PriceListWrong, match=r"ours\.toml") as caught:
        prices.read(text, "ours.toml")
    assert why in str(caught.value)


def test_a_price_is_in_force_from_its_day_until_the_next_of_its_item() -> None:
    held = prices.PriceList("mock", prices.read(PRICES, "p"), is_operators=True)
    amounts = [held.price(Item.CALL, month) for month in ("2025-12", "2026-01", "2026-10", "2026-11", "2027-05")]
    assert [price and (price.amount, price.valid_from) for price in amounts] == [
        None,
        (Decimal("0.0004"), date(2026, 1, 1)),
        (Decimal("0.0004"), date(2026, 1, 1)),
        (Decimal("0.0005"), date(2026, 11, 1)),
        (Decimal(9), date(2026, 12, 1)),
    ]


def test_a_label_that_a_spreadsheet_would_run_is_written_as_text(database: str, locks: MockLocks, priced: Path) -> None:
    from devices.models import VendorInstallation

    hotel = _counted(locks, calls=1)
    with tenant(hotel.tenant_id):
        VendorInstallation.objects.filter(tenant_id=hotel.tenant_id).update(label="=1+1")
    out = io.StringIO()
    costs.write_csv([_report(hotel)], out)
    assert {row["label"] for row in csv.DictReader(out.getvalue().splitlines())} == {"'=1+1"}
