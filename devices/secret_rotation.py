"""Rotates an installation's vendor secrets with an overlap, and says what must be rotated until when.

For who decommissions a lock or closes a case: `make_due(tenant_id, installation_id, within, reason)` inside the tenant's block;
what is late then raises an alert by itself.

One rule: every stage is a row before it is an act, so a rotation may be killed anywhere and goes on at the next run. Stages:
staged (new values in the store, untried) → switched (in use; the old ones stay valid beside them where the adapter can hold
both) → dropped (old ones out of use) → retired (destroyed); or rolled_back (new ones out of use), over once they are destroyed.
No transaction is open while the store or the vendor is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import IntegrityError
from django.db.models import Q

from devices import adapters, secret_due, secret_fingerprints, selectors, webhooks_addresses
from devices.models import SecretRotation, VendorInstallation, WebhookAddress
from devices.secret_due import SECRET, WEBHOOK_ADDRESS
from devices.secret_rules import ADDRESS_EVERY, NEXT, OVERLAP, has_overlap, names_of, rule_of
from devices.secret_sealing import SealedInstallation
from lockservice.core import clock, tenancy
from lockservice.core.secret_store import SecretMissing, secret_store
from vendors.port.errors import LockError, Reason
from vendors.port.ids import new_id
from vendors.port.manifest import VendorManifest
from vendors.port.secrets import Token

STAGED, SWITCHED, DROPPED, RETIRED, ROLLED_BACK = "staged", "switched", "dropped", "retired", "rolled_back"
_GOES_ON: Final = Q(stage__in=[SWITCHED, DROPPED]) | Q(stage=ROLLED_BACK, ended_at__isnull=True)
SETTLE: Final = timedelta(minutes=1)
"""Between taking a value out of use and destroying it: other processes keep what they know of an installation for
seconds."""
INTERRUPTED_AFTER: Final = timedelta(minutes=2)
"""Writing a handful of values to the store takes seconds; whoever needs longer was killed."""
URGENT_WITHIN: Final = timedelta(hours=24)
"""Source: document 09 §13.2, credentials of a decommissioned device are rotated within 24 hours."""


class RotationRefused(Exception):
    """The rotation cannot be done as asked; nothing was changed. `code` is a stable word. Trying the same again makes no
    sense."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class RotationWaits(Exception):
    """The vendor gave no answer, so it is not known whether it takes the new values. They stay staged; run it again later."""


@dataclass(frozen=True, slots=True)
class Rotated:
    """How a rotation stands. `retire_at` is when the old values end, of one that was rolled back the new (real time)."""

    id: str
    stage: str
    names: tuple[str, ...]
    retire_at: datetime | None


def make_due(
    tenant_id: str,
    installation_id: str,
    within: timedelta = URGENT_WITHIN,
    reason: str = "decommissioned",
    detail: str = "",
    names: tuple[str, ...] = (),
) -> int:
    """Makes an installation's vendor secrets (or only `names`) and its webhook address due within a time; returns how many rows
    are due by then. Inside the tenant's block. `reason` is decommissioned, break_glass or manual; `detail` an id, never a
    secret.

    What is due earlier stays so. Repeating it changes nothing. Raises UnknownDevice.
    """
    row = _row(tenant_id, installation_id)
    now = clock.real_now()
    held = names or tuple(name for name in names_of(adapters.manifest(row.vendor)) if _is_rotated(row, name))
    count = secret_due.bring_forward(row, SECRET, held, now + within, reason, detail, now)
    if not names and WebhookAddress.objects.filter(tenant_id=tenant_id, installation_id=installation_id).exists():
        count += secret_due.bring_forward(row, WEBHOOK_ADDRESS, ("token",), now + within, reason, detail, now)
    return count


def rotate(
    tenant_id: str, installation_id: str, values: Mapping[str, Token], *, actor_id: str, overlap: timedelta = OVERLAP
) -> Rotated:
    """Puts new values in place of old: stages them, tries them at the vendor with its list of locks, and switches.

    No transaction may be open. Raises RotationRefused (unknown, missing or reused value, refused by the vendor, another
    rotation staged), RotationWaits, UnknownDevice, and StoreUnavailable before anything was changed.
    """
    rotation_id = stage(tenant_id, installation_id, values, actor_id=actor_id, overlap=overlap)
    return resume(tenant_id, rotation_id)


