"""Doors that a key was taken from and that cannot be told: they may go on opening for it until their bound. Read only.

One rule: such a key is open work, though nothing is left to ask of anybody. Only its bound ends that, which changes no row.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Q

from credentials.lifecycle import State
from credentials.models import CredentialDoor, DoorState
from vendors.port.types import Propagation

_ENDED = (State.REVOKED.value, State.FAILED.value)


def bounds(tenant_id: str, now: datetime, among: Iterable[str] | None = None) -> dict[str, datetime]:
    """Return the keys with such doors, all or `among` these, and until when the last of a key's may open.

    Inside the tenant's block.
    """
    in_time = Q(effective_not_after__gt=now) | Q(effective_not_after__isnull=True, credential__valid_until__gt=now)
    rows = CredentialDoor.objects.filter(
        in_time, Q(dropped=True) | Q(credential__state__in=_ENDED), tenant_id=tenant_id, state=DoorState.ABSENT,
        propagation=Propagation.PROPAGATING.value,
    )  # fmt: skip
    rows = rows if among is None else rows.filter(credential_id__in=sorted(set(among)))
    found: dict[str, datetime] = {}
    for key_id, bound, end in rows.values_list("credential_id", "effective_not_after", "credential__valid_until"):
        found[key_id] = max(bound or end, found.get(key_id, bound or end))
    return found
