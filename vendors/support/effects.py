"""Counts what one verb may have changed at the vendor already.

One rule: a call counts as not made only while it has changed nothing. A limit that refuses a verb between two of its requests
leaves an open outcome, and the next try looks before it asks again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vendors.port.errors import LockError, VendorUnreachable


class Effects:
    """The changing requests of one verb that were answered, or whose answer was lost. `count` only grows."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def noted(self, doubt: type[Exception], *, changes: bool = True) -> Iterator[None]:
        """Goes around one request; `changes` says that it may change something. A refusal changes nothing, `doubt` may have."""
        try:
            yield
        except doubt:
            self.count += changes
            raise
        self.count += changes

    def weighed(self, error: LockError, since: int = 0) -> LockError:
        """Returns the error as it counts once the verb has changed something (more than `since` times): no longer throttled."""
        return in_doubt(error) if error.throttled and self.count > since else error


def in_doubt(error: LockError) -> LockError:
    """Returns the error of a verb that had begun. It is a new one: the same may stand for doors where nothing was asked."""
    return VendorUnreachable(
        error.vendor,
        error.vendor_message,
        reason=error.reason,
        device_id=error.device_id,
        retry_after_s=error.retry_after_s,
    )
