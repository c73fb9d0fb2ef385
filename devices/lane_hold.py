"""Holds a lane for a question to a vendor that belongs to no key: health, a lock's log.

One rule: a lane with work for a key is not taken; who holds one gives it back, and loses it after a lease if it dies.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from lockservice.core import tenancy

LANE_LEASE_S = 8
"""As a runner's. Should this process die in a call, the lane's work goes on after that."""


@contextmanager
def held(lane: str | None) -> Iterator[bool]:
    """Holds the lane for the time of the block, if it is free and has no work; gives whether it is held. None needs none."""
    if lane is None:
        yield True
        return
    owner = uuid.uuid4().hex
    free = _take_lane(lane, owner)
    try:
        yield free
    finally:
        if free:
            _free_lane(lane, owner)


def _take_lane(lane: str, owner: str) -> bool:
    """A lane that no saga ever used has no row, and nobody to disturb."""
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sagas_lane SET token = token + 1, owner = %s,"
            " lease_until = (SELECT clock_timestamp()) + make_interval(secs => %s)"
            " WHERE key = %s AND (lease_until IS NULL OR lease_until < (SELECT clock_timestamp()))"
            " AND NOT EXISTS (SELECT 1 FROM sagas_saga s WHERE s.lane = %s AND s.status = 'due')"
            " AND NOT EXISTS (SELECT 1 FROM sagas_saga s WHERE s.lane = %s AND s.status = 'running')",
            [owner, LANE_LEASE_S, lane, lane, lane],
        )
        if cursor.rowcount:
            return True
        cursor.execute("SELECT 1 FROM sagas_lane WHERE key = %s", [lane])
        return cursor.fetchone() is None


def _free_lane(lane: str, owner: str) -> None:
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute("UPDATE sagas_lane SET lease_until = NULL, owner = '' WHERE key = %s AND owner = %s", [lane, owner])
