"""The words of the PMS Industry Standard protocol: commands as values, dates, authorisations, answers.

One rule: room and encoder names travel exactly as they stand in the vendor's database; times are the property's wall clock.
Source: public clients of the protocol (commands, dates, authorisation characters: high; field order of answers: medium).
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

DATE_FORMAT = "%H%M%d%m%y"
MAX_ROOMS = 4
OPERATOR_MAX_CHARS = 24
MESSAGE_MAX_CHARS = 256

_AUTHORISATIONS = string.digits[1:] + string.ascii_lowercase + "!#$%&()*+,-./:;<=>?@[\\]^_{}"
"""Position n - 1 holds the character of authorisation n, 1 to 62."""

MAX_AUTHORISATION = len(_AUTHORISATIONS)

EJECT, RETAIN = "E", "R"
"""Wait until the card is taken out; keep it and do not wait."""

LOG_NEXT = "WN"
LOG_COMMANDS = ("WF", LOG_NEXT, "WR")
LOG_ENDS = "WO"
"""The answer after the last line of a door's log."""

INFO = "INFO"
"""Asks what the interface is. It concerns no door, so it disturbs no reading of a log."""

COMMANDS = frozenset({"CN", "CC", "MC", "CO", "LT", LOG_ENDS, *LOG_COMMANDS})
"""What answers that are no errors begin with."""

NO_SERIAL, LAST_SERIAL = "0", "1"

GUEST = "guest"
STAFF, SPARE, INVALID, UNIDENTIFIED = "LM", "LR", "LC", "LD"
"""What a read card may be instead of a guest's."""

BY_SWITCH, BY_SERVER = "S2", "S3"
"""How a door's log names an opening without any card. Source: a public client's table (medium)."""


def local_date(moment: datetime) -> str:
    """Returns `HHMMDDMMYY` of a wall-clock time: 14:30 on 1 January 2026 is `1430010126`. Seconds are cut off."""
    return moment.strftime(DATE_FORMAT)


def read_date(text: str) -> datetime:
    """Reads `HHMMDDMMYY` as a wall-clock time without zone. Raises ValueError."""
    if not re.fullmatch(r"\d{10}", text):
        raise ValueError("a date of the PMS protocol has ten digits")
    return datetime.strptime(text, DATE_FORMAT)  # noqa: DTZ007 - the wire has no zone; the property's is applied by the caller


def authorisations(numbers: Iterable[int]) -> str:
    """Returns one character for each authorisation, in ascending order. Raises ValueError outside 1 to 62."""
    wanted = sorted(set(numbers))
    if any(not 1 <= number <= MAX_AUTHORISATION for number in wanted):
        raise ValueError(f"authorisations are numbered 1 to {MAX_AUTHORISATION}")
    return "".join(_AUTHORISATIONS[number - 1] for number in wanted)


def read_authorisations(text: str) -> tuple[int, ...]:
    """Reads authorisation characters. Raises ValueError for one that is none."""
    return tuple(_AUTHORISATIONS.index(char) + 1 for char in text)


@dataclass(frozen=True, slots=True)
class CardOrder:
    """Write a guest card. `copies` with `is_copy` false starts a new stay (CN): earlier keys of the rooms die where this one
    is first used. With `is_copy` (CC) it joins the stay that is there. Start and end are the property's wall clock."""

    encoder: str
    rooms: Sequence[str]
    starts: datetime
    ends: datetime
    operator: str
    is_copy: bool = False
    grants: Sequence[int] = ()
    denials: Sequence[int] = ()
    eject: str = EJECT
    serial: str = LAST_SERIAL
    cards: int = 1

    def fields(self) -> tuple[str, ...]:
        """Returns the fields: command, encoder, eject, four rooms, grants, denials, start, end, operator, three print lines,
        serial. Raises ValueError for more than four rooms or too long an operator."""
        return (
            f"{'CC' if self.is_copy else 'CN'}{self.cards}",
            self.encoder,
            self.eject,
            *_rooms(self.rooms),
            authorisations(self.grants),
            authorisations(self.denials),
            local_date(self.starts),
            local_date(self.ends),
            _operator(self.operator),
            "",
            "",
            "",
            self.serial,
        )


