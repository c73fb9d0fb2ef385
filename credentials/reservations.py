"""The projection of bookings: the highest version wins, whatever the order of arrival.

One rule: an older version changes nothing. An ending that arrives before its booking leaves a tombstone, so that the booking
coming late is recognised as old.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from credentials import locks
from credentials.house import House, house
from credentials.models import Reservation
from lockservice.core import crypto
from lockservice.core.places import Property
from sagas.events.inbound import ReservationEvent
from vendors.port.types import Holder

CANCELLED, CHECKED_OUT, NO_SHOW, FRAUD, CONFIRMED = "cancelled", "checked_out", "no_show", "fraud_flagged", "confirmed"
ENDED = frozenset({CANCELLED, CHECKED_OUT})
TABLE = "credentials_reservation"
MOMENT = timedelta(microseconds=1)

_STATUS = {
    "booking.confirmed": CONFIRMED,
    "booking.dates_changed": CONFIRMED,
    "booking.cancelled": CANCELLED,
    "booking.checked_out": CHECKED_OUT,
    "booking.early_checkout": CHECKED_OUT,
    "booking.no_show": NO_SHOW,
    "booking.fraud_flagged": FRAUD,
}

_TOLD = {
    "cancelled": CANCELLED,
    "canceled": CANCELLED,
    "checked_out": CHECKED_OUT,
    "no_show": NO_SHOW,
    "fraud_flagged": FRAUD,
    "fraud_review": FRAUD,
}
"""Statuses a payload may name; any other means that the booking stands."""


class UnusableBooking(Exception):
    """The event cannot be applied: an unknown property, a window that cannot be completed. Goes to a dead letter."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Applied:
    """The projection after an event. `is_new_version` False means the event was older and nothing changed."""

    row: Reservation
    before: str | None
    is_new_version: bool


def apply(tenant_id: str, events: Sequence[ReservationEvent], now: datetime) -> dict[str, Applied]:
    """Brings the projections of different reservations to their events' versions; returns what came of each, by reservation.

    Locks the rows until the transaction ends. Inside the tenant's block. Raises UnusableBooking for the first event that
    cannot be applied (then nothing may be committed).
    """
    fresh = {event.reservation_id: _new_row(tenant_id, event, now) for event in events}
    inserted = _insert(list(fresh.values()))
    applied = {rsv: Applied(fresh[rsv], None, is_new_version=True) for rsv in inserted}
    rest = [event for event in events if event.reservation_id not in inserted]
    standing = locks.lock_reservations(tenant_id, [event.reservation_id for event in rest])
    for event in rest:
        applied[event.reservation_id] = _advance(standing[event.reservation_id], event, now)
    return applied


def _advance(row: Reservation, event: ReservationEvent, now: datetime) -> Applied:
    if event.version <= row.version:
        return Applied(row, row.status, is_new_version=False)
    before = row.status
    _overwrite(row, event, now)
    row.save()
    return Applied(row, before, is_new_version=True)


def holder_of(row: Reservation) -> Holder:
    """Opens the guest's name and contact for an adapter that cannot do without."""
    if row.guest_sealed is None:
        return Holder(id=row.guest_id or "guest")
    plain = crypto.unseal("guest-pii", row.tenant_id, (TABLE, row.reservation_id, "guest_sealed"), row.guest_sealed)
    guest = json.loads(plain)
    return Holder(row.guest_id, guest.get("name", ""), guest.get("email"), guest.get("phone"))


def _new_row(tenant_id: str, event: ReservationEvent, now: datetime) -> Reservation:
    """Makes the row of a booking heard of for the first time; one that only ends leaves a tombstone."""
    place = _place(tenant_id, event.property_id)
    start, end = _window(event, place, fallback=now)
    row = Reservation(
        tenant_id=tenant_id, reservation_id=event.reservation_id, property_id=event.property_id, version=-1, status="",
        valid_from=start, valid_until=end, updated_at=now,
    )  # fmt: skip
    _overwrite(row, event, now)
    return row


def _insert(rows: Sequence[Reservation]) -> set[str]:
    """Inserts rows that are not there yet and returns their reservations: two first events of one booking meet here."""
    if not rows:
        return set()
    columns = [field for field in Reservation._meta.concrete_fields if not field.primary_key]
    names = ", ".join(str(field.column) for field in columns)
    one = f"({', '.join(['%s'] * len(columns))})"
    values = [value for row in rows for value in _values(row, columns)]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {TABLE} ({names}) VALUES {', '.join([one] * len(rows))}"
            " ON CONFLICT (tenant_id, reservation_id) DO NOTHING RETURNING reservation_id",
            values,
        )
        return {row[0] for row in cursor.fetchall()}


def _values(row: Reservation, columns: Sequence[Any]) -> list[Any]:
    return [field.get_db_prep_save(getattr(row, field.attname), connection) for field in columns]


def _status_of(event: ReservationEvent) -> str:
    """The subject decides, except that changed dates say by their payload whether the booking still stands."""
    subject = event.subject.removeprefix("melmastoon.reservation.").rpartition(".v")[0]
    if subject == "booking.dates_changed":
        return _TOLD.get(event.status.lower().replace("-", "_"), CONFIRMED)
    return _STATUS[subject]


def _overwrite(row: Reservation, event: ReservationEvent, now: datetime) -> None:
    status = _status_of(event)
    if row.status in ENDED and status == CONFIRMED:
        row.incarnation += 1
    row.version, row.status, row.updated_at = event.version, status, now
    if event.payment_status is not None:
        row.payment_status = event.payment_status
    if event.id_verified is not None:
        row.id_verified = event.id_verified
    if not event.is_whole:
        return
    place = _place(row.tenant_id, event.property_id)
    row.property_id = event.property_id
    row.rooms = list(dict.fromkeys(event.rooms))
    row.valid_from, row.valid_until = _window(event, place, fallback=None)
    row.preferred_kinds = list(event.preferred_kinds)
    row.floors, row.areas = list(event.scope.floors), list(event.scope.areas) or None
    row.party_size, row.channel_hint = event.party_size, event.channel_hint or ""
    if event.guest is not None:
        _take_guest(row, event)


def _take_guest(row: Reservation, event: ReservationEvent) -> None:
    guest = event.guest
    if guest is None:
        return
    contact = guest.contact
    plain = json.dumps(
        {
            "name": guest.display_name.reveal() if guest.display_name else "",
            "email": contact.email.reveal() if contact.email else None,
            "phone": contact.phone_e164.reveal() if contact.phone_e164 else None,
        }
    )
    row.guest_id, row.locale = guest.id, guest.locale or ""
    row.guest_sealed = crypto.seal("guest-pii", row.tenant_id, (TABLE, row.reservation_id, "guest_sealed"), plain)


def _place(tenant_id: str, property_id: str) -> House:
    try:
        return house(tenant_id, property_id)
    except Property.DoesNotExist as error:
        raise UnusableBooking("UNKNOWN_PROPERTY", "propertyId: not a property of this tenant") from error


def _window(event: ReservationEvent, place: House, fallback: datetime | None) -> tuple[datetime, datetime]:
    if event.valid_from is not None and event.valid_until is not None:
        return event.valid_from, event.valid_until
    if event.check_in is not None and event.check_out is not None:
        start, end = place.arrival(event.check_in), place.departure(event.check_out)
        if end <= start:
            raise UnusableBooking("WINDOW_INVERTED", "checkOut: the house's hours leave no stay; send an explicit window")
        return start, end
    if fallback is not None:
        return fallback, fallback + MOMENT
    raise UnusableBooking("MISSING_FIELD", "validFrom: neither a window nor days")
