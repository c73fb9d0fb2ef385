"""Writes a card again that is older than our books: the guest's own card lies on the desk's encoder.

One rule: only a lock system whose key names all of its doors can do so; elsewhere the key is replaced.
"""

from __future__ import annotations

from credentials.models import KeyCredential
from credentials.services import KeyBatch
from sagas.flows import one_change, update_key
from sagas.flows.issue_key import first_lane, lane_width
from sagas.intake import PRIORITY_SECURITY, Start, is_started
from sagas.outbox import Cause


class CannotWriteAgain(Exception):
    """The lock system cannot write a card that it made. Not retriable."""


def begin(batch: KeyBatch, key: KeyCredential, saga_key: str, cause: Cause) -> None:
    """Starts the writing of a locked active key's card; asked again, nothing more happens. Inside the tenant's block.

    Raises CannotWriteAgain.
    """
    if is_started(key.tenant_id, key.installation_id, saga_key):
        return
    if not one_change.spans(key):
        raise CannotWriteAgain(key.vendor)
    batch.retarget(key)
    batch.start(
        Start(
            flow=update_key.FLOW,
            key=saga_key,
            lane=first_lane(batch, key),
            lane_width=lane_width(batch, key),
            installation_id=key.installation_id,
            credential_id=key.id,
            reservation_id=key.reservation_id,
            priority=PRIORITY_SECURITY,
            args={one_change.AT_ENCODER: True},
        ),
        cause,
    )
