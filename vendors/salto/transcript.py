"""Tells the PMS protocol byte by byte: `python -m vendors.salto.transcript` prints visits with what each byte means.

    → 02                              STX   a frame begins
      b3 43 4f                        CO    check the room out
      …

One rule: every byte printed comes from `pms_frames.encode`, the one the driver sends with; nothing is written down twice.
Source: as `pms_frames` and `pms_words`; that an answer echoes the fields asked is assumed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from .pms_frames import ACK, ENQ, ETX, FS, NAK, STX, encode
from .pms_words import CardOrder, check_out, modify, read_card

_STARTS, _ENDS = datetime(2026, 1, 1, 14, 30), datetime(2026, 1, 3, 11, 0)  # noqa: DTZ001 - wall clocks have no zone
_LATER = datetime(2026, 1, 4, 11, 0)  # noqa: DTZ001
_HEX_COLUMNS = 34
_SIGNALS = {ENQ: ("ENQ", "is the interface ready?"), ACK: ("ACK", "yes, taken"), NAK: ("NAK", "no, nothing was done")}

_CARD = (
    "command and number of cards", "encoder", "E: wait until the card is taken out", "room 1", "room 2", "room 3", "room 4",
    "authorisations granted", "authorisations denied", "starts, HHMMDDMMYY on the property's wall clock", "ends, likewise",
    "operator", "printed 1", "printed 2", "printed 3", "1: tell the card's number",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sent:
    """Something on the wire: a signal (one byte), or a frame whose fields have these meanings. `is_ours`: we send it."""

    is_ours: bool
    signal: int | None = None
    fields: tuple[str, ...] = ()
    meanings: tuple[str, ...] = ()

    @property
    def raw(self) -> bytes:
        """The bytes as they travel."""
        return bytes([self.signal]) if self.signal is not None else encode(self.fields)


@dataclass(frozen=True, slots=True)
class Visit:
    """One exchange with the interface, told as a sentence."""

    about: str
    parts: tuple[Sent, ...]

    @property
    def command(self) -> bytes:
        """The frame that asks."""
        return next(part.raw for part in self.parts if part.is_ours and part.signal is None)


def visits() -> tuple[Visit, ...]:
    """Returns the visits that are told."""
    new = CardOrder("1", ["101"], _STARTS, _ENDS, "front1")
    copy = CardOrder("1", ["101"], _STARTS, _ENDS, "front1", is_copy=True)
    out = ("command: check out", "encoder, 0 for none", "room")
    return (
        _answered("room 101 is checked out", check_out("101"), out, check_out("101")),
        _answered("a new stay in 101; earlier keys die where this card is first used", new.fields(), _CARD, new.fields()),
        _answered("a copy of it: joins the stay, kills nobody", copy.fields(), _CARD, copy.fields()),
        _answered(
            "the stay moves from 101 to 102 and ends a day later",
            modify("101", "102", _LATER),
            ("command: modify", "room the stay is in", "room it moves to", "new end, HHMMDDMMYY"),
            modify("101", "102", _LATER),
        ),
        _answered(
            "the card on encoder 1 is read; the room on it is not known there",
            read_card("1", "E"),
            ("command: read", "encoder", "E: wait until the card is taken out"),
            ("TD", "1"),
            ("error: no room of this name", "encoder"),
        ),
        Visit(
            "the interface is starting: nothing was done, asked again up to three times",
            (_signal(ENQ), _signal(NAK, ours=False)),
        ),
    )


def lines() -> Iterator[str]:
    """Yields the transcript, without line ends."""
    for visit in visits():
        yield visit.about
        for part in visit.parts:
            yield from _told(part)
        yield ""


def _answered(
    about: str, asked: Sequence[str], asked_meanings: Sequence[str], answer: Sequence[str], meanings: Sequence[str] = ()
) -> Visit:
    told = tuple(meanings) or tuple(asked_meanings)
    return Visit(
        about,
        (
            _signal(ENQ),
            _signal(ACK, ours=False),
            Sent(is_ours=True, fields=tuple(asked), meanings=tuple(asked_meanings)),
            _signal(ACK, ours=False),
            Sent(is_ours=False, fields=tuple(answer), meanings=told),  # which is not acknowledged
        ),
    )


def _signal(byte: int, *, ours: bool = True) -> Sent:
    return Sent(is_ours=ours, signal=byte)


def _told(part: Sent) -> Iterator[str]:
    arrow = "→" if part.is_ours else "←"
    if part.signal is not None:
        name, meaning = _SIGNALS[part.signal]
        yield _line(arrow, bytes([part.signal]), name, meaning)
        return
    yield _line(arrow, bytes([STX]), "STX", "a frame begins")
    kept = list(part.fields)
    while len(kept) > 1 and not kept[-1]:
        kept.pop()
    for text, meaning in zip(kept, part.meanings, strict=False):
        yield _line(" ", bytes([FS]) + text.encode("ascii"), text or "–", meaning)
    yield _line(" ", bytes([FS, ETX]), "ETX", "the frame ends")
    yield _line(" ", part.raw[-1:], "LRC", "XOR of every byte after STX up to and with ETX")


def _line(arrow: str, raw: bytes, name: str, meaning: str) -> str:
    return f"  {arrow} {raw.hex(' '):<{_HEX_COLUMNS}} {name:<11} {meaning}"


def main() -> int:
    """Prints the transcript."""
    sys.stdout.write("".join(f"{line}\n" for line in lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
