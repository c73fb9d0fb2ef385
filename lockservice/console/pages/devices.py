"""The house: locks with their health and what they can do, and lock systems without their secrets.

One rule: sealed settings and secrets are never opened here; a page says only that they are set.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import get_language_bidi
from django.utils.translation import gettext_lazy as _

from credentials.models import CredentialDoor, KeyCredential
from devices import health as readings
from devices.health_rules import utc_text
from devices.models import CallCount, LockDevice, VendorInstallation
from lockservice.console import cells, health_picture, story, words
from lockservice.console.buttons import press
from lockservice.console.filters import ChoiceFilter, PropertyFilter
from lockservice.console.read_only import ReadOnlyAdmin, list_url, page_url
from lockservice.console.roles import Right
from lockservice.console.session import Desk, desk_of
from lockservice.console.site import opens_own_blocks
from lockservice.core import clock
from lockservice.core.auth_permissions import Permission
from sagas import device_acts

LOW_BATTERY_PERCENT = 20
SPANS_DAYS = (1, 7, 30, 90)
DEFAULT_DAYS = 30
DECOMMISSION = "decommission"
SKEW_SHOWN_MS = 60_000
"""A lock's clock that is off by a minute or more opens and closes windows at the wrong time; less is not worth a warning."""

CAPABILITIES = {
    "pin": _("PIN"), "mobile_key": _("phone"), "card_encoding": _("card"), "qr": _("QR code"), "nfc": _("NFC tag"),
    "remote_issue": _("issued from afar"), "remote_revoke": _("revoked from afar"), "offline_issuance": _("issued offline"),
    "scope_floors": _("by floor"), "scope_areas": _("by area"),
}  # fmt: skip


