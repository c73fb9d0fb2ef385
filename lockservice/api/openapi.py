"""How the OpenAPI document is made: every answer that can come is in it.

The one rule: problem answers are added here for all routes alike, from what a route can run into; a route only names its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers

from lockservice.core.http_idempotency import HEADER
from lockservice.core.http_problems import MEDIA_TYPE, PREFIX, PROBLEMS
from lockservice.core.http_strict import shape

ProblemBody = shape(
    "Problem",
    type=serializers.CharField(),
    title=serializers.CharField(),
    status=serializers.IntegerField(min_value=400, max_value=599),
    code=serializers.ChoiceField(choices=[PREFIX + code for code in PROBLEMS]),
    detail=serializers.CharField(),
    retriable=serializers.BooleanField(help_text="Whether the same request may succeed later."),
    traceId=serializers.CharField(help_text="W3C traceparent; quote it when you report the problem."),
    fields=serializers.DictField(child=serializers.CharField(), help_text="What was wrong, by field."),
)

IDEMPOTENCY = OpenApiParameter(
    HEADER, {"type": "string", "pattern": "^[!-~]{1,255}$", "minLength": 1, "maxLength": 255}, OpenApiParameter.HEADER,
    required=True, description="Names the intention. The same request with the same key has one effect and one answer.",
)  # fmt: skip
PREFER = OpenApiParameter(
    "Prefer", {"type": "string", "description": "RFC 7240"}, OpenApiParameter.HEADER,
    description="`wait=5` waits up to 5 seconds for the work to be done. Other preferences are ignored.",
)  # fmt: skip

_MEANING = {
    400: "Not valid; `fields` says what",
    401: "No valid token",
    403: "Your role does not allow this",
    404: "Not there, or not yours",
    405: "This address does not take this method",
    409: "The key's state does not allow this, or the same request still runs",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "The Idempotency-Key was used for another request",
    503: "A part that is needed does not answer; try again",
}


def documented(
    *,
    summary: str,
    answers: dict[int, Any],
    tag: str,
    body: Any = None,
    parameters: Iterable[Any] = (),
    idempotent: bool = False,
    problems: Iterable[int] = (),
    operation_id: str | None = None,
    is_open: bool = False,
    repeat_key: Any = None,
) -> Any:
    """Returns the decorator that documents one method of a route; `problems` are its own beside those of all routes."""
    headers: list[Any] = [IDEMPOTENCY] if idempotent else []
    if repeat_key:
        headers = [OpenApiParameter(HEADER, repeat_key, OpenApiParameter.HEADER, description="Lets the same caller repeat.")]
    codes = {400, 503, *problems} if is_open else {400, 401, 403, 503, *problems}
    if idempotent:
        codes |= {404, 409, 413, 415, 422}
    responses: dict[Any, Any] = {status: _described(answer) for status, answer in answers.items()}
    for code in sorted(codes):
        responses[(code, MEDIA_TYPE)] = OpenApiResponse(ProblemBody, _MEANING[code])
    if parameters and not idempotent:
        responses[(414, "text/html")] = OpenApiResponse({"type": "string"}, "The address is too long for the server")
    return extend_schema(
        operation_id=operation_id,
        summary=summary,
        tags=[tag],
        request=body,
        responses=responses,
        parameters=[*headers, *parameters],
        auth=[] if is_open else None,
    )


def _described(answer: Any) -> Any:
    return answer if isinstance(answer, OpenApiResponse) or answer is None else OpenApiResponse(answer, "")


class RouteSchema(AutoSchema):
    """Closes input objects."""

    def _map_serializer(self, serializer: Any, direction: Any, bypass_extensions: bool = False) -> Any:
        """Adds `additionalProperties: false` to inputs that refuse what they do not know."""
        schema = super()._map_serializer(serializer, direction, bypass_extensions)
        strict = getattr(serializer, "refuses_unknown", False)
        if strict and direction == "request":
            schema["additionalProperties"] = False
        return schema


class BearerScheme(OpenApiAuthenticationExtension):
    """How callers prove who they are."""

    target_class = "lockservice.core.auth.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Returns the scheme as the document carries it."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
