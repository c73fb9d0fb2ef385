"""The one way to start work: a saga row in the caller's transaction.

One rule: the unique (tenant, installation, key) decides a race; starting the same intention twice starts it once.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from lockservice.core.bulk import insert_returning
from sagas.models import OPEN_STATUSES, Saga, SagaStatus
from sagas.outbox import Cause
from vendors.port.ids import new_id

PRIORITY_SECURITY, PRIORITY_CHECKOUT, PRIORITY_ISSUE, PRIORITY_BULK = 0, 1, 2, 3

_COLUMNS = {
    "id": "text", "tenant_id": "text", "flow": "text", "flow_version": "smallint", "installation_id": "text", "key": "text",
    "lane": "text", "credential_id": "text", "reservation_id": "text", "priority": "smallint", "status": "text",
    "step": "int", "attempts": "int", "hotel_due_at": "timestamptz", "due_at": "timestamptz", "args": "jsonb",
    "error_code": "text", "error_detail": "text", "correlation_id": "text", "causation_id": "text", "trace_id": "text",
    "actor": "text", "created_at": "timestamptz", "position": "bigint",
}  # fmt: skip

KNOWN_LANES_MAX = 20_000
_known_lanes: set[str] = set()


@dataclass(frozen=True, slots=True)
class Start:
    """An intention. `timer` (hotel clock) makes it wait; `lane_width` is the parallel calls its lane allows."""

    flow: str
    key: str
    lane: str
    installation_id: str = ""
    credential_id: str | None = None
    reservation_id: str | None = None
    priority: int = PRIORITY_ISSUE
    lane_width: int = 1
    timer: datetime | None = None
    args: Mapping[str, Any] = field(default_factory=dict)


def sha256_key(*parts: str) -> str:
    """Joins parts as the specification's keys are made (plain concatenation) and hashes them: `sha256:<64 hex>`."""
    return "sha256:" + hashlib.sha256("".join(parts).encode()).hexdigest()


def own_key(purpose: str, *parts: str) -> str:
    """Makes a key of our own: purpose word first, parts joined by a separator that cannot occur in them."""
    return "sha256:" + hashlib.sha256("\x1f".join((purpose, *parts)).encode()).hexdigest()


def internal_lane(tenant_id: str) -> str:
    """Names the lane of work that calls no vendor."""
    return f"{tenant_id}:internal"


def start(tenant_id: str, starts: Sequence[tuple[Start, Cause]], now: datetime) -> dict[str, str]:
    """Writes sagas in the caller's transaction and returns key → saga id of those that are new."""
    if not starts:
        return {}
    ensure_lanes(tenant_id, {item.lane: item.lane_width for item, _ in starts})
    rows = [_row(tenant_id, item, cause, now) for item, cause in starts]
    fresh = insert_returning("sagas_saga", _COLUMNS, rows, on_conflict="DO NOTHING", returning="key, id")
    return dict(fresh)


class NotAtWork(RuntimeError):
    """Work was asked for under the key of work that has ended, so nobody would do it. A programming error; never retried."""


def require_at_work(tenant_id: str, starts: Sequence[Start]) -> None:
    """Check that the sagas that were started exist and have not ended. Inside the caller's transaction. Raises NotAtWork."""
    if not starts:
        return
    places, keys = {item.installation_id for item in starts}, {item.key for item in starts}
    rows = Saga.objects.filter(tenant_id=tenant_id, installation_id__in=places, key__in=keys)
    standing = {(place, key): status for place, key, status in rows.values_list("installation_id", "key", "status")}
    at_work = {status.value for status in OPEN_STATUSES}
    ended = [item.key for item in starts if standing.get((item.installation_id, item.key)) not in at_work]
    if ended:
        raise NotAtWork(f"{len(ended)} intentions had ended already, such as {ended[0]}")


def is_started(tenant_id: str, installation_id: str, key: str) -> bool:
    """Says whether an intention is known already: whoever asks again changes nothing more. Inside the tenant's block."""
    return Saga.objects.filter(tenant_id=tenant_id, installation_id=installation_id, key=key).exists()


def _row(tenant_id: str, item: Start, cause: Cause, now: datetime) -> tuple[Any, ...]:
    status = SagaStatus.DUE if item.timer is None else SagaStatus.TIMER
    return (
        new_id("sag"), tenant_id, item.flow, 1, item.installation_id, item.key, item.lane, item.credential_id,
        item.reservation_id, item.priority, status.value, 0, 0, item.timer, None, json.dumps(dict(item.args)), "", "",
        cause.correlation_id, cause.causation_id, cause.trace_id, cause.actor, now, time.time_ns() // 1000,
    )  # fmt: skip


def ensure_lanes(tenant_id: str, widths: Mapping[str, int]) -> None:
    """Makes lane rows that do not exist yet. Lanes seen committed by this process are not asked for again."""
    unknown = sorted(set(widths) - _known_lanes)
    if not unknown:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sagas_lane (key, tenant_id, width, token, owner)"
            " SELECT key, %s, width, 0, '' FROM unnest(%s::text[], %s::smallint[]) AS v(key, width)"
            " ON CONFLICT (key) DO NOTHING",
            [tenant_id, unknown, [widths[key] for key in unknown]],
        )
    transaction.on_commit(lambda: _known_lanes.update(unknown) if len(_known_lanes) < KNOWN_LANES_MAX else _known_lanes.clear())
