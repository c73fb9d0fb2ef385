"""The one place where errors become answers.

One rule: whatever goes wrong ends in a problem body with a stable code; an error nobody foresaw is logged with its trace and
told to the caller without its text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import structlog
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from rest_framework import exceptions
from rest_framework.response import Response

from lockservice.core.auth_keys import KeysUnavailable
from lockservice.core.http_problems import MEDIA_TYPE, Problem, body_of, trace_of
from lockservice.core.outage import is_outage

log = structlog.get_logger(__name__)

_RETRY_AFTER_S = "2"


def problem_handler(error: Exception, context: Mapping[str, Any]) -> Response:
    """Turns an exception of a view into its answer; the setting EXCEPTION_HANDLER of the framework."""
    request = context.get("request")
    trace_id = trace_of(request) if request is not None else ""
    problem = _logged_problem(error, trace_id)
    headers = {**_headers_of(error), **problem.headers}
    return Response(body_of(problem, trace_id), problem.status, headers=headers, content_type=MEDIA_TYPE)


def plain_problem(error: Exception, request: HttpRequest) -> HttpResponse:
    """Turns an exception into its answer as `problem_handler` does, for views outside of the framework."""
    return answer(_logged_problem(error, trace_of(request)), request)


def problem_of(error: Exception) -> Problem:
    """Returns the problem that tells the caller what the exception means."""
    if isinstance(error, Problem):
        return error
    if is_outage(error):
        return unavailable("the database does not answer")
    if isinstance(error, KeysUnavailable):
        return unavailable("tokens cannot be checked at the moment")
    if isinstance(error, exceptions.ValidationError):
        return Problem("VALIDATION_FAILED", "some fields are not valid", flat_fields(error.detail))
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Problem(code, _detail(error))
    return Problem("INTERNAL_ERROR", "it was logged under the trace id")


def unavailable(detail: str) -> Problem:
    """Returns the problem of a part of ours that does not answer now."""
    return Problem("SERVICE_UNAVAILABLE", detail, headers={"Retry-After": _RETRY_AFTER_S})


def flat_fields(detail: Any, path: str = "") -> dict[str, str]:
    """Flattens nested messages to `rooms[0]` → first message. Messages never repeat what stood in the field."""
    if isinstance(detail, Mapping):
        return _merged(flat_fields(item, _step(path, name)) for name, item in detail.items())
    if isinstance(detail, list | tuple):
        if detail and not any(isinstance(item, Mapping | list) for item in detail):
            return {path or "body": str(detail[0])}
        return _merged(flat_fields(item, f"{path}[{number}]") for number, item in enumerate(detail) if item)
    return {path or "body": str(detail)}


def answer(problem: Problem, request: HttpRequest) -> HttpResponse:
    """Returns a problem as a plain answer, for views outside of the framework."""
    body = json.dumps(body_of(problem, trace_of(request)))
    return HttpResponse(body, content_type=MEDIA_TYPE, status=problem.status, headers=problem.headers)


def plain_bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answers what Django itself refuses before any view (a wrong host, too many fields)."""
    code = "PAYLOAD_TOO_LARGE" if isinstance(exception, RequestDataTooBig) else "VALIDATION_FAILED"
    return answer(Problem(code, "the request was refused before it was read"), request)


def plain_not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answers an address that nothing is served at."""
    return answer(Problem("NOT_FOUND", "nothing is served at this address"), request)


def plain_forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answers what Django's own checks forbid."""
    return answer(Problem("FORBIDDEN"), request)


def plain_server_error(request: HttpRequest) -> HttpResponse:
    """Answers an exception that no view caught, such as an outage in a page of the console; Django has logged it."""
    error = sys.exc_info()[1]
    return answer(problem_of(error) if isinstance(error, Exception) else Problem("INTERNAL_ERROR"), request)


def _logged_problem(error: Exception, trace_id: str) -> Problem:
    problem = problem_of(error)
    if problem.code == "INTERNAL_ERROR":
        log.error("api.bug", trace_id=trace_id, exc_info=error)
    return problem


def _headers_of(error: Exception) -> dict[str, str]:
    headers: dict[str, str] = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if (wait := getattr(error, "wait", None)) is not None:
        headers["Retry-After"] = str(int(wait))
    return headers


def _detail(error: Exception) -> str:
    if isinstance(error, exceptions.MethodNotAllowed | Http404):
        return ""
    detail = getattr(error, "detail", "")
    return str(detail) if isinstance(detail, str) else ""


def _step(path: str, name: object) -> str:
    if isinstance(name, int):
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else str(name)


def _merged(parts: Any) -> dict[str, str]:
    merged: dict[str, str] = {}
    for part in parts:
        merged.update(part)
    return merged


_CODES: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.AuthenticationFailed, "UNAUTHENTICATED"),
    (exceptions.NotAuthenticated, "UNAUTHENTICATED"),
    (exceptions.PermissionDenied, "FORBIDDEN"),
    (exceptions.NotFound, "NOT_FOUND"),
    (Http404, "NOT_FOUND"),
    (exceptions.MethodNotAllowed, "METHOD_NOT_ALLOWED"),
    (exceptions.UnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE"),
    (exceptions.Throttled, "RATE_LIMITED"),
    (RequestDataTooBig, "PAYLOAD_TOO_LARGE"),
    (UnreadablePostError, "VALIDATION_FAILED"),  # the caller hung up, or was too slow: nobody reads the answer
    (exceptions.ParseError, "VALIDATION_FAILED"),
    (SuspiciousOperation, "VALIDATION_FAILED"),
    (BadRequest, "VALIDATION_FAILED"),
)
