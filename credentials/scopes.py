"""Staff scopes in their one spelling: `room:<id>`, `floor:<n>`, `rooms:assigned`, `rooms:all`, `areas:<area>`, `areas:all`,
`back_of_house`.

One rule: a scope is parsed here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from vendors.port.types import Area

_FIXED = {
    "rooms:assigned": "rooms_assigned",
    "rooms:all": "rooms_all",
    "areas:all": "areas_all",
    "back_of_house": "back_of_house",
}


@dataclass(frozen=True, slots=True)
class StaffScope:
    """What a staff master key opens. `kind` is room, floor, area, rooms_assigned, rooms_all, areas_all or back_of_house."""

    kind: str
    value: str = ""


def parse_scope(text: str) -> StaffScope:
    """Reads one scope. Raises ValueError naming what is wrong."""
    if text in _FIXED:
        return StaffScope(_FIXED[text])
    head, _, value = text.partition(":")
    if head in {"room", "floor"} and value:
        return StaffScope(head, value)
    if head == "areas" and value in set(Area):
        return StaffScope("area", value)
    raise ValueError(f"unknown staff scope {text[:40]!r}")
