"""The button with a reason that pages other than a key's have: one act on one row.

One rule: the row is looked up in the person's tenant before anything is asked, so another tenant's id is 404.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect

from lockservice.console.acting import ReasonForm, perform
from lockservice.console.read_only import ReadOnlyAdmin, page_url
from lockservice.console.session import Desk, desk_of
from lockservice.core import tenancy


def press(
    page: ReadOnlyAdmin,
    request: HttpRequest,
    object_id: str,
    *,
    permission: str,
    action: str,
    act: Callable[[Desk], Any],
    done: Callable[[Any], Any],
) -> HttpResponse:
    """Runs the act with the reason that was typed, records it, and leads back to the row's page with what came of it."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    desk = desk_of(request)
    with tenancy.tenant(desk.tenant_id):
        row = page.row(request, object_id)
        if not desk.may(permission):
            raise PermissionDenied
        form = ReasonForm(request.POST)
        if not form.is_valid():
            return page.page(request, row, {"press_form": form}, status=400).render()
    outcome = perform(desk, action, str(row.pk), form.cleaned_data["reason"], lambda: act(desk))
    if outcome.is_done:
        messages.success(request, done(outcome.value))
    else:
        messages.error(request, f"{outcome.code}: {outcome.detail}")
    return HttpResponseRedirect(page_url(page.model, row.pk))
