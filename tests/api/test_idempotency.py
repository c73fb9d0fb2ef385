"""Idempotency-Key: one effect and one answer, whatever is repeated, raced or killed."""

from __future__ import annotations

from typing import Any

import pytest

from credentials.models import KeyCredential
from lockservice.core.http_idempotency import Answer, Call, once
from lockservice.core.http_problems import Problem
from lockservice.core.idempotency import IdempotencyRecord
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.acts import Actor
from tests.api.conftest import footprint, issue_body, issue_key, problem, records, together, work, worker
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.web_server import Caller, WebServer, caller
from vendors.port.ids import new_id

ISSUE = "/lock/v1/credentials"


def keys_of(hotel: Hotel) -> list[KeyCredential]:
    with tenant(hotel.tenant_id):
        return list(KeyCredential.objects.filter(tenant_id=hotel.tenant_id))


def test_the_same_request_again_gives_the_same_answer_and_one_key(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    body = issue_body(hotel)
    first = desk.post(ISSUE, body, key="again")
    second = desk.post(ISSUE, body, key="again")
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json() == second.json()
    assert ("Idempotent-Replayed" in first.headers, second.headers["Idempotent-Replayed"]) == (False, "true")
    work(hotel)
    assert (len(keys_of(hotel)), locks.created_at(hotel.doors["101"])) == (1, 1)


def test_field_order_and_spacing_make_no_other_request(hotel: Hotel, desk: Caller) -> None:
    body = issue_body(hotel)
    first = desk.post(ISSUE, body, key="order")
    second = desk.post(ISSUE, dict(reversed(body.items())), key="order")
    assert first.json() == second.json()


def test_an_answer_that_was_waited_for_is_repeated_with_its_status_and_its_pin(hotel: Hotel, desk: Caller) -> None:
    body = issue_body(hotel)
    with worker(hotel):
        first = desk.post(ISSUE, body, key="waited", headers={"Prefer": "wait=5"})
    second = desk.post(ISSUE, body, key="waited")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert len(second.json()["pin"]) == 8


def test_no_pin_lies_in_the_record(hotel: Hotel, desk: Caller) -> None:
    with worker(hotel):
        pin = desk.post(ISSUE, issue_body(hotel), headers={"Prefer": "wait=5"}).json()["pin"]
    (row,) = records(hotel)
    assert row.status == 201
    assert sorted(row.resource) == ["credential", "operation"]
    assert pin not in str(row.resource)


def test_no_card_number_can_be_found_by_trying_digests(hotel: Hotel, desk: Caller) -> None:
    key = issue_key(hotel, desk)
    path, body = f"/lock/v1/credentials/{key['id']}/encode", {"cardNumber": "1234567890"}
    for _ in range(2):
        assert problem(desk.post(path, body, key="card")) == (409, "TRANSITION_REFUSED")
    assert problem(desk.post(path, {"cardNumber": "1234567891"}, key="card")) == (422, "IDEMPOTENCY_KEY_REUSED")
    row = next(row for row in records(hotel) if row.key == "card")
    assert row.status == 409
    assert row.fingerprint != Call(hotel.tenant_id, "usr_test", "card", "POST", path, body).fingerprint


def test_another_body_under_the_same_key_is_refused(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    desk.post(ISSUE, issue_body(hotel), key="reused")
    before = footprint(hotel, locks)
    assert problem(desk.post(ISSUE, issue_body(hotel, "102"), key="reused")) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert footprint(hotel, locks) == before


def test_another_person_or_another_address_under_the_same_key_is_refused(hotel: Hotel, desk: Caller, boss: Caller) -> None:
    body = issue_body(hotel)
    key = desk.post(ISSUE, body, key="mine").json()["credential"]["id"]
    assert problem(boss.post(ISSUE, body, key="mine")) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert problem(desk.post(f"{ISSUE}/{key}/retry", key="mine")) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_two_tenants_may_use_the_same_key(hotel: Hotel, desk: Caller, web: WebServer, locks: MockLocks) -> None:
    from tests.api.conftest import make_hotel

    other = make_hotel(locks)
    stranger = caller(web, other.tenant_id, "front_desk")
    assert desk.post(ISSUE, issue_body(hotel), key="shared").status_code == 202
    assert stranger.post(ISSUE, issue_body(other), key="shared").status_code == 202
    assert (len(keys_of(hotel)), len(keys_of(other))) == (1, 1)


@pytest.mark.usefixtures("nothing_happens")
def test_a_mutating_call_without_a_key_or_with_a_bad_one_is_refused(hotel: Hotel, desk: Caller) -> None:
    for key in ("", "with space", "x" * 256):
        answer = desk.post(ISSUE, issue_body(hotel), key="", headers={"Idempotency-Key": key} if key else {})
        assert problem(answer) == (400, "VALIDATION_FAILED")
        assert list(answer.json()["fields"]) == ["Idempotency-Key"]
    assert records(hotel) == []


def test_an_invalid_request_frees_its_key_for_the_corrected_one(hotel: Hotel, desk: Caller) -> None:
    wrong = issue_body(hotel) | {"rooms": ["rmu_nowhere"]}
    assert problem(desk.post(ISSUE, wrong, key="corrected")) == (400, "VALIDATION_FAILED")
    assert problem(desk.post(ISSUE, {"rooms": []}, key="corrected")) == (400, "VALIDATION_FAILED")
    assert records(hotel) == []
    assert desk.post(ISSUE, issue_body(hotel), key="corrected").status_code == 202


def test_a_refusal_by_state_is_kept_and_told_again_though_the_state_has_changed(hotel: Hotel, boss: Caller) -> None:
    key = issue_key(hotel, boss)
    path = f"{ISSUE}/{key['id']}/unsuspend"
    assert problem(boss.post(path, key="kept")) == (409, "TRANSITION_REFUSED")
    boss.post(f"{ISSUE}/{key['id']}/suspend", {"reason": "manual"})
    work(hotel)
    again = boss.post(path, key="kept")
    assert (problem(again), again.headers["Idempotent-Replayed"]) == ((409, "TRANSITION_REFUSED"), "true")
    assert boss.get(f"{ISSUE}/{key['id']}").json()["state"] == "suspended"
    assert boss.post(path, key="fresh").status_code == 202


def test_ten_identical_requests_at_once_make_one_key(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    body = issue_body(hotel)
    answers = together(10, lambda _: desk.post(ISSUE, body, key="race"))
    statuses = sorted({answer.status_code for answer in answers})
    assert statuses in ([202], [202, 409])
    for answer in answers:
        if answer.status_code == 409:
            assert (problem(answer)[1], answer.headers["Retry-After"]) == ("OPERATION_IN_PROGRESS", "1")
            assert answer.json()["retriable"] is True
    ids = {answer.json()["credential"]["id"] for answer in answers if answer.status_code == 202}
    assert len(ids) == 1
    assert desk.post(ISSUE, body, key="race").json()["credential"]["id"] in ids
    work(hotel)
    assert (len(keys_of(hotel)), locks.created_at(hotel.doors["101"])) == (1, 1)


def test_additional_keys_of_one_stay_asked_for_at_once_all_come(hotel: Hotel, desk: Caller) -> None:
    body = issue_body(hotel)
    stay = body["reservationId"]
    answers = together(5, lambda _: desk.post(ISSUE, body))
    assert [answer.status_code for answer in answers] == [202] * 5
    with tenant(hotel.tenant_id):
        ordinals = KeyCredential.objects.filter(tenant_id=hotel.tenant_id, reservation_id=stay).values_list(
            "ordinal", flat=True
        )
        assert sorted(ordinals) == [0, 1, 2, 3, 4]


def test_eight_different_revokes_at_once_take_the_key_back_once(hotel: Hotel, boss: Caller, locks: MockLocks) -> None:
    key = issue_key(hotel, boss)
    answers = together(8, lambda _: boss.post(f"{ISSUE}/{key['id']}/revoke", {"reason": "security"}))
    assert [answer.status_code for answer in answers] == [202] * 8
    work(hotel)
    verbs = [call["verb"] for call in locks.calls(hotel.doors["101"])]
    assert verbs.count("revoke") == 1
    items = boss.get(key["links"]["timeline"]).json()["items"]
    assert [item["move"] for item in items].count("revoke") == 1


def call_of(hotel: Hotel, key: str, body: Any = None) -> Call:
    return Call(hotel.tenant_id, "usr_test", key, "POST", ISSUE, body or {"a": 1})


def issue_work(hotel: Hotel, act_id: str) -> Answer:
    from datetime import UTC, datetime, timedelta

    from vendors.port.types import Window

    now = datetime.now(UTC)
    command = acts.IssueCommand(
        hotel.property_id, (hotel.rooms["101"],), Window(now, now + timedelta(days=1)), "gst_1", reservation_id=new_id("rsv"),
        reason="walk-in", may_issue_unbooked=True,
    )  # fmt: skip
    act = acts.issue(hotel.tenant_id, command, Actor("usr_test"), act_id)
    return Answer(202, {"credential": act.credential_id, "operation": act.saga_id})


class Killed(BaseException):
    """Stands for the process's death: nothing catches it."""


def test_a_crash_between_the_act_and_its_record_leaves_neither_and_the_request_runs_again_after_a_minute(hotel: Hotel) -> None:
    def dies(act_id: str) -> Answer:
        issue_work(hotel, act_id)
        raise Killed

    with pytest.raises(Killed):
        once(call_of(hotel, "crash"), dies)
    assert keys_of(hotel) == []
    (row,) = records(hotel)
    assert row.status == 0
    with pytest.raises(Problem, match="OPERATION_IN_PROGRESS"):
        once(call_of(hotel, "crash"), lambda act_id: issue_work(hotel, act_id))
    age(hotel, seconds=50)
    with pytest.raises(Problem, match="OPERATION_IN_PROGRESS"):
        once(call_of(hotel, "crash"), lambda act_id: issue_work(hotel, act_id))
    age(hotel, seconds=11)
    answer, replayed = once(call_of(hotel, "crash"), lambda act_id: issue_work(hotel, act_id))
    assert (answer.status, replayed, len(keys_of(hotel))) == (202, False, 1)
    assert once(call_of(hotel, "crash"), lambda _: pytest.fail("ran twice")) == (answer, True)


def test_a_late_first_runner_that_was_taken_over_commits_nothing(hotel: Hotel) -> None:
    def slow(act_id: str) -> Answer:
        issue_work(hotel, act_id)
        return issue_and_be_overtaken(hotel)

    with pytest.raises(Problem, match="OPERATION_IN_PROGRESS"):
        once(call_of(hotel, "late"), slow)
    assert keys_of(hotel) == []
    (row,) = records(hotel)
    assert (row.status, row.resource) == (202, {"credential": "key_of_the_second", "operation": None})


def issue_and_be_overtaken(hotel: Hotel) -> Answer:
    """While the first still works, a second takes over in a connection of its own and finishes."""

    def second(_: int) -> None:
        from django.db import connection

        try:
            age(hotel, seconds=61)
            once(call_of(hotel, "late"), lambda _: Answer(202, {"credential": "key_of_the_second", "operation": None}))
        finally:
            connection.close()

    together(1, second)
    return Answer(202, {"credential": "key_of_the_first", "operation": None})


def test_an_unforeseen_error_frees_the_key_and_keeps_nothing(hotel: Hotel) -> None:
    def breaks(act_id: str) -> Answer:
        issue_work(hotel, act_id)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        once(call_of(hotel, "bug"), breaks)
    assert (keys_of(hotel), records(hotel)) == ([], [])


def test_records_older_than_two_days_are_forgotten_on_the_way_and_younger_ones_are_not(hotel: Hotel) -> None:
    once(call_of(hotel, "old"), lambda _: Answer(200, {}))
    age(hotel, seconds=48 * 3600 + 5)
    once(call_of(hotel, "young"), lambda _: Answer(200, {}))
    age(hotel, seconds=24 * 3600)
    once(call_of(hotel, "new"), lambda _: Answer(200, {}))
    assert [row.key for row in records(hotel)] == ["young", "new"]


def age(hotel: Hotel, *, seconds: int) -> None:
    """Makes the hotel's idempotency rows older."""
    from django.db import connection

    with tenant(hotel.tenant_id), connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {IdempotencyRecord._meta.db_table} SET created_at = created_at - make_interval(secs => %s) WHERE tenant_id = %s",
            [seconds, hotel.tenant_id],
        )
