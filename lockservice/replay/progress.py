"""A progress bar: one live line on a terminal, one line a tenth where nobody watches.

One rule: it writes at most ten times a second, whatever is going on.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import TextIO

WIDTH = 28
EVERY_S = 0.1


class Progress:
    """Shows how far a known number of things has come, and where the hotel's clock stands."""

    def __init__(self, out: TextIO, total: int) -> None:
        self._out = out
        self._total = max(1, total)
        self._is_live = out.isatty()
        self._started = time.monotonic()
        self._shown_at = 0.0
        self._tenths = 0

    def show(self, done: int, hotel_now: datetime) -> None:
        """Shows the state, if it is time to."""
        now = time.monotonic()
        if self._is_live and now - self._shown_at >= EVERY_S:
            self._shown_at = now
            filled = WIDTH * done // self._total
            bar = "█" * filled + "·" * (WIDTH - filled)
            self._write(f"\r\033[K{bar} {self._line(done, hotel_now, now)}")
        elif not self._is_live and done * 10 // self._total > self._tenths:
            self._tenths = done * 10 // self._total
            self._write(f"{self._line(done, hotel_now, now)}\n")

    def close(self) -> None:
        """Takes the live line away."""
        if self._is_live:
            self._write("\r\033[K")

    def _line(self, done: int, hotel_now: datetime, now: float) -> str:
        spent = now - self._started
        left = spent * (self._total - done) / done if done else 0
        rate = done / spent if spent else 0
        return f"{done}/{self._total} events, {hotel_now:%Y-%m-%d %H:%M}, {rate:.0f}/s, {left:.0f} s left"

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
