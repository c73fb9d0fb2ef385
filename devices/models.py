"""Installations and lock devices.

One rule: `vendor` is text, never a list of choices: a new vendor is one folder and no migration.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from devices.record_models import RecordPoll  # noqa: F401 - Django finds an application's tables here
from devices.relay_models import RelayDesk, RelayJobRow, RelayNumber  # noqa: F401 - as below
from devices.secret_models import (  # noqa: F401 - Django finds an application's tables here
    BreakGlass,
    BreakGlassStep,
    SecretDue,
    SecretFingerprint,
    SecretRotation,
)


class VendorInstallation(models.Model):
    """One vendor set up at one property. Limits None mean the vendor's own.

    settings_sealed is sealed under the row's data key, which data_key_wrapped holds wrapped by the key-encryption key of
    data_key_name. secret_versions maps the adapter's field (`client_secret`, `client_secret_next`) to the version in the secret
    store; secrets_sealed is where secrets were before the store, and empty since the row was sealed anew.

    lane_width bounds parallel calls where the vendor has no serial gateway; calls_per_minute and calls_per_month are limits.
    firmware_minimum is the oldest firmware its locks should have; empty: not watched.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    vendor = models.CharField(max_length=40)
    environment = models.CharField(max_length=20, default="production")
    label = models.CharField(max_length=120)
    settings_sealed = models.BinaryField()
    secrets_sealed = models.BinaryField(null=True)
    data_key_wrapped = models.BinaryField(null=True)
    data_key_name = models.CharField(max_length=300, blank=True)
    data_key_made_at = models.DateTimeField(null=True)
    data_key_wrapped_at = models.DateTimeField(null=True)
    secret_versions = models.JSONField(default=dict, blank=True)
    lane_width = models.PositiveSmallIntegerField(null=True)
    calls_per_minute = models.PositiveIntegerField(null=True)
    calls_per_month = models.PositiveIntegerField(null=True)
    firmware_minimum = models.CharField(max_length=40, blank=True)
    version = models.PositiveIntegerField(default=1)
    active = models.BooleanField(default=True)
    decommissioned_at = models.DateTimeField(null=True)
    decommissioned_by = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "id"], name="installation_in_tenant")]
        indexes = [models.Index(fields=["tenant_id", "property_id"], name="installation_by_property")]

    def __str__(self) -> str:
        return self.label


