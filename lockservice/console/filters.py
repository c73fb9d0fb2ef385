"""Filters of lists with a closed set of choices.

One rule: an unknown value narrows to nothing it should not: it is ignored, never passed on to the database.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from lockservice.console.session import desk_of


class ChoiceFilter(admin.SimpleListFilter):
    """A filter over fixed options; by default the parameter names the column."""

    options: ClassVar[list[tuple[str, Any]]] = []

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(self.options)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None or value not in {str(option) for option, _text in self.lookup_choices}:
            return queryset
        return self.narrow(queryset, value)

    def narrow(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keeps the rows of a known value."""
        return queryset.filter(**{str(self.parameter_name): value})


class PropertyFilter(ChoiceFilter):
    """By house, where a tenant has several."""

    title = _("house")
    parameter_name = "property_id"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        houses = desk_of(request).houses
        return sorted(houses.items(), key=lambda item: item[1]) if len(houses) > 1 else []
