"""Ends what people may do in the console when the platform deactivates them.

One rule: it runs after the event was taken in and again at each redelivery, so a crash in between leaves nobody in.
"""

from __future__ import annotations

from lockservice.console import access
from sagas import dispatch
from sagas.events.inbound import BackofficeNotice, InboundEvent, UserDeactivated
from sagas.events.subjects import Subject


def listen() -> None:
    """Register with the dispatcher; called once when the application is ready."""
    for subject in (Subject.USER_DEACTIVATED, Subject.USER_DISABLED):
        dispatch.register(subject, _end)


def _end(event: InboundEvent) -> None:
    if isinstance(event, UserDeactivated):
        access.end_for(event.tenant_id, event.user_id)
    elif isinstance(event, BackofficeNotice):
        access.end_for(event.tenant_id, str(event.data["userId"]))
