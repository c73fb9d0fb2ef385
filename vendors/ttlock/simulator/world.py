"""The simulator's state with its movable clock and the look-ups everything else needs.

One rule: only the control port moves the clock; rate limits and latencies run on real time.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field

from .errcodes import VendorError
from .model import Account, Application, Gateway, Lock, State

BEIJING_MS = 8 * 3_600_000
DEFAULT_FEATURES = (0, 1, 4, 5, 7, 8, 10, 11, 12, 14, 22, 44)


def feature_hex(bits: tuple[int, ...]) -> str:
    """Writes feature bits the vendor's way: hex, upper case, no prefix."""
    return f"{sum(1 << bit for bit in bits):X}"


def md5_hex(password: str) -> str:
    """Returns the vendor's form of a password: lower-case hex MD5."""
    return hashlib.md5(password.encode(), usedforsecurity=False).hexdigest()


@dataclass(slots=True)
class Timing:
    """Latencies in real ms. `strict_gateways` answers -3003 to a second command at once; otherwise it waits its turn.
    `gateway_each_ms` overrides `gateway_ms` for single gateways.
    """

    cloud_ms: float = 0.0
    gateway_ms: float = 10.0
    wifi_async_ms: float = 200.0
    strict_gateways: bool = True
    gateway_each_ms: dict[int, float] = field(default_factory=dict)


class World:
    """State, clock and look-ups."""

    def __init__(self, state: State | None = None, region: str = "eu") -> None:
        self.region = region
        self.changes = 0
        self.reset(state)

    def reset(self, state: State | None = None) -> None:
        """Starts anew, from nothing or from a kept state; latencies go back to their defaults."""
        self.state = state or State()
        self.timing = Timing()
        self.changes += 1
        self._by_name: dict[str, int] = {a.username: a.uid for a in self.state.accounts.values()}

    # -- clock

    def now(self) -> int:
        """Returns the simulator's present in ms since the epoch."""
        real = time.time_ns() // 1_000_000
        if self.state.clock_ms is None:
            return real
        return self.state.clock_ms + (real - self.state.clock_set_at if self.state.clock_runs else 0)

    def set_clock(self, now_ms: int | None, runs: bool) -> None:
        """Moves the clock, or gives it back to the machine with None."""
        self.state.clock_ms = now_ms
        self.state.clock_set_at = time.time_ns() // 1_000_000
        self.state.clock_runs = runs

    def month(self) -> str:
        """Returns the present month in Beijing, where the monthly quota is counted."""
        stamp = time.gmtime((self.now() + BEIJING_MS) / 1000)
        return f"{stamp.tm_year:04d}-{stamp.tm_mon:02d}"

    # -- ids and look-ups

    def new_id(self) -> int:
        """Returns a number never given out before."""
        self.state.next_id += 1
        return self.state.next_id

    def add_account(self, account: Account) -> None:
        """Registers an account under its name."""
        self.state.accounts[account.uid] = account
        self._by_name[account.username] = account.uid

    def account_named(self, username: str) -> Account | None:
        """Finds a live account by its login name."""
        account = self.state.accounts.get(self._by_name.get(username, 0))
        return None if account is None or account.deleted else account

    def lock(self, lock_id: int) -> Lock:
        """Finds a lock. Raises VendorError(-1003)."""
        found = self.state.locks.get(lock_id)
        if found is None:
            raise VendorError(-1003)
        return found

    def gateway(self, gateway_id: int) -> Gateway:
        """Finds a gateway. Raises VendorError(-4037)."""
        found = self.state.gateways.get(gateway_id)
        if found is None:
            raise VendorError(-4037)
        return found

    def application(self, client_id: str) -> Application:
        """Finds an application. Raises VendorError(10000)."""
        found = self.state.applications.get(client_id)
        if found is None:
            raise VendorError(10000)
        return found

    def owned_locks(self, uid: int) -> list[Lock]:
        """Returns the locks whose top administrator this account is, in order of id."""
        return [lock for _, lock in sorted(self.state.locks.items()) if lock.owner_uid == uid]