def stage(
    tenant_id: str, installation_id: str, values: Mapping[str, Token], *, actor_id: str, overlap: timedelta = OVERLAP
) -> str:
    """Writes new values to the store, untried; returns the rotation's id. No transaction may be open. Raises as `rotate`."""
    with tenancy.tenant(tenant_id):
        row = _row(tenant_id, installation_id)
        manifest = adapters.manifest(row.vendor)
        _check_names(row, manifest, values)
        rotation = _claim(row, manifest, values, actor_id, overlap)
        sealed = SealedInstallation.of(row)
    versions = {}
    try:
        for name, value in values.items():
            old = sealed.secret_versions.get(name, 0)
            versions[name] = [old, secret_store().add(sealed.name_of(name), value)]
    except Exception:
        rotation.versions = versions  # those that did get there are destroyed as any that were rolled back
        with tenancy.tenant(tenant_id):
            _give_up(rotation, "store")
        raise
    with tenancy.tenant(tenant_id):
        _, rotation = _locked(tenant_id, rotation.id)
        rotation.versions = versions
        if rotation.stage != STAGED:  # given up meanwhile, by hand or as interrupted: what was written since must go too
            rotation.ended_at, rotation.retire_at = None, clock.real_now()
        rotation.save(update_fields=["versions", "ended_at", "retire_at"])
    if rotation.stage != STAGED:
        _retire(tenant_id, rotation.id)
        raise RotationRefused("INTERRUPTED", "it was rolled back while its values were being stored; give them again")
    return rotation.id


def resume(tenant_id: str, rotation_id: str) -> Rotated:
    """Goes on with a staged rotation: tries the new values, then switches or rolls back. No transaction may be open.

    Raises RotationRefused, RotationWaits, StoreUnavailable.
    """
    with tenancy.tenant(tenant_id):
        rotation = _rotation(tenant_id, rotation_id)
        facts = selectors.installation(tenant_id, rotation.installation_id)
        sealed = SealedInstallation.of(_row(tenant_id, rotation.installation_id))
        adapters.vendor_clock().observe(clock.now())
    if rotation.stage != STAGED:
        return _told(rotation)
    if not rotation.versions:  # killed before the values were in the store: there is nothing to go on with
        _roll_back_staged(tenant_id, rotation, "interrupted")
        raise RotationRefused("INTERRUPTED", "the values had not reached the store; give them again")
    fresh = {name: secret_store().read(sealed.name_of(name), new) for name, (_, new) in rotation.versions.items()}
    port = adapters.port_with(sealed, facts, {**_unchanged(sealed, rotation), **fresh})
    try:
        port.list_devices(facts.property_id)
    except LockError as error:
        if error.reason is not Reason.SETTINGS or error.retriable:
            raise RotationWaits(f"{error.vendor} gave no answer ({error.reason.value})") from error
        _roll_back_staged(tenant_id, rotation, "refused")
        raise RotationRefused("VENDOR_REFUSED", "the vendor does not take the new values") from error
    return _switch(tenant_id, rotation_id, fresh, _gone(sealed, rotation))


def rotate_address(tenant_id: str, installation_id: str, overlap: timedelta = webhooks_addresses.OVERLAP) -> Token:
    """Makes a new token of the webhook address, the first one too; the one before is taken until the overlap is over. Somebody
    has to type the new address at the vendor's portal. Inside the tenant's block. Raises UnknownDevice.
    """
    row = _row(tenant_id, installation_id)
    token = webhooks_addresses.rotate(tenant_id, installation_id, overlap)
    now = clock.real_now()
    secret_due.close(row, WEBHOOK_ADDRESS, ("token",), now)
    secret_due.bring_forward(row, WEBHOOK_ADDRESS, ("token",), now + ADDRESS_EVERY, secret_due.CADENCE, "", now)
    return token


