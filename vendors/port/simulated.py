"""What every vendor's simulator can be asked from outside: put up doors, move the clock, try a key, look inside.

One rule: this is the side of the person in the corridor and of the building's electrician. No adapter knows it, and nothing
here is needed to serve a real hotel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from .types import CredentialKind


@dataclass(frozen=True, slots=True)
class WantedDoor:
    """A lock to put up. `number` tells doors of one house apart and stays the same for ever (1 to 9999). Doors with equal
    `gateway` numbers (1 to 999) hang on one gateway, where the vendor has gateways; None: out of reach of any. `is_shared`
    is a door that many guests use, such as the street door."""

    number: int
    label: str
    gateway: int | None = 1
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class WantedHouse:
    """A house to put up. `code` (lower-case letters, digits and hyphens) names its account at the vendor, `base` (1 to
    200,000) makes its numbers differ from those of other houses. `utc_offset_s` is what the locks were paired with.

    `secret` is the account's password; it is derived from by each vendor as its wire asks. `is_hurried` leaves out the
    time that radio takes, for replays.
    """

    code: str
    base: int
    doors: Sequence[WantedDoor]
    utc_offset_s: int
    secret: str = field(repr=False)
    is_hurried: bool = False


@dataclass(frozen=True, slots=True)
class BuiltHouse:
    """What the vendor calls the doors, and what an installation needs to speak to them. `doors` and `gateways` map numbers
    to external ids; `gateways` is empty where the vendor has none. A shared door is missing where its name at the vendor would
    not be its own in the simulator."""

    doors: Mapping[int, str]
    gateways: Mapping[int, str]
    settings: Mapping[str, object]
    secrets: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key in a lock's own memory (a phone's key: at the vendor, which the phone asks).

    `value` is what opens: digits, a card's number; empty for a phone's key. `opens_from` and `opens_until` are the true
    instants between which the lock acts on it. `is_resting` means that it does not open although it is there.
    """

    door: str
    kind: CredentialKind
    value: str = field(repr=False)
    opens_from: datetime
    opens_until: datetime
    is_resting: bool = False


@dataclass(frozen=True, slots=True)
class DoorAttempt:
    """What is typed, shown or tapped at which door."""

    door: str
    kind: CredentialKind
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DoorAnswer:
    """What the door did, and the simulator's word for why."""

    is_open: bool
    why: str


class SimulatorUnreachable(Exception):
    """Nobody answers at the control port. The simulator is not running; start it and try again."""


class SimulatorRefused(Exception):
    """The control port calls the request wrong. Trying again makes no sense."""


class SimulatorControl(Protocol):
    """A simulator's control port. Every call raises SimulatorUnreachable, or SimulatorRefused naming what is wrong."""

    def build(self, house: WantedHouse) -> BuiltHouse:
        """Puts up what is missing of the house; what is there keeps its keys. May be sent after every start."""
        ...

    def try_door(self, door: str, kind: CredentialKind, value: str, at: datetime | None = None) -> DoorAnswer:
        """Types, shows or taps at a door. With `at`, judges at another instant and leaves no trace."""
        ...

    def try_doors(self, attempts: Sequence[DoorAttempt], at: datetime) -> Sequence[DoorAnswer]:
        """Asks doors about many attempts at an instant, in one request and without a trace. Answers in the same order."""
        ...

    def held(self, doors: Iterable[str]) -> Sequence[HeldKey]:
        """Returns every key these doors hold."""
        ...

    def set_clock(self, now: datetime | None, *, running: bool) -> None:
        """Sets the simulator's clock, going on from there or standing still; None gives it back to the machine."""
        ...

    def calls(self, doors: Iterable[str]) -> int:
        """Counts the requests that concerned these doors since the simulator started."""
        ...


class Effect(StrEnum):
    """What a vendor's side does with a request. DROP: hangs up, nothing was done. LOST: does the work and hangs up. ERROR: a
    failure of the vendor's own, nothing was done. THROTTLED: says that there were too many."""

    DROP = "drop"
    LOST = "lost"
    ERROR = "error"
    THROTTLED = "throttled"


@dataclass(frozen=True, slots=True)
class SimulatorStatus:
    """How a simulator stands: its clock, what it holds, and what is wrong with it, in words."""

    now: datetime
    doors_count: int
    keys_count: int
    troubles: tuple[str, ...]


@runtime_checkable
class Breakable(Protocol):
    """A simulator that can be broken. Every call raises SimulatorUnreachable, or SimulatorRefused naming what is wrong."""

    def break_calls(self, effect: Effect, times: int | None) -> None:
        """Lets the next so many requests of any service go wrong; None: all until it is healed."""
        ...

    def slow_down(self, latency_ms: int) -> None:
        """Lets every request take so much longer (0 to 600,000 ms)."""
        ...

    def set_door_clock(self, door: str, ahead_s: float) -> None:
        """Lets a door's own clock run ahead of true time by so many seconds (negative: behind)."""
        ...

    def set_reach(self, door: str, *, is_reachable: bool) -> str:
        """Takes what lies between the vendor and a door off or on: its gateway, else its own link. Returns which, in words."""
        ...

    def lie(self) -> None:
        """Lets every list of a door's keys come back empty, until it is healed. Raises SimulatorRefused where it cannot."""
        ...

    def wipe(self, door: str) -> None:
        """Lets a lock forget all keys it holds; its vendor knows nothing. Raises SimulatorRefused where locks hold none."""
        ...

    def heal(self) -> None:
        """Takes all trouble back: faults, latency, clocks of doors, gateways. Keys stay."""
        ...

    def status(self) -> SimulatorStatus:
        """Tells how it stands."""
        ...

    def dump(self) -> dict[str, Any]:
        """Returns everything inside, in the simulator's own words; digits and card numbers too."""
        ...


class SimulatorFactory(Protocol):
    """Opens a control port. `address` is where the vendor's side listens, host and port; makes no call."""

    def __call__(self, address: str, control_url: str) -> SimulatorControl: ...
