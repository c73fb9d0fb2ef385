"""The demo hotel's people: one login for each role, and a second manager, since break-glass takes three people.

One rule: a password comes from the caller, who keeps it in a file of mode 0600; none is written here or in a log.
"""

from __future__ import annotations

from collections.abc import Callable

from lockservice.console.access import grant
from lockservice.console.roles import Role
from lockservice.core.tenancy import UNATTRIBUTED

LOGINS: dict[Role, str] = {
    Role.FRONT_DESK: "desk",
    Role.FRONT_DESK_SUPERVISOR: "supervisor",
    Role.GM: "gm",
    Role.AUDITOR: "auditor",
    Role.SUPPORT: "support",
    Role.PLATFORM: "platform",
}

SECOND_MANAGER = "gm2"


def logins() -> tuple[tuple[str, Role], ...]:
    """Returns everybody's login and role, those a clerk would try first in front."""
    return (*((name, role) for role, name in LOGINS.items()), (SECOND_MANAGER, Role.GM))


def ensure_users(tenant_id: str, password_of: Callable[[str], str], *, prefix: str = "") -> list[tuple[str, str, str]]:
    """Makes the logins that are missing and returns (login, password, role) of everybody; safe to repeat.

    As worker, outside any block. `password_of` gives a login's password, the same at every call; it is set when the login is
    made. `prefix` is put before the logins. The platform's person belongs to the tenant of messages that belong to nobody.
    """
    found = []
    for name, role in logins():
        login = f"{prefix}{name}"
        password = password_of(login)
        grant(login, UNATTRIBUTED if role is Role.PLATFORM else tenant_id, role, password=password, user_id=f"usr_{login}")
        found.append((login, password, role.value))
    return found
