"""Takes one inbound event: inbox row, projection and flows in one transaction.

One rule: state first, key second. An event seen before, or older than what is known, changes nothing and is acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from django.db import connection

from credentials import house as houses
from credentials import locks, reservations
from credentials.arrival_signs import Sign, SignKind
from credentials.reservations import UnusableBooking
from credentials.services import KeyBatch
from devices import selectors
from lockservice.core import clock, ended_access
from lockservice.core.places import Property
from lockservice.core.tenancy import tenant
from sagas.alerts import raise_alerts
from sagas.events import registry
from sagas.events.envelope import Envelope
from sagas.events.inbound import (
    BackofficeNotice,
    CheckedIn,
    ConfigUpdated,
    InboundEvent,
    PaymentCaptured,
    PropertyDeactivated,
    ReservationEvent,
    UserDeactivated,
    parse,
)
from sagas.events.subjects import Subject
from sagas.flows import bulk_revoke, follow_booking, follow_stays, guest_came, odd_booking, rest_key
from sagas.inbox import take
from sagas.intake import PRIORITY_SECURITY, Start, internal_lane, own_key, sha256_key, start
from sagas.models import InboxMessage
from sagas.outbox import Cause
from vendors.port.types import RevokeReason, SuspendReason

CONSUMER = "keys"
APPLIED, IGNORED, DUPLICATE = "applied", "ignored", "duplicate"
BOOKINGS = frozenset(spec.subject for spec in registry.key_moving() if ".booking." in spec.subject)

BackofficeHandler = Callable[[InboundEvent], None]
_handlers: dict[str, list[BackofficeHandler]] = {}


def register(subject: str, handler: BackofficeHandler) -> None:
    """Adds a handler of a consumed event that moves no key; called from an application's `ready`."""
    _handlers.setdefault(subject, []).append(handler)


def dispatch(envelope: Envelope) -> str:
    """Applies an event once and says `applied`, `ignored` or `duplicate`. Opens and commits its own transaction.

    Raises EventRefused or UnusableBooking for what belongs in the dead letters; database errors may be retried.
    """
    return dispatch_together([envelope])[0]


def may_share(first: Envelope, second: Envelope) -> bool:
    """Says whether two events may be applied in one transaction: bookings of one tenant, of different reservations."""
    both = (first, second)
    if first.tenant_id != second.tenant_id or any(event.subject not in BOOKINGS for event in both):
        return False
    return first.data.get("reservationId") != second.data.get("reservationId")


def dispatch_together(envelopes: Sequence[Envelope]) -> list[str]:
    """Applies events of one tenant that may pairwise share a transaction: all of them, or on any error none.

    Raises as `dispatch` does; the caller then applies them one by one, so that one bad event stops no other.
    """
    tenant_id = envelopes[0].tenant_id
    events = [parse(item) for item in envelopes]
    with tenant(tenant_id):
        now = _known_now(tenant_id)
        taken = take(CONSUMER, envelopes, now)
        pairs = [(item, event) for item, event in zip(envelopes, events, strict=True) if item.id in taken]
        outcomes = dict.fromkeys((item.id for item in envelopes), DUPLICATE)
        bookings = [(item, event) for item, event in pairs if isinstance(event, ReservationEvent)]
        outcomes.update(_bookings(tenant_id, bookings, now))
        for item, event in pairs:
            if not isinstance(event, ReservationEvent):
                outcomes[item.id] = _apply(event, _cause(item, event), now)
        _note(tenant_id, [key for key in taken if outcomes[key] == IGNORED])
    for item, event in zip(envelopes, events, strict=True):
        for handler in _handlers.get(item.subject, ()):
            handler(event)
    return [outcomes[item.id] for item in envelopes]


