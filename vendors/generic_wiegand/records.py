"""The record that a stand-alone lock reads from a card: 48 bytes for each door, and how the lock judges it.

| bytes | field |
|---|---|
| 0-1 | magic `MK` |
| 2 | version, 1 |
| 3 | flags: bit 0 staff, bit 1 opens a thrown deadbolt, bit 2 joiner |
| 4-7 | number of the property, unsigned, high byte first |
| 8-11 | number of the door or door group |
| 12-15 | sequence: one more for each overriding issue at the door; a joiner repeats it; 0 at shared doors |
| 16-19, 20-23 | valid from, valid until: seconds since 1970 UTC, start included, end excluded |
| 24-31 | tag of the credential: the head of its SHA-256 |
| 32-47 | head of HMAC-SHA-256(property key, "mk1" + length of UID + UID + bytes 0-31) |

One rule: the MAC is over the card's UID, so that a copy on another card is refused, and it is checked before anything is read.
Example, without MAC: property 7, door 301, sequence 2, 2026-05-01 12:00 to 2026-05-03 10:00 UTC, joiner:
`4D 4B 01 04 00 00 00 07 00 00 01 2D 00 00 00 02 69 F4 95 C0 69 F7 1C A0` and eight bytes of tag.
Source: fact sheet §2.6, a proposal that was tried on a virtual card; no lock of a vendor reads it.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

RECORD_BYTES = 48
BODY_BYTES = 32
BLOCK_BYTES = 16
MAGIC, VERSION = b"MK", 1
STAFF, DEADBOLT, JOINER = 1, 2, 4
MAX_NUMBER = 2**32 - 1
_LAYOUT = struct.Struct(">2sBBIIIII8s")


class Verdict(StrEnum):
    """What a lock makes of a record, in the order of its checks."""

    BAD_MAC = "bad_mac"
    BAD_VERSION = "bad_version"
    WRONG_DOOR = "wrong_door"
    OUTSIDE_WINDOW = "outside_window"
    SUPERSEDED = "superseded"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Record:
    """A record's fields; numbers are 0 to 2^32 - 1, instants aware, `tag` is eight bytes."""

    property_number: int
    door: int
    sequence: int
    valid_from: datetime
    valid_until: datetime
    tag: bytes
    flags: int = 0

    def pack(self) -> bytes:
        """Returns bytes 0 to 31. A start with a part of a second is rounded up, an end down. Raises ValueError for a field that
        does not fit: cutting it off would let two guests share a number."""
        start, end = -int(-self.valid_from.timestamp() // 1), int(self.valid_until.timestamp())
        numbers = (self.property_number, self.door, self.sequence, start, end)
        if len(self.tag) != 8 or not all(0 <= number <= MAX_NUMBER for number in numbers):
            raise ValueError("a field does not fit into the record")
        return _LAYOUT.pack(MAGIC, VERSION, self.flags, *numbers, self.tag)


def seal(body: bytes, property_key: bytes, uid: bytes) -> bytes:
    """Returns the 16 bytes that make a body genuine on the card of this UID."""
    return hmac.new(property_key, b"mk1" + bytes([len(uid)]) + uid + body, hashlib.sha256).digest()[:BLOCK_BYTES]


def credential_tag(credential_id: str) -> bytes:
    """Returns the eight bytes that stand for a credential: a lock's log can be matched, and no id leaks."""
    return hashlib.sha256(credential_id.encode()).digest()[:8]


def unpack(body: bytes) -> Record | None:
    """Reads bytes 0 to 31 without judging them; None when they are no record of this version."""
    if len(body) < BODY_BYTES:
        return None
    magic, version, flags, prop, door, sequence, start, end, tag = _LAYOUT.unpack(body[:BODY_BYTES])
    if magic != MAGIC or version != VERSION:
        return None
    instants = (datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC))
    return Record(prop, door, sequence, *instants, tag, flags)


def read_genuine(
    blob: bytes, uid: bytes, *, property_key: bytes, property_number: int, door: int
) -> tuple[Verdict, Record | None]:
    """Reads 48 bytes as far as they are this door's own: OK and the record, whatever its window and sequence."""
    body, mac = blob[:BODY_BYTES], blob[BODY_BYTES:]
    if len(blob) != RECORD_BYTES or not hmac.compare_digest(mac, seal(body, property_key, uid)):
        return Verdict.BAD_MAC, None
    record = unpack(body)
    if record is None:
        return Verdict.BAD_VERSION, None
    if (record.property_number, record.door) != (property_number, door):
        return Verdict.WRONG_DOOR, record
    return Verdict.OK, record


def judge(
    blob: bytes, uid: bytes, *, property_key: bytes, property_number: int, door: int, seen: int, now: datetime
) -> tuple[Verdict, Record | None]:
    """Judges 48 bytes as the lock at `door` does, which has seen sequence `seen` and whose own clock says `now`."""
    verdict, record = read_genuine(blob, uid, property_key=property_key, property_number=property_number, door=door)
    if verdict is not Verdict.OK or record is None:
        return verdict, record
    if not record.valid_from <= now < record.valid_until:
        return Verdict.OUTSIDE_WINDOW, record
    return (Verdict.SUPERSEDED if record.sequence < seen else Verdict.OK), record
