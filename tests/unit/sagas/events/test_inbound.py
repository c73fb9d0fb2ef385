"""Consumed events become frozen values: generous where nothing is at stake, strict where a door is."""

from __future__ import annotations

import copy
import dataclasses
import json
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from sagas.events import inbound, registry
from sagas.events.envelope import Envelope, compose
from sagas.events.inbound import ReservationEvent, parse
from sagas.events.refusals import EventRefused
from sagas.events.subjects import Subject

EXAMPLES = json.loads((Path(__file__).parent / "examples" / "inbound.json").read_text(encoding="utf-8"))
AT = datetime(2026, 4, 30, 10, 13, 42, tzinfo=UTC)
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BOOKING_SUBJECTS = [subject for subject in Subject if subject.name.startswith("BOOKING_")]
ENDINGS = [subject for subject in BOOKING_SUBJECTS if subject not in {Subject.BOOKING_CONFIRMED, Subject.BOOKING_DATES_CHANGED}]


def envelope(subject: str, number: int = 0, **changes: Any) -> Envelope:
    data = copy.deepcopy(EXAMPLES[subject][number])
    for name, value in changes.items():
        if value is ...:
            data.pop(name)
        else:
            data[name] = value
    return compose(subject, data, event_id="evt_1", time=AT, tenant_id="tnt_1", trace_id=TRACE, correlation_id="rsv_1")


def booking(subject: Subject = Subject.BOOKING_CONFIRMED, number: int = 0, **changes: Any) -> ReservationEvent:
    event = parse(envelope(subject, number, **changes))
    assert isinstance(event, ReservationEvent)
    return event


def refusal(event: Envelope) -> tuple[str, str]:
    with pytest.raises(EventRefused) as caught:
        parse(event)
    return caught.value.code.value, caught.value.detail


@pytest.mark.parametrize("subject", BOOKING_SUBJECTS)
def test_a_booking_event_carries_the_whole_reservation(subject: Subject) -> None:
    event = booking(subject)
    assert event.is_whole
    assert (event.subject, event.event_id, event.tenant_id, event.occurred_at) == (subject, "evt_1", "tnt_1", AT)
    assert (event.trace_id, event.correlation_id) == (TRACE, "rsv_1")
    assert (event.version, event.payment_status, event.id_verified) == (3, "captured", True)
    assert event.rooms == ("rmu_01HX7Q3T5W9Y2B4D6F8H0K2M4P", "rmu_01HY7Q3T5W9Y2B4D6F8H0K2M4P")
    assert event.valid_from == datetime(2026, 5, 1, 14, 0, tzinfo=UTC)
    assert event.valid_until == datetime(2026, 5, 3, 6, 30, tzinfo=UTC)
    assert (event.check_in, event.check_out) == (None, None)
    assert event.preferred_kinds == ("pin_code", "mobile_app")
    assert event.scope == inbound.Scope(("2",), ("gym",))
    assert (event.party_size, event.channel_hint) == (2, "mobile")
    guest = event.guest
    assert guest is not None
    assert (guest.id, guest.locale) == ("gst_01HX7Q3T5W9Y2B4D6F8H0K2M4P", "ps-AF")
    assert guest.display_name is not None
    assert guest.display_name.reveal() == "زهرا احمدی"
    assert guest.contact.email is not None
    assert guest.contact.email.reveal() == "zahra@example.org"
    assert guest.contact.phone_e164 is not None
    assert guest.contact.phone_e164.reveal() == "+93700000001"


def test_a_window_may_be_two_days_and_the_rooms_none() -> None:
    event = booking(number=1)
    assert event.is_whole
    assert (event.valid_from, event.valid_until) == (None, None)
    assert (event.check_in, event.check_out) == (date(2026, 5, 1), date(2026, 5, 3))
    assert event.rooms == ()


def test_a_day_use_arrives_and_leaves_on_one_day() -> None:
    assert booking(number=1, checkOut="2026-05-01").check_out == date(2026, 5, 1)


@pytest.mark.parametrize("subject", ENDINGS)
def test_an_ending_event_needs_only_what_names_the_booking(subject: Subject) -> None:
    event = booking(subject, 1)
    assert (event.is_whole, event.version, event.rooms, event.guest, event.valid_from) == (False, 4, (), None, None)


