"""What keeps keys and secrets in order without anybody: old rows brought up, data keys wrapped anew and renewed, overlaps
ended, staged rotations gone on with, ended break-glass requests closed, late rows told.

One rule: one installation at a time, each step a transaction of its own and safe to repeat; an installation whose key service,
store or vendor does not answer, or that cannot be handled at all, is noted and left for the next run, and the others go on.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import structlog
from django.db import connection
from django.db.models.functions import Now

from devices import adapters, break_glass, secret_due, secret_fingerprints, secret_rotation, secret_sealing, selectors
from devices.models import SecretRotation, VendorInstallation, WebhookAddress
from devices.secret_due import DATA_KEY
from devices.secret_rotation import RotationRefused, RotationWaits
from devices.secret_sealing import SealedInstallation
from lockservice.core import clock, tenancy
from lockservice.core.crypto import SealBroken
from lockservice.core.kms import KeyUnavailable
from lockservice.core.outage import is_outage
from lockservice.core.secret_store import SecretMissing, StoreUnavailable
from vendors.port.errors import LockError

log = structlog.get_logger(__name__)

JOB: Final = "rotate-secrets"
MAX_S: Final = 60.0
"""How long one hourly run begins with further installations; below a task's time limit with a slow vendor at the end."""
_LEFT: Final = (StoreUnavailable, KeyUnavailable, SecretMissing, SealBroken, RotationRefused, RotationWaits, LockError)


@dataclass(frozen=True, slots=True)
class Place:
    """One installation to look at."""

    tenant_id: str
    installation_id: str


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, or with a dry run would be done, at one installation; `problem` is why something was left."""

    place: Place
    steps: tuple[str, ...]
    problem: str = ""


def places(tenant_id: str = "", installation_id: str = "") -> list[Place]:
    """Returns the installations of all tenants, or of one, or one. Opens a queue block, so workers only."""
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT tenant_id, installation_id FROM devices_healthpoll WHERE (%s = '' OR tenant_id = %s)"
            " AND (%s = '' OR installation_id = %s) ORDER BY 1, 2",
            [tenant_id, tenant_id, installation_id, installation_id],
        )
        return [Place(*row) for row in cursor.fetchall()]


def keep(found: list[Place], *, dry_run: bool = False) -> Iterator[Done]:
    """Looks at each installation and does what is due; yields what was done at each. Safe to stop between two and to repeat."""
    for place in found:
        yield _keep_one(place, dry_run=dry_run)


def run_hourly() -> int:
    """Does all of it once an hour, whoever schedules it; returns how many installations something was done at, or left."""
    with tenancy.queues(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO sagas_jobslot (job, slot, taken_at)"
            " SELECT %s, to_char(real.now, 'YYYY-MM-DD HH24'), real.now FROM (SELECT clock_timestamp() AS now) real"
            " ON CONFLICT DO NOTHING",
            [JOB],
        )
        if cursor.rowcount == 0:
            return 0
    found = places()
    # In another order every hour: what the time did not suffice for is reached by a later run.
    random.SystemRandom().shuffle(found)
    ends, count = time.monotonic() + MAX_S, 0
    for done in keep(found):
        count += bool(done.steps or done.problem)
        if time.monotonic() > ends:
            log.warning("secrets.time_over", installations=len(found))
            break
    finish()
    return count


def finish() -> tuple[int, int]:
    """Closes break-glass requests whose time is over and tells of what is late; returns how many of each."""
    return break_glass.close_expired(), secret_due.tell_late()


def _keep_one(place: Place, *, dry_run: bool) -> Done:
    steps: list[str] = []
    problem = ""
    for step in (_bring_up, _renew_data_key, _wrap_anew, _go_on, _retire):
        try:
            steps += step(place, dry_run)
        except _LEFT as error:
            problem = f"{step.__name__.strip('_')}: {type(error).__name__}: {error}"
            log.warning("secrets.left", installation=place.installation_id, problem=problem)
        except Exception as error:  # one installation that we cannot handle must not stop its neighbours
            if is_outage(error):
                raise
            problem = f"{step.__name__.strip('_')}: {type(error).__name__}"
            log.exception("secrets.bug", installation=place.installation_id, step=step.__name__)
    return Done(place, tuple(steps), problem)


def _bring_up(place: Place, dry_run: bool) -> list[str]:
    """Seals a row from before under a data key of its own, with its secrets in the store."""
    with tenancy.tenant(place.tenant_id):
        row = _row(place)
        if row is not None and not dry_run:
            address = WebhookAddress.objects.filter(tenant_id=place.tenant_id, installation_id=row.id).first()
            if address is not None:
                secret_due.note_address(row, address.rotated_at, clock.real_now())
            else:  # an address that was taken away needs no successor
                secret_due.close(row, secret_due.WEBHOOK_ADDRESS, ("token",), clock.real_now())
        if row is None or not secret_sealing.is_old(row):
            return []
        if dry_run:
            return ["would be brought up to data key and store"]
        sealed, version = SealedInstallation.of(row), row.version
        manifest = adapters.manifest(row.vendor)
        secrets = sealed.old_secrets()
        key_name = secret_sealing.own_key_of(place.tenant_id)
        try:
            fresh = secret_sealing.claim(row, manifest, secrets)
        except secret_fingerprints.SecretReused as error:
            raise RotationRefused("SECRET_REUSED", str(error)) from error
    # What was rotated meanwhile is in the store already, and counts; the row still has the value of before.
    held = sealed.held_secrets().values()
    secrets |= held
    fresh = tuple(name for name in fresh if name not in held)
    changed = secret_sealing.put(row, secrets, fresh, sealed.settings(), key_name)
    if not _save(place, row, version, lambda: secret_sealing.record(row, manifest, {name: secrets[name] for name in changed})):
        return []
    return [f"brought up: {len(changed)} secrets to the store"]


def _renew_data_key(place: Place, dry_run: bool) -> list[str]:
    with tenancy.tenant(place.tenant_id):
        row = _row(place)
        now = clock.real_now()
        lines = secret_due.listed(place.tenant_id, now, place.installation_id)
        if row is None or not any(line.kind == DATA_KEY and line.due_at <= now for line in lines):
            return []
        if dry_run:
            return ["would get a new data key"]
        sealed, version = SealedInstallation.of(row), row.version
        key_name = secret_sealing.own_key_of(place.tenant_id)
    secret_sealing.reseal_settings(row, sealed.settings(), key_name)
    if not _save(place, row, version, lambda: secret_due.note_data_key(row, clock.real_now())):
        return []
    return ["new data key"]


def _wrap_anew(place: Place, dry_run: bool) -> list[str]:
    """Brings the wrapped key under the present key-encryption key; the settings' bytes stay as they are."""
    with tenancy.tenant(place.tenant_id):
        row = _row(place)
        if row is None:
            return []
        sealed, version, now = SealedInstallation.of(row), row.version, clock.real_now()
        key_name = secret_sealing.own_key_of(place.tenant_id)
    old = sealed.data_key
    if old is None or not secret_sealing.needs_wrapping(old, key_name, row.data_key_wrapped_at, now):
        return []
    if dry_run:
        return ["would be wrapped anew"]
    wrapped = secret_sealing.rewrapped(sealed, old, key_name)
    with tenancy.tenant(place.tenant_id):
        # The version stays: nothing an adapter is built from has changed.
        count = VendorInstallation.objects.filter(
            tenant_id=place.tenant_id, id=place.installation_id, version=version, data_key_wrapped=old.wrapped
        ).update(data_key_wrapped=wrapped.wrapped, data_key_name=wrapped.key_name, data_key_wrapped_at=now)
    return ["wrapped anew"] if count else []


