"""The one place adapters are built, and what is wrapped around every call: limit, time, count, and the scrubbing boundary.

One rule: everything outside `vendors` reaches a vendor through this module, and names no vendor.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache

from devices import call_scope, secret_sealing
from devices.limits import SharedLimit
from devices.models import VendorInstallation
from devices.relay import RowRelay
from devices.relay_jobs import Site
from devices.secret_boundary import BoundaryPort, Opening
from devices.secret_sealing import SealedInstallation
from devices.selectors import InstallationFacts, UnknownDevice
from lockservice.core.secret_cache import HeldSecrets
from vendors import registry
from vendors.port.clock import Clock, SystemClock
from vendors.port.manifest import AdapterContext, CallLimiter, NoLimit, VendorManifest
from vendors.port.protocol import LockPort
from vendors.port.secrets import Token

_built: dict[tuple[str, str], tuple[int, str, BoundaryPort]] = {}


def manifest(vendor: str) -> VendorManifest:
    """Returns a vendor's manifest. Raises vendors.registry.UnknownVendor."""
    return registry.manifest(vendor)


def is_known(vendor: str) -> bool:
    """Says whether a vendor's folder is there, by its code or an alias."""
    return any(vendor == found.code or vendor in found.aliases for found in registry.manifests().values())


def manifests() -> dict[str, VendorManifest]:
    """Returns every vendor's manifest by code."""
    return registry.manifests()


def port_of(tenant_id: str, facts: InstallationFacts) -> LockPort:
    """Returns the installation's port, made once per process, version of its settings and time zone of its property. Inside
    the tenant's block.

    The adapter itself is opened at the first call, which therefore raises VendorUnreachable with Reason.SETTINGS where settings
    are wrong, or where keys or secrets cannot be had. Raises UnknownDevice when the installation is gone.
    """
    key = (tenant_id, facts.id)
    version, zone, port = _built.get(key, (0, "", None))
    if port is None or version < facts.version or zone != facts.time_zone:
        if len(_built) > 2000:
            _built.clear()
        row = VendorInstallation.objects.filter(tenant_id=tenant_id, id=facts.id).first()
        if row is None:
            raise UnknownDevice(facts.id)
        sealed = SealedInstallation.of(row)
        port = BoundaryPort(_opening(sealed, facts, sealed.held_secrets()), previous=port)
        # The row may be newer than the facts; under its own version it is found again without a query.
        _built[key] = (row.version, facts.time_zone, port)
    return port


def port_with(sealed: SealedInstallation, facts: InstallationFacts, secrets: Mapping[str, Token]) -> LockPort:
    """Returns a port of its own with these secrets in place of the stored ones, to try them out. Touches no database."""
    return BoundaryPort(_opening(sealed, facts, HeldSecrets.given(secrets)))


def seal_installation(row: VendorInstallation, settings: Mapping[str, object], secrets: Mapping[str, str]) -> None:
    """Seals settings into the row, puts the secrets into the store and saves the row, an older one under its next version.
    No transaction may be open.

    Raises devices.secret_fingerprints.SecretReused when another property has one of the values, ValueError for a secret the
    vendor does not know, KeyUnavailable and StoreUnavailable where keys or secrets are kept.
    """
    secret_sealing.seal(row, manifest(row.vendor), settings, secrets)


def open_installation(row: VendorInstallation) -> tuple[dict[str, object], dict[str, str]]:
    """Opens settings and secrets of a row. May ask key service and store. Raises SealBroken, SecretMissing, KeyUnavailable,
    StoreUnavailable."""
    sealed = SealedInstallation.of(row)
    return sealed.settings(), {name: value.reveal() for name, value in secrets_of(sealed).items()}


def secrets_of(sealed: SealedInstallation) -> Mapping[str, Token]:
    """Reads an installation's secrets by the adapter's names. Raises SealBroken, SecretMissing, StoreUnavailable."""
    return {**sealed.old_secrets(), **sealed.held_secrets().values()}


def _opening(sealed: SealedInstallation, facts: InstallationFacts, held: HeldSecrets) -> Opening:
    def build(values: Mapping[str, Token]) -> LockPort:
        context = AdapterContext(
            tenant_id=sealed.tenant_id,
            installation_id=sealed.installation_id,
            settings=sealed.settings(),
            secrets={**sealed.old_secrets(), **values},
            clock=vendor_clock(),
            rng=random.Random(),  # noqa: S311 - nonces and jitter, never PINs
            sleep=time.sleep,
            limiter=_limiter(facts),
            relay=RowRelay(Site(sealed.tenant_id, facts.property_id, facts.id, facts.vendor)),
            time_zone=facts.time_zone,
        )
        return registry.build(facts.vendor, context)

    return Opening(facts.vendor, held, build)


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
        """Takes the calls as the limit allows, between two requests of a verb after a pause. Raises as it does."""
        call_scope.take(self._limit.acquire, calls, priority)
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
