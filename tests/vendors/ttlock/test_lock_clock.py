"""A lock whose clock is wrong by years: after a change of batteries it stands where its maker left it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.vendors.ttlock.harness import TtlockSite
from vendors.support.skew import MAX_SKEW_MS, bounded_skew_ms

YEARS_MS = 26 * 366 * 86_400_000


@pytest.mark.parametrize("years_ms", [-YEARS_MS, YEARS_MS])
def test_a_lock_that_lost_its_time_is_as_far_off_as_can_be_told(site: TtlockSite, years_ms: int) -> None:
    site.simulator.post("/clock", {"lockId": int(site.doors[0].external_id), "offsetMs": years_ms})
    health = site.port.health_check(site.doors[0])
    assert (health.online, health.clock_skew_ms) == (True, MAX_SKEW_MS if years_ms > 0 else -MAX_SKEW_MS)
    assert health.checked_at is not None
    assert health.checked_at <= datetime.now(UTC)


def test_what_is_told_fits_and_is_a_number() -> None:
    assert [bounded_skew_ms(ms) for ms in (-0.4, 640_000.6, float("inf"), -float("inf"), 10**400)] == [
        0, 640_001, MAX_SKEW_MS, -MAX_SKEW_MS, MAX_SKEW_MS,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no number"):
        bounded_skew_ms(float("nan"))
