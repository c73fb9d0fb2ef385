"""Messages: what was promised (outbox), what was taken (inbox), and what could not be handled (dead letters).

One rule: a body is shown masked, and a dead letter is replayed whole or not at all.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _

from credentials.models import KeyCredential
from lockservice.console import cells, masking, story, words
from lockservice.console.buttons import press
from lockservice.console.filters import ChoiceFilter
from lockservice.console.read_only import ReadOnlyAdmin, page_url
from lockservice.console.roles import Right
from lockservice.console.session import Desk, desk_of
from lockservice.console.site import opens_own_blocks
from lockservice.core import clock
from lockservice.core.auth_permissions import Permission
from sagas import acts
from sagas.models import DeadLetter, InboxMessage, OutboxEvent

REPLAYED = {
    "applied": _("Handled: it was applied."),
    "ignored": _("Handled: it was older than what is known, or there was nothing to do."),
    "duplicate": _("Handled: it had been taken before."),
    "buried": _("It failed again and lies among the dead letters with its new reason."),
    "unblocked": _("The events of this key go out again, in order."),
}


class OutboxFilter(ChoiceFilter):
    """By how far an event is."""

    title = _("published")
    parameter_name = "published"
    options = [("0", _("not yet")), ("blocked", _("blocked")), ("1", _("published"))]

    def narrow(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        if value == "blocked":
            return queryset.filter(blocked=True)
        return queryset.filter(published_at__isnull=value == "0")


@admin.register(OutboxEvent)
class OutboxAdmin(ReadOnlyAdmin):
    """Events of the tenant."""

    permission = Right.QUEUE_READ
    plural = _("Outbox")
    detail_template = "console/event.html"
    list_display = ("event", "subject_cell", "key_cell", "sequence", "state_cell", "age_cell", "created_cell", "attempts")
    list_display_links = None
    list_filter = (OutboxFilter,)
    search_fields = ("=id", "=ordering_key", "subject__icontains", "ordering_key__istartswith")
    search_help_text = _("Event, key, or part of the subject")
    ordering = ("-created_at", "-sequence")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who may read keys may read one event of a key; the list is for those who look after queues."""
        desk = desk_of(request)
        return desk.may(self.permission) or (obj is not None and desk.may(Permission.KEY_READ))

    def row(self, request: HttpRequest, object_id: str) -> Any:
        """Looks the event up first, since the right to see it depends on it."""
        found = self.get_object(request, object_id)
        if found is None or not self.has_view_permission(request, found):
            return super().row(request, object_id)
        return found

    def prepare(self, desk: Desk, rows: list[Any]) -> None:
        """Notes the hotel's time, for ages."""
        now = clock.now()
        for row in rows:
            row.hotel_now = now

    @admin.display(description=_("event"), ordering="id")
    def event(self, row: Any) -> str:
        return cells.short(row.id, page_url(OutboxEvent, row.id))

    @admin.display(description=_("subject"), ordering="subject")
    def subject_cell(self, row: Any) -> str:
        return cells.code(row.subject.removeprefix("melmastoon."))

    @admin.display(description=_("key"), ordering="ordering_key")
    def key_cell(self, row: Any) -> str:
        href = page_url(KeyCredential, row.ordering_key) if row.ordering_key.startswith("key_") else ""
        return cells.short(row.ordering_key, href)

    @admin.display(description=_("published"), ordering="published_at")
    def state_cell(self, row: Any) -> str:
        return cells.badge(event_state(row))

    @admin.display(description=_("waits for"))
    def age_cell(self, row: Any) -> str:
        return cells.NOTHING if row.published_at else cells.age(row.hotel_now - row.created_at)

    @admin.display(description=_("written"), ordering="created_at")
    def created_cell(self, row: Any) -> str:
        return cells.when(row.created_at, row.desk.zone)

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """The event as promised, masked."""
        return {
            "zone": desk.zone,
            "state": event_state(row),
            "body": masking.readable(row.body, with_guest=desk.may(Right.GUEST_READ)),
            "key_url": page_url(KeyCredential, row.ordering_key) if row.ordering_key.startswith("key_") else "",
        }


class InboxOutcomeFilter(ChoiceFilter):
    """By what came of a message."""

    title = _("outcome")
    parameter_name = "outcome"
    options = [("applied", _("applied")), ("ignored", _("ignored"))]


