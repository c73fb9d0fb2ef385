"""The bytes of the PMS protocol, equal to the vectors computed from the vendor's rule, and hostile streams."""

# ruff: noqa: DTZ001 - wall clocks have no zone
from __future__ import annotations

from datetime import datetime

import pytest

from vendors.salto.pms_frames import ACK, BadText, Frame, FrameReader, Signal, encode, lrc
from vendors.salto.pms_words import (
    CardOrder,
    PhoneOrder,
    authorisations,
    check_out,
    local_date,
    modify,
    parse_audit,
    parse_card,
    read_authorisations,
    read_card,
    read_date,
)

STARTS, ENDS = datetime(2026, 1, 1, 14, 30), datetime(2026, 1, 3, 11, 0)

VECTORS = {
    "check out room 101": (check_out("101"), "02 b3 43 4f b3 30 b3 31 30 31 b3 03 0f"),
    "read the card on encoder 1, wait until taken": (read_card("1", "E"), "02 b3 4c 54 b3 31 b3 45 b3 03 6f"),
    "the stay in 101 moves to 102 and ends 4 January 11:00": (
        modify("101", "102", datetime(2026, 1, 4, 11, 0)),
        "02 b3 4d 43 b3 31 30 31 b3 31 30 32 b3 31 31 30 30 30 34 30 31 32 36 b3 03 bc",
    ),
    "error: unknown room, encoder 1": (("TD", "1"), "02 b3 54 44 b3 31 b3 03 91"),
    "new stay in 101, 1 January 14:30 to 3 January 11:00, operator front1, last serial back": (
        CardOrder("1", ["101"], STARTS, ENDS, "front1").fields(),
        (
            "02 b3 43 4e 31 b3 31 b3 45 b3 31 30 31 b3 b3 b3 b3 b3 b3 31 34 33 30 30 31 30 31 32 36 b3"
            " 31 31 30 30 30 33 30 31 32 36 b3 66 72 6f 6e 74 31 b3 b3 b3 b3 31 b3 03 ad"
        ),
    ),
    "copy for the same": (
        CardOrder("1", ["101"], STARTS, ENDS, "front1", is_copy=True).fields(),
        (
            "02 b3 43 43 31 b3 31 b3 45 b3 31 30 31 b3 b3 b3 b3 b3 b3 31 34 33 30 30 31 30 31 32 36 b3"
            " 31 31 30 30 30 33 30 31 32 36 b3 66 72 6f 6e 74 31 b3 b3 b3 b3 31 b3 03 a0"
        ),
    ),
}


@pytest.mark.parametrize("meaning", VECTORS)
def test_a_command_is_these_bytes(meaning: str) -> None:
    fields, expected = VECTORS[meaning]
    assert encode(fields).hex(" ") == expected


@pytest.mark.parametrize("meaning", VECTORS)
def test_these_bytes_are_read_as_the_command(meaning: str) -> None:
    fields, raw = VECTORS[meaning]
    (frame,) = FrameReader().feed(bytes.fromhex(raw))
    kept = list(fields)
    while not kept[-1]:
        kept.pop()
    assert frame == Frame(tuple(kept), is_sound=True)


def test_a_frame_arrives_whole_however_it_is_cut() -> None:
    raw = bytes.fromhex(VECTORS["the stay in 101 moves to 102 and ends 4 January 11:00"][1])
    reader = FrameReader()
    tokens = [token for byte in raw for token in reader.feed(bytes([byte]))]
    assert tokens == [Frame(("MC", "101", "102", "1100040126"), is_sound=True)]


def test_answers_glued_together_are_told_apart_and_noise_between_is_dropped() -> None:
    first, second = encode(("CO", "101")), encode(("TD", "1"))
    tokens = list(FrameReader().feed(bytes([ACK]) + first + b"\x00\xff" + second + bytes([ACK])))
    assert tokens == [Signal(ACK), Frame(("CO", "101"), is_sound=True), Frame(("TD", "1"), is_sound=True), Signal(ACK)]


