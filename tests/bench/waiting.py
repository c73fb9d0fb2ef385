"""Waits for what a benchmark has set going."""

from __future__ import annotations

import time
from typing import Any


def wait_until(done: Any, seconds: float) -> None:
    """Waits for a condition; ends the benchmark when it does not come."""
    ends = time.monotonic() + seconds
    while not done():
        if time.monotonic() > ends:
            raise SystemExit("the benchmark's work did not end in time")
        time.sleep(0.02)
