"""Every error an API answer can carry: code, status, title, and whether the same request may succeed later (RFC 9457).

One rule: a code stands in PROBLEMS once, with its status; nobody else decides a status. Bodies carry ids and field names, never
a secret and never what stood in a field.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PREFIX: Final = "MELMASTOON.LOCK."
MEDIA_TYPE: Final = "application/problem+json"
TYPE_BASE: Final = "urn:melmastoon:lock:problem:"

# W3C Trace Context §3.2.2: version ff, an all-zero trace id and an all-zero parent id are invalid.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One code's status and title. `retriable` is its usual value; an instance may differ."""

    status: int
    title: str
    retriable: bool = False


PROBLEMS: Final[dict[str, ProblemKind]] = {
    "VALIDATION_FAILED": ProblemKind(400, "The request is not valid"),
    "UNAUTHENTICATED": ProblemKind(401, "A valid token is needed"),
    "WEBHOOK_SIGNATURE_INVALID": ProblemKind(401, "The signature is not valid"),
    "FORBIDDEN": ProblemKind(403, "Your role does not allow this"),
    "NOT_FOUND": ProblemKind(404, "There is no such thing here"),
    "METHOD_NOT_ALLOWED": ProblemKind(405, "This address does not take this method"),
    "TRANSITION_REFUSED": ProblemKind(409, "The key's state does not allow this"),
    "OPERATION_IN_PROGRESS": ProblemKind(409, "The same request is still being worked on", retriable=True),
    "CREDENTIAL_EXPIRED": ProblemKind(409, "The key's window is over"),
    "STAY_ENDED": ProblemKind(409, "The stay has ended; it gets no key"),
    "CARD_IN_USE": ProblemKind(409, "The card still carries another valid key"),
    "DEVICE_NOT_PAIRED": ProblemKind(409, "The vendor does not know this lock"),
    "PAYLOAD_TOO_LARGE": ProblemKind(413, "The body is too large"),
    "UNSUPPORTED_MEDIA_TYPE": ProblemKind(415, "The body must be application/json in UTF-8"),
    "IDEMPOTENCY_KEY_REUSED": ProblemKind(422, "The Idempotency-Key was used for another request"),
    "CERTIFICATE_INVALID": ProblemKind(422, "The certificate is not valid"),
    "RATE_LIMITED": ProblemKind(429, "Too many requests", retriable=True),
    "INTERNAL_ERROR": ProblemKind(500, "Something went wrong here"),
    "VENDOR_UNREACHABLE": ProblemKind(503, "The lock vendor does not answer", retriable=True),
    "KEY_ISSUE_FAILED": ProblemKind(503, "The key could not be given", retriable=True),
    "KEY_REVOKE_FAILED": ProblemKind(503, "The key could not be taken back", retriable=True),
    "CARD_ENCODER_OFFLINE": ProblemKind(503, "No desk is connected", retriable=True),
    "SERVICE_UNAVAILABLE": ProblemKind(503, "The service cannot work at the moment", retriable=True),
}


class Problem(Exception):
    """An answer that is an error. `code` is one of PROBLEMS; `fields` names what was wrong in the input."""

    def __init__(
        self,
        code: str,
        detail: str = "",
        fields: Mapping[str, str] | None = None,
        *,
        retriable: bool | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.fields = dict(fields or {})
        self.retriable = PROBLEMS[code].retriable if retriable is None else retriable
        self.headers = dict(headers or {})

    @property
    def status(self) -> int:
        """Returns the HTTP status of the code."""
        return PROBLEMS[self.code].status


def body_of(problem: Problem, trace_id: str) -> dict[str, Any]:
    """Returns the problem's JSON body."""
    kind = PROBLEMS[problem.code]
    return {
        "type": TYPE_BASE + problem.code.lower().replace("_", "-"),
        "title": kind.title,
        "status": kind.status,
        "code": PREFIX + problem.code,
        "detail": problem.detail or kind.title,
        "retriable": problem.retriable,
        "traceId": trace_id,
        "fields": problem.fields,
    }


def trace_of(request: Any) -> str:
    """Returns the request's W3C traceparent: the caller's if well formed, else a new one, the same for all of the request."""
    plain = getattr(request, "_request", request)
    known: str | None = getattr(plain, "lock_trace", None)
    if known is None:
        sent = plain.META.get("HTTP_TRACEPARENT", "")
        known = sent if _TRACEPARENT.fullmatch(sent) else f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00"
        plain.lock_trace = known
    return known
