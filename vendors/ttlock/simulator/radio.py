"""The only way from the cloud to a lock: a gateway, the lock's own Wi-Fi, or NB-IoT.

One rule: one command at a time per gateway. What does not get through leaves the door as it was.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

from .door import Door
from .errcodes import VendorError
from .faults import Effect, Faults
from .model import Lock
from .world import World

T = TypeVar("T")
BY_PHONE, BY_GATEWAY, BY_NB, ASYNCHRONOUS = 1, 2, 3, 4
NB_BIT = 16
NO_GATEWAY, GATEWAY_OFFLINE, GATEWAY_BUSY, LOCK_BUSY, FROZEN = -2012, -3002, -3003, -3037, -2025


class Radio:
    """Carries commands to locks."""

    def __init__(self, world: World, faults: Faults) -> None:
        self._world = world
        self._faults = faults
        self._lines: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def send(self, lock: Lock, act: Callable[[Door], T], effect: Effect | None = None, *, frozen_ok: bool = False) -> T:
        """Runs `act` at the door, over the gateway or the lock's Wi-Fi, and returns what it returns.

        Raises VendorError: -2012 no gateway, -3002 offline, -3003 busy, -3034 to -3037 for Wi-Fi, -2025 frozen, or what `act`
        raises. A `skip_door` fault answers success without the door; `skip_cloud` runs `act` and then raises 1.
        """
        line, latency_ms = self._route(lock)
        queue = self._lines[line]
        if queue.locked() and self._world.timing.strict_gateways:
            raise VendorError(LOCK_BUSY if line.startswith("wifi") else GATEWAY_BUSY)
        async with queue:
            if latency_ms > 0:
                await asyncio.sleep(latency_ms / 1000)
            return _act(lock, act, effect, frozen_ok=frozen_ok)

    async def write(self, lock: Lock, way: int, act: Callable[[Door], None], effect: Effect | None = None) -> None:
        """Runs a write the way the call's type says: 1 not at all (it was done over BLE), 2 radio, 3 NB-IoT.

        Raises VendorError as `send` does, and -4043 or -4067 for NB-IoT.
        """
        if way == BY_NB:
            check_nb(lock)
            _act(lock, act, effect, frozen_ok=False)
        elif way != BY_PHONE:
            await self.send(lock, act, effect)

    def can_reach(self, lock: Lock) -> bool:
        """Says whether the lock can push an event by itself now."""
        if lock.wifi is not None:
            return lock.wifi.configured and lock.wifi.online
        return any(self._is_up(gateway_id) for gateway_id in lock.gateway_ids)

    def _route(self, lock: Lock) -> tuple[str, float]:
        timing = self._world.timing
        if lock.wifi is not None:
            if not lock.wifi.configured:
                raise VendorError(-3034)
            if lock.wifi.power_save:
                raise VendorError(-3035)
            if not lock.wifi.online:
                raise VendorError(-3036)
            return f"wifi:{lock.lock_id}", timing.gateway_ms
        known = [gateway_id for gateway_id in lock.gateway_ids if gateway_id in self._world.state.gateways]
        if not known:
            raise VendorError(NO_GATEWAY)
        gateway_id = next((g for g in known if self._world.state.gateways[g].online), None)
        effect = self._faults.gateway(gateway_id) if gateway_id is not None else None
        if gateway_id is None or effect is Effect.OFFLINE:
            raise VendorError(GATEWAY_OFFLINE)
        if effect is Effect.BUSY:
            raise VendorError(GATEWAY_BUSY)
        return f"gateway:{gateway_id}", timing.gateway_each_ms.get(gateway_id, timing.gateway_ms)

    def _is_up(self, gateway_id: int) -> bool:
        gateway = self._world.state.gateways.get(gateway_id)
        return gateway is not None and gateway.online


_CLOCK_FIELDS = ("wall_offset_ms", "clock_offset_ms", "drift_ppm", "drift_since", "digits", "frozen")


def check_nb(lock: Lock) -> None:
    """Raises VendorError(-4043) for a lock without NB-IoT, -4067 for one that is not registered."""
    if not lock.has_feature(NB_BIT):
        raise VendorError(-4043)
    if not lock.nb_registered:
        raise VendorError(-4067)


def _act(lock: Lock, act: Callable[[Door], T], effect: Effect | None, *, frozen_ok: bool) -> T:
    if lock.door.frozen and not frozen_ok:
        raise VendorError(FROZEN)
    if effect is Effect.SKIP_DOOR:
        return act(Door(**{name: getattr(lock.door, name) for name in _CLOCK_FIELDS}))
    result = act(lock.door)
    if effect is Effect.SKIP_CLOUD:
        raise VendorError(1)
    return result
