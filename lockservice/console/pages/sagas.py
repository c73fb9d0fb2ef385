"""Work: sagas with their steps and the button that tries again, and alerts to acknowledge.

One rule: a saga is never edited; trying again makes it due, and the runner does the rest.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _

from credentials.models import KeyCredential, Reservation
from devices.models import LockDevice
from lockservice.console import cells, story, words
from lockservice.console.buttons import press
from lockservice.console.filters import ChoiceFilter, PropertyFilter
from lockservice.console.pages.bookings import guest_name
from lockservice.console.read_only import ReadOnlyAdmin, page_url
from lockservice.console.roles import Right
from lockservice.console.session import Desk
from lockservice.console.site import opens_own_blocks
from lockservice.core import clock
from lockservice.core.auth_permissions import Permission
from sagas import acts, alerts
from sagas.models import Alert, Saga, SagaStatus, SagaStep

RUNBOOKS = {
    "lock/key-revoke": _("The key could not be taken back at the door: send somebody, then retry."),
    "lock/work-lost": _(
        "A door differs from the books. If the guest stands outside, give her another key; then repair open doors on the key."
    ),
    "lock/stay-without-key": _("This stay has begun and has no key: take the guest to her room, then hand over the new key."),
    "lock/key-without-stay": _("This key belongs to no stay. If nobody knows whose it is, revoke it."),
    "lock/lane-stuck": _("Keys at these doors have to wait. Give guests who wait another kind of key, and call support."),
}


class StatusFilter(ChoiceFilter):
    """By what the saga does now; `stuck` is what needs or may soon need a person."""

    title = _("status")
    parameter_name = "status"
    options = [
        ("stuck", _("stuck: dead or tried before")),
        ("dead", words.SAGAS["dead"].text),
        ("retry", words.SAGAS["retry"].text),
        ("due", words.SAGAS["due"].text),
        ("running", words.SAGAS["running"].text),
        ("timer", words.SAGAS["timer"].text),
        ("done", words.SAGAS["done"].text),
    ]

    def narrow(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        if value != "stuck":
            return queryset.filter(status=value)
        tried = Q(attempts__gt=0) & Q(status__in=[SagaStatus.RETRY, SagaStatus.DUE])
        return queryset.filter(Q(status__in=[SagaStatus.DEAD, SagaStatus.RETRY]) | tried)


@admin.register(Saga)
class SagaAdmin(ReadOnlyAdmin):
    """Sagas of the tenant."""

    permission = Permission.KEY_READ
    plural = _("Sagas")
    detail_template = "console/saga.html"
    list_display = (
        "saga",
        "flow_cell",
        "status_cell",
        "age_cell",
        "attempts",
        "error_cell",
        "next_cell",
        "key_cell",
        "priority_cell",
    )
    list_display_links = None
    list_filter = (StatusFilter, "flow")
    search_fields = (
        "=id",
        "=credential_id",
        "=reservation_id",
        "=correlation_id",
        "credential_id__istartswith",
        "reservation_id__istartswith",
    )
    search_help_text = _("Saga, key or stay, from its first characters")
    ordering = ("-position",)

    def prepare(self, desk: Desk, rows: list[Any]) -> None:
        """Notes the hotel's time, for ages."""
        now = clock.now()
        for row in rows:
            row.hotel_now = now

    @admin.display(description=_("saga"), ordering="id")
    def saga(self, row: Any) -> str:
        return cells.short(row.id, page_url(Saga, row.id))

    @admin.display(description=_("does"), ordering="flow")
    def flow_cell(self, row: Any) -> str:
        return cells.code(row.flow)

    @admin.display(description=_("status"), ordering="status")
    def status_cell(self, row: Any) -> str:
        return cells.badge(words.word(words.SAGAS, row.status))

    @admin.display(description=_("age"), ordering="-created_at")
    def age_cell(self, row: Any) -> str:
        return cells.age((row.finished_at or row.hotel_now) - row.created_at)

    @admin.display(description=_("last error"), ordering="error_code")
    def error_cell(self, row: Any) -> str:
        return cells.code(story.plain_code(row.error_code))

    @admin.display(description=_("next try"), ordering="due_at")
    def next_cell(self, row: Any) -> str:
        due = {"retry": row.due_at, "timer": row.hotel_due_at}.get(row.status)
        return cells.when(due, row.desk.zone)

    @admin.display(description=_("key"), ordering="credential_id")
    def key_cell(self, row: Any) -> str:
        return cells.short(row.credential_id or "", page_url(KeyCredential, row.credential_id) if row.credential_id else "")

    @admin.display(description=_("urgency"), ordering="priority")
    def priority_cell(self, row: Any) -> Any:
        return {0: _("security"), 1: _("checkout"), 2: _("issue"), 3: _("bulk")}.get(row.priority, row.priority)

    def get_urls(self) -> list[URLPattern]:
        """Adds the retry button's address."""
        view = self.admin_site.admin_view(self.retry_view)
        return [path("<path:object_id>/retry/", view, name="sagas_saga_retry"), *super().get_urls()]

    @opens_own_blocks
    def retry_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Makes the saga due now."""
        return press(
            self, request, object_id, permission=Right.SAGA_RETRY, action="retry_saga",
            act=lambda desk: acts.retry_saga(desk.tenant_id, object_id), done=lambda _value: _("The saga is due now."),
        )  # fmt: skip

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """The saga's steps and whether it may be tried again."""
        steps = SagaStep.objects.filter(tenant_id=row.tenant_id, saga_id=row.id).order_by("-at", "-step")
        devices = dict(LockDevice.objects.filter(tenant_id=row.tenant_id).values_list("id", "label"))
        stay = Reservation.objects.filter(tenant_id=row.tenant_id, reservation_id=row.reservation_id or "").first()
        waits = row.status in (SagaStatus.DEAD, SagaStatus.RETRY)
        return {
            "zone": desk.zone,
            "status": words.word(words.SAGAS, row.status),
            "steps": [story.step_line(step, devices) for step in steps[:500]],
            "key_url": page_url(KeyCredential, row.credential_id) if row.credential_id else "",
            "stay_url": page_url(Reservation, stay.pk) if stay else "",
            "age": cells.age((row.finished_at or clock.now()) - row.created_at),
            "press_url": reverse("admin:sagas_saga_retry", args=[row.id]) if waits and desk.may(Right.SAGA_RETRY) else "",
            "press_title": _("Try again now"),
            "acts": story.StaffAct.objects.filter(tenant_id=row.tenant_id, subject_id=row.id).order_by("-at")[:50],
        }


