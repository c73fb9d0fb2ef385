"""The event schemas, byte for byte as they are checked against.

The one rule: what is served is what the registry loaded; no path reaches the disk.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from lockservice.core.http import answer
from lockservice.core.http_problems import Problem
from sagas.events import registry

FOR_S = 300


def event_schema(request: HttpRequest, path: str) -> HttpResponse:
    """Answers with one schema, open to everybody."""
    if request.method not in ("GET", "HEAD"):
        return answer(Problem("METHOD_NOT_ALLOWED", headers={"Allow": "GET, HEAD"}), request)
    found = registry.schema_file(path)
    if found is None:
        return answer(Problem("NOT_FOUND", "no event has this schema"), request)
    headers = {"Cache-Control": f"public, max-age={FOR_S}"}
    return HttpResponse(found, content_type="application/schema+json", headers=headers)
