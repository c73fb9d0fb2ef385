"""Reads and writes the public hotel-bookings format: one row a booking.

One rule: what a row says is input. Odd rows (nobody in the party, no country, a status date before the arrival) are kept as
they are; only a row that cannot be read at all is refused, with its number.

Source: N. Antonio, A. de Almeida, L. Nunes, "Hotel booking demand datasets", Data in Brief 22 (2019) 41-49, table 1.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TextIO

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
COLUMNS = (
    "hotel", "lead_time", "arrival_date_year", "arrival_date_month", "arrival_date_day_of_month", "stays_in_weekend_nights",
    "stays_in_week_nights", "adults", "children", "babies", "country", "reserved_room_type", "assigned_room_type",
    "booking_changes", "customer_type", "is_repeated_guest", "reservation_status", "reservation_status_date",
)  # fmt: skip
"""The columns used here, as the file in hand has them; others are passed over."""

REQUIRED = frozenset(COLUMNS) - {"hotel", "country", "customer_type", "is_repeated_guest", "children", "babies"}
ABSENT = frozenset({"", "NULL", "NA"})


class Status(StrEnum):
    """How a booking ended."""

    CHECK_OUT = "Check-Out"
    CANCELED = "Canceled"
    NO_SHOW = "No-Show"


class UnreadableRow(ValueError):
    """A row, or the heading, is not of this format. The text says which row and which column."""


@dataclass(frozen=True, slots=True)
class Booking:
    """One row. `number` counts from 1; `lead_days` and `nights` are 0 or more, as are `changes` and `party`."""

    number: int
    lead_days: int
    arrival: date
    nights: int
    party: int
    country: str
    reserved_type: str
    assigned_type: str
    changes: int
    status: Status
    status_date: date

    @property
    def departure(self) -> date:
        """The day of leaving; equals the arrival for day use."""
        return self.arrival + timedelta(days=self.nights)

    @property
    def booked_on(self) -> date:
        """The day the booking was made."""
        return self.arrival - timedelta(days=self.lead_days)

    @property
    def is_moved(self) -> bool:
        """Whether the guest got another type of room than the one reserved."""
        return self.reserved_type != self.assigned_type

    @property
    def digest(self) -> str:
        """Hex of a SHA-256 over all that the row says; equal rows at different places differ."""
        said = (
            self.number, self.lead_days, self.arrival, self.nights, self.party, self.country, self.reserved_type,
            self.assigned_type, self.changes, self.status.value, self.status_date,
        )  # fmt: skip
        return hashlib.sha256("\x1f".join(str(part) for part in said).encode()).hexdigest()


def read_file(path: Path, limit: int | None = None) -> list[Booking]:
    """Reads the first `limit` rows of a .csv or .csv.gz file. Raises UnreadableRow, or OSError."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as text:
        return list(read_rows(text, limit))


def read_rows(text: TextIO, limit: int | None = None) -> Iterator[Booking]:
    """Reads rows one by one. Raises UnreadableRow."""
    reader = csv.DictReader(text)
    missing = REQUIRED - set(reader.fieldnames or ())
    if missing:
        raise UnreadableRow(f"the heading lacks {', '.join(sorted(missing))}")
    try:
        for number, row in enumerate(reader, start=1):
            if limit is not None and number > limit:
                return
            yield _booking(number, row)
    except (csv.Error, UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise UnreadableRow(f"after row {reader.line_num}: {error}") from error


def write_rows(bookings: Iterable[Booking], text: TextIO) -> int:
    """Writes rows in the same format; returns how many. The nights are written as week nights."""
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    count = 0
    for booking in bookings:
        writer.writerow(_row(booking))
        count += 1
    return count


def digest_of(bookings: Sequence[Booking]) -> str:
    """Hex of a SHA-256 over all rows; what tells one replay from another."""
    whole = hashlib.sha256()
    for booking in bookings:
        whole.update(booking.digest.encode())
    return whole.hexdigest()


def _booking(number: int, row: dict[str, str | None]) -> Booking:
    column = ""

    def text(name: str) -> str:
        nonlocal column
        column = name
        return (row.get(name) or "").strip()

    def count(name: str) -> int:
        value = text(name)
        return 0 if value in ABSENT else _whole(value)

    try:
        month = MONTHS.index(text("arrival_date_month").title()) + 1
        arrival = date(_whole(text("arrival_date_year")), month, _whole(text("arrival_date_day_of_month")))
        country = text("country")
        return Booking(
            number=number,
            lead_days=count("lead_time"),
            arrival=arrival,
            nights=count("stays_in_weekend_nights") + count("stays_in_week_nights"),
            party=count("adults") + count("children") + count("babies"),
            country="" if country in ABSENT else country,
            reserved_type=text("reserved_room_type"),
            assigned_type=text("assigned_room_type"),
            changes=count("booking_changes"),
            status=Status(text("reservation_status")),
            status_date=date.fromisoformat(text("reservation_status_date")),
        )
    except (ValueError, OverflowError) as error:
        raise UnreadableRow(f"row {number}, column {column}: {row.get(column)!r} cannot be read") from error


def _whole(value: str) -> int:
    """Reads a whole number from 0 to 99,999, also where a spreadsheet made 2.0 of it."""
    number = float(value)
    if number != int(number) or not 0 <= number < 100_000:
        raise ValueError(value)
    return int(number)


def _row(booking: Booking) -> dict[str, object]:
    return {
        "hotel": "Resort Hotel",
        "lead_time": booking.lead_days,
        "arrival_date_year": booking.arrival.year,
        "arrival_date_month": MONTHS[booking.arrival.month - 1],
        "arrival_date_day_of_month": booking.arrival.day,
        "stays_in_weekend_nights": 0,
        "stays_in_week_nights": booking.nights,
        "adults": booking.party,
        "children": 0,
        "babies": 0,
        "country": booking.country or "NULL",
        "reserved_room_type": booking.reserved_type,
        "assigned_room_type": booking.assigned_type,
        "booking_changes": booking.changes,
        "customer_type": "Transient",
        "is_repeated_guest": 0,
        "reservation_status": booking.status.value,
        "reservation_status_date": booking.status_date.isoformat(),
    }
