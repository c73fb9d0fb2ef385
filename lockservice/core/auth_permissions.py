"""Who may do what: roles, and the permissions they carry. No database, no framework.

One rule: a role that is not in ROLES grants nothing, and `bff` grants nothing of its own: a back end acts on behalf of the user
whose token it forwards, never beyond her roles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Permission(StrEnum):
    """What a caller may be allowed to do. Acts with a reason have one permission for each reason."""

    KEY_READ = "lock.key.read"
    KEY_ISSUE = "lock.key.issue"
    KEY_ISSUE_OFFLINE = "lock.key.issue.offline"
    KEY_ISSUE_UNBOOKED = "lock.key.issue.unbooked"
    KEY_UPDATE = "lock.key.update"
    KEY_ENCODE = "lock.key.encode"
    KEY_REPLACE = "lock.key.replace"
    KEY_UNSUSPEND = "lock.key.unsuspend"
    KEY_BULK = "lock.key.bulk"
    KEY_EXCHANGE = "lock.key.exchange"
    KEY_SUSPEND_MANUAL = "lock.key.suspend.manual"
    KEY_SUSPEND_NO_SHOW = "lock.key.suspend.no_show"
    KEY_SUSPEND_FRAUD_REVIEW = "lock.key.suspend.fraud_review"
    KEY_SUSPEND_OVERDUE_PAYMENT = "lock.key.suspend.overdue_payment"
    KEY_REVOKE_CHECKOUT = "lock.key.revoke.checkout"
    KEY_REVOKE_LOST = "lock.key.revoke.lost"
    KEY_REVOKE_CANCELLATION = "lock.key.revoke.cancellation"
    KEY_REVOKE_SECURITY = "lock.key.revoke.security"
    KEY_REVOKE_REPLACED = "lock.key.revoke.replaced"
    PIN_REVEAL = "lock.pin.reveal"
    PIN_CHOOSE = "lock.pin.choose"
    STAY_READ = "lock.stay.read"
    DEVICE_READ = "lock.device.read"
    DEVICE_CHECK = "lock.device.check"
    MASTER_ISSUE = "lock.master.issue"
    MASTER_ISSUE_TEAM = "lock.master.issue.team"
    POLICY_EDIT = "lock.policy.edit"
    DESK_PAIR = "lock.desk.pair"
    BREAK_GLASS_REQUEST = "lock.breakglass.request"
    ALERT_ACKNOWLEDGE = "lock.alert.acknowledge"
    AUDIT_READ = "lock.audit.read"
    AUDIT_EXPORT = "lock.audit.export"
    DESK_SYNC = "lock.desk.sync"
    DESK_RELAY = "lock.desk.relay"


_P = Permission
_READ: Final = frozenset({_P.KEY_READ, _P.STAY_READ, _P.DEVICE_READ})
_FRONT_DESK: Final = _READ | {
    _P.KEY_ISSUE, _P.KEY_UPDATE, _P.KEY_ENCODE, _P.KEY_REPLACE, _P.KEY_SUSPEND_MANUAL, _P.KEY_REVOKE_CHECKOUT,
    _P.KEY_REVOKE_LOST, _P.PIN_REVEAL, _P.DEVICE_CHECK,
}  # fmt: skip
_SUPERVISOR: Final = _FRONT_DESK | {
    _P.KEY_REVOKE_CANCELLATION, _P.KEY_REVOKE_SECURITY, _P.KEY_REVOKE_REPLACED, _P.KEY_UNSUSPEND, _P.KEY_SUSPEND_NO_SHOW,
    _P.KEY_SUSPEND_FRAUD_REVIEW, _P.KEY_SUSPEND_OVERDUE_PAYMENT, _P.KEY_BULK, _P.KEY_ISSUE_OFFLINE, _P.ALERT_ACKNOWLEDGE,
    _P.PIN_CHOOSE, _P.KEY_ISSUE_UNBOOKED,
}  # fmt: skip

ROLES: Final[dict[str, frozenset[Permission]]] = {
    "front_desk": _FRONT_DESK,
    "front_desk_supervisor": _SUPERVISOR,
    "gm": _SUPERVISOR | {_P.MASTER_ISSUE, _P.POLICY_EDIT, _P.DESK_PAIR, _P.BREAK_GLASS_REQUEST},
    "housekeeping_lead": frozenset({_P.MASTER_ISSUE_TEAM}),
    "maintenance_lead": frozenset({_P.MASTER_ISSUE_TEAM}),
    "auditor": frozenset({_P.AUDIT_READ, _P.AUDIT_EXPORT}),
    "support": _READ,
    "booking_app": frozenset({_P.STAY_READ, _P.KEY_EXCHANGE}),
    "notification": frozenset({_P.STAY_READ, _P.KEY_EXCHANGE}),
    "bff": frozenset(),
    "desk": frozenset({_P.DESK_SYNC, _P.DESK_RELAY}),
}
"""What each role may do. Support staff act in the console, which takes a reason and records the visit; here they only read."""

NEEDS_SECOND_FACTOR: Final = frozenset({"support"})
"""Roles that count only when the token's `amr` names a second factor."""

SECOND_FACTORS: Final = frozenset({"mfa", "otp", "hwk", "fpt", "sms", "swk"})
"""Values of `amr` that stand for a second factor. Source: RFC 8176 §2."""

ALL_PROPERTIES: Final = "*"


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of one request. `property_ids` None means every property of the tenant."""

    tenant_id: str
    id: str
    roles: frozenset[str] = frozenset()
    property_ids: frozenset[str] | None = frozenset()
    amr: frozenset[str] = frozenset()
    permissions: frozenset[Permission] = field(init=False)
    is_authenticated: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "permissions", permissions_of(self.roles, self.amr))

    @property
    def pk(self) -> str:
        """Returns the caller's id, under the name that libraries for requests ask for."""
        return self.id

    def may(self, permission: Permission) -> bool:
        """Says whether a role of the caller carries the permission."""
        return permission in self.permissions

    def reaches(self, property_id: str) -> bool:
        """Says whether the property is one of the caller's."""
        return self.property_ids is None or property_id in self.property_ids


def permissions_of(roles: Iterable[str], amr: Iterable[str] = ()) -> frozenset[Permission]:
    """Returns what the roles carry together; a role that needs a second factor counts only with one."""
    strong = bool(SECOND_FACTORS & set(amr))
    counted = [role for role in roles if strong or role not in NEEDS_SECOND_FACTOR]
    return frozenset().union(*(ROLES.get(role, frozenset()) for role in counted))


def to_revoke(reason: str) -> Permission:
    """Returns the permission to revoke for a reason. Raises ValueError for a reason that does not exist."""
    return Permission(f"lock.key.revoke.{reason}")


def to_suspend(reason: str) -> Permission:
    """Returns the permission to suspend for a reason. Raises ValueError for a reason that does not exist."""
    return Permission(f"lock.key.suspend.{reason}")
