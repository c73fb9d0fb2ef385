"""Drives a replay through time: the hotel's clock steps on only when nothing is left to do.

One rule: quiet means that the bus has nothing for the consumer, no saga is due or under way, and the outbox is empty, looked at
in this order, since work flows that way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection

from lockservice.core import clock
from lockservice.core.clock import NOW_SQL
from lockservice.core.outage import through_outages
from lockservice.core.tenancy import queues, tenant
from lockservice.replay.timeline import Names, Planned, Timeline, message
from sagas.bus.port import BusMessage, EventBus
from sagas.bus.topology import SERVICE_GROUP
from sagas.flows import old_rooms, wake_sagas
from sagas.housekeeping import sweep
from sagas.models import Saga, SagaStatus
from vendors.port.simulated import SimulatorControl

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.015
PATIENCE_S = 180.0
"""Work that stands still for so long will not go on by itself."""

RETRY_PATIENCE_S = 40.0
"""A failed call is tried again after seconds, at first; longer waits are gone over, and counted."""


class StandsStill(RuntimeError):
    """Something is due and nobody does it. The text says what."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is left to do in a tenant now. `has_ended` means that keys are live whose windows are over.

    What looks in again until a person has acted does not count as a retry: the work of a key that waits for somebody, and the
    watch over a stay's move.
    """

    is_due: bool
    is_retrying: bool
    is_unpublished: bool
    has_ended: bool

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is left but what waits for the hotel's clock."""
        return self.can_only_wait and not self.is_retrying

    @property
    def can_only_wait(self) -> bool:
        """Whether nothing can be done at this moment; retries may come later."""
        return not (self.is_due or self.is_unpublished or self.has_ended)


@dataclass
class Pace:
    """How the clock went: steps made, and steps made although a later retry was waiting."""

    steps_count: int = 0
    impatient_count: int = 0


class Driver:
    """Steps through a timeline. `check` raises when a process that is needed has ended; `look` watches what was published;
    `serve` does at a quiet moment what the house's people do, and returns how many acts that were.

    `work` is given how many messages wait and what else is left, does a part of it, and returns whether it did. Where other
    processes work it does nothing.
    """

    def __init__(
        self,
        names: Names,
        bus: EventBus,
        controls: Collection[SimulatorControl],
        *,
        check: Callable[[], None],
        look: Callable[[], object],
        serve: Callable[[], int] = lambda: 0,
        work: Callable[[int, Work], bool] = lambda _waiting, _left: False,
        speed: float | None = None,
    ) -> None:
        self._names = names
        self._bus = bus
        self._controls = controls
        self._check = check
        self._look = look
        self._serve = serve
        self._work = work
        self._speed = speed
        self._real_start = time.monotonic()
        self._hotel_start: datetime | None = None
        self.now = datetime.min.replace(tzinfo=UTC)
        self.pace = Pace()

    def run(self, timeline: Timeline, quiet: Callable[[int, datetime], None]) -> None:
        """Tells everything, then goes on until no key is left to end. Calls `quiet(events told, hotel's time)` after each step.

        An outage of the database is waited out. Raises StandsStill, or what `check` and `look` raise.
        """
        told = 0
        through_outages(lambda: self._set_clock(timeline.planned[0].at - timedelta(hours=1)), PATIENCE_S)
        next_at = through_outages(lambda: self._wait_until_quiet(()), PATIENCE_S)
        for group in timeline.hours():
            while next_at is not None and next_at < _hour(group[0].at):
                next_at = self._step(next_at, ())
                quiet(told, self.now)
            next_at = self._step(group[-1].at, group)
            told += len(group)
            quiet(told, self.now)
        while next_at is not None:
            next_at = self._step(next_at, ())
            quiet(told, self.now)

    def _step(self, at: datetime, group: Sequence[Planned]) -> datetime | None:
        """Moves the clock, tells the events, waits; returns the hotel's next instant at which something gets due by itself."""
        self._keep_pace(at)
        if at > self.now:
            through_outages(lambda: self._set_clock(at), PATIENCE_S)
        letters = [message(item, self._names) for item in group]
        messages = [BusMessage(one.topic, one.key, one.body, one.attributes) for one in letters]
        if messages:
            self._bus.publish(messages)
        self.pace.steps_count += 1
        return through_outages(lambda: self._wait_until_quiet(messages), PATIENCE_S)

    def _set_clock(self, at: datetime) -> None:
        """The simulators go first, so that they see no request from their future."""
        for control in self._controls:
            control.set_clock(at, running=False)
        with queues():
            clock.stop_at(at)
        self._watch_moves()
        self.now = at

    def _watch_moves(self) -> None:
        """Have each move looked at once a step, which stands for the look that it has each minute of a hotel's time."""
        with tenant(self._names.tenant_id):
            wake_sagas.wake(Saga.objects.filter(tenant_id=self._names.tenant_id, flow=old_rooms.FLOW, status=SagaStatus.RETRY))

    def _keep_pace(self, at: datetime) -> None:
        if self._speed is None:
            return
        if self._hotel_start is None:
            self._hotel_start, self._real_start = at, time.monotonic()
        wanted = self._real_start + (at - self._hotel_start).total_seconds() / self._speed
        time.sleep(max(0.0, wanted - time.monotonic()))

    def _wait_until_quiet(self, messages: Sequence[BusMessage]) -> datetime | None:
        topics = sorted({item.topic for item in messages})
        pause, started, waiting_since = FIRST_PAUSE_S, time.monotonic(), time.monotonic()
        while True:
            depth = sum(self._bus.depth(topic, SERVICE_GROUP) for topic in topics)
            work = read_work(self._names.tenant_id)
            now = time.monotonic()
            if depth or not work.can_only_wait:
                waiting_since = now
            if work.has_ended:
                sweep()
            if (work.is_nothing and not depth) or self._is_gone_over(now - waiting_since):
                if self._serve():
                    waiting_since = time.monotonic()
                    continue
                self._look()
                return next_due(self._names.tenant_id)
            if now - started > PATIENCE_S:
                raise StandsStill(f"at {self.now}, {depth} messages wait for the consumer, and {work}")
            self._check()
            if not self._work(depth, work):
                time.sleep(pause)
                pause = min(LONGEST_PAUSE_S, pause * 1.3)

    def _is_gone_over(self, waited_s: float) -> bool:
        """Says whether to go on over a retry that is long in coming."""
        if waited_s <= RETRY_PATIENCE_S:
            return False
        self.pace.impatient_count += 1
        return True


