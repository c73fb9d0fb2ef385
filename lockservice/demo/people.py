"""The logins of the demo's console: who there is, and where each password lies.

One rule: a password is generated at first use, kept in a file of mode 0600, and never printed.
"""

from __future__ import annotations

from django.conf import settings

from lockservice.console import demo
from lockservice.demo import places


def ensure_people() -> None:
    """Makes the logins that are missing."""
    demo.ensure_users(places.TENANT_ID, password_of)


def password_of(login: str) -> str:
    """Returns a login's password, the same at every call."""
    return str(settings.LOCAL_DIRECTORY.secret(secret_name(login)))


def secret_name(login: str) -> str:
    """Returns the name of the file in the local directory's `secrets` that holds a login's password."""
    return f"console-{login}.password"


def logins() -> tuple[str, ...]:
    """Returns the logins, those a clerk would try first in front."""
    return tuple(login for login, _ in demo.logins())
