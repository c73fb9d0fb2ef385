"""The hotel's clock: one row that all processes read, movable in the demo.

One rule: windows, no-show, lead, shifts and a vendor's `date` go by this clock; leases, retries, limits and heartbeats go by
the database's real time and never move. Without a row the hotel's time is real time.

In a statement real time is written `(SELECT clock_timestamp())`. The bare function is volatile: PostgreSQL calls it again for
each row, so no index can answer a condition on it. The subquery is evaluated once.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, models

NOW_SQL = (
    "(SELECT COALESCE((SELECT CASE WHEN stopped_at IS NOT NULL THEN stopped_at ELSE clock_timestamp() + ahead END"
    " FROM core_hotelclock WHERE id = 1), clock_timestamp()))"
)
"""An SQL expression for the hotel's present instant. It is a subquery: see the rule on conditions."""


class HotelClock(models.Model):
    """The single row: running `ahead` of real time, or stopped at an instant."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    ahead = models.DurationField(default=timedelta(0))
    stopped_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="hotel_clock_is_one_row")]


def now() -> datetime:
    """Returns the hotel's present instant in UTC. Costs one small query; needs an open tenant or queue block."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {NOW_SQL}")
        instant: datetime = cursor.fetchone()[0]
    return instant


def real_now() -> datetime:
    """Returns the database's real time in UTC, which nobody moves. Costs one small query; needs an open block."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        instant: datetime = cursor.fetchone()[0]
    return instant


def stop_at(instant: datetime) -> None:
    """Stops the hotel's clock at an instant. Inside a queue block of a demo or test. Raises ValueError without a zone."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    HotelClock.objects.update_or_create(id=1, defaults={"stopped_at": instant, "ahead": timedelta(0)})


def run_ahead(ahead: timedelta) -> None:
    """Lets the hotel's clock run at real speed, ahead of (or behind) real time. Inside a queue block."""
    HotelClock.objects.update_or_create(id=1, defaults={"stopped_at": None, "ahead": ahead})
