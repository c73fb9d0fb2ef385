"""The site: who gets in, which tenant she works in, and the tenant's block around every page.

One rule: a page is read and rendered inside one tenant's block. Views that act open their own blocks, because an act is one
transaction of its own; they are marked with `opens_own_blocks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import SimpleTemplateResponse, TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST
from django.views.i18n import set_language

from lockservice.core import tenancy


def opens_own_blocks(view: Any) -> Any:
    """Marks a view that acts: it is called with a desk, outside any block."""
    view.opens_own_blocks = True
    return view


def without_tenant(view: Any) -> Any:
    """Marks a view that works before a tenant was chosen."""
    view.without_tenant = True
    return view


class ConsoleSite(admin.AdminSite):
    """Django's admin site, entered by tenant."""

    site_header = _("Keys")
    site_title = _("Keys")
    index_title = _("Tonight")
    index_template = "console/index.html"
    login_template = "console/login.html"
    logout_template = "console/signed_out.html"
    password_change_template = "console/password.html"  # noqa: S105 - a file
    password_change_done_template = "console/password_done.html"  # noqa: S105 - a file
    enable_nav_sidebar = False
    site_url = None

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Wraps a view with sign-in, the choice of a tenant, and that tenant's block."""

        def inside(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            from lockservice.console import session

            if getattr(view, "without_tenant", False):
                return view(request, *args, **kwargs)
            desk = session.enter(request)
            if desk is None:
                return HttpResponseRedirect(f"{reverse('admin:choose_tenant')}?{_next(request)}")
            request.desk = desk  # type: ignore[attr-defined]
            try:
                if getattr(view, "opens_own_blocks", False):
                    return view(request, *args, **kwargs)
                return _rendered(desk.tenant_id, lambda: view(request, *args, **kwargs))
            except PermissionDenied:
                return _rendered(desk.tenant_id, lambda: self._refusal(request, 403))
            except Http404:
                return _rendered(desk.tenant_id, lambda: self._refusal(request, 404))

        return super().admin_view(inside, cacheable)

    def get_urls(self) -> list[URLPattern | URLResolver]:
        """Adds the choice of tenant, the language and the index's parts."""
        own: list[URLPattern | URLResolver] = [
            path("tenant/", self.admin_view(self.choose_tenant), name="choose_tenant"),
            path("language/", require_POST(set_language), name="language"),
            path("costs/", self.admin_view(self.costs), name="costs"),
        ]
        return own + super().get_urls()

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Adds the desk and its sidebar to what every page gets."""
        from lockservice.console import sidebar

        desk = getattr(request, "desk", None)
        context = super().each_context(request) if desk else self._bare_context(request)
        context["desk"] = desk
        context["sidebar"] = sidebar.sections(self, request, desk) if desk and tenancy.current_tenant() else []
        return context

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Shows tonight: the numbers, and whether every arrival gets in."""
        from lockservice.console.pages import tonight

        context = {**self.each_context(request), "title": self.index_title, **tonight.context(request), **(extra_context or {})}
        return TemplateResponse(request, self.index_template, context)

    def costs(self, request: HttpRequest) -> HttpResponse:
        """Shows or exports what the vendors cost in a month."""
        from lockservice.console.pages import costs

        return costs.page(self, request)

    @without_tenant
    def choose_tenant(self, request: HttpRequest) -> HttpResponse:
        """Asks for the tenant, and enters it."""
        from lockservice.console import session

        if request.method == "POST":
            if session.choose(request, request.POST.get("tenant", "")):
                target = request.POST.get("next", "")
                safe = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
                return HttpResponseRedirect(target if safe else reverse("admin:index"))
            messages.error(request, _("You have no access to that tenant."))
        context = {
            **self._bare_context(request),
            "title": _("Choose a tenant"),
            "choices": session.choices(request.user),
            "next": request.GET.get("next") or request.POST.get("next", ""),
        }
        return TemplateResponse(request, "console/choose_tenant.html", context)

    @without_tenant
    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Signs out."""
        return super().logout(request, extra_context)

    @without_tenant
    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Changes the own password."""
        return super().password_change(request, extra_context)

    @without_tenant
    def password_change_done(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Says that the password was changed."""
        return super().password_change_done(request, extra_context)

    def _refusal(self, request: HttpRequest, status: int) -> TemplateResponse:
        title = _("Your role does not allow this") if status == 403 else _("There is no such thing in this tenant")
        context = {**self.each_context(request), "title": title}
        return TemplateResponse(request, "console/refusal.html", context, status=status)

    def _bare_context(self, request: HttpRequest) -> dict[str, Any]:
        return {
            "site_title": self.site_title,
            "site_header": self.site_header,
            "site_url": None,
            "has_permission": self.has_permission(request),
            "available_apps": [],
            "is_popup": False,
            "is_nav_sidebar_enabled": False,
            "desk": None,
            "sidebar": [],
        }


def _rendered(tenant_id: str, view: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """Runs and renders a view inside the tenant's block: a template that is rendered later would see no rows."""
    with tenancy.tenant(tenant_id):
        response = view()
        if isinstance(response, SimpleTemplateResponse):
            response.render()
    return response


def _next(request: HttpRequest) -> str:
    return urlencode({"next": request.get_full_path()}) if request.method == "GET" else ""
