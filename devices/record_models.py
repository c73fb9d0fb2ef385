"""When each lock's log is read next.

One rule: a row per lock, made by the database with the lock; it says how far the log is known, and holds nothing of it.
"""

from __future__ import annotations

from django.db import models


class RecordPoll(models.Model):
    """A lock's turn. due_at, lease_until and polled_at are real time; read_until and looked_back_at are the hotel's.

    read_until: the log is known up to here (None: never read). looked_back_at: when it was last read far back, for records
    that reach the vendor late. hinted: a push waits for this reading. outcome says what came of the last time.
    """

    tenant_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    device_id = models.CharField(max_length=64)
    due_at = models.DateTimeField()
    hinted = models.BooleanField(default=False)
    lease_until = models.DateTimeField(null=True)
    read_until = models.DateTimeField(null=True)
    looked_back_at = models.DateTimeField(null=True)
    polled_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=20, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "device_id"], name="record_poll_once")]
        indexes = [
            models.Index(fields=["due_at"], name="record_poll_due"),
            models.Index(fields=["tenant_id", "installation_id"], name="record_poll_by_installation"),
        ]
