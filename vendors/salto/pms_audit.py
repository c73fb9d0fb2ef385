"""Reads a door's log over the PMS protocol: first, next, next, until the server says there is no more.

One rule: the wire has no year; the latest year that does not put the event more than a day into the future is taken (proposed).
Source: field order of a public client (medium); day before month unless the installation says otherwise (medium).
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from vendors.port.types import AccessRecord, CredentialKind, Door

from .errors import Refused, Unclear
from .local_time import instant_of
from .pms_client import PmsCall, PmsClient
from .pms_words import AuditRow, parse_audit, read_audit

MAX_ROWS = 500
REASONS = {"2": "other", "3": "not_permitted", "4": "expired", "5": "other"}
GRANTED = "0"
_SLACK = timedelta(days=1)


def read_log(
    client: PmsClient, call: PmsCall, door: Door, span: tuple[datetime, datetime], zone: ZoneInfo, now: datetime
) -> tuple[AccessRecord, ...]:
    """Returns up to 500 attempts in the span, oldest first. Raises LockError."""
    found: list[AccessRecord] = []
    seen: Counter[str] = Counter()
    which = "WF"
    for _ in range(MAX_ROWS):
        try:
            answer = client.ask(call, read_audit(door.external_id, which))
        except Refused as refused:
            raise client.error(call, refused, door.device_id) from None
        except Unclear as unclear:
            raise unclear.error from None
        if answer.field(0) == "WO":
            break
        which = "WN"
        row = parse_audit(answer.fields)
        at = moment_of(row, zone, now)
        name = f"{row.door}:{at:%Y%m%dT%H%M}:{row.incident}:{row.who}:{row.copy}"
        seen[name] += 1
        if span[0] <= at <= span[1]:
            found.append(_record(row, at, f"{name}:{seen[name]}", door.external_id))
    return tuple(sorted(found, key=lambda record: record.attempted_at))


def moment_of(row: AuditRow, zone: ZoneInfo, now: datetime) -> datetime:
    """Returns the row's instant in UTC. Raises ValueError for a day there is not."""
    day, month = (int(part) for part in row.day.split("/"))
    hour, minute = (int(part) for part in row.minute.split(":"))
    year = now.astimezone(zone).year + 1
    for candidate in range(year, year - 6, -1):  # six years back: 29 February
        try:
            at = instant_of(datetime(candidate, month, day, hour, minute), zone)  # noqa: DTZ001 - the zone is applied by instant_of
        except ValueError:
            continue
        if at <= now + _SLACK:
            return at
    raise ValueError("a day there is not")


def _record(row: AuditRow, at: datetime, event_id: str, external_id: str) -> AccessRecord:
    is_granted = row.incident == GRANTED
    return AccessRecord(
        external_event_id=event_id,
        device_external_id=external_id,
        outcome="granted" if is_granted else "denied",
        attempted_at=at,
        deny_reason=None if is_granted else REASONS.get(row.incident, "other"),
        kind=CredentialKind.RFID_CARD,
    )
