"""Where vendors push to: `POST /lock/v1/webhooks/{vendor}/{installation}/{token}`.

The one rule: first the token, then size and type, then the signature; whoever fails one of them learns nothing but a constant
text, and nothing of a body is repeated anywhere. What is proven is answered 200 `success` (as TTLock asks) before anything is
done about it; a push we had already is 200 too.
"""

from __future__ import annotations

import re
import time
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from devices import webhooks, webhooks_addresses
from devices.webhooks_addresses import AddressUnknown
from lockservice.api import metrics
from lockservice.core.http import plain_problem
from lockservice.core.http_problems import Problem
from vendors.port.errors import LockError

MEDIA_TYPES: Final = frozenset({"application/json", "application/x-www-form-urlencoded"})
_CHARSET: Final = re.compile(r';\s*charset="?([\w-]+)', re.IGNORECASE)
_ROUTE: Final = "lock/v1/webhooks"


@csrf_exempt
def take(request: HttpRequest, vendor: str, installation_id: str, token: str) -> HttpResponse:
    """Takes one push."""
    started = time.perf_counter()
    try:
        _take(request, vendor, installation_id, token)
        reply = HttpResponse("success", content_type="text/plain; charset=utf-8")
    except Exception as error:  # noqa: BLE001 - told by the one handler, like in every route
        reply = plain_problem(error, request)
    metrics.count(str(request.method), _ROUTE, reply.status_code, time.perf_counter() - started)
    return reply


def _take(request: HttpRequest, vendor: str, installation_id: str, token: str) -> None:
    if request.method != "POST":
        raise Problem("METHOD_NOT_ALLOWED", headers={"Allow": "POST"})
    try:
        recipient = webhooks_addresses.recipient_of(vendor, installation_id, token)
    except AddressUnknown as error:
        webhooks.refuse(error, vendor)
        raise _refused() from None
    body = _body(request)
    _check_type(request.META.get("CONTENT_TYPE", ""))
    try:
        webhooks.take_in(recipient, dict(request.headers), body)
    except webhooks.Forged:
        raise _refused() from None
    except LockError as error:
        # Our secret store gives no answer: whether the push is genuine cannot be told now, so the vendor is to push again.
        raise Problem("VENDOR_UNREACHABLE", "try again", retriable=True, headers={"Retry-After": "30"}) from error


def _refused() -> Problem:
    return Problem("WEBHOOK_SIGNATURE_INVALID", "the push was not accepted")


def _body(request: HttpRequest) -> bytes:
    """Reads the raw body once, and no more of it than is allowed."""
    announced = request.META.get("CONTENT_LENGTH") or "0"
    too_large = Problem("PAYLOAD_TOO_LARGE", f"at most {webhooks.MAX_BYTES} bytes")
    if not announced.isascii() or not announced.isdigit() or int(announced[:12]) > webhooks.MAX_BYTES:
        raise too_large
    body = request.read(webhooks.MAX_BYTES + 1)
    if len(body) > webhooks.MAX_BYTES:
        raise too_large
    return body


def _check_type(header: str) -> None:
    charset = _CHARSET.search(header)
    kind = header.partition(";")[0].strip().lower()
    if kind not in MEDIA_TYPES or (charset is not None and charset[1].lower() not in ("utf-8", "utf8")):
        raise Problem("UNSUPPORTED_MEDIA_TYPE", "JSON or a form, in UTF-8")
