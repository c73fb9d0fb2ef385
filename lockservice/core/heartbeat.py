"""Signs of life of long-running processes: one row each, on the database's real time.

One rule: a row names a process incarnation, never a host. Rows of the supervisor are no sign of life: they tell what does not
start.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.db import connection, models

DETAIL_MAX = 200


class Heartbeat(models.Model):
    """When a process last did its round. `detail` says what goes wrong in it, for people; empty when nothing does."""

    name = models.CharField(max_length=64, primary_key=True)
    incarnation = models.CharField(max_length=40)
    beat_at = models.DateTimeField()
    detail = models.CharField(max_length=DETAIL_MAX, blank=True)


SUPERVISOR = "supervisor"
"""The incarnation of rows that the supervisor wrote for processes that do not start."""


def beat(name: str, incarnation: str, detail: str = "") -> None:
    """Writes a sign of life. Inside a queue block."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO core_heartbeat (name, incarnation, beat_at, detail) VALUES (%s, %s, (SELECT clock_timestamp()), %s)"
            " ON CONFLICT (name) DO UPDATE SET incarnation = EXCLUDED.incarnation, beat_at = EXCLUDED.beat_at,"
            " detail = EXCLUDED.detail",
            [name, incarnation, detail[:DETAIL_MAX]],
        )


def ages() -> dict[str, float]:
    """Returns the seconds since each process's last sign of life. Inside a queue block."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, extract(epoch FROM (SELECT clock_timestamp()) - beat_at)::float8 FROM core_heartbeat"
            " WHERE incarnation <> %s",
            [SUPERVISOR],
        )
        return dict(cursor.fetchall())


def note_failing(failing: Mapping[str, str]) -> None:
    """Notes which processes do not start (name → reason), in place of what was noted before. Inside a queue block."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM core_heartbeat WHERE incarnation = %s AND NOT name = ANY(%s)", [SUPERVISOR, list(failing)])
    for name, reason in sorted(failing.items()):
        beat(name, SUPERVISOR, reason)
