"""Break-glass: one vendor secret of one installation, shown once to one person, for a named incident, after two others agreed.

One rule: nobody has standing access; a request ends by itself, every step is an appended row, and a value that was shown is due
for rotation from the moment it was shown. Source: document 09 §13.1 (incident, dual approval, rotated on close-out); it names
no times, so these are ours. Times are real.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from django.db import IntegrityError, transaction

from devices import adapters, secret_rotation
from devices.models import BreakGlass, BreakGlassStep, VendorInstallation
from devices.secret_rules import names_of
from devices.secret_sealing import SealedInstallation
from lockservice.core import clock, tenancy
from lockservice.core.crypto import SealBroken
from lockservice.core.secret_store import SecretMissing, StoreUnavailable, secret_store
from sagas.alerts import NewAlert, raise_alerts
from vendors.port.ids import new_id
from vendors.port.secrets import Token

OPEN_FOR: Final = timedelta(hours=4)
"""From request to end, whatever came of it: an incident that lasts longer asks again."""
REVEAL_WITHIN: Final = timedelta(hours=1)
"""From the second approval until the value must have been looked at."""
ROTATE_WITHIN: Final = timedelta(hours=24)
"""From the end of the request; as fast as for a decommissioned device (§13.2)."""
APPROVALS: Final = 2
RUNBOOK: Final = "lock/break-glass"
REQUESTED, APPROVED, REVEALED, CLOSED, EXPIRED, REFUSED = "requested", "approved", "revealed", "closed", "expired", "refused"
OPEN: Final = (REQUESTED, APPROVED, REVEALED)
_INCIDENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/#-]{2,63}")


class BreakGlassRefused(Exception):
    """What was asked is not possible; nothing was changed but what the text says. `code` is the API's code without its
    prefix."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def ask(tenant_id: str, installation_id: str, secret_name: str, *, incident: str, reason: str, actor_id: str) -> BreakGlass:
    """Opens a request. Own transaction. Raises BreakGlassRefused (NOT_FOUND, VALIDATION_FAILED, TRANSITION_REFUSED when one for
    the same secret is open)."""
    if not _INCIDENT.fullmatch(incident):
        raise BreakGlassRefused("VALIDATION_FAILED", "an incident is named by 3 to 64 letters, digits and ._/#-")
    if len(reason.strip()) < 10:
        raise BreakGlassRefused("VALIDATION_FAILED", "the reason needs at least ten characters")
    with tenancy.tenant(tenant_id):
        installation = VendorInstallation.objects.select_for_update().filter(tenant_id=tenant_id, id=installation_id).first()
        if installation is None:
            raise BreakGlassRefused("NOT_FOUND", "no such lock system")
        if secret_name not in held_names(installation):
            raise BreakGlassRefused("VALIDATION_FAILED", f"this lock system holds no secret {secret_name[:40]}")
        now = clock.real_now()
        rows = BreakGlass.objects.filter(tenant_id=tenant_id, installation_id=installation_id, secret_name=secret_name)
        if rows.filter(state__in=OPEN, expires_at__gt=now).exists():
            raise BreakGlassRefused("TRANSITION_REFUSED", "a request for this secret is open already")
        row = BreakGlass.objects.create(
            id=new_id("bgl"), tenant_id=tenant_id, property_id=installation.property_id, installation_id=installation_id,
            secret_name=secret_name, incident=incident, reason=reason.strip()[:200], requested_by=actor_id, requested_at=now,
            expires_at=now + OPEN_FOR,
        )  # fmt: skip
        _note(row, REQUESTED, actor_id, now, incident)
        _tell(row, "BREAK_GLASS_REQUESTED", "warning", "somebody asks to see a vendor secret; two others must agree")
    return row


def approve(tenant_id: str, request_id: str, *, actor_id: str) -> BreakGlass:
    """Agrees; the second agreement by another person lets the requester look. Own transaction.

    Raises BreakGlassRefused (NOT_FOUND; TRANSITION_REFUSED for the requester herself, a person who agreed already, or a request
    that is over).
    """
    with tenancy.tenant(tenant_id):
        row, now = _live(tenant_id, request_id, (REQUESTED,))
        if actor_id == row.requested_by:
            raise BreakGlassRefused("TRANSITION_REFUSED", "who asks cannot agree")
        try:
            with transaction.atomic():
                _note(row, APPROVED, actor_id, now)
        except IntegrityError as error:
            raise BreakGlassRefused("TRANSITION_REFUSED", "this person has agreed already") from error
        if len(approvers(row)) >= APPROVALS:
            row.state, row.expires_at = APPROVED, min(row.expires_at, now + REVEAL_WITHIN)
            row.save(update_fields=["state", "expires_at"])
    return row


def refuse(tenant_id: str, request_id: str, *, actor_id: str, reason: str) -> BreakGlass:
    """Ends a request that was not looked at yet. Own transaction. Raises BreakGlassRefused (NOT_FOUND, TRANSITION_REFUSED)."""
    with tenancy.tenant(tenant_id):
        row, now = _live(tenant_id, request_id, (REQUESTED, APPROVED))
        _note(row, REFUSED, actor_id, now, reason)
        row.state, row.closed_at = REFUSED, now
        row.save(update_fields=["state", "closed_at"])
    return row


