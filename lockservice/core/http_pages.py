"""Pages of lists by signed cursor: where the last row stood, not how many came before it.

One rule: a cursor is good for the list, the filters and the tenant it was made for, and for nothing else; new rows move
nobody's page, since a page goes on behind the last row that was seen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.core import signing
from django.db.models import Model, Q, QuerySet

from lockservice.core.http_problems import Problem

MAX_ROWS: Final = 200
DEFAULT_ROWS: Final = 50
_SALT: Final = "lock.page.v1"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What is asked for: at most `limit` rows (1 to MAX_ROWS) behind `cursor` (empty: from the start)."""

    scope: str
    limit: int = DEFAULT_ROWS
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, and the cursor of the next ones; None on the last page."""

    rows: list[Any]
    next_cursor: str | None


def scope_of(name: str, tenant_id: str, filters: Mapping[str, Any]) -> str:
    """Returns a digest of what a cursor is bound to."""
    text = json.dumps([name, tenant_id, sorted((key, str(value)) for key, value in filters.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def newest_first(rows: QuerySet[Any], request: PageRequest, moment: str) -> Page:
    """Pages by (`moment`, id), both falling. Inside the tenant's block. Raises Problem for a cursor that is not good here."""
    if request.cursor:
        at_text, last_id = _open(request, 2)
        at = datetime.fromisoformat(at_text)
        rows = rows.filter(Q(**{f"{moment}__lt": at}) | Q(**{moment: at, "id__lt": last_id}))
    found = list(rows.order_by(f"-{moment}", "-id")[: request.limit + 1])
    return _page(found, request, lambda row: [getattr(row, moment).isoformat(), row.id])


def by_id(rows: QuerySet[Any], request: PageRequest, column: str = "id") -> Page:
    """Pages by id, or by another column that is unique among the rows, rising. Inside the tenant's block. Raises Problem for a
    cursor that is not good here."""
    if request.cursor:
        rows = rows.filter(**{f"{column}__gt": _open(request, 1)[0]})
    found = list(rows.order_by(column)[: request.limit + 1])
    return _page(found, request, lambda row: [getattr(row, column)])


def _page(found: list[Model], request: PageRequest, place: Any) -> Page:
    rows = found[: request.limit]
    more = len(found) > request.limit
    return Page(rows, signing.dumps([request.scope, *place(rows[-1])], salt=_SALT) if more else None)


def _open(request: PageRequest, parts: int) -> list[str]:
    try:
        value = signing.loads(request.cursor, salt=_SALT)
    except signing.BadSignature as error:
        raise _bad_cursor() from error
    if not isinstance(value, list) or len(value) != parts + 1 or value[0] != request.scope:
        raise _bad_cursor()
    return value[1:]


def _bad_cursor() -> Problem:
    return Problem("VALIDATION_FAILED", "the cursor belongs to another list", {"cursor": "is not a cursor of this list"})
