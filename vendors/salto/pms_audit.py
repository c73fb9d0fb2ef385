"""Reads a door's log over the PMS protocol: first, next, next, until the server says there is no more.

The whole log is read over one connection, because some servers keep the place in it by connection.
One rule: the wire has no year; the latest year that does not put the event more than a day into the future is taken (proposed).
The newest line comes last, so a log that cannot be read to its end tells nothing.
Source: field order of a public client (medium); day before month unless the installation says otherwise (medium).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from vendors.port.errors import Reason
from vendors.port.types import AccessRecord, CredentialKind, Door

from .errors import Refused, Unclear, unreachable
from .local_time import instant_of
from .pms_client import PmsCall, PmsClient, PmsTalk
from .pms_words import BY_SERVER, BY_SWITCH, LOG_ENDS, AuditRow, parse_audit, read_audit

MAX_ROWS = 3000
"""More lines than any lock keeps. Source: none is public; the locks of other vendors keep 500 to 1,000."""
REASONS = {"2": "other", "3": "not_permitted", "4": "expired", "5": "other"}
GRANTED = "0"
_SLACK = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class LogDates:
    """How an installation's log tells its times. `is_month_first` says that days are written `mm/dd`."""

    zone: ZoneInfo
    now: datetime
    is_month_first: bool = False

    def moment_of(self, row: AuditRow) -> datetime:
        """Returns the row's instant in UTC. Raises ValueError for a day there is not."""
        first, second = (int(part) for part in row.day.split("/"))
        day, month = (second, first) if self.is_month_first else (first, second)
        hour, minute = (int(part) for part in row.minute.split(":"))
        year = self.now.astimezone(self.zone).year + 1
        for candidate in range(year, year - 6, -1):  # six years back: 29 February
            try:
                wall = datetime(candidate, month, day, hour, minute)  # noqa: DTZ001 - the zone is applied by instant_of
                at = instant_of(wall, self.zone)
            except ValueError:
                continue
            if at <= self.now + _SLACK:
                return at
        raise ValueError("a day there is not")


def read_log(
    client: PmsClient, call: PmsCall, door: Door, span: tuple[datetime, datetime], dates: LogDates
) -> tuple[AccessRecord, ...]:
    """Returns the attempts in the span, oldest first; a line whose time makes no sense is left out. Raises LockError, also for
    a log that does not end."""
    try:
        with client.talk(call) as talk:
            return _read(talk, door, span, dates)
    except Refused as refused:
        raise client.error(call, refused, door.device_id) from None
    except Unclear as unclear:
        raise unclear.error from None


def _read(talk: PmsTalk, door: Door, span: tuple[datetime, datetime], dates: LogDates) -> tuple[AccessRecord, ...]:
    found: list[AccessRecord] = []
    seen: Counter[str] = Counter()
    which = "WF"
    for _ in range(MAX_ROWS):
        answer = talk.ask(read_audit(door.external_id, which))
        if answer.field(0) == LOG_ENDS:
            return tuple(sorted(found, key=lambda record: record.attempted_at))
        which = "WN"
        row = parse_audit(answer.fields)
        try:
            at = dates.moment_of(row)
        except ValueError:
            continue
        name = f"{row.door}:{at:%Y%m%dT%H%M}:{row.incident}:{row.who}:{row.copy}"
        seen[name] += 1
        if span[0] <= at <= span[1]:
            found.append(_record(row, at, f"{name}:{seen[name]}", door.external_id))
    raise unreachable(f"the door's log has more than {MAX_ROWS} lines", Reason.TIMEOUT)


def _record(row: AuditRow, at: datetime, event_id: str, external_id: str) -> AccessRecord:
    is_granted = row.incident == GRANTED
    return AccessRecord(
        external_event_id=event_id,
        device_external_id=external_id,
        outcome="granted" if is_granted else "denied",
        attempted_at=at,
        deny_reason=None if is_granted else REASONS.get(row.incident, "other"),
        kind=None if row.copy in (BY_SWITCH, BY_SERVER) else CredentialKind.RFID_CARD,
    )
