"""When the simulator was last held against the vendor's documentation, and when that is due again.

One rule: the dates move only after a real comparison; the README's table of evidence moves with them.
"""

from __future__ import annotations

from datetime import date, timedelta

LAST_COMPARED = date(2026, 11, 27)
NEXT_COMPARISON = date(2027, 2, 27)
QUARTER = timedelta(days=92)


def comparison_state(today: date) -> str:
    """Returns `current`, `due` once the date is past, or `overdue` when it is past by more than a quarter."""
    if today <= NEXT_COMPARISON:
        return "current"
    return "due" if today <= NEXT_COMPARISON + QUARTER else "overdue"
