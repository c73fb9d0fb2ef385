"""Break-glass and rotation: who asks to see a vendor secret, who agreed, the one look, and what must be rotated until when.

One rule: a value is put into one answer to one person, which no browser keeps; no row, message, session or log has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _

from devices import break_glass
from devices.break_glass import BreakGlassRefused
from devices.models import BreakGlass, SecretDue, VendorInstallation
from lockservice.console import cells, story, words
from lockservice.console.acting import Outcome, ReasonForm, perform
from lockservice.console.filters import ChoiceFilter, PropertyFilter
from lockservice.console.read_only import ReadOnlyAdmin, list_url, page_url
from lockservice.console.roles import Right
from lockservice.console.session import Desk, desk_of, real_now
from lockservice.console.site import opens_own_blocks
from lockservice.core import tenancy
from lockservice.core.auth_permissions import Permission
from sagas.acts import Refused

REASON_MIN = 10
SOON = timedelta(days=14)

STEP_WORDS = {
    "requested": _("asked for"), "approved": _("agreed"), "refused": _("refused"), "revealed": _("looked at the secret"),
    "closed": _("closed"), "expired": _("time ran out"),
}  # fmt: skip
DUE_KINDS = {
    "secret": _("vendor secret"), "webhook_address": _("webhook address"), "data_key": _("data key"),
    "pairing": _("pairing key"),
}  # fmt: skip
DUE_REASONS = {
    "cadence": _("its turn"), "expiry": _("ends soon"), "decommissioned": _("a lock was taken out of service"),
    "break_glass": _("somebody saw it"), "manual": _("asked for by hand"),
}  # fmt: skip


class AskForm(ReasonForm):
    """Which secret, and for what."""

    secret = forms.ChoiceField(label=_("Secret"))
    incident = forms.RegexField(
        r"^[A-Za-z0-9][A-Za-z0-9._/#-]{2,63}$",
        label=_("Incident"),
        help_text=_("Its number in your incident log: 3 to 64 letters, digits and . _ / # -, a letter or digit first."),
        widget=forms.TextInput(attrs={"dir": "ltr", "autocomplete": "off"}),
    )

    def __init__(self, choices: list[tuple[str, str]], data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        self.fields["secret"].choices = choices  # type: ignore[attr-defined]
        self.fields["reason"].min_length = REASON_MIN  # type: ignore[attr-defined]
        self.fields["reason"].widget.attrs["minlength"] = REASON_MIN
        self.order_fields(["secret", "incident", "reason"])

    def clean_reason(self) -> str:
        """Asks for more than a word: it is read at the audit."""
        reason: str = self.cleaned_data["reason"]
        if len(reason.strip()) < REASON_MIN:
            raise forms.ValidationError(_("Say it in at least ten characters."))
        return reason


class BreakGlassFilter(ChoiceFilter):
    """By state."""

    title = _("state")
    parameter_name = "state"
    options = [(name, word.text) for name, word in words.BREAK_GLASS.items()]


@admin.register(BreakGlass)
class BreakGlassAdmin(ReadOnlyAdmin):
    """Requests to see a vendor secret."""

    permission = Right.ACTS_READ
    plural = _("Break-glass")
    detail_template = "console/break_glass.html"
    change_list_template = "console/break_glass_list.html"
    list_display = (
        "request_cell",
        "state_cell",
        "secret_cell",
        "system_cell",
        "incident_cell",
        "who_cell",
        "agreed_cell",
        "at_cell",
    )
    list_display_links = None
    list_filter = (BreakGlassFilter, PropertyFilter)
    search_fields = ("=id", "=incident", "=installation_id")
    search_help_text = _("Request, incident or lock system")
    ordering = ("-requested_at",)

    def prepare(self, desk: Desk, rows: list[Any]) -> None:
        """Names people and lock systems, counts agreements."""
        names = story.actor_names(desk.tenant_id)
        systems = _systems(desk, [row.installation_id for row in rows])
        for row in rows:
            row.asked_by = names.get(row.requested_by, row.requested_by)
            row.system = systems.get(row.installation_id, row.installation_id)
            row.agreed = len(break_glass.approvers(row))

    @admin.display(description=_("request"))
    def request_cell(self, row: Any) -> str:
        return cells.short(row.id, page_url(BreakGlass, row.id))

    @admin.display(description=_("state"), ordering="state")
    def state_cell(self, row: Any) -> str:
        return cells.badge(words.word(words.BREAK_GLASS, row.state))

    @admin.display(description=_("secret"), ordering="secret_name")
    def secret_cell(self, row: Any) -> str:
        return cells.code(row.secret_name)

    @admin.display(description=_("lock system"))
    def system_cell(self, row: Any) -> str:
        return cells.code(row.system, _system_url(row.desk, row.installation_id))

    @admin.display(description=_("incident"), ordering="incident")
    def incident_cell(self, row: Any) -> str:
        return cells.code(row.incident)

    @admin.display(description=_("asked by"))
    def who_cell(self, row: Any) -> str:
        return cells.chips([row.asked_by])

    @admin.display(description=_("agreed"))
    def agreed_cell(self, row: Any) -> str:
        return cells.code(f"{row.agreed} / {break_glass.APPROVALS}")

    @admin.display(description=_("asked"), ordering="requested_at")
    def at_cell(self, row: Any) -> str:
        return cells.when(row.requested_at, row.desk.zone_of(row.property_id))

    def get_urls(self) -> list[URLPattern]:
        """Adds the form that asks, and the buttons."""
        wrap = self.admin_site.admin_view
        return [
            path("ask/", wrap(self.ask_view), name="devices_breakglass_ask"),
            path("<str:object_id>/act/<str:action>/", wrap(self.act_view), name="devices_breakglass_act"),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Shows the list, with the way to the form for whoever may ask."""
        may_ask = desk_of(request).may(Permission.BREAK_GLASS_REQUEST)
        ask_url = reverse("admin:devices_breakglass_ask") if may_ask else ""
        return super().changelist_view(request, {"ask_url": ask_url, **(extra_context or {})})

    @opens_own_blocks
    def ask_view(self, request: HttpRequest) -> HttpResponse:
        """Shows the form, and opens a request."""
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        desk = desk_of(request)
        if not desk.may(Permission.BREAK_GLASS_REQUEST):
            raise PermissionDenied
        with tenancy.tenant(desk.tenant_id):
            form = AskForm(_choices(desk), request.POST if request.method == "POST" else None)
            if request.method != "POST" or not form.is_valid():
                return self._form(request, form)
        installation_id, _sign, name = form.cleaned_data["secret"].partition("/")
        reason = form.cleaned_data["reason"]
        outcome = _perform(
            desk, "glass_ask", installation_id, reason,
            lambda: break_glass.ask(
                desk.tenant_id, installation_id, name, incident=form.cleaned_data["incident"], reason=reason,
                actor_id=desk.actor_id
            ),
        )  # fmt: skip
        if not outcome.is_done:
            messages.error(request, f"{outcome.code}: {outcome.detail}")
            return HttpResponseRedirect(list_url(BreakGlass))
        messages.success(request, _("Asked. Two others must agree before you can look."))
        return HttpResponseRedirect(page_url(BreakGlass, outcome.value.id))

    @opens_own_blocks
    def act_view(self, request: HttpRequest, object_id: str, action: str) -> HttpResponse:
        """Agrees, refuses, shows the secret once, or closes."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        desk = desk_of(request)
        with tenancy.tenant(desk.tenant_id):
            row = self.row(request, object_id)
            button = _BUTTONS.get(action)
            if button is None or not desk.may(button[0]):
                raise PermissionDenied
            form = ReasonForm(request.POST)
            if not form.is_valid():
                return self.page(request, row, {"bound": action, "press_form": form}, status=400).render()
        reason = form.cleaned_data["reason"]
        outcome = _perform(desk, f"glass_{action}", row.id, reason, lambda: button[1](desk, row.id, reason))
        if not outcome.is_done:
            messages.error(request, f"{outcome.code}: {outcome.detail}")
        elif action == "reveal":
            return self._show(request, desk, row.id, outcome.value.reveal())
        else:
            messages.success(request, _("%(act)s: done.") % {"act": words.ACTIONS[f"glass_{action}"]})
        return HttpResponseRedirect(page_url(BreakGlass, row.id))

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """The request, who agreed, what happened."""
        names = story.actor_names(row.tenant_id)
        agreed = break_glass.approvers(row)
        return {
            "zone": desk.zone_of(row.property_id),
            "house": desk.houses.get(row.property_id, row.property_id),
            "state": words.word(words.BREAK_GLASS, row.state),
            "asked_by": names.get(row.requested_by, row.requested_by),
            "agreed": [names.get(actor, actor) for actor in agreed],
            "needed": break_glass.APPROVALS,
            "system": _systems(desk, [row.installation_id]).get(row.installation_id, row.installation_id),
            "system_url": _system_url(desk, row.installation_id),
            "is_over": row.state in break_glass.OPEN and row.expires_at <= real_now(),
            "steps": [
                (step, STEP_WORDS[step.step], names.get(step.actor_id, step.actor_id)) for step in break_glass.steps_of(row)
            ],
        }

    def page(self, request: HttpRequest, row: Any, extra: dict[str, Any], status: int = 200) -> TemplateResponse:
        """Adds the buttons that this person may press now."""
        bound = extra.get("bound", "")
        buttons = [
            {
                "name": action,
                "title": words.ACTIONS[f"glass_{action}"],
                "url": reverse("admin:devices_breakglass_act", args=[row.id, action]),
                "is_bound": action == bound,
                "danger": action in {"reveal", "refuse"},
            }
            for action in _offered(desk_of(request), row)
        ]
        return super().page(request, row, {"buttons": buttons, **extra}, status)

    def _form(self, request: HttpRequest, form: AskForm) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("Ask to see a vendor secret"),
            "plural": self.plural,
            "list_url": list_url(BreakGlass),
            "form": form,
            "fields": [form[name] for name in form.fields],
        }
        return TemplateResponse(request, "console/break_glass_ask.html", context, status=400 if form.errors else 200).render()

    def _show(self, request: HttpRequest, desk: Desk, request_id: str, value: str) -> HttpResponse:
        with tenancy.tenant(desk.tenant_id):
            answer = self.page(request, self.row(request, request_id), {"secret": value}).render()
        answer["Cache-Control"] = "no-store"
        return answer


@admin.register(SecretDue)
class SecretDueAdmin(ReadOnlyAdmin):
    """What must be rotated until when."""

    permission = Right.ACTS_READ
    plural = _("Rotation")
    detail_template = "console/secret_due.html"
    list_display = ("name_cell", "what_cell", "due_cell", "reason_cell", "system_cell", "who_cell", "until_cell")
    list_display_links = None
    list_filter = (PropertyFilter,)
    search_fields = ("=installation_id", "=name")
    search_help_text = _("Lock system or name of the secret")
    ordering = ("due_at",)

    def get_queryset(self, request: HttpRequest) -> Any:
        """Leaves out what was done."""
        return super().get_queryset(request).filter(done_at__isnull=True)

    def prepare(self, desk: Desk, rows: list[Any]) -> None:
        """Names lock systems, and reads the clock once."""
        now = real_now()
        systems = _systems(desk, [row.installation_id for row in rows])
        for row in rows:
            row.left = row.due_at - now
            row.system = systems.get(row.installation_id, row.installation_id)

    @admin.display(description=_("due"), ordering="due_at")
    def due_cell(self, row: Any) -> str:
        return cells.badge(_left(row.left))

    @admin.display(description=_("what"), ordering="kind")
    def what_cell(self, row: Any) -> Any:
        return DUE_KINDS[row.kind]

    @admin.display(description=_("name"), ordering="name")
    def name_cell(self, row: Any) -> str:
        return cells.code(row.name, page_url(SecretDue, row.id))

    @admin.display(description=_("lock system"))
    def system_cell(self, row: Any) -> str:
        return cells.code(row.system, _system_url(row.desk, row.installation_id))

    @admin.display(description=_("because"), ordering="reason")
    def reason_cell(self, row: Any) -> Any:
        return DUE_REASONS.get(row.reason, row.reason)

    @admin.display(description=_("by whom"))
    def who_cell(self, row: Any) -> Any:
        return _("a person, at the vendor") if row.needs_person else _("by itself")

    @admin.display(description=_("until"), ordering="due_at")
    def until_cell(self, row: Any) -> str:
        return cells.when(row.due_at, row.desk.zone_of(row.property_id))

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """What to do about it."""
        return {
            "zone": desk.zone_of(row.property_id),
            "house": desk.houses.get(row.property_id, row.property_id),
            "left": _left(row.due_at - real_now()),
            "kind": DUE_KINDS[row.kind],
            "because": DUE_REASONS.get(row.reason, row.reason),
            "system": _systems(desk, [row.installation_id]).get(row.installation_id, row.installation_id),
            "system_url": _system_url(desk, row.installation_id),
            "command": _command(row),
        }


def _command(row: SecretDue) -> str:
    """Returns the command that does it; empty where it is done by itself."""
    start = f"manage.py rotate_secrets {row.tenant_id} {row.installation_id}"
    if row.kind == "secret":
        return f"{start} --secret {row.name}=-"
    return f"{start} --webhook-address" if row.kind == "webhook_address" else ""


def _left(left: timedelta) -> words.Word:
    if left < timedelta(0):
        return words.Word(_("late by %(span)s") % {"span": cells.age(-left)}, words.BAD)
    return words.Word(_("%(span)s left") % {"span": cells.age(left)}, words.WARN if left < SOON else words.CALM)


_BUTTONS: dict[str, tuple[str, Callable[[Desk, str, str], Any]]] = {
    "approve": (
        Right.BREAK_GLASS_APPROVE,
        lambda desk, pk, reason: break_glass.approve(desk.tenant_id, pk, actor_id=desk.actor_id),
    ),
    "refuse": (
        Right.BREAK_GLASS_APPROVE,
        lambda desk, pk, reason: break_glass.refuse(desk.tenant_id, pk, actor_id=desk.actor_id, reason=reason),
    ),
    "reveal": (
        Permission.BREAK_GLASS_REQUEST,
        lambda desk, pk, reason: break_glass.reveal(desk.tenant_id, pk, actor_id=desk.actor_id),
    ),
    "close": (
        Permission.BREAK_GLASS_REQUEST,
        lambda desk, pk, reason: break_glass.close(desk.tenant_id, pk, actor_id=desk.actor_id, reason=reason),
    ),
}
"""Every button of a request: the right it needs and what it does."""


def _offered(desk: Desk, row: BreakGlass) -> list[str]:
    if row.state not in break_glass.OPEN or row.expires_at <= real_now():
        return []
    is_mine = row.requested_by == desk.actor_id
    found = []
    if row.state == break_glass.REQUESTED and not is_mine and desk.actor_id not in break_glass.approvers(row):
        found.append("approve")
    if row.state == break_glass.APPROVED and is_mine:
        found.append("reveal")
    if row.state != break_glass.REVEALED and not is_mine:
        found.append("refuse")
    if is_mine:
        found.append("close")
    return [action for action in found if desk.may(_BUTTONS[action][0])]


def _perform(desk: Desk, action: str, subject_id: str, reason: str, act: Callable[[], Any]) -> Outcome:
    """As acts of the desk are performed and recorded; the record has the outcome, never what was returned."""

    def run() -> Any:
        try:
            return act()
        except BreakGlassRefused as refused:
            raise Refused(refused.code, refused.detail) from refused

    return perform(desk, action, subject_id, reason, run)


def _choices(desk: Desk) -> list[tuple[str, str]]:
    """Returns every secret the tenant's lock systems hold, as `installation/name`. Inside the tenant's block."""
    rows = VendorInstallation.objects.filter(tenant_id=desk.tenant_id).order_by("label")
    return [(f"{row.id}/{name}", f"{row.label} · {name}") for row in rows for name in break_glass.held_names(row)]


def _system_url(desk: Desk, installation_id: str) -> str:
    """Returns the address of a lock system's page, or none for who may not read it."""
    return page_url(VendorInstallation, installation_id) if desk.may(Permission.DEVICE_READ) else ""


def _systems(desk: Desk, ids: list[str]) -> dict[str, str]:
    rows = VendorInstallation.objects.filter(tenant_id=desk.tenant_id, id__in=ids)
    return dict(rows.values_list("id", "label"))
