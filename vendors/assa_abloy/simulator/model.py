"""What exists: houses with their keys at the vendor, and apart from them locks, cards and phones with memories of their own.

One rule: a lock off the network knows only what a card or phone brought to it. Nothing here looks from a lock to the vendor.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

FIRST_NUMBER = 4001
LIVE = frozenset({"issuing", "active", "suspended"})


@dataclass(frozen=True, slots=True)
class Image:
    """What a card or phone carries of a key. `stays` numbers, for each room, the stay the key belongs to; `version` is the one
    that the key had when it was written or sent."""

    key_id: str
    guest: tuple[str, ...]
    common: tuple[str, ...]
    start: datetime
    end: datetime
    stays: dict[str, int]
    version: int = 0


@dataclass(slots=True)
class Key:
    """A key as the vendor has it. `version` grows with each change; a card may carry an earlier one."""

    id: str
    kind: str
    guest: list[str]
    common: list[str]
    start: datetime
    end: datetime
    stays: dict[str, int]
    label: str
    external_ref: str = ""
    status: str = "active"
    version: int = 1
    serial: str | None = None
    endpoint_id: str | None = None
    overwrote: str | None = None

    def image(self) -> Image:
        """Returns what is written on a card, or sent to a phone."""
        return Image(self.id, tuple(self.guest), tuple(self.common), self.start, self.end, dict(self.stays), self.version)

    def status_at(self, now: datetime) -> str:
        """Returns the status an answer shows."""
        return "expired" if self.status in LIVE and now >= self.end else self.status


@dataclass(slots=True)
class Lock:
    """A lock at a door. `stay` is the newest stay it has seen; `is_online` says that it is on the network, `is_reachable` that
    the network works; `told` is the vendor's last word of each key when it was cut off; `log` is in the lock until it is read
    out."""

    door_id: str
    name: str
    kind: str = "guest"
    is_online: bool = False
    is_reachable: bool = True
    clock_skew_s: float = 0.0
    stay: int = 0
    told: dict[str, tuple[str, Image]] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Phone:
    """A phone with the guest's app. Any of `codes` may be redeemed, once. An offline phone keeps what it has."""

    endpoint_id: str
    owner: str
    codes: list[str] = field(default_factory=list)
    status: str = "invited"
    is_offline: bool = False
    images: dict[str, Image] = field(default_factory=dict)


@dataclass(slots=True)
class Encoder:
    """An encoder at a desk. `lying` is the number of the card on it; one that `feeds` takes fresh cards from a stack."""

    name: str
    feeds: bool = False
    lying: str | None = None
    is_busy: bool = False
    is_offline: bool = False


@dataclass(slots=True)
class Job:
    """An issuing request of Vostio that waits for a card. `until_s` is real time (monotonic). `overwrite` names keys that may
    be lost from the card, `on_card` is the one that was in the way."""

    id: str
    key_id: str
    encoder: str
    until_s: float
    status: str = "queued"
    error: str | None = None
    overwrite: list[str] = field(default_factory=list)
    on_card: str | None = None


@dataclass(slots=True)
class House:
    """One property: a Vostio environment and a Visionline server over the same locks. `access_key` is given to every session
    where it is set, for transcripts; otherwise each has its own. `names_doors` lets Visionline speak as its public clients show
    it: doors by name, ids and types as numbers, and a card's end as booleans."""

    code: str
    client_id: str = ""
    client_secret: str = ""
    username: str = ""
    password: str = ""
    webhook_secret: str = ""
    access_key: str | None = None
    zone_name: str = "UTC"
    rate_limit: int | None = 30
    card_wait_s: float = 1.5
    issues_slowly: bool = False
    names_doors: bool = False
    locks: dict[str, Lock] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    cards: dict[str, Image] = field(default_factory=dict)
    phones: dict[str, Phone] = field(default_factory=dict)
    encoders: dict[str, Encoder] = field(default_factory=dict)
    issued: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    windows: list[tuple[datetime, datetime]] = field(default_factory=list)
    answers: dict[str, tuple[str, int, dict[str, Any]]] = field(default_factory=dict)
    bucket: tuple[float, float] | None = None

    def key_id(self, prefix: str) -> str:
        """Makes an id for a key: a number where Visionline counts its keys."""
        return str(FIRST_NUMBER + len(self.keys)) if self.names_doors else f"{prefix}{secrets.token_hex(8)}"

    def door_called(self, name: str) -> str:
        """Returns the id of the door that Visionline calls by this name; the name itself where there is none."""
        if not self.names_doors:
            return name
        return next((lock.door_id for lock in self.locks.values() if lock.name == name), f"?{name}")

    def name_of(self, door_id: str) -> str:
        """Returns what Visionline calls a door."""
        return self.locks[door_id].name if self.names_doors and door_id in self.locks else door_id.removeprefix("?")

    @property
    def zone(self) -> tzinfo:
        """Returns the property's wall time."""
        return read_zone(self.zone_name)


def read_zone(name: str) -> tzinfo:
    """Reads `UTC`, `UTC±HH:MM` or an IANA name. Raises ValueError or a LookupError for anything else."""
    if name.startswith("UTC"):
        sign = -1 if name[3:4] == "-" else 1
        hours, _, minutes = name[4:].partition(":")
        return timezone(sign * timedelta(hours=int(hours or 0), minutes=int(minutes or 0)))
    return ZoneInfo(name)
