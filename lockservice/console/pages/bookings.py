"""Stays: the projection of bookings, with the guest's name only for those who may read it.

One rule: name and contact are opened only for a person with the right, and contact is never shown in a list.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _

from credentials import arrival_signs, held_shut
from credentials.models import KeyCredential, Reservation
from credentials.reservations import ENDED, holder_of, told_phone
from lockservice.console import arrivals, cells, story, words
from lockservice.console.buttons import press
from lockservice.console.filters import ChoiceFilter, PropertyFilter
from lockservice.console.read_only import ReadOnlyAdmin, page_url
from lockservice.console.roles import Right
from lockservice.console.session import Desk, desk_of
from lockservice.console.site import opens_own_blocks
from lockservice.core import clock, tenancy
from lockservice.core.auth_permissions import Permission
from sagas import acts, verdict
from sagas.models import Saga


class BookingFilter(ChoiceFilter):
    """By status of the booking."""

    title = _("status")
    parameter_name = "status"
    options = [(name, word.text) for name, word in words.BOOKINGS.items()]


@admin.register(Reservation)
class ReservationAdmin(ReadOnlyAdmin):
    """Stays of the tenant."""

    permission = Permission.STAY_READ
    plural = _("Stays")
    detail_template = "console/stay.html"
    list_display = ("stay", "guest_cell", "status_cell", "rooms_cell", "from_cell", "until_cell", "keys_cell", "house_cell")
    list_display_links = None
    list_filter = (BookingFilter, PropertyFilter)
    search_fields = ("=reservation_id", "=guest_id", "reservation_id__istartswith", "guest_id__istartswith")
    search_help_text = _("Stay or guest id, from its first characters")
    ordering = ("-valid_from", "reservation_id")

    def prepare(self, desk: Desk, rows: list[Any]) -> None:
        """Reads keys and room names of the page's stays."""
        ids = [row.reservation_id for row in rows]
        states: dict[str, list[Any]] = defaultdict(list)
        for key in KeyCredential.objects.filter(tenant_id=desk.tenant_id, reservation_id__in=ids).order_by("requested_at"):
            states[key.reservation_id or ""].append(key)
        labels = story.room_labels(desk.tenant_id, [room for row in rows for room in row.rooms])
        for row in rows:
            row.keys = states[row.reservation_id]
            row.room_names = [labels.get(room, room) for room in row.rooms]

    @admin.display(description=_("stay"), ordering="reservation_id")
    def stay(self, row: Any) -> str:
        return cells.short(row.reservation_id, page_url(Reservation, row.pk))

    @admin.display(description=_("guest"))
    def guest_cell(self, row: Any) -> str:
        return guest_name(row.desk, row)

    @admin.display(description=_("status"), ordering="status")
    def status_cell(self, row: Any) -> str:
        return cells.badge(words.word(words.BOOKINGS, row.status))

    @admin.display(description=_("rooms"))
    def rooms_cell(self, row: Any) -> str:
        return cells.chips(row.room_names)

    @admin.display(description=_("arrives"), ordering="valid_from")
    def from_cell(self, row: Any) -> str:
        return cells.when(row.valid_from, row.desk.zone_of(row.property_id))

    @admin.display(description=_("leaves"), ordering="valid_until")
    def until_cell(self, row: Any) -> str:
        return cells.when(row.valid_until, row.desk.zone_of(row.property_id))

    @admin.display(description=_("keys"))
    def keys_cell(self, row: Any) -> str:
        newest = row.keys[-1] if row.keys else None
        return cells.badge(words.word(words.STATES, newest.state)) if newest else cells.NOTHING

    @admin.display(description=_("house"), ordering="property_id")
    def house_cell(self, row: Any) -> str:
        return cells.chips([row.desk.houses.get(row.property_id, row.property_id)])

    def get_urls(self) -> list[URLPattern]:
        """Adds the button's address."""
        view = self.admin_site.admin_view(self.arrived_view)
        return [path("<path:object_id>/arrived/", view, name="credentials_reservation_arrived"), *super().get_urls()]

    @opens_own_blocks
    def arrived_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Notes that the guest has come."""
        with tenancy.tenant(desk_of(request).tenant_id):
            reservation_id = self.row(request, object_id).reservation_id
        return press(
            self, request, object_id, permission=Permission.KEY_ENCODE, action="arrived",
            act=lambda desk: acts.note_arrival(desk.tenant_id, reservation_id, desk.actor),
            done=lambda _value: _("Noted: the guest is here."),
        )  # fmt: skip

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """The stay with its keys and sagas."""
        keys = KeyCredential.objects.filter(tenant_id=row.tenant_id, reservation_id=row.reservation_id).order_by(
            "-requested_at"
        )
        sagas = Saga.objects.filter(tenant_id=row.tenant_id, reservation_id=row.reservation_id).order_by("-position")[:50]
        labels = story.room_labels(row.tenant_id, list(row.rooms))
        may_read = desk.may(Right.GUEST_READ)
        holder = holder_of(row) if may_read else None
        signs = arrival_signs.of_stay(row.tenant_id, row.reservation_id, row.incarnation)
        can = not signs and row.status not in ENDED and desk.may(Permission.KEY_ENCODE)
        found = verdict.of_stays(row.tenant_id, [row], clock.now())[row.reservation_id]
        return {
            "verdict": arrivals.in_words(found.answer, found.why),
            "doors": arrivals.doors_in_words(found, labels),
            "warnings": held_shut.warnings_of(row, keys, clock.now(), story.actor_names(row.tenant_id)),
            "arrived_at": signs[0].at if signs else None,
            "press_url": reverse("admin:credentials_reservation_arrived", args=[row.pk]) if can else "",
            "press_title": words.ACTIONS["arrived"],
            "title": row.reservation_id,
            "zone": desk.zone_of(row.property_id),
            "house": desk.houses.get(row.property_id, row.property_id),
            "status": words.word(words.BOOKINGS, row.status),
            "rooms": [labels.get(room, room) for room in row.rooms],
            "guest": guest_name(desk, row),
            "holder": holder,
            "phone": told_phone(row) if may_read else None,
            "mask": cells.GUEST_MASK,
            "keys": [
                (key, page_url(KeyCredential, key.id), words.word(words.STATES, key.state), words.word(words.KINDS, key.kind))
                for key in keys
            ],
            "sagas": [(saga, words.word(words.SAGAS, saga.status), page_url(Saga, saga.pk)) for saga in sagas],
        }


def guest_name(desk: Desk, row: Reservation) -> str:
    """Returns the guest's name, or its mask."""
    if row.guest_sealed is None:
        return cells.NOTHING
    if not desk.may(Right.GUEST_READ):
        return cells.guest("x", shown=False)
    return cells.guest(holder_of(row).display_name, shown=True)
