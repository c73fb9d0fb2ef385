"""Runs due saga steps: claims lanes, plans in batches, calls vendors in parallel, records in batches.

One rule: this thread alone touches the database; vendor calls run in a bounded pool that never does. Everything a runner holds
is leased, so a runner may die anywhere.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction

from credentials import artifacts, locks, pin_slots
from credentials.models import Reservation
from credentials.services import KeyBatch
from credentials.targets import Verb
from devices import adapters, breaker, breaker_rules, call_counts
from lockservice.core import tenancy
from lockservice.core.loops import LoopGuard
from lockservice.core.outage import is_outage
from sagas import claims
from sagas.alerts import NewAlert, raise_alerts
from sagas.flows import (
    bulk_revoke,
    clock_again,
    decommission,
    doors_changed,
    follow_booking,
    follow_stays,
    guest_came,
    old_rooms,
    room_move,
    settle_plan,
    settle_record,
    shared_rooms,
    successors,
    wake_sagas,
)
from sagas.models import SagaStatus
from sagas.steps import Answer, Call, StepContext, Work, act
from vendors.port.types import Outcome

log = structlog.get_logger(__name__)

BATCH = 50
POOL = 128
RESERVED_SHARE = 0.2
"""The part of the pool's threads that is kept for priority 0."""
RENEW_S = 2.0
PROGRESS_S = 10.0
"""A lane's progress is noted at most so often."""
IDLE_S = (0.02, 0.2)
"""Shortest and longest pause when nothing is due; settings.IDLE_MAX_S may shorten both."""
LANES_AT_ONCE = 64
RELEASE_S = 0.1
FAIR_TURN = 8
"""Of so many turns of a lane one is for less urgent work first, so that urgent work without end does not starve it."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A flow that goes over many keys, `page_size` a transaction, `rounds` times with a pause in between."""

    next_page: Callable[[str, dict[str, Any]], list[str]]
    run_page: Callable[[KeyBatch, Work], None]
    page_size: int
    rounds: int = 1
    pause_s: float = 0.0
    of_stays: bool = False
    """Whether a page holds reservations, all of whose keys are meant, rather than credentials."""


_WALKS = {
    bulk_revoke.FLOW: Walk(bulk_revoke.next_page, bulk_revoke.run_page, bulk_revoke.PAGE),
    decommission.FLOW: Walk(
        decommission.next_page, decommission.run_page, decommission.PAGE, decommission.ROUNDS, decommission.PAUSE_S
    ),
    doors_changed.FLOW: Walk(
        doors_changed.next_page, doors_changed.run_page, decommission.PAGE, decommission.ROUNDS, decommission.PAUSE_S
    ),
    follow_stays.FLOW: Walk(
        follow_stays.next_page,
        follow_stays.run_page,
        follow_stays.PAGE,
        follow_stays.ROUNDS,
        follow_stays.PAUSE_S,
        of_stays=True,
    ),
    clock_again.FLOW: Walk(
        clock_again.next_page, clock_again.run_page, clock_again.PAGE, clock_again.ROUNDS, clock_again.PAUSE_S
    ),
}


_OF_STAYS = frozenset({follow_booking.NO_SHOW_FLOW, guest_came.FLOW, shared_rooms.FLOW}) | successors.FLOWS
"""Flows over one stay, whose projection and keys are locked."""


