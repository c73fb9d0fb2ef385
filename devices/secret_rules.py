"""How often each secret is rotated, by whom, and which belong together: the rotation table as functions of a vendor's manifest.

One rule: what a manifest does not say has the table's usual rule: every 90 days, made by a person at the vendor's portal.
Source: document 09 §13.5 (90 days for vendor secrets, a year for data keys, pairing keys at pairing only).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from cryptography import x509

from vendors.port.manifest import SecretRule, VendorManifest

DATA_KEY_EVERY: Final = timedelta(days=365)
ADDRESS_EVERY: Final = timedelta(days=90)
"""A webhook address is a shared secret with the vendor, so it has a vendor secret's rhythm."""
BEFORE_EXPIRY: Final = timedelta(days=14)
"""A certificate is due this long before it ends, as long as the offline certificates' overlap."""
NEXT: Final = "_next"
OVERLAP: Final = timedelta(days=7)
"""How long the old value stays valid beside the new one where a rotation names no other time (proposed)."""


def stored_name(field: str) -> str:
    """Returns the secret a field of the adapter holds a version of: `api_key` for `api_key` and `api_key_next`."""
    return field.removesuffix(NEXT)


def rule_of(manifest: VendorManifest, name: str) -> SecretRule:
    """Returns the rule of one secret."""
    return manifest.secret_rules.get(name, SecretRule())


def names_of(manifest: VendorManifest) -> tuple[str, ...]:
    """Returns the vendor's secrets, overlaps aside."""
    return tuple(name for name in manifest.secret_names if not name.endswith(NEXT))


def has_overlap(manifest: VendorManifest, name: str) -> bool:
    """Says whether the adapter can hold an old and a new value at once."""
    return f"{name}{NEXT}" in manifest.secret_names


def due_at(rule: SecretRule, value: str, made_at: datetime) -> datetime | None:
    """Returns when a value made at an instant must be replaced; None for never. A certificate ends early enough to be
    renewed."""
    ends = certificate_end(value)
    by_age = made_at + timedelta(days=rule.every_days) if rule.every_days else None
    by_end = ends - BEFORE_EXPIRY if ends else None
    return min((moment for moment in (by_age, by_end) if moment), default=None)


def certificate_end(value: str) -> datetime | None:
    """Returns when the first certificate in a PEM text ends; None where there is none that can be read."""
    if "-----BEGIN CERTIFICATE-----" not in value:
        return None
    try:
        return x509.load_pem_x509_certificate(value.encode()).not_valid_after_utc
    except ValueError:
        return None
