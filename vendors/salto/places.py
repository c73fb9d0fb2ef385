"""How a door is named to the vendor: a room by its exact name, a shared door by its authorisation, `auth:<number>`.

One rule: at most four rooms a key; shared doors do not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vendors.port.errors import DeviceNotPaired
from vendors.port.types import Door

from .errors import refused_issue
from .manifest_code import CODE
from .pms_words import MAX_AUTHORISATION, MAX_ROOMS

_SHARED = re.compile(r"auth:(\d{1,2})")


@dataclass(frozen=True, slots=True)
class Places:
    """The doors of one key, as both wires want them."""

    rooms: tuple[str, ...]
    grants: tuple[int, ...]


def authorisation_of(external_id: str) -> int | None:
    """Returns the authorisation's number, 1 to 62, None for a room. Raises DeviceNotPaired for a number there is not."""
    found = _SHARED.fullmatch(external_id)
    if found is None:
        return None
    number = int(found[1])
    if not 1 <= number <= MAX_AUTHORISATION:
        raise DeviceNotPaired(CODE, f"authorisations are numbered 1 to {MAX_AUTHORISATION}")
    return number


def places_of(doors: Sequence[Door]) -> Places:
    """Sorts doors into rooms and authorisations. Raises KeyIssueFailed for more than four rooms, DeviceNotPaired."""
    shared = {door.external_id: authorisation_of(door.external_id) for door in doors}
    rooms = tuple(dict.fromkeys(name for name, number in shared.items() if number is None))
    if len(rooms) > MAX_ROOMS:
        raise refused_issue(f"a key carries at most {MAX_ROOMS} rooms; issue several keys")
    return Places(rooms, tuple(sorted(number for number in shared.values() if number is not None)))
