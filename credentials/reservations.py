"""The projection of bookings: the highest version wins, whatever the order of arrival.

One rule: an older version changes nothing. An ending that arrives before its booking leaves a tombstone, so that the booking
coming late is recognised as old.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.db import connection

from credentials import locks, phones, stay_notices
from credentials.house import House, house
from credentials.models import Reservation
from lockservice.core import crypto
from lockservice.core.places import Property
from sagas.events.inbound import ReservationEvent
from vendors.port.types import Holder, Window

CANCELLED, CHECKED_OUT, NO_SHOW, FRAUD, CONFIRMED = "cancelled", "checked_out", "no_show", "fraud_flagged", "confirmed"
ENDED = frozenset({CANCELLED, CHECKED_OUT})
TABLE = "credentials_reservation"
MOMENT = timedelta(microseconds=1)

_STATUS = {
    "booking.cancelled": CANCELLED,
    "booking.checked_out": CHECKED_OUT,
    "booking.early_checkout": CHECKED_OUT,
    "booking.no_show": NO_SHOW,
    "booking.fraud_flagged": FRAUD,
}

_TOLD = {
    "confirmed": CONFIRMED,
    "dates_changed": CONFIRMED,
    "modified": CONFIRMED,
    "checked_in": CONFIRMED,
    "in_house": CONFIRMED,
    "cancelled": CANCELLED,
    "canceled": CANCELLED,
    "checked_out": CHECKED_OUT,
    "no_show": NO_SHOW,
    "fraud_flagged": FRAUD,
    "fraud_review": FRAUD,
}
"""What the payload of a confirmation or a change may say of the booking. Any other word changes nothing."""
_CAME = frozenset({"checked_in", "in_house"})
_HOLDS = frozenset({NO_SHOW, FRAUD})


class UnusableBooking(Exception):
    """The event cannot be applied: an unknown property, a window that cannot be completed. Goes to a dead letter."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Applied:
    """The projection after an event. `is_new_version` False means that nothing changed: the event was older, or `odd` says why.

    `row` is None where nothing is known of the stay.
    """

    row: Reservation | None
    before: str | None
    is_new_version: bool
    was: Window | None = None
    """The stay's time before; None where nothing was known of it."""
    odd: str = ""
    """STATUS_UNKNOWN or CONFLICT of `stay_notices`, empty for an event that is just older."""


def apply(tenant_id: str, events: Sequence[ReservationEvent], now: datetime) -> dict[str, Applied]:
    """Brings the projections of different reservations to their events' versions; returns what came of each, by reservation.

    Locks the rows until the transaction ends. Inside the tenant's block. Raises UnusableBooking for the first event that
    cannot be applied (then nothing may be committed).
    """
    known = [event for event in events if _status_of(event) is not None]
    fresh = {event.reservation_id: _new_row(tenant_id, event, now) for event in known}
    inserted = _insert(list(fresh.values()))
    applied = {rsv: Applied(fresh[rsv], None, is_new_version=True) for rsv in inserted}
    rest = [event for event in events if event.reservation_id not in inserted]
    standing = locks.lock_reservations(tenant_id, [event.reservation_id for event in rest])
    for event in rest:
        applied[event.reservation_id] = _advance(standing.get(event.reservation_id), event, now)
    return applied


def says_came(event: ReservationEvent) -> bool:
    """Says whether a booking's own words show that the guest has come."""
    return _word(event) in _CAME


def _advance(row: Reservation | None, event: ReservationEvent, now: datetime) -> Applied:
    if row is None:  # only what cannot be understood gives no row
        return Applied(None, None, is_new_version=False, odd=stay_notices.STATUS_UNKNOWN)
    if event.version <= row.version:
        odd = stay_notices.CONFLICT if event.version == row.version and _contradicts(row, event) else ""
        return Applied(row, row.status, is_new_version=False, odd=odd)
    if _status_of(event) is None:
        return Applied(row, row.status, is_new_version=False, odd=stay_notices.STATUS_UNKNOWN)
    before, was = row.status, time_of(row)
    _overwrite(row, event, now)
    row.save()
    return Applied(row, before, is_new_version=True, was=was)


def time_of(row: Reservation) -> Window | None:
    """Return when a stay is, without grace; None where the booking does not say."""
    return Window(row.valid_from, row.valid_until) if row.valid_from < row.valid_until else None


