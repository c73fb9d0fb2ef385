"""Time and waiting as arguments: what needs the time is given a Clock, so that tests and the demo can move it.

One rule: every instant is an aware UTC datetime.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the hotel's time (movable in the demo)."""

    def now(self) -> datetime:
        """Returns the present instant, aware, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Returns the machine's present instant in UTC."""
        return datetime.now(UTC)


class FixedClock:
    """A clock that stands still until it is set; for unit tests and pure computations."""

    def __init__(self, instant: datetime) -> None:
        self.set(instant)

    def set(self, instant: datetime) -> None:
        """Moves the clock. Raises ValueError for an instant without a zone."""
        if instant.tzinfo is None:
            raise ValueError("an instant needs a time zone")
        self._instant = instant.astimezone(UTC)

    def now(self) -> datetime:
        """Returns the instant last set."""
        return self._instant
