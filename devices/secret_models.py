"""Rows about vendor secrets: when each must be rotated, how a rotation stands, whose a value is, who looked at one.

One rule: names, versions and keyed fingerprints, never a value. Instants here are real time, since vendors' clocks and expiries
do not follow the demo's.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

KINDS = ("secret", "webhook_address", "data_key", "pairing")
STAGES = ("staged", "switched", "dropped", "retired", "rolled_back")
STATES = ("requested", "approved", "revealed", "closed", "expired", "refused")
STEPS = ("requested", "approved", "refused", "revealed", "closed", "expired")


class SecretDue(models.Model):
    """Something that must be rotated by `due_at` (real time); open while done_at is empty.

    kind: secret (at the vendor), webhook_address, data_key (ours), pairing (at the encoder). reason: cadence, expiry,
    decommissioned, break_glass or manual. detail says what for, such as a device's or a request's id. needs_person: nobody but
    a person can make the new one.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=40)
    reason = models.CharField(max_length=16)
    detail = models.CharField(max_length=120, blank=True)
    needs_person = models.BooleanField(default=True)
    due_at = models.DateTimeField()
    made_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=KINDS), name="secret_due_kind_known"),
            models.UniqueConstraint(
                fields=["tenant_id", "installation_id", "kind", "name"],
                condition=Q(done_at__isnull=True),
                name="secret_due_once",
            ),
        ]
        indexes = [models.Index(fields=["due_at"], condition=Q(done_at__isnull=True), name="secret_due_open")]


class SecretRotation(models.Model):
    """One change of secrets that belong together. stage: staged (in the store, untried), switched (in use, the old one still
    valid), dropped (the old one out of use), retired (destroyed), rolled_back (the new one out of use, and once ended_at is set
    destroyed).

    versions maps a name to [old, new]; old is 0 where there was none, or the store has it no more. retire_at is real time.
    actor_id is who asked.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    stage = models.CharField(max_length=12)
    versions = models.JSONField(default=dict)
    overlap_s = models.PositiveIntegerField()
    actor_id = models.CharField(max_length=64)
    started_at = models.DateTimeField()
    switched_at = models.DateTimeField(null=True)
    retire_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=60, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(stage__in=STAGES), name="secret_rotation_stage_known"),
            models.UniqueConstraint(
                fields=["tenant_id", "installation_id"],
                condition=Q(stage="staged"),
                name="secret_rotation_one_staged",
            ),
        ]
        indexes = [models.Index(fields=["stage", "retire_at"], name="secret_rotation_open")]


class SecretFingerprint(models.Model):
    """A value was given for this property: a keyed fingerprint, unique per vendor over all properties and tenants.

    Kept when the value is retired: a credential that leaked is not taken anywhere again. rotation_id is set where a rotation
    brought the value; one that is rolled back untried takes its claim along.
    """

    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    vendor = models.CharField(max_length=40)
    fingerprint = models.BinaryField(max_length=32)
    name = models.CharField(max_length=40)
    rotation_id = models.CharField(max_length=64, blank=True)
    made_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["vendor", "fingerprint"], name="secret_fingerprint_once")]


class BreakGlass(models.Model):
    """Somebody asked to see one vendor secret. Needs two approvals by two others, shows the value once, and ends.

    state: requested, approved, revealed, closed, expired or refused. expires_at, revealed_at and closed_at are real time.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    secret_name = models.CharField(max_length=40)
    incident = models.CharField(max_length=64)
    reason = models.CharField(max_length=200)
    requested_by = models.CharField(max_length=64)
    state = models.CharField(max_length=10, default="requested")
    requested_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revealed_at = models.DateTimeField(null=True)
    revealed_version = models.PositiveIntegerField(null=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "break-glass request"
        constraints = [models.CheckConstraint(condition=Q(state__in=STATES), name="break_glass_state_known")]
        indexes = [
            models.Index(
                fields=["expires_at"], condition=Q(state__in=["requested", "approved", "revealed"]), name="break_glass_open"
            ),
            models.Index(fields=["tenant_id", "requested_at"], name="break_glass_by_age"),
        ]

    def __str__(self) -> str:
        return self.id


class BreakGlassStep(models.Model):
    """What was done about a request, by whom (empty: time ran out). Append-only; a person approves a request once."""

    tenant_id = models.CharField(max_length=64)
    request_id = models.CharField(max_length=64)
    step = models.CharField(max_length=10)
    actor_id = models.CharField(max_length=64, blank=True)
    detail = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(step__in=STEPS), name="break_glass_step_known"),
            models.UniqueConstraint(
                fields=["tenant_id", "request_id", "actor_id"], condition=Q(step="approved"), name="break_glass_approved_once"
            ),
        ]
        indexes = [models.Index(fields=["tenant_id", "request_id"], name="break_glass_steps")]
