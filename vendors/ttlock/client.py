"""Speaks to the TTLock cloud: one method, with token, date, limits and time bounds around it.

One rule: everything travels in a POST body, because addresses end up in logs.
"""

from __future__ import annotations

from typing import Any

from vendors.port.errors import LockError, Reason
from vendors.port.manifest import AdapterContext
from vendors.port.types import CallMeta
from vendors.support.effects import Effects
from vendors.support.http import AnswerLost, HttpClient, NotSent
from vendors.support.per_door import Deadline
from vendors.support.tokens import TokenKeeper, TokenSource

from .errors import (
    DOUBTFUL,
    TABLE,
    TOKEN_REJECTED,
    Refused,
    Unclear,
    translate,
    unreachable,
)
from .settings import Settings
from .tokens import token_keeper
from .wire import changes_nothing, read_answer, says_only_whether, to_ms

_CALL_WIDE = frozenset({Reason.RATE, Reason.QUOTA, Reason.SETTINGS})
MIN_REQUEST_S = 0.2


class Call:
    """One verb under way: its limits, and how many requests have left."""

    def __init__(self, meta: CallMeta, *, revoking: bool = False) -> None:
        self.meta = meta
        self.revoking = revoking
        self.deadline = Deadline(meta.deadline_s)
        self.requests = 0
        self.effects = Effects()


class TtlockClient:
    """The cloud as one function. Safe from several threads."""

    def __init__(self, settings: Settings, context: AdapterContext, source: TokenSource | None = None) -> None:
        self._settings = settings
        self._context = context
        self._http = HttpClient(settings.base_url, pool_size=32)
        self._tokens: TokenKeeper = token_keeper(self._http, settings, context, source)

    def ask(self, call: Call, path: str, fields: dict[str, object], *, gateway: bool = False) -> dict[str, Any]:
        """Posts to `/v3/<path>` as the account. `gateway` gives it the long time limit.

        A rejected token is replaced and the request repeated once. Raises Refused (not done), Unclear (perhaps done), or a
        LockError when nothing was asked, or what failed is the account rather than the door.
        """
        with call.effects.noted(Unclear, changes=not changes_nothing(path)):
            return self._ask(call, path, fields, gateway)

    def _ask(self, call: Call, path: str, fields: dict[str, object], gateway: bool) -> dict[str, Any]:
        token = self._tokens.current(self._time_for(call, gateway=False))
        common: dict[str, object] = {"accessToken": token.reveal()}
        try:
            return self._post(call, path, fields | common, gateway)
        except Refused as refused:
            if refused.code not in TOKEN_REJECTED:
                raise self._weighed(call, refused) from None
        token = self._tokens.replace(token, self._time_for(call, gateway=False))
        try:
            return self._post(call, path, fields | {"accessToken": token.reveal()}, gateway)
        except Refused as refused:
            raise self._weighed(call, refused) from None

    def ask_as_application(self, call: Call, path: str, fields: dict[str, object]) -> dict[str, Any]:
        """Posts to `/v3/<path>` with the client secret instead of a token (user registration). Errors as in `ask`."""
        refused: Refused | None = None
        for secret in self._settings.client_secrets:
            try:
                return self._post(call, path, fields | {"clientSecret": secret.reveal()}, False)
            except Refused as error:
                refused = error
                if error.code != 10001:
                    break
        assert refused is not None  # noqa: S101 - there is at least one secret
        raise self._weighed(call, refused) from None

    def error(self, call: Call, refused: Refused, device_id: str | None = None) -> LockError:
        """Builds the port's error for a refusal."""
        return translate(
            refused.code,
            refused.message,
            revoking=call.revoking,
            now=self._context.clock.now(),
            rng=self._context.rng,
            device_id=device_id,
        )

    def _weighed(self, call: Call, refused: Refused) -> Exception:
        """Says what a refusal is: the account's trouble, a doubtful answer, or a plain no."""
        row = TABLE.get(refused.code)
        if row is None or refused.code in DOUBTFUL:
            return Unclear(self.error(call, refused))
        if row.reason in _CALL_WIDE:
            return self.error(call, refused)
        return refused

    def _post(self, call: Call, path: str, fields: dict[str, object], gateway: bool) -> dict[str, Any]:
        timeout_s = self._time_for(call, gateway)
        self._context.limiter.acquire(1, call.meta.priority)
        call.requests += 1
        body = {
            "clientId": self._settings.client_id,
            "date": str(to_ms(self._context.clock.now())),
            **{name: str(value) for name, value in fields.items() if value is not None},
        }
        try:
            document = read_answer(self._http.post_form(f"/v3/{path}", body, timeout_s=timeout_s))
            if says_only_whether(path) and "errcode" not in document:
                raise AnswerLost("neither done nor an error")
            return document
        except NotSent as error:
            raise unreachable(f"not reached: {error}") from error
        except AnswerLost as error:
            raise Unclear(unreachable(f"no usable answer: {error}", Reason.TIMEOUT)) from error

    def _time_for(self, call: Call, gateway: bool) -> float:
        limit = self._settings.timeout_s if gateway else self._settings.cloud_timeout_s
        left = min(limit, call.deadline.left_s)
        if left < MIN_REQUEST_S:
            raise unreachable("no time left in this call", Reason.BUSY, throttled=True)
        return left
