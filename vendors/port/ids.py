"""Identifiers: a ULID behind a prefix that tells what the id names.

One rule: ids of ours are made only by `new_id`; ids of other services are opaque text of at most 64 characters.
"""

from __future__ import annotations

import re
from typing import NewType

from ulid import ULID

TenantId = NewType("TenantId", str)
PropertyId = NewType("PropertyId", str)
ReservationId = NewType("ReservationId", str)
RoomId = NewType("RoomId", str)
GuestId = NewType("GuestId", str)
UserId = NewType("UserId", str)
KeyCredentialId = NewType("KeyCredentialId", str)
LockDeviceId = NewType("LockDeviceId", str)
InstallationId = NewType("InstallationId", str)

PREFIXES = frozenset("tnt ppt rsv rmu gst usr key mky lck enc dev kca whk vad evt sag alt tk sdu srt bgl job".split())
"""Prefixes in use, without the underscore. `prop_` is accepted inbound in place of `ppt_`."""

OPAQUE_ID_MAX_CHARS = 64
_OPAQUE = re.compile(r"[\x21-\x7e]{1,64}")


def new_id(prefix: str) -> str:
    """Makes a fresh id such as `key_01J…`: prefix, underscore, 26 characters of Crockford base 32.

    Ids of one prefix sort by the millisecond they were made in. Raises ValueError for a prefix not in PREFIXES.
    """
    if prefix not in PREFIXES:
        raise ValueError(f"unknown id prefix {prefix!r}")
    return f"{prefix}_{ULID()}"


def is_opaque_id(text: str) -> bool:
    """Says whether a text can be an id of another service: 1 to 64 printable ASCII characters without blanks."""
    return _OPAQUE.fullmatch(text) is not None


def canonical_property_id(text: str) -> str:
    """Maps the back-office spelling `prop_…` to ours, `ppt_…`; leaves every other text alone."""
    return f"ppt_{text[5:]}" if text.startswith("prop_") else text