@admin.register(InboxMessage)
class InboxAdmin(ReadOnlyAdmin):
    """Messages taken by the tenant."""

    permission = Right.QUEUE_READ
    plural = _("Inbox")
    detail_template = "console/inbox.html"
    list_display = ("message", "subject_cell", "outcome_cell", "received_cell", "detail")
    list_display_links = None
    list_filter = (InboxOutcomeFilter,)
    search_fields = ("=event_id", "subject__icontains")
    ordering = ("-received_at", "-id")

    @admin.display(description=_("message"), ordering="event_id")
    def message(self, row: Any) -> str:
        return cells.short(row.event_id, page_url(InboxMessage, row.pk))

    @admin.display(description=_("subject"), ordering="subject")
    def subject_cell(self, row: Any) -> str:
        return cells.code(row.subject.removeprefix("melmastoon."))

    @admin.display(description=_("outcome"), ordering="outcome")
    def outcome_cell(self, row: Any) -> str:
        return cells.badge(taken(row))

    @admin.display(description=_("received"), ordering="received_at")
    def received_cell(self, row: Any) -> str:
        return cells.when(row.received_at, row.desk.zone)

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """The message's fate and the sagas it caused."""
        caused = story.Saga.objects.filter(tenant_id=row.tenant_id, causation_id=row.event_id)[:50]
        return {
            "title": row.event_id,
            "zone": desk.zone,
            "outcome": taken(row),
            "sagas": [(saga, words.word(words.SAGAS, saga.status), page_url(type(saga), saga.pk)) for saga in caused],
        }


class LetterFilter(ChoiceFilter):
    """By whether it was replayed."""

    title = _("replayed")
    parameter_name = "replayed"
    options = [("0", _("not yet")), ("1", _("replayed"))]

    def narrow(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        return queryset.filter(replayed_at__isnull=value == "0")


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    """Messages that could not be handled. Those of no tenant are seen by platform staff, in the tenant that stands for none."""

    permission = Right.LETTER_READ
    plural = _("Dead letters")
    detail_template = "console/dead_letter.html"
    list_display = ("letter", "code_cell", "detail_cell", "topic_cell", "size_cell", "count", "last_cell", "replayed_cell")
    list_display_links = None
    list_filter = (LetterFilter, "source", "code")
    search_fields = ("=event_id", "=ordering_key", "topic__icontains", "code__icontains")
    ordering = ("-last_at",)

    @admin.display(description=_("letter"), ordering="id")
    def letter(self, row: Any) -> str:
        return cells.code(str(row.pk), page_url(DeadLetter, row.pk))

    @admin.display(description=_("reason"), ordering="code")
    def code_cell(self, row: Any) -> str:
        return cells.code(row.code)

    @admin.display(description=_("detail"))
    def detail_cell(self, row: Any) -> str:
        return masking.readable_line(row.detail)

    @admin.display(description=_("topic"), ordering="topic")
    def topic_cell(self, row: Any) -> str:
        return cells.code(row.topic.removeprefix("melmastoon."))

    @admin.display(description=_("size"))
    def size_cell(self, row: Any) -> str:
        return size(len(row.body))

    @admin.display(description=_("last came"), ordering="last_at")
    def last_cell(self, row: Any) -> str:
        return cells.when(row.last_at, row.desk.zone)

    @admin.display(description=_("replayed"), ordering="replayed_at")
    def replayed_cell(self, row: Any) -> str:
        return cells.when(row.replayed_at, row.desk.zone)

    def get_urls(self) -> list[URLPattern]:
        """Adds the replay button's address."""
        view = self.admin_site.admin_view(self.replay_view)
        return [path("<path:object_id>/replay/", view, name="sagas_deadletter_replay"), *super().get_urls()]

    @opens_own_blocks
    def replay_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Handles the message again and says what came of it."""
        return press(
            self, request, object_id, permission=Right.LETTER_REPLAY, action="replay",
            act=lambda desk: acts.replay_dead_letter(desk.tenant_id, int(object_id), desk.actor),
            done=lambda outcome: REPLAYED.get(outcome, outcome),
        )  # fmt: skip

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """The letter, masked, and the button."""
        can = row.replayed_at is None and desk.may(Right.LETTER_REPLAY)
        names = story.actor_names(row.tenant_id)
        return {
            "title": _("Dead letter %(id)s") % {"id": row.pk},
            "zone": desk.zone,
            "detail": masking.readable_line(row.detail),
            "size": size(len(row.body)),
            "body": masking.readable(row.body, with_guest=desk.may(Right.GUEST_READ)),
            "replayed_by": names.get(row.replayed_by, row.replayed_by),
            "press_url": reverse("admin:sagas_deadletter_replay", args=[row.pk]) if can else "",
            "press_title": _("Handle it again"),
            "acts": story.StaffAct.objects.filter(tenant_id=row.tenant_id, action="replay", subject_id=str(row.pk)).order_by(
                "-at"
            ),
        }


def event_state(row: OutboxEvent) -> words.Word:
    """Says how far an event is."""
    if row.blocked:
        return words.Word(_("blocked"), words.BAD)
    return words.Word(_("published"), words.GOOD) if row.published_at else words.Word(_("waits"), words.BUSY)


def taken(row: InboxMessage) -> words.Word:
    """Says what came of a message."""
    return words.Word(_("applied"), words.GOOD) if row.outcome == "applied" else words.Word(_("ignored"), words.OVER)


def size(count: int) -> str:
    """Returns a number of bytes for people."""
    return f"{count} B" if count < 1024 else f"{count / 1024:.1f} KiB"
