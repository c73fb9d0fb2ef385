"""People who speak to the service: holders of a token at the API, and staff at the console. Requests are made in this process.

One rule: an answer is read as a caller reads it: status, headers, body.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client
from django.test.client import ClientHandler

from lockservice.console.access import grant
from lockservice.console.roles import Role
from lockservice.core.auth import issue_token
from lockservice.core.tenancy import UNATTRIBUTED

_HANDLER = ClientHandler(enforce_csrf_checks=False)
"""One for all callers: a handler puts the middleware up when it is first asked, which takes longer than most answers."""


def _client() -> Client:
    client = Client()
    client.handler = _HANDLER
    return client


@dataclass
class Caller:
    """Somebody with a token. POST and PATCH get a fresh Idempotency-Key unless one is given; `key=""` sends none."""

    token: str
    client: Client = field(default_factory=_client)

    def get(self, path: str, **headers: str) -> Any:
        """Send a GET."""
        return self.send("GET", path, **headers)

    def post(self, path: str, body: Any = None, *, key: str | None = None, **headers: str) -> Any:
        """Send a POST with a JSON body."""
        return self.send("POST", path, body, key=key, **headers)

    def patch(self, path: str, body: Any = None, *, key: str | None = None, **headers: str) -> Any:
        """Send a PATCH with a JSON body."""
        return self.send("PATCH", path, body, key=key, **headers)

    def send(self, method: str, path: str, body: Any = None, *, key: str | None = None, **headers: str) -> Any:
        """Send a request. Header names are written with underscores, as in `Prefer="wait=5"`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["Authorization"] = f"Bearer {self.token}"
        if method in ("POST", "PATCH") and key != "":
            sent["Idempotency-Key"] = key or uuid.uuid4().hex
        content = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
        return self.client.generic(method, path, headers=sent, **content)


def api_caller(tenant_id: str, role: str, properties: tuple[str, ...], subject: str) -> Caller:
    """Return a caller with a signed token of one role."""
    return Caller(issue_token(tenant_id, subject, (role,), properties))


def console_user(tenant_id: str, role: str, *, user_id: str = "", login: str = "", password: str | None = None) -> Client:
    """Return a browser in which a person of this role is signed in and has entered the tenant. `user_id` is the platform's."""
    login = login or f"{role}-{uuid.uuid4().hex[:8]}"
    home = UNATTRIBUTED if role == Role.PLATFORM else tenant_id
    grant(login, home, Role(role), password=password, user_id=user_id)
    client = Client()
    client.force_login(get_user_model().objects.get(username=login))
    if role in (Role.SUPPORT, Role.PLATFORM):
        assert client.post("/console/tenant/", {"tenant": home}).status_code == 302
    return client
