"""Input as it must be: JSON without surprises, texts that are texts, instants with a zone, no unknown field.

One rule: nothing is coerced. A number is no text, "true" is no truth value, an instant without a zone is nobody's time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import IO, Any, ClassVar, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from lockservice.core.http_problems import Problem
from sagas.events import strict_json
from sagas.events.instants import lacks_zone, parse_instant
from sagas.events.refusals import EventRefused, RefusalCode

MAX_BODY_BYTES: Final = 128 * 1024
LATEST_YEAR: Final = 2099
_OPAQUE: Final = re.compile(r"[!-~]{1,64}", re.ASCII)
_CHARSETS: Final = frozenset({"", "utf-8", "utf8"})


class StrictJsonParser(BaseParser):
    """Reads a JSON body of at most MAX_BODY_BYTES."""

    media_type = "application/json"

    def parse(self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        """Returns the document. Raises Problem PAYLOAD_TOO_LARGE or VALIDATION_FAILED, UnsupportedMediaType."""
        charset = re.search(r'charset="?([\w-]*)', media_type or "", re.IGNORECASE)
        if charset is not None and charset.group(1).lower() not in _CHARSETS:
            raise UnsupportedMediaType(media_type or "")
        return read_json(stream.read(MAX_BODY_BYTES + 1))


def read_json(raw: bytes) -> Any:
    """Returns a JSON document. Raises Problem PAYLOAD_TOO_LARGE or VALIDATION_FAILED."""
    try:
        return strict_json.loads(raw, MAX_BODY_BYTES)
    except EventRefused as error:
        if error.code is RefusalCode.PAYLOAD_TOO_LARGE:
            raise Problem("PAYLOAD_TOO_LARGE", f"at most {MAX_BODY_BYTES} bytes") from error
        raise Problem("VALIDATION_FAILED", "the body is no JSON that can be read", {"body": error.detail}) from error


class JsonAlways(BaseContentNegotiation):
    """Answers in JSON whatever the caller says it accepts: there is nothing else to choose from."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        """Returns the parser of the body's media type; None for another type."""
        kind = (request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == kind), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """Returns the view's first renderer."""
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


class Text(serializers.CharField):
    """A text, never blank; numbers and truth values are none."""

    default_error_messages: ClassVar = {"invalid": "must be a text"}

    def to_internal_value(self, data: Any) -> str:
        """Returns the text unchanged."""
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


@extend_schema_field({"type": "string", "pattern": "^[!-~]{1,64}$", "minLength": 1, "maxLength": 64})
class OpaqueId(serializers.Field[Any, Any, Any, Any]):
    """An id, of ours or of another service: 1 to 64 visible ASCII characters."""

    default_error_messages: ClassVar = {"invalid": "must be an id of 1 to 64 visible ASCII characters"}

    def to_internal_value(self, data: Any) -> str:
        """Returns the id unchanged."""
        if not isinstance(data, str) or _OPAQUE.fullmatch(data) is None:
            self.fail("invalid")
        return data

    def to_representation(self, value: Any) -> Any:
        """Returns the id unchanged."""
        return value


@extend_schema_field({"type": "string", "format": "date-time"})
class Instant(serializers.Field[Any, Any, Any, Any]):
    """An RFC 3339 instant with its zone, up to the year LATEST_YEAR."""

    default_error_messages: ClassVar = {
        "zone": "needs a time zone, for example 2026-11-27T14:00:00+04:30",
        "invalid": "must be an RFC 3339 instant with a time zone",
        "range": f"must lie between the years 2000 and {LATEST_YEAR}",
    }

    def to_internal_value(self, data: Any) -> datetime:
        """Returns the instant in UTC."""
        try:
            instant = parse_instant(data, self.field_name or "")
        except EventRefused as error:
            self.fail("zone" if error.code is RefusalCode.NO_TIME_ZONE or lacks_zone(data) else "invalid")
            raise AssertionError from error  # `fail` always raises
        if not 2000 <= instant.year <= LATEST_YEAR:
            self.fail("range")
        return instant

    def to_representation(self, value: Any) -> Any:
        """Returns the instant unchanged; bodies are built with their own format."""
        return value


@extend_schema_field({"type": "boolean"})
class Truth(serializers.Field[Any, Any, Any, Any]):
    """true or false, nothing that looks like it."""

    default_error_messages: ClassVar = {"invalid": "must be true or false"}

    def to_internal_value(self, data: Any) -> bool:
        """Returns the value unchanged."""
        if not isinstance(data, bool):
            self.fail("invalid")
        return bool(data)

    def to_representation(self, value: Any) -> Any:
        """Returns the value unchanged."""
        return value


class Word(serializers.ChoiceField):
    """One word of a closed list."""

    default_error_messages: ClassVar = {"invalid_choice": "must be one of the listed values"}

    def __init__(self, words: type[StrEnum] | Iterable[str], **options: Any) -> None:
        super().__init__(choices=[str(word) for word in words], **options)

    def to_internal_value(self, data: Any) -> str:
        """Returns the word unchanged."""
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice", input="")
        return str(data)


class Words(serializers.ListField):
    """A list without doubles, of at most `max_length` items."""

    default_error_messages: ClassVar = {"double": "must not name anything twice", "not_a_list": "must be a list"}

    def to_internal_value(self, data: Any) -> list[Any]:
        """Returns the list in its order."""
        if not isinstance(data, list):
            self.fail("not_a_list", input_type="")
        values = list(super().to_internal_value(data))
        if len(set(values)) != len(values):
            self.fail("double")
        return values


class StrictBody(serializers.Serializer[Any]):
    """An input object that refuses fields it does not know."""

    refuses_unknown: ClassVar = True

    def to_internal_value(self, data: Any) -> Any:
        """Returns the valid values. Raises ValidationError naming each field that is wrong."""
        if not isinstance(data, Mapping):
            raise serializers.ValidationError({"body": ["must be an object"]})
        unknown = {_printable(name): ["is not known"] for name in data if name not in self.fields}
        if unknown:
            raise serializers.ValidationError(unknown)
        return super().to_internal_value(data)


def shape(
    name: str, base: type[serializers.Serializer[Any]] = serializers.Serializer, /, **fields: Any
) -> type[serializers.Serializer[Any]]:
    """Makes a serializer class from fields named as they stand in JSON."""
    return type(name, (base,), dict(fields))


def _printable(name: str) -> str:
    """A field's name as the answer may repeat it."""
    return name if _OPAQUE.fullmatch(name) else "(unreadable)"