@pytest.mark.parametrize("subject", ENDINGS)
def test_nulls_in_an_ending_event_count_as_absent(subject: Subject) -> None:
    event = booking(subject, rooms=None, guest=None, validFrom=None, validUntil=None)
    assert (event.is_whole, event.rooms, event.guest) == (False, (), None)


def test_the_back_offices_property_spelling_becomes_ours() -> None:
    assert booking(propertyId="prop_7").property_id == "ppt_7"
    assert booking(propertyId="ppt_7").property_id == "ppt_7"


def test_unknown_kinds_hints_and_fields_are_ignored_and_doubles_dropped() -> None:
    event = booking(
        preferredKinds=["retina", "pin_code", "pin_code", "qr_code"],
        channelHint="pigeon",
        rooms=["204", "204", "101"],
        addedLater={"x": 1},
    )
    assert (event.preferred_kinds, event.channel_hint, event.rooms) == (("pin_code", "qr_code"), None, ("204", "101"))


def test_what_is_optional_may_be_missing_or_null() -> None:
    optional = ("preferredKinds", "scope", "partySize", "channelHint", "idVerified", "paymentStatus")
    for absent in (..., None):
        event = booking(**dict.fromkeys(optional, absent), guest={"id": "gst_1", "displayName": None, "contact": None})
        assert (event.preferred_kinds, event.scope, event.party_size) == ((), inbound.Scope(), None)
        assert (event.channel_hint, event.id_verified, event.payment_status) == (None, None, None)
        assert event.guest == inbound.Guest("gst_1", None, inbound.Contact(), None)


def test_a_whole_version_written_as_a_fraction_is_a_whole_number() -> None:
    version = booking(version=4.0).version
    assert (version, type(version)) == (4, int)


def test_no_guest_shows_in_a_printed_event() -> None:
    shown = repr(booking()) + str(booking()) + f"{booking().guest!r}"
    for secret in ("زهرا", "zahra", "700000001"):
        assert secret not in shown
    assert "Фарход" not in repr(parse(envelope(Subject.SHIFT_STARTED)))


@pytest.mark.parametrize("subject", [Subject.BOOKING_CONFIRMED, Subject.BOOKING_DATES_CHANGED])
@pytest.mark.parametrize("name", ["reservationId", "propertyId", "version", "status", "rooms", "guest"])
def test_a_booking_without_a_required_field_is_refused(subject: Subject, name: str) -> None:
    without: dict[str, Any] = {name: ...}
    assert refusal(envelope(subject, **without)) == ("MISSING_FIELD", f"data.{name}")


@pytest.mark.parametrize("subject", ENDINGS)
@pytest.mark.parametrize("name", ["reservationId", "propertyId", "version", "status"])
def test_an_ending_that_names_no_booking_is_refused(subject: Subject, name: str) -> None:
    without: dict[str, Any] = {name: ...}
    assert refusal(envelope(subject, **without)) == ("MISSING_FIELD", f"data.{name}")


@pytest.mark.parametrize(
    ("number", "changes", "code", "detail"),
    [
        (0, {"validFrom": "2026-05-01T14:00:00"}, "NO_TIME_ZONE", "data.validFrom: an instant needs a zone"),
        (0, {"validUntil": "2026-05-01T09:00:00Z"}, "WINDOW_INVERTED", "data.validUntil: not after data.validFrom"),
        (0, {"validUntil": "2026-05-01T18:30:00+04:30"}, "WINDOW_INVERTED", "data.validUntil: not after data.validFrom"),
        (1, {"checkOut": "2026-04-30"}, "WINDOW_INVERTED", "data.checkOut: before data.checkIn"),
        (1, {"checkOut": "2026-02-30"}, "SCHEMA_VIOLATION", "data.checkOut: format"),
        (1, {"checkOut": ...}, "MISSING_FIELD", "data: none of the allowed sets of fields is complete"),
    ],
)
def test_a_bad_window_is_refused(number: int, changes: dict[str, Any], code: str, detail: str) -> None:
    assert refusal(envelope(Subject.BOOKING_CONFIRMED, number, **changes)) == (code, detail)


def test_a_payment_names_its_reservation_and_status() -> None:
    event = parse(envelope(Subject.PAYMENT_CAPTURED))
    assert isinstance(event, inbound.PaymentCaptured)
    assert (event.reservation_id, event.payment_status) == ("rsv_01HX7Q3T5W9Y2B4D6F8H0K2M4P", "captured")
    assert event.captured_at == datetime(2026, 5, 1, 10, 0, tzinfo=UTC)


