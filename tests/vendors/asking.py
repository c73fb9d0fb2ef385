"""What the contract suite asks of an adapter, and the marks by which its tests say where they apply.

A test that asks for `kind` runs for every kind its vendor's manifest names; one that asks for `trouble`, for every trouble its
harness can go through. Marks narrow it further; `tests/vendors/conftest.py` reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from tests.support import marked
from tests.vendors.site import Site, Trouble, new_key, request_for
from vendors.port.errors import LockError, Reason, VendorUnreachable
from vendors.port.types import CallMeta, CallResult, CredentialKind, IssueInput, IssueResult, Outcome

PIN = CredentialKind.PIN_CODE
R = TypeVar("R", bound=CallResult)
F = TypeVar("F", bound=Callable[..., None])


def all_done(result: CallResult) -> bool:
    return all(r.outcome is Outcome.DONE for r in result.doors)


def meta() -> CallMeta:
    return CallMeta(new_key())


def until_done(site: Site, call: Callable[[CallMeta], R], first: CallMeta, tries: int = 7) -> R:
    """Repeats a call the way the service does after a crash: same key, next attempt, a fresh adapter."""
    for attempt in range(first.attempt, first.attempt + tries):
        site.refresh()
        try:
            result = call(replace(first, attempt=attempt))
        except LockError as error:
            if not error.retriable:
                raise
            continue
        if all_done(result):
            return result
        assert not any(r.error and not r.error.retriable for r in result.doors)
    raise AssertionError(f"not done after {tries} attempts")


def attempted(call: Callable[[], CallResult]) -> tuple[Outcome | None, LockError | None]:
    """What is known of the first door: its outcome (None when the verb raised) and the error."""
    try:
        door = call().doors[0]
    except LockError as error:
        return None, error
    return door.outcome, door.error


def answered(call: Callable[[], R]) -> tuple[R | None, LockError | None]:
    """What a verb answered, or what it raised."""
    try:
        return call(), None
    except LockError as error:
        return None, error


def issue(site: Site, kind: CredentialKind | None = None, **changes: Any) -> tuple[IssueInput, IssueResult]:
    request = request_for(site, kind or site.first_kind, **changes)
    result = site.port.issue_credential(request)
    assert all_done(result)
    for door in result.doors:
        marked.plant(door.ref.reveal() if door.ref is not None else "")
    return request, result


def over_http(function: F) -> F:
    """Marks a test for harnesses whose answers travel."""
    function.over_http = True  # type: ignore[attr-defined]
    return function


def with_pins(function: F) -> F:
    """Marks a test for vendors whose locks have a keypad."""
    function.with_pins = True  # type: ignore[attr-defined]
    return function


def through(*troubles: Trouble) -> Callable[[F], F]:
    """Marks a test for these troubles only."""

    def mark(function: F) -> F:
        function.troubles = troubles  # type: ignore[attr-defined]
        return function

    return mark


def throttled(function: F) -> F:
    """Marks a test for harnesses whose vendor can be made to say that it is asked too fast."""
    function.needs_flag = "throttles"  # type: ignore[attr-defined]
    return function


def stepwise(function: F) -> F:
    """Marks a test for harnesses whose vendor can be made to say so before any of a verb's requests."""
    function.needs_flag = "stepwise"  # type: ignore[attr-defined]
    return function


def over_tls(function: F) -> F:
    """Marks a test for harnesses whose adapter takes an https address."""
    function.needs_flag = "speaks_https"  # type: ignore[attr-defined]
    return function


def enlarged(function: F) -> F:
    """Marks a test for harnesses whose houses can have any number of doors."""
    function.needs_flag = "enlarges"  # type: ignore[attr-defined]
    return function


def offering(*protocols: type) -> Callable[[F], F]:
    """Marks a test for vendors whose adapter offers these optional protocols of the port."""

    def mark(function: F) -> F:
        function.protocols = protocols  # type: ignore[attr-defined]
        return function

    return mark


class Empty:
    """A limiter whose bucket is empty."""

    def acquire(self, calls: int, priority: int) -> None:
        raise VendorUnreachable("limit", reason=Reason.RATE, retry_after_s=12.0, throttled=True)


class Counting:
    """A limiter that lets everything through and keeps count."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, int]] = []

    def acquire(self, calls: int, priority: int) -> None:
        self.taken.append((calls, priority))


class Tipping:
    """A limiter that lets everything through, and does something right before one request."""

    def __init__(self) -> None:
        self._left = 0
        self._act: Callable[[], None] = lambda: None

    def before(self, number: int, act: Callable[[], None]) -> None:
        """Does `act` before the so many-eth request from now on."""
        self._left, self._act = number, act

    def acquire(self, calls: int, priority: int) -> None:
        self._left -= 1
        if self._left == 0:
            self._act()
