"""Rows of the desk relay: jobs, the desks that are connected, and the running numbers of doors.

One rule: whatever must not be lost of a job is here; a frame or a wake-up only makes it faster.
"""

from __future__ import annotations

from django.db import models

from vendors.port.relay import Refusal, Stage


class JobRowState(models.TextChoices):
    """Where a job lies. Up to OFFERED nothing can have been written; ACCEPTED was told to begin; the rest is as in
    vendors.port.relay.JobState."""

    QUEUED = "queued"
    OFFERED = "offered"
    ACCEPTED = "accepted"
    UNKNOWN = "unknown"
    DONE = "done"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


OPEN = (JobRowState.QUEUED, JobRowState.OFFERED, JobRowState.ACCEPTED, JobRowState.UNKNOWN)
NOT_BEGUN = (JobRowState.QUEUED, JobRowState.OFFERED)
BEGUN = (JobRowState.ACCEPTED, JobRowState.UNKNOWN)


class RelayJobRow(models.Model):
    """Work for a desk. `key` and `turn` name the intended effect and the how-many-eth try at it: a new turn only after the last
    one ended without effect. `body_sealed` and `result_sealed` hold card numbers.

    desk_id is who began it; connection is where it was offered. All instants but lasts_until (hotel's time) are real time.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    vendor = models.CharField(max_length=40)
    key = models.CharField(max_length=80)
    turn = models.PositiveSmallIntegerField(default=1)
    credential_id = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=32)
    doors = models.JSONField(default=list)
    numbers = models.JSONField(default=dict)
    outranked = models.JSONField(default=list)
    body_sealed = models.BinaryField()
    result_sealed = models.BinaryField(null=True)
    needs_card = models.BooleanField(default=False)
    lasts_until = models.DateTimeField(null=True)
    priority = models.PositiveSmallIntegerField(default=2)
    state = models.CharField(max_length=10, choices=JobRowState.choices, default=JobRowState.QUEUED)
    stage = models.CharField(max_length=16, blank=True)
    refusal = models.CharField(max_length=20, blank=True)
    detail = models.CharField(max_length=300, blank=True)
    desk_id = models.CharField(max_length=64, blank=True)
    connection = models.CharField(max_length=40, blank=True)
    cancel_wanted = models.BooleanField(default=False)
    asked_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "installation_id", "key", "turn"], name="relay_job_once"),
            models.UniqueConstraint(
                fields=["tenant_id", "installation_id", "key"],
                condition=models.Q(state__in=OPEN),
                name="relay_job_one_open",
            ),
            models.CheckConstraint(condition=models.Q(state__in=JobRowState.values), name="relay_job_state_known"),
            models.CheckConstraint(
                condition=models.Q(stage__in=["", *(stage.value for stage in Stage)]), name="relay_job_stage_known"
            ),
            models.CheckConstraint(
                condition=models.Q(refusal__in=["", *(refusal.value for refusal in Refusal)]), name="relay_job_refusal_known"
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant_id", "property_id", "priority", "created_at"],
                condition=models.Q(state__in=OPEN),
                name="relay_job_open",
            ),
            models.Index(fields=["tenant_id", "credential_id"], name="relay_job_by_credential"),
            models.Index(fields=["tenant_id", "created_at"], name="relay_job_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.id}"


class RelayDesk(models.Model):
    """A desk's connection, the newest one. It counts as connected until `expires_at` (real time), which heartbeats move on."""

    tenant_id = models.CharField(max_length=64)
    desk_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    connection = models.CharField(max_length=40)
    vendors = models.JSONField(default=list)
    program = models.CharField(max_length=80, blank=True)
    encoder = models.CharField(max_length=80, blank=True)
    is_encoder_ready = models.BooleanField(default=True)
    connected_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "desk_id"], name="relay_desk_once")]
        indexes = [models.Index(fields=["tenant_id", "property_id", "expires_at"], name="relay_desk_by_property")]


class RelayNumber(models.Model):
    """The running number of a place: the highest ever given to a job, and the highest that reached a card, or may have."""

    tenant_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    place = models.CharField(max_length=64)
    given = models.BigIntegerField(default=0)
    written = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "installation_id", "place"], name="relay_number_once")]