def roll_back(tenant_id: str, installation_id: str) -> Rotated:
    """Puts the old values back while they are still valid, or drops staged ones. No transaction may be open.

    New values that were in use are destroyed by the first `retire_due` after SETTLE: other processes may still read them.
    Raises RotationRefused when there is nothing to go back to.
    """
    with tenancy.tenant(tenant_id):
        rows = SecretRotation.objects.filter(tenant_id=tenant_id, installation_id=installation_id, stage__in=[STAGED, SWITCHED])
        rotation = rows.order_by("-started_at").first()
    if rotation is None:
        raise RotationRefused("NOTHING_TO_ROLL_BACK", "no rotation is staged or in its overlap")
    if rotation.stage == STAGED:
        return _roll_back_staged(tenant_id, rotation, "by hand")
    with tenancy.tenant(tenant_id):
        row, rotation = _locked(tenant_id, rotation.id)
        if rotation.stage != SWITCHED or any(not old for old, _ in rotation.versions.values()):
            raise RotationRefused("NOTHING_TO_ROLL_BACK", "the old values are gone")
        for name, (old, _new) in rotation.versions.items():
            _use(row, name, old, beside=0)
        _save(row)
        now = clock.real_now()
        _take_back(rotation, "by hand", now + SETTLE)
        closed_at = rotation.switched_at or now
        secret_due.reopen(row, SECRET, rotation.versions, closed_at, now + URGENT_WITHIN, rotation.id, now)
    selectors.forget()
    return _told(rotation)


def retire_due(tenant_id: str, installation_id: str = "") -> int:
    """Ends overlaps whose time is over, in two passes a minute apart: out of use, then destroyed; destroys what was rolled
    back. Returns how many moved on.

    No transaction may be open; safe to repeat. Raises StoreUnavailable.
    """
    with tenancy.tenant(tenant_id):
        rows = SecretRotation.objects.filter(_GOES_ON, tenant_id=tenant_id, retire_at__lte=clock.real_now())
        if installation_id:
            rows = rows.filter(installation_id=installation_id)
        due = list(rows.values_list("id", "stage").order_by("retire_at"))
    for rotation_id, stage_now in due:
        _drop(tenant_id, rotation_id) if stage_now == SWITCHED else _retire(tenant_id, rotation_id)
    return len(due)


def open_rotations(tenant_id: str) -> list[SecretRotation]:
    """Returns a tenant's rotations that are not over, oldest first. Inside the tenant's block."""
    rows = SecretRotation.objects.filter(Q(stage=STAGED) | _GOES_ON, tenant_id=tenant_id)
    return list(rows.order_by("started_at"))


def _check_names(row: VendorInstallation, manifest: VendorManifest, values: Mapping[str, Token]) -> None:
    known = names_of(manifest)
    if not values:
        raise RotationRefused("NO_VALUE", f"name a secret and give its new value; {row.vendor} has {', '.join(known)}")
    for name, value in values.items():
        if name not in known:
            raise RotationRefused("UNKNOWN_SECRET", f"{row.vendor} has no secret {name}; it has {', '.join(known)}")
        if not value.reveal().strip():
            raise RotationRefused("EMPTY_VALUE", f"{name} is empty")
        partner = rule_of(manifest, name).with_name
        if partner and partner not in values:
            raise RotationRefused("PARTNER_MISSING", f"{name} changes together with {partner}")


def _claim(
    row: VendorInstallation, manifest: VendorManifest, values: Mapping[str, Token], actor_id: str, overlap: timedelta
) -> SecretRotation:
    now = clock.real_now()
    rotation = SecretRotation(
        id=new_id("srt"), tenant_id=row.tenant_id, installation_id=row.id, stage=STAGED, versions={},
        overlap_s=max(0, int(overlap.total_seconds())), actor_id=actor_id[:64], started_at=now,
    )  # fmt: skip
    _forget_interrupted(row, now)
    try:
        new = secret_fingerprints.claim(manifest, row.tenant_id, row.property_id, values, now, rotation.id)
    except secret_fingerprints.SecretReused as error:
        raise RotationRefused("SECRET_REUSED", str(error)) from error
    used = [name for name in values if rule_of(manifest, name).is_secret and name not in new]
    if used:
        raise RotationRefused("SECRET_REUSED", f"{used[0]}: this value was used here before; a rotation needs a new one")
    try:
        rotation.save(force_insert=True)
    except IntegrityError as error:
        detail = "another rotation of this installation is staged; run rotate_secrets to go on, or roll it back"
        raise RotationRefused("ROTATION_STAGED", detail) from error
    return rotation


def _forget_interrupted(row: VendorInstallation, now: datetime) -> None:
    """A rotation that was killed before its values were in the store has nothing to go on with."""
    stuck = SecretRotation.objects.filter(
        tenant_id=row.tenant_id, installation_id=row.id, stage=STAGED, versions={}, started_at__lt=now - INTERRUPTED_AFTER
    )
    for rotation in stuck:
        _give_up(rotation, "interrupted")


