"""Checks an event's data against its JSON Schema, with formats on.

One rule: every validator is compiled once per process and says where it stumbled, never over what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jsonschema_rs

from sagas.events.instants import lacks_zone, parse_instant
from sagas.events.refusals import EventRefused, RefusalCode
from sagas.events.registry import REGISTRY, Registry

_PATH_PARTS = 12
_WINDOWS = (("validFrom", "validUntil"), ("startsAt", "endsAt"))


class Validators:
    """Compiled validators of one registry, made on first use."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._compiled: dict[str, jsonschema_rs.Draft202012Validator] = {}
        self._windows: dict[str, tuple[tuple[str, str], ...]] = {}

    def _of(self, subject: str) -> jsonschema_rs.Draft202012Validator:
        found = self._compiled.get(subject)
        return found if found is not None else self._compile(subject)

    def _compile(self, subject: str) -> jsonschema_rs.Draft202012Validator:
        schema = dict(self._registry.schema(subject))
        properties = schema.get("properties", {})
        self._windows[subject] = tuple(pair for pair in _WINDOWS if all(name in properties for name in pair))
        # Without an explicit request formats are not looked at, and 30 February passes.
        validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True, ignore_unknown_formats=False)
        return self._compiled.setdefault(subject, validator)

    def validate(self, subject: str, data: Mapping[str, Any]) -> None:
        """Raises `UnknownSubject` or `EventRefused`: MISSING_FIELD, NO_TIME_ZONE, WINDOW_INVERTED or SCHEMA_VIOLATION
        with the field's path; never retry.
        """
        subject = self._registry.canonical(subject)
        validator = self._of(subject)
        plain = data if isinstance(data, dict) else dict(data)
        try:
            is_valid = validator.is_valid(plain)
        except (TypeError, ValueError, RecursionError):
            # Deliberately without the cause: it may repeat the value.
            raise EventRefused(RefusalCode.SCHEMA_VIOLATION, "data: not JSON") from None
        if not is_valid:
            _refuse(next(iter(validator.iter_errors(plain))))
        for start, end in self._windows[subject]:
            if isinstance(plain.get(start), str) and isinstance(plain.get(end), str):
                check_window(plain[start], plain[end], f"data.{start}", f"data.{end}")


def check_window(start: object, end: object, start_path: str, end_path: str) -> tuple[datetime, datetime]:
    """Reads a window [start, end). Raises `EventRefused` WINDOW_INVERTED if it is empty or ends before it starts."""
    opens, closes = parse_instant(start, start_path), parse_instant(end, end_path)
    if closes <= opens:
        raise EventRefused(RefusalCode.WINDOW_INVERTED, f"{end_path}: not after {start_path}")
    return opens, closes


def _path(parts: Sequence[str | int]) -> str:
    path = "data"
    for part in parts[:_PATH_PARTS]:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += "." + (part if part.isidentifier() and len(part) <= 64 else "?")
    return path


def _refuse(error: jsonschema_rs.ValidationError) -> NoReturn:
    path, kind = _path(error.instance_path), error.kind
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
        raise EventRefused(RefusalCode.MISSING_FIELD, f"{path}.{kind.property}")
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Format) and lacks_zone(error.instance):
        raise EventRefused(RefusalCode.NO_TIME_ZONE, f"{path}: an instant needs a zone")
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.AnyOf) and not error.instance_path:
        raise EventRefused(RefusalCode.MISSING_FIELD, f"{path}: none of the allowed sets of fields is complete")
    raise EventRefused(RefusalCode.SCHEMA_VIOLATION, f"{path}: {kind.name}")


_VALIDATORS = Validators(REGISTRY)


def validate(subject: str, data: Mapping[str, Any]) -> None:
    """Checks data against the schema of its subject (any accepted spelling).

    Raises `UnknownSubject` or `EventRefused` MISSING_FIELD, NO_TIME_ZONE, WINDOW_INVERTED or SCHEMA_VIOLATION with the
    field's path; never retry.
    """
    _VALIDATORS.validate(subject, data)


def validate_many(events: Iterable[tuple[str, Mapping[str, Any]]]) -> list[EventRefused | None]:
    """Checks many events; one answer per event in the same order, None where it is valid. Neighbours do not matter."""
    return [_verdict(subject, data) for subject, data in events]


def _verdict(subject: str, data: Mapping[str, Any]) -> EventRefused | None:
    try:
        validate(subject, data)
    except EventRefused as refused:
        return refused
    return None