def _go_on(place: Place, dry_run: bool) -> list[str]:
    with tenancy.tenant(place.tenant_id):
        rows = SecretRotation.objects.filter(
            tenant_id=place.tenant_id, installation_id=place.installation_id, stage=secret_rotation.STAGED
        ).exclude(versions={})
        staged = list(rows.values_list("id", flat=True))
    if dry_run:
        return ["would go on with a staged rotation"] * len(staged)
    return [f"rotation {secret_rotation.resume(place.tenant_id, rotation_id).stage}" for rotation_id in staged]


def _retire(place: Place, dry_run: bool) -> list[str]:
    if dry_run:
        with tenancy.tenant(place.tenant_id):
            now = clock.real_now()
            open_rows = [
                row for row in secret_rotation.open_rotations(place.tenant_id) if row.retire_at and row.retire_at <= now
            ]
            return ["would end an overlap" for row in open_rows if row.installation_id == place.installation_id]
    count = secret_rotation.retire_due(place.tenant_id, place.installation_id)
    return [f"overlaps moved on: {count}"] if count else []


def _save(place: Place, row: VendorInstallation, version: int, note: Callable[[], None]) -> bool:
    """Writes what sealing changed and notes what is due next, in one transaction, unless somebody else was at the row
    meanwhile; the next run looks again then."""
    with tenancy.tenant(place.tenant_id):
        count = VendorInstallation.objects.filter(
            tenant_id=place.tenant_id, id=place.installation_id, version=version
        ).update(
            settings_sealed=row.settings_sealed, secrets_sealed=row.secrets_sealed, secret_versions=row.secret_versions,
            data_key_wrapped=row.data_key_wrapped, data_key_name=row.data_key_name, data_key_made_at=Now(),
            data_key_wrapped_at=Now(), version=version + 1,
        )  # fmt: skip
        if count:
            note()
    selectors.forget()
    return bool(count)


def _row(place: Place) -> VendorInstallation | None:
    return VendorInstallation.objects.filter(tenant_id=place.tenant_id, id=place.installation_id).first()
