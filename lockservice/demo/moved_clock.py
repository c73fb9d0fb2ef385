"""Moves the hotel's clock of the demo, and the simulators' clocks with it.

One rule: the simulators go first, so that no vendor sees a request from a future it does not know yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from devices import simulated
from lockservice.core import clock
from lockservice.core.clock import HotelClock
from lockservice.core.tenancy import queues


@dataclass(frozen=True, slots=True)
class ClockState:
    """The hotel's clock as it stands. `ahead` of real time where it runs; `silent`: vendors whose simulator did not answer."""

    now: datetime
    stopped: bool
    ahead: timedelta
    silent: Sequence[str] = ()

    @property
    def is_real(self) -> bool:
        """Whether the hotel's time is real time."""
        return not self.stopped and not self.ahead


def read() -> ClockState:
    """Returns the clock's state."""
    with queues():
        row = HotelClock.objects.filter(id=1).first()
        return ClockState(clock.now(), row is not None and row.stopped_at is not None, row.ahead if row else timedelta(0))


def stop_at(instant: datetime) -> ClockState:
    """Stops the clocks at an instant. Raises ValueError without a zone."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    silent = simulated.set_clocks(instant, running=False)
    with queues():
        clock.stop_at(instant)
    return ClockState(instant, stopped=True, ahead=timedelta(0), silent=silent)


def advance(by: timedelta) -> ClockState:
    """Moves the clocks on (or back); a stopped one stays stopped, a running one runs on."""
    before = read()
    if before.stopped:
        return stop_at(before.now + by)
    return run_ahead(before.ahead + by)


def run() -> ClockState:
    """Lets a stopped clock run on from where it stands."""
    before = read()
    return run_ahead(before.now - datetime.now(UTC)) if before.stopped else before


def run_ahead(ahead: timedelta) -> ClockState:
    """Lets the clocks run ahead of (or behind) real time; zero is real time."""
    now = datetime.now(UTC) + ahead
    silent = simulated.set_clocks(now if ahead else None, running=True)
    with queues():
        clock.run_ahead(ahead)
    return ClockState(now, stopped=False, ahead=ahead, silent=silent)
