"""The bytes of the SALTO PMS Industry Standard protocol: frames, checksum, single-byte answers.

One rule: the byte after ETX is the checksum whatever it is; it may look like STX, ETX, ACK, a separator or "do not check".

    02  B3  f0  B3  f1  B3 … B3  fn  B3  03  LRC        LRC = XOR of every byte after STX up to and including ETX

Example: check room 101 out, no encoder: `CO`, `0`, `101` → 02 B3 43 4F B3 30 B3 31 30 31 B3 03 0F.
Source: public clients of the protocol, two independent ones (confidence high); the code page is assumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

STX, ETX, ENQ, ACK, NAK, FS = 0x02, 0x03, 0x05, 0x06, 0x15, 0xB3
UNCHECKED = 0x0D
"""In place of the LRC: the receiver does not check. A true LRC of this value is accepted the same way."""

CODE_PAGE = "ascii"
"""UTF-8 may hold the byte B3 inside a letter (`ó` is C3 B3) and would break the frame, so only ASCII travels."""

MAX_FRAME_BYTES = 2048
"""The vendor's own limit is not public; longer than this is noise."""


class BadText(ValueError):
    """A field holds what the wire cannot carry: a control byte, the separator, or a letter outside ASCII."""


def lrc(body: bytes) -> int:
    """Returns the XOR of the bytes, 0 to 255; `body` starts after STX and ends with ETX."""
    return reduce(lambda left, right: left ^ right, body, 0)


def encode(fields: Sequence[str]) -> bytes:
    """Returns the frame for the fields, the first being the command. Trailing empty fields are left out. Raises BadText."""
    kept = list(fields)
    while len(kept) > 1 and not kept[-1]:
        kept.pop()
    separator = bytes([FS])
    body = separator + b"".join(_field(text) + separator for text in kept) + bytes([ETX])
    return bytes([STX]) + body + bytes([lrc(body)])


def is_carriable(text: str) -> bool:
    """Says whether a field can hold the text: printable ASCII only."""
    return text.isascii() and all(char.isprintable() for char in text)


def _field(text: str) -> bytes:
    if not is_carriable(text):
        raise BadText("a field of the PMS protocol holds printable ASCII only")
    return text.encode(CODE_PAGE)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it came: its fields, and whether the checksum was right (or waived)."""

    fields: tuple[str, ...]
    is_sound: bool

    def field(self, index: int) -> str:
        """Returns a field, empty where the sender left it out."""
        return self.fields[index] if index < len(self.fields) else ""


@dataclass(frozen=True, slots=True)
class Signal:
    """One of ENQ, ACK, NAK."""

    byte: int


Token = Frame | Signal


class FrameReader:
    """Cuts a stream of bytes into frames and signals, however it arrives. Noise between them is dropped.

    Not for several threads. Raises ValueError when a frame outgrows MAX_FRAME_BYTES.
    """

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Token]:
        """Takes bytes in and yields what became complete."""
        self._pending += data
        while (token := self._next()) is not None:
            yield token

    def _next(self) -> Token | None:
        while self._pending:
            first = self._pending[0]
            if first in (ENQ, ACK, NAK):
                del self._pending[0]
                return Signal(first)
            if first != STX:
                del self._pending[0]
                continue
            end = self._pending.find(ETX)
            if end < 0 or end + 1 >= len(self._pending):
                if len(self._pending) > MAX_FRAME_BYTES:
                    raise ValueError("a frame without an end")
                return None
            body, check = bytes(self._pending[1 : end + 1]), self._pending[end + 1]
            del self._pending[: end + 2]
            return Frame(_split(body), check in (UNCHECKED, lrc(body)))
        return None


def _split(body: bytes) -> tuple[str, ...]:
    separator = bytes([FS])
    inner = body[:-1].removeprefix(separator).removesuffix(separator)
    return tuple(part.decode("latin-1") for part in inner.split(separator))