class HealthFilter(ChoiceFilter):
    """By what is wrong with a lock."""

    title = _("health")
    parameter_name = "health"
    options = [
        ("offline", _("not reached")),
        ("battery", _("battery low")),
        ("clock", _("clock off")),
        ("retired", _("not in use")),
    ]

    def narrow(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        if value == "battery":
            return queryset.filter(battery_percent__lt=LOW_BATTERY_PERCENT)
        if value == "clock":
            right = Q(clock_skew_ms__isnull=True) | Q(clock_skew_ms__range=(-SKEW_SHOWN_MS, SKEW_SHOWN_MS))
            return queryset.filter(~right | Q(standing__has_key="zone"))
        return queryset.filter(online=False, active=True) if value == "offline" else queryset.filter(active=False)


@admin.register(LockDevice)
class DeviceAdmin(ReadOnlyAdmin):
    """Locks of the tenant."""

    permission = Permission.DEVICE_READ
    plural = _("Locks")
    detail_template = "console/device.html"
    list_display = (
        "lock",
        "rooms_cell",
        "health_cell",
        "battery_cell",
        "skew_cell",
        "can_cell",
        "gateway_cell",
        "seen_cell",
        "system_cell",
    )
    list_display_links = None
    list_filter = (HealthFilter, PropertyFilter)
    search_fields = ("=id", "label__icontains", "=external_id")
    search_help_text = _("Name on the door, id, or the vendor's id")
    ordering = ("property_id", "label")
    list_select_related = ("installation",)

    def prepare(self, desk: Desk, rows: list[Any]) -> None:
        """Names the rooms of the page's locks."""
        labels = story.room_labels(desk.tenant_id, [room for row in rows for room in row.rooms])
        for row in rows:
            row.places = [*(labels.get(room, room) for room in row.rooms), *row.areas]

    @admin.display(description=_("lock"), ordering="label")
    def lock(self, row: Any) -> str:
        return cells.code(row.label, page_url(LockDevice, row.id))

    @admin.display(description=_("rooms and areas"))
    def rooms_cell(self, row: Any) -> str:
        return cells.chips(row.places)

    @admin.display(description=_("health"), ordering="online")
    def health_cell(self, row: Any) -> str:
        return cells.badge(health(row))

    @admin.display(description=_("battery"), ordering="battery_percent")
    def battery_cell(self, row: Any) -> str:
        return cells.badge(battery(row)) if row.battery_percent is not None else cells.NOTHING

    @admin.display(description=_("clock"), ordering="clock_skew_ms")
    def skew_cell(self, row: Any) -> str:
        found = skew(row)
        return cells.badge(found) if found is not None else cells.NOTHING

    @admin.display(description=_("can"))
    def can_cell(self, row: Any) -> str:
        return cells.chips([str(text) for name, text in list(CAPABILITIES.items())[:5] if row.capabilities.get(name)])

    @admin.display(description=_("gateway"), ordering="gateway")
    def gateway_cell(self, row: Any) -> str:
        return cells.code(row.gateway)

    @admin.display(description=_("last seen"), ordering="last_seen_at")
    def seen_cell(self, row: Any) -> str:
        return cells.when(row.last_seen_at, row.desk.zone_of(row.property_id))

    @admin.display(description=_("lock system"))
    def system_cell(self, row: Any) -> str:
        return cells.short(row.installation_id, page_url(VendorInstallation, row.installation_id))

    def get_urls(self) -> list[URLPattern]:
        """Adds the button."""
        view = self.admin_site.admin_view(self.decommission_view)
        return [path("<str:object_id>/decommission/", view, name="devices_lockdevice_decommission"), *super().get_urls()]

    @opens_own_blocks
    def decommission_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Takes the lock out of service for good."""
        return press(
            self, request, object_id, permission=Right.DEVICE_DECOMMISSION, action=DECOMMISSION,
            act=lambda desk: device_acts.decommission_device(desk.tenant_id, object_id, desk.actor), done=retired,
        )  # fmt: skip

    def page(self, request: HttpRequest, row: Any, extra: dict[str, Any], status: int = 200) -> TemplateResponse:
        """Renders the lock's page with its health over the days asked for."""
        asked = request.GET.get("days", "")
        days = int(asked) if asked in {str(number) for number in SPANS_DAYS} else DEFAULT_DAYS
        now = clock.now()
        rows = readings.history(row.tenant_id, row.id, now - timedelta(days=days), now)
        zone = desk_of(request).zone_of(row.property_id)
        picture = health_picture.draw(rows, now - timedelta(days=days), now, zone, mirrored=get_language_bidi())
        spans = [(number, f"?days={number}", number == days) for number in SPANS_DAYS]
        return super().page(request, row, {"health_picture": picture, "spans": spans, **extra}, status)

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """The lock's health, abilities, and the keys it is known to hold."""
        doors = CredentialDoor.objects.filter(tenant_id=row.tenant_id, device_id=row.id).exclude(
            state__in=["none", "absent"], verb=""
        )
        ids = list(doors.values_list("credential_id", flat=True)[:200])
        keys = KeyCredential.objects.filter(tenant_id=row.tenant_id, id__in=ids).order_by("-valid_from")
        labels = story.room_labels(row.tenant_id, list(row.rooms))
        return {
            "title": row.label,
            "zone": desk.zone_of(row.property_id),
            "house": desk.houses.get(row.property_id, row.property_id),
            "places": [*(labels.get(room, room) for room in row.rooms), *row.areas],
            "health": health(row),
            "battery": battery(row) if row.battery_percent is not None else None,
            "skew": skew(row),
            "abilities": [(text, bool(row.capabilities.get(name))) for name, text in CAPABILITIES.items()],
            "system_url": page_url(VendorInstallation, row.installation_id),
            **retire_context(desk, row, "devices_lockdevice_decommission"),
            "keys": [
                (key, page_url(KeyCredential, key.id), words.word(words.STATES, key.state), words.word(words.KINDS, key.kind))
                for key in keys
            ],
        }


@admin.register(VendorInstallation)
class InstallationAdmin(ReadOnlyAdmin):
    """Lock systems of the tenant."""

    permission = Permission.DEVICE_READ
    plural = _("Lock systems")
    detail_template = "console/installation.html"
    list_display = ("system", "vendor_cell", "house_cell", "environment", "use_cell", "locks_cell")
    list_display_links = None
    list_filter = (PropertyFilter,)
    search_fields = ("=id", "label__icontains", "=vendor")
    ordering = ("label",)

    def get_queryset(self, request: Any) -> QuerySet[Any]:
        """Leaves what is sealed in the database."""
        return super().get_queryset(request).defer("settings_sealed", "secrets_sealed", "data_key_wrapped")

    def prepare(self, desk: Desk, rows: list[Any]) -> None:
        """Counts locks."""
        for row in rows:
            row.locks = LockDevice.objects.filter(tenant_id=desk.tenant_id, installation_id=row.id, active=True).count()

    @admin.display(description=_("lock system"), ordering="label")
    def system(self, row: Any) -> str:
        return cells.code(row.label, page_url(VendorInstallation, row.id))

    @admin.display(description=_("vendor"), ordering="vendor")
    def vendor_cell(self, row: Any) -> str:
        return cells.code(row.vendor)

    @admin.display(description=_("house"), ordering="property_id")
    def house_cell(self, row: Any) -> str:
        return cells.chips([row.desk.houses.get(row.property_id, row.property_id)])

    @admin.display(description=_("in use"), ordering="active")
    def use_cell(self, row: Any) -> str:
        return cells.badge(in_use(row.active))

    @admin.display(description=_("locks"))
    def locks_cell(self, row: Any) -> int:
        return int(row.locks)

    def get_urls(self) -> list[URLPattern]:
        """Adds the button."""
        view = self.admin_site.admin_view(self.decommission_view)
        own = path("<str:object_id>/decommission/", view, name="devices_vendorinstallation_decommission")
        return [own, *super().get_urls()]

    @opens_own_blocks
    def decommission_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Takes the lock system out of service for good."""
        return press(
            self, request, object_id, permission=Right.DEVICE_DECOMMISSION, action=DECOMMISSION,
            act=lambda desk: device_acts.decommission_installation(desk.tenant_id, object_id, desk.actor), done=retired,
        )  # fmt: skip

    def detail_context(self, desk: Desk, row: Any) -> dict[str, Any]:
        """Limits, calls made, locks. Whether secrets are set, never what they are."""
        counts = CallCount.objects.filter(tenant_id=row.tenant_id, installation_id=row.id).order_by("-month")[:6]
        locks = LockDevice.objects.filter(tenant_id=row.tenant_id, installation_id=row.id).order_by("label")
        return {
            "title": row.label,
            "house": desk.houses.get(row.property_id, row.property_id),
            "in_use": in_use(row.active),
            **retire_context(desk, row, "devices_vendorinstallation_decommission"),
            "has_secrets": bool(row.secret_versions)
            or VendorInstallation.objects.filter(tenant_id=row.tenant_id, id=row.id, secrets_sealed__isnull=False).exists(),
            "counts": list(counts),
            "locks": [(lock, page_url(LockDevice, lock.id), health(lock)) for lock in locks],
            "locks_url": list_url(LockDevice),
        }


def retire_context(desk: Desk, row: Any, url: str) -> dict[str, Any]:
    """The button that takes a row out of service, where it is in service and the person may; and who pressed it."""
    can = row.decommissioned_at is None and desk.may(Right.DEVICE_DECOMMISSION)
    acts = story.StaffAct.objects.filter(tenant_id=row.tenant_id, action=DECOMMISSION, subject_id=str(row.pk))
    return {
        "press_url": reverse(f"admin:{url}", args=[row.pk]) if can else "",
        "press_title": _("Take out of service"),
        "zone": desk.zone_of(row.property_id),
        "acts": acts.order_by("-at"),
    }


def retired(done: device_acts.Decommissioned) -> Any:
    """Says what came of it."""
    if not done.is_new:
        return _("It was out of service already.")
    if done.rotate_by is None:
        return _("Out of service; its keys are being taken back.")
    return _("Out of service; its keys are being taken back. Rotate its vendor credentials by %(by)s UTC.") % {
        "by": f"{done.rotate_by:%Y-%m-%d %H:%M}"
    }


def in_use(active: bool) -> words.Word:
    """Says whether something is in use."""
    return words.Word(_("in use"), words.GOOD) if active else words.Word(_("not in use"), words.OVER)


def health(row: LockDevice) -> words.Word:
    """Says whether a lock is reached."""
    if not row.active:
        return words.Word(_("not in use"), words.OVER)
    return words.Word(_("reached"), words.GOOD) if row.online else words.Word(_("not reached"), words.BAD)


def battery(row: LockDevice) -> words.Word:
    """Says how full the battery is."""
    percent = row.battery_percent or 0
    return words.Word(f"{percent} %", words.WARN if percent < LOW_BATTERY_PERCENT else words.GOOD)


def skew(row: LockDevice) -> words.Word | None:
    """Says how far the lock's clock is off, or which other zone's time its vendor takes it for; None where nothing is known."""
    if row.standing.get("zone"):
        return words.Word(utc_text(row.utc_offset_s or 0), words.WARN)
    if row.clock_skew_ms is None:
        return None
    tone = words.WARN if abs(row.clock_skew_ms) >= SKEW_SHOWN_MS else words.GOOD
    return words.Word(f"{row.clock_skew_ms / 1000:+.0f} s", tone)