def test_deactivations_name_whom_they_concern() -> None:
    user = parse(envelope(Subject.USER_DEACTIVATED))
    house = parse(envelope(Subject.PROPERTY_DEACTIVATED, propertyId="prop_9"))
    assert isinstance(user, inbound.UserDeactivated)
    assert isinstance(house, inbound.PropertyDeactivated)
    assert (user.user_id, house.property_id) == ("usr_01HX7Q3T5W9Y2B4D6F8H0K2M4P", "ppt_9")


def test_changed_settings_name_their_keys_and_perhaps_a_property() -> None:
    one, whole_tenant = parse(envelope(Subject.CONFIG_UPDATED)), parse(envelope(Subject.CONFIG_UPDATED, 1))
    assert isinstance(one, inbound.ConfigUpdated)
    assert isinstance(whole_tenant, inbound.ConfigUpdated)
    assert (one.property_id, one.keys) == ("ppt_01HX7Q3T5W9Y2B4D6F8H0K2M4P", ("lock.policy",))
    assert (whole_tenant.property_id, whole_tenant.keys) == (None, ())


def test_a_shift_has_its_hours_scope_and_name() -> None:
    event = parse(envelope(Subject.SHIFT_STARTED))
    assert isinstance(event, inbound.ShiftEvent)
    assert (event.starts_at, event.ends_at) == (datetime(2026, 5, 1, 6, tzinfo=UTC), datetime(2026, 5, 1, 18, tzinfo=UTC))
    assert event.scope == "floor:3"
    assert event.display_name is not None
    assert event.display_name.reveal() == "Фарход"


def test_a_shifts_end_may_come_without_hours() -> None:
    event = parse(envelope(Subject.SHIFT_ENDED, 1))
    assert isinstance(event, inbound.ShiftEvent)
    assert (event.starts_at, event.ends_at, event.display_name) == (None, None, None)


def test_a_task_has_assignee_room_and_due_time() -> None:
    event = parse(envelope(Subject.HOUSEKEEPING_TASK_CREATED))
    bare = parse(envelope(Subject.MAINTENANCE_WORKORDER_OPENED))
    assert isinstance(event, inbound.TaskEvent)
    assert isinstance(bare, inbound.TaskEvent)
    assert (event.assignee_user_id, event.room_id) == ("usr_01HX7Q3T5W9Y2B4D6F8H0K2M4P", "rmu_01HX7Q3T5W9Y2B4D6F8H0K2M4P")
    assert (event.status, event.due_at) == ("open", datetime(2026, 5, 1, 12, tzinfo=UTC))
    assert (bare.assignee_user_id, bare.room_id, bare.due_at) == (None, None, None)


def test_cache_events_are_notices_and_never_bookings_or_deactivations() -> None:
    for subject in (Subject.RESERVATION_CHECKED_OUT, Subject.USER_DISABLED, Subject.ALERT_RAISED):
        event = parse(envelope(subject))
        assert type(event) is inbound.BackofficeNotice
        assert event.data == EXAMPLES[subject][0]


def test_a_check_in_names_the_stay_and_is_no_booking() -> None:
    event = parse(envelope(Subject.RESERVATION_CHECKED_IN))
    assert isinstance(event, inbound.CheckedIn)
    assert event.reservation_id == EXAMPLES[Subject.RESERVATION_CHECKED_IN][0]["reservationId"]


def test_every_key_moving_subject_has_a_type_of_its_own() -> None:
    for spec in registry.key_moving():
        assert type(parse(envelope(spec.subject))) is not inbound.BackofficeNotice


@pytest.mark.parametrize("subject", [Subject.CREDENTIAL_REVOKED, Subject.CREDENTIAL_ISSUED_LOCAL, Subject.BFF_DASHBOARD_VIEWED])
def test_our_own_events_are_not_taken_from_the_bus(subject: Subject) -> None:
    event = Envelope("evt_1", subject.value, "/x", AT, "tnt_1", {})
    assert refusal(event) == ("NOT_INBOUND", "subject: not consumed")


def test_a_parsed_event_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        booking().version = 9  # type: ignore[misc]


def test_events_load_without_any_framework() -> None:
    program = (
        "import sys, sagas.events.inbound, sagas.events.publishing, sagas.events.backoffice_envelope, sagas.events.check\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & "
        "{'django', 'rest_framework', 'celery', 'django_fsm', 'redis', 'google'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=registry.SCHEMAS.parents[2], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
