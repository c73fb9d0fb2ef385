"""Tells when the list of cancelled cards at a vendor's locks fills up: once it is full, a lost card goes on opening.

| full to | told as | how often |
|---|---|---|
| 80 % | warning | once a month |
| 95 % | critical | once a month, beside the warning |

One rule: what counts is the fullest list among the locks, since a lost card is tried at any of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from devices.call_counts import month_of
from devices.selectors import InstallationFacts
from sagas.alerts import NewAlert, raise_alerts
from vendors.port.types import LockDevice

CODE: Final = "DENY_LIST_FILLING"
RUNBOOK: Final = "lock/deny-list"
STEPS: Final = ((80, "warning"), (95, "critical"))
"""From how many percent on which severity is told."""


def observe(tenant_id: str, facts: InstallationFacts, listed: Iterable[LockDevice], now: datetime) -> None:
    """Raise the alerts that the locks of a vendor's list call for. Inside the tenant's block."""
    fullest = max((lock.deny_list_percent or 0 for lock in listed), default=0)
    detail = f"the list of cancelled cards is {fullest} % full; once it is full, a lost card goes on opening until its end"
    told = [
        NewAlert(f"deny-list:{facts.id}:{least}:{month_of(now)}", CODE, severity, detail, RUNBOOK, facts.property_id)
        for least, severity in STEPS
        if fullest >= least
    ]
    if told:
        raise_alerts(tenant_id, told, now)
