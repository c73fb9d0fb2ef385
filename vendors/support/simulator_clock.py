"""The clock of a simulator's world, which can be moved or stopped.

One rule: an instant has a zone, or it is refused.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class MovableClock:
    """The machine's time until it is told otherwise."""

    def __init__(self) -> None:
        self._shift = timedelta()
        self._stopped_at: datetime | None = None

    def now(self) -> datetime:
        """Returns the present instant of this world, in UTC."""
        return self._stopped_at or datetime.now(UTC) + self._shift

    def move(self, instant: str | None, *, running: bool = True) -> None:
        """Sets it to an instant (ISO 8601), going on from there or standing still; None is the machine's time again.

        Raises ValueError for anything else, such as an instant without a zone.
        """
        self._stopped_at = None
        if instant is None:
            self._shift = timedelta()
            return
        wanted = datetime.fromisoformat(instant)
        if wanted.tzinfo is None:
            raise ValueError("an instant needs a time zone")
        wanted = wanted.astimezone(UTC)
        self._shift = wanted - datetime.now(UTC)
        self._stopped_at = None if running else wanted
