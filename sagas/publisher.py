"""Relays the outbox to the bus: sixteen leased shards, in (key, sequence) order, published outside any transaction.

One rule: a row is marked published only while the shard's token is still ours, and after the bus has it. What is published
twice after a crash is the same event with the same id and sequence.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from django.conf import settings
from django.db import connection

from lockservice.core import tenancy
from lockservice.core.loops import LoopGuard
from lockservice.core.outage import is_outage
from sagas.bus.port import BusMessage, BusUnavailable, EventBus, MessageRefused
from sagas.inbox import bury
from sagas.outbox import SHARDS

log = structlog.get_logger(__name__)

BATCH = 64
LEASE_S = 8
RENEW_S = 2.0
PAUSE_S = (0.02, 0.2)
TRIES = 5
"""A row the bus refuses this often goes to the dead letters and blocks only its own key, visibly."""


class Publisher:
    """One publisher; any number may run. `owner` is random per incarnation."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self.owner = uuid.uuid4().hex
        self._shards: dict[int, int] = {}
        self._claimed_at = 0.0
        self._pause_s = tuple(min(pause, settings.IDLE_MAX_S) for pause in PAUSE_S)
        self.published = 0

    def run(self, *, until: Callable[[], bool], drain: bool = False) -> int:
        """Publishes until told to stop, or (drain) until nothing is left; returns how many rows were published."""
        pause = self._pause_s[0]
        with LoopGuard("publisher", waits_for=(BusUnavailable,), stopped=until) as guard:
            while not until():
                try:
                    sent = self.round()
                except Exception as error:
                    if drain:
                        raise
                    guard.failed(error)
                    continue
                guard.succeeded()
                if sent:
                    pause = self._pause_s[0]
                elif drain:
                    break
                else:
                    time.sleep(pause)
                    pause = min(self._pause_s[1], pause * 1.5)
        self._release()
        return self.published

    def round(self) -> int:
        """Publishes up to BATCH rows of each shard held; returns how many rows."""
        self._hold()
        rows = [
            row for row in self._read() if _is_own(row) or self._block(row, "CROSS_TENANT", "its envelope names another tenant")
        ]
        if not rows:
            return 0
        try:
            self._bus.publish([_message(row) for row in rows])
        except MessageRefused:
            rows = self._one_by_one(rows)
        self._mark([row[0] for row in rows])
        self.published += len(rows)
        return len(rows)

    def _hold(self) -> None:
        if time.monotonic() - self._claimed_at < RENEW_S and self._shards:
            return
        with tenancy.queues(), connection.cursor() as cursor:
            cursor.execute(
                "WITH w AS (SELECT shard FROM sagas_relayshard WHERE owner = %s OR lease_until IS NULL"
                " OR lease_until < (SELECT clock_timestamp()) ORDER BY shard FOR UPDATE SKIP LOCKED)"
                " UPDATE sagas_relayshard s SET token = CASE WHEN s.owner = %s THEN s.token ELSE s.token + 1 END, owner = %s,"
                " lease_until = (SELECT clock_timestamp()) + make_interval(secs => %s) FROM w WHERE s.shard = w.shard"
                " RETURNING s.shard, s.token",
                [self.owner, self.owner, self.owner, LEASE_S],
            )
            self._shards = dict(cursor.fetchall())
        self._claimed_at = time.monotonic()

    def _read(self) -> list[tuple[Any, ...]]:
        with tenancy.queues(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT o.id, o.topic, o.ordering_key, o.sequence, o.body, o.tenant_id, o.subject"
                " FROM unnest(%s::smallint[]) AS held(shard), LATERAL (SELECT * FROM sagas_outboxevent e"
                " WHERE e.shard = held.shard AND e.published_at IS NULL AND NOT EXISTS (SELECT 1 FROM sagas_outboxevent b"
                " WHERE b.tenant_id = e.tenant_id AND b.ordering_key = e.ordering_key AND b.blocked)"
                " ORDER BY e.ordering_key, e.sequence LIMIT %s) o",
                [list(self._shards), BATCH],
            )
            return list(cursor.fetchall())

    def _mark(self, ids: Sequence[str]) -> None:
        """Marks rows of shards whose token is still ours; the others will be published by their new owner."""
        if not ids:
            return
        with tenancy.queues(), connection.cursor() as cursor:
            cursor.execute(
                "UPDATE sagas_outboxevent o SET published_at = (SELECT clock_timestamp()) FROM sagas_relayshard s"
                " JOIN unnest(%s::smallint[], %s::bigint[]) AS held(shard, token)"
                " ON s.shard = held.shard AND s.token = held.token"
                " WHERE o.id = ANY(%s) AND o.shard = s.shard",
                [list(self._shards), list(self._shards.values()), list(ids)],
            )

    def _one_by_one(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The bus refuses a message of this batch for good: the others go out, the refused one blocks its own key."""
        sent, blocked = [], set()
        for row in rows:
            if row[2] in blocked:
                continue
            try:
                self._bus.publish([_message(row)])
                sent.append(row)
            except MessageRefused as error:
                blocked.add(row[2])
                self._count_refusal(row, str(error))
        return sent

    def _count_refusal(self, row: tuple[Any, ...], reason: str) -> None:
        with tenancy.queues(), connection.cursor() as cursor:
            cursor.execute("UPDATE sagas_outboxevent SET attempts = attempts + 1 WHERE id = %s RETURNING attempts", [row[0]])
            spent = cursor.fetchone()[0] >= TRIES
        if spent:
            self._block(row, "BUS_REFUSED", reason)

    def _block(self, row: tuple[Any, ...], code: str, reason: str) -> bool:
        """Holds a row back, and with it all later events of its key, until its dead letter is replayed; always False."""
        with tenancy.queues(), connection.cursor() as cursor:
            cursor.execute("UPDATE sagas_outboxevent SET blocked = true WHERE id = %s", [row[0]])
            bury(row[5], "outbox", row[1], bytes(row[4]), code, reason, key=row[2], event_id=row[0], subject=row[6])
        return False

    def _release(self) -> None:
        try:
            with tenancy.queues(), connection.cursor() as cursor:
                cursor.execute("UPDATE sagas_relayshard SET lease_until = NULL, owner = '' WHERE owner = %s", [self.owner])
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("publisher.release", error=type(error).__name__)  # the leases end by themselves
        self._shards.clear()


def ensure_shards() -> None:
    """Makes the shard rows that are missing. Inside a queue block."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sagas_relayshard (shard, token, owner) SELECT n, 0, '' FROM generate_series(0, %s) n"
            " ON CONFLICT DO NOTHING",
            [SHARDS - 1],
        )


def _is_own(row: tuple[Any, ...]) -> bool:
    """Says whether the envelope names the tenant of its row; checked once more, since what leaves cannot be called back."""
    return b'"tenantId":"' + row[5].encode() + b'"' in bytes(row[4])


def _message(row: tuple[Any, ...]) -> BusMessage:
    return BusMessage(row[1], row[2], bytes(row[4]), {"subject": row[6], "tenantId": row[5], "eventId": row[0]})
