"""Remembers the ids of actions people took, so that one sent again changes nothing.

One rule: the unique row decides, and it is written in the transaction of the action's effect; a refused action leaves none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from sagas.models import KnownAction


@dataclass(frozen=True, slots=True)
class Earlier:
    """What came of the action when it was first asked for. `is_same`: the same person asked for the same."""

    credential_id: str
    saga_id: str | None
    is_same: bool


def fingerprint(actor_id: str, action: str, credential_id: str, asked: Sequence[object]) -> str:
    """Return a digest of who asked for what. `asked` holds no digits of a key: pass a keyed digest of these."""
    return hashlib.sha256(repr((actor_id, action, credential_id, tuple(asked))).encode()).hexdigest()


def take(tenant_id: str, action_id: str, digest: str) -> Earlier | None:
    """Take an action's id for this transaction; None means that it is new and the caller shall carry the action out.

    Waits while another transaction carries out the same action. Inside the tenant's block.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sagas_knownaction (tenant_id, action_id, fingerprint, credential_id, taken_at)"
            " VALUES (%s, %s, %s, '', (SELECT clock_timestamp())) ON CONFLICT (tenant_id, action_id) DO NOTHING RETURNING id",
            [tenant_id, action_id, digest],
        )
        if cursor.fetchone() is not None:
            return None
    row = KnownAction.objects.get(tenant_id=tenant_id, action_id=action_id)
    return Earlier(row.credential_id, row.saga_id, row.fingerprint == digest)


def settle(tenant_id: str, action_id: str, credential_id: str, saga_id: str | None) -> None:
    """Note what came of the action. Inside the transaction in which its id was taken."""
    KnownAction.objects.filter(tenant_id=tenant_id, action_id=action_id).update(credential_id=credential_id, saga_id=saga_id)
