"""Gives people access to a tenant's console, and takes it back.

One rule: only workers may write memberships; a person has one role in a tenant, and keeps her id there for good.
"""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.db import transaction

from lockservice.console.models import StaffTenant
from lockservice.console.roles import Role
from lockservice.core.tenancy import UNATTRIBUTED
from vendors.port.ids import new_id


class WrongPlace(ValueError):
    """PLATFORM was to be given in a hotel's tenant, or a hotel's role where messages of no tenant lie. Never retried."""


def grant(login: str, tenant_id: str, role: Role, *, password: str | None = None) -> StaffTenant:
    """Gives a person a role in a tenant, in place of the one she had. As worker, outside any block. Raises WrongPlace.

    Without such a login one is made, with the password, or without one that works until it is set.
    """
    if (role is Role.PLATFORM) != (tenant_id == UNATTRIBUTED):
        raise WrongPlace(f"{role} in {tenant_id}")
    with transaction.atomic():
        user, is_new = get_user_model().objects.get_or_create(username=login, defaults={"is_staff": True})
        if is_new:
            user.set_password(password)
            user.save(update_fields=["password"])
        row, _ = StaffTenant.objects.update_or_create(
            user=user,
            tenant_id=tenant_id,
            defaults={"role": role.value},
            create_defaults={"role": role.value, "actor_id": new_id("usr")},
        )
    return row


def withdraw(login: str, tenant_id: str) -> bool:
    """Takes a person's access to a tenant back, at once for all of her sessions; False when she had none. As worker."""
    count, _ = StaffTenant.objects.filter(user__username=login, tenant_id=tenant_id).delete()
    return bool(count)
