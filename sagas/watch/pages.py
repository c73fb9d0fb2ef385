"""The watch's statements: each reads one page of what is to be looked at, and marks what looks wrong.

One rule: a page is at most PAGE rows in the order of an index, over all tenants, and begins where the last one ended. What
looks wrong is only suspected here; `verdicts` looks again, under the locks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from credentials.lifecycle import LIVE, TERMINAL
from lockservice.core.clock import NOW_SQL
from sagas.models import OPEN_STATUSES

PAGE: Final = 200
STUCK_S: Final = 300
"""A lane with due work and no step for so long is stuck. A vendor's call lasts at most 60 s, a desk's job two minutes."""

_LIVE: Final = ", ".join(f"'{state}'" for state in sorted(LIVE))
_OVER: Final = ", ".join(f"'{state}'" for state in sorted(TERMINAL))
_MAY_OPEN: Final = "state IN ('present', 'suspended') OR NOT (verb = '')"
"""As the index has it."""
_AT_WORK: Final = ", ".join(f"'{status.value}'" for status in OPEN_STATUSES)


@dataclass(frozen=True, slots=True)
class Page:
    """What was read. `suspects` are (tenant, subject); `after` is where the next page begins, empty at the end."""

    suspects: tuple[tuple[str, str], ...]
    after: str


Read = Callable[[str], Page]
"""Reads the page after a place. Inside a queue block."""

_SEPARATOR: Final = "\x1f"

_OPEN_WORK: Final = f"""
    WITH page AS MATERIALIZED (
        SELECT tenant_id, id, state, waiting_for FROM credentials_keycredential
        WHERE open_work AND (tenant_id, id) > (%s, %s) ORDER BY tenant_id, id LIMIT {PAGE}
    )
    SELECT p.tenant_id, p.id, p.id, saga.found IS NULL AND NOT (p.state IN ('pending', 'requested') AND p.waiting_for <> '')
    FROM page p LEFT JOIN LATERAL (
        SELECT true AS found FROM sagas_saga s
        WHERE s.tenant_id = p.tenant_id AND s.credential_id = p.id AND s.status IN ({_AT_WORK}) LIMIT 1) saga ON true
    ORDER BY p.tenant_id, p.id
"""
"""What a row of the page is compared with is looked up for that row alone: with a limit no planner reads a whole table."""

_LIVE_KEYS: Final = f"""
    WITH page AS MATERIALIZED (
        SELECT tenant_id, id, state, open_work, resuming, valid_from, valid_until, pin_version FROM credentials_keycredential
        WHERE state IN ({_LIVE}) AND (tenant_id, id) > (%s, %s) ORDER BY tenant_id, id LIMIT {PAGE}
    )
    SELECT p.tenant_id, p.id, p.id, NOT p.open_work AND p.state IN ('active', 'suspended') AND COALESCE(door.differs, true)
    FROM page p LEFT JOIN LATERAL (
        SELECT bool_or(CASE
            WHEN d.dropped AND d.old_room <> 'kept' THEN d.verb <> '' OR d.state IN ('present', 'suspended')
            WHEN p.state = 'suspended' THEN d.verb <> '' OR d.state = 'present'
            ELSE d.verb <> '' OR d.state <> 'present' OR d.pin_version <> p.pin_version
                OR d.carried_from IS DISTINCT FROM p.valid_from OR d.carried_until IS DISTINCT FROM p.valid_until
        END) AS differs
        FROM credentials_credentialdoor d WHERE d.tenant_id = p.tenant_id AND d.credential_id = p.id) door ON true
    ORDER BY p.tenant_id, p.id
"""

_DOORS: Final = f"""
    WITH page AS MATERIALIZED (
        SELECT tenant_id, device_id, id, credential_id FROM credentials_credentialdoor
        WHERE ({_MAY_OPEN}) AND (tenant_id, device_id, id) > (%s, %s, %s) ORDER BY tenant_id, device_id, id LIMIT {PAGE}
    )
    SELECT p.tenant_id, p.device_id || '{_SEPARATOR}' || p.id, p.credential_id, key.is_over IS NOT NULL
    FROM page p LEFT JOIN LATERAL (
        SELECT true AS is_over FROM credentials_keycredential k
        WHERE k.tenant_id = p.tenant_id AND k.id = p.credential_id AND k.state IN ({_OVER}) AND NOT k.open_work LIMIT 1
    ) key ON true
    ORDER BY p.tenant_id, p.device_id, p.id
"""

_RUNNING_STAYS: Final = f"""
    WITH page AS MATERIALIZED (
        SELECT tenant_id, id, reservation_id, incarnation, valid_from, valid_until FROM credentials_reservation
        WHERE status = 'confirmed' AND valid_until > {NOW_SQL} AND (valid_until, id) > (%s::timestamptz, %s)
        ORDER BY valid_until, id LIMIT {PAGE}
    )
    SELECT p.tenant_id, p.valid_until || '{_SEPARATOR}' || p.id, p.reservation_id,
        p.valid_from <= {NOW_SQL} AND key.found IS NULL
    FROM page p LEFT JOIN LATERAL (
        SELECT true AS found FROM credentials_keycredential k
        WHERE k.tenant_id = p.tenant_id AND k.reservation_id = p.reservation_id
        AND k.incarnation = p.incarnation AND k.state IN ({_LIVE}) LIMIT 1) key ON true
    ORDER BY p.valid_until, p.id