def holder_of(row: Reservation) -> Holder:
    """Opens the guest's name and contact for an adapter that cannot do without. Inside the tenant's block.

    Her telephone number is in E.164, and none where the one she gave cannot be read as a mobile phone's.
    """
    guest = _guest(row)
    if guest is None:
        return Holder(id=row.guest_id or "guest")
    told = guest.get("phone")
    number = phones.as_e164(told, house(row.tenant_id, row.property_id).country) if told else None
    return Holder(row.guest_id, guest.get("name", ""), guest.get("email"), number)


def told_phone(row: Reservation) -> str | None:
    """Opens the guest's telephone number as the booking has it, for people who may read it; None where it has none."""
    return (_guest(row) or {}).get("phone") or None


def _guest(row: Reservation) -> dict[str, Any] | None:
    if row.guest_sealed is None:
        return None
    plain = crypto.unseal("guest-pii", row.tenant_id, (TABLE, row.reservation_id, "guest_sealed"), row.guest_sealed)
    found: dict[str, Any] = json.loads(plain)
    return found


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


def _status_of(event: ReservationEvent) -> str | None:
    """The subject decides, except that confirmations and changes say by their payload whether the booking stands. None for a
    word that nobody told us of."""
    subject = event.subject.removeprefix("melmastoon.reservation.").rpartition(".v")[0]
    return _STATUS[subject] if subject in _STATUS else _TOLD.get(_word(event))


def _word(event: ReservationEvent) -> str:
    return event.status.strip().lower().replace("-", "_").replace(" ", "_")


def content_of(event: ReservationEvent) -> str:
    """Returns what tells two contents of one version apart: the status, whether the event is whole, and a keyed digest."""
    guest = event.guest
    contact = guest.contact if guest else None
    people = [
        secret.reveal() if secret else None
        for secret in (
            guest.display_name if guest else None, contact.email if contact else None, contact.phone_e164 if contact else None
        )
    ]  # fmt: skip
    said = [
        event.property_id, sorted(event.rooms), str(event.valid_from), str(event.valid_until), str(event.check_in),
        str(event.check_out), guest.id if guest else None, guest.locale if guest else None, people, event.payment_status,
        event.id_verified, event.preferred_kinds, event.scope.floors, event.scope.areas, event.party_size, event.channel_hint,
    ]  # fmt: skip
    digest = crypto.blind_index("guest-pii", event.tenant_id, json.dumps(said))
    return f"{_status_of(event) or 'unknown'}:{'whole' if event.is_whole else 'part'}:{digest.hex()[:32]}"


def _contradicts(row: Reservation, event: ReservationEvent) -> bool:
    """Says whether an event of the row's version tells something else than the one that was taken. One that names the booking
    only is compared by its status."""
    if not row.content:
        return False
    held, new = row.content.split(":"), content_of(event).split(":")
    return held[0] != new[0] or (held[1] == new[1] and held[2] != new[2])


def _overwrite(row: Reservation, event: ReservationEvent, now: datetime) -> None:
    status = _status_of(event)
    if status is None:
        raise ValueError("a status that is not understood is never applied")
    row.content = content_of(event)
    if row.status in ENDED and status in _HOLDS:
        status = row.status  # a stay that has ended is not begun again by a word that only holds one back
    if row.status in ENDED and status == CONFIRMED:
        row.incarnation += 1
    row.version, row.status, row.updated_at = event.version, status, now
    stay_notices.clear(row, [stay_notices.STATUS_UNKNOWN, stay_notices.CONFLICT])
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
    is_days = event.valid_from is None
    row.check_in, row.check_out = (event.check_in, event.check_out) if is_days else (None, None)
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


def window_of_days(place: House, check_in: date, check_out: date) -> tuple[datetime, datetime]:
    """Returns the window of a stay given as days, by the property's hours. Raises UnusableBooking where they leave none."""
    if check_in == check_out:
        return place.day_use(check_in)
    start, end = place.arrival(check_in), place.departure(check_out)
    if end <= start:
        raise UnusableBooking("WINDOW_INVERTED", "checkOut: the house's hours leave no stay; send an explicit window")
    return start, end


def _window(event: ReservationEvent, place: House, fallback: datetime | None) -> tuple[datetime, datetime]:
    if event.valid_from is not None and event.valid_until is not None:
        return event.valid_from, event.valid_until
    if event.check_in is not None and event.check_out is not None:
        return window_of_days(place, event.check_in, event.check_out)
    if fallback is not None:
        return fallback, fallback + MOMENT
    raise UnusableBooking("MISSING_FIELD", "validFrom: neither a window nor days")
