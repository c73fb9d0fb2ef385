"""Key policies: which kind of key a house gives first, when the vendor is asked, how long before and after the stay it opens.

One rule: what is saved is first built as a `KeyKindPolicy`; only what differs from the default is kept, with who changed it.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from credentials import house
from credentials.models import KeyPolicyRow
from credentials.policy import KeyKindPolicy
from devices.models import VendorInstallation
from lockservice.console import story, words
from lockservice.console.acting import Outcome, ReasonForm, record
from lockservice.console.read_only import ReadOnlyAdmin, list_url, page_url
from lockservice.console.session import Desk, desk_of
from lockservice.core import clock
from lockservice.core.auth_permissions import Permission
from lockservice.core.places import Property
from sagas import intake
from sagas.flows import follow_stays
from sagas.outbox import Cause
from vendors.port.types import Area, CredentialKind

_HOURS_MAX = 24 * 365
_RANKS = ("kind_1", "kind_2", "kind_3", "kind_4", "kind_5")
AREAS = {
    Area.LOBBY: _("street door"), Area.GYM: _("gym"), Area.POOL: _("pool"), Area.SPA: _("spa"), Area.PARKING: _("parking"),
}  # fmt: skip


class PolicyForm(ReasonForm):
    """A policy as people edit it. `seen` is what the form was filled from: who saves a page from before does not undo what
    somebody else saved meanwhile."""

    seen = forms.CharField(widget=forms.HiddenInput, required=False)
    kind_1 = forms.ChoiceField(label=_("First choice"))
    kind_2 = forms.ChoiceField(label=_("then"), required=False)
    kind_3 = forms.ChoiceField(label=_("then"), required=False)
    kind_4 = forms.ChoiceField(label=_("then"), required=False)
    kind_5 = forms.ChoiceField(label=_("then"), required=False)
    issue_lead_hours = forms.IntegerField(
        label=_("Ask the vendor this many hours before arrival"),
        help_text=_("Empty: at once."),
        min_value=0, max_value=_HOURS_MAX, required=False,
    )  # fmt: skip
    early_grace_minutes = forms.IntegerField(label=_("Opens this many minutes early"), min_value=0, max_value=24 * 60)
    late_grace_minutes = forms.IntegerField(label=_("Opens this many minutes longer"), min_value=0, max_value=24 * 60)
    no_show_suspend_after_hours = forms.IntegerField(
        label=_("Suspend a no-show's key after this many hours"), min_value=0, max_value=_HOURS_MAX
    )
    pin_length = forms.IntegerField(label=_("Digits of a PIN"), min_value=4, max_value=9)
    pin_length_shared = forms.IntegerField(label=_("Digits of a PIN that also opens a shared door"), min_value=4, max_value=9)
    pin_rest_days = forms.IntegerField(label=_("Days a spent PIN rests"), min_value=0, max_value=3650)
    require_id_verification = forms.BooleanField(label=_("Phone and PIN keys wait until papers were seen"), required=False)
    default_areas = forms.MultipleChoiceField(
        label=_("Shared doors of every stay"),
        choices=list(AREAS.items()),
        widget=forms.CheckboxSelectMultiple,
        required=False,
    )
    fallback_installation_id = forms.ChoiceField(label=_("Lock system to fall back on"), required=False)
    outage_patience_minutes = forms.IntegerField(
        label=_("Minutes a lock system may be away before it is given up"),
        help_text=_("Empty: 15."),
        min_value=0, max_value=24 * 60, required=False,
    )  # fmt: skip

    longest_window_days = forms.IntegerField(
        label=_("Days a key may open at most"), help_text=_("Empty: 366."),
        min_value=1, max_value=3650, required=False,
    )  # fmt: skip
    longest_unbooked_days = forms.IntegerField(
        label=_("The same for a key without a booking"), help_text=_("Empty: 31."),
        min_value=1, max_value=3650, required=False,
    )  # fmt: skip
    most_rooms = forms.IntegerField(
        label=_("Rooms one key may open at most"), help_text=_("Empty: 20."),
        min_value=1, max_value=1000, required=False,
    )  # fmt: skip

    phone_country = forms.CharField(
        label=_("Country of telephone numbers without a country code"),
        help_text=_("Two letters, such as AF. Empty: that of the house's time zone."),
        max_length=2, required=False,
    )  # fmt: skip

    def __init__(self, policy: KeyKindPolicy, systems: Mapping[str, str], data: Mapping[str, Any] | None = None) -> None:
        self.present = _seen(policy)
        super().__init__(data, initial=_initial(policy) | {"seen": self.present})
        kinds = [(kind.value, words.KINDS[kind].text) for kind in CredentialKind]
        for rank in _RANKS:
            self.fields[rank].choices = kinds if rank == "kind_1" else [("", "–"), *kinds]  # type: ignore[attr-defined]
        self.fields["fallback_installation_id"].choices = [("", _("none")), *systems.items()]  # type: ignore[attr-defined]
        self.order_fields([*(name for name in self.fields if name != "reason"), "reason"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("seen") != self.present:
            raise ValidationError(_("Open the page again."))
        if not self.errors:
            try:
                KeyKindPolicy.from_values(self.values())
            except ValueError as error:
                raise ValidationError(str(error)) from error
        return cleaned

    def values(self) -> dict[str, Any]:
        """Returns what differs from the default, as it is stored."""
        data = self.cleaned_data
        wanted = {name: data[name] for name in _PLAIN}
        wanted["kinds"] = list(dict.fromkeys(data[rank] for rank in _RANKS if data[rank]))
        wanted["default_areas"] = sorted(data["default_areas"])
        wanted["fallback_installation_id"] = data["fallback_installation_id"] or None
        wanted["phone_country"] = data["phone_country"].upper()
        usual = stored(KeyKindPolicy())
        for name in _EMPTY_IS_USUAL:
            wanted[name] = usual[name] if data[name] is None else data[name]
        return {name: value for name, value in wanted.items() if value != usual[name]}


_PLAIN = (
    "issue_lead_hours", "early_grace_minutes", "late_grace_minutes", "no_show_suspend_after_hours", "pin_length",
    "pin_length_shared", "pin_rest_days", "require_id_verification",
)  # fmt: skip

_EMPTY_IS_USUAL = ("outage_patience_minutes", "longest_window_days", "longest_unbooked_days", "most_rooms")


def stored(policy: KeyKindPolicy) -> dict[str, Any]:
    """Returns a policy as the row would store it, defaults included."""
    values = {field.name: getattr(policy, field.name) for field in fields(policy)}
    values["kinds"] = [kind.value for kind in policy.kinds]
    values["default_areas"] = sorted(area.value for area in policy.default_areas)
    return values


def changes(before: KeyKindPolicy, after: KeyKindPolicy) -> str:
    """Returns what changed, name by name, for the record."""
    old, new = stored(before), stored(after)
    return "; ".join(f"{name}: {_text(old[name])} → {_text(new[name])}" for name in new if old[name] != new[name])


@admin.register(KeyPolicyRow)
class PolicyAdmin(ReadOnlyAdmin):
    """One policy for each house; the address names the house, since a house without a row has the default."""

    permission = Permission.KEY_READ

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Lists the houses with what their policy says."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        desk = desk_of(request)
        rows = {row.property_id: row for row in KeyPolicyRow.objects.filter(tenant_id=desk.tenant_id)}
        names = story.actor_names(desk.tenant_id)
        houses = [
            {
                "name": name,
                "zone": desk.zone_of(property_id),
                "url": page_url(KeyPolicyRow, property_id),
                "policy": _policy(rows.get(property_id)),
                "kinds": [words.KINDS[kind].text for kind in _policy(rows.get(property_id)).kinds],
                "row": rows.get(property_id),
                "changed_by": names.get(rows[property_id].changed_by, rows[property_id].changed_by)
                if property_id in rows
                else "",
            }
            for property_id, name in desk.houses.items()
        ]
        context = {**self.admin_site.each_context(request), "opts": self.opts, "title": _("Key policies"), "rows": houses}
        return TemplateResponse(request, "console/policies.html", {**context, **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Shows a house's policy, and saves it for whoever may edit policies."""
        desk = desk_of(request)
        if not self.has_view_permission(request):
            raise PermissionDenied
        known = object_id in desk.houses  # asked of the database only then: the address may hold what can be no id
        place = Property.objects.filter(tenant_id=desk.tenant_id, property_id=object_id).first() if known else None
        if place is None:
            raise Http404
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        if request.method == "POST" and not desk.may(Permission.POLICY_EDIT):
            raise PermissionDenied
        row = KeyPolicyRow.objects.filter(tenant_id=desk.tenant_id, property_id=object_id).first()
        before = _policy(row)
        form = PolicyForm(before, _systems(desk, object_id), request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            return self._save(request, desk, place, before, form)
        return self._form(request, desk, place, row, form)

    def _save(self, request: HttpRequest, desk: Desk, place: Property, before: KeyKindPolicy, form: PolicyForm) -> HttpResponse:
        values = form.values()
        changed = changes(before, KeyKindPolicy.from_values(values))
        if not changed:
            messages.info(request, _("Nothing was changed."))
            return HttpResponseRedirect(page_url(KeyPolicyRow, place.property_id))
        KeyPolicyRow.objects.update_or_create(
            tenant_id=desk.tenant_id, property_id=place.property_id, defaults={"values": values, "changed_by": desk.actor_id}
        )
        record(desk, "policy", place.property_id, form.cleaned_data["reason"], Outcome(detail=changed))
        house.forget()
        walk = follow_stays.start_of(desk.tenant_id, place.property_id, f"policy:{uuid.uuid4().hex}")
        intake.start(desk.tenant_id, [(walk, Cause(correlation_id=place.property_id, actor=desk.actor_id))], clock.now())
        messages.success(request, _("Saved: %(changes)s") % {"changes": changed})
        return HttpResponseRedirect(list_url(KeyPolicyRow))

    def _form(
        self, request: HttpRequest, desk: Desk, place: Property, row: KeyPolicyRow | None, form: PolicyForm
    ) -> HttpResponse:
        if not desk.may(Permission.POLICY_EDIT):
            for field in form.fields.values():
                field.disabled = True
        names = story.actor_names(desk.tenant_id)
        acts = story.StaffAct.objects.filter(tenant_id=desk.tenant_id, action="policy", subject_id=place.property_id)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": place.name,
            "plural": _("Key policies"),
            "list_url": list_url(KeyPolicyRow),
            "form": form,
            "kind_fields": [form[rank] for rank in _RANKS],
            "other_fields": [form[name] for name in form.fields if name not in {*_RANKS, "reason", "seen"}],
            "can_edit": desk.may(Permission.POLICY_EDIT),
            "row": row,
            "zone": desk.zone_of(place.property_id),
            "changed_by": names.get(row.changed_by, row.changed_by) if row else "",
            "acts": acts.order_by("-at")[:20],
        }
        return TemplateResponse(request, "console/policy.html", context, status=400 if form.errors else 200)


def _policy(row: KeyPolicyRow | None) -> KeyKindPolicy:
    return KeyKindPolicy.from_values(row.values if row else {})


def _systems(desk: Desk, property_id: str) -> dict[str, str]:
    rows = VendorInstallation.objects.filter(tenant_id=desk.tenant_id, property_id=property_id, active=True).order_by("label")
    return dict(rows.values_list("id", "label"))


def _initial(policy: KeyKindPolicy) -> dict[str, Any]:
    values = stored(policy)
    kinds = values.pop("kinds")
    return values | {rank: kinds[index] if index < len(kinds) else "" for index, rank in enumerate(_RANKS)}


def _seen(policy: KeyKindPolicy) -> str:
    return hashlib.sha256(json.dumps(stored(policy), sort_keys=True).encode()).hexdigest()[:32]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "–"
    return "–" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)