class Runner:
    """One runner. `owner` is random per incarnation, never a host or worker name.

    `pool` runs the vendor calls, at most `pool_size` at once; without one the runner makes its own threads. Idle lanes
    are given back every `release_s` seconds.
    """

    def __init__(
        self,
        *,
        pool_size: int = POOL,
        only: Sequence[str] | None = None,
        pool: Executor | None = None,
        release_s: float = RELEASE_S,
    ) -> None:
        self.owner = uuid.uuid4().hex
        self._only = list(only) if only is not None else None
        self._pool = pool or ThreadPoolExecutor(pool_size, thread_name_prefix="act")
        self._pool_size = pool_size
        self._release_s = release_s
        self._lanes: dict[str, tuple[int, int]] = {}
        self._flying: dict[Future[Answer], Work] = {}
        self._progressed: dict[str, float] = {}
        self._renewed = 0.0
        self._random = random.Random()  # noqa: S311 - jitter
        self._unrecorded: list[tuple[Work, Answer]] = []
        self._released = 0.0
        self._woken = 0.0
        self._in_doubt = False
        self._turn = 0
        self._turns: Counter[str] = Counter()
        self._idle_s = tuple(min(pause, settings.IDLE_MAX_S) for pause in IDLE_S)
        self.steps = 0

    def run(self, *, until: Callable[[], bool], max_s: float | None = None, drain: bool = False) -> int:
        """Works until `until()` is true, `max_s` seconds are over, or (drain) nothing is due and nothing is in flight.

        Returns the number of steps recorded. A failure is waited out: leases make repeating safe, and what is held stays held
        until its lease says otherwise. In a drain, a failure that is no outage is raised.
        """
        ends = time.monotonic() + max_s if max_s is not None else None
        pause = self._idle_s[0]

        def is_over() -> bool:
            return until() or (ends is not None and time.monotonic() >= ends)

        with LoopGuard("runner", stopped=is_over) as guard:
            while not is_over():
                try:
                    busy = self.round()
                    done = drain and not busy and self._drained()
                except Exception as error:
                    if drain and not is_outage(error):
                        raise
                    guard.failed(error)
                    continue
                guard.succeeded()
                if done:
                    break
                if busy:
                    pause = self._idle_s[0]
                else:
                    pause = min(self._idle_s[1], pause * 1.5)
                    self._wait(pause)
        self._finish()
        return self.steps

    def round(self) -> bool:
        """Does one round and says whether anything was claimed or recorded. After a failure the next looks for lost claims."""
        try:
            recorded, planned = self._record_and_claim()
        except Exception:
            self._in_doubt = True
            raise
        if self._flying and not planned and not recorded:
            self._wait(self._idle_s[0])
            return True
        return bool(recorded or planned)

    def _record_and_claim(self) -> tuple[int, int]:
        self._renew_if_due()
        if self._in_doubt:
            self._unclaim_lost()
        recorded = self._record()
        planned = self._claim_and_plan()
        self._release_idle()
        return recorded, planned

    def wait_for_answer(self, seconds: float) -> None:
        """Waits at most so long for a vendor's answer; not at all when none is awaited."""
        if self._flying:
            wait(list(self._flying), timeout=seconds, return_when=FIRST_COMPLETED)

    def _drained(self) -> bool:
        """Whether nothing is in flight and no lane held has anything due: a round does not offer every lane a place."""
        if self._flying or self._unrecorded:
            return False
        self._released = 0.0
        self._release_idle()
        return not self._lanes

    def _claim_and_plan(self) -> int:
        if time.monotonic() - self._woken >= self._idle_s[0]:
            with tenancy.queues():  # a transaction of its own: it locks sagas before any credential, acts the other way round
                claims.wake_due()
            self._woken = time.monotonic()
        with tenancy.queues():
            room = LANES_AT_ONCE - len(self._lanes)
            if room > 0:
                self._lanes.update(claims.claim_lanes(self.owner, room, list(self._lanes), self._only))
            if not self._lanes:
                return 0
            slots, urgent = self._slots()
            claimed = claims.claim_sagas(slots, urgent, self._from_priority(slots))
            works = sorted(claimed, key=lambda work: (work.priority, work.id))
            calls = self._plan_batch(works) if works else []
        for work, call in calls:
            self._flying[self._pool.submit(act, call)] = work
        return len(works)

    def _slots(self) -> tuple[dict[str, tuple[int, int]], list[str]]:
        """How many sagas each lane may take now. One of every wide lane's places, and a part of the pool, is kept for
        priority 0. What the pool has free is shared out evenly, a different lane first each round: whether a lane has work
        is not known here, so a quiet lane must not keep a busy one waiting."""
        in_lane = self._in_hand()
        free = self._pool_size - len(self._flying)
        spare = max(0, free - int(self._pool_size * RESERVED_SHARE))
        share = max(1, min(BATCH, 2 * spare // max(1, len(self._lanes))))
        slots: dict[str, tuple[int, int]] = {}
        urgent: list[str] = []
        for lane, (token, width) in self._in_turn():
            if lane.endswith(":internal"):  # calls no vendor, so it takes no thread from the others
                slots[lane] = (token, BATCH)
                continue
            places = width - in_lane[lane]
            if width > 1:
                places -= 1  # the last place is for priority 0
            if in_lane[lane] >= width or free <= 0:
                continue
            taken = min(places, share, spare)
            if taken <= 0:
                urgent.append(lane)
                taken = 1
            else:
                spare -= taken
            slots[lane] = (token, taken)
        return slots, urgent

    def _from_priority(self, lanes: Iterable[str]) -> dict[str, int]:
        """Says which lanes take less urgent work first this time: one turn in FAIR_TURN, of these one in two that of the next
        priority."""
        found = {}
        for lane in lanes:
            turn = self._turns[lane] = self._turns[lane] + 1
            if turn % FAIR_TURN == 0:
                passed = turn // FAIR_TURN
                found[lane] = 3 if passed % 4 == 0 else 2 if passed % 2 == 0 else 1
        return found

    def _in_turn(self) -> list[tuple[str, tuple[int, int]]]:
        lanes = list(self._lanes.items())
        self._turn += 1
        first = self._turn % max(1, len(lanes))
        return lanes[first:] + lanes[:first]

    def _in_hand(self) -> Counter[str]:
        """How many steps of each lane are at a vendor, or back and not recorded yet; such a lane must not be given back."""
        works = (*self._flying.values(), *(work for work, _ in self._unrecorded))
        return Counter(work.lane for work in works)

    def _plan_batch(self, works: list[Work]) -> list[tuple[Work, Call]]:
        by_tenant: dict[str, list[Work]] = defaultdict(list)
        for work in works:
            by_tenant[work.tenant_id].append(work)
        calls: list[tuple[Work, Call]] = []
        for tenant_id, mine in by_tenant.items():
            calls.extend(self._plan_tenant(tenant_id, mine))
        return calls

    def _plan_tenant(self, tenant_id: str, works: list[Work]) -> list[tuple[Work, Call]]:
        """Plans one tenant's share; when one of them fails, each is planned alone under a savepoint."""
        try:
            with transaction.atomic():
                return self._plan_together(tenant_id, works)
        except Exception as error:
            if is_outage(error):
                raise
            if len(works) == 1:  # one faulty saga must not stop its neighbours
                self._bury(tenant_id, works[0], error)
                return []
        return [call for work in works for call in self._plan_tenant(tenant_id, [work])]

    def _plan_together(self, tenant_id: str, works: list[Work]) -> list[tuple[Work, Call]]:
        hotel_now, real_now = claims.clocks()
        adapters.vendor_clock().observe(hotel_now)
        internal = [work for work in works if work.credential_id is None]
        internal.sort(key=lambda work: work.reservation_id or "")  # stays are locked in one order, or two of us deadlock
        keyed = [work for work in works if work.credential_id is not None]
        calls: list[tuple[Work, Call]] = []
        tenancy.switch_to_tenant(tenant_id)
        for work in internal:
            _run_internal(work, tenant_id, hotel_now, real_now)
        if keyed:
            context = self._context(tenant_id, keyed, hotel_now, real_now)
            acting = {key.acting_saga for key in context.batch.keys.values() if key.acting_saga}
            busy = claims.still_running(acting - {work.id for work in keyed}) if acting else set()
            provisions = settle_plan.provide(context, keyed, busy)
            for work in keyed:
                call = settle_plan.plan(context, work, provisions)
                if call is not None:
                    calls.append((work, call))
            _flush(context)
            _wake_waiting(context, [work for work in keyed if work.status in (SagaStatus.DONE, SagaStatus.DEAD)])
        tenancy.switch_to_queues()
        self._save_decided(works, calls, real_now)
        return calls

    def _save_decided(self, works: list[Work], calls: list[tuple[Work, Call]], real_now: object) -> None:
        """Works with a call stay running (their step and attempts are written); the others are put where plan said."""
        calling = {work.id for work, _ in calls}
        for work in works:
            if work.id not in calling and work.status == SagaStatus.RUNNING.value:
                work.status = SagaStatus.DONE.value
        claims.save(works, real_now)  # type: ignore[arg-type]
        over = (SagaStatus.DONE.value, SagaStatus.DEAD.value)
        self._note_progress(work.lane for work in works if work.status in over or work.credential_id is None)

    def _note_progress(self, lanes: Iterable[str]) -> None:
        """Notes for the watch that these lanes go on; what only waits again is no progress. Inside a queue block."""
        moment = time.monotonic()
        fresh = {lane for lane in lanes if moment - self._progressed.get(lane, -PROGRESS_S) >= PROGRESS_S}
        if fresh:
            claims.note_progress(fresh)
            self._progressed |= dict.fromkeys(fresh, moment)

    def _record(self) -> int:
        """Records what has come back. An answer stays in hand until its record is committed."""
        for future in [future for future in self._flying if future.done()]:
            self._unrecorded.append((self._flying.pop(future), future.result()))
        pairs = self._unrecorded[: BATCH * 2]
        by_tenant: dict[str, list[tuple[Work, Answer]]] = defaultdict(list)
        for work, answer in pairs:
            by_tenant[work.tenant_id].append((work, answer))
        for tenant_id, mine in by_tenant.items():
            self._record_tenant(tenant_id, mine)
        del self._unrecorded[: len(pairs)]
        self.steps += len(pairs)
        return len(pairs)

    def _record_tenant(self, tenant_id: str, pairs: list[tuple[Work, Answer]]) -> None:
        try:
            with tenancy.queues():
                self._record_together(tenant_id, pairs)
        except Exception as error:
            if is_outage(error):
                raise
            if len(pairs) == 1:  # one faulty answer must not stop its neighbours
                with tenancy.queues():
                    self._bury(tenant_id, pairs[0][0], error)
                return
            for pair in pairs:
                self._record_tenant(tenant_id, [pair])

    def _record_together(self, tenant_id: str, pairs: list[tuple[Work, Answer]]) -> None:
        ours = claims.still_ours([work for work, _ in pairs])
        if len(ours) < len(pairs):
            log.warning("runner.fenced", late=len(pairs) - len(ours))
        standing = [(work, answer) for work, answer in pairs if work.id in ours]
        if not standing:
            return
        hotel_now, real_now = claims.clocks()
        tenancy.switch_to_tenant(tenant_id)
        context = self._context(tenant_id, [work for work, _ in standing], hotel_now, real_now)
        pending = [key.id for key in context.batch.keys.values() if key.state == "pending"]
        context.artifacts = artifacts.current(tenant_id, pending)
        for work, answer in standing:
            settle_record.record(context, work, answer)
        _flush(context)
        old_rooms.wake(tenant_id, context.opened)
        _wake_waiting(context, [work for work, _ in standing])
        call_counts.add(tenant_id, _calls_made(standing), hotel_now)
        breaker.note(tenant_id, _heard(standing), hotel_now, real_now, settings.RETRY_SCALE)
        tenancy.switch_to_queues()
        claims.write_steps(context.log)
        claims.save([work for work, _ in standing], real_now)
        self._note_progress(work.lane for work, _ in standing)

    def _context(self, tenant_id: str, works: list[Work], hotel_now: object, real_now: object) -> StepContext:
        ids = [work.credential_id for work in works if work.credential_id]
        batch = KeyBatch.load(tenant_id, ids, hotel_now)  # type: ignore[arg-type]
        return StepContext(batch, real_now, self._random.random, settings.RETRY_SCALE)  # type: ignore[arg-type]

    def _bury(self, tenant_id: str, work: Work, error: Exception) -> None:
        """Our bug: the saga stops here with its reason, and somebody is told. Inside a queue block."""
        log.error("runner.saga_dead", saga=work.id, flow=work.flow, exc_info=error)
        work.status, work.error_code, work.error_detail = SagaStatus.DEAD.value, "INTERNAL_ERROR", type(error).__name__
        hotel_now, real_now = claims.clocks()
        claims.save([work], real_now)
        tenancy.switch_to_tenant(tenant_id)
        alert = NewAlert(f"bug:{work.id}", "INTERNAL_ERROR", "critical", "a saga stopped on an error of ours", "lock/saga-dead")
        raise_alerts(tenant_id, [alert], hotel_now)
        tenancy.switch_to_queues()

    def _renew_if_due(self) -> None:
        if not self._lanes or time.monotonic() - self._renewed < RENEW_S:
            return
        with tenancy.queues():
            kept = claims.renew(self.owner, {lane: token for lane, (token, _) in self._lanes.items()})
        self._renewed = time.monotonic()
        self._lanes = {lane: value for lane, value in self._lanes.items() if lane in kept}

    def _unclaim_lost(self) -> None:
        """After an outage: the last claim may have been committed without our hearing of it. What is claimed by us and in
        nobody's hands is due again, or it would wait until its lane is idle."""
        in_hand = {work.id for work in self._flying.values()} | {work.id for work, _ in self._unrecorded}
        with tenancy.queues():
            lost = claims.unclaim({lane: token for lane, (token, _) in self._lanes.items()}, in_hand)
        self._in_doubt = False
        if lost:
            log.warning("runner.unclaimed", sagas=lost)

    def _release_idle(self) -> None:
        if not self._lanes or time.monotonic() - self._released < self._release_s:
            return
        self._released = time.monotonic()
        flying = set(self._in_hand())
        quiet = [lane for lane in self._lanes if lane not in flying]
        if not quiet:
            return
        with tenancy.queues():
            idle = claims.idle_lanes(quiet)
            claims.release(self.owner, {lane: self._lanes[lane][0] for lane in idle})
        for lane in idle:
            del self._lanes[lane]

    def _wait(self, seconds: float) -> None:
        """Pauses, or less if an answer comes."""
        if self._flying:
            self.wait_for_answer(seconds)
        else:
            time.sleep(seconds)

    def _finish(self) -> None:
        """Records what is in flight as far as it ends soon, and gives the lanes back; the rest is found by the next owner."""
        if self._flying:
            wait(list(self._flying), timeout=settings.RUNNER_GRACE_S)
        try:
            while self._record():
                pass
            flying = set(self._in_hand())
            with tenancy.queues():
                claims.release(self.owner, {lane: token for lane, (token, _) in self._lanes.items() if lane not in flying})
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("runner.waits", error=type(error).__name__)  # the leases end by themselves
        self._lanes.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _run_internal(work: Work, tenant_id: str, hotel_now: datetime, real_now: datetime) -> None:
    """Runs a flow that calls no vendor, inside the tenant's block."""
    if work.flow == room_move.FLOW:
        _look_at_move(work, tenant_id, hotel_now, real_now)
        return
    if work.flow in _OF_STAYS:
        rows = Reservation.objects.select_for_update().filter(tenant_id=tenant_id, reservation_id=work.reservation_id)
        row = next(iter(rows), None)
        batch = KeyBatch.load_stays(tenant_id, [work.reservation_id or ""], hotel_now)
        if work.flow in successors.FLOWS:
            successors.run(tenant_id, work, batch, row)
        elif work.flow == guest_came.FLOW:
            guest_came.run(batch, row)
        elif work.flow == shared_rooms.FLOW:
            shared_rooms.run(batch)
        else:
            follow_booking.run_no_show(batch, row, work.id, work.cause)
        batch.flush()
        work.status = SagaStatus.DONE.value
        return
    walk = _WALKS.get(work.flow)
    if walk is None:
        raise LookupError(f"no flow {work.flow}")
    page = walk.next_page(tenant_id, work.args)
    load = KeyBatch.load_stays if walk.of_stays else KeyBatch.load
    batch = load(tenant_id, page, hotel_now)
    work.args = {**work.args, "page": page} if walk.of_stays else work.args
    walk.run_page(batch, work)
    batch.flush()
    work.step += 1
    _turn_page(walk, work, page, real_now)


def _look_at_move(work: Work, tenant_id: str, hotel_now: datetime, real_now: datetime) -> None:
    row = locks.lock_reservation(tenant_id, work.reservation_id) if work.reservation_id else None
    if work.reservation_id:
        batch = KeyBatch.load_stays(tenant_id, [work.reservation_id], hotel_now)
    else:
        batch = KeyBatch.load(tenant_id, [str(work.args["key"])], hotel_now)
    room_move.run(batch, row, work, real_now, settings.RETRY_SCALE)
    batch.flush()


def _turn_page(walk: Walk, work: Work, page: Sequence[str], real_now: datetime) -> None:
    """Goes on after the page's last key, or to the walk's next round, or ends it."""
    if len(page) == walk.page_size:
        work.args, work.status = {**work.args, "after": page[-1]}, SagaStatus.DUE.value
        return
    walked = int(work.args.get("round", 1))
    if walked >= walk.rounds:
        work.status = SagaStatus.DONE.value
        return
    work.args = {**work.args, "after": "", "round": walked + 1}
    work.status, work.due_at = SagaStatus.RETRY.value, real_now + timedelta(seconds=walk.pause_s * settings.RETRY_SCALE)


def _flush(context: StepContext) -> None:
    context.batch.flush()
    pin_slots.release(context.batch.tenant_id, context.releases)


def _wake_waiting(context: StepContext, works: list[Work]) -> None:
    """Let what waits for these sagas' keys, or for others of their stays, look again."""
    keys = {work.credential_id for work in works if work.credential_id}
    stays = {key.reservation_id for key_id in keys if (key := context.batch.keys.get(key_id)) and key.reservation_id}
    if keys:
        wake_sagas.wake_waiting(context.batch.tenant_id, keys, stays)


def _calls_made(pairs: list[tuple[Work, Answer]]) -> dict[str, call_counts.Counted]:
    counted: dict[str, call_counts.Counted] = defaultdict(call_counts.Counted)
    for work, answer in pairs:
        mine = counted[work.installation_id]
        mine.calls += (
            answer.result.calls if answer.result is not None else int(answer.error is not None and not answer.error.throttled)
        )
        done = sum(door.outcome is Outcome.DONE for door in answer.result.doors) if answer.result is not None else 0
        mine.issues += done if answer.call.verb is Verb.ISSUE else 0
        mine.revokes += done if answer.call.verb is Verb.REVOKE else 0
    return counted


def _heard(pairs: list[tuple[Work, Answer]]) -> list[breaker_rules.Heard]:
    said = (breaker_rules.heard(work.installation_id, work.id, answer.result, answer.error) for work, answer in pairs)
    return [item for item in said if item is not None]


class Stop:
    """A flag that signals set; `until` of a long-running command."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self, *_: object) -> None:
        """Asks for an end; fits `signal.signal`."""
        self._event.set()

    def __call__(self) -> bool:
        return self._event.is_set()
