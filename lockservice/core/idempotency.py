"""What was answered under an Idempotency-Key, stored as ids and rendered again; never a PIN at rest.

One rule: the unique row decides a race, not a look before the insert.
"""

from __future__ import annotations

from django.db import models


class IdempotencyRecord(models.Model):
    """One mutating call under a key. `status` 0 while it runs. `resource` names what the answer is rendered from."""

    tenant_id = models.CharField(max_length=64)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    status = models.SmallIntegerField(default=0)
    resource = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "key"], name="idempotency_key_once")]
        indexes = [models.Index(fields=["created_at"], name="idempotency_by_age")]
