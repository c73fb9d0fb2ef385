"""Claims lanes and due sagas for a runner, and gives them back.

One rule: a lane has one owner, whose token fences every write; leases and retry times are on the database's real time.
All functions run inside a queue block.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from lockservice.core.bulk import insert_rows, update_rows
from lockservice.core.clock import NOW_SQL
from sagas.models import SagaStatus
from sagas.outbox import Cause
from sagas.steps import Work

WAITS = "waits"
"""Of a saga's arguments: it waits for other work, or for an answer that is still out, and asked for nothing of its own. When it
is due again it goes behind what is due by then."""
LEASE_S = 8
"""A lease's length. A vendor call may last 60 s, a lease may not: the holder renews."""

_WORK = (
    "id, tenant_id, flow, lane, credential_id, reservation_id, installation_id, priority, step, attempts, token, args,"
    " correlation_id, causation_id, trace_id, actor"
)
_STEP_COLUMNS = {
    "tenant_id": "text", "saga_id": "text", "credential_id": "text", "step": "int", "verb": "text", "lane": "text",
    "doors": "jsonb", "outcome": "text", "error_code": "text", "error_reason": "text", "detail": "text", "took_ms": "int",
    "at": "timestamptz",
}  # fmt: skip
_SAGA_COLUMNS = {
    "token": "bigint", "status": "text", "lane": "text", "step": "int", "attempts": "int", "due_at": "timestamptz",
    "hotel_due_at": "timestamptz", "args": "jsonb", "error_code": "text", "error_detail": "text", "finished_at": "timestamptz",
}  # fmt: skip


_BEHIND = (
    f"CASE WHEN s.args ? '{WAITS}' THEN (extract(epoch FROM (SELECT clock_timestamp())) * 1000000)::bigint ELSE s.position END"
)


def clocks() -> tuple[datetime, datetime]:
    """Returns the hotel's time and the database's real time."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {NOW_SQL}, (SELECT clock_timestamp())")
        hotel, real = cursor.fetchone()
    return hotel, real


def wake_due() -> int:
    """Makes due what waited for either clock; returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH ripe AS (SELECT id FROM sagas_saga WHERE status = 'retry' AND due_at <= (SELECT clock_timestamp())"
            " ORDER BY due_at LIMIT 500 FOR UPDATE SKIP LOCKED)"
            f" UPDATE sagas_saga s SET status = 'due', position = {_BEHIND} FROM ripe WHERE s.id = ripe.id"
        )
        woken = cursor.rowcount
        cursor.execute(
            "WITH ripe AS (SELECT id FROM sagas_saga WHERE status = 'timer'"
            f" AND hotel_due_at <= {NOW_SQL} ORDER BY hotel_due_at LIMIT 500 FOR UPDATE SKIP LOCKED)"
            " UPDATE sagas_saga s SET status = 'due', hotel_due_at = NULL FROM ripe WHERE s.id = ripe.id"
        )
        return woken + cursor.rowcount


