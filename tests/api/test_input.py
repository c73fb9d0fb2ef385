"""What is refused at the door, and how: each wrong input has its field, its status, and no effect."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests

from lockservice.core.http_strict import MAX_BODY_BYTES
from tests.api.conftest import issue_body, problem, records
from tests.support.hotel import Hotel
from tests.support.web_server import Caller, WebServer

KEYS = "/lock/v1/credentials"
PAST = (datetime.now(UTC) - timedelta(days=2)).isoformat()
SOON = (datetime.now(UTC) + timedelta(days=2)).isoformat()

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a number for a text": ({"holderId": 5}, "holderId"),
    "a truth value for a text": ({"holderId": True}, "holderId"),
    "null for a text": ({"holderId": None}, "holderId"),
    "an empty id": ({"holderId": ""}, "holderId"),
    "an id with a blank": ({"holderId": "gst 1"}, "holderId"),
    "an id of another script": ({"holderId": "مهمان"}, "holderId"),
    "an id too long": ({"holderId": "g" * 65}, "holderId"),
    "an unknown field": ({"colour": "red"}, "colour"),
    "rooms that are no list": ({"rooms": "rmu_1"}, "rooms"),
    "no rooms": ({"rooms": []}, "rooms"),
    "a room twice": ({"rooms": ["rmu_1", "rmu_1"]}, "rooms"),
    "a room that is a number": ({"rooms": [101]}, "rooms"),
    "too many rooms": ({"rooms": [f"rmu_{n}" for n in range(51)]}, "rooms"),
    "an unknown room": ({"rooms": ["rmu_nowhere"]}, "rooms"),
    "an unknown kind": ({"preferredKinds": ["brass"]}, "preferredKinds"),
    "a kind twice": ({"preferredKinds": ["pin_code", "pin_code"]}, "preferredKinds"),
    "an intent that replaces": ({"intent": "replacement"}, "intent"),
    "an unknown area": ({"areas": ["roof"]}, "areas"),
    "a time without zone": ({"validUntil": "2031-05-01T10:00:00"}, "validUntil"),
    "a day for an instant": ({"validUntil": "2031-05-01"}, "validUntil"),
    "seconds for an instant": ({"validUntil": 1900000000}, "validUntil"),
    "a day that is not in the calendar": ({"validUntil": "2031-02-30T10:00:00Z"}, "validUntil"),
    "an instant beyond the calendar": ({"validUntil": "9999-12-31T23:59:59-14:00"}, "validUntil"),
    "a window that ends before it starts": ({"validFrom": SOON, "validUntil": PAST}, "validUntil"),
    "a window without length": ({"validFrom": SOON, "validUntil": SOON}, "validUntil"),
    "a window that is over": ({"validFrom": "2024-01-01T10:00:00Z", "validUntil": PAST}, "validUntil"),
}


@pytest.mark.usefixtures("nothing_happens")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_400_by_field(name: str, hotel: Hotel, desk: Caller) -> None:
    changes, field = WRONG[name]
    answer = desk.post(KEYS, issue_body(hotel) | changes)
    assert problem(answer) == (400, "VALIDATION_FAILED")
    assert any(told == field or told.startswith(f"{field}[") for told in answer.json()["fields"]), answer.text
    assert answer.json()["retriable"] is False
    assert records(hotel) == []


def test_a_time_without_zone_is_told_what_it_needs(hotel: Hotel, desk: Caller) -> None:
    answer = desk.post(KEYS, issue_body(hotel) | {"validFrom": "2031-05-01T10:00:00"})
    assert answer.json()["fields"]["validFrom"].startswith("needs a time zone")


@pytest.mark.usefixtures("nothing_happens")
@pytest.mark.parametrize("missing", ["reservationId", "propertyId", "rooms", "validUntil", "holderId"])
def test_what_is_not_known_from_a_stay_is_required(missing: str, hotel: Hotel, boss: Caller) -> None:
    body = issue_body(hotel, reservationId="rsv_nobody_told_of", reason="walk-in at night")
    del body[missing]
    answer = boss.post(KEYS, body)
    assert (problem(answer), list(answer.json()["fields"])) == ((400, "VALIDATION_FAILED"), [missing])


BODIES: dict[str, tuple[bytes, int, str]] = {
    "cut short": (b'{"holderId": ', 400, "VALIDATION_FAILED"),
    "empty": (b"", 400, "VALIDATION_FAILED"),
    "a list": (b"[]", 400, "VALIDATION_FAILED"),
    "a text": (b'"x"', 400, "VALIDATION_FAILED"),
    "null": (b"null", 400, "VALIDATION_FAILED"),
    "not a number": (b'{"holderId": NaN}', 400, "VALIDATION_FAILED"),
    "a name twice": (b'{"holderId": "a", "holderId": "b"}', 400, "VALIDATION_FAILED"),
    "NUL": (b'{"holderId": "a\\u0000b"}', 400, "VALIDATION_FAILED"),
    "half a surrogate pair": (b'{"holderId": "\\ud800"}', 400, "VALIDATION_FAILED"),
    "no UTF-8": (b'{"holderId": "\xff"}', 400, "VALIDATION_FAILED"),
    "bottomless": (b"[" * 5000 + b"]" * 5000, 400, "VALIDATION_FAILED"),
    "too large": (b'{"holderId": "' + b"x" * MAX_BODY_BYTES + b'"}', 413, "PAYLOAD_TOO_LARGE"),
    "far too large": (b" " * (3 * 1024 * 1024), 413, "PAYLOAD_TOO_LARGE"),
}


@pytest.mark.usefixtures("nothing_happens")
@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_no_good_json_is_refused(name: str, hotel: Hotel, desk: Caller) -> None:
    raw, status, code = BODIES[name]
    answer = desk.post(KEYS, data=raw, headers={"Content-Type": "application/json"})
    assert problem(answer) == (status, code)
    assert records(hotel) == []


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "application/json; charset=utf-16"],
)
def test_another_media_type_is_415(kind: str, hotel: Hotel, desk: Caller) -> None:
    answer = desk.post(KEYS, data=json.dumps(issue_body(hotel)).encode(), headers={"Content-Type": kind})
    assert problem(answer) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_another_method_is_405_and_told_which_are_taken(method: str, desk: Caller) -> None:
    answer = desk.send(method, KEYS)
    assert problem(answer) == (405, "METHOD_NOT_ALLOWED")
    assert {part.strip() for part in answer.headers["Allow"].split(",")} == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize(
    "path",
    ["/lock/v1/nothing", "/lock/v1/credentials/", "/lock/v1/credentials/a%00b", "/nothing", "/lock/v1/credentials/" + "k" * 65],
)
def test_an_address_nobody_serves_is_404_in_json(path: str, desk: Caller) -> None:
    assert problem(desk.get(path)) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("state=open", "state"),
        ("kind=brass", "kind"),
        ("cursor=abc", "cursor"),
        ("colour=red", "colour"),
        ("holderId=%00", "holderId"),
        ("limit=1&limit=2", "limit"),
        ("reservationId=", "reservationId"),
    ],
)
def test_a_wrong_query_is_400_by_name(query: str, field: str, desk: Caller) -> None:
    answer = desk.get(f"{KEYS}?{query}")
    assert (problem(answer), list(answer.json()["fields"])) == ((400, "VALIDATION_FAILED"), [field])


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "body"), ({"idVerified": False}, "idVerified"), ({"idVerified": True, "rooms": ["r"]}, "idVerified")],
)
def test_a_change_of_nothing_is_refused(body: dict[str, Any], field: str, desk: Caller) -> None:
    answer = desk.patch(f"{KEYS}/key_none", body)
    assert (problem(answer), list(answer.json()["fields"])) == ((400, "VALIDATION_FAILED"), [field])


def test_an_act_without_choices_takes_no_input(boss: Caller) -> None:
    assert problem(boss.post(f"{KEYS}/key_none/unsuspend", {"reason": "x"})) == (400, "VALIDATION_FAILED")
    assert problem(boss.post(f"{KEYS}/key_none/unsuspend", {})) == (404, "NOT_FOUND")


def test_problems_carry_the_callers_trace(desk: Caller) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert desk.get(f"{KEYS}/key_none", headers={"traceparent": trace}).json()["traceId"] == trace
    made_up = desk.get(f"{KEYS}/key_none", headers={"traceparent": "nonsense"}).json()["traceId"]
    assert made_up.startswith("00-")
    assert len(made_up) == 55


def test_a_wrong_host_is_refused_in_json(web: WebServer) -> None:
    assert problem(requests.get(f"{web.url}/lock/v1/credentials", headers={"Host": "evil.example"}, timeout=5)) == (
        400,
        "VALIDATION_FAILED",
    )


def test_no_problem_repeats_what_was_sent(hotel: Hotel, desk: Caller) -> None:
    secret = "483920157"
    answer = desk.post(f"{KEYS}/key_none/encode", {"cardNumber": f"{secret}x"})
    assert problem(answer) == (400, "VALIDATION_FAILED")
    assert secret not in answer.text
    assert secret not in desk.post(
        KEYS, issue_body(hotel) | {"intent": secret, "rooms": [secret, secret], secret: 1}
    ).text.replace(f'"{secret}":"is not known"', "")
