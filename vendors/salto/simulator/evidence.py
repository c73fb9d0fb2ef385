"""When this simulator was last compared with what the vendor publishes, and when it must be again.

One rule: the dates move only after a real comparison; the README's table of evidence moves with them.
"""

from __future__ import annotations

from datetime import date

LAST_COMPARED = date(2026, 11, 27)
NEXT_COMPARISON = date(2027, 2, 27)