def read_work(tenant_id: str) -> Work:
    """Returns what is left to do, in one statement that touches only rows that are due."""
    with tenant(tenant_id), connection.cursor() as cursor:
        cursor.execute(_WORK, {"tenant": tenant_id, "watch": old_rooms.FLOW})
        return Work(*cursor.fetchone())


def next_due(tenant_id: str) -> datetime | None:
    """Returns the hotel's next instant at which a saga's timer or a key's window ends; None when there is none."""
    with tenant(tenant_id), connection.cursor() as cursor:
        cursor.execute(_NEXT, {"tenant": tenant_id})
        found: datetime | None = cursor.fetchone()[0]
        return found


def _hour(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)


_WORK = f"""
    SELECT
        EXISTS (SELECT FROM sagas_saga WHERE tenant_id = %(tenant)s AND status = 'due')
        OR EXISTS (SELECT FROM sagas_saga WHERE tenant_id = %(tenant)s AND status = 'running')
        OR EXISTS (SELECT FROM sagas_saga
                   WHERE tenant_id = %(tenant)s AND status = 'timer' AND hotel_due_at <= {NOW_SQL}),
        EXISTS (SELECT FROM sagas_saga s WHERE tenant_id = %(tenant)s AND status = 'retry' AND NOT EXISTS (
            SELECT FROM credentials_keycredential k WHERE k.tenant_id = %(tenant)s AND k.id = s.credential_id
            AND k.state IN ('pending', 'requested') AND k.waiting_for <> '') AND flow <> %(watch)s),
        EXISTS (SELECT FROM sagas_outboxevent WHERE tenant_id = %(tenant)s AND published_at IS NULL AND NOT blocked),
        EXISTS (SELECT FROM credentials_keycredential WHERE tenant_id = %(tenant)s
                AND state IN ('active', 'suspended', 'requested') AND ends_at <= {NOW_SQL})
"""  # noqa: S608 - an expression of the code's own
_NEXT = f"""
    SELECT least(
        (SELECT min(hotel_due_at) FROM sagas_saga
         WHERE tenant_id = %(tenant)s AND status = 'timer' AND hotel_due_at > {NOW_SQL}),
        (SELECT min(ends_at) FROM credentials_keycredential
         WHERE tenant_id = %(tenant)s AND state IN ('active', 'suspended', 'requested') AND ends_at > {NOW_SQL}))
"""  # noqa: S608 - an expression of the code's own