def _unchanged(sealed: SealedInstallation, rotation: SecretRotation) -> dict[str, Token]:
    """Reads the values that stay as they are; not those that are replaced, which may be gone from the store."""
    names = [name for name in sealed.secret_versions if not name.endswith(NEXT) and name not in rotation.versions]
    held = {name: secret_store().read(sealed.name_of(name), sealed.secret_versions[name]) for name in names}
    return {**sealed.old_secrets(), **held}


def _gone(sealed: SealedInstallation, rotation: SecretRotation) -> frozenset[str]:
    """Returns the names whose old value the store has no more: it cannot stand beside the new one, nor be gone back to."""
    gone = set()
    for name in rotation.versions:
        old = sealed.secret_versions.get(name, 0)
        try:
            if old:
                secret_store().read(sealed.name_of(name), old)
        except SecretMissing:
            gone.add(name)
    return frozenset(gone)


def _switch(tenant_id: str, rotation_id: str, fresh: Mapping[str, Token], gone: frozenset[str]) -> Rotated:
    with tenancy.tenant(tenant_id):
        row, rotation = _locked(tenant_id, rotation_id)
        if rotation.stage != STAGED:
            return _told(rotation)
        now = clock.real_now()
        manifest = adapters.manifest(row.vendor)
        overlap = _overlap(row, rotation, now)
        # The old one is what is in use now: since the new one was staged, a rotation before it may have been rolled back.
        in_use = {name: 0 if name in gone else row.secret_versions.get(name, 0) for name in rotation.versions}
        rotation.versions = {name: [in_use[name], new] for name, (_, new) in rotation.versions.items()}
        for name, (old, new) in rotation.versions.items():
            _use(row, name, new, beside=old if overlap and has_overlap(manifest, name) else 0)
        _save(row)
        _cut_short(rotation, now)
        rotation.stage, rotation.switched_at, rotation.retire_at = SWITCHED, now, now + overlap
        rotation.save(update_fields=["stage", "switched_at", "retire_at", "versions"])
        secret_due.note_next(row, manifest, fresh, now)
    selectors.forget()
    return _told(rotation)


def _overlap(row: VendorInstallation, rotation: SecretRotation, now: datetime) -> timedelta:
    """Returns how long the old values stay beside the new: as asked, but no longer than one that may be in the wrong hands
    has."""
    asked = timedelta(seconds=rotation.overlap_s)
    until = secret_due.urgent_until(row, SECRET, rotation.versions)
    return asked if until is None else max(timedelta(0), min(asked, until - now))


def _cut_short(rotation: SecretRotation, now: datetime) -> None:
    """An earlier overlap of the same secrets ends here: the place beside the new value is taken by the value just replaced.
    What else changed in that rotation goes on as one of its own, to the end it was given."""
    earlier = SecretRotation.objects.filter(
        tenant_id=rotation.tenant_id, installation_id=rotation.installation_id, stage=SWITCHED
    ).exclude(id=rotation.id)
    for other in earlier:
        rest = {name: pair for name, pair in other.versions.items() if name not in rotation.versions}
        if len(rest) == len(other.versions):
            continue
        if rest:
            SecretRotation.objects.create(
                id=new_id("srt"), tenant_id=other.tenant_id, installation_id=other.installation_id, stage=SWITCHED,
                versions=rest, overlap_s=other.overlap_s, actor_id=other.actor_id, started_at=other.started_at,
                switched_at=other.switched_at, retire_at=other.retire_at,
            )  # fmt: skip
        other.versions = {name: pair for name, pair in other.versions.items() if name not in rest}
        other.stage, other.retire_at = DROPPED, now + SETTLE
        other.save(update_fields=["stage", "retire_at", "versions"])


def _drop(tenant_id: str, rotation_id: str) -> None:
    with tenancy.tenant(tenant_id):
        row, rotation = _locked(tenant_id, rotation_id)
        if rotation.stage != SWITCHED:
            return
        for name, (old, _new) in rotation.versions.items():
            if row.secret_versions.get(f"{name}{NEXT}") == old:
                del row.secret_versions[f"{name}{NEXT}"]
        _save(row)
        rotation.stage, rotation.retire_at = DROPPED, clock.real_now() + SETTLE
        rotation.save(update_fields=["stage", "retire_at"])
    selectors.forget()


