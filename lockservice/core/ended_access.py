"""People whose access to a tenant has ended, as the platform told.

One rule: a row is written in the transaction that takes the event in, and is asked for at every request with a token.
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection, models

from lockservice.core import tenancy


class EndedAccess(models.Model):
    """A person of one tenant, by the platform's id. `ended_at` is on the database's real time."""

    tenant_id = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64)
    ended_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "user_id"], name="ended_access_once")]


def end(tenant_id: str, user_id: str) -> None:
    """Note that a person's access ends now; a later end moves the instant. Inside the tenant's block."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO core_endedaccess (tenant_id, user_id, ended_at) VALUES (%s, %s, (SELECT clock_timestamp()))"
            " ON CONFLICT (tenant_id, user_id) DO UPDATE SET ended_at = EXCLUDED.ended_at",
            [tenant_id, user_id],
        )


def forget(tenant_id: str, user_id: str) -> None:
    """Note that a person was given access again. Opens a block."""
    with tenancy.tenant(tenant_id):
        EndedAccess.objects.filter(tenant_id=tenant_id, user_id=user_id).delete()


def covers(tenant_id: str, user_id: str, issued_at_s: int) -> bool:
    """Say whether a token of that age (Unix seconds) was issued before the person's access ended. Opens a block."""
    issued_at = datetime.fromtimestamp(issued_at_s, UTC)
    with tenancy.tenant(tenant_id):
        return EndedAccess.objects.filter(tenant_id=tenant_id, user_id=user_id, ended_at__gte=issued_at).exists()
