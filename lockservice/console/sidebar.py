"""The side bar: where one can go, with the numbers that want attention.

One rule: a number is shown only where it calls for somebody; a quiet house has a quiet side bar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.admin import AdminSite
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from credentials.lifecycle import WAITING
from credentials.models import KeyCredential, KeyPolicyRow, Reservation
from devices.models import BreakGlass, LockDevice, SecretDue, VendorInstallation
from lockservice.console.models import StaffAct, TenantVisit
from lockservice.console.read_only import list_url
from lockservice.console.roles import Right
from lockservice.console.session import Desk
from sagas.models import Alert, DeadLetter, Finding, InboxMessage, OutboxEvent, Saga


@dataclass(frozen=True, slots=True)
class Link:
    """One entry. `count` None shows no number; `loud` paints it."""

    text: Promise | str
    url: str
    here: bool
    count: int | None = None
    loud: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A group of entries under a heading."""

    title: Promise | str
    links: list[Link]


_SECTIONS: list[tuple[Any, list[tuple[Any, Any]]]] = [
    (_("Keys"), [(KeyCredential, _("Keys")), (Reservation, _("Stays"))]),
    (_("House"), [(LockDevice, _("Locks")), (VendorInstallation, _("Lock systems")), (KeyPolicyRow, _("Key policies"))]),
    (_("Work"), [(Alert, _("Alerts")), (Finding, _("Findings")), (Saga, _("Sagas"))]),
    (_("Messages"), [(OutboxEvent, _("Outbox")), (InboxMessage, _("Inbox")), (DeadLetter, _("Dead letters"))]),
    (_("Secrets"), [(SecretDue, _("Rotation")), (BreakGlass, _("Break-glass"))]),
    (_("Record"), [(StaffAct, _("Acts")), (TenantVisit, _("Visits"))]),
]


def sections(site: AdminSite, request: HttpRequest, desk: Desk) -> list[Section]:
    """Returns the groups this person may see. Inside the tenant's block."""
    numbers = _numbers(desk)
    index = reverse("admin:index")
    found = [Section("", [Link(_("Tonight"), index, request.path == index)])]
    for title, entries in _SECTIONS:
        links = [
            _link(request, model, text, numbers)
            for model, text in entries
            if site.is_registered(model) and site.get_model_admin(model).has_view_permission(request)
        ]
        if links:
            found.append(Section(title, links))
    if desk.may(Right.COSTS_READ):
        costs = reverse("admin:costs")
        found.append(Section(_("Money"), [Link(_("Costs"), costs, request.path == costs)]))
    return found


def _link(request: HttpRequest, model: Any, text: Any, numbers: dict[Any, tuple[int, bool]]) -> Link:
    url = list_url(model)
    count, loud = numbers.get(model, (0, False))
    return Link(text, url, request.path.startswith(url), count or None, loud)


def _numbers(desk: Desk) -> dict[Any, tuple[int, bool]]:
    mine = {"tenant_id": desk.tenant_id}
    return {
        KeyCredential: (KeyCredential.objects.filter(**mine, state__in=sorted(WAITING)).exclude(waiting_for="").count(), False),
        Alert: (Alert.objects.filter(**mine, acknowledged_at__isnull=True).count(), True),
        Finding: (Finding.objects.filter(**mine, status="open").count(), True),
        Saga: (Saga.objects.filter(**mine, status="dead").count(), True),
        OutboxEvent: (OutboxEvent.objects.filter(**mine, blocked=True).count(), True),
        DeadLetter: (DeadLetter.objects.filter(**mine, replayed_at__isnull=True).count(), True),
        SecretDue: (SecretDue.objects.filter(**mine, done_at__isnull=True, due_at__lte=Now()).count(), True),
        BreakGlass: (BreakGlass.objects.filter(**mine, state__in=["requested", "approved", "revealed"]).count(), True),
        LockDevice: (LockDevice.objects.filter(**mine, active=True, online=False).count(), False),
    }
