"""Tells answers of the cloud's contract from what only looks like one, before anything is taken out of them.

One rule: an answer that came and cannot be read tells nothing of what was done, so it is a doubt and never a refusal; and no
list is no empty list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from vendors.port.errors import Reason

from .answers import moment
from .errors import Unclear, unreachable

MAX_PAGES = 100
"""Of 200 rows each. A list that goes on after that has no end."""


@contextmanager
def reading() -> Iterator[None]:
    """Goes around the reading of one answer. Raises Unclear where a part is missing or is of another type."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Unclear(unreachable("the answer is not of the contract", Reason.TIMEOUT)) from error


def rows_in(document: Mapping[str, Any], name: str = "items") -> list[Mapping[str, Any]]:
    """Returns the rows of a list. Raises Unclear where there is no list of objects of that name."""
    with reading():
        return _objects(document[name])


def checked_key(row: object) -> Mapping[str, Any]:
    """Returns a key whose parts are what `answers` takes them for. Raises Unclear."""
    with reading():
        if not isinstance(row, dict):
            raise TypeError("no key")
        for name in ("cardRef", "status"):
            _text(row, name)
        if row["status"] == "waiting_card":
            _text(row, "operationId")
        _names(row.get("rooms", []))
        for number in row.get("authorizations", {}).get("grant", []):
            int(number)
        for effect in _objects(row.get("effects", [])):
            _text(effect, "room")
            if effect.get("effectiveNotAfter"):
                moment(effect["effectiveNotAfter"])
        for refused in _objects(row.get("refused", [])):
            _text(refused, "room")
            _text(refused, "code")
        for older in _objects(row.get("supersedes", [])):
            _text(older, "reservationRef", may_be_empty=True)
            _names(older.get("rooms", []))
            moment(older["validUntil"])
        return row


def checked_listed(row: object) -> Mapping[str, Any]:
    """Returns a key of a list, which also says of what kind it is and when it opens. Raises Unclear."""
    key = checked_key(row)
    with reading():
        _text(key, "kind")
        if moment(key["validUntil"]) <= moment(key["validFrom"]):
            raise ValueError("a key that ends before it begins")
        return key


def _objects(rows: object) -> list[Mapping[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TypeError("no list of objects")
    return rows


def _names(rows: object) -> None:
    if not isinstance(rows, list) or not all(isinstance(name, str) for name in rows):
        raise TypeError("no list of names")


def _text(row: Mapping[str, Any], name: str, *, may_be_empty: bool = False) -> None:
    if not isinstance(row[name], str) or not (row[name] or may_be_empty):
        raise TypeError(f"{name} is no text")
