"""The one place adapters are built, and what is wrapped around every call: limit, time, count.

One rule: everything outside `vendors` reaches a vendor through this module, and names no vendor.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache

from devices.limits import SharedLimit
from devices.models import VendorInstallation
from devices.selectors import InstallationFacts, UnknownDevice
from lockservice.core import crypto
from vendors import registry
from vendors.port.clock import Clock, SystemClock
from vendors.port.manifest import AdapterContext, CallLimiter, NoLimit, VendorManifest
from vendors.port.protocol import LockPort
from vendors.port.secrets import Token

SETTINGS_PLACE = ("devices_vendorinstallation", "settings_sealed")
SECRETS_PLACE = ("devices_vendorinstallation", "secrets_sealed")

_built: dict[tuple[str, str, int], LockPort] = {}


def manifest(vendor: str) -> VendorManifest:
    """Returns a vendor's manifest. Raises vendors.registry.UnknownVendor."""
    return registry.manifest(vendor)


def manifests() -> dict[str, VendorManifest]:
    """Returns every vendor's manifest by code."""
    return registry.manifests()


def port_of(tenant_id: str, facts: InstallationFacts) -> LockPort:
    """Returns the installation's adapter, built once per process and version of its settings. Inside the tenant's block.

    Raises UnknownDevice when the installation is gone, ValueError when its settings are wrong.
    """
    key = (tenant_id, facts.id, facts.version)
    port = _built.get(key)
    if port is None:
        if len(_built) > 2000:
            _built.clear()
        port = _built[key] = registry.build(facts.vendor, _context(tenant_id, facts))
    return port


def seal_installation(row: VendorInstallation, settings: dict[str, object], secrets: dict[str, str]) -> None:
    """Seals settings and secrets into the row (not saved)."""
    row.settings_sealed = crypto.seal("lock-config", row.tenant_id, _place(row.id, SETTINGS_PLACE), json.dumps(settings))
    row.secrets_sealed = crypto.seal("lock-config", row.tenant_id, _place(row.id, SECRETS_PLACE), json.dumps(secrets))


def open_installation(row: VendorInstallation) -> tuple[dict[str, object], dict[str, str]]:
    """Opens settings and secrets of a row. Raises lockservice.core.crypto.SealBroken."""
    opened = crypto.unseal("lock-config", row.tenant_id, _place(row.id, SETTINGS_PLACE), row.settings_sealed)
    secrets = "{}"
    if row.secrets_sealed:
        secrets = crypto.unseal("lock-config", row.tenant_id, _place(row.id, SECRETS_PLACE), row.secrets_sealed)
    return json.loads(opened), json.loads(secrets)


def _context(tenant_id: str, facts: InstallationFacts) -> AdapterContext:
    row = VendorInstallation.objects.filter(tenant_id=tenant_id, id=facts.id).first()
    if row is None:
        raise UnknownDevice(facts.id)
    opened, secrets = open_installation(row)
    return AdapterContext(
        tenant_id=tenant_id,
        installation_id=facts.id,
        settings=opened,
        secrets={name: Token(value) for name, value in secrets.items()},
        clock=vendor_clock(),
        rng=random.Random(),  # noqa: S311 - nonces and jitter, never PINs
        sleep=time.sleep,
        limiter=_limiter(facts),
    )


def _limiter(facts: InstallationFacts) -> CallLimiter:
    manifest_of = registry.manifest(facts.vendor)
    per_minute = facts.calls_per_minute or manifest_of.calls_per_minute
    if not per_minute:
        return CountedLimit(NoLimit())
    return CountedLimit(SharedLimit(facts.vendor, facts.id, per_minute, manifest_of.calls_per_second))


class Tally:
    """How many requests left for vendors inside a `tally()` block."""

    def __init__(self) -> None:
        self.calls = 0


class CountedLimit:
    """Passes on to the installation's limit and counts, for whom a verb itself does not tell how many requests it took."""

    def __init__(self, limit: CallLimiter) -> None:
        self._limit = limit

    def acquire(self, calls: int, priority: int) -> None:
        """Takes the calls as the limit allows. Raises as it does."""
        self._limit.acquire(calls, priority)
        if (open_tally := getattr(_tallies, "open", None)) is not None:
            open_tally.calls += calls


_tallies = threading.local()


@contextmanager
def tally() -> Iterator[Tally]:
    """Counts the requests that this thread's vendor calls make inside the block. Blocks do not nest."""
    _tallies.open = counted = Tally()
    try:
        yield counted
    finally:
        _tallies.open = None


def _place(installation_id: str, place: tuple[str, str]) -> tuple[str, str, str]:
    return (place[0], installation_id, place[1])


class ObservedClock:
    """The hotel's clock for adapters, which may not query: the instant last observed by the runner, plus time since."""

    def __init__(self) -> None:
        self._ahead_s: float | None = None
        self._system: Clock = SystemClock()

    def observe(self, hotel_now: datetime) -> None:
        """Notes the hotel's instant as just read from the database."""
        self._ahead_s = hotel_now.timestamp() - time.time()

    def now(self) -> datetime:
        """Returns the hotel's present instant; the machine's until something was observed."""
        return self._system.now() + timedelta(seconds=self._ahead_s or 0.0)


@lru_cache(maxsize=1)
def vendor_clock() -> ObservedClock:
    """Returns this process's observed hotel clock."""
    return ObservedClock()
