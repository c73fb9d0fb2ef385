"""The stage of `tests/cases`, for lives."""

from __future__ import annotations

from tests.cases.conftest import stage, world

__all__ = ["stage", "world"]
