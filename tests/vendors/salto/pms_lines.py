"""Orders over the PMS protocol, and the bytes that a scripted line expects and answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tests.vendors.salto.hotel import CARD, Hotel
from tests.vendors.salto.scripted_line import ScriptedLine
from tests.vendors.site import request_for
from vendors.port.types import (
    CallMeta,
    Door,
    IssueInput,
    IssueResult,
    Window,
)
from vendors.salto.pms_adapter import SaltoPmsPort
from vendors.salto.pms_frames import encode
from vendors.salto.settings import read_settings

ENQ, ACK = b"\x05", b"\x06"
KEY = "0123456789abcdef" * 4
MARK = "gk-0123456789abcdef"
ROOM = Door("lck_101", "101", label="101")
STAY = Window(datetime(2026, 1, 1, 10, 0, tzinfo=UTC), datetime(2026, 1, 3, 6, 30, tzinfo=UTC))
"""14:30 on the 1st to 11:00 on the 3rd in Kabul."""


def cn(command: str = "CN1") -> bytes:
    fields = (command, "Front desk", "E", "101", "", "", "", "", "", "1430010126", "1100030126", MARK, "", "", "", "1")
    return encode(fields)


def read_answer(operator: str, room: str = "101") -> bytes:
    return encode(("LT", "Front desk", room, "", "", "", "CI", "0", "", "1430010126", "1100030126", operator))


READ = encode(("LT", "Front desk", "R"))
BLANK = encode(("LT", "Front desk", "LD"))
LAID = ((ENQ, [ACK]), (READ, [ACK, BLANK]))
"""A blank card lies on the encoder, which is read before it is written."""


def written_to(command: bytes, *answers: bytes | str) -> ScriptedLine:
    """A blank card that is read and, over the same connection, ordered to be written."""
    return ScriptedLine(*LAID, (ENQ, [ACK]), (command, list(answers)))


def scripted(hotel: Hotel, *lines: ScriptedLine) -> SaltoPmsPort:
    waiting = list(lines)
    return SaltoPmsPort(read_settings(hotel.context()), hotel.context(), lambda limit_s: waiting.pop(0))


def order(hotel: Hotel, attempt: int = 1, **changes: object) -> IssueInput:
    request = request_for(hotel, CARD, (ROOM,), window=STAY, meta=CallMeta(KEY, attempt), **changes)
    return replace(request, time_zone="Asia/Kabul")


def issue(hotel: Hotel, request: IssueInput, *lines: ScriptedLine) -> IssueResult:
    return scripted(hotel, *lines).issue_credential(request)
