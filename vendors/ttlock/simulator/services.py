"""The moving parts that handlers share.

One rule: made once per program, in `program.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .calls import CallLog
from .faults import Faults
from .later import Later
from .pushes import Pushes
from .radio import Radio
from .world import World


@dataclass(frozen=True, slots=True)
class Services:
    """World, faults, radio, pushes and the call log."""

    world: World
    faults: Faults
    radio: Radio
    pushes: Pushes
    later: Later
    calls: CallLog


def assemble(world: World) -> Services:
    """Builds the parts around a world."""
    faults = Faults()
    pushes = Pushes(world)
    return Services(world, faults, Radio(world, faults), pushes, Later(world, pushes), CallLog())
