"""Gets TTLock's tokens: by the account's password (the grant the vendor offers), or by client credentials (for a proxy).

One rule: the token endpoint answers errors inside HTTP 200 too, so the body decides.
Source: the vendor's OAuth pages; field names in camel case as on the current page.
"""

from __future__ import annotations

from vendors.port.clock import Clock
from vendors.port.errors import LockError
from vendors.port.manifest import AdapterContext
from vendors.port.secrets import Token
from vendors.support.http import AnswerLost, HttpClient, NotSent
from vendors.support.tokens import Grant, RefreshRefused, TokenKeeper, TokenSource, lifetime_in

from .errors import CLIENT_REJECTED, TOKEN_REJECTED, Refused, translate, unreachable
from .settings import Settings
from .wire import read_answer

TOKEN_PATH = "/oauth2/token"  # noqa: S105 - a path
REFRESH_REFUSED = TOKEN_REJECTED | {10011}
DEFAULT_LIFETIME_S = 7_776_000
_PRIORITY = 0  # without a token nothing else gets through


class AccountGrant:
    """Logs in as the account that owns the locks, and refreshes. Tries the next client secret when the current one is refused,
    since the vendor's portal changes it by hand."""

    def __init__(self, http: HttpClient, settings: Settings, context: AdapterContext) -> None:
        self._http = http
        self._settings = settings
        self._context = context

    def login(self, timeout_s: float) -> Grant:
        """Gets a token from the account's secrets."""
        if not self._settings.password_grant:
            return self._asked({"grant_type": "client_credentials"}, timeout_s)
        username, password = self._settings.username, self._settings.password_md5
        assert username is not None  # noqa: S101 - read_settings saw to it
        assert password is not None  # noqa: S101 - as above
        fields = {
            "grant_type": "password",
            "username": username.reveal(),
            "password": password.reveal(),
        }
        return self._asked(fields, timeout_s)

    def refresh(self, refresh_token: Token, timeout_s: float) -> Grant:
        """Gets a further token. Raises RefreshRefused when only a login can help."""
        fields = {"grant_type": "refresh_token", "refresh_token": refresh_token.reveal()}
        try:
            return self._grant(fields, timeout_s)
        except Refused as refused:
            if refused.code in REFRESH_REFUSED:
                raise RefreshRefused from None
            raise self._error(refused) from None

    def _asked(self, fields: dict[str, str], timeout_s: float) -> Grant:
        try:
            return self._grant(fields, timeout_s)
        except Refused as refused:
            raise self._error(refused) from None

    def _error(self, refused: Refused) -> LockError:
        return translate(
            refused.code,
            "",
            revoking=False,
            now=self._context.clock.now(),
            rng=self._context.rng,
        )

    def _grant(self, fields: dict[str, str], timeout_s: float) -> Grant:
        *earlier, last = self._settings.client_secrets
        for secret in earlier:
            try:
                return self._one(fields, secret, timeout_s)
            except Refused as refused:
                if refused.code != CLIENT_REJECTED:
                    raise
        return self._one(fields, last, timeout_s)

    def _one(self, fields: dict[str, str], client_secret: Token, timeout_s: float) -> Grant:
        self._context.limiter.acquire(1, _PRIORITY)
        body = {
            "clientId": self._settings.client_id,
            "clientSecret": client_secret.reveal(),
            **fields,
        }
        try:
            document = read_answer(self._http.post_form(TOKEN_PATH, body, timeout_s=timeout_s))
        except (NotSent, AnswerLost) as error:
            raise unreachable(f"no token: {error}") from error
        access = document.get("access_token")
        if not isinstance(access, str) or not access:
            raise unreachable("no token in the answer")
        refresh = document.get("refresh_token")
        return Grant(
            Token(access),
            lifetime_in(document.get("expires_in"), DEFAULT_LIFETIME_S),
            Token(refresh) if isinstance(refresh, str) and refresh else None,
        )


def token_keeper(
    http: HttpClient, settings: Settings, context: AdapterContext, source: TokenSource | None = None
) -> TokenKeeper:
    """Builds the keeper of the installation's token, from another source where one is given."""
    clock: Clock = context.clock
    return TokenKeeper(source or AccountGrant(http, settings, context), clock)
