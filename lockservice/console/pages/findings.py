"""Findings: what differs between our books and the doors, and whose an unknown key is.

One rule: a guess is shown with its reasons and decides nothing; a name at the vendor is shown to those who may read guests'
names.
"""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from credentials.models import KeyCredential, Reservation
from devices.models import LockDevice
from lockservice.console import cells, masking, story, words
from lockservice.console.acting import REASON_MAX, ReasonForm, perform
from lockservice.console.filters import ChoiceFilter, PropertyFilter
from lockservice.console.pages.bookings import guest_name
from lockservice.console.read_only import ReadOnlyAdmin, page_url
from lockservice.console.roles import Right
from lockservice.console.session import Desk, desk_of
from lockservice.console.site import opens_own_blocks
from lockservice.console.words import Word
from lockservice.core import tenancy
from lockservice.core.auth_permissions import Permission
from sagas import reconcile_acts
from sagas.models import Finding
from sagas.reconcile import sightings
from sagas.reconcile.compare import UNKNOWN_OWNER
from sagas.reconcile.repair import is_repairable
from sagas.reconcile_acts import MAY_STAY, Decision

KINDS = {
    "orphan": Word(_("left behind by us"), words.BAD),
    "stranger": Word(_("unknown key"), words.WARN),
    "missing": Word(_("missing at the door"), words.BAD),
    "window_differs": Word(_("other window"), words.WARN),
    "present_but_revoked": Word(_("taken back, still there"), words.BAD),
    "not_resting": Word(_("shall rest, opens"), words.BAD),
    "stale_card": Word(_("card must be written again"), words.CALM),
    "duplicate": Word(_("two of one key"), words.WARN),
}
STATUSES = {
    "open": Word(_("open"), words.WARN),
    "ignored": Word(_("known, stays"), words.CALM),
    "resolved": Word(_("closed"), words.OVER),
}
DANGERS = {
    "opens": Word(_("opens a door, and must not"), words.BAD),
    "locked_out": Word(_("a guest cannot get in"), words.BAD),
}
RESOLUTIONS = {
    "gone": _("no longer seen"),
    "repaired": _("repaired"),
    "adopted": _("adopted"),
    "removed": _("its removal was asked for"),
    "known": _("known"),
    "retired": _("the lock is no longer in use"),
}
OWNERS = {
    "stay": _("a guest's"),
    "staff": _("somebody's who works here"),
    "over": _("nobody's any more"),
    "unknown": _("nobody knows"),
}
DECISIONS = {
    "adopt": _("Adopt for a stay"),
    "known": _("It is known and stays"),
    "remove": _("Take it from the door"),
    "repair": _("Repair"),
}
DONE = {
    "adopt": _("Adopted: the stay's checkout takes it from the door."),
    "known": _("Noted: it stays, and is not told again."),
    "remove": _("It is being taken from the door."),
    "repair": _("The repair is under way."),
}
_NUMBER = re.compile(r"\d(?:[ -]?\d){3,}")
"""Four digits and more in a name may be the code itself."""


class KindFilter(ChoiceFilter):
    """By how books and door differ."""

    title = _("kind")
    parameter_name = "kind"
    options = [(value, word.text) for value, word in KINDS.items()]


class StatusFilter(ChoiceFilter):
    """By whether somebody must still look at it."""

    title = _("status")
    parameter_name = "status"
    options = [(value, word.text) for value, word in STATUSES.items()]


class DangerFilter(ChoiceFilter):
    """By what is at stake."""

    title = _("danger")
    parameter_name = "danger"
    options = [(value, word.text) for value, word in DANGERS.items()]


class AdoptForm(ReasonForm):
    """Adopting needs the stay."""

    stay = forms.CharField(label=_("Stay"), max_length=64, widget=forms.TextInput(attrs={"autocomplete": "off", "dir": "ltr"}))
    field_order = ["stay", "reason"]


