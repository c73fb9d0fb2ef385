"""Push deliveries of Google Pub/Sub: one message a request, handled like one that was pulled.

The one rule: nobody but the configured sender gets in (an OpenID token for our audience, of its service account), and a message
is acknowledged, 204, once it is applied or kept as a dead letter; a database that is away is 503, and Pub/Sub sends again.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from lockservice.core.auth import TokenRefused, verified_claims
from lockservice.core.http import plain_problem
from lockservice.core.http_problems import Problem
from sagas.consumer import handle_body
from sagas.events import strict_json
from sagas.events.envelope import MAX_BYTES
from sagas.events.refusals import EventRefused

# Base64 takes four bytes for three; what Pub/Sub puts around it fits into a few kilobytes.
MAX_REQUEST_BYTES = MAX_BYTES * 4 // 3 + 16 * 1024


@csrf_exempt
def push(request: HttpRequest) -> HttpResponse:
    """Takes one delivery. 404 where no sender is configured."""
    try:
        _handle(request)
    except Exception as error:  # noqa: BLE001 - told by the one handler, like in every route
        return plain_problem(error, request)
    return HttpResponse(status=204)


def _handle(request: HttpRequest) -> None:
    if not (settings.PUBSUB_PUSH_AUDIENCE and settings.PUBSUB_PUSH_ACCOUNT):
        raise Problem("NOT_FOUND")
    if request.method != "POST":
        raise Problem("METHOD_NOT_ALLOWED", headers={"Allow": "POST"})
    _check_sender(request.META.get("HTTP_AUTHORIZATION", ""))
    topic, key, body = _message(request)
    handle_body(topic, key, body)


def _check_sender(header: str) -> None:
    """Source: Google Cloud, "Authenticate push subscriptions" (read November 2026): iss, aud, email, email_verified."""
    scheme, _, token = header.partition(" ")
    try:
        if scheme.lower() != "bearer":
            raise TokenRefused("a bearer token is needed")
        claims = verified_claims(
            token.strip(), settings.PUBSUB_PUSH_JWKS, settings.PUBSUB_PUSH_ISSUERS, settings.PUBSUB_PUSH_AUDIENCE
        )
        if claims.get("email") != settings.PUBSUB_PUSH_ACCOUNT or claims.get("email_verified") is not True:
            raise TokenRefused("not the sender's account")
    except TokenRefused as error:
        raise Problem("UNAUTHENTICATED", str(error), headers={"WWW-Authenticate": "Bearer"}) from error


def _message(request: HttpRequest) -> tuple[str, str, bytes]:
    """Returns (topic, ordering key, body). The topic is the subscription's name without its group."""
    raw = request.read(MAX_REQUEST_BYTES + 1)
    try:
        document = strict_json.loads(raw, MAX_REQUEST_BYTES)
        message: Any = document["message"]
        body = base64.b64decode(message.get("data", ""), validate=True)
        subscription = str(document.get("subscription", "")).rpartition("/")[2]
        key = message.get("orderingKey", "")
        if not isinstance(key, str):
            raise TypeError
    except EventRefused as error:
        code = "PAYLOAD_TOO_LARGE" if len(raw) > MAX_REQUEST_BYTES else "VALIDATION_FAILED"
        raise Problem(code, error.detail) from error
    except (KeyError, TypeError, AttributeError, binascii.Error, ValueError) as error:
        raise Problem("VALIDATION_FAILED", "not a push delivery of Pub/Sub") from error
    return subscription.rpartition(".")[0] or subscription, key, body