class SeverityFilter(ChoiceFilter):
    """By severity."""

    title = _("severity")
    parameter_name = "severity"
    options = [(name, word.text) for name, word in words.SEVERITIES.items()]


class SeenFilter(ChoiceFilter):
    """By whether somebody has seen it."""

    title = _("seen")
    parameter_name = "seen"
    options = [("0", _("not yet")), ("1", _("acknowledged"))]

    def narrow(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        return queryset.filter(acknowledged_at__isnull=value == "0")


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """Alerts of the tenant."""

    permission = Permission.KEY_READ
    plural = _("Alerts")
    detail_template = "console/alert.html"
    list_display = ("alert", "severity_cell", "code_cell", "guest_cell", "detail", "key_cell", "raised_cell", "seen_cell")
    list_display_links = None
    list_filter = (SeenFilter, SeverityFilter, PropertyFilter)
    search_fields = ("=id", "=credential_id", "=reservation_id", "code__icontains")
    ordering = ("-raised_at",)

    def prepare(self, desk: Desk, rows: list[Any]) -> None:
        """Reads the stays that the page's alerts are about."""
        ids = [row.reservation_id for row in rows if row.reservation_id]
        stays = Reservation.objects.filter(tenant_id=desk.tenant_id, reservation_id__in=ids)
        found = {stay.reservation_id: stay for stay in stays}
        for row in rows:
            row.stay = found.get(row.reservation_id)

    @admin.display(description=_("guest"))
    def guest_cell(self, row: Any) -> str:
        return guest_of(row.desk, row, row.stay)

    @admin.display(description=_("alert"), ordering="id")
    def alert(self, row: Any) -> str:
        return cells.short(row.id, page_url(Alert, row.id))

    @admin.display(description=_("severity"), ordering="severity")
    def severity_cell(self, row: Any) -> str:
        return cells.badge(words.word(words.SEVERITIES, row.severity))

    @admin.display(description=_("code"), ordering="code")
    def code_cell(self, row: Any) -> str:
        return cells.code(row.code)

    @admin.display(description=_("key"))
    def key_cell(self, row: Any) -> str:
        return cells.short(row.credential_id, page_url(KeyCredential, row.credential_id) if row.credential_id else "")

    @admin.display(description=_("raised"), ordering="raised_at")
    def raised_cell(self, row: Any) -> str:
        return cells.when(row.raised_at, row.desk.zone_of(row.property_id))

    @admin.display(description=_("seen"), ordering="acknowledged_at")
    def seen_cell(self, row: Any) -> str:
        return cells.when(row.acknowledged_at, row.desk.zone_of(row.property_id))

    def get_urls(self) -> list[URLPattern]:
        """Adds the button's address."""
        view = self.admin_site.admin_view(self.acknowledge_view)
        return [path("<path:object_id>/acknowledge/", view, name="sagas_alert_acknowledge"), *super().get_urls()]

    @opens_own_blocks
    def acknowledge_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Notes that somebody has seen it."""
        return press(
            self, request, object_id, permission=Permission.ALERT_ACKNOWLEDGE, action="acknowledge",
            act=lambda desk: acts.acknowledge_alert(desk.tenant_id, object_id, desk.actor),
            done=lambda _value: _("Noted: you have seen this alert."),
        )  # fmt: skip

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """What to do about it, and the button."""
        names = story.actor_names(row.tenant_id)
        can = row.acknowledged_at is None and desk.may(Permission.ALERT_ACKNOWLEDGE)
        stay = Reservation.objects.filter(tenant_id=row.tenant_id, reservation_id=row.reservation_id).first()
        return {
            "zone": desk.zone_of(row.property_id),
            "guest": guest_of(desk, row, stay),
            "stay_url": page_url(Reservation, stay.pk) if stay else "",
            "severity": words.word(words.SEVERITIES, row.severity),
            "advice": RUNBOOKS.get(row.runbook, ""),
            "seen_by": names.get(row.acknowledged_by, row.acknowledged_by),
            "key_url": page_url(KeyCredential, row.credential_id) if row.credential_id else "",
            "press_url": reverse("admin:sagas_alert_acknowledge", args=[row.id]) if can else "",
            "press_title": _("I have seen it"),
        }


def guest_of(desk: Desk, row: Alert, stay: Reservation | None) -> str:
    """Returns the name of the guest an alert is about, or its mask: by the stay, else as it came with the alert."""
    if stay is not None and stay.guest_sealed is not None:
        return guest_name(desk, stay)
    if row.guest_sealed is None:
        return cells.NOTHING
    shown = desk.may(Right.GUEST_READ)
    return cells.guest(alerts.guest_of(row) if shown else "x", shown=shown)
