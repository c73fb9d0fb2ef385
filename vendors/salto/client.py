"""Speaks the cloud's REST contract: over the vendor's cloud, or over the property's connector with the cloud behind it.

| connector | card | phone, PIN, reading |
|---|---|---|
| answers | through it | through it |
| not reached, so nothing was sent | CARD_ENCODER_OFFLINE: only it reaches encoders | through the cloud, for on-line doors |
| answer lost | unknown; never asked elsewhere in this attempt | the same |

One rule: a request that may have arrived is not sent another way; the next attempt looks first.
Source: specification 5.2 for API key, idempotency header and fall-back; header names beyond these are proposed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from vendors.port.errors import CardEncoderOffline, Reason
from vendors.port.manifest import AdapterContext
from vendors.port.secrets import Token
from vendors.port.types import CallMeta
from vendors.support.effects import Effects
from vendors.support.http import AnswerLost, HttpAnswer, HttpClient, NotSent
from vendors.support.per_door import Deadline

from .connector_identity import ConnectorIdentity
from .errors import CLOUD, Refused, Unclear, translate, unreachable
from .manifest_code import CODE
from .settings import Settings, Transport

MIN_REQUEST_S = 0.2
_CALL_WIDE = frozenset({"bad_api_key", "forbidden", "rate_limited"})
_UNAUTHENTICATED = 401


class Call:
    """One verb under way: its limits, and how many requests have left."""

    def __init__(self, meta: CallMeta, *, revoking: bool = False) -> None:
        self.meta = meta
        self.revoking = revoking
        self.deadline = Deadline(meta.deadline_s)
        self.requests = 0
        self.effects = Effects()


@dataclass(frozen=True, slots=True)
class _Route:
    http: HttpClient
    identity: ConnectorIdentity | None = None


class SaltoClient:
    """The contract as one function. Safe in threads. Raises ValueError for a wrong address or certificate."""

    def __init__(self, settings: Settings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._routes: list[_Route] = []
        if settings.transport is Transport.CONNECTOR and settings.connector_cert and settings.connector_key:
            identity = ConnectorIdentity(settings.connector_cert, settings.connector_key, settings.connector_ca)
            if not settings.connector_url.startswith("https://"):
                raise ValueError("setting connector_url must be https")
            self._routes.append(_Route(HttpClient(settings.connector_url, tls=identity.tls), identity))
        if settings.base_url:
            self._routes.append(_Route(HttpClient(settings.base_url)))

    @property
    def identity(self) -> ConnectorIdentity | None:
        """The certificate of the connector route, if there is one."""
        return self._routes[0].identity

    def get(self, call: Call, path: str, query: Mapping[str, str | None] | None = None) -> dict[str, Any]:
        """Reads. Raises Refused, or VendorUnreachable: an unanswered question changes nothing."""
        try:
            return self.ask(call, "GET", path, query=query)
        except Unclear as error:
            raise error.error from None

    def ask(
        self,
        call: Call,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        query: Mapping[str, str | None] | None = None,
        idempotency_key: str = "",
        is_card: bool = False,
    ) -> dict[str, Any]:
        """Sends one request. `is_card` says that it needs the property's encoder.

        Raises Refused (not done), Unclear (perhaps done), or a LockError when nothing was asked or the account is at fault.
        """
        wanted = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{path}?{urlencode(wanted)}" if wanted else path
        with call.effects.noted(Unclear, changes=method != "GET"):
            return self._routed(call, (method, target, body, idempotency_key), is_card=is_card)

    def _routed(self, call: Call, parts: tuple[str, str, Mapping[str, object] | None, str], *, is_card: bool) -> dict[str, Any]:
        for index, route in enumerate(self._routes):
            is_last = index + 1 == len(self._routes)
            try:
                return self._through(route, call, parts)
            except NotSent as error:
                if route.identity is not None and is_card:
                    raise CardEncoderOffline(CODE, "the property's connector is not reached") from error
                if is_last:
                    raise unreachable(f"not reached: {error}") from error
        raise unreachable("no way to the vendor is set", Reason.SETTINGS)

    def _through(self, route: _Route, call: Call, parts: tuple[str, str, Mapping[str, object] | None, str]) -> dict[str, Any]:
        if route.identity is not None and route.identity.is_expired(self._context.clock.now()):
            raise NotSent("our certificate for the connector has expired")
        answer: HttpAnswer | None = None
        for api_key in self._settings.api_keys:
            answer = self._send(route, call, parts, api_key)
            if answer.status != _UNAUTHENTICATED:
                break
        assert answer is not None  # noqa: S101 - there is at least one key
        return self._read(call, answer)

    def _send(
        self, route: _Route, call: Call, parts: tuple[str, str, Mapping[str, object] | None, str], api_key: Token
    ) -> HttpAnswer:
        method, target, body, idempotency_key = parts
        timeout_s = min(self._settings.timeout_s, call.deadline.left_s)
        if timeout_s < MIN_REQUEST_S:
            raise unreachable("no time left in this call", Reason.BUSY, throttled=True)
        self._context.limiter.acquire(1, call.meta.priority)
        call.requests += 1
        headers = {
            "Authorization": f"ApiKey {api_key.reveal()}",
            "X-Property-Id": self._settings.property_ref,
            **({"X-Idempotency-Key": idempotency_key} if idempotency_key else {}),
            **({"Content-Type": "application/json"} if body is not None else {}),
        }
        raw = json.dumps(body).encode() if body is not None else None
        try:
            return route.http.send(method, target, body=raw, headers=headers, timeout_s=timeout_s)
        except AnswerLost as error:
            raise Unclear(unreachable(f"no usable answer: {error}", Reason.TIMEOUT)) from error

    def _read(self, call: Call, answer: HttpAnswer) -> dict[str, Any]:
        try:
            document = answer.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise Unclear(unreachable("the answer is not of the contract", Reason.TIMEOUT))
        if 200 <= answer.status < 300:
            return document
        code = str(document.get("code", ""))
        wait_s = answer.retry_after_s()
        if code in _CALL_WIDE:
            raise translate(CLOUD, code, revoking=call.revoking, retry_after_s=wait_s)
        if code not in CLOUD:
            raise Unclear(unreachable(f"status {answer.status} without a word we know", Reason.TIMEOUT, wait_s=wait_s))
        details = document.get("details")
        raise Refused(code, rooms=_refused_rooms(details), retry_after_s=wait_s, card=_card_in(details))


def _refused_rooms(details: object) -> dict[str, str]:
    """Returns the places a refusal names, each with its code: a hint, so what makes no sense in it is left out."""
    rows = details.get("rooms") if isinstance(details, dict) else None
    named = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {str(row["room"]): str(row["code"]) for row in named if "room" in row and "code" in row}


def _card_in(details: object) -> Mapping[str, object]:
    """Returns the key on the card that a refusal tells of; empty where it tells of none."""
    card = details.get("card") if isinstance(details, dict) else None
    return card if isinstance(card, dict) else {}


def path_of(*parts: str) -> str:
    """Builds a path under `/api`, with each part escaped."""
    return "/api/" + "/".join(quote(part, safe="") for part in parts)
