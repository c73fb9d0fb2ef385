"""One verb under way: its limits, its time, how many requests have left, and how it ends.

One rule: nothing leaves without the installation's limiter having agreed, at the caller's priority.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from vendors.port.errors import CardKey, LockError, Reason
from vendors.port.manifest import CallLimiter
from vendors.port.types import CallMeta
from vendors.support.effects import Effects
from vendors.support.http import AnswerLost, HttpAnswer, NotSent
from vendors.support.per_door import Deadline

from .errors import Refused, Unclear, unreachable

MIN_REQUEST_S = 0.2
T = TypeVar("T")


class Call:
    """One verb under way. `overwritten` collects the keys that the card carried until it was written."""

    def __init__(self, meta: CallMeta, *, revoking: bool = False) -> None:
        self.meta = meta
        self.revoking = revoking
        self.deadline = Deadline(meta.deadline_s)
        self.requests = 0
        self.effects = Effects()
        self.overwritten: tuple[CardKey, ...] = ()

    def time_for(self, limit_s: float) -> float:
        """Returns the seconds a request may take. Raises a throttled VendorUnreachable when none are left."""
        left = min(limit_s, self.deadline.left_s)
        if left < MIN_REQUEST_S:
            raise unreachable("no time left in this call", Reason.BUSY, throttled=True)
        return left


def sent(call: Call, limiter: CallLimiter, send: Callable[[], HttpAnswer]) -> HttpAnswer:
    """Sends one request of the verb, counted. Raises VendorUnreachable when it did not reach the vendor, Unclear when the
    answer was lost."""
    limiter.acquire(1, call.meta.priority)
    call.requests += 1
    try:
        return send()
    except NotSent as error:
        raise unreachable(f"not reached: {error}") from error
    except AnswerLost as error:
        raise Unclear(unreachable(f"no usable answer: {error}", Reason.TIMEOUT)) from error


def asked(call: Call, act: Callable[[Call], T], error_of: Callable[[Call, Refused], LockError]) -> T:
    """Does a verb. Raises only what the port knows. Once a key was made, changed or taken away, a limit that cuts the rest off
    leaves an open outcome, and counts as an attempt."""
    try:
        return act(call)
    except Refused as refused:
        raise error_of(call, refused) from refused
    except Unclear as unclear:
        raise unclear.error from unclear  # the next attempt looks before it asks again
    except LockError as error:
        weighed = call.effects.weighed(error)
        if weighed is error:
            raise
        raise weighed from error
