"""What a vendor's folder says of itself, so that nobody else needs to name it.

One rule: a folder in `vendors/` with a `manifest.py` holding `MANIFEST` is a vendor; nothing else is edited to add one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from .clock import Clock
from .protocol import LockPort
from .relay import OfflineRelay, Relay
from .secrets import Token
from .types import CredentialKind, LockCapabilities


class LaneRule(StrEnum):
    """What must not be spoken to by two calls at once."""

    INSTALLATION = "installation"  # the installation's one connection, `lane_width` calls in parallel
    GATEWAY = "gateway"  # each gateway serves one call at a time


class CardsBy(StrEnum):
    """What a card or tag needs before a desk's `encode` can move its key on."""

    NUMBER = "number"  # the lock learns card numbers: the one that was read at the desk
    ENCODER = "encoder"  # nothing: the vendor's own encoder is reached through the vendor
    RELAY = "relay"  # a desk of the property, connected to the relay; a number may come with it


@dataclass(frozen=True, slots=True)
class SecretRule:
    """How one of a vendor's secrets lives. `every_days` is how often it is rotated, None for never by itself (a name, or a key
    made at pairing). `is_secret` is False for what others may know, such as a user's name. `with_name` is the secret it must be
    changed together with. `tenant_wide` allows one value at several properties of one tenant, where the vendor cannot scope it
    to a property."""

    every_days: int | None = 90
    is_secret: bool = True
    with_name: str = ""
    tenant_wide: bool = False


@dataclass(frozen=True, slots=True)
class VendorManifest:
    """A vendor as the registry sees it. `adapter` is `module:function` of an AdapterFactory; `simulator` a module with
    `main(argv)`, or None; `simulated` is `module:function` of the SimulatorFactory that opens its control port. `lane_width`
    bounds parallel calls on an INSTALLATION lane. `calls_per_minute` and `calls_per_month` are the vendor's limits where the
    installation states none; None where there is none. `calls_per_second` is there where the vendor counts seconds: no
    second may see more, bursts included. `quota_utc_offset_h` says in whose time the quota's month begins. `desk_kinds` need a
    person at the desk, so no booking event encodes them.
    Of `spanning_kinds` one key names all of its doors, so a room is added or taken by changing that key.
    `windows_by_door`: of other kinds each door gets a window of its own; one whose clock is off costs the others nothing.
    Of `outranking_kinds` a stay's key outranks those that were made before it at the same door, whoever comes first: made ahead
    of its guest's arrival it would be put out by a walk-in's, so it is made when the stay begins.
    Of `superseding_kinds` the next guest's key ends the last one's at the door, for good: no change makes that one open again.
    `secret_rules` are those of its secrets that differ from the usual rule; a secret `…_next` is valid beside its first one.
    `secret_names` and `setting_names` are what an installation must provide. `cards_by` says what a desk kind needs beside the
    person; `virtual_desk` is `module:function` of the DeskDriverFactory for the simulated encoder."""

    code: str
    display_name: str
    adapter: str
    kinds: tuple[CredentialKind, ...]
    capabilities: LockCapabilities
    aliases: tuple[str, ...] = ()
    lane: LaneRule = LaneRule.INSTALLATION
    lane_width: int = 8
    calls_per_minute: int | None = None
    calls_per_second: int | None = None
    calls_per_month: int | None = None
    quota_utc_offset_h: int = 0
    desk_kinds: tuple[CredentialKind, ...] = ()
    spanning_kinds: tuple[CredentialKind, ...] = ()
    windows_by_door: bool = False
    outranking_kinds: tuple[CredentialKind, ...] = ()
    superseding_kinds: tuple[CredentialKind, ...] = ()
    cards_by: CardsBy = CardsBy.NUMBER
    setting_names: tuple[str, ...] = ()
    secret_names: tuple[str, ...] = ()
    secret_rules: Mapping[str, SecretRule] = field(default_factory=dict)
    simulator: str | None = None
    simulated: str | None = None
    virtual_desk: str | None = None
    door_capacity: Mapping[CredentialKind, int] = field(default_factory=dict)


class CallLimiter(Protocol):
    """The installation's shared rate limit, asked before every request to the vendor."""

    def acquire(self, calls: int, priority: int) -> None:
        """Takes the calls out of the bucket, or raises VendorUnreachable with throttled=True and retry_after_s. A fifth of the
        bucket is kept for priority 0."""
        ...


class NoLimit:
    """For vendors and tests without a limit."""

    def acquire(self, calls: int, priority: int) -> None:
        """Lets every call through."""


@dataclass(frozen=True, slots=True)
class AdapterContext:
    """What a factory gets: the installation's settings and secrets, and the parts that must be passed in. `rng` gives nonces
    and jitter, never PINs. `sleep` waits the given seconds. `relay` leads to the property's desks. `time_zone` is the
    property's IANA zone, empty where it is not known."""

    tenant_id: str
    installation_id: str
    settings: Mapping[str, object]
    secrets: Mapping[str, Token]
    clock: Clock
    rng: random.Random
    sleep: Callable[[float], None]
    limiter: CallLimiter = field(default_factory=NoLimit)
    relay: Relay = field(default_factory=OfflineRelay)
    time_zone: str = ""


class AdapterFactory(Protocol):
    """Builds an adapter. Raises ValueError naming a missing or malformed setting; makes no call."""

    def __call__(self, context: AdapterContext) -> LockPort: ...
