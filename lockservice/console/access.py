"""Gives people access to a tenant's console, and takes it back.

One rule: only workers may write memberships; a person has one role in a tenant, and keeps her id there for good.
"""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.db import connection, transaction

from lockservice.console.models import StaffTenant, TenantVisit
from lockservice.console.roles import Role
from lockservice.core import ended_access, tenancy
from lockservice.core.tenancy import UNATTRIBUTED
from vendors.port.ids import new_id


class WrongPlace(ValueError):
    """PLATFORM was to be given in a hotel's tenant, or a hotel's role where messages of no tenant lie. Never retried."""


def grant(login: str, tenant_id: str, role: Role, *, password: str | None = None, user_id: str = "") -> StaffTenant:
    """Gives a person a role in a tenant, in place of the one she had. As worker, outside any block. Raises WrongPlace.

    Without such a login one is made, with the password, or without one that works until it is set. `user_id` is the platform's
    id of the person: by it her access ends when the platform deactivates her. Without one she keeps hers, or gets one.
    """
    if (role is Role.PLATFORM) != (tenant_id == UNATTRIBUTED):
        raise WrongPlace(f"{role} in {tenant_id}")
    id_before = _id_before(login, tenant_id)
    user_model = get_user_model()
    made: dict[str, object] = {"is_staff": True}
    if not user_model.objects.filter(username=login).exists():
        made["password"] = make_password(password)  # takes its time, so before the transaction
    with transaction.atomic():
        user, _ = user_model.objects.get_or_create(username=login, defaults=made)
        row, _ = StaffTenant.objects.update_or_create(
            user=user,
            tenant_id=tenant_id,
            defaults={"role": role.value, **({"actor_id": user_id} if user_id else {})},
            create_defaults={"role": role.value, "actor_id": user_id or id_before or new_id("usr")},
        )
    ended_access.forget(tenant_id, row.actor_id)
    return row


def end_for(tenant_id: str, user_id: str) -> None:
    """Ends what a person the platform has deactivated may do in a tenant's console, at her next request.

    Who belongs to no other tenant can sign in no more. Who was given access again since then keeps it: the event that ended it
    may be delivered again. Opens a block; safe to repeat.
    """
    with tenancy.tenant(tenant_id), connection.cursor() as cursor:
        if ended_access.EndedAccess.objects.filter(tenant_id=tenant_id, user_id=user_id).exists():
            cursor.execute("SELECT console_end_access(%s)", [user_id])


def withdraw(login: str, tenant_id: str) -> bool:
    """Takes a person's access to a tenant back, at once for all of her sessions; False when she had none. As worker."""
    count, _ = StaffTenant.objects.filter(user__username=login, tenant_id=tenant_id).delete()
    return bool(count)


def _id_before(login: str, tenant_id: str) -> str:
    """Returns the id under which a person entered the tenant before her access was withdrawn, or none: with another she could
    agree to what she asked for herself. Who had the login before it was made anew is somebody else."""
    user = get_user_model().objects.filter(username=login).first()
    if user is None:
        return ""
    with tenancy.tenant(tenant_id):
        visits = TenantVisit.objects.filter(tenant_id=tenant_id, login=login, at__gte=user.date_joined)
        return visits.order_by("-at", "-id").values_list("actor_id", flat=True).first() or ""
