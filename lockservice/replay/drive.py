"""Drives a replay through time: the hotel's clock steps on only when nothing is left to do.

One rule: quiet means that the bus has nothing for the consumer, no saga is due or under way, and the outbox is empty, looked at
in this order, since work flows that way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection

from lockservice.core import clock
from lockservice.core.clock import NOW_SQL
from lockservice.core.tenancy import queues, tenant
from lockservice.replay.timeline import Names, Planned, Timeline, message
from sagas.bus.port import BusMessage, EventBus
from sagas.bus.topology import SERVICE_GROUP
from sagas.housekeeping import sweep
from vendors.port.simulated import SimulatorControl

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.01
PATIENCE_S = 120.0
"""Work that stands still for so long will not go on by itself."""

RETRY_PATIENCE_S = 40.0
"""A failed call is tried again after seconds, at first; longer waits are gone over, and counted."""


class StandsStill(RuntimeError):
    """Something is due and nobody does it. The text says what."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is left to do in a tenant, by both clocks. `next_at` is the hotel's next instant at which something gets due."""

    due_count: int
    retry_count: int
    unpublished_count: int
    ended_count: int
    next_at: datetime | None

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is left but what waits for the hotel's clock."""
        return not self.retry_count and self.is_only_retries

    @property
    def is_only_retries(self) -> bool:
        """Whether nothing can be done now."""
        return not (self.due_count or self.unpublished_count or self.ended_count)


@dataclass
class Pace:
    """How the clock went: steps made, and steps made although a later retry was waiting."""

    steps_count: int = 0
    impatient_count: int = 0


class Driver:
    """Steps through a timeline. `check` raises when a process that is needed has ended; `look` watches what was published."""

    def __init__(
        self,
        names: Names,
        bus: EventBus,
        control: SimulatorControl,
        *,
        check: Callable[[], None],
        look: Callable[[], object],
        speed: float | None = None,
    ) -> None:
        self._names = names
        self._bus = bus
        self._control = control
        self._check = check
        self._look = look
        self._speed = speed
        self._real_start = time.monotonic()
        self._hotel_start: datetime | None = None
        self.now = datetime.min.replace(tzinfo=UTC)
        self.pace = Pace()

    def run(self, timeline: Timeline, quiet: Callable[[int, datetime], None]) -> None:
        """Tells everything, then goes on until no key is left to end. Calls `quiet(events told, hotel's time)` after each step.

        Raises StandsStill, or what `check` and `look` raise.
        """
        told = 0
        self._set_clock(timeline.planned[0].at - timedelta(hours=1))
        work = self._wait_until_quiet(())
        for group in timeline.hours():
            while work.next_at is not None and work.next_at < _hour(group[0].at):
                work = self._step(work.next_at, ())
                quiet(told, self.now)
            work = self._step(group[-1].at, group)
            told += len(group)
            quiet(told, self.now)
        while work.next_at is not None:
            work = self._step(work.next_at, ())
            quiet(told, self.now)

    def _step(self, at: datetime, group: Sequence[Planned]) -> Work:
        self._keep_pace(at)
        if at > self.now:
            self._set_clock(at)
        messages = [message(item, self._names) for item in group]
        if messages:
            self._bus.publish(messages)
        self.pace.steps_count += 1
        return self._wait_until_quiet(messages)

    def _set_clock(self, at: datetime) -> None:
        """The simulator goes first, so that it sees no request from its future."""
        self._control.set_clock(at, running=False)
        with queues():
            clock.stop_at(at)
        self.now = at

    def _keep_pace(self, at: datetime) -> None:
        if self._speed is None:
            return
        if self._hotel_start is None:
            self._hotel_start, self._real_start = at, time.monotonic()
        wanted = self._real_start + (at - self._hotel_start).total_seconds() / self._speed
        time.sleep(max(0.0, wanted - time.monotonic()))

    def _wait_until_quiet(self, messages: Sequence[BusMessage]) -> Work:
        topics = sorted({item.topic for item in messages})
        pause, waited_since, before = FIRST_PAUSE_S, time.monotonic(), None
        while True:
            depth = sum(self._bus.depth(topic, SERVICE_GROUP) for topic in topics)
            work = read_work(self._names.tenant_id)
            if not depth and work.is_nothing:
                self._look()
                return work
            if work.ended_count:
                sweep()
            if (depth, work) != before:
                pause, waited_since, before = FIRST_PAUSE_S, time.monotonic(), (depth, work)
            if self._stood_too_long(depth, work, time.monotonic() - waited_since):
                return work
            self._check()
            time.sleep(pause)
            pause = min(LONGEST_PAUSE_S, pause * 1.5)

    def _stood_too_long(self, depth: int, work: Work, stands_s: float) -> bool:
        """Says whether to go on over a retry that is long in coming. Raises StandsStill for anything else that waits."""
        if stands_s > RETRY_PATIENCE_S and work.is_only_retries and not depth:
            self.pace.impatient_count += 1
            return True
        if stands_s > PATIENCE_S:
            raise StandsStill(f"at {self.now}, {depth} messages wait for the consumer, and {work}")
        return False


def read_work(tenant_id: str) -> Work:
    """Returns what is left to do, in one statement."""
    with tenant(tenant_id), connection.cursor() as cursor:
        cursor.execute(_WORK, {"tenant": tenant_id})
        return Work(*cursor.fetchone())


def _hour(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)


_WORK = f"""
    WITH hotel AS (SELECT {NOW_SQL} AS now),
    sagas AS (
        SELECT count(*) FILTER (WHERE status IN ('due', 'running') OR hotel_due_at <= hotel.now) AS due,
               count(*) FILTER (WHERE status = 'retry') AS retry,
               min(hotel_due_at) FILTER (WHERE status = 'timer' AND hotel_due_at > hotel.now) AS next
        FROM sagas_saga, hotel WHERE tenant_id = %(tenant)s AND status IN ('due', 'running', 'retry', 'timer')
    ), ends AS (
        SELECT count(*) FILTER (WHERE ends_at <= hotel.now) AS ended, min(ends_at) FILTER (WHERE ends_at > hotel.now) AS next
        FROM credentials_keycredential, hotel
        WHERE tenant_id = %(tenant)s AND state IN ('active', 'suspended', 'requested')
    )
    SELECT sagas.due, sagas.retry,
           (SELECT count(*) FROM sagas_outboxevent WHERE tenant_id = %(tenant)s AND published_at IS NULL AND NOT blocked),
           ends.ended, least(sagas.next, ends.next)
    FROM sagas, ends
"""  # noqa: S608 - an expression of the code's own
