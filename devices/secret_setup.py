"""Sets a lock system up: checks its settings and secrets, tries them at the vendor, and only then lets it be.

One rule: a credential that another property uses is refused before anything is stored, and what failed leaves no claim and no
stored value behind. No transaction is open while key service, store or vendor are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from devices import adapters, secret_fingerprints, secret_sealing
from devices.models import VendorInstallation
from devices.secret_fingerprints import SecretReused
from devices.secret_sealing import SealedInstallation
from devices.selectors import InstallationFacts
from lockservice.core import clock, tenancy
from lockservice.core.places import Property
from lockservice.core.secret_store import StoreUnavailable, secret_store
from vendors.port.errors import LockError, Reason
from vendors.port.ids import new_id
from vendors.port.secrets import Token

log = structlog.get_logger(__name__)


class SetupRefused(Exception):
    """The lock system cannot be set up as asked; nothing was kept. `code` is a stable word."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


@dataclass(frozen=True, slots=True)
class Wanted:
    """A lock system as somebody sets it up. Secrets do not print."""

    property_id: str
    vendor: str
    label: str
    settings: Mapping[str, object]
    secrets: Mapping[str, Token] = field(repr=False)
    environment: str = "production"


@dataclass(frozen=True, slots=True)
class SetUp:
    """The new installation, and how many locks its vendor lists; None where it was not asked."""

    installation_id: str
    locks: int | None


def set_up(tenant_id: str, wanted: Wanted, *, is_tried: bool = True) -> SetUp:
    """Makes the installation. With `is_tried` the vendor is asked for its list of locks first. No transaction may be open.

    Raises SetupRefused (UNKNOWN_PROPERTY, UNKNOWN_NAME, EMPTY_VALUE, SECRET_REUSED, VENDOR_REFUSED),
    vendors.registry.UnknownVendor, LockError when the vendor gave no answer, KeyUnavailable and StoreUnavailable.
    """
    row = _row(tenant_id, wanted)
    manifest = adapters.manifest(wanted.vendor)
    _check_names(wanted)
    with tenancy.tenant(tenant_id):
        if not Property.objects.filter(tenant_id=tenant_id, property_id=wanted.property_id, active=True).exists():
            raise SetupRefused("UNKNOWN_PROPERTY", "no such property in operation in this tenant")
        now, key_name = clock.real_now(), secret_sealing.own_key_of(tenant_id)
        adapters.vendor_clock().observe(clock.now())
        try:
            fresh = secret_fingerprints.claim(manifest, tenant_id, wanted.property_id, wanted.secrets, now, row.id)
        except SecretReused as error:
            raise SetupRefused("SECRET_REUSED", str(error)) from error
    try:
        secret_sealing.reseal_settings(row, wanted.settings, key_name)
        locks = _ask(row, wanted) if is_tried else None
        secret_sealing.put(row, wanted.secrets, fresh, wanted.settings, key_name)
    except Exception:
        _take_back(row)
        raise
    with tenancy.tenant(tenant_id):
        secret_sealing.record(row, manifest, wanted.secrets)
        row.save(force_insert=True)
    return SetUp(row.id, locks)


def _take_back(row: VendorInstallation) -> None:
    """Gives claims back, and destroys those values that got into the store before the next one failed."""
    with tenancy.tenant(row.tenant_id):
        secret_fingerprints.release(row.tenant_id, row.id)
    sealed = SealedInstallation.of(row)
    try:
        for name, version in sealed.secret_versions.items():
            secret_store().destroy(sealed.name_of(name), version)
    except StoreUnavailable as error:  # what the caller is told is why it failed in the first place
        log.warning("setup.values_left", installation=row.id, reason=str(error))


def _row(tenant_id: str, wanted: Wanted) -> VendorInstallation:
    return VendorInstallation(
        id=new_id("vad"),
        tenant_id=tenant_id,
        property_id=wanted.property_id,
        vendor=adapters.manifest(wanted.vendor).code,
        environment=wanted.environment[:20],
        label=wanted.label[:120],
    )


def _check_names(wanted: Wanted) -> None:
    manifest = adapters.manifest(wanted.vendor)
    for given, known, kind in (
        (wanted.settings, manifest.setting_names, "setting"),
        (wanted.secrets, manifest.secret_names, "secret"),
    ):
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise SetupRefused("UNKNOWN_NAME", f"{manifest.code} has no {kind} {unknown[0]}; it has {', '.join(known)}")
    empty = [name for name, value in wanted.secrets.items() if not value.reveal().strip()]
    if empty:
        raise SetupRefused("EMPTY_VALUE", f"{empty[0]} is empty")


def _ask(row: VendorInstallation, wanted: Wanted) -> int:
    facts = InstallationFacts(
        row.id, row.property_id, row.vendor, row.environment, row.lane_width, row.calls_per_minute, row.calls_per_month,
        row.version, row.active,
    )  # fmt: skip
    try:
        return len(adapters.port_with(SealedInstallation.of(row), facts, wanted.secrets).list_devices(row.property_id))
    except LockError as error:
        if error.reason is Reason.SETTINGS and not error.retriable:
            raise SetupRefused("VENDOR_REFUSED", f"settings or secrets are wrong: {error.vendor_message}") from error
        raise
