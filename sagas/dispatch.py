"""Takes one inbound event: inbox row, projection and flows in one transaction.

One rule: state first, key second. An event seen before, or older than what is known, changes nothing and is acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.db import connection

from credentials import house as houses
from credentials import locks, reservations
from credentials.reservations import UnusableBooking
from credentials.services import KeyBatch
from devices import selectors
from lockservice.core import clock
from lockservice.core.places import Tenant
from lockservice.core.tenancy import tenant
from sagas.events.envelope import Envelope
from sagas.events.inbound import (
    ConfigUpdated,
    InboundEvent,
    PaymentCaptured,
    PropertyDeactivated,
    ReservationEvent,
    UserDeactivated,
    parse,
)
from sagas.flows import bulk_revoke, follow_booking, rest_key
from sagas.inbox import take
from sagas.intake import PRIORITY_SECURITY, Start, internal_lane, own_key, sha256_key, start
from sagas.outbox import Cause
from vendors.port.types import RevokeReason, SuspendReason

CONSUMER = "keys"
APPLIED, IGNORED, DUPLICATE = "applied", "ignored", "duplicate"

BackofficeHandler = Callable[[InboundEvent], None]
_handlers: dict[str, list[BackofficeHandler]] = {}


def register(subject: str, handler: BackofficeHandler) -> None:
    """Adds a handler of a consumed event that moves no key; called from an application's `ready`."""
    _handlers.setdefault(subject, []).append(handler)


def dispatch(envelope: Envelope) -> str:
    """Applies an event once and says `applied`, `ignored` or `duplicate`. Opens and commits its own transaction.

    Raises EventRefused or UnusableBooking for what belongs in the dead letters; database errors may be retried.
    """
    event = parse(envelope)
    with tenant(envelope.tenant_id):
        if not Tenant.objects.filter(tenant_id=envelope.tenant_id, active=True).exists():
            raise UnusableBooking("UNKNOWN_TENANT", "tenantId: not a tenant of this service")
        now = clock.now()
        if not take(CONSUMER, envelope, now):
            return DUPLICATE
        outcome = _apply(event, _cause(envelope, event), now)
        if outcome != APPLIED:
            _note(envelope, outcome)
    for handler in _handlers.get(envelope.subject, ()):
        handler(event)
    return outcome


def _apply(event: InboundEvent, cause: Cause, now: datetime) -> str:
    if isinstance(event, ReservationEvent):
        return _booking(event, cause, now)
    if isinstance(event, PaymentCaptured):
        return _payment(event, cause, now)
    if isinstance(event, UserDeactivated):
        return _bulk(
            event.tenant_id,
            sha256_key(event.user_id, "mass-revoke-iam"),
            {"holderId": event.user_id, "trigger": "user.deactivated"},
            cause,
            now,
        )
    if isinstance(event, PropertyDeactivated):
        args = {"propertyId": event.property_id, "trigger": "property.deactivated"}
        return _bulk(event.tenant_id, sha256_key(event.property_id, "mass-revoke-property"), args, cause, now)
    if isinstance(event, ConfigUpdated):
        houses.forget()
        selectors.forget()
        return APPLIED
    return IGNORED


def _booking(event: ReservationEvent, cause: Cause, now: datetime) -> str:
    applied = reservations.apply(event.tenant_id, event, now)
    if not applied.is_new_version:
        return IGNORED
    batch = KeyBatch.load_reservation(event.tenant_id, event.reservation_id, now)
    follow_booking.follow(batch, applied.row, applied.before, event.event_id, cause)
    batch.flush()
    return APPLIED


def _payment(event: PaymentCaptured, cause: Cause, now: datetime) -> str:
    row = locks.lock_reservation(event.tenant_id, event.reservation_id)
    if row is None:
        return IGNORED
    row.payment_status = event.payment_status
    row.save(update_fields=["payment_status"])
    batch = KeyBatch.load_reservation(event.tenant_id, event.reservation_id, now)
    for key in batch.keys.values():
        if key.suspend_reason == SuspendReason.OVERDUE_PAYMENT and key.valid_until > now:
            rest_key.unsuspend(batch, key, own_key("paid", event.event_id, key.id), cause)
    batch.flush()
    return APPLIED


def _bulk(tenant_id: str, key: str, args: dict[str, str], cause: Cause, now: datetime) -> str:
    """Starts the bulk act; one that ran before (the user was active again in between) is armed anew."""
    item = Start(
        flow=bulk_revoke.FLOW, key=key, lane=internal_lane(tenant_id), priority=PRIORITY_SECURITY,
        args={**args, "reason": RevokeReason.SECURITY.value},
    )  # fmt: skip
    if not start(tenant_id, [item], cause, now):
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE sagas_saga SET status = 'due', step = 0, args = args - 'after', finished_at = NULL"
                " WHERE tenant_id = %s AND installation_id = '' AND key = %s AND status IN ('done', 'dead')",
                [tenant_id, key],
            )
    return APPLIED


def _note(envelope: Envelope, outcome: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sagas_inboxmessage SET outcome = %s WHERE tenant_id = %s AND consumer = %s AND event_id = %s",
            [outcome, envelope.tenant_id, CONSUMER, envelope.id],
        )


def _cause(envelope: Envelope, event: InboundEvent) -> Cause:
    correlation = envelope.correlation_id or getattr(event, "reservation_id", "")
    return Cause(correlation_id=correlation or "", causation_id=envelope.id, trace_id=envelope.trace_id or "")


__all__ = ["CONSUMER", "UnusableBooking", "dispatch", "register"]
