"""Doors of the demo: a booking becomes an event on the bus, and the keys that tokens are signed with.

The one rule: these addresses exist in embedded mode only, and a booking goes the way every booking goes: over the bus.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from lockservice.api.openapi import documented
from lockservice.api.places import require_property
from lockservice.api.route import Route, principal, read_body, reply
from lockservice.core.auth_keys import embedded_key_set
from lockservice.core.auth_permissions import Permission
from lockservice.core.http import unavailable
from lockservice.core.http_problems import Problem, trace_of
from lockservice.core.http_strict import OpaqueId, Text, shape
from lockservice.core.tenancy import tenant
from sagas import bus
from sagas.events import envelope
from sagas.events.inbound import ReservationEvent, parse
from sagas.events.refusals import EventRefused
from sagas.events.registry import spec
from sagas.outbox import new_event_id
from vendors.port.ids import new_id

SOURCE = "/services/reservation-service"
SUBJECTS = ("confirmed", "dates_changed", "cancelled", "checked_out", "early_checkout", "no_show", "fraud_flagged")


BookingForm = shape(
    "DemoBooking",
    event=serializers.ChoiceField(choices=SUBJECTS, required=False, help_text="What happened; `confirmed` if not given."),
    reservationId=OpaqueId(required=False, help_text="A new one if not given."),
    propertyId=OpaqueId(),
    version=serializers.IntegerField(min_value=0, required=False, help_text="Rises; the present second if not given."),
    rooms=serializers.ListField(child=OpaqueId(), required=False),
    validFrom=Text(max_length=40, required=False),
    validUntil=Text(max_length=40, required=False),
    checkIn=Text(max_length=10, required=False),
    checkOut=Text(max_length=10, required=False),
    guest=serializers.DictField(required=False),
    preferredKinds=serializers.ListField(child=Text(max_length=20), required=False),
    channelHint=Text(max_length=12, required=False),
    paymentStatus=Text(max_length=32, required=False),
)
AcceptedBody = shape("DemoBookingAccepted", eventId=serializers.CharField(), reservationId=serializers.CharField())


class BookingsRoute(Route):
    """Stands in for the booking service."""

    needs: ClassVar = {"POST": Permission.KEY_ISSUE}

    @documented(
        summary="Put a booking on the bus, as the booking service would (embedded mode only)", tag="demo", body=BookingForm,
        answers={202: AcceptedBody}, problems=[404, 413, 415], operation_id="demo_booking",
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Publishes one reservation event of the caller's tenant."""
        if not settings.EMBEDDED:
            raise Problem("NOT_FOUND")
        form, caller = read_body(request, BookingForm), principal(request)
        with tenant(caller.tenant_id):
            form["propertyId"] = require_property(caller, form["propertyId"])
        event = _event(caller.tenant_id, form, trace_of(request))
        try:
            parsed = parse(event)
            body = envelope.encode(event)
        except EventRefused as error:
            raise Problem("VALIDATION_FAILED", "the event would be refused", {"body": error.detail}) from error
        if not isinstance(parsed, ReservationEvent):
            raise TypeError(event.subject)
        message = bus.BusMessage(spec(event.subject).topic or "", parsed.reservation_id, body)
        try:
            _bus().publish([message])
        except bus.BusUnavailable as error:
            raise unavailable("the event bus does not answer") from error
        return reply({"eventId": event.id, "reservationId": parsed.reservation_id}, 202)


def key_set(request: HttpRequest) -> JsonResponse:
    """Answers with the public keys of embedded mode."""
    return JsonResponse(embedded_key_set())


def _event(tenant_id: str, form: dict[str, Any], trace: str) -> envelope.Envelope:
    kind = form.pop("event", "confirmed")
    data = {
        "reservationId": new_id("rsv"),
        "version": int(time.time()),
        "status": kind,
        "rooms": [],
        "guest": {"id": new_id("gst")},
        "paymentStatus": "captured",
        **form,
    }
    data["guest"] = {"id": new_id("gst"), **data["guest"]}
    return envelope.Envelope(
        id=new_event_id(),
        subject=f"melmastoon.reservation.booking.{kind}.v1",
        source=SOURCE,
        time=datetime.now(UTC),
        tenant_id=tenant_id,
        data=data,
        trace_id=trace,
    )


@lru_cache(maxsize=1)
def _bus() -> bus.EventBus:
    return bus.from_settings()
