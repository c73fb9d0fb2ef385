"""Tenants, properties and rooms, as far as keys need them.

One rule: ids of other services are unique within their tenant only, so every key here carries the tenant.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.contrib.postgres.fields import ArrayField
from django.db import models

_MINUTE = timedelta(minutes=1)


class Tenant(models.Model):
    """A hotel company. Its row is visible to itself only.

    config_key_name is its own key-encryption key (a Cloud KMS resource name), empty where it uses the service's.
    """

    tenant_id = models.CharField(max_length=64, primary_key=True)
    name = models.CharField(max_length=200)
    active = models.BooleanField(default=True)
    config_key_name = models.CharField(max_length=300, blank=True)

    def __str__(self) -> str:
        return self.name


class Property(models.Model):
    """One hotel: its time zone, its hours, whether it is in operation."""

    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    name = models.CharField(max_length=200)
    time_zone = models.CharField(max_length=64)
    check_in_time = models.TimeField(default=time(14, 0))
    check_out_time = models.TimeField(default=time(11, 0))
    active = models.BooleanField(default=True)

    class Meta:
        verbose_name_plural = "properties"
        constraints = [models.UniqueConstraint(fields=["tenant_id", "property_id"], name="property_once")]

    def __str__(self) -> str:
        return self.name

    def arrival(self, day: date) -> datetime:
        """Returns the instant from which the house's clock has reached its check-in time on that local day, in UTC: of two the
        first, and where the clock leaves the time out, when it does."""
        return _reached(datetime.combine(day, self.check_in_time), ZoneInfo(self.time_zone))[0]

    def departure(self, day: date) -> datetime:
        """Returns the instant up to which the house's clock has not passed its check-out time on that local day, in UTC: of two
        the last, and where the clock leaves the time out, when it does."""
        return _reached(datetime.combine(day, self.check_out_time), ZoneInfo(self.time_zone))[1]

    def day_end(self, day: date) -> datetime:
        """Returns the instant at which that local day is over, in UTC; where midnight comes twice, the last one."""
        return _reached(datetime.combine(day + timedelta(days=1), time(0)), ZoneInfo(self.time_zone))[1]


def _reached(wall: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Returns the first and the last instant at which a clock of the zone comes to this time: the same on all but two nights a
    year. A time that is left out is come to, and passed, when the clock is set forward."""
    first, last = sorted(wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first.astimezone(zone).replace(tzinfo=None) == wall:
        return first, last
    while first.astimezone(zone).replace(tzinfo=None) < wall:
        first += _MINUTE
    return first, first


class Room(models.Model):
    """A guest room."""

    tenant_id = models.CharField(max_length=64)
    property_id = models.CharField(max_length=64)
    room_id = models.CharField(max_length=64)
    label = models.CharField(max_length=64)
    floor = models.CharField(max_length=16, blank=True)
    areas = ArrayField(models.CharField(max_length=16), default=list, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "room_id"], name="room_once")]
        indexes = [models.Index(fields=["tenant_id", "property_id"], name="room_by_property")]

    def __str__(self) -> str:
        return self.label
