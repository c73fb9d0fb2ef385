"""Who may enter which tenant, and what they did there.

One rule: memberships are written by workers only, so a web process cannot widen its own rights; visits and acts are appended
and never changed.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models

from lockservice.console.roles import Role


class StaffTenant(models.Model):
    """A person's membership: one tenant, one role there, and the id (`usr_…`) under which that tenant's records name her."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tenants")
    tenant_id = models.CharField(max_length=64)
    role = models.CharField(max_length=32, choices=[(role.value, role.label) for role in Role])
    actor_id = models.CharField(max_length=64)

    class Meta:
        verbose_name = "membership"
        constraints = [
            models.UniqueConstraint(fields=["user", "tenant_id"], name="staff_once_per_tenant"),
            models.UniqueConstraint(fields=["tenant_id", "actor_id"], name="staff_actor_once_per_tenant"),
        ]

    def __str__(self) -> str:
        return f"{self.actor_id} in {self.tenant_id}"


class TenantVisit(models.Model):
    """A person chose a tenant in the console. `at` is real time. Append-only."""

    tenant_id = models.CharField(max_length=64)
    actor_id = models.CharField(max_length=64)
    login = models.CharField(max_length=150)
    role = models.CharField(max_length=32)
    at = models.DateTimeField()

    class Meta:
        verbose_name = "visit"
        indexes = [models.Index(fields=["tenant_id", "at"], name="visit_by_age")]


class StaffAct(models.Model):
    """What somebody asked for in the console, why, and what came of it. `at` is the hotel's time. Append-only.

    subject_id is the credential, saga, dead letter, alert or property it was about. outcome is `done` or the refusal's code.
    """

    tenant_id = models.CharField(max_length=64)
    actor_id = models.CharField(max_length=64)
    login = models.CharField(max_length=150)
    role = models.CharField(max_length=32)
    action = models.CharField(max_length=32)
    subject_id = models.CharField(max_length=64)
    reason = models.CharField(max_length=200)
    outcome = models.CharField(max_length=60)
    detail = models.CharField(max_length=300, blank=True)
    at = models.DateTimeField()

    class Meta:
        verbose_name = "act"
        indexes = [
            models.Index(fields=["tenant_id", "at"], name="act_by_age"),
            models.Index(fields=["tenant_id", "subject_id"], name="act_by_subject"),
        ]
