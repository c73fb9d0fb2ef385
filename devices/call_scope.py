"""One verb's requests on one thread: a verb that has begun is not cut off by our own limit.

One rule: a limit refuses a verb before its first request, when nothing was done and nothing is lost by asking again; between
two requests it makes it wait. A key that was made while its predecessor could not be taken away any more would be a second key.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from vendors.port.errors import LockError

LONGEST_WAIT_S: Final = 10.0
"""How long the requests of one verb wait for a limit, all together. A call may take 75 s; a second's limit is over in one."""


class Scope:
    """What one verb on one thread has asked so far."""

    def __init__(self) -> None:
        self.calls = 0
        self.waited_s = 0.0


_scopes = threading.local()


@contextmanager
def verb() -> Iterator[Scope]:
    """Opens a verb on this thread; blocks may nest."""
    before = getattr(_scopes, "open", None)
    _scopes.open = scope = Scope()
    try:
        yield scope
    finally:
        _scopes.open = before


def take(acquire: Callable[[int, int], None], calls: int, priority: int) -> None:
    """Takes calls from a limit; inside a verb that has asked before, waits for them. Raises as the limit does, and, after
    having waited in vain, an error that counts as an attempt: the next one looks before it repeats."""
    scope: Scope | None = getattr(_scopes, "open", None)
    while True:
        try:
            acquire(calls, priority)
        except LockError as error:
            if scope is None or not scope.calls or not error.throttled:
                raise
            wait_s = max(0.01, error.retry_after_s or 0.0)
            if scope.waited_s + wait_s > LONGEST_WAIT_S:
                error.throttled = False
                raise
            scope.waited_s += wait_s
            time.sleep(wait_s)
        else:
            break
    if scope is not None:
        scope.calls += calls
