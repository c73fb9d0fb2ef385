"""Reads answers of either product into values, and says so where one makes no sense.

One rule: an answer that came and cannot be read tells nothing of what was done, so it is a doubt and never a refusal; and no
list is no empty list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from vendors.port.errors import Reason

from .errors import Unclear, unreachable


class RowWrong(ValueError):
    """A row contradicts itself or the contract. The message is ours and holds nothing of the answer but known words."""


@contextmanager
def reading() -> Iterator[None]:
    """Goes around the reading of one answer. Raises Unclear where a part is missing or is of another type."""
    try:
        yield
    except RowWrong as error:
        raise Unclear(unreachable(f"the answer is not of the contract: {error}", Reason.TIMEOUT)) from error
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Unclear(unreachable("the answer is not of the contract", Reason.TIMEOUT)) from error


def rows_in(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the rows of a list answer. Raises Unclear where there is no list of objects in it."""
    with reading():
        rows = body["items"]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise TypeError("no rows")
        return rows


def names_in(rows: object) -> tuple[str, ...]:
    """Returns names as a tuple, none for none. Raises TypeError for anything but a list of texts."""
    if rows is None:
        return ()
    if not isinstance(rows, list | tuple) or not all(isinstance(name, str) for name in rows):
        raise TypeError("no list of names")
    return tuple(rows)


def text_in(row: Mapping[str, Any], name: str) -> str:
    """Returns a text that must be there. Raises KeyError or TypeError."""
    value = row[name]
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} is no text")
    return value
