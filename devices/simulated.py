"""Opens the control ports of the simulators that embedded mode runs.

One rule: where the settings name no simulators there are none; a real hotel's service has no way in here.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from devices import adapters
from vendors.port.simulated import Breakable, SimulatorControl, SimulatorFactory, SimulatorUnreachable


class NoSimulator(LookupError):
    """The settings or the vendor know no simulator. Trying again makes no sense."""


@dataclass(frozen=True, slots=True)
class SimulatorPlace:
    """Where a simulator listens: the vendor's side as host and port, the control port as a URL."""

    address: str
    control: str


def vendors() -> tuple[str, ...]:
    """Returns the codes of the vendors whose simulators the settings name; none outside embedded mode."""
    return tuple(getattr(settings, "SIMULATORS", {}))


def place_of(vendor: str) -> SimulatorPlace:
    """Returns where a vendor's simulator listens. Raises NoSimulator."""
    found = getattr(settings, "SIMULATORS", {}).get(vendor)
    if found is None:
        raise NoSimulator(f"no simulator of {vendor} belongs to this service")
    return SimulatorPlace(found["address"], found["control"])


def control_of(vendor: str, place: SimulatorPlace | None = None) -> SimulatorControl:
    """Opens a simulator's control port; makes no call. Raises NoSimulator."""
    factory_name = adapters.manifest(vendor).simulated
    if factory_name is None:
        raise NoSimulator(f"{vendor} has no simulator")
    where = place or place_of(vendor)
    module_name, function_name = factory_name.split(":")
    factory: SimulatorFactory = getattr(importlib.import_module(module_name), function_name)
    return factory(where.address, where.control)


def breakable(vendor: str) -> Breakable:
    """Opens the control port of a simulator that can be broken; makes no call. Raises NoSimulator."""
    control = control_of(vendor)
    if not isinstance(control, Breakable):
        raise NoSimulator(f"the simulator of {vendor} cannot be broken from here")
    return control


def set_clocks(now: datetime | None, *, running: bool) -> tuple[str, ...]:
    """Sets the clocks of all simulators that run; returns the vendors whose simulator does not answer."""
    silent = []
    for vendor in vendors():
        try:
            control_of(vendor).set_clock(now, running=running)
        except SimulatorUnreachable:
            silent.append(vendor)
    return tuple(silent)
