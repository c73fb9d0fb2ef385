"""How an installation's settings and secrets lie at rest: settings under the row's own data key, secrets in the store.

One rule: the row holds wrapped keys, sealed settings, names and versions; a secret's value is never in it. Rows from before are
read as they are and brought up when they are sealed next.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from devices import secret_due, secret_fingerprints
from devices.models import VendorInstallation
from devices.secret_rules import names_of, stored_name
from lockservice.core import clock, crypto, crypto_envelope, tenancy
from lockservice.core.crypto_envelope import DataKey, WrappedKey
from lockservice.core.kms import key_name_for, key_wrapper
from lockservice.core.places import Tenant
from lockservice.core.secret_cache import HeldSecrets
from lockservice.core.secret_store import SecretMissing, SecretName, secret_store
from vendors.port.manifest import VendorManifest
from vendors.port.secrets import Token

PURPOSE = "lock-config"
TABLE = "devices_vendorinstallation"
SETTINGS = "settings_sealed"
SECRETS = "secrets_sealed"
WRAP_EVERY: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class SealedInstallation:
    """What of a row is needed to open it, without the row: opening may call the key service and the store, so it happens where
    no transaction is open."""

    tenant_id: str
    property_id: str
    installation_id: str
    settings_sealed: bytes = field(repr=False)
    secrets_sealed: bytes | None = field(repr=False)
    data_key: WrappedKey | None
    secret_versions: Mapping[str, int]

    @classmethod
    def of(cls, row: VendorInstallation) -> SealedInstallation:
        """Reads a row."""
        wrapped = WrappedKey(row.data_key_name, bytes(row.data_key_wrapped)) if row.data_key_wrapped else None
        return cls(
            tenant_id=row.tenant_id,
            property_id=row.property_id,
            installation_id=row.id,
            settings_sealed=bytes(row.settings_sealed),
            secrets_sealed=bytes(row.secrets_sealed) if row.secrets_sealed else None,
            data_key=wrapped,
            secret_versions=dict(row.secret_versions or {}),
        )

    def settings(self) -> dict[str, object]:
        """Opens the settings. Raises KeyUnavailable, SealBroken."""
        place = self._place(SETTINGS)
        if crypto_envelope.is_envelope(self.settings_sealed) and self.data_key is not None:
            key = crypto_envelope.unwrap(key_wrapper(), self.data_key, self.tenant_id, place)
            opened = crypto_envelope.unseal(key, PURPOSE, self.tenant_id, place, self.settings_sealed)
        else:
            opened = crypto.unseal(PURPOSE, self.tenant_id, place, self.settings_sealed)
        found: dict[str, object] = json.loads(opened)
        return found

    def held_secrets(self) -> HeldSecrets:
        """Returns the secrets as this process is to hold them; reads none yet."""
        wanted = {name: (self.name_of(name), version) for name, version in self.secret_versions.items()}
        return HeldSecrets(wanted, secret_store)

    def old_secrets(self) -> dict[str, Token]:
        """Opens secrets that are still in the row. Raises SealBroken."""
        if self.secrets_sealed is None:
            return {}
        opened = crypto.unseal(PURPOSE, self.tenant_id, self._place(SECRETS), self.secrets_sealed)
        return {name: Token(value) for name, value in json.loads(opened).items()}

    def name_of(self, secret: str) -> SecretName:
        """Returns where the store keeps a field's value."""
        return SecretName(self.tenant_id, self.property_id, self.installation_id, stored_name(secret))

    def _place(self, column: str) -> tuple[str, str, str]:
        return (TABLE, self.installation_id, column)


def seal(row: VendorInstallation, manifest: VendorManifest, settings: Mapping[str, object], secrets: Mapping[str, str]) -> None:
    """Seals settings into the row, puts the secrets that changed into the store, and saves the row under its next version: the
    three steps below at once. Opens blocks of its own; none may be open, for the second step waits for disks or leaves this
    machine, longer than the database lets a transaction idle.

    Raises SecretReused, ValueError for names the vendor does not know, KeyUnavailable, StoreUnavailable; claims of the row's
    own property then stay. Raises RuntimeError inside a tenant's block.
    """
    if tenancy.current_tenant() is not None:
        raise RuntimeError("a transaction is open; sealing may take longer than it is given")
    values = {name: Token(value) for name, value in secrets.items()}
    with tenancy.tenant(row.tenant_id):
        fresh, key_name = claim(row, manifest, values), own_key_of(row.tenant_id)
    changed = put(row, values, fresh, settings, key_name)
    with tenancy.tenant(row.tenant_id):
        record(row, manifest, {name: values[name] for name in changed})
        row.version += 0 if row._state.adding else 1
        row.save()


