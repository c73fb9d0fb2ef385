"""The event bus: one protocol, two real implementations, one factory.

Rule: whoever publishes or receives imports from here and does not know which broker answers.
"""

from sagas.bus.factory import from_settings
from sagas.bus.port import (
    BusError,
    BusMessage,
    BusMisconfigured,
    BusUnavailable,
    Delivery,
    EventBus,
    MessageRefused,
)

__all__ = [
    "BusError",
    "BusMessage",
    "BusMisconfigured",
    "BusUnavailable",
    "Delivery",
    "EventBus",
    "MessageRefused",
    "from_settings",
]
