"""What a vendor charges: a dated price list for each vendor, in force from the first of a month.

A vendor's folder holds `prices.toml`, shipped without a price: vendors publish none, a price belongs to a contract. The
operator's own lists stand in the folder that `LOCK_VENDOR_PRICES` names, one `<vendor code>.toml` each, in its place:

    [[price]]
    item = "call"             # call, issue, revoke, lock, month
    amount = "0.0004"         # text, so that it is exact
    currency = "USD"          # ISO 4217
    valid_from = 2026-11-01   # the first of a month; in force until a later one of the same item
    included = 30000          # units free of charge, per installation and month (0)

One rule: an amount is a Decimal from text to report; nothing is rounded here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from devices import adapters

FILE_NAME: Final = "prices.toml"
_FIELDS: Final = frozenset({"item", "amount", "currency", "valid_from", "included"})
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_FRACTION_DIGITS_MAX: Final = 9


class PriceListWrong(ValueError):
    """A price list cannot be read; the message names file, row and field. A person must mend the file."""


class Item(StrEnum):
    """What is paid for, per installation and month."""

    CALL = "call"  # a request that left for the vendor
    ISSUE = "issue"  # a key confirmed at one door
    REVOKE = "revoke"  # a key confirmed gone from one door
    LOCK = "lock"  # a lock in use
    MONTH = "month"  # the installation itself


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one unit of `item` from the first of a month on. `included` units a month and installation are free."""

    item: Item
    amount: Decimal
    currency: str
    valid_from: date
    included: int = 0

    def cost(self, quantity: int) -> Decimal:
        """Returns what the units cost together, exactly."""
        return self.amount * max(0, quantity - self.included)


@dataclass(frozen=True, slots=True)
class PriceList:
    """One vendor's prices, by item and date. `is_operators` says whether the operator's file was read."""

    vendor: str
    prices: tuple[Price, ...]
    is_operators: bool

    def price(self, item: Item, month: str) -> Price | None:
        """Returns the price in force in a month `YYYY-MM`, None where there is none."""
        first = first_of(month)
        held = [price for price in self.prices if price.item is item and price.valid_from <= first]
        return max(held, key=lambda price: price.valid_from, default=None)


def price_list(vendor: str) -> PriceList:
    """Returns the vendor's list: the operator's where there is one, else the shipped one, else an empty one.

    A vendor whose folder is gone has an empty one: what was counted of it is still told. Raises PriceListWrong.
    """
    if not adapters.is_known(vendor):
        return PriceList(vendor, (), is_operators=False)
    manifest = adapters.manifest(vendor)
    if settings.VENDOR_PRICES and (own := Path(settings.VENDOR_PRICES) / f"{manifest.code}.toml").is_file():
        return PriceList(manifest.code, read(own.read_text(encoding="utf-8"), str(own)), is_operators=True)
    shipped = resources.files(manifest.adapter.partition(":")[0].rpartition(".")[0]) / FILE_NAME
    text = shipped.read_text(encoding="utf-8") if shipped.is_file() else ""
    return PriceList(manifest.code, read(text, f"{manifest.code}/{FILE_NAME}"), is_operators=False)


def read(text: str, name: str) -> tuple[Price, ...]:
    """Reads a price list; `name` stands in messages. Raises PriceListWrong."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PriceListWrong(f"{name}: {error}") from error
    rows = document.pop("price", [])
    if document or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise PriceListWrong(f"{name}: only [[price]] stands in it, not {', '.join(sorted(document)) or 'a single price'}")
    prices = tuple(_price(row, f"{name}, price {number}") for number, row in enumerate(rows, start=1))
    if len({(price.item, price.valid_from) for price in prices}) < len(prices):
        raise PriceListWrong(f"{name}: two prices of one item from one day")
    for item in Item:
        if len({price.currency for price in prices if price.item is item}) > 1:
            raise PriceListWrong(f"{name}: {item} has two currencies")
    return prices


def first_of(month: str) -> date:
    """Returns the first day of a month `YYYY-MM`. Raises ValueError."""
    if not re.fullmatch(r"\d{4}-\d{2}", month):
        raise ValueError("a month is written YYYY-MM")
    return date(int(month[:4]), int(month[5:]), 1)


def _price(row: Mapping[str, Any], where: str) -> Price:
    if unknown := sorted(set(row) - _FIELDS):
        raise PriceListWrong(f"{where}: {unknown[0]} is none of {', '.join(sorted(_FIELDS))}")
    item, currency, start, included = row.get("item"), row.get("currency"), row.get("valid_from"), row.get("included", 0)
    if item not in list(Item):
        raise PriceListWrong(f"{where}: item is none of {', '.join(Item)}")
    if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency):
        raise PriceListWrong(f"{where}: currency is three capital letters")
    if not isinstance(start, date) or isinstance(start, datetime) or start.day != 1:
        raise PriceListWrong(f"{where}: valid_from is the first day of a month")
    if type(included) is not int or included < 0:
        raise PriceListWrong(f"{where}: included is a whole number, 0 or more")
    return Price(Item(item), _amount(row.get("amount"), where), currency, start, included)


def _amount(text: object, where: str) -> Decimal:
    try:
        amount = Decimal(text) if isinstance(text, str) else None
    except InvalidOperation:
        amount = None
    if amount is None or not amount.is_finite() or amount < 0:
        raise PriceListWrong(f"{where}: amount is a decimal number in quotes, 0 or more")
    exponent = amount.as_tuple().exponent
    if isinstance(exponent, int) and -exponent > _FRACTION_DIGITS_MAX:
        raise PriceListWrong(f"{where}: amount has at most {_FRACTION_DIGITS_MAX} digits behind the point")
    return amount
