"""Reads installations and devices as plain facts.

One rule: read only, always by tenant. Facts are kept for two seconds per process: a lock's setup changes rarely, and every
step of every saga reads it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Subquery

from devices.health_rules import Zone, believed_skew_ms
from devices.models import LockDevice, VendorInstallation
from lockservice.core.places import Property
from vendors.port.manifest import LaneRule, VendorManifest
from vendors.port.secrets import VendorRef
from vendors.port.types import Door, LockCapabilities

KEEP_S = 2.0


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A lock device as flows need it; clock_skew_ms is lock minus true time as last read, None if never. `utc_offset_s` is how
    far from UTC its vendor takes its clock to be, `time_zone` its property's zone."""

    id: str
    property_id: str
    installation_id: str
    external_id: str
    label: str
    rooms: tuple[str, ...]
    areas: tuple[str, ...]
    shared: bool
    gateway: str
    has_remote: bool
    digits: str
    clock_skew_ms: int | None
    capabilities: LockCapabilities
    utc_offset_s: int | None = None
    time_zone: str = ""

    def skew_at(self, now: datetime) -> int | None:
        """Return how far the lock's clock is off, as read or as its distance from UTC suggests; None where nothing is known."""
        return believed_skew_ms(self.clock_skew_ms, self.utc_offset_s, Zone(self.time_zone, now))

    def zone_shift_s(self, now: datetime) -> int:
        """Return by how much the lock's distance from UTC is not its property's, where no clock that was read says better."""
        return Zone(self.time_zone, now).shift_s(self.utc_offset_s) if self.clock_skew_ms is None else 0

    def door(self, ref: VendorRef | None = None) -> Door:
        """Returns the device as the port takes it."""
        return Door(
            device_id=self.id,
            external_id=self.external_id,
            label=self.label,
            gateway=self.gateway,
            has_remote=self.has_remote,
            digits=self.digits,
            ref=ref,
        )


@dataclass(frozen=True, slots=True)
class InstallationFacts:
    """An installation as flows need it; `version` grows with every change of its settings. `time_zone` is its property's, empty
    for a property nobody has told of."""

    id: str
    property_id: str
    vendor: str
    environment: str
    lane_width: int | None
    calls_per_minute: int | None
    calls_per_month: int | None
    version: int
    active: bool
    time_zone: str = ""


class UnknownDevice(LookupError):
    """A device or installation is not there in this tenant."""


_kept: dict[tuple[str, str, str], tuple[float, Any]] = {}


def forget() -> None:
    """Drops the kept facts; called when a tenant's configuration was updated."""
    _kept.clear()


def property_devices(tenant_id: str, property_id: str) -> tuple[DeviceFacts, ...]:
    """Returns the active devices of a property, in a stable order."""
    return _keep(("property", tenant_id, property_id), lambda: _read_property(tenant_id, property_id))


def property_installations(tenant_id: str, property_id: str) -> tuple[InstallationFacts, ...]:
    """Returns the active installations of a property, by id."""
    return _keep(("installations", tenant_id, property_id), lambda: _read_installations(tenant_id, property_id))


def installation(tenant_id: str, installation_id: str) -> InstallationFacts:
    """Returns one installation. Raises UnknownDevice."""
    found = _keep(("installation", tenant_id, installation_id), lambda: _read_installation(tenant_id, installation_id))
    if found is None:
        raise UnknownDevice(installation_id)
    return found


def devices(tenant_id: str, property_id: str, ids: Iterable[str]) -> dict[str, DeviceFacts]:
    """Returns devices of a property by id, inactive ones included where asked for by id."""
    known = {device.id: device for device in property_devices(tenant_id, property_id)}
    missing = [device_id for device_id in ids if device_id not in known]
    if missing:
        rows = in_zone(LockDevice).filter(tenant_id=tenant_id, id__in=missing)
        known.update({row.id: _facts(row) for row in rows})
    return {device_id: known[device_id] for device_id in ids if device_id in known}


def lane_of(facts: InstallationFacts, manifest: VendorManifest, gateway: str) -> tuple[str, int]:
    """Returns the lane (key, width) in which calls to a door run: its gateway's, or the installation's one."""
    if manifest.lane is LaneRule.GATEWAY and gateway:
        return f"{facts.id}:{gateway}", 1
    return f"{facts.id}:", facts.lane_width or manifest.lane_width


def _keep(key: tuple[str, str, str], read: Any) -> Any:
    held = _kept.get(key)
    now = time.monotonic()
    if held is not None and now - held[0] < KEEP_S:
        return held[1]
    value = read()
    if len(_kept) > 10_000:
        _kept.clear()
    _kept[key] = (now, value)
    return value


def _read_property(tenant_id: str, property_id: str) -> tuple[DeviceFacts, ...]:
    rows = in_zone(LockDevice).filter(tenant_id=tenant_id, property_id=property_id, active=True).order_by("id")
    return tuple(_facts(row) for row in rows)


def _read_installations(tenant_id: str, property_id: str) -> tuple[InstallationFacts, ...]:
    rows = in_zone(VendorInstallation).filter(tenant_id=tenant_id, property_id=property_id, active=True).order_by("id")
    return tuple(_installation_facts(row) for row in rows)


def _read_installation(tenant_id: str, installation_id: str) -> InstallationFacts | None:
    row = in_zone(VendorInstallation).filter(tenant_id=tenant_id, id=installation_id).first()
    return _installation_facts(row) if row else None


def in_zone(model: Any) -> Any:
    """Return all rows of a model, each with its property's time zone."""
    place = Property.objects.filter(tenant_id=OuterRef("tenant_id"), property_id=OuterRef("property_id"))
    return model.objects.annotate(time_zone=Subquery(place.values("time_zone")[:1]))


def _facts(row: Any) -> DeviceFacts:
    return DeviceFacts(
        id=row.id,
        property_id=row.property_id,
        installation_id=row.installation_id,
        external_id=row.external_id,
        label=row.label,
        rooms=tuple(row.rooms),
        areas=tuple(row.areas),
        shared=row.shared,
        gateway=row.gateway,
        has_remote=row.has_remote,
        digits=row.digits,
        clock_skew_ms=row.clock_skew_ms,
        capabilities=LockCapabilities(**row.capabilities),
        utc_offset_s=row.utc_offset_s,
        time_zone=row.time_zone or "",
    )


def _installation_facts(row: Any) -> InstallationFacts:
    return InstallationFacts(
        id=row.id,
        property_id=row.property_id,
        vendor=row.vendor,
        environment=row.environment,
        lane_width=row.lane_width,
        calls_per_minute=row.calls_per_minute,
        calls_per_month=row.calls_per_month,
        version=row.version,
        active=row.active,
        time_zone=row.time_zone or "",
    )