def claim_lanes(owner: str, limit: int, held: Sequence[str], only: Sequence[str] | None = None) -> dict[str, tuple[int, int]]:
    """Takes free lanes with due work, urgent ones first: lane → (token, width). Takes over lanes whose lease ran out.

    `only` restricts the claim to lanes of the given names.
    """
    names = list(only) if only is not None else None
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH RECURSIVE due(lane, priority) AS (
                (SELECT lane, priority FROM sagas_saga WHERE status = 'due' ORDER BY lane, priority, position LIMIT 1)
                UNION ALL
                SELECT n.lane, n.priority FROM due d, LATERAL (
                    SELECT lane, priority FROM sagas_saga WHERE status = 'due' AND lane > d.lane
                    ORDER BY lane, priority, position LIMIT 1) n
            ), stranded AS (
                SELECT DISTINCT s.lane, 1 AS priority FROM sagas_saga s JOIN sagas_lane l ON l.key = s.lane
                WHERE s.status = 'running' AND (l.lease_until IS NULL OR l.lease_until < (SELECT clock_timestamp()))
            ), wanted AS (
                SELECT l.key FROM sagas_lane l JOIN (
                    SELECT lane, min(priority) AS priority
                    FROM (SELECT * FROM due UNION ALL SELECT * FROM stranded) x GROUP BY lane
                ) w ON w.lane = l.key
                WHERE (l.lease_until IS NULL OR l.lease_until < (SELECT clock_timestamp())) AND NOT l.key = ANY(%s)
                  AND (%s::text[] IS NULL OR l.key = ANY(%s::text[]))
                ORDER BY w.priority, l.key LIMIT %s FOR UPDATE OF l SKIP LOCKED
            )
            UPDATE sagas_lane l SET token = l.token + 1, owner = %s,
                lease_until = (SELECT clock_timestamp()) + make_interval(secs => %s)
            FROM wanted WHERE l.key = wanted.key RETURNING l.key, l.token, l.width
            """,
            [list(held), names, names, limit, owner, LEASE_S],
        )
        taken = {key: (token, width) for key, token, width in cursor.fetchall()}
        if taken:
            cursor.execute("UPDATE sagas_saga SET status = 'due' WHERE status = 'running' AND lane = ANY(%s)", [list(taken)])
    return taken


def claim_sagas(
    slots: Mapping[str, tuple[int, int]], urgent_only: Iterable[str] = (), from_priority: Mapping[str, int] | None = None
) -> list[Work]:
    """Claims due sagas of lanes held: `slots` is lane → (token, how many). Lanes in `urgent_only` give priority 0 alone.

    A lane in `from_priority` gives work of that priority or less urgent first, so that a flood of urgent work does not starve
    the rest. At most one saga per credential runs at a time.
    """
    if not slots:
        return []
    urgent = set(urgent_only)
    lanes = list(slots)
    first = from_priority or {}
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH held AS (
                SELECT w.lane, w.token, w.slots, w.worst, w.best
                FROM unnest(%s::text[], %s::bigint[], %s::int[], %s::int[], %s::int[]) AS w(lane, token, slots, worst, best)
                JOIN sagas_lane l ON l.key = w.lane AND l.token = w.token AND l.lease_until > (SELECT clock_timestamp())
            ), picked AS (
                SELECT p.id, h.token FROM held h, LATERAL (
                    SELECT found.id FROM (
                        SELECT * FROM ({_due_sagas("BETWEEN h.best AND h.worst")}) AS wanted
                        UNION ALL
                        SELECT * FROM ({_due_sagas("< LEAST(h.best, h.worst + 1)")}) AS others
                    ) AS found ORDER BY found.priority < h.best, found.priority, found.position LIMIT h.slots) p
            )
            UPDATE sagas_saga s SET status = 'running', token = picked.token FROM picked
            WHERE s.id = picked.id AND s.status = 'due' RETURNING {", ".join("s." + name for name in _WORK.split(", "))}
            """,
            [
                lanes,
                [slots[lane][0] for lane in lanes],
                [slots[lane][1] for lane in lanes],
                [0 if lane in urgent else 9 for lane in lanes],
                [0 if lane in urgent else first.get(lane, 0) for lane in lanes],
            ],
        )
        return [_work(row) for row in cursor.fetchall()]


def _due_sagas(priorities: str) -> str:
    """Return the query for a lane's due sagas of some priorities; `h` is the lane."""
    return (
        "SELECT s.id, s.priority, s.position FROM sagas_saga s WHERE s.lane = h.lane AND s.status = 'due'"
        f" AND s.priority {priorities} AND (s.credential_id IS NULL OR NOT EXISTS ("
        " SELECT 1 FROM sagas_saga r WHERE r.credential_id = s.credential_id AND r.status = 'running'))"
        " ORDER BY s.priority, s.position LIMIT h.slots FOR UPDATE SKIP LOCKED"
    )


