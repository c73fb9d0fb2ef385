"""Queues as rows: sagas and their lanes, outbox and inbox, dead letters, alerts.

One rule: PostgreSQL owns every piece of work; each due column says which clock it is on.
"""

from __future__ import annotations

from django.db import models


class SagaStatus(models.TextChoices):
    """Where a saga stands. DUE may run now. RETRY waits for `due_at` on real time, TIMER for `hotel_due_at` on the hotel's
    clock. DEAD spent its budget and waits for a person."""

    DUE = "due"
    RUNNING = "running"
    RETRY = "retry"
    TIMER = "timer"
    DONE = "done"
    DEAD = "dead"


OPEN_STATUSES = (SagaStatus.DUE, SagaStatus.RUNNING, SagaStatus.RETRY, SagaStatus.TIMER)


class Saga(models.Model):
    """One business intention and how far it has come.

    key is unique per (tenant, installation): duplicates of an intention meet here. priority 0 security … 3 bulk. token is the
    lane's fencing token while RUNNING. attempts counts vendor calls made.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    flow = models.CharField(max_length=24)
    flow_version = models.PositiveSmallIntegerField(default=1)
    installation_id = models.CharField(max_length=64, blank=True)
    key = models.CharField(max_length=80)
    lane = models.CharField(max_length=200)
    credential_id = models.CharField(max_length=64, null=True, blank=True)
    reservation_id = models.CharField(max_length=64, null=True, blank=True)
    priority = models.PositiveSmallIntegerField(default=2)
    status = models.CharField(max_length=8, choices=SagaStatus.choices, default=SagaStatus.DUE)
    step = models.PositiveIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(null=True)
    hotel_due_at = models.DateTimeField(null=True)
    token = models.BigIntegerField(null=True)
    args = models.JSONField(default=dict)
    error_code = models.CharField(max_length=60, blank=True)
    error_detail = models.CharField(max_length=300, blank=True)
    correlation_id = models.CharField(max_length=64, blank=True)
    causation_id = models.CharField(max_length=64, blank=True)
    trace_id = models.CharField(max_length=80, blank=True)
    actor = models.CharField(max_length=64, default="saga")
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    position = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "installation_id", "key"], name="saga_once_per_key"),
            models.CheckConstraint(condition=models.Q(status__in=SagaStatus.values), name="saga_status_known"),
        ]
        indexes = [
            models.Index(fields=["lane", "priority", "position"], condition=models.Q(status="due"), name="saga_due"),
            models.Index(fields=["due_at"], condition=models.Q(status="retry"), name="saga_retry"),
            models.Index(fields=["hotel_due_at"], condition=models.Q(status="timer"), name="saga_timer"),
            models.Index(fields=["credential_id"], condition=models.Q(status="running"), name="saga_running"),
            models.Index(fields=["lane"], condition=models.Q(status="running"), name="saga_running_lane"),
            models.Index(fields=["tenant_id", "credential_id"], name="saga_by_credential"),
            models.Index(fields=["tenant_id", "reservation_id"], name="saga_by_reservation"),
            models.Index(fields=["tenant_id", "status", "created_at"], name="saga_by_status"),
        ]

    def __str__(self) -> str:
        return f"{self.flow} {self.id}"


class SagaStep(models.Model):
    """One step of a saga that was acted and recorded: what was asked of whom, and what came of it. Append-only."""

    tenant_id = models.CharField(max_length=64)
    saga_id = models.CharField(max_length=64)
    credential_id = models.CharField(max_length=64, null=True)
    step = models.PositiveIntegerField()
    verb = models.CharField(max_length=12)
    lane = models.CharField(max_length=200)
    doors = models.JSONField(default=list)
    outcome = models.CharField(max_length=12)
    error_code = models.CharField(max_length=60, blank=True)
    error_reason = models.CharField(max_length=24, blank=True)
    detail = models.CharField(max_length=300, blank=True)
    took_ms = models.PositiveIntegerField(default=0)
    at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["tenant_id", "saga_id"], name="step_by_saga"),
            models.Index(fields=["tenant_id", "credential_id"], name="step_by_credential"),
        ]


class Lane(models.Model):
    """What must be worked by one owner at a time: a gateway, or an installation's connection (`width` calls in parallel).

    lease_until is on the database's real time; token grows with every change of owner and fences late writes.
    """

    key = models.CharField(max_length=200, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    width = models.PositiveSmallIntegerField(default=1)
    token = models.BigIntegerField(default=0)
    owner = models.CharField(max_length=40, blank=True)
    lease_until = models.DateTimeField(null=True)


class OutboxEvent(models.Model):
    """An event as promised, in the transaction of its cause.

    `body` is the encoded envelope; sequence is gap-free per ordering_key.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    subject = models.CharField(max_length=100)
    topic = models.CharField(max_length=100)
    ordering_key = models.CharField(max_length=64)
    sequence = models.PositiveIntegerField()
    shard = models.PositiveSmallIntegerField()
    body = models.BinaryField()
    created_at = models.DateTimeField()
    published_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    blocked = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "ordering_key", "sequence"], name="outbox_sequence_once")]
        indexes = [
            models.Index(
                fields=["shard", "ordering_key", "sequence"],
                condition=models.Q(published_at__isnull=True),
                name="outbox_unpublished",
            ),
            models.Index(fields=["tenant_id", "created_at"], name="outbox_by_age"),
            models.Index(fields=["tenant_id", "ordering_key"], condition=models.Q(blocked=True), name="outbox_blocked"),
        ]


