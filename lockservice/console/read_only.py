"""The kind of admin page that shows and never edits.

One rule: no add, no change, no delete, for nobody; what may happen to a row happens through its buttons.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import reverse

from lockservice.console.session import Desk, desk_of


class ReadOnlyAdmin(admin.ModelAdmin):
    """A list and a page per row. `permission` is asked for both; `detail_template` shows one row; `plural` heads the list."""

    permission = ""
    detail_template = ""
    plural: Any = ""
    actions = None
    list_per_page = 50
    list_max_show_all = 200
    show_full_result_count = False
    change_list_template = "console/list.html"
    show_facets = admin.ShowFacets.NEVER

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return desk_of(request).may(self.permission)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Narrows a list by its filters only. Any other column, such as one a page masks or seals, answers nothing."""
        for entry in self.list_filter:
            if lookup in ({entry, f"{entry}__isnull"} if isinstance(entry, str) else {getattr(entry, "parameter_name", "")}):
                return True
        return False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Returns the row; None also for what can be no id."""
        return None if "\0" in object_id else super().get_object(request, object_id, from_field)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Names the tenant beside what row-level security does."""
        return super().get_queryset(request).filter(tenant_id=desk_of(request).tenant_id)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Hands the page's rows to `prepare`, so that columns need no query for each row."""
        found = super().get_changelist_instance(request)
        rows = list(found.result_list)
        desk = desk_of(request)
        for row in rows:
            row.desk = desk
        self.prepare(desk, rows)
        found.result_list = rows
        return found

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Shows the list; anything but reading it is refused."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        return super().changelist_view(request, {"plural": self.plural, **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Shows one row of the tenant; 404 for one it does not have, 403 for every attempt to write."""
        if request.method not in ("GET", "HEAD"):
            raise PermissionDenied
        return self.page(request, self.row(request, object_id), extra_context or {})

    def history_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Nothing is edited here, so there is no history of edits."""
        raise Http404

    def row(self, request: HttpRequest, object_id: str) -> Any:
        """Returns the row. Raises Http404 and PermissionDenied."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        found = self.get_object(request, object_id)
        if found is None:
            raise Http404
        return found

    def page(self, request: HttpRequest, row: Any, extra: dict[str, Any], status: int = 200) -> TemplateResponse:
        """Renders the row's page."""
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "row": row,
            "title": str(row.pk),
            "plural": self.plural,
            "list_url": list_url(self.model),
            **self.detail_context(desk_of(request), row),
            **extra,
        }
        return TemplateResponse(request, self.detail_template, context, status=status)

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """What the row's page shows beyond the row."""
        return {}

    def prepare(self, desk: Desk, rows: list[Any]) -> None:
        """Puts on the rows what their columns need. The object is shared by threads: nothing is kept on it."""


def list_url(model: type[Model], query: str = "") -> str:
    """Returns the address of a model's list, with a query string if given."""
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    return f"{address}?{query}" if query else address


def page_url(model: type[Model], pk: Any) -> str:
    """Returns the address of one row's page."""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[pk])
