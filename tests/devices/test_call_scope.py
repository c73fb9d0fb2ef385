"""A verb that has begun waits for our own limit; one that has not is refused."""

from __future__ import annotations

import time

import pytest

from devices import call_scope
from vendors.port.errors import Reason, VendorUnreachable


class Narrow:
    """A limit that refuses the calls whose numbers are given, counted from 1."""

    def __init__(self, *refused: int, wait_s: float = 0.05) -> None:
        self.asked, self._refused, self._wait_s = 0, set(refused), wait_s

    def acquire(self, _calls: int, _priority: int) -> None:
        self.asked += 1
        if self.asked in self._refused:
            raise VendorUnreachable("mock", "too fast", reason=Reason.RATE, retry_after_s=self._wait_s, throttled=True)


def test_before_the_first_request_the_refusal_stands_and_counts_as_no_attempt() -> None:
    limit = Narrow(1)
    with call_scope.verb() as scope, pytest.raises(VendorUnreachable) as refused:
        call_scope.take(limit.acquire, 1, 2)
    assert (refused.value.throttled, limit.asked, scope.calls, scope.waited_s) == (True, 1, 0, 0.0)


def test_between_two_requests_the_limit_is_waited_for() -> None:
    limit = Narrow(2, 3)
    began = time.monotonic()
    with call_scope.verb() as scope:
        call_scope.take(limit.acquire, 1, 2)
        call_scope.take(limit.acquire, 1, 2)
    assert (limit.asked, scope.calls) == (4, 2)
    assert scope.waited_s == pytest.approx(0.1)
    assert time.monotonic() - began >= 0.1


def test_a_wait_that_is_too_long_ends_the_verb_as_an_attempt_so_that_the_next_one_looks_first() -> None:
    limit = Narrow(2, wait_s=call_scope.LONGEST_WAIT_S + 1)
    with call_scope.verb() as scope, pytest.raises(VendorUnreachable) as refused:
        call_scope.take(limit.acquire, 1, 2)
        call_scope.take(limit.acquire, 1, 2)
    assert (refused.value.throttled, refused.value.retriable) == (False, True)
    assert (scope.calls, scope.waited_s) == (1, 0.0)


def test_outside_a_verb_every_refusal_stands() -> None:
    limit = Narrow(2)
    call_scope.take(limit.acquire, 1, 2)
    with pytest.raises(VendorUnreachable):
        call_scope.take(limit.acquire, 1, 2)
    assert limit.asked == 2
