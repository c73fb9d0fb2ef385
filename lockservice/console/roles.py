"""What each role may do in the console. Pure data.

One rule: a role's rights are listed here and asked for by name (`may`); no page compares role names.
"""

from __future__ import annotations

from enum import StrEnum

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from vendors.port.types import RevokeReason

READ = "lock.key.read"
UPDATE = "lock.key.update"
ENCODE = "lock.key.encode"
REPLACE = "lock.key.replace"
RETRY = "lock.key.retry"
SUSPEND = "lock.key.suspend"
UNSUSPEND = "lock.key.unsuspend"
REVOKE = "lock.key.revoke"
REVOKE_ANY = "lock.key.revoke.security"
REVEAL_PIN = "lock.pin.reveal"
READ_GUEST = "lock.guest.read"
ACKNOWLEDGE = "lock.alert.acknowledge"
EDIT_POLICY = "lock.policy.edit"
READ_QUEUES = "lock.queue.read"
RETRY_SAGA = "lock.saga.retry"
READ_LETTERS = "lock.letter.read"
REPLAY = "lock.letter.replay"
READ_ACTS = "lock.audit.read"

DESK_REVOKE_REASONS = (RevokeReason.CHECKOUT, RevokeReason.LOST)
"""Reasons that REVOKE alone allows; REVOKE_ANY allows all."""


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

_DESK = frozenset({READ, UPDATE, ENCODE, REPLACE, RETRY, SUSPEND, REVOKE, REVEAL_PIN, READ_GUEST})
_SUPERVISOR = _DESK | {REVOKE_ANY, UNSUSPEND, ACKNOWLEDGE}

PERMISSIONS: dict[Role, frozenset[str]] = {
    Role.FRONT_DESK: _DESK,
    Role.FRONT_DESK_SUPERVISOR: _SUPERVISOR,
    Role.GM: _SUPERVISOR | {EDIT_POLICY, READ_ACTS},
    Role.AUDITOR: frozenset({READ_ACTS}),
    Role.SUPPORT: frozenset(
        {
            READ, UPDATE, REPLACE, RETRY, SUSPEND, UNSUSPEND, REVOKE, REVOKE_ANY, ACKNOWLEDGE,
            READ_QUEUES, RETRY_SAGA, READ_LETTERS, REPLAY, READ_ACTS,
        }
    ),
    Role.PLATFORM: frozenset({READ_LETTERS, REPLAY, READ_ACTS}),
}  # fmt: skip

ACTION_PERMISSIONS: dict[str, str] = {
    "update": UPDATE,
    "suspend": SUSPEND,
    "unsuspend": UNSUSPEND,
    "revoke": REVOKE,
    "replace": REPLACE,
    "encode": ENCODE,
    "retry": RETRY,
}
"""The right each action of `credentials.lifecycle.ACTIONS` asks for."""


def revoke_reasons(permissions: frozenset[str]) -> tuple[RevokeReason, ...]:
    """Returns the reasons a person may give for a revoke, in a stable order; `replaced` is the service's own."""
    if REVOKE_ANY in permissions:
        return tuple(reason for reason in RevokeReason if reason is not RevokeReason.REPLACED)
    return DESK_REVOKE_REASONS if REVOKE in permissions else ()
