"""The bare address: a person is led to the console, a program is told that nothing is served there.

One rule: only who asks for HTML by name is a person; `*/*` is a program.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from lockservice.core.http import plain_not_found


def front_door(request: HttpRequest) -> HttpResponse:
    """Leads a browser on; answers 404 with a problem body otherwise."""
    if request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", ""):
        return HttpResponseRedirect(reverse("admin:index"))
    return plain_not_found(request)