@admin.register(Finding)
class FindingAdmin(ReadOnlyAdmin):
    """Findings of the tenant."""

    permission = Permission.KEY_READ
    plural = _("Findings")
    detail_template = "console/finding.html"
    list_display = (
        "finding", "kind_cell", "status_cell", "door_cell", "key_cell", "until_cell", "guess_cell", "seen_cell",
    )  # fmt: skip
    list_display_links = None
    list_filter = (StatusFilter, KindFilter, DangerFilter, PropertyFilter)
    search_fields = ("=credential_id", "=device_id", "credential_id__istartswith")
    search_help_text = _("Key or lock")
    ordering = ("-danger", "-first_seen_at", "-id")

    def prepare(self, desk: Desk, rows: list[Any]) -> None:
        """Names the page's locks."""
        ids = {row.device_id for row in rows}
        labels = dict(LockDevice.objects.filter(tenant_id=desk.tenant_id, id__in=ids).values_list("id", "label"))
        for row in rows:
            row.door = labels.get(row.device_id, row.device_id)

    @admin.display(description=_("finding"), ordering="id")
    def finding(self, row: Any) -> str:
        return cells.code(str(row.pk), page_url(Finding, row.pk))

    @admin.display(description=_("kind"), ordering="kind")
    def kind_cell(self, row: Any) -> str:
        return cells.badge(words.word(KINDS, row.kind))

    @admin.display(description=_("status"), ordering="status")
    def status_cell(self, row: Any) -> str:
        return cells.badge(status(row))

    @admin.display(description=_("door"), ordering="device_id")
    def door_cell(self, row: Any) -> str:
        return cells.code(row.door, page_url(LockDevice, row.device_id))

    @admin.display(description=_("key"), ordering="credential_id")
    def key_cell(self, row: Any) -> str:
        return cells.short(row.credential_id, page_url(KeyCredential, row.credential_id) if row.credential_id else "")

    @admin.display(description=_("opens until"), ordering="found_until")
    def until_cell(self, row: Any) -> str:
        return cells.when(row.found_until, row.desk.zone_of(row.property_id))

    @admin.display(description=_("whose"))
    def guess_cell(self, row: Any) -> Any:
        best = row.guesses[0] if row.guesses else None
        return f"{OWNERS.get(best['who'], best['who'])} · {best['confidence']} %" if best else cells.NOTHING

    @admin.display(description=_("first seen"), ordering="first_seen_at")
    def seen_cell(self, row: Any) -> str:
        return cells.when(row.first_seen_at, row.desk.zone_of(row.property_id))

    def get_urls(self) -> list[URLPattern]:
        """Adds the buttons' addresses."""
        view = self.admin_site.admin_view(self.decide_view)
        return [path("<path:object_id>/decide/<slug:action>/", view, name="sagas_finding_decide"), *super().get_urls()]

    @opens_own_blocks
    def decide_view(self, request: HttpRequest, object_id: str, action: str) -> HttpResponse:
        """Carries out a decision and leads back to the finding with what came of it."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        desk = desk_of(request)
        with tenancy.tenant(desk.tenant_id):
            row = self.row(request, object_id)
            if action not in offered(desk, row):
                raise PermissionDenied
            form = form_of(action, request.POST)
            if not form.is_valid():
                return self.page(request, row, {"bound": (action, form)}, status=400).render()
        reason = form.cleaned_data["reason"]
        decision = Decision(desk.actor, reason)
        outcome = perform(
            desk, f"finding.{action}", str(row.pk), reason,
            lambda: _decide(desk, row.pk, action, form.cleaned_data.get("stay", ""), decision),
        )  # fmt: skip
        if outcome.is_done:
            messages.success(request, DONE[action])
        else:
            messages.error(request, f"{DECISIONS[action]}: {outcome.code} ({outcome.detail})")
        return HttpResponseRedirect(page_url(Finding, row.pk))

    def page(self, request: HttpRequest, row: Any, extra: dict[str, Any], status: int = 200) -> Any:
        """Adds the buttons, which depend on the person."""
        bound_action, bound_form = extra.get("bound", ("", None))
        buttons = [
            (
                DECISIONS[action],
                action == "remove",
                bound_form if action == bound_action else form_of(action, initial=_likeliest(row)),
                reverse("admin:sagas_finding_decide", args=[row.pk, action]),
                action == bound_action,
            )
            for action in offered(desk_of(request), row)
        ]
        return super().page(request, row, {"buttons": buttons, **extra}, status)

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """What was seen, what was expected, whose it may be."""
        device = LockDevice.objects.filter(tenant_id=row.tenant_id, id=row.device_id).first()
        names = story.actor_names(row.tenant_id)
        return {
            "title": _("Finding %(id)s") % {"id": row.pk},
            "zone": desk.zone_of(row.property_id),
            "house": desk.houses.get(row.property_id, row.property_id),
            "kind": words.word(KINDS, row.kind),
            "status": status(row),
            "danger": DANGERS.get(row.danger),
            "door": device.label if device else row.device_id,
            "door_url": page_url(LockDevice, row.device_id),
            "key_url": page_url(KeyCredential, row.credential_id) if row.credential_id else "",
            "key_kind": words.word(words.KINDS, row.key_kind),
            "detail": gettext(row.detail),
            "label": label_of(desk, row),
            "guesses": [_shown_guess(desk, item) for item in row.guesses],
            "resolution": RESOLUTIONS.get(row.resolution, row.resolution),
            "decided_by": names.get(row.decided_by, row.decided_by),
            "acts": story.StaffAct.objects.filter(
                tenant_id=row.tenant_id, action__startswith="finding.", subject_id=str(row.pk)
            ).order_by("-at"),
        }


def offered(desk: Desk, row: Finding) -> tuple[str, ...]:
    """Returns what this person may decide about this finding, in the order of the buttons."""
    if row.status == "resolved" or not desk.may(Permission.KEY_REVOKE_SECURITY):
        return ()
    found = []
    if row.kind in UNKNOWN_OWNER and row.ref_sealed is not None:
        found += ["adopt"] if desk.may(Permission.KEY_ISSUE) else []
        found += ["remove"]
    if row.status == "open":
        found += ["repair"] if is_repairable(row) else []
        found += ["known"] if row.kind in MAY_STAY else []
    return tuple(found)


def form_of(action: str, data: Any = None, initial: dict[str, str] | None = None) -> ReasonForm:
    """Returns the form of a decision."""
    form = AdoptForm if action == "adopt" else ReasonForm
    return form(data, initial=initial, auto_id=f"{action}-%s")


def status(row: Finding) -> Word:
    """Says whether somebody must still look at it."""
    return words.word(STATUSES, row.status)


def label_of(desk: Desk, row: Finding) -> str:
    """Returns what the vendor calls the key, to those who may read guests' names; digits and addresses in it are masked."""
    if not desk.may(Right.GUEST_READ):
        return cells.GUEST_MASK if row.label_sealed is not None else ""
    label = sightings.unseal(row, sightings.LABEL)
    return _NUMBER.sub(cells.GUEST_MASK, masking.readable_line(label))[:REASON_MAX] if label else ""


def _likeliest(row: Finding) -> dict[str, str]:
    stays = [item["reservationId"] for item in row.guesses if item.get("reservationId")]
    return {"stay": stays[0]} if stays else {}


def _shown_guess(desk: Desk, item: dict[str, Any]) -> dict[str, Any]:
    stay = Reservation.objects.filter(tenant_id=desk.tenant_id, reservation_id=item.get("reservationId") or "").first()
    return {
        "owner": OWNERS.get(item["who"], item["who"]),
        "confidence": item["confidence"],
        "why": [gettext(reason) for reason in item["why"]],
        "stay": item.get("reservationId", ""),
        "stay_url": page_url(Reservation, stay.pk) if stay is not None else "",
        "guest": guest_name(desk, stay) if stay is not None else "",
    }


def _decide(desk: Desk, finding_id: int, action: str, stay: str, decision: Decision) -> Any:
    if action == "adopt":
        return reconcile_acts.adopt(desk.tenant_id, finding_id, stay, decision)
    if action == "remove":
        return reconcile_acts.remove(desk.tenant_id, finding_id, decision)
    if action == "known":
        return reconcile_acts.know(desk.tenant_id, finding_id, decision)
    return reconcile_acts.repair_now(desk.tenant_id, finding_id, decision)
