"""Queues as rows: sagas and their lanes, outbox and inbox, dead letters, alerts, comparisons with the doors.

One rule: PostgreSQL owns every piece of work; each due column says which clock it is on.
"""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
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
            models.Index(fields=["id"], condition=models.Q(status="dead"), name="saga_dead"),
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

    token grows with every change of owner and fences late writes. due_since says from when on the watch has seen due work here,
    progressed_at when a step was last recorded. All instants are the database's real time.
    """

    key = models.CharField(max_length=200, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    width = models.PositiveSmallIntegerField(default=1)
    token = models.BigIntegerField(default=0)
    owner = models.CharField(max_length=40, blank=True)
    lease_until = models.DateTimeField(null=True)
    due_since = models.DateTimeField(null=True)
    progressed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["key"], condition=models.Q(due_since__isnull=False), name="lane_due")]


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
        indexes = [
            models.Index(fields=["tenant_id", "received_at"], name="inbox_by_age"),
            BrinIndex(fields=["received_at"], name="inbox_by_receipt", autosummarize=True),
        ]


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
    """Something a person must see. `key` makes it once per cause; severity info, warning or critical.

    guest_sealed is the guest's name where no projection of the stay holds it.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64, blank=True)
    key = models.CharField(max_length=120)
    code = models.CharField(max_length=60)
    severity = models.CharField(max_length=8)
    runbook = models.CharField(max_length=80, blank=True)
    detail = models.CharField(max_length=300)
    credential_id = models.CharField(max_length=64, blank=True)
    reservation_id = models.CharField(max_length=64, blank=True)
    guest_sealed = models.BinaryField(null=True)
    raised_at = models.DateTimeField()
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "key"], name="alert_once_per_cause")]
        indexes = [models.Index(fields=["severity"], condition=models.Q(acknowledged_at__isnull=True), name="alert_open")]


class Violation(models.Model):
    """Something that always holds and did not, as the watch found it; open until it holds again. Instants are real time.

    name is the check's; subject is a credential, a reservation or a lane. repair_at is when its repair may be started again.
    """

    tenant_id = models.CharField(max_length=64)
    name = models.CharField(max_length=24)
    subject = models.CharField(max_length=200)
    found_at = models.DateTimeField()
    repairs_count = models.PositiveIntegerField(default=0)
    repair_at = models.DateTimeField(null=True)
    mended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "name", "subject"],
                condition=models.Q(mended_at__isnull=True),
                name="violation_once",
            )
        ]
        indexes = [
            models.Index(fields=["id"], condition=models.Q(mended_at__isnull=True), name="violation_open"),
            models.Index(fields=["mended_at"], condition=models.Q(mended_at__isnull=False), name="violation_mended"),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.subject}"


class WatchCursor(models.Model):
    """How far a check of the watch has come: the next page begins after `after`, and is read from next_at (real time) on."""

    name = models.CharField(max_length=24, primary_key=True)
    after = models.CharField(max_length=300, blank=True)
    next_at = models.DateTimeField()


class JobSlot(models.Model):
    """A beat job's slot, so that any number of schedulers may run: the unique row decides who does it."""

    job = models.CharField(max_length=40)
    slot = models.CharField(max_length=32)
    taken_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "slot"], name="job_slot_once")]


class ReconcileTurn(models.Model):
    """When an installation's books are compared with its doors next, and who is at it (real time).

    owner holds the lease until lease_until; a run that died leaves it behind, and the next one goes on from its rows.
    """

    tenant_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    due_at = models.DateTimeField()
    lease_until = models.DateTimeField(null=True)
    owner = models.CharField(max_length=40, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "installation_id"], name="reconcile_turn_once")]
        indexes = [models.Index(fields=["due_at"], name="reconcile_turn_due")]


class ReconcileRun(models.Model):
    """One comparison of an installation, and how far it has come: doors in order of their id, the present one page by page.

    status: running, done or failed; outcome says why it failed. after_device is the last door that is done, device_id and
    cursor where the present one stands. started_at and finished_at are the hotel's time. counts are findings by kind.
    """

    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    vendor = models.CharField(max_length=40)
    repairs = models.BooleanField(default=False)
    status = models.CharField(max_length=8, default="running")
    outcome = models.CharField(max_length=24, blank=True)
    detail = models.CharField(max_length=300, blank=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    after_device = models.CharField(max_length=64, blank=True)
    device_id = models.CharField(max_length=64, blank=True)
    cursor = models.TextField(null=True)
    doors_count = models.PositiveIntegerField(default=0)
    doors_done_count = models.PositiveIntegerField(default=0)
    doors_failed = models.JSONField(default=dict)
    pages_count = models.PositiveIntegerField(default=0)
    keys_count = models.PositiveIntegerField(default=0)
    calls_count = models.PositiveIntegerField(default=0)
    in_flight_count = models.PositiveIntegerField(default=0)
    repairs_count = models.PositiveIntegerField(default=0)
    new_count = models.PositiveIntegerField(default=0)
    resolved_count = models.PositiveIntegerField(default=0)
    counts = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "installation_id"],
                condition=models.Q(status="running"),
                name="reconcile_run_one_at_a_time",
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=["running", "done", "failed"]), name="reconcile_run_status_known"
            ),
        ]
        indexes = [models.Index(fields=["tenant_id", "installation_id", "started_at"], name="reconcile_run_by_start")]