@pytest.mark.parametrize("wanted", [0x02, 0x03, 0x05, 0x06, 0x0A, 0x15, 0xB3])
def test_a_checksum_may_look_like_any_other_byte(wanted: int) -> None:
    """The last character of a room's name is chosen so that the checksum falls on the wanted byte."""
    bare = encode(("CO", "0", "101 "))
    letter = bare[-1] ^ ord(" ") ^ wanted
    raw = bytes([*bare[:-4], letter, 0xB3, 0x03, wanted])
    assert lrc(raw[1:-1]) == wanted
    follower = encode(("TD", "1"))
    frames = list(FrameReader().feed(raw + follower))
    assert [frame.is_sound for frame in frames] == [True, True]
    assert frames[1].fields == ("TD", "1")


def test_a_wrong_checksum_is_noticed_and_0d_means_unchecked() -> None:
    raw = encode(("CO", "101"))
    (bad,) = FrameReader().feed(raw[:-1] + bytes([raw[-1] ^ 1]))
    (unchecked,) = FrameReader().feed(raw[:-1] + b"\x0d")
    assert (bad.is_sound, unchecked.is_sound) == (False, True)


def test_a_frame_without_an_end_is_given_up() -> None:
    with pytest.raises(ValueError, match="without an end"):
        list(FrameReader().feed(b"\x02" + b"A" * 4000))


@pytest.mark.parametrize("text", ["Zimmer ó", "101\x03", "۱۰۱", "10\xb31"])
def test_text_that_would_break_a_frame_is_refused(text: str) -> None:
    with pytest.raises(BadText):
        encode(("CO", "0", text))


def test_dates_have_ten_digits_and_no_zone() -> None:
    assert local_date(STARTS) == "1430010126"
    assert read_date("1430010126") == STARTS
    for wrong in ("", "14300101", "2530010126", "14:3001012"):
        with pytest.raises(ValueError):
            read_date(wrong)


def test_authorisations_are_single_characters() -> None:
    assert authorisations([10, 1, 9, 35, 36, 62, 1]) == "19az!}"
    assert read_authorisations("19az!}") == (1, 9, 10, 35, 36, 62)
    assert len(authorisations(range(1, 63))) == 62
    for wrong in (0, 63):
        with pytest.raises(ValueError):
            authorisations([wrong])


def test_a_fifth_room_and_a_long_operator_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 4 rooms"):
        CardOrder("1", ["1", "2", "3", "4", "5"], STARTS, ENDS, "x").fields()
    with pytest.raises(ValueError, match="24 characters"):
        CardOrder("1", ["1"], STARTS, ENDS, "x" * 25).fields()


def test_a_phones_key_has_its_fields_in_order() -> None:
    fields = PhoneOrder("+93700123456", ["101", "102"], STARTS, ENDS, "front1", grants=[7], message="m" * 300).fields()
    assert fields[:12] == ("CNM", "+93700123456", "101", "102", "", "", "7", "", "1430010126", "1100030126", "front1", "")
    assert (len(fields), fields[14]) == (15, "m" * 256)
    assert PhoneOrder("+1", ["101"], STARTS, ENDS, "x", is_copy=True).fields()[0] == "CCM"


def test_a_read_card_tells_room_times_and_whom_it_was_made_for() -> None:
    fields = ("LT", "1", "101", "102", "", "", "CI", "1", "7", "1430010126", "1100030126", "gk-0011223344556677")
    card = parse_card(fields)
    assert (card.what, card.rooms, card.is_current, card.copy) == ("guest", ("101", "102"), True, "1")
    assert (card.starts, card.ends, card.operator) == (STARTS, ENDS, "gk-0011223344556677")
    assert [parse_card(("LT", "1", what)).what for what in ("LM", "LR", "LC", "LD")] == ["LM", "LR", "LC", "LD"]
    with pytest.raises(ValueError):
        parse_card(("LT", "1", "101"))


def test_a_log_row_is_read_by_position() -> None:
    row = parse_audit(("WF", "101", "31/12", "23:58", "0", "0", "101", "#0", ""))
    assert (row.door, row.day, row.minute, row.incident, row.who, row.copy) == ("101", "31/12", "23:58", "0", "101", "#0")
