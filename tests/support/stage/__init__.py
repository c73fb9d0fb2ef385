"""A stage for stays: the whole service in one process, on a database and a clock of its own, at real simulators.

| name | what it is |
|---|---|
| `World` | database, bus, clock, simulators; one per test process, emptied of houses for each test |
| `House` | a property with rooms on any lock systems; its events, its callers, its console, its doors |
| `Stay` | one reservation: what is told of it, and what its guest holds |
| `Artifact` | what a guest holds: digits, a card, a phone's key |

One rule: tests above this package import nothing of the product. They speak by bus, API, console addresses and commands, and ask
the simulated doors.
"""

from tests.support.stage.house import Artifact, CommandFailed, House, Stay
from tests.support.stage.world import NotQuiet, World

__all__ = ["Artifact", "CommandFailed", "House", "NotQuiet", "Stay", "World"]
