"""The fixtures of the flows: a hotel on the mock vendor, and a way to let all due work run."""

from __future__ import annotations

from tests.flows.conftest import hotel, locks, settle

__all__ = ["hotel", "locks", "settle"]
