"""The guest record: bytes with their meaning, and what a lock makes of every change to them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vendors.generic_wiegand.records import JOINER, Record, Verdict, credential_tag, judge, seal, unpack

KEY, UID = bytes(range(32)), bytes.fromhex("DEADBEEF")
START, END = datetime(2026, 5, 1, 12, tzinfo=UTC), datetime(2026, 5, 3, 10, tzinfo=UTC)
RECORD = Record(7, 301, 2, START, END, bytes.fromhex("0102030405060708"), JOINER)
BODY = bytes.fromhex(
    "4D4B"  # magic
    "01"  # version
    "04"  # flags: joiner
    "00000007"  # property
    "0000012D"  # door 301
    "00000002"  # sequence
    "69F495C0"  # 2026-05-01 12:00:00 UTC
    "69F71CA0"  # 2026-05-03 10:00:00 UTC
    "0102030405060708"  # tag
)
LATER = START + timedelta(hours=1)


def at_the_door(blob: bytes, uid: bytes = UID, *, door: int = 301, seen: int = 0, now: datetime = LATER) -> Verdict:
    return judge(blob, uid, property_key=KEY, property_number=7, door=door, seen=seen, now=now)[0]


def test_a_record_is_these_bytes() -> None:
    assert RECORD.pack() == BODY
    assert unpack(BODY) == RECORD
    assert credential_tag("key_1").hex() == "0c08dbd4adb6472c"


def test_a_lock_checks_mac_door_window_and_sequence_in_this_order() -> None:
    blob = BODY + seal(BODY, KEY, UID)
    assert at_the_door(blob) is Verdict.OK
    assert at_the_door(blob, seen=2) is Verdict.OK  # a joiner repeats what the lock has seen
    assert at_the_door(blob, seen=3) is Verdict.SUPERSEDED
    assert at_the_door(blob, seen=3, now=END) is Verdict.OUTSIDE_WINDOW
    assert at_the_door(blob, now=START - timedelta(seconds=1)) is Verdict.OUTSIDE_WINDOW
    assert at_the_door(blob, now=START) is Verdict.OK
    assert at_the_door(blob, door=302, now=END) is Verdict.WRONG_DOOR
    assert at_the_door(blob, bytes.fromhex("DEADBEF0")) is Verdict.BAD_MAC  # copied to another card


def test_no_flipped_bit_opens() -> None:
    blob = BODY + seal(BODY, KEY, UID)
    flipped = [bytearray(blob) for _ in range(len(blob) * 8)]
    for bit, copy in enumerate(flipped):
        copy[bit // 8] ^= 1 << (bit % 8)
    assert {at_the_door(bytes(copy)) for copy in flipped} == {Verdict.BAD_MAC}
    assert len(flipped) == 384


@pytest.mark.parametrize(
    "change",
    [{"door": 2**32}, {"door": -1}, {"sequence": 2**32}, {"property_number": 2**32}, {"tag": b"1234567"}],
)
def test_what_does_not_fit_is_refused_never_cut_off(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        replace(RECORD, **change).pack()  # type: ignore[arg-type]


@given(
    door=st.integers(0, 2**32 - 1),
    sequence=st.integers(0, 2**32 - 1),
    start=st.integers(0, 2**31),
    length=st.integers(1, 10**6),
    tag=st.binary(min_size=8, max_size=8),
)
def test_every_record_reads_back(door: int, sequence: int, start: int, length: int, tag: bytes) -> None:
    window = (datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(start + length, UTC))
    record = Record(7, door, sequence, *window, tag)
    assert unpack(record.pack()) == record