def claim(row: VendorInstallation, manifest: VendorManifest, secrets: Mapping[str, Token]) -> tuple[str, ...]:
    """Checks names and claims the values for the row's property; returns the names whose value was not known here. Inside the
    tenant's block; the first of three steps. Raises SecretReused, ValueError.
    """
    unknown = sorted(set(secrets) - set(manifest.secret_names))
    if unknown:
        raise ValueError(f"{manifest.code} knows no secret {unknown[0]}")
    return secret_fingerprints.claim(manifest, row.tenant_id, row.property_id, secrets, clock.real_now())


def put(
    row: VendorInstallation, secrets: Mapping[str, Token], fresh: Collection[str], settings: Mapping[str, object], key_name: str
) -> tuple[str, ...]:
    """Writes changed values to the store and seals the settings under a new data key; sets the row's fields (not saved) and
    returns the names that changed. May call key service and store; touches no database. The second step.
    """
    same = _same(row, {name: value for name, value in secrets.items() if name not in fresh})
    changed = tuple(name for name in secrets if name not in same)
    place = (TABLE, row.id, SETTINGS)
    key, wrapped = crypto_envelope.new_data_key(key_wrapper(), key_name, row.tenant_id, place)
    versions = {name: version for name, version in (row.secret_versions or {}).items() if name in secrets}
    row.secret_versions = versions  # from here on, so that whoever catches an error knows what got there
    for name in changed:
        where = SecretName(row.tenant_id, row.property_id, row.id, stored_name(name))
        versions[name] = secret_store().add(where, secrets[name])
    _set_settings(row, key, wrapped, settings)
    row.secrets_sealed = None
    return changed


def record(row: VendorInstallation, manifest: VendorManifest, changed: Mapping[str, Token]) -> None:
    """Writes when what was put is due for rotation. Inside the tenant's block, with the row's save; the last step."""
    now = clock.real_now()
    own = names_of(manifest)
    secret_due.note_next(row, manifest, {name: value for name, value in changed.items() if name in own}, now)
    secret_due.note_data_key(row, now)
    row.data_key_made_at = row.data_key_wrapped_at = now


def reseal_settings(row: VendorInstallation, settings: Mapping[str, object], key_name: str) -> None:
    """Seals the settings under a new data key (row not saved). May call the key service; touches no database."""
    key, wrapped = crypto_envelope.new_data_key(key_wrapper(), key_name, row.tenant_id, (TABLE, row.id, SETTINGS))
    _set_settings(row, key, wrapped, settings)


def needs_wrapping(old: WrappedKey, key_name: str, wrapped_at: datetime | None, now: datetime) -> bool:
    """Says whether a wrapped key is due to be wrapped anew: another key-encryption key, or another version of it. Where only
    the key service knows its version, once in WRAP_EVERY, so that no data key hangs on a version that is long replaced.
    """
    if old.key_name != key_name:
        return True
    is_current = key_wrapper().is_current(key_name, old.wrapped)
    if is_current is not None:
        return not is_current
    return wrapped_at is None or now - wrapped_at >= WRAP_EVERY


def rewrapped(sealed: SealedInstallation, old: WrappedKey, key_name: str) -> WrappedKey:
    """Wraps the same data key under the present version of a key-encryption key; what it sealed stays as it is.

    May call the key service. Raises KeyUnavailable, SealBroken.
    """
    place = (TABLE, sealed.installation_id, SETTINGS)
    return crypto_envelope.rewrap(key_wrapper(), old, key_name, sealed.tenant_id, place)


def own_key_of(tenant_id: str) -> str:
    """Returns the name of the key-encryption key for a tenant's settings. Inside the tenant's block."""
    configured = Tenant.objects.filter(tenant_id=tenant_id).values_list("config_key_name", flat=True).first()
    return key_name_for(configured or "")


def is_old(row: VendorInstallation) -> bool:
    """Says whether settings or secrets lie as they did before data keys and the store."""
    return bool(row.secrets_sealed) or not crypto_envelope.is_envelope(row.settings_sealed)


def _set_settings(row: VendorInstallation, key: DataKey, wrapped: WrappedKey, settings: Mapping[str, object]) -> None:
    place = (TABLE, row.id, SETTINGS)
    row.settings_sealed = crypto_envelope.seal(key, PURPOSE, row.tenant_id, place, json.dumps(dict(settings)))
    row.data_key_wrapped, row.data_key_name = wrapped.wrapped, wrapped.key_name


def _same(row: VendorInstallation, secrets: Mapping[str, Token]) -> set[str]:
    """Returns the names whose value the store has under the row's version already."""
    known = {name: value for name, value in secrets.items() if name in (row.secret_versions or {})}
    if not known:
        return set()
    sealed = SealedInstallation.of(row)
    return {name for name, value in known.items() if _stored(sealed, name) == value}


def _stored(sealed: SealedInstallation, name: str) -> Token | None:
    try:
        return secret_store().read(sealed.name_of(name), sealed.secret_versions[name])
    except SecretMissing:
        return None