def _retire(tenant_id: str, rotation_id: str) -> None:
    with tenancy.tenant(tenant_id):
        row, rotation = _locked(tenant_id, rotation_id)
        sealed = SealedInstallation.of(row)
    if rotation.ended_at is not None or rotation.stage not in (DROPPED, ROLLED_BACK):
        return
    index = 0 if rotation.stage == DROPPED else 1
    gone = {name: pair[index] for name, pair in rotation.versions.items()}
    _destroy(sealed, {name: version for name, version in gone.items() if version and not _is_used(sealed, name, version)})
    with tenancy.tenant(tenant_id):
        _end(rotation, RETIRED if rotation.stage == DROPPED else ROLLED_BACK)


def _is_used(sealed: SealedInstallation, name: str, version: int) -> bool:
    return version in (sealed.secret_versions.get(name), sealed.secret_versions.get(f"{name}{NEXT}"))


def _roll_back_staged(tenant_id: str, rotation: SecretRotation, why: str) -> Rotated:
    with tenancy.tenant(tenant_id):
        _, rotation = _locked(tenant_id, rotation.id)
        if rotation.stage != STAGED:
            return _told(rotation)
        _give_up(rotation, why)
    _retire(tenant_id, rotation.id)  # nobody used them, so nobody is waited for; if killed here, the next run does it
    return _told(rotation)


def _give_up(rotation: SecretRotation, why: str) -> None:
    """Values that never opened anything may be given again, here or elsewhere."""
    secret_fingerprints.release(rotation.tenant_id, rotation.id)
    _take_back(rotation, why, clock.real_now())


def _take_back(rotation: SecretRotation, why: str, destroy_at: datetime) -> None:
    """The new values are out of use; the rotation is over once they are destroyed."""
    rotation.stage, rotation.retire_at, rotation.error = ROLLED_BACK, destroy_at, why[:60]
    rotation.save(update_fields=["stage", "retire_at", "error", "versions"])


def _end(rotation: SecretRotation, stage_now: str) -> None:
    rotation.stage, rotation.ended_at = stage_now, clock.real_now()
    rotation.save(update_fields=["stage", "ended_at"])


def _destroy(sealed: SealedInstallation, versions: Mapping[str, int]) -> None:
    for name, version in versions.items():
        secret_store().destroy(sealed.name_of(name), version)


def _use(row: VendorInstallation, name: str, version: int, *, beside: int) -> None:
    versions = dict(row.secret_versions)
    versions[name] = version
    versions.pop(f"{name}{NEXT}", None)
    if beside:
        versions[f"{name}{NEXT}"] = beside
    row.secret_versions = versions


def _save(row: VendorInstallation) -> None:
    row.version += 1
    row.save(update_fields=["secret_versions", "version"])


def _is_rotated(row: VendorInstallation, name: str) -> bool:
    rule = rule_of(adapters.manifest(row.vendor), name)
    return name in (row.secret_versions or {}) and (rule.is_secret or bool(rule.with_name))


def _row(tenant_id: str, installation_id: str) -> VendorInstallation:
    row = VendorInstallation.objects.filter(tenant_id=tenant_id, id=installation_id).first()
    if row is None:
        raise selectors.UnknownDevice(installation_id)
    return row


def _rotation(tenant_id: str, rotation_id: str) -> SecretRotation:
    row = SecretRotation.objects.filter(tenant_id=tenant_id, id=rotation_id).first()
    if row is None:
        raise RotationRefused("NO_SUCH_ROTATION", "no such rotation in this tenant")
    return row


def _locked(tenant_id: str, rotation_id: str) -> tuple[VendorInstallation, SecretRotation]:
    """Locks the installation, then the rotation."""
    installation_id = _rotation(tenant_id, rotation_id).installation_id
    row = VendorInstallation.objects.select_for_update().get(tenant_id=tenant_id, id=installation_id)
    return row, SecretRotation.objects.select_for_update().get(tenant_id=tenant_id, id=rotation_id)


def _told(rotation: SecretRotation) -> Rotated:
    return Rotated(rotation.id, rotation.stage, tuple(sorted(rotation.versions)), rotation.retire_at)
