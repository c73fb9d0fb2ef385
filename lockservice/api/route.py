"""What all routes have in common: who calls, what she may, how an error is told, how long it took.

The one rule: a route names the permission of each of its methods; one without is open to nobody but its own check.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from lockservice.api import metrics
from lockservice.core import crypto
from lockservice.core.auth_permissions import Permission, Principal
from lockservice.core.http_idempotency import Call, read_key
from lockservice.core.http_problems import Problem, trace_of
from sagas.acts import Actor, Refused


class Route(APIView):
    """A route for callers with a token. `needs` maps a method to its permission; None: any caller of a tenant."""

    http_method_names = ["get", "head", "post", "patch"]
    needs: ClassVar[Mapping[str, Permission | None]] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Checks token and permission. Raises NotAuthenticated, AuthenticationFailed, Problem FORBIDDEN."""
        super().initial(request, *args, **kwargs)
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method not in self.needs:
            self.http_method_not_allowed(request)
        permission = self.needs[method]
        if permission is not None:
            require(request, permission)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Serves one request and counts it under the route's pattern."""
        started = time.perf_counter()
        answer = super().dispatch(request, *args, **kwargs)
        match = request.resolver_match
        pattern = match.route if match else ""
        metrics.count(str(request.method), pattern, answer.status_code, time.perf_counter() - started)
        return answer


class OpenRoute(Route):
    """A route without a token."""

    authentication_classes = []
    permission_classes = []
    needs: ClassVar[Mapping[str, Permission | None]] = {"GET": None}


def principal(request: Request) -> Principal:
    """Returns the caller."""
    user: object = request.user
    if not isinstance(user, Principal):
        raise TypeError("a route for callers was opened without a token")
    return user


def require(request: Request, permission: Permission) -> None:
    """Raises Problem FORBIDDEN unless a role of the caller carries the permission."""
    if not principal(request).may(permission):
        raise Problem("FORBIDDEN", f"the permission {permission} is needed")


def actor(request: Request) -> Actor:
    """Returns who acts, for the domain."""
    return Actor(principal(request).id, trace_of(request))


def read_body(request: Request, form: type[Serializer[Any]]) -> dict[str, Any]:
    """Returns the valid input. Raises ValidationError, Problem, ParseError, UnsupportedMediaType."""
    checked = form(data=request.data)
    checked.is_valid(raise_exception=True)
    return dict(checked.validated_data)


def read_nothing(request: Request) -> dict[str, Any]:
    """Returns an empty input; an act without choices takes no body, or an empty object. Raises as `read_body`."""
    if request.data not in ({}, None):
        raise Problem("VALIDATION_FAILED", "this act takes no input", {"body": "must be empty"})
    return {}


def read_query(request: Request, form: type[Serializer[Any]]) -> dict[str, Any]:
    """Returns the valid query. Raises ValidationError."""
    doubled = [name for name, values in request.query_params.lists() if len(values) > 1]
    if doubled:
        raise Problem("VALIDATION_FAILED", "a parameter is given twice", dict.fromkeys(doubled, "is given twice"))
    checked = form(data=request.query_params.dict())
    checked.is_valid(raise_exception=True)
    return dict(checked.validated_data)


def read_call(request: Request, masked: str = "") -> Call:
    """Returns the request as idempotency knows it. Raises Problem when its key is missing or malformed.

    `masked` names a part of the body that takes part as a keyed digest: a digest without a key of six digits is the digits.
    """
    caller = principal(request)
    key = read_key(request.headers)
    body = request.data
    if masked and isinstance(body, Mapping) and masked in body:
        body = {**body, masked: crypto.blind_index("artifact", caller.tenant_id, f"http-call {body[masked]}").hex()}
    return Call(caller.tenant_id, caller.id, key, str(request.method), request.path, body)


def refused(error: Refused) -> Problem:
    """Returns the problem of a refused act."""
    return Problem(error.code, error.detail, error.fields)


def reply(body: Any, status: int = 200, /, **headers: str) -> Response:
    """Returns an answer; `Retry_After` becomes `Retry-After`."""
    return Response(body, status, headers={name.replace("_", "-"): value for name, value in headers.items()})
