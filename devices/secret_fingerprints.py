"""Refuses a vendor credential that another property uses, without telling whose it is.

One rule: what is compared is a keyed fingerprint; the unique row decides, also between two who register at the same moment.
Source: document 09 §13.2, cross-property credential reuse is forbidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from devices.models import SecretFingerprint
from devices.secret_rules import rule_of, stored_name
from lockservice.core import crypto
from vendors.port.manifest import VendorManifest
from vendors.port.secrets import Token

PURPOSE = "vendor-secret"


class SecretReused(ValueError):
    """A value belongs to another property already, or was used here before. Trying again makes no sense: another value is
    needed. `name` says which secret; nothing says whose the value is."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


def claim(
    manifest: VendorManifest, tenant_id: str, property_id: str, secrets: Mapping[str, Token], now: datetime,
    rotation_id: str = "",
) -> tuple[str, ...]:  # fmt: skip
    """Notes the values as this property's; returns the names whose value was new here. Inside the tenant's block.

    Raises SecretReused; the caller's transaction must then end, so that nothing of it stays.
    """
    wanted = {name: _print_of(manifest, tenant_id, name, value) for name, value in secrets.items() if _counts(manifest, name)}
    before = _mine(tenant_id, manifest.code, wanted)
    SecretFingerprint.objects.bulk_create(
        [
            SecretFingerprint(
                tenant_id=tenant_id,
                property_id=property_id,
                vendor=manifest.code,
                fingerprint=value,
                name=stored_name(name),
                rotation_id=rotation_id,
                made_at=now,
            )
            for name, value in wanted.items()
            if value not in before
        ],
        ignore_conflicts=True,
    )
    owners = _mine(tenant_id, manifest.code, wanted)
    for name, value in wanted.items():
        allowed = rule_of(manifest, stored_name(name)).tenant_wide and value in owners
        if owners.get(value) != property_id and not allowed:
            raise SecretReused(
                name, "this value is in use at another property; have the vendor make one for this property alone"
            )
    return tuple(name for name, value in wanted.items() if value not in before)


def release(tenant_id: str, rotation_id: str) -> None:
    """Takes back a rotation's claim on values that were never used. Inside the tenant's block."""
    SecretFingerprint.objects.filter(tenant_id=tenant_id, rotation_id=rotation_id).delete()


def _mine(tenant_id: str, vendor: str, wanted: Mapping[str, bytes]) -> dict[bytes, str]:
    rows = SecretFingerprint.objects.filter(tenant_id=tenant_id, vendor=vendor, fingerprint__in=list(wanted.values()))
    return {bytes(value): owner for value, owner in rows.values_list("fingerprint", "property_id")}


def _counts(manifest: VendorManifest, name: str) -> bool:
    return rule_of(manifest, stored_name(name)).is_secret


def _print_of(manifest: VendorManifest, tenant_id: str, name: str, value: Token) -> bytes:
    """One key for all tenants, or two tenants' equal values would not meet. Without the key the print tells nothing."""
    return crypto.blind_index(PURPOSE, "", f"{manifest.code}\x1f{value.reveal()}")
