"""Start work at the doors of a key where nobody works on them.

One rule: a key whose doors do not carry what they shall has a saga that is not at its end, or gets one here.
"""

from __future__ import annotations

from credentials.lifecycle import TERMINAL
from credentials.models import KeyCredential
from credentials.services import KeyBatch
from sagas.flows import revoke_key, update_key, wake_sagas
from sagas.flows.issue_key import first_lane, lane_width
from sagas.intake import PRIORITY_SECURITY, Start
from sagas.models import OPEN_STATUSES, Saga
from sagas.outbox import Cause


def begin(batch: KeyBatch, key: KeyCredential, saga_key: str, cause: Cause) -> None:
    """Makes the work at a locked key's doors due now: what is at work goes on, what waits or gave up is woken, and where there
    is nothing, it is started. The key's doors have their tries again. Inside the tenant's block."""
    sagas = Saga.objects.filter(tenant_id=key.tenant_id, credential_id=key.id)
    batch.retarget(key)
    for door in batch.doors_at(key):
        door.due_at, door.final, door.attempts = None, False, 0
        batch.touch_door(door)
    if wake_sagas.wake(sagas) or sagas.filter(status__in=OPEN_STATUSES).exists():
        return
    is_over = key.state in TERMINAL
    batch.start(
        Start(
            flow=revoke_key.FLOW if is_over else update_key.FLOW,
            key=saga_key,
            lane=first_lane(batch, key),
            lane_width=lane_width(batch, key),
            installation_id=key.installation_id,
            credential_id=key.id,
            reservation_id=key.reservation_id,
            priority=PRIORITY_SECURITY,
        ),
        cause,
    )
