"""Whose turn an installation is: one comparison at a time, and one a night.

One rule: the holder of the lease writes, nobody else; every write of a run renews the lease in its own transaction, and finds
out there that it was lost. Leases and due times go by the database's real time.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.db import connection

from credentials.house import house
from devices import adapters
from devices.selectors import InstallationFacts, UnknownDevice, installation
from lockservice.core import tenancy

LEASE_S = 90.0
"""Longer than any vendor's answer to a question takes (75 s)."""
NIGHT_BEGINS = time(1)
NIGHT_S = 4 * 3600
"""Comparisons start between one and five in the morning of the house, each at its own second."""
MONTH_S = 30 * 86_400.0
QUOTA_SHARE = 0.2
"""Nightly comparisons take at most this part of a month's calls; a house of many doors is then compared less often."""


class LeaseLost(Exception):
    """Another process took the turn over. What this one has not written is done by that one."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that was taken."""

    tenant_id: str
    installation_id: str
    owner: str


def take(tenant_id: str, installation_id: str) -> Turn | None:
    """Takes the turn; None while another process has it. Its own transaction."""
    owner = uuid.uuid4().hex
    with tenancy.tenant(tenant_id), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sagas_reconcileturn (tenant_id, installation_id, due_at, owner)"
            " VALUES (%s, %s, (SELECT clock_timestamp()) + interval '1 day', '') ON CONFLICT DO NOTHING",
            [tenant_id, installation_id],
        )
        cursor.execute(
            "UPDATE sagas_reconcileturn SET owner = %s, lease_until = (SELECT clock_timestamp()) + make_interval(secs => %s)"
            " WHERE tenant_id = %s AND installation_id = %s"
            " AND (lease_until IS NULL OR lease_until < (SELECT clock_timestamp()))",
            [owner, LEASE_S, tenant_id, installation_id],
        )
        return Turn(tenant_id, installation_id, owner) if cursor.rowcount else None


def renew(turn: Turn) -> None:
    """Holds the turn for another LEASE_S. Inside the tenant's block; raises LeaseLost."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sagas_reconcileturn SET lease_until = (SELECT clock_timestamp()) + make_interval(secs => %s)"
            " WHERE tenant_id = %s AND installation_id = %s AND owner = %s",
            [LEASE_S, turn.tenant_id, turn.installation_id, turn.owner],
        )
        if not cursor.rowcount:
            raise LeaseLost(turn.installation_id)


def give_back(turn: Turn, due_at: datetime | None = None) -> None:
    """Lets the turn go; with `due_at` the next one is due then. Its own transaction. A turn that was lost stays lost."""
    with tenancy.tenant(turn.tenant_id), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sagas_reconcileturn SET lease_until = NULL, owner = '', due_at = COALESCE(%s, due_at)"
            " WHERE tenant_id = %s AND installation_id = %s AND owner = %s",
            [due_at, turn.tenant_id, turn.installation_id, turn.owner],
        )


def next_due(tried: set[tuple[str, str]], only: list[str] | None = None) -> tuple[str, str] | None:
    """Returns the installation whose comparison is due for longest and has no holder, none of those tried."""
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT tenant_id, installation_id FROM sagas_reconcileturn WHERE due_at <= (SELECT clock_timestamp())"
            " AND (lease_until IS NULL OR lease_until < (SELECT clock_timestamp()))"
            " AND (%s::text[] IS NULL OR installation_id = ANY(%s)) AND NOT installation_id = ANY(%s)"
            " ORDER BY due_at, installation_id LIMIT 1",
            [only, only, sorted(item[1] for item in tried)],
        )
        found: tuple[str, str] | None = cursor.fetchone()
    return found


def plan_new() -> int:
    """Gives installations that have none their first night; returns how many."""
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT h.tenant_id, h.installation_id FROM devices_healthpoll h WHERE NOT EXISTS ("
            "SELECT 1 FROM sagas_reconcileturn t WHERE t.tenant_id = h.tenant_id AND t.installation_id = h.installation_id)"
            " ORDER BY 1, 2 LIMIT 200"
        )
        fresh = cursor.fetchall()
    for tenant_id, installation_id in fresh:
        with tenancy.tenant(tenant_id):
            due = next_night(tenant_id, installation_id)
            with connection.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO sagas_reconcileturn (tenant_id, installation_id, due_at, owner) VALUES (%s, %s, %s, '')"
                    " ON CONFLICT DO NOTHING",
                    [tenant_id, installation_id, due],
                )
    return len(fresh)


def next_night(tenant_id: str, installation_id: str, calls_count: int = 0) -> datetime:
    """Returns when the installation is compared next: in the house's next night, or in a later one when the last comparison
    took more calls than a night's share of the month. Inside the tenant's block."""
    now = real_now()
    try:
        facts = installation(tenant_id, installation_id)
    except UnknownDevice:
        return now + timedelta(days=1)
    zone = ZoneInfo(house(tenant_id, facts.property_id).time_zone)
    local = now.astimezone(zone)
    first = datetime.combine(local.date(), NIGHT_BEGINS, zone) + timedelta(seconds=_second_of(installation_id))
    due = first if first > now + timedelta(hours=1) else first + timedelta(days=1)
    return max(due, now + timedelta(seconds=_pause_s(facts, calls_count)))


def real_now() -> datetime:
    """Returns the database's real time. Inside a block."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        instant: datetime = cursor.fetchone()[0]
    return instant


def _second_of(installation_id: str) -> int:
    """Returns the installation's own second of the night, so that they do not all start at once."""
    return int.from_bytes(hashlib.sha256(installation_id.encode()).digest()[:4], "big") % NIGHT_S


def _pause_s(facts: InstallationFacts, calls_count: int) -> float:
    if not adapters.is_known(facts.vendor):  # its own comparison will say so, the nights of the others go on
        return 0.0
    limit = facts.calls_per_month or adapters.manifest(facts.vendor).calls_per_month
    return calls_count * MONTH_S / (limit * QUOTA_SHARE) if limit else 0.0
