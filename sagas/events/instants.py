"""Instants and days as they stand in events.

One rule: an instant without a zone is refused, never guessed.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from sagas.events.refusals import EventRefused, RefusalCode

# RFC 3339 §5.6, with the zone made optional so that its absence can be told from rubbish.
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def parse_instant(text: object, field: str) -> datetime:
    """Turns RFC 3339 text into an aware UTC instant (microseconds; finer fractions are cut off).

    Raises `EventRefused` NO_TIME_ZONE for a local time, INVALID_FIELD for anything else that is no instant.
    """
    match = _INSTANT.fullmatch(text) if isinstance(text, str) else None
    if match is None or not isinstance(text, str):
        raise EventRefused(RefusalCode.INVALID_FIELD, f"{field}: not an RFC 3339 instant")
    if match.group(1) is None:
        raise EventRefused(RefusalCode.NO_TIME_ZONE, f"{field}: an instant needs a zone")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise EventRefused(RefusalCode.INVALID_FIELD, f"{field}: no such instant") from error


def lacks_zone(text: object) -> bool:
    """Tells whether the text is an instant whose only fault is a missing zone."""
    match = _INSTANT.fullmatch(text) if isinstance(text, str) else None
    return match is not None and match.group(1) is None


def format_instant(instant: datetime) -> str:
    """Writes an aware instant as UTC with `Z`: milliseconds, or microseconds where those are not zero.

    Raises `EventRefused` NO_TIME_ZONE for a naive datetime.
    """
    if instant.tzinfo is None:
        raise EventRefused(RefusalCode.NO_TIME_ZONE, "an instant needs a zone")
    utc = instant.astimezone(UTC)
    spec = "microseconds" if utc.microsecond % 1000 else "milliseconds"
    return utc.replace(tzinfo=None).isoformat(timespec=spec) + "Z"


def parse_day(text: object, field: str) -> date:
    """Turns `YYYY-MM-DD` into a date. Raises `EventRefused` INVALID_FIELD."""
    if not isinstance(text, str) or _DAY.fullmatch(text) is None:
        raise EventRefused(RefusalCode.INVALID_FIELD, f"{field}: not a day")
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise EventRefused(RefusalCode.INVALID_FIELD, f"{field}: no such day") from error
