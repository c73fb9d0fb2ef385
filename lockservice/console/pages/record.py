"""The record: what people asked for in the console, and who entered the tenant when.

One rule: rows are appended by the console and shown here; nobody changes them.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from credentials.models import KeyCredential
from lockservice.console import cells, words
from lockservice.console.filters import ChoiceFilter
from lockservice.console.models import StaffAct, TenantVisit
from lockservice.console.read_only import ReadOnlyAdmin, page_url
from lockservice.console.roles import Right, Role
from lockservice.console.session import Desk
from lockservice.core.auth_permissions import Permission


class RoleFilter(ChoiceFilter):
    """By role."""

    title = _("role")
    parameter_name = "role"
    options = [(role.value, role.label) for role in Role]


def role_word(value: str) -> Any:
    """Returns a role's name for people."""
    return Role(value).label if value in set(Role) else value


@admin.register(StaffAct)
class ActAdmin(ReadOnlyAdmin):
    """Acts of the tenant's people and of support."""

    permission = Right.ACTS_READ
    plural = _("Acts")
    detail_template = "console/act.html"
    list_display = ("at_cell", "login", "role_cell", "action_cell", "subject_cell", "reason", "outcome_cell")
    list_display_links = None
    list_filter = (RoleFilter, "action")
    search_fields = ("=login", "=subject_id", "reason__icontains")
    ordering = ("-at", "-id")

    @admin.display(description=_("when"), ordering="at")
    def at_cell(self, row: Any) -> str:
        return cells.when(row.at, row.desk.zone)

    @admin.display(description=_("role"), ordering="role")
    def role_cell(self, row: Any) -> Any:
        return role_word(row.role)

    @admin.display(description=_("what"), ordering="action")
    def action_cell(self, row: Any) -> Any:
        return words.ACTIONS.get(row.action, row.action)

    @admin.display(description=_("on"))
    def subject_cell(self, row: Any) -> str:
        shows = row.subject_id.startswith("key_") and row.desk.may(Permission.KEY_READ)
        return cells.short(row.subject_id, page_url(KeyCredential, row.subject_id) if shows else "")

    @admin.display(description=_("outcome"), ordering="outcome")
    def outcome_cell(self, row: Any) -> str:
        done = row.outcome == "done"
        return cells.badge(words.Word(_("done"), words.GOOD) if done else words.Word(row.outcome, words.BAD))

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """The act in full."""
        return {"zone": desk.zone, "role": role_word(row.role), "action": words.ACTIONS.get(row.action, row.action)}


@admin.register(TenantVisit)
class VisitAdmin(ReadOnlyAdmin):
    """Who entered the tenant in the console."""

    permission = Right.ACTS_READ
    plural = _("Visits")
    detail_template = "console/visit.html"
    list_display = ("at_cell", "login", "role_cell")
    list_display_links = None
    list_filter = (RoleFilter,)
    search_fields = ("=login",)
    ordering = ("-at", "-id")

    @admin.display(description=_("when"), ordering="at")
    def at_cell(self, row: Any) -> str:
        return cells.when(row.at, row.desk.zone)

    @admin.display(description=_("role"), ordering="role")
    def role_cell(self, row: Any) -> Any:
        return role_word(row.role)

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """The visit in full."""
        return {"zone": desk.zone, "role": role_word(row.role)}
