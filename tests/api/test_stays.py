"""What a booking app does: looks at one stay, and takes over what the guest receives, once."""

from __future__ import annotations

import json

import pytest

from credentials.models import Artifact, Reservation
from lockservice.core.tenancy import tenant
from tests.api.conftest import issue_key, problem, together, work
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.web_server import Caller, WebServer, caller
from vendors.port.ids import new_id

EXCHANGE = "/lock/v1/key-exchange"


@pytest.fixture
def app(web: WebServer, hotel: Hotel) -> Caller:
    """Give a booking app of the hotel."""
    return caller(web, hotel.tenant_id, "booking_app", subject="svc_booking_app")


def booked(hotel: Hotel) -> str:
    stay = new_id("rsv")
    assert hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"])) == "applied"
    work(hotel)
    return stay


def reference(app: Caller, stay: str) -> str:
    return str(app.get(f"/lock/v1/reservations/{stay}/keys").json()["keys"][0]["artifact"]["opaqueRef"])


def test_a_stay_shows_its_booking_and_its_keys(hotel: Hotel, app: Caller) -> None:
    stay = booked(hotel)
    answer = app.get(f"/lock/v1/reservations/{stay}/keys")
    body = answer.json()
    assert answer.headers["Cache-Control"] == "no-store"
    assert (body["status"], body["version"], body["rooms"], body["paymentStatus"]) == (
        "confirmed",
        1,
        [hotel.rooms["101"]],
        "captured",
    )
    (key,) = body["keys"]
    assert (key["credential"]["state"], key["artifact"]["type"]) == ("active", "pin")
    assert "زهرا" not in json.dumps(body, ensure_ascii=False)


def test_a_clerk_sees_no_references(hotel: Hotel, desk: Caller) -> None:
    stay = booked(hotel)
    assert desk.get(f"/lock/v1/reservations/{stay}/keys").json()["keys"][0]["artifact"] is None


def test_an_unknown_stay_is_not_there(app: Caller) -> None:
    assert problem(app.get(f"/lock/v1/reservations/{new_id('rsv')}/keys")) == (404, "NOT_FOUND")


def test_a_stay_that_only_a_supervisor_told_of_shows_her_keys(hotel: Hotel, boss: Caller, desk: Caller) -> None:
    key = issue_key(hotel, boss, reservationId=new_id("rsv"), reason="walk-in at night")
    body = desk.get(f"/lock/v1/reservations/{key['reservationId']}/keys").json()
    assert (body["status"], body["version"], len(body["keys"]), body["verdict"]) == ("unknown", None, 1, None)


def test_of_a_stay_that_was_moved_to_a_house_out_of_reach_only_the_keys_here_are_shown(hotel: Hotel, desk: Caller) -> None:
    stay = booked(hotel)
    with tenant(hotel.tenant_id):
        Reservation.objects.filter(reservation_id=stay).update(property_id="ppt_elsewhere", rooms=["room_elsewhere"])
    answer = desk.get(f"/lock/v1/reservations/{stay}/keys")
    body = answer.json()
    assert (answer.status_code, len(body["keys"]), "elsewhere" in answer.text) == (200, 1, False)
    assert (body["status"], body["version"], body["propertyId"]) == ("unknown", None, hotel.property_id)
    assert (body["rooms"], body["paymentStatus"]) == ([hotel.rooms["101"]], None)


def test_a_reference_is_exchanged_once_for_digits_that_open_the_door(hotel: Hotel, app: Caller, locks: MockLocks) -> None:
    stay = booked(hotel)
    ref = reference(app, stay)
    answer = app.post(EXCHANGE, {"opaqueRef": ref}, key="")
    body = answer.json()
    assert (answer.status_code, body["type"], answer.headers["Cache-Control"]) == (200, "pin", "no-store")
    assert locks.opens(hotel.doors["101"], body["value"])
    assert problem(app.post(EXCHANGE, {"opaqueRef": ref}, key="")) == (409, "TRANSITION_REFUSED")
    assert app.get(f"/lock/v1/reservations/{stay}/keys").json()["keys"][0]["artifact"] is None


def test_the_same_caller_may_repeat_under_her_key_for_a_minute_and_nobody_else(
    hotel: Hotel, app: Caller, web: WebServer
) -> None:
    ref = reference(app, booked(hotel))
    first = app.post(EXCHANGE, {"opaqueRef": ref}, key="mine")
    assert app.post(EXCHANGE, {"opaqueRef": ref}, key="mine").json() == first.json()
    assert app.post(EXCHANGE, {"opaqueRef": ref}, key="other").status_code == 409
    notifier = caller(web, hotel.tenant_id, "notification", subject="svc_notification")
    assert notifier.post(EXCHANGE, {"opaqueRef": ref}, key="mine").status_code == 409
    with tenant(hotel.tenant_id):
        from datetime import timedelta

        row = Artifact.objects.get(tenant_id=hotel.tenant_id, id=ref)
        Artifact.objects.filter(id=ref).update(exchanged_at=row.exchanged_at - timedelta(seconds=61))
    assert app.post(EXCHANGE, {"opaqueRef": ref}, key="mine").status_code == 409


def test_of_many_who_exchange_at_once_one_gets_it(hotel: Hotel, app: Caller) -> None:
    ref = reference(app, booked(hotel))
    answers = together(8, lambda _: app.post(EXCHANGE, {"opaqueRef": ref}))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7


def test_a_key_that_is_over_hands_nothing_over_and_the_reference_stays_unused(hotel: Hotel, app: Caller) -> None:
    stay = booked(hotel)
    ref = reference(app, stay)
    hotel.tell("booking.checked_out", hotel.booking(stay, 2, ["101"], status="checked_out"))
    assert problem(app.post(EXCHANGE, {"opaqueRef": ref})) == (409, "TRANSITION_REFUSED")
    with tenant(hotel.tenant_id):
        assert Artifact.objects.get(tenant_id=hotel.tenant_id, id=ref).exchanged_at is None


def test_an_unknown_reference_is_not_there(app: Caller) -> None:
    assert problem(app.post(EXCHANGE, {"opaqueRef": new_id("tk")})) == (404, "NOT_FOUND")
