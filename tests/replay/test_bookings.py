"""The public format is read as it is, oddities included, and written so that it reads back the same."""

from __future__ import annotations

import gzip
import io
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockservice.replay.bookings import COLUMNS, Booking, Status, UnreadableRow, digest_of, read_file, read_rows, write_rows
from lockservice.replay.generate import generate

HEADING = ",".join(COLUMNS)
ROW = "Resort Hotel,13,2015,July,1,1,2,2,NA,1,NULL,A,C,3,Transient,0,Check-Out,2015-07-04"


def read(*lines: str) -> list[Booking]:
    return list(read_rows(io.StringIO("\n".join((HEADING, *lines)) + "\n")))


def test_a_row_says_days_nights_party_rooms_changes_and_end() -> None:
    (booking,) = read(ROW)
    assert booking == Booking(
        number=1, lead_days=13, arrival=date(2015, 7, 1), nights=3, party=3, country="", reserved_type="A", assigned_type="C",
        changes=3, status=Status.CHECK_OUT, status_date=date(2015, 7, 4),
    )  # fmt: skip
    assert (booking.booked_on, booking.departure, booking.is_moved) == (date(2015, 6, 18), date(2015, 7, 4), True)


def test_real_life_oddities_are_input() -> None:
    nobody = ROW.replace(",2,NA,1,", ",0,0,0,")
    early_status = ROW.replace("2015-07-04", "2015-06-01")
    spreadsheet = ROW.replace(",2,NA,1,", ",2.0,0.0,0,")
    first, second, third = read(nobody, early_status, spreadsheet)
    assert (first.party, second.status_date, third.party) == (0, date(2015, 6, 1), 2)


@pytest.mark.parametrize(
    ("changed", "to", "column"),
    [
        ("July", "Julember", "arrival_date_month"),
        (",13,", ",many,", "lead_time"),
        (",13,", ",-1,", "lead_time"),
        (",13,", ",1e99,", "lead_time"),
        (",13,", ",nan,", "lead_time"),
        ("July,1,", "July,32,", "arrival_date_day_of_month"),
        ("Check-Out", "Vanished", "reservation_status"),
        ("2015-07-04", "yesterday", "reservation_status_date"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused_with_its_number_and_column(changed: str, to: str, column: str) -> None:
    with pytest.raises(UnreadableRow, match=f"row 2, column {column}"):
        read(ROW, ROW.replace(changed, to, 1))


def test_a_file_of_another_format_is_refused_by_its_heading() -> None:
    with pytest.raises(UnreadableRow, match=r"lacks .*lead_time"):
        list(read_rows(io.StringIO("name,room\nAna,101\n")))


def test_a_torn_compressed_file_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress("\n".join((HEADING, *[ROW] * 500)).encode())
    (tmp_path / "torn.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableRow):
        read_file(tmp_path / "torn.csv.gz")


def test_plain_and_compressed_files_say_the_same_and_stop_at_the_limit(tmp_path: Path) -> None:
    text = "\n".join((HEADING, *[ROW] * 5)) + "\n"
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert read_file(tmp_path / "a.csv") == read_file(tmp_path / "a.csv.gz")
    assert [booking.number for booking in read_file(tmp_path / "a.csv", limit=2)] == [1, 2]


@given(count=st.integers(0, 120), seed=st.integers(0, 2**32))
def test_made_up_bookings_are_the_same_for_a_seed_and_read_back_as_written(count: int, seed: int) -> None:
    made = generate(count, seed)
    assert made == generate(count, seed)
    assert len(made) == count
    assert made == sorted(made, key=lambda booking: booking.arrival)
    text = io.StringIO()
    assert write_rows(made, text) == count
    assert list(read_rows(io.StringIO(text.getvalue()))) == made


def test_made_up_bookings_hold_every_case_a_replay_must_meet() -> None:
    made = generate(400, 1)
    assert {booking.status for booking in made} == set(Status)
    assert any(booking.nights == 0 for booking in made)
    assert any(booking.is_moved for booking in made)
    assert max(booking.changes for booking in made) == 3
    assert any(booking.party == 0 for booking in made)


def test_the_digest_of_a_file_tells_order_and_content() -> None:
    one, two = read(ROW, ROW.replace(",13,", ",14,"))
    assert len({digest_of([one]), digest_of([two]), digest_of([one, two]), digest_of([two, one])}) == 4
