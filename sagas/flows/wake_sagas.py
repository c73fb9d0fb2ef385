"""Makes sagas that wait due, or changes what they wait for, by somebody who holds the lock of their key.

One rule: a saga that is locked is not waited for. Runners lock a saga first and its key then; who holds the key and waited for
the saga would wait for whoever waits for the key. A saga that is locked is being woken or begun at this moment, and reads what
was written under the key's lock.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import datetime

from django.db.models import Q, QuerySet

from sagas.claims import WAITS
from sagas.intake import PRIORITY_BULK
from sagas.models import Saga, SagaStatus


def wake(rows: QuerySet[Saga]) -> bool:
    """Makes those of the sagas due that are dead or wait for a retry; False when there is none. Inside the tenant's block."""
    waiting = rows.filter(status__in=[SagaStatus.DEAD, SagaStatus.RETRY])
    if not waiting.exists():
        return False
    _free(waiting).update(status=SagaStatus.DUE, due_at=None, finished_at=None)
    return True


def wake_waiting(tenant_id: str, credential_ids: Collection[str], reservation_ids: Collection[str]) -> None:
    """Make those sagas of these keys and stays due that wait for other work. Inside the tenant's block."""
    mine = Q(credential_id__in=sorted(credential_ids)) | Q(reservation_id__in=sorted(reservation_ids))
    rows = Saga.objects.filter(mine, tenant_id=tenant_id, status=SagaStatus.RETRY, args__has_key=WAITS)
    ids = list(rows.order_by("id").select_for_update(skip_locked=True).values_list("id", flat=True))
    if ids:
        Saga.objects.filter(id__in=ids).update(status=SagaStatus.DUE, due_at=None, position=time.time_ns() // 1000)


def hurry(rows: QuerySet[Saga], priority: int) -> None:
    """Give those of the sagas that are not at their end at least this priority: urgent work waits for them."""
    waiting = rows.filter(
        status__in=[SagaStatus.DUE, SagaStatus.RETRY, SagaStatus.TIMER], priority__in=range(priority + 1, PRIORITY_BULK + 1)
    )
    ids = list(waiting.order_by("id").select_for_update(skip_locked=True).values_list("id", flat=True))
    if ids:
        Saga.objects.filter(id__in=ids).update(priority=priority)


def put_off(rows: QuerySet[Saga], until: datetime | None) -> None:
    """Lets those of the sagas that wait for the hotel's clock wait for another instant, or none. Inside the tenant's block."""
    waiting = _free(rows.filter(status=SagaStatus.TIMER))
    if until is not None:
        waiting.update(hotel_due_at=until)
    else:
        waiting.update(status=SagaStatus.DUE, hotel_due_at=None)


def _free(rows: QuerySet[Saga]) -> QuerySet[Saga]:
    """Locks the rows that nobody else holds, and returns them."""
    held = list(rows.select_for_update(skip_locked=True).order_by("id").values_list("id", flat=True))
    return Saga.objects.filter(id__in=held)
