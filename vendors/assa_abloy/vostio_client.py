"""Speaks to a Vostio environment: token, headers, limits, maintenance windows and time bounds around one request.

One rule: during a maintenance window nothing is sent; the wait is handed to the caller instead.
Contract: not public. Names by the specification, the rest assumed (low confidence). It is written down here and in
`vostio.py`, nowhere else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from urllib.parse import urlencode

from vendors.port.errors import LockError, Reason, VendorUnreachable
from vendors.port.manifest import AdapterContext
from vendors.port.secrets import Token
from vendors.support.http import HttpAnswer, HttpClient
from vendors.support.tokens import TokenSource

from .calls import Call, sent
from .errors import VOSTIO, Answer, Refused, Unclear, refusal_in, stands_for_all, translate, unreachable
from .manifest import MANIFEST
from .settings import VostioSettings
from .vostio_tokens import token_keeper

_HEX64 = re.compile(r"[0-9a-f]{64}")
DOUBTFUL = frozenset({500, 502, 503, 504})
DEFAULT_MAINTENANCE_S = 300.0
JITTER_S = 2.0


class VostioClient:
    """The environment as one function. Safe from several threads."""

    def __init__(self, settings: VostioSettings, context: AdapterContext, source: TokenSource | None = None) -> None:
        self._settings = settings
        self._context = context
        self._http = HttpClient(settings.base_url, pool_size=32)
        self._tokens = token_keeper(settings, context, source)
        self._closed_until: datetime | None = None

    def ask(
        self,
        call: Call,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        key: str | None = None,
        version: int | None = None,
    ) -> Answer:
        """Sends one request. `key` becomes the Idempotency-Key, `version` the If-Match.

        A rejected token is replaced and the request repeated once: a 401 comes before any work. Raises Refused (not done),
        Unclear (perhaps done), or a LockError when nothing was asked or what failed is the environment.
        """
        with call.effects.noted(Unclear, changes=method != "GET"):
            return self._ask(call, method, path, query, body, key, version)

    def _ask(
        self,
        call: Call,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, object] | None,
        key: str | None,
        version: int | None,
    ) -> Answer:
        self._mind_maintenance()
        headers = {"X-Request-Id": f"{self._context.rng.getrandbits(96):024x}"}
        if key is not None:
            headers["Idempotency-Key"] = _hex64(key)
        if version is not None:
            headers["If-Match"] = str(version)
        raw = json.dumps(body, ensure_ascii=False).encode() if body is not None else None
        if raw is not None:
            headers["Content-Type"] = "application/json"
        target = f"{path}?{urlencode(query)}" if query else path
        token = self._tokens.current(call.time_for(self._settings.timeout_s))
        answer = self._sent(call, method, target, raw, headers, token)
        if answer.status == 401:
            token = self._tokens.replace(token, call.time_for(self._settings.timeout_s))
            answer = self._sent(call, method, target, raw, headers, token)
        return self._weighed(call, answer)

    def error(self, call: Call, refused: Refused, device_id: str | None = None) -> LockError:
        """Builds the port's error for a refusal."""
        return translate(VOSTIO, refused, revoking=call.revoking, device_id=device_id)

    def close_until(self, until: datetime) -> None:
        """Notes that the environment is under maintenance until then."""
        self._closed_until = until

    def _mind_maintenance(self) -> None:
        until, now = self._closed_until, self._context.clock.now()
        if until is None or now >= until:
            return
        raise VendorUnreachable(
            MANIFEST.code,
            "the environment is under maintenance",
            reason=Reason.BUSY,
            retry_after_s=(until - now).total_seconds(),
            throttled=True,
        )

    def _sent(
        self, call: Call, method: str, target: str, raw: bytes | None, headers: Mapping[str, str], token: Token
    ) -> HttpAnswer:
        timeout_s = call.time_for(self._settings.timeout_s)
        all_headers = {**headers, "Authorization": f"Bearer {token.reveal()}"}
        return sent(
            call,
            self._context.limiter,
            lambda: self._http.send(method, target, body=raw, headers=all_headers, timeout_s=timeout_s),
        )

    def _weighed(self, call: Call, answer: HttpAnswer) -> Answer:
        if answer.status == 204:
            return Answer(204, {})
        document = _document(answer)
        if answer.status < 300:
            return Answer(answer.status, document)
        refused = refusal_in(answer.status, document, answer.retry_after_s())
        if refused.code == "maintenance":
            wait_s = refused.retry_after_s or DEFAULT_MAINTENANCE_S
            refused.retry_after_s = wait_s
            self._closed_until = self._context.clock.now() + timedelta(seconds=wait_s)
        if answer.status == 429 and refused.retry_after_s is not None:
            refused.retry_after_s += self._context.rng.uniform(0, JITTER_S)
        row = VOSTIO.get(refused.code)
        if answer.status in DOUBTFUL and not (row and row.not_made):
            raise Unclear(self.error(call, refused) if row else unreachable(f"status {answer.status}", Reason.TIMEOUT))
        if stands_for_all(VOSTIO, refused):
            raise self.error(call, refused)
        raise refused


def _document(answer: HttpAnswer) -> dict[str, object]:
    """Reads a JSON object. Raises Unclear for anything else: that comes from the edge in front of the environment."""
    try:
        document = answer.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise Unclear(unreachable(f"status {answer.status} without a JSON object", Reason.TIMEOUT))
    return document


def _hex64(key: str) -> str:
    return key if _HEX64.fullmatch(key) else hashlib.sha256(key.encode()).hexdigest()
