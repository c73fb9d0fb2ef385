"""The sheet of figures: what a worker counted over all tenants, for whoever shows it.

One rule: the sheet is one row that is replaced as a whole, so reading it costs one query however much was counted. It holds
numbers under closed words and ids of installations, nothing else of a tenant.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, models


class FigureSheet(models.Model):
    """The one row (id 1). body is a list of [series, [label values], number]; counted_at is real time."""

    id = models.PositiveSmallIntegerField(primary_key=True)
    counted_at = models.DateTimeField()
    body = models.JSONField(default=list)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a series, with the values of the series' labels in order."""

    series: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class Sheet:
    """What was counted, and how many seconds ago by the database's real time."""

    figures: tuple[Figure, ...]
    age_s: float
    counted_at: datetime


def replace_sheet(figures: Sequence[Figure]) -> None:
    """Writes the sheet anew. Inside a queue block."""
    body = json.dumps([[figure.series, list(figure.labels), figure.value] for figure in figures])
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO core_figuresheet (id, counted_at, body) VALUES (1, (SELECT clock_timestamp()), %s::jsonb)"
            " ON CONFLICT (id) DO UPDATE SET counted_at = EXCLUDED.counted_at, body = EXCLUDED.body",
            [body],
        )


def read_sheet() -> Sheet | None:
    """Returns the sheet, or None before the first count. One query; inside any block."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT body::text, EXTRACT(EPOCH FROM (SELECT clock_timestamp()) - counted_at)::float8, counted_at"
            " FROM core_figuresheet WHERE id = 1"
        )
        row = cursor.fetchone()
    if row is None:
        return None
    figures = tuple(Figure(series, tuple(labels), float(value)) for series, labels, value in json.loads(row[0]))
    return Sheet(figures, max(row[1], 0.0), row[2])
