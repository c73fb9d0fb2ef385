"""Asynchronous writes to sleeping Wi-Fi locks: accepted now, done or failed when the lock wakes.

One rule: the cloud's record says 4 (adding) until the door has answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .door import Door
from .errcodes import VendorError
from .model import ADD_FAILED, NORMAL, Card, Lock, Passcode
from .pushes import Pushes
from .world import World

OFFLINE = -3036


class Later:
    """Runs the writes that a sleeping lock takes when it wakes."""

    def __init__(self, world: World, pushes: Pushes) -> None:
        self._world = world
        self._pushes = pushes
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, lock: Lock, item: Passcode | Card, act: Callable[[Door], None], *, skip_door: bool) -> None:
        """Schedules a write; on failure the item gets status 5 and a push of type 4 goes out."""
        task = asyncio.get_running_loop().create_task(self._run(lock, item, act, skip_door=skip_door))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, lock: Lock, item: Passcode | Card, act: Callable[[Door], None], *, skip_door: bool) -> None:
        await asyncio.sleep(self._world.timing.wifi_async_ms / 1000)
        try:
            if lock.wifi is None or lock.wifi.fails or not lock.wifi.online:
                raise VendorError(OFFLINE)
            if not skip_door:
                act(lock.door)
            item.status = NORMAL
        except VendorError as error:
            item.status = ADD_FAILED
            self._pushes.async_failed(lock, item, error.errcode)
        self._world.changes += 1
