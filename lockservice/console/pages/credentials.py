"""Keys: the list with its filters, the page of one key, and its buttons.

One rule: the page offers what `credentials.lifecycle` allows and the person's role permits; everything else is read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.translation import get_language_bidi
from django.utils.translation import gettext_lazy as _

from credentials import notices, spreading
from credentials.lifecycle import WAITING, State
from credentials.models import CredentialDoor, KeyCredential, Reservation
from lockservice.console import cells, key_forms, state_picture, story, words
from lockservice.console.acting import Outcome, perform
from lockservice.console.filters import ChoiceFilter, PropertyFilter
from lockservice.console.read_only import ReadOnlyAdmin, page_url
from lockservice.console.session import Desk, desk_of
from lockservice.console.site import opens_own_blocks
from lockservice.core import clock, tenancy
from lockservice.core.auth_permissions import Permission
from sagas.flows import card_in_use
from vendors.port.secrets import Pin
from vendors.port.types import CredentialKind


class StateFilter(ChoiceFilter):
    """By state."""

    title = _("state")
    parameter_name = "state"
    options = [(state.value, words.STATES[state].text) for state in State]


class KindFilter(ChoiceFilter):
    """By kind."""

    title = _("kind")
    parameter_name = "kind"
    options = [(kind.value, words.KINDS[kind].text) for kind in CredentialKind]


class WaitingFilter(ChoiceFilter):
    """By what a key waits for."""

    title = _("waiting")
    parameter_name = "waiting"
    options = [("any", _("for somebody")), *((name, word.text) for name, word in words.WAITING.items())]

    def narrow(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        waiting = queryset.filter(state__in=sorted(WAITING))
        return waiting.exclude(waiting_for="") if value == "any" else waiting.filter(waiting_for=value)


class OpenWorkFilter(ChoiceFilter):
    """By whether doors still differ from what they shall carry. A key that waits for somebody is none of these."""

    title = _("open work")
    parameter_name = "open"
    options = [("1", _("doors still open")), ("0", _("all doors agree"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        self._tenant_id = desk_of(request).tenant_id
        return super().queryset(request, queryset)

    def narrow(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        waiting = Q(state__in=sorted(WAITING)) & ~Q(waiting_for="")
        untold = Q(id__in=sorted(spreading.bounds(self._tenant_id, clock.now())))
        if value == "1":
            return queryset.filter(~waiting & Q(open_work=True) | untold)
        return queryset.filter(~untold, open_work=False)


@admin.register(KeyCredential)
class CredentialAdmin(ReadOnlyAdmin):
    """Keys of the tenant."""

    permission = Permission.KEY_READ
    plural = _("Keys")
    detail_template = "console/credential.html"
    list_display = (
        "key",
        "state_cell",
        "kind_cell",
        "rooms_cell",
        "doors_cell",
        "propagation_cell",
        "from_cell",
        "until_cell",
        "stay_cell",
    )
    list_display_links = None
    list_filter = (StateFilter, WaitingFilter, OpenWorkFilter, KindFilter, PropertyFilter)
    search_fields = ("=id", "=reservation_id", "=holder_id", "reservation_id__istartswith", "holder_id__istartswith")
    search_help_text = _("Key, stay or holder, from its first characters; or a room's number")
    ordering = ("-id",)

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> tuple[QuerySet[Any], bool]:
        """Finds by ids, and by a room's number."""
        found, repeats = super().get_search_results(request, queryset, search_term)
        term = search_term.strip()
        if not term:
            return found, repeats
        tenant_id = desk_of(request).tenant_id
        rooms = list(story.Room.objects.filter(tenant_id=tenant_id, label__iexact=term).values_list("room_id", flat=True))
        return (found | queryset.filter(rooms__overlap=rooms) if rooms else found), repeats

    def prepare(self, desk: Desk, rows: list[Any]) -> None:
        """Counts doors and names rooms of the page's keys."""
        doors = CredentialDoor.objects.filter(
            tenant_id=desk.tenant_id, credential_id__in=[row.id for row in rows], dropped=False
        )
        tally: dict[str, Counter[str]] = defaultdict(Counter)
        for key_id, state, verb in doors.values_list("credential_id", "state", "verb"):
            tally[key_id]["all"] += 1
            tally[key_id]["present"] += state == "present" and not verb
        labels = story.room_labels(desk.tenant_id, [room for row in rows for room in row.rooms])
        untold = spreading.bounds(desk.tenant_id, clock.now(), [row.id for row in rows])
        for row in rows:
            row.tally = tally[row.id]
            row.untold_until = untold.get(row.id)
            row.room_names = [labels.get(room, room) for room in row.rooms]

    @admin.display(description=_("key"), ordering="id")
    def key(self, row: Any) -> str:
        return cells.short(row.id, page_url(KeyCredential, row.id))

    @admin.display(description=_("state"), ordering="state")
    def state_cell(self, row: Any) -> str:
        waiting = words.WAITING.get(row.waiting_for) if row.state in WAITING else None
        if waiting:
            return cells.badge(words.Word(_("waits"), words.WARN), str(waiting.text))
        return cells.badge(words.word(words.STATES, row.state))

    @admin.display(description=_("kind"), ordering="kind")
    def kind_cell(self, row: Any) -> Any:
        return words.word(words.KINDS, row.kind).text

    @admin.display(description=_("rooms"))
    def rooms_cell(self, row: Any) -> str:
        return cells.chips(row.room_names)

    @admin.display(description=_("doors"))
    def doors_cell(self, row: Any) -> str:
        text = _("%(present)s of %(all)s") % {"present": row.tally["present"], "all": row.tally["all"]}
        return cells.badge(words.Word(text, words.WARN)) if row.open_work and row.state == State.ACTIVE else text

    @admin.display(description=_("at the doors"), ordering="propagation")
    def propagation_cell(self, row: Any) -> str:
        if row.state in (State.REQUESTED, State.PENDING):
            return cells.NOTHING
        if row.untold_until is not None:
            still = cells.badge(words.Word(_("still opens, at most until"), words.WARN))
            return format_html("{} {}", still, cells.when(row.untold_until, row.desk.zone_of(row.property_id)))
        return cells.badge(words.word(words.PROPAGATION_SHORT, row.propagation))

    @admin.display(description=_("opens from"), ordering="valid_from")
    def from_cell(self, row: Any) -> str:
        return cells.when(row.valid_from, row.desk.zone_of(row.property_id))

    @admin.display(description=_("until"), ordering="valid_until")
    def until_cell(self, row: Any) -> str:
        return cells.when(row.valid_until, row.desk.zone_of(row.property_id))

    @admin.display(description=_("stay"), ordering="reservation_id")
    def stay_cell(self, row: Any) -> str:
        return cells.short(row.reservation_id or "")

    def get_urls(self) -> list[URLPattern]:
        """Adds the buttons' addresses."""
        own = path(
            "<path:object_id>/act/<slug:action>/",
            self.admin_site.admin_view(self.act_view),
            name="credentials_keycredential_act",
        )
        return [own, *super().get_urls()]

    @opens_own_blocks
    def act_view(self, request: HttpRequest, object_id: str, action: str) -> HttpResponse:
        """Carries out one act and leads back to the key, or to its successor."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        desk = desk_of(request)
        button = key_forms.BUTTONS.get(action)
        if button is None:
            raise Http404
        with tenancy.tenant(desk.tenant_id):
            row = self.row(request, object_id)
            if not desk.may_any(button.permissions):
                raise PermissionDenied
            form = button.form(desk, row, request.POST)
            if not form.is_valid():
                return self.page(request, row, {"bound": form}, status=400).render()
        outcome = perform(desk, action, row.id, form.recorded_reason, form.act)
        if outcome.code == notices.CARD_IN_USE:
            return self._ask_again(request, desk, object_id, form, outcome)
        if outcome.is_done and action == "reveal":
            return self._show_pin(request, desk, object_id, outcome.value)
        return self._back(request, action, row.id, outcome)

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """Everything the page of one key tells."""
        lines = story.door_lines(row)
        present, meant = story.count_present(lines)
        labels = story.room_labels(row.tenant_id, list(row.rooms))
        stay = Reservation.objects.filter(tenant_id=row.tenant_id, reservation_id=row.reservation_id or "").first()
        return {
            "zone": desk.zone_of(row.property_id),
            "house": desk.houses.get(row.property_id, row.property_id),
            "state": words.word(words.STATES, row.state),
            "waiting": words.WAITING.get(row.waiting_for) if row.state in WAITING else None,
            "kind": words.word(words.KINDS, row.kind),
            "propagation": words.word(words.PROPAGATION, row.propagation),
            "rooms": [labels.get(room, room) for room in row.rooms],
            "doors": lines,
            "present": present,
            "meant": meant,
            "must_update": notices.card_is_stale(row),
            "warnings": story.warnings_of(row),
            "artifact": story.artifact_of(row),
            "sagas": [
                (saga, words.word(words.SAGAS, saga.status), page_url(type(saga), saga.pk)) for saga in story.sagas_of(row)
            ],
            "story": story.story(row),
            "picture": state_picture.draw(row.state, story.moves_made(row), mirrored=get_language_bidi()),
            "stay_url": page_url(Reservation, stay.pk) if stay and desk.may(Permission.KEY_READ) else "",
            "replaces_url": page_url(KeyCredential, row.replaces) if row.replaces else "",
            "replaced_by_url": page_url(KeyCredential, row.replaced_by) if row.replaced_by else "",
        }

    def page(self, request: HttpRequest, row: Any, extra: dict[str, Any], status: int = 200) -> Any:
        """Adds the buttons, which depend on the person."""
        bound = extra.get("bound")
        buttons = [
            (form, reverse("admin:credentials_keycredential_act", args=[row.id, form.name]), form is bound)
            for form in key_forms.offered(desk_of(request), row, bound)
        ]
        return super().page(request, row, {"buttons": buttons, **extra}, status)

    def _ask_again(
        self, request: HttpRequest, desk: Desk, object_id: str, form: key_forms.KeyForm, outcome: Outcome
    ) -> HttpResponse:
        """Shows the form as it was filled in, with what was told: the person may confirm it now."""
        form.add_error(None, outcome.detail)
        if isinstance(form, key_forms.EncodeForm):
            form.tell(outcome.fields.get(card_in_use.FIELD, ""))
        with tenancy.tenant(desk.tenant_id):
            return self.page(request, self.row(request, object_id), {"bound": form}, status=409).render()

    def _show_pin(self, request: HttpRequest, desk: Desk, object_id: str, pin: Pin | None) -> HttpResponse:
        if pin is None:
            messages.warning(request, _("This key has no PIN any more."))
            return HttpResponseRedirect(page_url(KeyCredential, object_id))
        with tenancy.tenant(desk.tenant_id):
            digits = pin.reveal()
            shown = {"pin": digits, "pin_persian": digits.translate(_PERSIAN)}
            return self.page(request, self.row(request, object_id), shown).render()

    def _back(self, request: HttpRequest, action: str, key_id: str, outcome: Outcome) -> HttpResponse:
        title = words.ACTIONS[action]
        if not outcome.is_done:
            messages.error(request, f"{title}: {outcome.code} ({outcome.detail})")
            return HttpResponseRedirect(page_url(KeyCredential, key_id))
        successor = outcome.value.credential_id if outcome.value.credential_id != key_id else ""
        if outcome.value.is_repeated:
            messages.warning(request, _("%(act)s: this was done already. Nothing was changed now.") % {"act": title})
        elif successor:
            messages.success(request, _("%(act)s: done. This is the new key.") % {"act": title})
        else:
            messages.success(request, _("%(act)s: done.") % {"act": title})
        return HttpResponseRedirect(page_url(KeyCredential, successor or key_id))


_PERSIAN = str.maketrans("0123456789", "۰۱۲۳۴۵۶۷۸۹")
