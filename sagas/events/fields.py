"""Reads single fields of an envelope.

One rule: a missing field, a null where text is needed and a malformed text are three refusals that name the field.
Ids of other services are opaque: 1 to 64 visible ASCII characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sagas.events.refusals import EventRefused, RefusalCode

OPAQUE_ID = re.compile(r"[!-~]{1,64}", re.ASCII)
ORDERING_KEY = re.compile(r"[!-~]{1,128}", re.ASCII)
TEXT = re.compile(r"[^\x00-\x1f\x7f]{1,256}")
OWN_EVENT_ID = re.compile(r"evt_[0-7][0-9A-HJKMNP-TV-Z]{25}", re.ASCII)

# W3C Trace Context §3.2.2: version ff, an all-zero trace id and an all-zero parent id are invalid.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def invalid(field: str, rule: str) -> EventRefused:
    """Builds the refusal of a malformed field."""
    return EventRefused(RefusalCode.INVALID_FIELD, f"{field}: {rule}")


def required_text(document: Mapping[str, Any], name: str, pattern: re.Pattern[str] = OPAQUE_ID) -> str:
    """Reads a text that must be there. Raises `EventRefused` MISSING_FIELD or INVALID_FIELD."""
    value = optional_text(document, name, pattern)
    if value is None:
        raise EventRefused(RefusalCode.MISSING_FIELD, name)
    return value


def optional_text(document: Mapping[str, Any], name: str, pattern: re.Pattern[str] = OPAQUE_ID) -> str | None:
    """Reads a text that may be absent or null. Raises `EventRefused` INVALID_FIELD."""
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        raise invalid(name, "malformed")
    return value


def required_object(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Reads an object that must be there. Raises `EventRefused` MISSING_FIELD or INVALID_FIELD."""
    value = document.get(name)
    if value is None:
        raise EventRefused(RefusalCode.MISSING_FIELD, name)
    if not isinstance(value, dict):
        raise invalid(name, "not an object")
    return value


def optional_count(document: Mapping[str, Any], name: str) -> int | None:
    """Reads a whole number of 1 or more that may be absent. Raises `EventRefused` INVALID_FIELD."""
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise invalid(name, "not a whole number of 1 or more")
    return value


def is_traceparent(value: object) -> bool:
    """Tells whether a text is a usable W3C traceparent."""
    return isinstance(value, str) and _TRACEPARENT.fullmatch(value) is not None


def traceparent(document: Mapping[str, Any], name: str) -> str | None:
    """Reads a traceparent; a malformed one counts as absent (W3C Trace Context §3.2: the receiver starts anew).

    Refusing it would keep a cancellation from the door because of a broken tracer.
    """
    value = document.get(name)
    return value if isinstance(value, str) and is_traceparent(value) else None
