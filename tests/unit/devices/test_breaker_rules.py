"""What counts against a vendor, and when a breaker opens."""

from __future__ import annotations

import pytest

from devices.breaker_rules import error_rate_pct, heard, is_tripped
from vendors.port.errors import CardEncoderOffline, DeviceNotPaired, KeyIssueFailed, LockError, Reason, VendorUnreachable
from vendors.port.types import CallResult, DoorResult, Outcome

SILENCE = VendorUnreachable("mock", reason=Reason.TIMEOUT)


def _answered(result: CallResult | None = None, error: LockError | None = None) -> bool | None:
    item = heard("vad_1", "sag_1", result, error)
    return None if item is None else item.answered


def _doors(*results: tuple[Outcome, LockError | None]) -> CallResult:
    return CallResult(tuple(DoorResult(f"lck_{n}", outcome, error=error) for n, (outcome, error) in enumerate(results)))


@pytest.mark.parametrize("reason", [Reason.OTHER, Reason.TIMEOUT])
def test_a_call_without_a_usable_answer_counts(reason: Reason) -> None:
    assert _answered(error=VendorUnreachable("mock", reason=reason)) is False


@pytest.mark.parametrize(
    "error",
    [
        KeyIssueFailed("mock", reason=Reason.PIN_REFUSED),
        DeviceNotPaired("mock"),
        CardEncoderOffline("mock"),
        VendorUnreachable("mock", reason=Reason.DOOR_OFFLINE),
        VendorUnreachable("mock", reason=Reason.BUSY),
        VendorUnreachable("mock", reason=Reason.SETTINGS),
    ],
    ids=lambda error: f"{type(error).__name__}-{error.reason}",
)
def test_a_refusal_is_an_answer(error: LockError) -> None:
    assert _answered(error=error) is True


def test_what_our_own_limit_held_back_tells_nothing() -> None:
    assert _answered(error=VendorUnreachable("mock", reason=Reason.RATE, throttled=True)) is None
    assert _answered() is None
    assert heard("", "sag_1", None, SILENCE) is None


def test_one_door_that_was_answered_is_enough() -> None:
    assert _answered(_doors((Outcome.FAILED, SILENCE), (Outcome.DONE, None))) is True
    assert _answered(_doors((Outcome.DEFERRED, None))) is True
    assert _answered(_doors((Outcome.UNKNOWN, SILENCE), (Outcome.FAILED, SILENCE))) is False
    assert _answered(_doors((Outcome.UNKNOWN, None))) is True


@pytest.mark.parametrize(
    ("outcomes", "tripped"),
    [
        ("0" * 19, False),
        ("0" * 20, True),
        ("1" * 13 + "0" * 7, True),
        ("1" * 14 + "0" * 6, False),
        ("1" * 65 + "0" * 35, True),
        ("1" * 66 + "0" * 34, False),
        ("0" * 19 + "1", False),  # the twentieth was answered: it tells of a vendor that is back
        ("0" * 19 + "1" * 20 + "0", True),
        ("", False),
    ],
)
def test_it_opens_at_thirty_five_of_a_hundred_and_not_before_twenty_calls(outcomes: str, tripped: bool) -> None:
    assert is_tripped(outcomes) is tripped


def test_the_error_rate_has_one_decimal() -> None:
    assert (error_rate_pct("0" * 38 + "1" * 62), error_rate_pct("001"), error_rate_pct("")) == (38.0, 66.7, 0.0)
