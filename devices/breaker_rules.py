"""When an installation's circuit breaker opens and closes: pure decisions over the outcomes of its last calls.

    closed ── too many calls unanswered ──► open ── 30 s are over, one call goes first ──► half_open
      ▲                                       ▲                                                │
      └──────── the probe was answered ───────┼────────────────────────────────────────────────┤
                                              └──────── the probe was not answered ────────────┘

One rule: only silence counts against a vendor. A refusal, a busy gateway, a dead lock and a wrong secret are answers; a call
held back by our own limit is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from vendors.port.errors import LockError, Reason, VendorUnreachable
from vendors.port.types import CallResult, Outcome

WINDOW: Final = 100
"""How many of the last calls are looked at."""
MINIMUM: Final = 20
"""Fewer calls than this say nothing: one guest's retries must not close a hotel."""
THRESHOLD_PCT: Final = 35.0
"""Share of the window that must be unanswered. Document: event schemas §2.17 shows a breaker that opened at 38 %."""
OPEN_S: Final = 30.0
QUIET_S: Final = 300.0
"""After so long without any call the window starts anew: it says nothing about now."""
PROBE_S: Final = 90.0
"""A probe without an answer after this time is given up; longer than any vendor call (75 s)."""
AFTER_URGENT_S: Final = 1.0
"""How much later than security work all other work looks again, so that a revoke is the probe if there is one."""
HALF_OPEN_S: Final = (1.0, 5.0)
"""How soon work looks again while another call is the probe: security work, all other work."""

ANSWERED: Final = "1"
SILENT: Final = "0"
_SILENCE = frozenset({Reason.OTHER, Reason.TIMEOUT})


class BreakerState(StrEnum):
    """The three states."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class Heard:
    """What one call tells of a vendor: it answered, or it did not."""

    installation_id: str
    saga_id: str
    answered: bool


def heard(installation_id: str, saga_id: str, result: CallResult | None, error: LockError | None) -> Heard | None:
    """Reads an answer; None where it tells nothing (nothing was sent, or the fault is ours).

    Of a call over several doors one door that was answered is enough.
    """
    if not installation_id:
        return None
    if result is not None:
        said = [_said(item.error) for item in result.doors if item.outcome in (Outcome.FAILED, Outcome.UNKNOWN)]
        settled = any(item.outcome not in (Outcome.FAILED, Outcome.UNKNOWN) for item in result.doors)
        answered = True if settled or True in said else (False if False in said else None)
    elif error is not None:
        answered = _said(error)
    else:
        return None
    return None if answered is None else Heard(installation_id, saga_id, answered)


def error_rate_pct(outcomes: str) -> float:
    """Returns the unanswered share of a window, 0 to 100; 0 for an empty one."""
    return round(100.0 * outcomes.count(SILENT) / len(outcomes), 1) if outcomes else 0.0


def is_tripped(outcomes: str) -> bool:
    """Says whether a closed breaker must open. A call that was answered opens none, whatever the calls before it came to."""
    return len(outcomes) >= MINIMUM and outcomes.endswith(SILENT) and error_rate_pct(outcomes) >= THRESHOLD_PCT


def _said(error: LockError | None) -> bool | None:
    if error is None:
        return True
    if error.throttled:
        return None
    return not (isinstance(error, VendorUnreachable) and error.reason in _SILENCE)