class RelayShard(models.Model):
    """A sixteenth of the outbox, leased to one publisher at a time."""

    shard = models.PositiveSmallIntegerField(primary_key=True)
    token = models.BigIntegerField(default=0)
    owner = models.CharField(max_length=40, blank=True)
    lease_until = models.DateTimeField(null=True)


class InboxMessage(models.Model):
    """An event taken, once per consumer. `outcome`: applied, ignored (older version or nothing to do)."""

    tenant_id = models.CharField(max_length=64)
    consumer = models.CharField(max_length=24)
    event_id = models.CharField(max_length=64)
    subject = models.CharField(max_length=100)
    outcome = models.CharField(max_length=12)
    detail = models.CharField(max_length=120, blank=True)
    received_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "consumer", "event_id"], name="inbox_once_per_consumer")]
        indexes = [models.Index(fields=["tenant_id", "received_at"], name="inbox_by_age")]


class DeadLetter(models.Model):
    """A message that could not be handled, whole, with the reason; can be replayed.

    source: inbox or outbox. body is the message as it came. Its tenant is UNATTRIBUTED where it could not be established.
    """

    tenant_id = models.CharField(max_length=64)
    source = models.CharField(max_length=8)
    topic = models.CharField(max_length=120)
    ordering_key = models.CharField(max_length=120, blank=True)
    event_id = models.CharField(max_length=64, blank=True)
    subject = models.CharField(max_length=120, blank=True)
    body = models.BinaryField()
    digest = models.CharField(max_length=64)
    code = models.CharField(max_length=40)
    detail = models.CharField(max_length=300)
    count = models.PositiveIntegerField(default=1)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    replayed_at = models.DateTimeField(null=True)
    replayed_by = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "source", "topic", "digest"],
                condition=models.Q(replayed_at__isnull=True),
                name="dead_letter_once",
            )
        ]
        indexes = [models.Index(fields=["tenant_id", "first_at"], name="dead_letter_by_age")]


class Alert(models.Model):
    """Something a person must see. `key` makes it once per cause; severity info, warning or critical."""

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64, blank=True)
    key = models.CharField(max_length=120)
    code = models.CharField(max_length=60)
    severity = models.CharField(max_length=8)
    runbook = models.CharField(max_length=80, blank=True)
    detail = models.CharField(max_length=300)
    credential_id = models.CharField(max_length=64, blank=True)
    raised_at = models.DateTimeField()
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "key"], name="alert_once_per_cause")]


class JobSlot(models.Model):
    """A beat job's slot, so that any number of schedulers may run: the unique row decides who does it."""

    job = models.CharField(max_length=40)
    slot = models.CharField(max_length=32)
    taken_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "slot"], name="job_slot_once")]
