"""Waits out our own rate limit, which a quick machine reaches where a slow one does not."""

from __future__ import annotations

import time

from lockservice.core.tenancy import tenant
from sagas.models import Saga, SagaStep

PAUSE_S = 0.3


def waited_for_limit(tenant_id: str) -> bool:
    """Pauses, if one of the tenant's waiting sagas was last put off by our own limit; says whether one was."""
    with tenant(tenant_id):
        waiting = Saga.objects.filter(tenant_id=tenant_id, status="retry").values_list("id", flat=True)
        last = [SagaStep.objects.filter(tenant_id=tenant_id, saga_id=saga).order_by("at", "id").last() for saga in waiting]
    if not any(step is not None and "our own rate limit" in step.detail for step in last):
        return False
    time.sleep(PAUSE_S)
    return True
