"""Installations and lock devices.

One rule: `vendor` is text, never a list of choices: a new vendor is one folder and no migration.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models


class VendorInstallation(models.Model):
    """One vendor set up at one property. Settings and secrets are sealed; limits None mean the vendor's own.

    lane_width bounds parallel calls where the vendor has no serial gateway; calls_per_minute and calls_per_month are limits.
    """

    id = models.CharField(max_length=64, primary_key=True)
    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    vendor = models.CharField(max_length=40)
    environment = models.CharField(max_length=20, default="production")
    label = models.CharField(max_length=120)
    settings_sealed = models.BinaryField()
    secrets_sealed = models.BinaryField(null=True)
    lane_width = models.PositiveSmallIntegerField(null=True)
    calls_per_minute = models.PositiveIntegerField(null=True)
    calls_per_month = models.PositiveIntegerField(null=True)
    version = models.PositiveIntegerField(default=1)
    active = models.BooleanField(default=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "id"], name="installation_in_tenant")]
        indexes = [models.Index(fields=["tenant_id", "property_id"], name="installation_by_property")]

    def __str__(self) -> str:
        return self.label


class LockDevice(models.Model):
    """A lock at a door, as last read. `shared` doors (street door, gym) open for stays whose scope has one of `areas`.

    gateway names the serial lane, empty where there is none; digits are those its keypad has; clock_skew_ms is lock minus true
    time; battery_percent 0 to 100.
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
    last_seen_at = models.DateTimeField(null=True)
    active = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "installation", "external_id"], name="device_once"),
        ]
        indexes = [models.Index(fields=["tenant_id", "property_id"], name="device_by_property")]

    def __str__(self) -> str:
        return self.label


class CallCount(models.Model):
    """Requests that left for a vendor, per installation and calendar month of the vendor's quota."""

    tenant_id = models.CharField(max_length=64)
    installation_id = models.CharField(max_length=64)
    month = models.CharField(max_length=7)
    calls = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "installation_id", "month"], name="call_count_once")]