def unclaim(lanes: Mapping[str, int], in_hand: Iterable[str]) -> int:
    """Makes due again what was claimed under the tokens of lanes held (lane → token) and is not in hand; returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sagas_saga s SET status = 'due' FROM unnest(%s::text[], %s::bigint[]) AS v(lane, token)"
            " JOIN sagas_lane l ON l.key = v.lane AND l.token = v.token"
            " WHERE s.lane = v.lane AND s.token = v.token AND s.status = 'running' AND NOT s.id = ANY(%s)",
            [list(lanes), list(lanes.values()), sorted(in_hand)],
        )
        return cursor.rowcount


def still_running(saga_ids: Iterable[str]) -> set[str]:
    """Returns those of the sagas that are running now."""
    wanted = sorted(set(saga_ids))
    if not wanted:
        return set()
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM sagas_saga WHERE id = ANY(%s) AND status = 'running'", [wanted])
        return {row[0] for row in cursor.fetchall()}


def still_ours(works: Sequence[Work]) -> set[str]:
    """Locks and returns the sagas whose claim still stands (token unchanged); late writers get nothing."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT s.id FROM sagas_saga s JOIN unnest(%s::text[], %s::bigint[]) AS v(id, token) ON s.id = v.id"
            " WHERE s.status = 'running' AND s.token = v.token ORDER BY s.id FOR UPDATE OF s",
            [[work.id for work in works], [work.token for work in works]],
        )
        return {row[0] for row in cursor.fetchall()}


def save(works: Sequence[Work], real_now: datetime) -> int:
    """Writes what plan or record decided, where the claim still stands; returns how many were written."""
    rows = [
        (
            w.id, w.token, w.status, w.lane, w.step, w.attempts, w.due_at, w.hotel_due_at, json.dumps(w.args), w.error_code,
            w.error_detail[:300], real_now if w.status in (SagaStatus.DONE, SagaStatus.DEAD) else None,
        )
        for w in works
    ]  # fmt: skip
    guard = "t.token = v.v_token AND t.status = 'running'"
    return len(update_rows("sagas_saga", ("id", "text"), _SAGA_COLUMNS, rows, guard=guard))


def note_progress(lanes: Iterable[str]) -> None:
    """Notes that work of these lanes came to something. A lane that another process holds locked is passed over."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sagas_lane SET progressed_at = (SELECT clock_timestamp()) WHERE key IN ("
            " SELECT key FROM sagas_lane WHERE key = ANY(%s) ORDER BY key FOR UPDATE SKIP LOCKED)",
            [sorted(set(lanes))],
        )


def write_steps(rows: Sequence[Sequence[Any]]) -> None:
    """Appends to the step log; each row as `settle_record` makes it, doors as a list."""
    insert_rows("sagas_sagastep", _STEP_COLUMNS, [(*row[:6], json.dumps(row[6]), *row[7:]) for row in rows])


def renew(owner: str, lanes: Mapping[str, int]) -> set[str]:
    """Renews the leases of lanes held (lane → token) in one statement; returns those that are still ours."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sagas_lane l SET lease_until = (SELECT clock_timestamp()) + make_interval(secs => %s)"
            " FROM unnest(%s::text[], %s::bigint[]) AS v(key, token)"
            " WHERE l.key = v.key AND l.token = v.token AND l.owner = %s RETURNING l.key",
            [LEASE_S, list(lanes), list(lanes.values()), owner],
        )
        return {row[0] for row in cursor.fetchall()}


def release(owner: str, lanes: Mapping[str, int]) -> None:
    """Gives lanes back."""
    if not lanes:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sagas_lane l SET lease_until = NULL, owner = '' FROM unnest(%s::text[], %s::bigint[]) AS v(key, token)"
            " WHERE l.key = v.key AND l.token = v.token AND l.owner = %s",
            [list(lanes), list(lanes.values()), owner],
        )


def idle_lanes(lanes: Sequence[str]) -> set[str]:
    """Returns those of the lanes that have nothing due."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT key FROM unnest(%s::text[]) AS w(key) WHERE NOT EXISTS"
            " (SELECT 1 FROM sagas_saga s WHERE s.lane = w.key AND s.status = 'due')",
            [list(lanes)],
        )
        return {row[0] for row in cursor.fetchall()}


def _work(row: tuple[Any, ...]) -> Work:
    args = json.loads(row[11]) if isinstance(row[11], str) else row[11]
    cause = Cause(*row[12:16])
    return Work(*row[:11], args, cause)  # type: ignore[call-arg]  # the row holds the first eleven fields in order
