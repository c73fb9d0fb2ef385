"""Reads a mock's address: where its ledger lives, what it can do and how it fails.

    mock://[host:port]?name=value&…      without a host the ledger is in this process, for unit tests only

    fail=issue,revoke    verbs that are refused (see VERBS; `all` for every one)        default none
    pct=20               in how many of a hundred calls                                 default 100
    times=2              refuse only the first n matching calls of each idempotency key default without end
    error=KEY_ISSUE_FAILED   the port's error code without its prefix                   default VENDOR_UNREACHABLE
    reason=pin_refused   the port's reason                                              default other
    retriable=0|1        overrides the error's default
    retryAfterS=30       what the vendor asks to wait
    cut=n                the connection breaks before the work, the first n calls of each key
    lost=n               the work is done and the answer dropped, the first n calls of each key
    unknown=n            the work is done and the vendor cannot say so, the first n calls of each key
    deferred=n           the work is accepted and done at the n-th question after it
    on=issue             verbs that cut, lost, unknown and deferred apply to             default all changing verbs
    deadDoors=101,204    doors that never answer
    latencyMs=50         also 20-80 (evenly between), exp:50 (exponential with that mean)
    slowPct=1&slowMs=60000   so many of a hundred calls take so long
    draws=1              the vendor draws PINs itself, one for each window of a door, whoever asks
    capacity=250         keys of one kind a door holds
    capabilities=pin,mobile,card,qr,nfc,remote_issue,remote_revoke,offline,floors,areas   default all but offline
    seed=7               of the failures' dice

One rule: an unknown name or value is refused, so that a mistyped failure never passes for a healthy vendor.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, fields
from urllib.parse import parse_qsl, urlsplit

from vendors.port.errors import ALL_ERRORS, Reason
from vendors.port.types import LockCapabilities

from .manifest import MANIFEST

CHANGING_VERBS = frozenset({"issue", "update", "revoke", "suspend", "unsuspend"})
VERBS = CHANGING_VERBS | {"list", "health", "find", "inventory", "records", "resume", "set_clock"}
ERROR_CODES = {error.code.rpartition(".")[2]: error for error in ALL_ERRORS}
_CAPABILITY_NAMES = {
    "pin": "pin",
    "mobile": "mobile_key",
    "card": "card_encoding",
    "qr": "qr",
    "nfc": "nfc",
    "remote_issue": "remote_issue",
    "remote_revoke": "remote_revoke",
    "offline": "offline_issuance",
    "floors": "scope_floors",
    "areas": "scope_areas",
}


@dataclass(frozen=True, slots=True)
class Latency:
    """How long the vendor takes, in ms: evenly between low and high, or exponential around a mean; now and then slow."""

    low_ms: float = 0
    high_ms: float = 0
    mean_ms: float | None = None
    slow_pct: float = 0
    slow_ms: float = 0

    def draw_s(self, rng: random.Random) -> float:
        """Draws one delay in seconds."""
        if self.slow_pct and rng.random() * 100 < self.slow_pct:
            return self.slow_ms / 1000
        if self.mean_ms is not None:
            return rng.expovariate(1 / self.mean_ms) / 1000 if self.mean_ms else 0.0
        return rng.uniform(self.low_ms, self.high_ms) / 1000


@dataclass(frozen=True, slots=True)
class Profile:
    """A parsed address, without its host."""

    fail: frozenset[str] = frozenset()
    pct: float = 100
    times: int | None = None
    error: str = "VENDOR_UNREACHABLE"
    reason: Reason = Reason.OTHER
    retriable: bool | None = None
    retry_after_s: float | None = None
    cut: int = 0
    lost: int = 0
    unknown: int = 0
    deferred: int = 0
    on: frozenset[str] = CHANGING_VERBS
    dead_doors: frozenset[str] = frozenset()
    latency: Latency = Latency()
    draws: bool = False
    capacity: int = 1000
    capabilities: LockCapabilities = MANIFEST.capabilities
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class MockAddress:
    """Where the ledger lives (None: in this process), the profile, and its text to hand on."""

    base_url: str | None
    profile: Profile
    query: str


def parse_address(url: str) -> MockAddress:
    """Parses a `mock://` address. Raises ValueError naming the part that is wrong."""
    parts = urlsplit(url)
    if parts.scheme != "mock":
        raise ValueError("the setting url must start with mock://")
    base_url = f"http://{parts.netloc}" if parts.netloc else None
    return MockAddress(base_url, parse_profile(parts.query), parts.query)


def parse_profile(query: str) -> Profile:
    """Parses the part of an address after the question mark. Raises ValueError naming the part that is wrong."""
    given: dict[str, object] = {}
    latency: dict[str, float] = {}
    for name, text in parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)):
        try:
            if name in _LATENCY_PARTS:
                latency |= _LATENCY_PARTS[name](text)
            else:
                field, read = _PARTS[name]
                given[field] = read(text)
        except KeyError:
            raise ValueError(f"unknown mock setting {name!r} or value {text!r}") from None
        except ValueError:
            raise ValueError(f"mock setting {name}={text!r} cannot be read") from None
    return Profile(latency=Latency(**latency), **given)  # type: ignore[arg-type]


def _verbs(text: str) -> frozenset[str]:
    names = frozenset(text.split(","))
    if names == {"all"}:
        return VERBS
    if not names <= VERBS:
        raise ValueError(text)
    return names


def _capabilities(text: str) -> LockCapabilities:
    granted = {_CAPABILITY_NAMES[name] for name in text.split(",") if name}
    return LockCapabilities(**{f.name: f.name in granted for f in fields(LockCapabilities)})


def _error(text: str) -> str:
    if text not in ERROR_CODES:
        raise ValueError(text)
    return text


def _flag(text: str) -> bool:
    return {"0": False, "1": True, "false": False, "true": True}[text]


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _number(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1e9:
        raise ValueError(text)
    return number


def _latency(text: str) -> dict[str, float]:
    if text.startswith("exp:"):
        return {"mean_ms": _number(text[4:])}
    low, dash, high = text.partition("-")
    return {"low_ms": _number(low), "high_ms": _number(high if dash else low)}


_LATENCY_PARTS: dict[str, Callable[[str], dict[str, float]]] = {
    "latencyMs": _latency,
    "slowPct": lambda text: {"slow_pct": _number(text)},
    "slowMs": lambda text: {"slow_ms": _number(text)},
}
_PARTS: dict[str, tuple[str, Callable[[str], object]]] = {
    "fail": ("fail", _verbs),
    "pct": ("pct", _number),
    "times": ("times", _count),
    "error": ("error", _error),
    "reason": ("reason", Reason),
    "retriable": ("retriable", _flag),
    "retryAfterS": ("retry_after_s", _number),
    "cut": ("cut", _count),
    "lost": ("lost", _count),
    "unknown": ("unknown", _count),
    "deferred": ("deferred", _count),
    "on": ("on", _verbs),
    "deadDoors": ("dead_doors", lambda text: frozenset(filter(None, text.split(",")))),
    "draws": ("draws", _flag),
    "capacity": ("capacity", _count),
    "capabilities": ("capabilities", _capabilities),
    "seed": ("seed", _count),
}
