"""Gets tokens for a Vostio environment: client credentials, or the user-pool login of a Guest API credential.

One rule: which one is used is a setting; the rest of the folder sees a TokenSource.
Source: the specification asks for client credentials; the dashboard hands out user name, password, user pool id and client id,
which is a Cognito user pool (Seam's Vostio guide; high for the fields, medium for the conclusion). InitiateAuth as in that
service's public API reference.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from vendors.port.errors import LockError
from vendors.port.manifest import AdapterContext
from vendors.port.secrets import Token
from vendors.support.http import AnswerLost, HttpAnswer, HttpClient, NotSent
from vendors.support.tokens import Grant, RefreshRefused, TokenKeeper, TokenSource, lifetime_in

from .errors import VOSTIO, Refused, translate, unreachable
from .settings import VostioSettings

TOKEN_PATH = "/oauth2/token"  # noqa: S105 - a path
SCOPE = "access.grants access.read"
POOL_TARGET = "AWSCognitoIdentityProviderService.InitiateAuth"
DEFAULT_LIFETIME_S = 3600.0
_PRIORITY = 0  # without a token nothing else gets through


class ClientCredentials:
    """The specification's login. Tries the next secret when the current one is refused."""

    def __init__(self, settings: VostioSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._http = HttpClient(settings.token_url)

    def login(self, timeout_s: float) -> Grant:
        """Gets a token. Raises LockError."""
        refused: LockError | None = None
        for secret in self._settings.client_secrets:
            pair = f"{self._settings.client_id}:{secret.reveal()}".encode()
            headers = {
                "Authorization": f"Basic {base64.b64encode(pair).decode()}",
                "Content-Type": "application/x-www-form-urlencoded",
            }
            body = f"grant_type=client_credentials&scope={SCOPE.replace(' ', '+')}".encode()
            self._context.limiter.acquire(1, _PRIORITY)
            answer = _asked(partial(self._http.send, "POST", TOKEN_PATH, body=body, headers=headers, timeout_s=timeout_s))
            if answer.status not in {400, 401, 403}:
                return _grant(_document(answer), answer.status, "access_token", "expires_in")
            refused = translate(VOSTIO, Refused(answer.status, "invalid_client"), revoking=False)
        assert refused is not None  # noqa: S101 - there is at least one secret
        raise refused

    def refresh(self, refresh_token: Token, timeout_s: float) -> Grant:
        """There is nothing to refresh with: a login follows."""
        raise RefreshRefused


class UserPool:
    """The login of a Guest API credential, and its refresh."""

    def __init__(self, settings: VostioSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._http = HttpClient(settings.token_url)

    def login(self, timeout_s: float) -> Grant:
        """Gets a token with user name and password. Raises LockError."""
        user, password = self._settings.username, self._settings.password
        assert user is not None  # noqa: S101 - read_settings saw to it
        assert password is not None  # noqa: S101 - as above
        answer = self._initiate("USER_PASSWORD_AUTH", {"USERNAME": user.reveal(), "PASSWORD": password.reveal()}, timeout_s)
        if answer.status == 400:
            raise translate(VOSTIO, Refused(answer.status, "invalid_client"), revoking=False)
        return self._result(answer)

    def refresh(self, refresh_token: Token, timeout_s: float) -> Grant:
        """Gets a further token. Raises RefreshRefused when only a login can help."""
        answer = self._initiate("REFRESH_TOKEN_AUTH", {"REFRESH_TOKEN": refresh_token.reveal()}, timeout_s)
        if answer.status == 400:
            raise RefreshRefused
        return self._result(answer)

    def _initiate(self, flow: str, parameters: Mapping[str, str], timeout_s: float) -> HttpAnswer:
        self._context.limiter.acquire(1, _PRIORITY)
        document = {"AuthFlow": flow, "ClientId": self._settings.client_id, "AuthParameters": dict(parameters)}
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": POOL_TARGET}
        return _asked(lambda: self._http.post_json("/", document, timeout_s=timeout_s, headers=headers))

    def _result(self, answer: HttpAnswer) -> Grant:
        result = _document(answer).get("AuthenticationResult")
        return _grant(result if isinstance(result, dict) else {}, answer.status, "AccessToken", "ExpiresIn", "RefreshToken")


def token_keeper(settings: VostioSettings, context: AdapterContext, source: TokenSource | None = None) -> TokenKeeper:
    """Builds the keeper of the environment's token, from another source where one is given."""
    chosen = source or (UserPool if settings.uses_user_pool else ClientCredentials)(settings, context)
    return TokenKeeper(chosen, context.clock)


def _asked(send: Callable[[], HttpAnswer]) -> HttpAnswer:
    try:
        return send()
    except (NotSent, AnswerLost) as error:
        raise unreachable(f"no token: {error}") from error


def _document(answer: HttpAnswer) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError as error:
        raise unreachable("no token: the answer is no JSON") from error
    return document if isinstance(document, dict) else {}


def _grant(document: Mapping[str, Any], status: int, access: str, life: str, refresh: str = "") -> Grant:
    token, later = document.get(access), document.get(refresh)
    if status != 200 or not isinstance(token, str) or not token:
        raise unreachable(f"no token: status {status}")
    lifetime_s = lifetime_in(document.get(life), DEFAULT_LIFETIME_S)
    return Grant(Token(token), lifetime_s, Token(later) if isinstance(later, str) and later else None)
