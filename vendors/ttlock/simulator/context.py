"""What a handler of the cloud side is given for one call, and the permission checks all of them share.

One rule: a handler reaches a lock only through `context.admin_lock` or `context.member_key`, so that ownership is always asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from .calls import Call
from .door import Door
from .errcodes import VendorError
from .faults import Effect
from .model import KEY_NORMAL, Account, Application, Card, EKey, Lock, Passcode
from .params import INVALID, Params
from .services import Services
from .world import World

T = TypeVar("T")
NO_PERMISSION, NOT_ADMIN = -2018, 20002


@dataclass(slots=True)
class Context:
    """One call: who asks, with which fields, and the fault that struck it, if any."""

    services: Services
    app: Application
    params: Params
    call: Call
    now: int
    account: Account = field(default_factory=lambda: Account(0, "", ""))
    effect: Effect | None = None

    @property
    def world(self) -> World:
        """Returns the world of the services."""
        return self.services.world

    async def send(self, lock: Lock, act: Callable[[Door], T], *, frozen_ok: bool = False) -> T:
        """Runs `act` at the door by radio; see Radio.send."""
        return await self.services.radio.send(lock, act, self.effect, frozen_ok=frozen_ok)

    async def write(self, lock: Lock, way: int, act: Callable[[Door], None]) -> None:
        """Runs a write the way the call's type says; see Radio.write."""
        await self.services.radio.write(lock, way, act, self.effect)

    def later(self, lock: Lock, item: Passcode | Card, act: Callable[[Door], None]) -> None:
        """Leaves a write for when a sleeping lock wakes; see Later.start."""
        self.services.later.start(lock, item, act, skip_door=self.effect is Effect.SKIP_DOOR)

    def admin_lock(self) -> Lock:
        """Returns the lock of the call if the caller may administer it.

        Raises VendorError: -1003 no such lock, 20002 the caller only holds a key, -2018 the caller is a stranger.
        """
        lock = self.world.lock(self.params.integer("lockId"))
        if self.may_administer(lock):
            return lock
        raise VendorError(NOT_ADMIN if self.key_of(lock) else NO_PERMISSION)

    def may_administer(self, lock: Lock) -> bool:
        """Says whether the caller is the lock's top administrator or authorised by it."""
        if lock.owner_uid == self.account.uid:
            return True
        key = self.key_of(lock)
        return key is not None and key.right == 1

    def key_of(self, lock: Lock) -> EKey | None:
        """Returns the caller's own live eKey of a lock."""
        return next((k for k in lock.ekeys.values() if k.uid == self.account.uid and k.status == KEY_NORMAL), None)

    def key(self) -> tuple[Lock, EKey]:
        """Returns the eKey the call names, with its lock. Raises VendorError(-1008), 20002 or -2018."""
        key_id = self.params.integer("keyId")
        for lock in self.world.state.locks.values():
            key = lock.ekeys.get(key_id)
            if key is not None:
                self.call.lock_id = lock.lock_id
                if not self.may_administer(lock) and key.sender_uid != self.account.uid:
                    raise VendorError(NOT_ADMIN if self.key_of(lock) else NO_PERMISSION)
                return lock, key
        raise VendorError(-1008)

    def window(self, *, permanent: bool = True) -> tuple[int, int]:
        """Reads startDate and endDate. 0 and 0 is permanent where allowed. Raises VendorError(-3) when inverted or missing."""
        start, end = self.params.integer("startDate"), self.params.integer("endDate")
        if permanent and start == 0 and end == 0:
            return 0, 0
        if start < 0 or end <= start:
            raise VendorError(INVALID)
        return start, end

    def page(self, items: list[dict[str, object]], most: int = 200, default: int = 20) -> dict[str, object]:
        """Cuts a list into the asked page. An oversize page is -3, or clamped where the application's habit says so."""
        number, size = self.params.integer("pageNo", 1), self.params.integer("pageSize", default)
        if size > most and self.app.habits.clamp_page_size:
            size = most
        if number < 1 or not 1 <= size <= most:
            raise VendorError(INVALID)
        part = items[(number - 1) * size : number * size]
        pages = (len(items) + size - 1) // size
        return {"list": part, "pageNo": number, "pageSize": size, "pages": pages, "total": len(items)}

    def order(self, items: list[dict[str, object]], name: str, date: str) -> list[dict[str, object]]:
        """Sorts by orderBy: 0 by name, 1 newest first (default), 2 name descending. Raises VendorError(-3)."""
        how = self.params.choice("orderBy", (0, 1, 2), 1)
        if how == 1:  # `items` come oldest first, and equal dates must come out newest first too
            placed = sorted(enumerate(items), key=lambda pair: (int(str(pair[1][date])), pair[0]), reverse=True)
            return [item for _, item in placed]
        return sorted(items, key=lambda item: str(item[name]), reverse=how == 2)
