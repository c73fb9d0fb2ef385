"""Reads an answer of the TTLock cloud.

One rule: HTTP says nothing. 200 may be an error, the declared type may be wrong, numbers may come as text.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from vendors.support.http import AnswerLost, HttpAnswer

from .errors import Refused

MAX_OFFSET_MS = 18 * 3_600_000
"""No wall clock is further from UTC than 14 hours; more than this is no distance at all."""


def read_answer(answer: HttpAnswer) -> dict[str, Any]:
    """Returns the document of an answer that is no error.

    Raises Refused with the vendor's number, or AnswerLost for anything that is no answer of the cloud: another status, HTML,
    an empty body. Those come from the edge in front of it.
    """
    if answer.status != 200:
        raise AnswerLost(f"status {answer.status}")
    try:
        document = answer.json()
    except ValueError as error:
        raise AnswerLost("no JSON") from error
    if not isinstance(document, dict):
        raise AnswerLost("no JSON object")
    code = to_int(document.get("errcode"))
    if code is None and "errcode" in document:
        raise AnswerLost("an error number that is none")
    if code:
        raise Refused(code, str(document.get("errmsg") or ""))
    return document


def changes_nothing(path: str) -> bool:
    """Says whether a request only reads: lists, details, and what is queried. `…/get` makes a random passcode."""
    return path.rpartition("/")[2].startswith(("list", "detail", "query"))


_ONLY_WHETHER = frozenset({"change", "changePeriod", "delete", "deleteByCode", "freeze", "unfreeze"})


def says_only_whether(path: str) -> bool:
    """Says whether the answer to a request has nothing in it but its error number: then one without it says nothing."""
    return path.rpartition("/")[2] in _ONLY_WHETHER


def to_int(value: object) -> int | None:
    """Reads a number that may come as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def rows_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of a list answer. Raises AnswerLost when there is no list in it."""
    rows = document.get("list")
    if not isinstance(rows, list):
        raise AnswerLost("no list in the answer")
    return [row for row in rows if isinstance(row, dict)]


def to_ms(instant: datetime) -> int:
    """Returns an instant as the vendor's milliseconds since 1970."""
    return int(instant.timestamp() * 1000)


def offset_s(row: dict[str, Any]) -> int | None:
    """Reads a lock's fixed distance from UTC in seconds, as stored when it was paired; None for none, and for one that no
    clock on earth has."""
    offset_ms = to_int(row.get("timezoneRawOffset"))
    return offset_ms // 1000 if offset_ms is not None and abs(offset_ms) <= MAX_OFFSET_MS else None


def from_ms(value: object) -> datetime | None:
    """Reads milliseconds since 1970; None for 0 (no bound), and for anything that is no instant."""
    number = to_int(value)
    if not number:
        return None
    try:
        return datetime.fromtimestamp(number / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
