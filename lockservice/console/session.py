"""Which tenant a person works in now, and what she may do there.

One rule: the tenant comes from a membership row read again for every request; the session only remembers which one was chosen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connection
from django.http import HttpRequest
from django.utils.translation import gettext

from lockservice.console.models import StaffTenant, TenantVisit
from lockservice.console.roles import Role, permissions_of
from lockservice.core import tenancy
from lockservice.core.places import Property, Tenant
from sagas.acts import Actor

SESSION_KEY = "console_tenant"


@dataclass(frozen=True, slots=True)
class Desk:
    """A person at work in one tenant. `zones` maps property ids to IANA time zones, `houses` to names."""

    tenant_id: str
    tenant_name: str
    role: Role
    actor_id: str
    login: str
    permissions: frozenset[str]
    zones: dict[str, str]
    houses: dict[str, str]

    def may(self, permission: str) -> bool:
        """Says whether the person has the right in this tenant."""
        return permission in self.permissions

    def may_any(self, permissions: Iterable[str]) -> bool:
        """Says whether the person has one of the rights."""
        return not self.permissions.isdisjoint(permissions)

    @property
    def actor(self) -> Actor:
        """The person as acts name her."""
        return Actor(self.actor_id)

    @property
    def zone(self) -> str:
        """The zone for what belongs to no property: that of the houses when they share one, else UTC."""
        zones = set(self.zones.values())
        return zones.pop() if len(zones) == 1 else "UTC"

    def zone_of(self, property_id: str) -> str:
        """Returns the property's time zone, or the tenant's when the property is unknown."""
        return self.zones.get(property_id) or self.zone


@dataclass(frozen=True, slots=True)
class Choice:
    """A tenant a person may enter."""

    tenant_id: str
    name: str
    role: Role


def choices(user: AbstractBaseUser | AnonymousUser) -> list[Choice]:
    """Returns the tenants a person may enter, by name. Opens a block for each."""
    rows = StaffTenant.objects.filter(user__in=[user.pk])
    found = [Choice(row.tenant_id, _tenant_name(row.tenant_id), Role(row.role)) for row in rows]
    return sorted(found, key=lambda choice: choice.name)


def choose(request: HttpRequest, tenant_id: str) -> bool:
    """Enters a tenant and records the visit; False (and nothing changes) without a membership there."""
    rows = StaffTenant.objects.filter(user__in=[request.user.pk])
    row = next((row for row in rows if row.tenant_id == tenant_id), None)
    if row is None:
        return False
    with tenancy.tenant(tenant_id):
        TenantVisit.objects.create(
            tenant_id=tenant_id, actor_id=row.actor_id, login=request.user.get_username(), role=row.role, at=real_now()
        )
    request.session[SESSION_KEY] = tenant_id
    return True


def enter(request: HttpRequest) -> Desk | None:
    """Returns the person's desk; None while she has to choose a tenant. Who belongs to one tenant only is led there."""
    tenant_id = request.session.get(SESSION_KEY)
    rows = list(StaffTenant.objects.filter(user__in=[request.user.pk]))
    row = next((row for row in rows if row.tenant_id == tenant_id), None)
    if row is None and len(rows) == 1 and Role(rows[0].role) not in (Role.SUPPORT, Role.PLATFORM):
        row = rows[0]
        choose(request, row.tenant_id)
    if row is None:
        request.session.pop(SESSION_KEY, None)
        return None
    with tenancy.tenant(row.tenant_id):
        places = list(Property.objects.filter(tenant_id=row.tenant_id).order_by("name"))
        tenant = Tenant.objects.filter(tenant_id=row.tenant_id).first()
    return Desk(
        tenant_id=row.tenant_id,
        tenant_name=_name(row.tenant_id, tenant),
        role=Role(row.role),
        actor_id=row.actor_id,
        login=request.user.get_username(),
        permissions=permissions_of(Role(row.role)),
        zones={place.property_id: place.time_zone for place in places},
        houses={place.property_id: place.name for place in places},
    )


def desk_of(request: HttpRequest) -> Desk:
    """Returns the desk the site put on the request. Raises AttributeError outside the site's views."""
    desk: Desk = request.desk  # type: ignore[attr-defined]
    return desk


def real_now() -> datetime:
    """Returns the database's present real time. Inside a block."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        instant: datetime = cursor.fetchone()[0]
    return instant


def _tenant_name(tenant_id: str) -> str:
    with tenancy.tenant(tenant_id):
        return _name(tenant_id, Tenant.objects.filter(tenant_id=tenant_id).first())


def _name(tenant_id: str, row: Tenant | None) -> str:
    if tenant_id == tenancy.UNATTRIBUTED:
        return gettext("Messages of no tenant")
    return row.name if row else tenant_id