"""

_KEYS_OF_STAYS: Final = f"""
    WITH page AS MATERIALIZED (
        SELECT tenant_id, id, holder_kind, reservation_id, incarnation FROM credentials_keycredential
        WHERE state IN ({_LIVE}) AND (tenant_id, id) > (%s, %s) ORDER BY tenant_id, id LIMIT {PAGE}
    )
    SELECT p.tenant_id, p.id, p.id, p.holder_kind = 'guest' AND stay.stands IS NULL
    FROM page p LEFT JOIN LATERAL (
        SELECT true AS stands FROM credentials_reservation r
        WHERE r.tenant_id = p.tenant_id AND r.reservation_id = p.reservation_id
        AND r.incarnation = p.incarnation AND r.status NOT IN ('cancelled', 'checked_out') LIMIT 1) stay ON true
    ORDER BY p.tenant_id, p.id
"""

_IDLE_LANES: Final = """
    UPDATE sagas_lane SET due_since = NULL WHERE key IN (
        SELECT l.key FROM sagas_lane l WHERE l.due_since IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM sagas_saga s WHERE s.lane = l.key AND s.status = 'due')
        ORDER BY l.key FOR UPDATE SKIP LOCKED)
"""
"""Locked lanes are passed over: nobody waits for a lane while he holds another."""

_DUE_LANES: Final = f"""
    WITH RECURSIVE due(lane, nth) AS (
        (SELECT lane, 1 FROM sagas_saga WHERE status = 'due' AND lane > %s ORDER BY lane, priority, position LIMIT 1)
        UNION ALL
        SELECT n.lane, d.nth + 1 FROM due d, LATERAL (
            SELECT lane FROM sagas_saga WHERE status = 'due' AND lane > d.lane ORDER BY lane, priority, position LIMIT 1) n
        WHERE d.nth < {PAGE}
    ), fresh AS (
        SELECT l.key FROM sagas_lane l WHERE l.key IN (SELECT lane FROM due) AND l.due_since IS NULL
        ORDER BY l.key FOR UPDATE SKIP LOCKED
    ), noted AS (
        UPDATE sagas_lane l SET due_since = (SELECT clock_timestamp()) FROM fresh WHERE l.key = fresh.key
    )
    SELECT l.tenant_id, l.key, l.key,
        COALESCE(greatest(l.due_since, l.progressed_at) < (SELECT clock_timestamp()) - interval '{STUCK_S} s'
                 AND l.due_since IS NOT NULL, false)
    FROM due JOIN sagas_lane l ON l.key = due.lane ORDER BY l.key
"""


def open_work(after: str) -> Page:
    """Keys whose doors do not carry what they shall: suspected where no saga works on one."""
    return _page(_OPEN_WORK, _pair(after))


def live_keys(after: str) -> Page:
    """Live keys that count as settled: suspected where a door's row says otherwise, or there is no door."""
    return _page(_LIVE_KEYS, _pair(after))


def doors_that_may_open(after: str) -> Page:
    """Doors that may hold a key: suspected where the key is over and counts as settled. The subject is the key."""
    tenant_id, device_id, number = after.split(_SEPARATOR) if after else ("", "", "0")
    return _page(_DOORS, (tenant_id, device_id, int(number)))


def running_stays(after: str) -> Page:
    """Confirmed stays that are not over: suspected where one has begun and has no key, nor one on its way."""
    _tenant, until, number = after.split(_SEPARATOR) if after else ("", "-infinity", "0")
    return _page(_RUNNING_STAYS, (until, int(number)))


def keys_of_stays(after: str) -> Page:
    """Guests' live keys: suspected where no stay of theirs stands."""
    return _page(_KEYS_OF_STAYS, _pair(after))


def due_lanes(after: str) -> Page:
    """Lanes with due work, each noted since when: suspected where nothing came of it for STUCK_S seconds."""
    if not after:
        with connection.cursor() as cursor:
            cursor.execute(_IDLE_LANES)
    return _page(_DUE_LANES, (after.rpartition(_SEPARATOR)[2],))


def _pair(after: str) -> tuple[str, str]:
    tenant_id, _, last = after.partition(_SEPARATOR)
    return tenant_id, last


def _page(statement: str, values: tuple[Any, ...]) -> Page:
    """Runs a statement that returns rows of (tenant, place within the tenant, subject, whether it is suspected)."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows = cursor.fetchall()
    suspects = tuple(dict.fromkeys((tenant_id, subject) for tenant_id, _, subject, is_suspected in rows if is_suspected))
    return Page(suspects, f"{rows[-1][0]}{_SEPARATOR}{rows[-1][1]}" if len(rows) == PAGE else "")
