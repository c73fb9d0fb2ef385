"""The fields of one call, read leniently as the vendor does: query and body together, every value a text.

One rule: a malformed field is the vendor's -3, malformed JSON its 80002.
"""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qsl

from .errcodes import VendorError
from .wire import Request

INVALID = -3
_INTEGER = re.compile(r"-?\d{1,18}")


class Params:
    """Fields by name. The body wins over the query."""

    def __init__(self, fields: dict[str, str]) -> None:
        self.fields = fields

    @classmethod
    def of(cls, request: Request) -> Params:
        """Reads a request's query and its form body."""
        pairs = parse_qsl(request.query, keep_blank_values=True)
        if request.body:
            pairs += parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True)
        return cls(dict(pairs))

    def has(self, name: str) -> bool:
        """Says whether the field is there and not empty."""
        return bool(self.fields.get(name))

    def text(self, name: str, default: str | None = None) -> str:
        """Returns the field. Raises VendorError(-3) when it is missing without a default."""
        value = self.fields.get(name)
        if value:
            return value
        if default is None:
            raise VendorError(INVALID)
        return default

    def either(self, *names: str) -> str:
        """Returns the first of several spellings of one field, or an empty text."""
        return next((self.fields[name] for name in names if self.fields.get(name)), "")

    def integer(self, name: str, default: int | None = None) -> int:
        """Returns the field as a number. Raises VendorError(-3) when it is none."""
        value = self.fields.get(name)
        if not value:
            if default is None:
                raise VendorError(INVALID)
            return default
        if not _INTEGER.fullmatch(value):
            raise VendorError(INVALID)
        return int(value)

    def choice(self, name: str, allowed: tuple[int, ...], default: int | None = None) -> int:
        """Returns the field as one of the allowed numbers. Raises VendorError(-3) otherwise."""
        value = self.integer(name, default)
        if value not in allowed:
            raise VendorError(INVALID)
        return value

    def json(self, name: str) -> object:
        """Returns the field parsed as JSON, None when absent. Raises VendorError(80002)."""
        if not self.has(name):
            return None
        try:
            return json.loads(self.fields[name])
        except ValueError:
            raise VendorError(80002) from None
