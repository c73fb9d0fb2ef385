"""Consumed events as frozen values.

One rule: `parse` takes what other services send as generously as it can without guessing: unknown fields and unknown
kinds are ignored, a missing name or contact is no obstacle, a missing id, zone or window is a refusal. An event that
*ends* a stay needs nothing but the booking's ids, status and version: a dead-lettered cancellation would be an open
door.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from sagas.events.envelope import Envelope
from sagas.events.event_spec import Direction
from sagas.events.instants import parse_day, parse_instant
from sagas.events.refusals import EventRefused, RefusalCode
from sagas.events.registry import spec
from sagas.events.subjects import Subject
from sagas.events.validate import check_window, validate
from vendors.port.ids import canonical_property_id
from vendors.port.secrets import Secret

CREDENTIAL_KINDS = frozenset({"mobile_app", "pin_code", "rfid_card", "qr_code", "nfc_tag"})
CHANNEL_HINTS = frozenset({"mobile", "desk", "kiosk"})


class PersonalText(Secret):
    """A guest's or staff member's name or contact. Prints as a mask; `reveal()` only towards a wire or a cipher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an inbound event comes from; part of every typed event."""

    subject: str
    event_id: str
    tenant_id: str
    occurred_at: datetime
    trace_id: str | None
    correlation_id: str | None


@dataclass(frozen=True, slots=True)
class Contact:
    """How to reach a guest; either may be missing."""

    email: PersonalText | None = None
    phone_e164: PersonalText | None = None


@dataclass(frozen=True, slots=True)
class Guest:
    """The guest as the booking names her."""

    id: str
    display_name: PersonalText | None
    contact: Contact
    locale: str | None


@dataclass(frozen=True, slots=True)
class Scope:
    """Shared parts of the house a booking includes."""

    floors: tuple[str, ...] = ()
    areas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationEvent(Origin):
    """A booking as its service tells it. The highest `version` wins, whatever the order of arrival.

    The window is either two instants (start included, end excluded) or two local days of the property, of which the
    second may equal the first (day use). `rooms` may be empty.
    """

    reservation_id: str
    property_id: str
    version: int
    status: str
    rooms: tuple[str, ...]
    valid_from: datetime | None
    valid_until: datetime | None
    check_in: date | None
    check_out: date | None
    guest: Guest | None
    payment_status: str | None
    id_verified: bool | None
    preferred_kinds: tuple[str, ...]
    """In the guest's order, without doubles and without kinds unknown here."""
    scope: Scope
    party_size: int | None
    channel_hint: str | None
    is_whole: bool
    """False where an ending event names the booking only; then rooms, window and guest of the projection stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedIn(Origin):
    """The booking service says that the guest has come. Moves no key."""

    reservation_id: str
    property_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentCaptured(Origin):
    """Money for a reservation arrived."""

    reservation_id: str
    payment_status: str
    captured_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDeactivated(Origin):
    """A user may no longer do anything; her master keys end."""

    user_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyDeactivated(Origin):
    """A property left the platform; its keys end."""

    property_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigUpdated(Origin):
    """Settings changed: what is remembered of them is stale. Without a property it concerns the whole tenant."""

    property_id: str | None
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftEvent(Origin):
    """A shift started or ended. The times may be missing at its end."""

    shift_id: str
    staff_user_id: str
    property_id: str
    starts_at: datetime | None
    ends_at: datetime | None
    scope: str | None
    display_name: PersonalText | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent(Origin):
    """A housekeeping task or maintenance work order appeared or moved on."""

    task_id: str
    status: str
    assignee_user_id: str | None
    room_id: str | None
    property_id: str | None
    due_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackofficeNotice(Origin):
    """Something remembered for the back office is stale; no key moves."""

    property_id: str | None
    data: Mapping[str, Any] = field(repr=False)


InboundEvent = (
    ReservationEvent
    | CheckedIn
    | PaymentCaptured
    | UserDeactivated
    | PropertyDeactivated
    | ConfigUpdated
    | ShiftEvent
    | TaskEvent
    | BackofficeNotice
)


def parse(envelope: Envelope) -> InboundEvent:
    """Validates a consumed event and turns it into its frozen value.

    Raises `EventRefused`: NOT_INBOUND for a subject this service does not consume, otherwise what `validate` raises,
    and WINDOW_INVERTED; never retry. The caller has checked that the tenant is one of ours.
    """
    event = spec(envelope.subject)
    if event.direction is not Direction.CONSUMED:
        raise EventRefused(RefusalCode.NOT_INBOUND, "subject: not consumed")
    validate(event.subject, envelope.data)
    return _PARSERS.get(event.subject, _notice)(envelope, envelope.data)


def _origin(envelope: Envelope) -> dict[str, Any]:
    return {
        "subject": envelope.subject,
        "event_id": envelope.id,
        "tenant_id": envelope.tenant_id,
        "occurred_at": envelope.time,
        "trace_id": envelope.trace_id,
        "correlation_id": envelope.correlation_id,
    }


def _personal(text: str | None) -> PersonalText | None:
    return PersonalText(text) if text else None


def _property(text: str | None) -> str | None:
    return canonical_property_id(text) if text else None


def _maybe_instant(data: Mapping[str, Any], name: str) -> datetime | None:
    value = data.get(name)
    return None if value is None else parse_instant(value, f"data.{name}")


def _window(data: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    start, end = data.get("validFrom"), data.get("validUntil")
    if start is None or end is None:
        return None, None
    return check_window(start, end, "data.validFrom", "data.validUntil")


def _days(data: Mapping[str, Any]) -> tuple[date | None, date | None]:
    first, last = data.get("checkIn"), data.get("checkOut")
    if first is None or last is None:
        return None, None
    arrival, departure = parse_day(first, "data.checkIn"), parse_day(last, "data.checkOut")
    if departure < arrival:
        raise EventRefused(RefusalCode.WINDOW_INVERTED, "data.checkOut: before data.checkIn")
    return arrival, departure


def _guest(data: Mapping[str, Any] | None) -> Guest | None:
    if data is None:
        return None
    contact = data.get("contact") or {}
    return Guest(
        id=data["id"],
        display_name=_personal(data.get("displayName")),
        contact=Contact(_personal(contact.get("email")), _personal(contact.get("phoneE164"))),
        locale=data.get("locale"),
    )


def _scope(data: Mapping[str, Any] | None) -> Scope:
    if data is None:
        return Scope()
    return Scope(tuple(data.get("floors") or ()), tuple(data.get("areas") or ()))


def _kinds(names: list[str] | None) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names or ()) if name in CREDENTIAL_KINDS)


def _reservation(envelope: Envelope, data: Mapping[str, Any]) -> ReservationEvent:
    valid_from, valid_until = _window(data)
    check_in, check_out = _days(data)
    rooms, guest = data.get("rooms"), _guest(data.get("guest"))
    hint = data.get("channelHint")
    party_size = data.get("partySize")
    return ReservationEvent(
        **_origin(envelope),
        reservation_id=data["reservationId"],
        property_id=canonical_property_id(data["propertyId"]),
        # JSON Schema calls 3.0 an integer.
        version=int(data["version"]),
        status=data["status"],
        rooms=tuple(dict.fromkeys(rooms or ())),
        valid_from=valid_from,
        valid_until=valid_until,
        check_in=check_in,
        check_out=check_out,
        guest=guest,
        payment_status=data.get("paymentStatus"),
        id_verified=data.get("idVerified"),
        preferred_kinds=_kinds(data.get("preferredKinds")),
        scope=_scope(data.get("scope")),
        party_size=None if party_size is None else int(party_size),
        channel_hint=hint if hint in CHANNEL_HINTS else None,
        is_whole=rooms is not None and guest is not None and (valid_from is not None or check_in is not None),
    )


def _checked_in(envelope: Envelope, data: Mapping[str, Any]) -> CheckedIn:
    return CheckedIn(
        **_origin(envelope),
        reservation_id=data["reservationId"],
        property_id=canonical_property_id(data["propertyId"]),
    )


def _payment(envelope: Envelope, data: Mapping[str, Any]) -> PaymentCaptured:
    return PaymentCaptured(
        **_origin(envelope),
        reservation_id=data["reservationId"],
        payment_status=data["paymentStatus"],
        captured_at=parse_instant(data["capturedAt"], "data.capturedAt"),
    )


def _user(envelope: Envelope, data: Mapping[str, Any]) -> UserDeactivated:
    return UserDeactivated(**_origin(envelope), user_id=data["userId"])


def _property_off(envelope: Envelope, data: Mapping[str, Any]) -> PropertyDeactivated:
    return PropertyDeactivated(**_origin(envelope), property_id=canonical_property_id(data["propertyId"]))


def _config(envelope: Envelope, data: Mapping[str, Any]) -> ConfigUpdated:
    return ConfigUpdated(**_origin(envelope), property_id=_property(data.get("propertyId")), keys=tuple(data["keys"]))


def _shift(envelope: Envelope, data: Mapping[str, Any]) -> ShiftEvent:
    return ShiftEvent(
        **_origin(envelope),
        shift_id=data["shiftId"],
        staff_user_id=data["staffUserId"],
        property_id=canonical_property_id(data["propertyId"]),
        starts_at=_maybe_instant(data, "startsAt"),
        ends_at=_maybe_instant(data, "endsAt"),
        scope=data.get("scope"),
        display_name=_personal(data.get("displayName")),
    )


def _task(envelope: Envelope, data: Mapping[str, Any]) -> TaskEvent:
    return TaskEvent(
        **_origin(envelope),
        task_id=data["taskId"],
        status=data["status"],
        assignee_user_id=data.get("assigneeUserId"),
        room_id=data.get("roomId"),
        property_id=_property(data.get("propertyId")),
        due_at=_maybe_instant(data, "dueAt"),
    )


def _notice(envelope: Envelope, data: Mapping[str, Any]) -> BackofficeNotice:
    return BackofficeNotice(**_origin(envelope), property_id=_property(data.get("propertyId")), data=dict(data))


_PARSERS: dict[str, Callable[[Envelope, Mapping[str, Any]], InboundEvent]] = {
    Subject.BOOKING_CONFIRMED.value: _reservation,
    Subject.BOOKING_CANCELLED.value: _reservation,
    Subject.BOOKING_CHECKED_OUT.value: _reservation,
    Subject.BOOKING_EARLY_CHECKOUT.value: _reservation,
    Subject.BOOKING_DATES_CHANGED.value: _reservation,
    Subject.BOOKING_NO_SHOW.value: _reservation,
    Subject.BOOKING_FRAUD_FLAGGED.value: _reservation,
    Subject.RESERVATION_CHECKED_IN.value: _checked_in,
    Subject.PAYMENT_CAPTURED.value: _payment,
    Subject.USER_DEACTIVATED.value: _user,
    Subject.PROPERTY_DEACTIVATED.value: _property_off,
    Subject.CONFIG_UPDATED.value: _config,
    Subject.SHIFT_STARTED.value: _shift,
    Subject.SHIFT_ENDED.value: _shift,
    Subject.HOUSEKEEPING_TASK_CREATED.value: _task,
    Subject.HOUSEKEEPING_TASK_TRANSITIONED.value: _task,
    Subject.MAINTENANCE_WORKORDER_OPENED.value: _task,
    Subject.MAINTENANCE_WORKORDER_TRANSITIONED.value: _task,
}
