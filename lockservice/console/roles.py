"""What each role may do in the console: what `core.auth_permissions` says it may do, and what only the console offers.

One rule: no page compares role names; it asks for a right (`may`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from lockservice.core.auth_permissions import ROLES, Permission, to_revoke, to_suspend
from vendors.port.types import RevokeReason, SuspendReason


class Right(StrEnum):
    """Rights that only the console knows."""

    GUEST_READ = "lock.guest.read"
    QUEUE_READ = "lock.queue.read"
    SAGA_RETRY = "lock.saga.retry"
    LETTER_READ = "lock.letter.read"
    LETTER_REPLAY = "lock.letter.replay"
    ACTS_READ = "lock.acts.read"
    BREAK_GLASS_APPROVE = "lock.breakglass.approve"
    COSTS_READ = "lock.costs.read"
    DEVICE_DECOMMISSION = "lock.device.decommission"


class Role(StrEnum):
    """What a person is in one tenant. PLATFORM is only given in the tenant of messages that belong to nobody."""

    FRONT_DESK = "front_desk"
    FRONT_DESK_SUPERVISOR = "front_desk_supervisor"
    GM = "gm"
    AUDITOR = "auditor"
    SUPPORT = "support"
    PLATFORM = "platform"

    @property
    def label(self) -> Promise:
        """The role's name for people."""
        return _LABELS[self]


_LABELS: dict[Role, Promise] = {
    Role.FRONT_DESK: _("Front desk"),
    Role.FRONT_DESK_SUPERVISOR: _("Front desk supervisor"),
    Role.GM: _("General manager"),
    Role.AUDITOR: _("Auditor"),
    Role.SUPPORT: _("Platform support"),
    Role.PLATFORM: _("Platform staff"),
}

_REPAIRS = ROLES["front_desk_supervisor"] - {
    Permission.PIN_REVEAL, Permission.PIN_CHOOSE, Permission.KEY_ENCODE, Permission.KEY_ISSUE_OFFLINE, Permission.KEY_BULK,
}  # fmt: skip
"""What support may do here beyond reading: a supervisor's acts, but no PIN and nothing that happens at a desk."""

_ONLY_HERE: dict[Role, frozenset[str]] = {
    Role.FRONT_DESK: frozenset({Right.GUEST_READ}),
    Role.FRONT_DESK_SUPERVISOR: frozenset({Right.GUEST_READ}),
    Role.GM: frozenset(
        {Right.GUEST_READ, Right.ACTS_READ, Right.COSTS_READ, Right.BREAK_GLASS_APPROVE, Right.DEVICE_DECOMMISSION}
    ),
    Role.AUDITOR: frozenset({Right.ACTS_READ, Right.COSTS_READ}),
    Role.SUPPORT: _REPAIRS
    | {
        Right.QUEUE_READ,
        Right.SAGA_RETRY,
        Right.LETTER_READ,
        Right.LETTER_REPLAY,
        Right.ACTS_READ,
        Right.COSTS_READ,
        Right.BREAK_GLASS_APPROVE,
        Right.DEVICE_DECOMMISSION,
    },
    Role.PLATFORM: frozenset({Right.LETTER_READ, Right.LETTER_REPLAY, Right.ACTS_READ}),
}


def permissions_of(role: Role) -> frozenset[str]:
    """Returns every right of a role in the console."""
    return frozenset(ROLES.get(role.value, frozenset())) | _ONLY_HERE[role]


def revoke_reasons(permissions: Iterable[str]) -> tuple[RevokeReason, ...]:
    """Returns the reasons a person may give for a revoke, in a stable order; `replaced` is given by replacing."""
    held = frozenset(permissions)
    return tuple(reason for reason in RevokeReason if to_revoke(reason) in held and reason is not RevokeReason.REPLACED)


def suspend_reasons(permissions: Iterable[str]) -> tuple[SuspendReason, ...]:
    """Returns the reasons a person may give for a suspension, `manual` first."""
    held = frozenset(permissions)
    reasons = [reason for reason in SuspendReason if to_suspend(reason) in held]
    return tuple(sorted(reasons, key=lambda reason: reason is not SuspendReason.MANUAL))
