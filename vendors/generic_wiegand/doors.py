"""How a door of this vendor is named.

One rule: a door is a number, because that is all a record or a controller's list can hold; `area:` before it says that many
guests use it, so that no stay may take it over.
"""

from __future__ import annotations

from dataclasses import dataclass

from vendors.port.errors import DeviceNotPaired
from vendors.port.types import Door

from .manifest_code import CODE
from .records import MAX_NUMBER

SHARED = "area:"


@dataclass(frozen=True, slots=True)
class Place:
    """A door's number (1 to 2^32 - 1), and whether it is shared."""

    number: int
    is_shared: bool


def place_of(door: Door) -> Place:
    """Reads a door's external id, `301` or `area:7`. Raises DeviceNotPaired for anything else."""
    is_shared = door.external_id.startswith(SHARED)
    digits = door.external_id.removeprefix(SHARED)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10 and 0 < int(digits) <= MAX_NUMBER):
        raise DeviceNotPaired(CODE, "a door of this vendor is named by a number", device_id=door.device_id)
    return Place(int(digits), is_shared)
