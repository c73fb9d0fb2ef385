"""Makes sagas that wait due, or changes what they wait for, by somebody who holds the lock of their key.

One rule: a saga that is locked is not waited for. Runners lock a saga first and its key then; who holds the key and waited for
the saga would wait for whoever waits for the key. A saga that is locked is being woken or begun at this moment, and reads what
was written under the key's lock.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from sagas.models import Saga, SagaStatus


def wake(rows: QuerySet[Saga]) -> bool:
    """Makes those of the sagas due that are dead or wait for a retry; False when there is none. Inside the tenant's block."""
    waiting = rows.filter(status__in=[SagaStatus.DEAD, SagaStatus.RETRY])
    if not waiting.exists():
        return False
    _free(waiting).update(status=SagaStatus.DUE, due_at=None, finished_at=None)
    return True


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