def reveal(tenant_id: str, request_id: str, *, actor_id: str) -> Token:
    """Returns the value, once, to the person who asked. No transaction may be open. From here on the secret is due.

    Raises BreakGlassRefused (NOT_FOUND; TRANSITION_REFUSED for anybody else, a second look, missing approvals or a request that
    is over; VENDOR_UNREACHABLE when the store does not answer, and nothing is used up then).
    """
    with tenancy.tenant(tenant_id):
        row, _ = _live(tenant_id, request_id, (APPROVED,))
        _require_requester(row, actor_id)
        sealed = SealedInstallation.of(VendorInstallation.objects.get(tenant_id=tenant_id, id=row.installation_id))
    try:
        version = sealed.secret_versions[row.secret_name]
        value = secret_store().read(sealed.name_of(row.secret_name), version)
    except (StoreUnavailable, SecretMissing, SealBroken, KeyError) as error:
        raise BreakGlassRefused("VENDOR_UNREACHABLE", "the secret store does not give it now") from error
    with tenancy.tenant(tenant_id):
        row, now = _live(tenant_id, request_id, (APPROVED,))
        if len(approvers(row)) < APPROVALS:
            raise BreakGlassRefused("TRANSITION_REFUSED", "two others must agree first")
        _note(row, REVEALED, actor_id, now)
        row.state, row.revealed_at, row.expires_at = REVEALED, now, row.requested_at + OPEN_FOR
        row.revealed_version = version
        row.save(update_fields=["state", "revealed_at", "revealed_version", "expires_at"])
        _make_due(row, row.expires_at - now + ROTATE_WITHIN)
        _tell(row, "BREAK_GLASS_OPENED", "critical", "a vendor secret was shown; it must be rotated")
    return value


def close(tenant_id: str, request_id: str, *, actor_id: str, reason: str = "") -> BreakGlass:
    """Ends the case: what was shown is due for rotation within ROTATE_WITHIN of now; what was not shown is only withdrawn. Own
    transaction. Raises BreakGlassRefused (NOT_FOUND; TRANSITION_REFUSED for anybody but the requester, or when it is over).
    """
    with tenancy.tenant(tenant_id):
        row, now = _live(tenant_id, request_id, OPEN)
        _require_requester(row, actor_id)
        _end(row, CLOSED, actor_id, now, reason)
    return row


def close_expired() -> int:
    """Ends requests whose time is over; returns how many. Own transactions; safe to repeat. Workers only."""
    with tenancy.queues():
        now = clock.real_now()
        over = list(BreakGlass.objects.filter(state__in=OPEN, expires_at__lte=now).values_list("tenant_id", "id"))
    for tenant_id, request_id in over:
        with tenancy.tenant(tenant_id):
            row = BreakGlass.objects.select_for_update().get(tenant_id=tenant_id, id=request_id)
            if row.state in OPEN and row.expires_at <= now:
                _end(row, EXPIRED, "", now, "")
    return len(over)


def approvers(row: BreakGlass) -> list[str]:
    """Returns who agreed, oldest first. Inside the tenant's block."""
    steps = BreakGlassStep.objects.filter(tenant_id=row.tenant_id, request_id=row.id, step=APPROVED).order_by("id")
    return list(steps.values_list("actor_id", flat=True))


def steps_of(row: BreakGlass) -> list[BreakGlassStep]:
    """Returns everything that was done about a request, oldest first. Inside the tenant's block."""
    return list(BreakGlassStep.objects.filter(tenant_id=row.tenant_id, request_id=row.id).order_by("id"))


def held_names(row: VendorInstallation) -> tuple[str, ...]:
    """Returns the names of the secrets an installation holds."""
    return tuple(name for name in names_of(adapters.manifest(row.vendor)) if name in (row.secret_versions or {}))


def _live(tenant_id: str, request_id: str, states: tuple[str, ...]) -> tuple[BreakGlass, datetime]:
    """Locks a request that is in one of the states and whose time is not over."""
    row = BreakGlass.objects.select_for_update().filter(tenant_id=tenant_id, id=request_id).first()
    if row is None:
        raise BreakGlassRefused("NOT_FOUND", "no such request")
    now = clock.real_now()
    if row.state in OPEN and row.expires_at <= now:
        raise BreakGlassRefused("TRANSITION_REFUSED", "the request's time is over")
    if row.state not in states:
        raise BreakGlassRefused("TRANSITION_REFUSED", f"not possible while {row.state}")
    return row, now


def _require_requester(row: BreakGlass, actor_id: str) -> None:
    if actor_id != row.requested_by:
        raise BreakGlassRefused("TRANSITION_REFUSED", "only the person who asked may do this")


def _end(row: BreakGlass, state: str, actor_id: str, now: datetime, reason: str) -> None:
    was_shown = row.state == REVEALED
    _note(row, state, actor_id, now, reason)
    row.state, row.closed_at = state, now
    row.save(update_fields=["state", "closed_at"])
    if was_shown and _is_in_use(row):
        _make_due(row, ROTATE_WITHIN)


def _is_in_use(row: BreakGlass) -> bool:
    """Says whether the version that was shown is still the one in use; it may have been rotated meanwhile."""
    versions = VendorInstallation.objects.filter(tenant_id=row.tenant_id, id=row.installation_id)
    return any(held.get(row.secret_name) == row.revealed_version for held in versions.values_list("secret_versions", flat=True))


def _make_due(row: BreakGlass, within: timedelta) -> None:
    secret_rotation.make_due(
        row.tenant_id, row.installation_id, within, reason="break_glass", detail=row.id, names=(row.secret_name,)
    )


def _note(row: BreakGlass, step: str, actor_id: str, now: datetime, detail: str = "") -> None:
    BreakGlassStep.objects.create(
        tenant_id=row.tenant_id, request_id=row.id, step=step, actor_id=actor_id, at=now, detail=detail[:200]
    )


def _tell(row: BreakGlass, code: str, severity: str, what: str) -> None:
    detail = f"{what}: {row.secret_name} of {row.installation_id}, incident {row.incident}"
    alert = NewAlert(f"break-glass:{row.id}:{code}", code, severity, detail, RUNBOOK, row.property_id)
    raise_alerts(row.tenant_id, [alert], clock.now())
