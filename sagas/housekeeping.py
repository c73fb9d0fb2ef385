"""What the hotel's clock makes due without any event: windows that ended, PINs that rested.

One rule: a sweep finds rows by an index on their due time, tenant by tenant, and may be killed and repeated.
"""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.db import connection

from credentials import artifacts, pin_slots, spreading
from credentials.lifecycle import LIVE
from credentials.services import KeyBatch
from devices import relay_jobs
from lockservice.core import clock, tenancy
from lockservice.core.clock import NOW_SQL
from lockservice.core.outage import is_outage
from sagas.flows import revoke_key
from sagas.intake import own_key
from sagas.outbox import Cause
from vendors.port.types import RevokeReason

log = structlog.get_logger(__name__)

PAGE = 50
_TENANTS = (
    "WITH RECURSIVE t(tenant_id) AS ((SELECT tenant_id FROM credentials_keycredential ORDER BY tenant_id LIMIT 1)"
    " UNION ALL SELECT (SELECT k.tenant_id FROM credentials_keycredential k WHERE k.tenant_id > t.tenant_id"
    " ORDER BY k.tenant_id LIMIT 1) FROM t WHERE t.tenant_id IS NOT NULL)"
    " SELECT tenant_id FROM t WHERE tenant_id IS NOT NULL"
)
"""Every tenant that ever had a key: one look into the index for each of them, however many keys they have."""
GUEST_KEPT = timedelta(days=90)
"""How long after departure a guest's name and contact stay in the projection."""


def sweep() -> int:
    """Revokes live keys whose window and grace are over; returns how many. Own transactions; safe to run twice.

    A page that fails costs no other page its turn: its error is raised at the end.
    """
    ended = 0
    failure: Exception | None = None
    for tenant_id, ids in _due().items():
        for first in range(0, len(ids), PAGE):
            try:
                ended += _end_page(tenant_id, ids[first : first + PAGE])
            except Exception as error:
                if is_outage(error):
                    raise
                log.exception("sweep.bug", tenant=tenant_id)
                failure = error
    if failure is not None:
        raise failure
    return ended


def tidy() -> int:
    """Hourly: frees rested PINs, erases artifacts of ended stays, forgets old projections, inbox rows and idempotency keys.

    Returns how many tenants were tidied; 0 when another scheduler took this hour. Safe to repeat.
    """
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sagas_jobslot (job, slot, taken_at)"
            " SELECT 'tidy', to_char(real.now, 'YYYY-MM-DD HH24'), real.now FROM (SELECT clock_timestamp() AS now) real"
            " ON CONFLICT DO NOTHING"
        )
        if cursor.rowcount == 0:
            return 0
        cursor.execute(_TENANTS)
        tenants = [row[0] for row in cursor.fetchall()]
        cursor.execute("DELETE FROM sagas_jobslot WHERE taken_at < (SELECT clock_timestamp()) - interval '7 days'")
        cursor.execute("DELETE FROM sagas_violation WHERE mended_at < (SELECT clock_timestamp()) - interval '90 days'")
        cursor.execute("DELETE FROM sagas_inboxmessage WHERE received_at < (SELECT clock_timestamp()) - interval '90 days'")
    for tenant_id in tenants:
        tidy_tenant(tenant_id)
    return len(tenants)


def tidy_tenant(tenant_id: str) -> None:
    """Tidies one tenant in its own transaction."""
    with tenancy.tenant(tenant_id), connection.cursor() as cursor:
        now = clock.now()
        pin_slots.forget_rested(tenant_id, now)
        relay_jobs.forget(tenant_id, now)
        cursor.execute(
            "SELECT id FROM credentials_keycredential WHERE tenant_id = %s AND state IN ('revoked', 'failed') AND NOT open_work"
            " AND id IN (SELECT credential_id FROM credentials_artifact WHERE tenant_id = %s AND erased_at IS NULL)",
            [tenant_id, tenant_id],
        )
        ended = {row[0] for row in cursor.fetchall()}
        artifacts.erase_after(tenant_id, ended - set(spreading.bounds(tenant_id, now, ended)), now)
        cursor.execute(
            "UPDATE credentials_reservation SET guest_sealed = NULL, guest_id = '' WHERE tenant_id = %s"
            " AND valid_until < %s AND guest_sealed IS NOT NULL",
            [tenant_id, now - GUEST_KEPT],
        )
        cursor.execute(
            "DELETE FROM core_idempotencyrecord WHERE tenant_id = %s"
            " AND created_at < (SELECT clock_timestamp()) - interval '48 hours'",
            [tenant_id],
        )


def _due() -> dict[str, list[str]]:
    """Live keys past their end, by tenant. The queue role may read the scheduling columns of credentials and nothing else."""
    found: dict[str, list[str]] = {}
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT tenant_id, id FROM credentials_keycredential WHERE state IN ('active', 'pending', 'requested', 'suspended')"
            f" AND ends_at <= {NOW_SQL} ORDER BY ends_at LIMIT 1000"
        )
        for tenant_id, key_id in cursor.fetchall():
            found.setdefault(tenant_id, []).append(key_id)
    return found


def _end_page(tenant_id: str, ids: list[str]) -> int:
    with tenancy.tenant(tenant_id):
        now = clock.now()
        batch = KeyBatch.load(tenant_id, ids, now)
        ended = 0
        for key in list(batch.keys.values()):
            if key.state in LIVE and key.ends_at <= now:
                saga_key = own_key("window-ended", key.id, str(key.desired_version))
                cause = Cause(correlation_id=key.reservation_id or key.id)
                ended += revoke_key.begin(batch, key, RevokeReason.CHECKOUT, saga_key, cause, trigger="window_ended")
        batch.flush()
        return ended
