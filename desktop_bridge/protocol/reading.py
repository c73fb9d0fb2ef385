"""Reads one frame: bounded, strict JSON, every field checked. Nothing is guessed and nothing unknown is let through.

One rule: an error names the field and the rule it broke, never the value, since a value may be a card's number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

MAX_FRAME_BYTES = 64 * 1024
"""No job and no result comes near it: fifteen records are two kilobytes, a page of a controller's list twenty."""
MAX_DEPTH = 8
T = TypeVar("T")


class BadFrame(Exception):
    """What came is no message of this protocol. `code` is stable. Sending it again makes no sense."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class Fields:
    """The fields of one JSON object, taken one by one; `finish` refuses what was not taken."""

    def __init__(self, document: Mapping[str, Any], where: str) -> None:
        self._document = document
        self._where = where
        self._taken: set[str] = set()

    def text(self, name: str, most: int = 64, *, default: str | None = None) -> str:
        """Takes a text of 1 to `most` characters, or of none where a default is given."""
        value = self._take(name) if default is None else self._take(name, default)
        if not isinstance(value, str) or len(value) > most or (not value and default is None):
            raise self._wrong(name, f"a text of 1 to {most} characters")
        if not value.isprintable():
            raise self._wrong(name, "printable text")
        return value

    def whole(self, name: str, least: int, most: int) -> int:
        """Takes a whole number in a range."""
        value = self._take(name)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(name, f"a whole number from {least} to {most}")
        return value

    def number(self, name: str, least: float, most: float) -> float:
        """Takes a number in a range."""
        value = self._take(name)
        if type(value) not in (int, float) or not least <= value <= most:
            raise self._wrong(name, f"a number from {least:g} to {most:g}")
        return float(value)

    def flag(self, name: str) -> bool:
        """Takes true or false."""
        value = self._take(name)
        if type(value) is not bool:
            raise self._wrong(name, "true or false")
        return value

    def choice(self, name: str, kind: type[T], *, or_none: bool = False) -> T | None:
        """Takes one of an enumeration's words; None where that is allowed and the field is missing."""
        value = self._take(name, None) if or_none else self._take(name)
        if value is None and or_none:
            return None
        try:
            return kind(value)  # type: ignore[call-arg]
        except ValueError:
            raise self._wrong(name, "one of the words of this version") from None

    def texts(self, name: str, most: int, each: int = 64) -> tuple[str, ...]:
        """Takes a list of at most `most` texts."""
        value = self._take(name)
        good = isinstance(value, list) and len(value) <= most
        if not good or not all(isinstance(item, str) and 0 < len(item) <= each for item in value):
            raise self._wrong(name, f"a list of at most {most} texts")
        return tuple(value)

    def document(self, name: str) -> Mapping[str, Any]:
        """Takes an object whose content is the adapter's business."""
        value = self._take(name)
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return value

    def numbers(self, name: str) -> Mapping[str, int]:
        """Takes an object of whole numbers from 0 to 2^32 - 1."""
        value = self.document(name)
        if not all(type(item) is int and 0 <= item < 2**32 for item in value.values()):
            raise self._wrong(name, "an object of whole numbers")
        return value

    def finish(self) -> None:
        """Refuses fields nobody asked for: a new field needs a new version."""
        extra = set(self._document) - self._taken
        if extra:
            raise BadFrame("unknown_field", f"{self._where} has {len(extra)} fields too many")

    def _take(self, name: str, *default: Any) -> Any:
        self._taken.add(name)
        if name in self._document:
            return self._document[name]
        if default:
            return default[0]
        raise BadFrame("missing_field", f"{self._where} lacks {name}")

    def _wrong(self, name: str, rule: str) -> BadFrame:
        return BadFrame("bad_field", f"{self._where}.{name} must be {rule}")


def read_object(frame: str | bytes) -> dict[str, Any]:
    """Reads a frame as one JSON object. Raises BadFrame."""
    if isinstance(frame, bytes):
        raise BadFrame("binary_frame", "messages are text")
    if len(frame.encode("utf-8", "replace")) > MAX_FRAME_BYTES:
        raise BadFrame("too_large", f"a message is at most {MAX_FRAME_BYTES} bytes")
    try:
        document = json.loads(frame, object_pairs_hook=_no_doubles, parse_constant=_no_constant, parse_int=_small_int)
    except (ValueError, RecursionError) as error:
        raise BadFrame("bad_json", "the message is no JSON") from error
    if not isinstance(document, dict):
        raise BadFrame("bad_json", "the message is no object")
    if _depth(document) > MAX_DEPTH:
        raise BadFrame("too_deep", f"objects lie at most {MAX_DEPTH} deep")
    return document


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a name stands twice")
    return document


def _no_constant(name: str) -> Any:
    raise ValueError("not a number")


def _small_int(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError("too many digits")
    return int(digits)


def _depth(value: object) -> int:
    deepest, level = 0, [value]
    while level and deepest <= MAX_DEPTH:
        deepest += 1
        level = [
            item
            for outer in level
            if isinstance(outer, dict | list)
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return deepest
