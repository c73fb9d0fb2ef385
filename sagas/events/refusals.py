"""Why an event is not taken or not let out.

One rule: a refusal names the field and the rule it broke, never the value that stood there.
"""

from __future__ import annotations

from enum import StrEnum


class RefusalCode(StrEnum):
    """Reasons of a refusal; they appear in dead letters and metrics, so a code is never reused for another meaning."""

    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    INVALID_UTF8 = "INVALID_UTF8"
    INVALID_JSON = "INVALID_JSON"
    MISSING_FIELD = "MISSING_FIELD"
    INVALID_FIELD = "INVALID_FIELD"
    UNKNOWN_SUBJECT = "UNKNOWN_SUBJECT"
    UNKNOWN_VERSION = "UNKNOWN_VERSION"
    NO_TIME_ZONE = "NO_TIME_ZONE"
    WINDOW_INVERTED = "WINDOW_INVERTED"
    SCHEMA_VIOLATION = "SCHEMA_VIOLATION"
    NOT_INBOUND = "NOT_INBOUND"


class EventRefused(Exception):
    """An event is malformed or breaks its contract. Final: the same bytes are refused again, so never retry."""

    def __init__(self, code: RefusalCode, detail: str) -> None:
        super().__init__(f"{code.value}: {detail}")
        self.code = code
        self.detail = detail

    def __reduce__(self) -> tuple[type[EventRefused], tuple[RefusalCode, str]]:
        return type(self), (self.code, self.detail)


class UnknownSubject(EventRefused, LookupError):
    """No event of this spelling and version is registered. `code` tells an unknown version from an unknown subject."""

    def __init__(self, code: RefusalCode = RefusalCode.UNKNOWN_SUBJECT, detail: str = "subject: not registered") -> None:
        super().__init__(code, detail)
