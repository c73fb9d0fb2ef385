"""Builds the adapter of an installation: cards for stand-alone locks, or lists of a controller in the house.

One rule: it makes no call and no file; a desk of the property does all the work, through the relay.
"""

from __future__ import annotations

from vendors.port.manifest import AdapterContext
from vendors.port.protocol import LockPort

from .controller import ControllerPort
from .settings import Locks, read_settings
from .standalone import StandalonePort


def build(context: AdapterContext) -> LockPort:
    """Builds the adapter. Raises ValueError naming a setting that is missing or malformed."""
    settings = read_settings(context)
    if settings.locks is Locks.CONTROLLER:
        return ControllerPort(settings, context)
    return StandalonePort(settings, context)
