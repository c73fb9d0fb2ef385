"""Writes many rows of one table in one statement.

One rule: column names and types come from code, values only as parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection

Columns = Mapping[str, str]
"""Column name → PostgreSQL type of one value."""


def update_rows(
    table: str,
    key: tuple[str, str],
    columns: Columns,
    rows: Sequence[Sequence[Any]],
    *,
    guard: str = "",
    skip: Sequence[str] = (),
) -> list[Any]:
    """Updates rows by key and returns the keys that were updated. Each row is (key, *values in the order of `columns`).

    `guard` is an extra SQL condition over `t` (the table) and `v` (the values, named `v_<column>`); columns in `skip` only feed
    the guard. Inside the caller's transaction.
    """
    if not rows:
        return []
    key_name, key_type = key
    arrays = [list(column) for column in zip(*rows, strict=True)]
    types = (key_type, *columns.values())
    names = ", ".join((f"v_{key_name}", *(f"v_{name}" for name in columns)))
    unnest = ", ".join(f"%s::{kind}[]" for kind in types)
    sets = ", ".join(f"{name} = v.v_{name}" for name in columns if name not in skip)
    condition = f" AND {guard}" if guard else ""
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} t SET {sets} FROM unnest({unnest}) AS v({names})"
            f" WHERE t.{key_name} = v.v_{key_name}{condition} RETURNING t.{key_name}",
            arrays,
        )
        return [row[0] for row in cursor.fetchall()]


def insert_rows(table: str, columns: Columns, rows: Sequence[Sequence[Any]], *, on_conflict: str = "") -> None:
    """Inserts rows; each row holds the values in the order of `columns`. Inside the caller's transaction."""
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(_insert_sql(table, columns, on_conflict, ""), [list(c) for c in zip(*rows, strict=True)])


def insert_returning(
    table: str, columns: Columns, rows: Sequence[Sequence[Any]], *, on_conflict: str, returning: str
) -> list[tuple[Any, ...]]:
    """As `insert_rows`, and returns the named columns of the rows that were really inserted."""
    if not rows:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            _insert_sql(table, columns, on_conflict, f" RETURNING {returning}"),
            [list(c) for c in zip(*rows, strict=True)],
        )
        return list(cursor.fetchall())


def _insert_sql(table: str, columns: Columns, on_conflict: str, tail: str) -> str:
    unnest = ", ".join(f"%s::{kind}[]" for kind in columns.values())
    conflict = f" ON CONFLICT {on_conflict}" if on_conflict else ""
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({unnest}){conflict}{tail}"
