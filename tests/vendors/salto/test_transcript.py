"""The transcript tells exactly the bytes of the published vectors, and every byte once."""

from __future__ import annotations

import re

import pytest

from vendors.salto import transcript
from vendors.salto.pms_frames import Frame, FrameReader

VECTORS = {
    "room 101 is checked out": "02 b3 43 4f b3 30 b3 31 30 31 b3 03 0f",
    "the card on encoder 1 is read": "02 b3 4c 54 b3 31 b3 45 b3 03 6f",
    "the stay moves from 101 to 102": (
        "02 b3 4d 43 b3 31 30 31 b3 31 30 32 b3 31 31 30 30 30 34 30 31 32 36 b3 03 bc"
    ),
}  # fmt: skip
CHECKSUMS = {"a new stay in 101": 0xAD, "a copy of it": 0xA0}
UNKNOWN_ROOM = "02 b3 54 44 b3 31 b3 03 91"


def _visit(begins: str) -> transcript.Visit:
    (found,) = [visit for visit in transcript.visits() if visit.about.startswith(begins)]
    return found


@pytest.mark.parametrize("about", VECTORS)
def test_a_command_is_the_published_bytes(about: str) -> None:
    assert _visit(about).command.hex(" ") == VECTORS[about]


@pytest.mark.parametrize("about", CHECKSUMS)
def test_a_card_order_has_the_published_checksum(about: str) -> None:
    assert _visit(about).command[-1] == CHECKSUMS[about]


def test_the_error_is_the_published_bytes() -> None:
    answers = [part.raw.hex(" ") for part in _visit("the card on encoder 1").parts if not part.is_ours]
    assert answers == ["06", "06", UNKNOWN_ROOM]


def test_the_printed_bytes_are_the_wire_whole_and_in_order() -> None:
    printed = "\n".join(transcript.lines())
    told = bytes.fromhex("".join(re.findall(r"^  [→← ] ((?:[0-9a-f]{2} )+) *\S", printed, flags=re.MULTILINE)).replace(" ", ""))
    sent = b"".join(part.raw for visit in transcript.visits() for part in visit.parts)
    assert told == sent
    frames = [token for token in FrameReader().feed(told) if isinstance(token, Frame)]
    assert len(frames) == 10
    assert all(frame.is_sound for frame in frames)


def test_every_field_has_its_meaning() -> None:
    for visit in transcript.visits():
        for part in visit.parts:
            assert len(part.meanings) >= len(part.fields), visit.about
