"""What the hotel's clock makes due without any event: windows that ended, PINs that rested.

One rule: a sweep finds rows by an index on their due time, tenant by tenant, and may be killed and repeated.
"""

from __future__ import annotations

from django.db import connection

from credentials import artifacts, pin_slots
from credentials.lifecycle import LIVE
from credentials.services import KeyBatch
from lockservice.core import clock, tenancy
from lockservice.core.clock import NOW_SQL
from sagas.flows import revoke_key
from sagas.intake import own_key
from sagas.outbox import Cause
from vendors.port.types import RevokeReason

PAGE = 50


def sweep() -> int:
    """Revokes live keys whose window and grace are over; returns how many. Own transactions; safe to run twice."""
    ended = 0
    for tenant_id, ids in _due().items():
        for first in range(0, len(ids), PAGE):
            ended += _end_page(tenant_id, ids[first : first + PAGE])
    return ended


def free_rested(tenant_id: str) -> int:
    """Frees the PINs of a tenant whose rest is over; returns how many."""
    with tenancy.tenant(tenant_id):
        return pin_slots.forget_rested(tenant_id, clock.now())


def erase_spent_artifacts(tenant_id: str, credential_ids: list[str]) -> int:
    """Erases what holders received for keys that are over; returns how many."""
    with tenancy.tenant(tenant_id):
        return artifacts.erase_after(tenant_id, credential_ids, clock.now())


def _due() -> dict[str, list[str]]:
    """Live keys past their end, by tenant. The queue role may read the scheduling columns of credentials and nothing else."""
    found: dict[str, list[str]] = {}
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT tenant_id, id FROM credentials_keycredential WHERE state IN ('active', 'suspended', 'requested')"
            f" AND ends_at <= (SELECT {NOW_SQL}) ORDER BY ends_at LIMIT 1000"
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