class KeySighting(models.Model):
    """A key seen at a door by a running comparison; forgotten once the door is judged.

    fingerprint is a blind index of the vendor's reference, pin_index of the digits where the vendor shows them. What could open
    a door or names a person is sealed.
    """

    tenant_id = models.CharField(max_length=64)
    run_id = models.BigIntegerField()
    device_id = models.CharField(max_length=64)
    fingerprint = models.CharField(max_length=64)
    kind = models.CharField(max_length=20)
    tag = models.CharField(max_length=24, blank=True)
    is_ours = models.BooleanField()
    valid_from = models.DateTimeField(null=True)
    valid_until = models.DateTimeField(null=True)
    is_resting = models.BooleanField(default=False)
    is_stale = models.BooleanField(null=True)
    pin_index = models.BinaryField(null=True)
    ref_sealed = models.BinaryField()
    label_sealed = models.BinaryField(null=True)
    pin_sealed = models.BinaryField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "run_id", "device_id", "fingerprint"], name="sighting_once_per_run")
        ]


class Finding(models.Model):
    """A difference between our books and a door. Instants are the hotel's time.

    subject makes it one: a key's fingerprint, or the credential where nothing was seen. status: open, resolved, or ignored (a
    person knows the key and leaves it). danger: opens (a key that must not) or locked_out. ledger_mark is the state of our
    books it was found under: a repair acts under no other.
    found_until None: the key has no end. guesses are owners an unknown key may have, likeliest first, without names.
    """

    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    device_id = models.CharField(max_length=64)
    kind = models.CharField(max_length=24)
    status = models.CharField(max_length=8, default="open")
    subject = models.CharField(max_length=64)
    fingerprint = models.CharField(max_length=64, blank=True)
    credential_id = models.CharField(max_length=64, blank=True)
    key_kind = models.CharField(max_length=20, blank=True)
    found_from = models.DateTimeField(null=True)
    found_until = models.DateTimeField(null=True)
    wanted_from = models.DateTimeField(null=True)
    wanted_until = models.DateTimeField(null=True)
    is_resting = models.BooleanField(default=False)
    danger = models.CharField(max_length=12, blank=True)
    detail = models.CharField(max_length=200, blank=True)
    ledger_mark = models.CharField(max_length=120, blank=True)
    guesses = models.JSONField(default=list)
    ref_sealed = models.BinaryField(null=True)
    label_sealed = models.BinaryField(null=True)
    pin_sealed = models.BinaryField(null=True)
    run_id = models.BigIntegerField()
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    repair_asked_at = models.DateTimeField(null=True)
    repairs_count = models.PositiveSmallIntegerField(default=0)
    resolved_at = models.DateTimeField(null=True)
    resolution = models.CharField(max_length=10, blank=True)
    decided_by = models.CharField(max_length=64, blank=True)
    decided_why = models.CharField(max_length=200, blank=True)
    decided_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(status__in=["open", "resolved", "ignored"]), name="finding_status_known"),
            models.UniqueConstraint(
                fields=["tenant_id", "device_id", "kind", "subject"],
                condition=~models.Q(status="resolved"),
                name="finding_once",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant_id", "installation_id", "status"], name="finding_by_installation"),
            models.Index(fields=["tenant_id", "credential_id"], name="finding_by_credential"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} at {self.device_id}"


class KnownAction(models.Model):
    """An action a person took, by its id (an Idempotency-Key or a console form). Kept: an old form may come back late.

    `fingerprint` is a digest of who asked for what. `taken_at` is on the database's real time.
    """

    tenant_id = models.CharField(max_length=64)
    action_id = models.CharField(max_length=120)
    fingerprint = models.CharField(max_length=64)
    credential_id = models.CharField(max_length=64, blank=True)
    saga_id = models.CharField(max_length=64, null=True)
    taken_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "action_id"], name="known_action_once")]
