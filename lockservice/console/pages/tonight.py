"""The first page: the numbers that want attention, and whether every arrival of tonight gets in.

One rule: it shows what is wrong first, and everything on it leads to where it can be mended.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Min, Q
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from credentials import spreading
from credentials.lifecycle import LIVE, WAITING
from credentials.models import KeyCredential
from lockservice.console import arrivals, cells, session, words
from lockservice.console.pages.bookings import guest_name
from lockservice.console.read_only import list_url
from lockservice.console.roles import Right
from lockservice.console.session import Desk, desk_of
from lockservice.core import clock
from lockservice.core.auth_permissions import Permission
from lockservice.core.heartbeat import SUPERVISOR, Heartbeat
from sagas.models import Alert, DeadLetter, OutboxEvent, Saga

SILENT_AFTER_S = 15
"""A process that gave no sign of life for longer is called silent; it beats every two seconds."""


@dataclass(frozen=True, slots=True)
class Card:
    """One number. `tone` is that of the number as it stands."""

    title: Promise | str
    value: int | str
    tone: str
    url: str
    note: Promise | str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """A process, how long ago it gave a sign of life, and what goes wrong in it."""

    name: str
    word: words.Word
    detail: str


def context(request: HttpRequest) -> dict[str, Any]:
    """Returns what the page shows this person. Inside the tenant's block."""
    desk = desk_of(request)
    now = clock.now()
    real_now = session.real_now()
    houses = arrivals.tonight(desk, now) if desk.may(Permission.KEY_READ) else []
    for house in houses:
        for arrival in house.arrivals:
            arrival.guest = guest_name(desk, arrival.stay)
    return {
        "now": now,
        "clock_moved": abs((now - real_now).total_seconds()) > 60,
        "cards": _cards(desk, now),
        "houses": houses,
        "alerts": list(
            Alert.objects.filter(tenant_id=desk.tenant_id, acknowledged_at__isnull=True).order_by("severity", "-raised_at")[:5]
        )
        if desk.may(Permission.KEY_READ)
        else [],
        "processes": _processes(real_now) if desk.may(Right.QUEUE_READ) else [],
    }


def _cards(desk: Desk, now: datetime) -> list[Card]:
    found: list[Card] = []
    if desk.may(Permission.KEY_READ):
        found += _key_cards(desk)
    if desk.may(Right.QUEUE_READ):
        found.append(_outbox_card(desk, now))
    if desk.may(Right.LETTER_READ):
        letters = DeadLetter.objects.filter(tenant_id=desk.tenant_id, replayed_at__isnull=True).count()
        found.append(Card(_("Dead letters"), letters, _bad(letters), list_url(DeadLetter, "replayed=0")))
    if desk.may(Permission.KEY_READ):
        alerts = Alert.objects.filter(tenant_id=desk.tenant_id, severity="critical", acknowledged_at__isnull=True).count()
        found.append(Card(_("Critical alerts"), alerts, _bad(alerts), list_url(Alert, "severity=critical&seen=0")))
    return found


def _key_cards(desk: Desk) -> list[Card]:
    waiting = Q(state__in=sorted(WAITING))
    untold = Q(id__in=sorted(spreading.bounds(desk.tenant_id, clock.now())))
    concerned = Q(state__in=sorted(LIVE)) | Q(open_work=True) | untold  # of all the keys there ever were, few
    numbers = KeyCredential.objects.filter(concerned, tenant_id=desk.tenant_id).aggregate(
        live=Count("id", filter=Q(state="active")),
        desk=Count("id", filter=waiting & Q(waiting_for="desk")),
        room=Count("id", filter=waiting & Q(waiting_for="room")),
        papers=Count("id", filter=waiting & Q(waiting_for="id")),
        open=Count("id", filter=Q(open_work=True) & ~(waiting & ~Q(waiting_for="")) | untold),
    )
    dead = Saga.objects.filter(tenant_id=desk.tenant_id, status="dead").count()
    return [
        Card(_("Live keys"), numbers["live"], words.GOOD, list_url(KeyCredential, "state=active")),
        Card(_("Wait for the desk"), numbers["desk"], _warn(numbers["desk"]), list_url(KeyCredential, "waiting=desk")),
        Card(_("Wait for a room"), numbers["room"], _warn(numbers["room"]), list_url(KeyCredential, "waiting=room")),
        Card(_("Wait for papers"), numbers["papers"], _warn(numbers["papers"]), list_url(KeyCredential, "waiting=id")),
        Card(
            _("Doors still open"),
            numbers["open"],
            _warn(numbers["open"]),
            list_url(KeyCredential, "open=1"),
            _("keys whose doors differ"),
        ),
        Card(_("Dead sagas"), dead, _bad(dead), list_url(Saga, "status=dead")),
    ]


def _outbox_card(desk: Desk, now: datetime) -> Card:
    waiting = OutboxEvent.objects.filter(tenant_id=desk.tenant_id, published_at__isnull=True).aggregate(
        count=Count("id"), oldest=Min("created_at")
    )
    span = now - waiting["oldest"] if waiting["oldest"] else timedelta(0)
    tone = words.BAD if span > timedelta(minutes=5) else words.WARN if span > timedelta(seconds=30) else words.GOOD
    note = _("oldest: %(age)s") % {"age": cells.age(span)} if waiting["count"] else ""
    return Card(_("Unpublished events"), waiting["count"], tone, list_url(OutboxEvent, "published=0"), note)


def _processes(real_now: datetime) -> list[Process]:
    found = []
    for row in Heartbeat.objects.order_by("name"):
        span = real_now - row.beat_at
        word = words.Word(_("alive"), words.GOOD)
        if row.detail and (row.incarnation == SUPERVISOR or span <= timedelta(seconds=SILENT_AFTER_S)):
            word = words.Word(_("failing"), words.BAD)
        elif span > timedelta(seconds=SILENT_AFTER_S):
            word = words.Word(_("silent"), words.BAD)
        found.append(Process(row.name, word, f"{cells.age(span)} · {row.detail}" if row.detail else cells.age(span)))
    return found


def _warn(count: int) -> str:
    return words.WARN if count else words.GOOD


def _bad(count: int) -> str:
    return words.BAD if count else words.GOOD