def _known_now(tenant_id: str) -> datetime:
    """Returns the hotel's time, having made sure that the tenant is one of ours and active."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {clock.NOW_SQL} FROM core_tenant WHERE tenant_id = %s AND active", [tenant_id])
        row = cursor.fetchone()
    if row is None:
        raise UnusableBooking("UNKNOWN_TENANT", "tenantId: not a tenant of this service")
    now: datetime = row[0]
    return now


def _apply(event: InboundEvent, cause: Cause, now: datetime) -> str:
    if isinstance(event, PaymentCaptured | CheckedIn):
        return _payment(event, cause, now) if isinstance(event, PaymentCaptured) else _checked_in(event, cause, now)
    if isinstance(event, UserDeactivated):
        ended_access.end(event.tenant_id, event.user_id)
        args = {"holderId": event.user_id, "trigger": "user.deactivated"}
        return _bulk(event.tenant_id, sha256_key(event.user_id, "mass-revoke-iam"), args, cause, now)
    if isinstance(event, PropertyDeactivated):
        Property.objects.filter(tenant_id=event.tenant_id, property_id=event.property_id).update(active=False)
        houses.forget()
        args = {"propertyId": event.property_id, "trigger": "property.deactivated"}
        return _bulk(event.tenant_id, sha256_key(event.property_id, "mass-revoke-property"), args, cause, now)
    if event.subject == Subject.USER_DISABLED and isinstance(event, BackofficeNotice):
        ended_access.end(event.tenant_id, str(event.data["userId"]))
        return APPLIED
    if isinstance(event, ConfigUpdated):
        houses.forget()
        selectors.forget()
        walk = follow_stays.start_of(event.tenant_id, event.property_id, event.event_id)
        start(event.tenant_id, [(walk, cause)], now)
        return APPLIED
    return IGNORED


def _bookings(tenant_id: str, pairs: Sequence[tuple[Envelope, ReservationEvent]], now: datetime) -> dict[str, str]:
    if not pairs:
        return {}
    applied = reservations.apply(tenant_id, [event for _, event in pairs], now)
    moving = [(item, event) for item, event in pairs if applied[event.reservation_id].is_new_version]
    odd = [(item, event, result) for item, event in pairs if (result := applied[event.reservation_id]).odd]
    raise_alerts(tenant_id, [odd_booking.tell(event, result) for _, event, result in odd], now)
    for item, _, result in odd:
        InboxMessage.objects.filter(tenant_id=tenant_id, consumer=CONSUMER, event_id=item.id).update(detail=result.odd)
    outcomes = dict.fromkeys((item.id for item, _ in pairs), IGNORED)
    if not moving:
        return outcomes
    rows = {event.reservation_id: row for _, event in moving if (row := applied[event.reservation_id].row) is not None}
    in_operation = locks.open_properties(tenant_id, [row.property_id for row in rows.values()])
    batch = KeyBatch.load_stays(tenant_id, sorted(rows), now)
    for item, event in moving:
        row, before = rows[event.reservation_id], applied[event.reservation_id].before
        if reservations.says_came(event):
            sign = Sign(row.reservation_id, row.incarnation, SignKind.CHECK_IN, event.occurred_at)
            guest_came.note(tenant_id, [sign], now, _cause(item, event))
        is_open = row.property_id in in_operation
        was = applied[event.reservation_id].was
        follow_booking.follow(batch, row, before, event.event_id, _cause(item, event), is_open=is_open, was=was)
        outcomes[item.id] = APPLIED
    batch.flush()
    return outcomes


def _checked_in(event: CheckedIn, cause: Cause, now: datetime) -> str:
    """Notes that the guest has come, also where it is heard before the booking."""
    row = locks.lock_reservation(event.tenant_id, event.reservation_id)
    incarnation = row.incarnation if row is not None else 1
    sign = Sign(event.reservation_id, incarnation, SignKind.CHECK_IN, event.occurred_at)
    guest_came.note(event.tenant_id, [sign], now, cause)
    return APPLIED


def _payment(event: PaymentCaptured, cause: Cause, now: datetime) -> str:
    row = locks.lock_reservation(event.tenant_id, event.reservation_id)
    if row is None:
        return IGNORED
    row.payment_status = event.payment_status
    row.save(update_fields=["payment_status"])
    batch = KeyBatch.load_stays(event.tenant_id, [event.reservation_id], now)
    for key in batch.keys.values():
        rest_key.lift(batch, key, SuspendReason.OVERDUE_PAYMENT, own_key("paid", event.event_id, key.id), cause)
    batch.flush()
    return APPLIED


def _bulk(tenant_id: str, key: str, args: dict[str, str], cause: Cause, now: datetime) -> str:
    """Starts the bulk act; one that ran before (the user was active again in between) is armed anew."""
    item = Start(
        flow=bulk_revoke.FLOW, key=key, lane=internal_lane(tenant_id), priority=PRIORITY_SECURITY,
        args={**args, "reason": RevokeReason.SECURITY.value},
    )  # fmt: skip
    if not start(tenant_id, [(item, cause)], now):
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE sagas_saga SET status = 'due', step = 0, args = args - 'after', finished_at = NULL"
                " WHERE tenant_id = %s AND installation_id = '' AND key = %s AND status IN ('done', 'dead')",
                [tenant_id, key],
            )
    return APPLIED


def _note(tenant_id: str, event_ids: Sequence[str]) -> None:
    if event_ids:
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE sagas_inboxmessage SET outcome = %s WHERE tenant_id = %s AND consumer = %s AND event_id = ANY(%s)",
                [IGNORED, tenant_id, CONSUMER, list(event_ids)],
            )


def _cause(envelope: Envelope, event: InboundEvent) -> Cause:
    correlation = envelope.correlation_id or getattr(event, "reservation_id", "")
    return Cause(correlation_id=correlation or "", causation_id=envelope.id, trace_id=envelope.trace_id or "")


__all__ = ["CONSUMER", "UnusableBooking", "dispatch", "register"]