@dataclass(frozen=True, slots=True)
class PhoneOrder:
    """Send a key to a phone: new stay (CNM) or joining it (CCM). `phone` is E.164; `message` at most 256 characters."""

    phone: str
    rooms: Sequence[str]
    starts: datetime
    ends: datetime
    operator: str
    is_copy: bool = False
    grants: Sequence[int] = ()
    denials: Sequence[int] = ()
    message: str = ""

    def fields(self) -> tuple[str, ...]:
        """Returns the fields: command, phone, four rooms, grants, denials, start, end, operator, three reserved, message."""
        return (
            "CCM" if self.is_copy else "CNM",
            self.phone,
            *_rooms(self.rooms),
            authorisations(self.grants),
            authorisations(self.denials),
            local_date(self.starts),
            local_date(self.ends),
            _operator(self.operator),
            "",
            "",
            "",
            self.message[:MESSAGE_MAX_CHARS],
        )


def modify(room: str, to_room: str, ends: datetime) -> tuple[str, ...]:
    """Returns MC: the stay in `room` ends at `ends` from now on, and lives in `to_room` where that is not empty."""
    return ("MC", room, to_room, local_date(ends))


def check_out(room: str, encoder: str = "0") -> tuple[str, ...]:
    """Returns CO: the list shows the room free. No card and no door hears of it."""
    return ("CO", encoder, room)


def read_card(encoder: str, eject: str = RETAIN) -> tuple[str, ...]:
    """Returns LT: read the card that lies on the encoder."""
    return ("LT", encoder, eject)


def read_audit(door: str, which: str = "WF") -> tuple[str, ...]:
    """Returns WF (first), WN (next) or WR (the same again) for a door's log."""
    return (which, door)


@dataclass(frozen=True, slots=True)
class CardRead:
    """What LT found. `rooms` is empty for a card that is no guest's; `operator` is whom we named when it was written. Start and
    end are the property's wall clock; an answer may leave the start out."""

    what: str
    rooms: tuple[str, ...] = ()
    is_current: bool = False
    copy: str = ""
    grants: str = ""
    starts: datetime | None = None
    ends: datetime | None = None
    operator: str = ""


def parse_card(fields: Sequence[str]) -> CardRead:
    """Reads an LT answer. Raises ValueError for one that makes no sense."""
    padded = [*fields, *[""] * (12 - len(fields))]
    what = padded[2]
    if what in (STAFF, SPARE, INVALID, UNIDENTIFIED):
        return CardRead(what)
    return CardRead(
        what=GUEST,
        rooms=tuple(name for name in padded[2:6] if name),
        is_current=padded[6] == "CI",
        copy=padded[7],
        grants=padded[8],
        starts=read_date(padded[9]) if padded[9] else None,
        ends=read_date(padded[10]),
        operator=padded[11],
    )


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One line of a door's log: day and month without a year, minute, and what happened (0 opened, 2 invalid, 3 not
    permitted, 4 expired, 5 passed twice). `who` is a room or `STAFF`; `copy` says what opened: `#0` and so on a card, `S1` a
    spare one, BY_SWITCH a button, BY_SERVER somebody at a computer."""

    door: str
    day: str
    minute: str
    incident: str
    who: str
    copy: str


def parse_audit(fields: Sequence[str]) -> AuditRow:
    """Reads a W* answer."""
    padded = [*fields, *[""] * (9 - len(fields))]
    return AuditRow(door=padded[1], day=padded[2], minute=padded[3], incident=padded[4], who=padded[6], copy=padded[7])


def _rooms(rooms: Sequence[str]) -> tuple[str, ...]:
    if len(rooms) > MAX_ROOMS:
        raise ValueError(f"a key carries at most {MAX_ROOMS} rooms")
    return (*rooms, *[""] * (MAX_ROOMS - len(rooms)))


def _operator(name: str) -> str:
    if len(name) > OPERATOR_MAX_CHARS:
        raise ValueError(f"an operator's name has at most {OPERATOR_MAX_CHARS} characters")
    return name
