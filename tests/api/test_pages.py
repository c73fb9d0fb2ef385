"""Lists by cursor."""

from __future__ import annotations

from typing import Any

from tests.api.conftest import issue_body, issue_key, make_hotel, problem, together, work
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.web_server import Caller, WebServer, caller

KEYS = "/lock/v1/credentials"


def pages(caller: Caller, path: str, limit: int, between: Any = None) -> list[list[str]]:
    """Reads a list to its end; `between` is done after the first page."""
    found, cursor = [], ""
    mark = "&" if "?" in path else "?"
    while True:
        answer = caller.get(f"{path}{mark}limit={limit}{cursor}")
        assert answer.status_code == 200, answer.text
        body = answer.json()
        found.append([item["id"] for item in body["items"]])
        if body["nextCursor"] is None:
            return found
        if len(found) == 1 and between is not None:
            between()
        cursor = f"&cursor={body['nextCursor']}"


def make_keys(hotel: Hotel, desk: Caller, count: int) -> list[str]:
    answers = [desk.post(KEYS, issue_body(hotel)) for _ in range(count)]
    return [answer.json()["credential"]["id"] for answer in answers]


def test_pages_show_every_key_once_newest_first(hotel: Hotel, desk: Caller) -> None:
    made = make_keys(hotel, desk, 7)
    found = pages(desk, KEYS, 3)
    assert [len(page) for page in found] == [3, 3, 1]
    assert [key for page in found for key in page] == made[::-1]


def test_keys_made_while_one_reads_shift_nothing(hotel: Hotel, desk: Caller) -> None:
    made = make_keys(hotel, desk, 6)
    later: list[str] = []
    found = pages(desk, KEYS, 2, between=lambda: later.extend(make_keys(hotel, desk, 3)))
    assert [key for page in found for key in page] == made[::-1]
    assert len(later) == 3


def test_keys_of_one_instant_are_not_lost_between_pages(hotel: Hotel, desk: Caller) -> None:
    bodies = [issue_body(hotel) for _ in range(12)]
    stays = together(12, lambda number: desk.post(KEYS, bodies[number]).json()["credential"]["id"])
    from credentials.models import KeyCredential
    from lockservice.core.tenancy import tenant

    with tenant(hotel.tenant_id):
        same = KeyCredential.objects.filter(tenant_id=hotel.tenant_id).values_list("requested_at", flat=True)[0]
        KeyCredential.objects.filter(tenant_id=hotel.tenant_id).update(requested_at=same)
    found = [key for page in pages(desk, KEYS, 5) for key in page]
    assert found == sorted(stays, reverse=True)


def test_filters_choose_and_the_cursor_keeps_to_them(hotel: Hotel, desk: Caller) -> None:
    stay = issue_body(hotel)["reservationId"]
    for _ in range(3):
        desk.post(KEYS, issue_body(hotel, reservationId=stay))
    desk.post(KEYS, issue_body(hotel, holderId="gst_other", preferredKinds=["mobile_app"]))
    assert len(pages(desk, f"{KEYS}?reservationId={stay}", 2)) == 2
    assert len(desk.get(f"{KEYS}?holderId=gst_other").json()["items"]) == 1
    assert len(desk.get(f"{KEYS}?kind=pin_code").json()["items"]) == 3
    assert len(desk.get(f"{KEYS}?state=active").json()["items"]) == 0
    work(hotel)
    assert len(desk.get(f"{KEYS}?state=active&kind=mobile_app").json()["items"]) == 1
    cursor = desk.get(f"{KEYS}?reservationId={stay}&limit=1").json()["nextCursor"]
    assert problem(desk.get(f"{KEYS}?cursor={cursor}")) == (400, "VALIDATION_FAILED")
    assert problem(desk.get(f"{KEYS}?reservationId={stay}&cursor={cursor[:-2]}xx")) == (400, "VALIDATION_FAILED")


def test_a_cursor_of_another_tenant_is_no_cursor(hotel: Hotel, desk: Caller, web: WebServer, locks: MockLocks) -> None:
    make_keys(hotel, desk, 2)
    cursor = desk.get(f"{KEYS}?limit=1").json()["nextCursor"]
    other = make_hotel(locks)
    assert problem(caller(web, other.tenant_id, "front_desk").get(f"{KEYS}?limit=1&cursor={cursor}")) == (
        400,
        "VALIDATION_FAILED",
    )


def test_a_keys_story_comes_by_cursor_and_what_happens_meanwhile_shifts_nothing(hotel: Hotel, desk: Caller) -> None:
    from credentials.models import Transition
    from lockservice.core.tenancy import tenant

    key, other = issue_key(hotel, desk), issue_key(hotel, desk, "102")
    path = f"{KEYS}/{key['id']}/timeline"
    whole = desk.get(path).json()
    told = [item["sequence"] for item in whole["items"]]
    assert (whole["nextCursor"], told) == (None, list(range(1, len(told) + 1)))
    first = desk.get(f"{path}?limit=2").json()
    with tenant(hotel.tenant_id):
        row = Transition.objects.filter(tenant_id=hotel.tenant_id, credential_id=key["id"]).order_by("-sequence")[0]
        row.pk, row.sequence = None, row.sequence + 1
        row.save(force_insert=True)
    rest = desk.get(f"{path}?limit=200&cursor={first['nextCursor']}").json()
    assert [item["sequence"] for item in first["items"] + rest["items"]] == [*told, told[-1] + 1]
    assert rest["nextCursor"] is None
    elsewhere = desk.get(f"{KEYS}/{other['id']}/timeline?cursor={first['nextCursor']}")
    for answer in (elsewhere, desk.get(f"{path}?limit=201"), desk.get(f"{path}?since=1")):
        assert problem(answer) == (400, "VALIDATION_FAILED")


def test_a_page_is_at_most_200(desk: Caller) -> None:
    assert desk.get(f"{KEYS}?limit=200").status_code == 200
    assert desk.get(f"{KEYS}?limit=201").status_code == 400


def test_devices_come_by_cursor_with_their_health(hotel: Hotel, desk: Caller) -> None:
    found = pages(desk, f"/lock/v1/devices?propertyId={hotel.property_id}", 3)
    assert [len(page) for page in found] == [3, 1]
    assert sorted(key for page in found for key in page) == sorted(hotel.devices.values())
    device = desk.get("/lock/v1/devices?limit=1").json()["items"][0]
    assert (device["vendor"], device["capabilities"]["pin"], device["health"]["online"]) == ("mock", True, True)


def test_a_list_costs_the_same_number_of_queries_however_long(hotel: Hotel, desk: Caller) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from credentials.models import KeyCredential
    from lockservice.api.credential_body import render_all
    from lockservice.core.tenancy import tenant

    issue_key(hotel, desk, "101", "102", "103")
    make_keys(hotel, desk, 4)
    with tenant(hotel.tenant_id):  # what is remembered for seconds is fresh now, however slow the machine was
        render_all(hotel.tenant_id, list(KeyCredential.objects.filter(tenant_id=hotel.tenant_id)))
    with tenant(hotel.tenant_id), CaptureQueriesContext(connection) as captured:
        rows = list(KeyCredential.objects.filter(tenant_id=hotel.tenant_id))
        assert len(render_all(hotel.tenant_id, rows)) == 5
    assert len(captured) == 6  # keys, doors, labels, the hotel's clock by which a door has followed, and two of what is offered
