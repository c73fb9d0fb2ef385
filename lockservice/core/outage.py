"""Tells an outage from a mistake of ours: the database is away or ended our session, or the process was interrupted.

One rule: whoever decides between "later again" and "our defect" asks here. After an outage the same work may be repeated from
its start; nothing is given up because of one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

import psycopg
import structlog
from billiard.exceptions import SoftTimeLimitExceeded  # type: ignore[import-untyped]  # without the rest of Celery
from django.db import InterfaceError, OperationalError, connection

log = structlog.get_logger(__name__)
T = TypeVar("T")

PAUSE_S: Final = 0.3
"""After an outage work shall go on at once, so this pause does not grow."""

# Source: PostgreSQL 18 documentation, appendix A "PostgreSQL Error Codes".
AWAY_CLASSES: Final = frozenset({
    "08",  # connection exceptions
    "28",  # the login is refused: a password is being changed
    "40",  # the transaction was rolled back: deadlock, serialization failure, unknown completion
    "53",  # no resources: disk full, out of memory, too many connections
    "57",  # shutdown, crash, recovery, statement timeout, idle session timeout
    "58",  # input or output failed on the server
})  # fmt: skip
AWAY_STATES: Final = frozenset({
    "25P02",  # an earlier statement of the transaction failed
    "25P03",  # idle in a transaction for too long: this process was paused
    "25P04",  # the transaction lasted too long
    "25006",  # the server takes no writes: a standby during a switch-over
    "55P03",  # a lock was not free in time
})  # fmt: skip
CONFLICT_STATES: Final = frozenset({"40001", "40P01", "23505"})
"""Serialization failure, deadlock, and two firsts that meet at a unique row: the second, repeated, sees the first."""

_DRIVER: Final = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
_INTERRUPTED: Final = (SoftTimeLimitExceeded, MemoryError)


def is_outage(error: BaseException) -> bool:
    """Says whether the error, or what it was raised from, is an outage.

    The SQLSTATE decides. An error of the driver without one is an outage where it speaks of the connection.
    """
    if isinstance(error, _INTERRUPTED):
        return True
    state = sqlstate(error)
    if state is not None:
        return state in AWAY_STATES or state[:2] in AWAY_CLASSES
    return any(isinstance(link, _DRIVER) for link in _chain(error))


def is_conflict(error: BaseException) -> bool:
    """Says whether PostgreSQL asks for the transaction to be repeated at once."""
    return sqlstate(error) in CONFLICT_STATES


def sqlstate(error: BaseException) -> str | None:
    """Returns the SQLSTATE of the first error in the chain of causes that has one."""
    states = (link.sqlstate for link in _chain(error) if isinstance(link, psycopg.Error))
    return next((state for state in states if state), None)


def through_outages(work: Callable[[], T], within_s: float) -> T:
    """Does the work, again from its start after each outage. Raises the last outage once `within_s` seconds are over.

    No block may be open, and the work must be harmless when repeated.
    """
    ends = time.monotonic() + within_s
    while True:
        try:
            return work()
        except Exception as error:
            if not is_outage(error) or time.monotonic() > ends:
                raise
            log.warning("outage.waits", error=type(error).__name__)
            connection.close()
            time.sleep(PAUSE_S)


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__
    return chain
