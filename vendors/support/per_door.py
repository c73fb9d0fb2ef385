"""Takes a verb door by door: one after the other, each with its own outcome, all within one deadline.

One rule: a door that fails does not stop the next, unless what failed is the vendor or the account itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from vendors.port.errors import LockError, Reason, VendorUnreachable
from vendors.port.types import Door, DoorResult, Outcome, Propagation
from vendors.support.effects import Effects, in_doubt

_STOPS_ALL = frozenset({Reason.SETTINGS, Reason.QUOTA, Reason.RATE})


class Deadline:
    """The real time a call may take, in seconds from now."""

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._end = monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds left, 0 when none."""
        return max(0.0, self._end - self._monotonic())


def each_door(
    doors: Sequence[Door],
    act: Callable[[Door], DoorResult],
    *,
    vendor: str,
    attempt: int,
    deadline: Deadline,
    effects: Effects,
    min_left_s: float = 1.0,
) -> tuple[DoorResult, ...]:
    """Runs `act` for each door in turn and returns one result per door.

    A LockError from `act` becomes FAILED; where the vendor broke off at a door after something had been changed there, UNKNOWN,
    so that the next try looks. Limits, quota and settings stop the rest, which get the same error; so does a call
    that was throttled. When the deadline is near, the rest is FAILED with a throttled error, since nothing was asked. Later
    attempts start at another door, so that one that hangs does not starve the others.
    """
    results: list[DoorResult] = []
    stop: LockError | None = None
    for index, door in enumerate(_turned(doors, attempt)):
        if stop is None and index and deadline.left_s < min_left_s:
            stop = VendorUnreachable(vendor, "no time left in this call", reason=Reason.BUSY, throttled=True)
        if stop is not None:
            results.append(failed(door, stop))
            continue
        before = effects.count
        try:
            results.append(act(door))
        except LockError as error:
            error.device_id = error.device_id or door.device_id
            begun = effects.count > before and isinstance(error, VendorUnreachable)
            results.append(open_at(door, in_doubt(error)) if begun else failed(door, error))
            if error.reason in _STOPS_ALL or error.throttled:
                stop = error
    return tuple(results)


def settle(results: tuple[DoorResult, ...]) -> tuple[DoorResult, ...]:
    """Returns the results, or raises when every door failed, as the port asks: nothing at all was done then.

    Of several errors the one that asks most of the caller is raised: other digits first, then what a retry may heal.
    """
    if not results or any(r.outcome is not Outcome.FAILED for r in results):
        return results
    errors = [r.error for r in results if r.error is not None]
    raise min(errors, key=_rank)


def failed(door: Door, error: LockError) -> DoorResult:
    """Returns the result of a door that refused; what was there before stays there."""
    return DoorResult(door.device_id, Outcome.FAILED, ref=door.ref, error=error)


def open_at(door: Door, error: LockError) -> DoorResult:
    """Returns the result of a door of which nobody knows what it holds now."""
    return DoorResult(door.device_id, Outcome.UNKNOWN, ref=door.ref, propagation=Propagation.UNKNOWN, error=error)


def _rank(error: LockError) -> int:
    if error.reason is Reason.PIN_REFUSED:
        return 0
    return 1 if error.retriable else 2


def _turned(doors: Sequence[Door], attempt: int) -> list[Door]:
    start = (attempt - 1) % len(doors) if doors else 0
    return [*doors[start:], *doors[:start]]
