"""Turns a button into an act, and keeps who pressed it, why, and what came of it.

One rule: no act without a reason of at least three characters; refused acts are recorded too, with their code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from lockservice.console.models import StaffAct
from lockservice.console.session import Desk
from lockservice.core import clock, tenancy, wake
from sagas.acts import Refused

REASON_MAX = 200
REPEATED = "taken before under this id; nothing was changed"


class ReasonForm(forms.Form):
    """What every act asks for."""

    reason = forms.CharField(
        label=_("Why"),
        min_length=3,
        max_length=REASON_MAX,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an act: `value` is what it returned; a refusal has code and detail, and `fields` as the API names them."""

    value: Any = None
    code: str = ""
    detail: str = ""
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Says whether the act was carried out."""
        return not self.code


def perform(desk: Desk, action: str, subject_id: str, reason: str, act: Callable[[], Any]) -> Outcome:
    """Runs an act, which opens its own transaction, and records it. No block may be open."""
    try:
        value = act()
        outcome = Outcome(value=value, detail=REPEATED if getattr(value, "is_repeated", False) else "")
        wake.hint("sagas.drain", "saga")
    except Refused as refused:
        outcome = Outcome(code=refused.code, detail=refused.detail, fields=refused.fields)
    record(desk, action, subject_id, reason, outcome)
    return outcome


def record(desk: Desk, action: str, subject_id: str, reason: str, outcome: Outcome) -> None:
    """Appends the act to the tenant's record."""
    with tenancy.tenant(desk.tenant_id):
        StaffAct.objects.create(
            tenant_id=desk.tenant_id,
            actor_id=desk.actor_id,
            login=desk.login,
            role=desk.role.value,
            action=action,
            subject_id=subject_id[:64],
            reason=reason[:REASON_MAX],
            outcome=outcome.code or "done",
            detail=outcome.detail[:300],
            at=clock.now(),
        )