class LockDevice(models.Model):
    """A lock at a door, as last read. `shared` doors (street door, gym) open for stays whose scope has one of `areas`.

    gateway names the serial lane, empty where there is none; digits are those its keypad has; clock_skew_ms is lock minus true
    time; battery_percent 0 to 100. utc_offset_s is how far from UTC the vendor takes the lock's clock to be, None where it does
    not say. last_seen_at and checked_at (last live check) are real time. standing holds the thresholds
    crossed (devices.health_rules); event_sequence counts the device's events, gap-free. decommissioned_at (hotel's time) is
    there once somebody took it out of service for good.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    installation = models.ForeignKey(VendorInstallation, on_delete=models.PROTECT, related_name="devices", db_constraint=False)
    external_id = models.CharField(max_length=64)
    label = models.CharField(max_length=120)
    rooms = ArrayField(models.CharField(max_length=64), default=list, blank=True)
    areas = ArrayField(models.CharField(max_length=16), default=list, blank=True)
    shared = models.BooleanField(default=False)
    gateway = models.CharField(max_length=64, blank=True)
    has_remote = models.BooleanField(default=True)
    capabilities = models.JSONField(default=dict)
    digits = models.CharField(max_length=10, default="0123456789")
    online = models.BooleanField(default=True)
    battery_percent = models.PositiveSmallIntegerField(null=True)
    firmware = models.CharField(max_length=60, blank=True)
    clock_skew_ms = models.IntegerField(null=True)
    utc_offset_s = models.IntegerField(null=True)
    last_seen_at = models.DateTimeField(null=True)
    checked_at = models.DateTimeField(null=True)
    standing = models.JSONField(default=dict, blank=True)
    event_sequence = models.PositiveIntegerField(default=0)
    active = models.BooleanField(default=True)
    decommissioned_at = models.DateTimeField(null=True)
    decommissioned_by = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "installation", "external_id"], name="device_once"),
        ]
        indexes = [models.Index(fields=["tenant_id", "property_id"], name="device_by_property")]

    def __str__(self) -> str:
        return self.label


class CallCount(models.Model):
    """Requests that left for a vendor, per installation and calendar month of the vendor's quota.

    issues and revokes count doors at which a key was confirmed given and confirmed gone.
    """

    tenant_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    month = models.CharField(max_length=7)
    calls = models.BigIntegerField(default=0)
    issues = models.BigIntegerField(default=0)
    revokes = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "installation_id", "month"], name="call_count_once")]


class Breaker(models.Model):
    """An installation's circuit breaker. All instants are real time.

    outcomes holds the last calls, oldest first: `1` answered, `0` not. probe_saga names the one call of a half-open breaker.
    event_sequence counts the installation's events, gap-free.
    """

    tenant_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    state = models.CharField(max_length=10, default="closed")
    outcomes = models.CharField(max_length=100, blank=True)
    last_at = models.DateTimeField()
    open_until = models.DateTimeField(null=True)
    probe_saga = models.CharField(max_length=64, blank=True)
    probe_until = models.DateTimeField(null=True)
    event_sequence = models.PositiveIntegerField(default=0)
    changed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "installation_id"], name="breaker_once"),
            models.CheckConstraint(condition=models.Q(state__in=["closed", "open", "half_open"]), name="breaker_state_known"),
        ]
        indexes = [models.Index(fields=["tenant_id"], condition=~models.Q(state="closed"), name="breaker_not_closed")]


class DeviceReading(models.Model):
    """A lock's condition as read once: the history one plots. `at` is the hotel's time; None where the source does not say.

    source: list (the vendor's cloud), check (live) or push. clock_skew_ms is lock minus true time.
    """

    tenant_id = models.CharField(max_length=64)
    device_id = models.CharField(max_length=64)
    at = models.DateTimeField()
    source = models.CharField(max_length=5)
    online = models.BooleanField(null=True)
    battery_percent = models.PositiveSmallIntegerField(null=True)
    clock_skew_ms = models.IntegerField(null=True)
    firmware = models.CharField(max_length=60, blank=True)

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "device_id", "at"], name="reading_by_device")]


class HealthPoll(models.Model):
    """When an installation's locks are asked next (real time). The database makes the row with the installation.

    lease_until says until when another process is at it; outcome what came of the last time.
    """

    tenant_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    due_at = models.DateTimeField()
    lease_until = models.DateTimeField(null=True)
    polled_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=20, blank=True)
    calls = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "installation_id"], name="health_poll_once")]
        indexes = [models.Index(fields=["due_at"], name="health_poll_due")]


class WebhookAddress(models.Model):
    """The secret part of the address a vendor pushes to, sealed; `previous` is taken too until previous_until (real time)."""

    tenant_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    token_sealed = models.BinaryField()
    previous_sealed = models.BinaryField(null=True)
    previous_until = models.DateTimeField(null=True)
    rotated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "installation_id"], name="webhook_address_once")]


class VendorWebhook(models.Model):
    """A push that was taken in: what it says, never its body. `records` are the attempts in it, without code or card number.

    `states` is what it says of locks. is_proven says whether the vendor signed it, has_log whether it can be asked who tried a
    door. What is not proven, or contradicts our books, waits (held) until the vendor was asked. status: due, held, done or
    dead. due_at is real time: when it is worked on, of a held one when it is given up. outcome: applied, duplicate or ignored.
    received_at and processed_at are the hotel's time.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    vendor = models.CharField(max_length=40)
    external_event_id = models.CharField(max_length=256)
    type = models.CharField(max_length=64)
    records = models.JSONField(default=list)
    states = models.JSONField(default=list)
    is_proven = models.BooleanField(default=True)
    has_log = models.BooleanField(default=True)
    received_at = models.DateTimeField()
    status = models.CharField(max_length=6, default="due")
    due_at = models.DateTimeField()
    attempts = models.PositiveSmallIntegerField(default=0)
    outcome = models.CharField(max_length=10, blank=True)
    detail = models.CharField(max_length=200, blank=True)
    processed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(status__in=["due", "held", "done", "dead"]), name="webhook_status_known"),
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=models.Q(status__in=["due", "held"]), name="webhook_open"),
            models.Index(fields=["tenant_id", "installation_id", "received_at"], name="webhook_by_age"),
        ]


class WebhookReplay(models.Model):
    """A push's id, so that the same push counts once. Kept longer than any vendor repeats; seen_at is real time.

    Ids are an installation's own: two houses' servers of one vendor count from the same number.
    """

    tenant_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64, default="")
    vendor = models.CharField(max_length=40)
    external_event_id = models.CharField(max_length=256)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "installation_id", "external_event_id"], name="webhook_replay_once"),
        ]
        indexes = [models.Index(fields=["tenant_id", "seen_at"], name="webhook_replay_by_age")]


class AccessAttempt(models.Model):
    """Somebody tried a door, as the vendor tells it. Append-only.

    attempted_at is by the lock's clock, ingested_at the hotel's time. credential_state is the state the key had at that moment.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    device_id = models.CharField(max_length=64)
    credential_id = models.CharField(max_length=64, null=True)
    credential_state = models.CharField(max_length=12, blank=True)
    outcome = models.CharField(max_length=8)
    deny_reason = models.CharField(max_length=64, blank=True)
    kind = models.CharField(max_length=20, blank=True)
    installation_id = models.CharField(max_length=64, default="")
    vendor = models.CharField(max_length=40)
    external_event_id = models.CharField(max_length=256)
    attempted_at = models.DateTimeField()
    ingested_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(outcome__in=["granted", "denied"]), name="attempt_outcome_known"),
            models.UniqueConstraint(fields=["tenant_id", "installation_id", "external_event_id"], name="attempt_once"),
        ]
        indexes = [
            models.Index(fields=["tenant_id", "device_id", "attempted_at"], name="attempt_by_device"),
            models.Index(fields=["tenant_id", "credential_id", "attempted_at"], name="attempt_by_credential"),
        ]
