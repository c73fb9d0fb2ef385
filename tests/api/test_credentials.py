"""Keys over HTTP, end to end: asked for by a clerk, worked by a worker, asked about at the door."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.api.conftest import footprint, issue_body, issue_key, make_hotel, problem, work, worker
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.web_server import Caller, WebServer, caller
from vendors.port.ids import new_id


def test_an_issued_key_is_accepted_first_and_opens_once_worked(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    answer = desk.post("/lock/v1/credentials", issue_body(hotel, "101", "102"))
    body = answer.json()
    assert (answer.status_code, body["status"], body["flow"], body["credential"]["state"]) == (
        202,
        "running",
        "issue",
        "requested",
    )
    assert answer.headers["Location"] == f"/lock/v1/operations/{body['id']}"
    assert body["credential"]["doorsConfirmed"] == "0 of 3"
    work(hotel)
    operation = desk.get(answer.headers["Location"]).json()
    key = operation["credential"]
    assert (operation["status"], key["state"], key["propagation"], key["doorsConfirmed"]) == (
        "succeeded",
        "active",
        "confirmed",
        "3 of 3",
    )
    assert {door["label"] for door in key["doors"]} == {"101", "102", "lobby"}
    assert key["allowedActions"] == ["update", "suspend", "revoke", "replace", "choose_pin"]
    assert len(locks.keys_at(hotel.doors["101"])) == 1


def test_a_clerk_who_waits_reads_the_pin_out_and_it_opens_the_door(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    with worker(hotel):
        answer = desk.post("/lock/v1/credentials", issue_body(hotel), headers={"Prefer": "wait=5"})
    body = answer.json()
    assert (answer.status_code, body["state"], len(body["pin"])) == (201, "active", 8)
    assert answer.headers["Location"] == f"/lock/v1/credentials/{body['id']}"
    assert locks.opens(hotel.doors["101"], body["pin"])
    assert not locks.opens(hotel.doors["102"], body["pin"])
    assert body["pin"] not in desk.get(f"/lock/v1/credentials/{body['id']}").text


def test_nobody_waits_longer_than_asked_when_no_worker_comes(hotel: Hotel, desk: Caller) -> None:
    started = datetime.now(UTC)
    answer = desk.post("/lock/v1/credentials", issue_body(hotel), headers={"Prefer": "wait=1"})
    took = (datetime.now(UTC) - started).total_seconds()
    assert (answer.status_code, answer.json()["status"]) == (202, "running")
    assert 1 <= took < 6


def test_a_key_of_a_known_stay_needs_nothing_but_the_stay(hotel: Hotel, desk: Caller) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["102"]))
    work(hotel)
    second = issue_key_of(desk, hotel, {"reservationId": stay})
    keys = desk.get(f"/lock/v1/reservations/{stay}/keys").json()["keys"]
    first = keys[1]["credential"]
    assert [key["credential"]["id"] for key in keys] == [second["id"], first["id"]]
    assert (second["window"], second["rooms"], second["holderId"]) == (first["window"], first["rooms"], first["holderId"])
    assert (first["intent"], second["intent"]) == ("new", "additional")


def issue_key_of(desk: Caller, hotel: Hotel, body: dict[str, object]) -> dict[str, object]:
    answer = desk.post("/lock/v1/credentials", body)
    assert answer.status_code == 202, answer.text
    work(hotel)
    return dict(desk.get(f"/lock/v1/credentials/{answer.json()['credential']['id']}").json())


def test_a_longer_window_and_another_room_move_the_key_at_the_doors(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    key = issue_key(hotel, desk)
    until = (datetime.now(UTC).replace(microsecond=0) + timedelta(days=5)).isoformat()
    answer = desk.patch(f"/lock/v1/credentials/{key['id']}", {"validUntil": until, "rooms": [hotel.rooms["103"]]})
    assert answer.status_code == 202
    work(hotel)
    after = desk.get(f"/lock/v1/credentials/{key['id']}").json()
    assert (after["rooms"], after["doorsConfirmed"]) == ([hotel.rooms["103"]], "2 of 2")
    assert datetime.fromisoformat(after["window"]["validUntil"]) == datetime.fromisoformat(until)
    assert (len(locks.keys_at(hotel.doors["101"])), len(locks.keys_at(hotel.doors["103"]))) == (0, 1)


def test_a_change_that_changes_nothing_starts_no_work(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    key = issue_key(hotel, desk)
    before = footprint(hotel, locks)
    answer = desk.patch(f"/lock/v1/credentials/{key['id']}", {"rooms": key["rooms"]})
    assert answer.status_code == 202
    assert answer.json()["status"] == "succeeded"
    work(hotel)
    assert footprint(hotel, locks) == before


def test_suspend_rests_the_key_and_unsuspend_opens_it_again(hotel: Hotel, boss: Caller, locks: MockLocks) -> None:
    with worker(hotel):
        pin = boss.post("/lock/v1/credentials", issue_body(hotel), headers={"Prefer": "wait=5"}).json()
        path = f"/lock/v1/credentials/{pin['id']}"
        rested = boss.post(f"{path}/suspend", {"reason": "overdue_payment"}, headers={"Prefer": "wait=5"})
        assert (rested.status_code, rested.json()["state"], rested.json()["suspendReason"]) == (
            200,
            "suspended",
            "overdue_payment",
        )
        assert not locks.opens(hotel.doors["101"], pin["pin"])
        again = boss.post(f"{path}/unsuspend", headers={"Prefer": "wait=5"})
    assert (again.status_code, again.json()["state"]) == (200, "active")
    assert locks.opens(hotel.doors["101"], pin["pin"])


def test_revoked_is_persisted_at_once_and_followed_at_the_door(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    key = issue_key(hotel, desk)
    answer = desk.post(f"/lock/v1/credentials/{key['id']}/revoke", {"reason": "checkout"})
    body = answer.json()
    assert (answer.status_code, body["credential"]["state"], body["credential"]["revokeReason"]) == (202, "revoked", "checkout")
    assert len(locks.keys_at(hotel.doors["101"])) == 1
    work(hotel)
    assert len(locks.keys_at(hotel.doors["101"])) == 0
    after = desk.get(f"/lock/v1/credentials/{key['id']}").json()
    assert (after["doorsConfirmed"], after["allowedActions"]) == ("2 of 2", [])


def test_a_second_revoke_is_a_success_without_effect(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    key = issue_key(hotel, desk)
    path = f"/lock/v1/credentials/{key['id']}/revoke"
    desk.post(path, {"reason": "checkout"})
    work(hotel)
    before = footprint(hotel, locks)
    answer = desk.post(path, {"reason": "lost"})
    assert (answer.status_code, answer.json()["credential"]["revokeReason"]) == (202, "checkout")
    work(hotel)
    assert footprint(hotel, locks) == before


def test_a_lost_key_is_replaced_at_once_and_the_new_digits_are_told(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    with worker(hotel):
        old = desk.post("/lock/v1/credentials", issue_body(hotel), headers={"Prefer": "wait=5"}).json()
        answer = desk.post(f"/lock/v1/credentials/{old['id']}/revoke", {"reason": "lost"}, headers={"Prefer": "wait=5"})
    new = answer.json()
    assert (answer.status_code, new["state"], new["replaces"], new["intent"]) == (201, "active", old["id"], "replacement")
    assert new["pin"] != old["pin"]
    assert locks.opens(hotel.doors["101"], new["pin"])
    work(hotel)
    assert not locks.opens(hotel.doors["101"], old["pin"])
    assert desk.get(f"/lock/v1/credentials/{old['id']}").json()["replacedBy"] == new["id"]


def test_a_lost_key_whose_replacement_is_declined_has_no_successor(hotel: Hotel, desk: Caller) -> None:
    key = issue_key(hotel, desk)
    answer = desk.post(f"/lock/v1/credentials/{key['id']}/revoke", {"reason": "lost", "reissue": False})
    assert answer.json()["credential"]["id"] == key["id"]
    work(hotel)
    assert desk.get(f"/lock/v1/credentials/{key['id']}").json()["replacedBy"] is None


def test_replace_answers_with_the_successor(hotel: Hotel, desk: Caller) -> None:
    key = issue_key(hotel, desk)
    answer = desk.post(f"/lock/v1/credentials/{key['id']}/replace", {"kind": "mobile_app"})
    successor = answer.json()["credential"]
    assert (answer.status_code, successor["replaces"], successor["kind"]) == (202, key["id"], "mobile_app")
    assert desk.get(f"/lock/v1/credentials/{key['id']}").json()["state"] == "revoked"


def test_an_act_that_the_state_refuses_is_409_and_changes_nothing(hotel: Hotel, boss: Caller, locks: MockLocks) -> None:
    key = issue_key(hotel, boss)
    before = footprint(hotel, locks)
    assert problem(boss.post(f"/lock/v1/credentials/{key['id']}/unsuspend")) == (409, "TRANSITION_REFUSED")
    assert problem(boss.post(f"/lock/v1/credentials/{key['id']}/encode", {})) == (409, "TRANSITION_REFUSED")
    assert problem(boss.post(f"/lock/v1/credentials/{key['id']}/retry")) == (409, "TRANSITION_REFUSED")
    past = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    assert problem(boss.patch(f"/lock/v1/credentials/{key['id']}", {"validUntil": past})) == (409, "CREDENTIAL_EXPIRED")
    work(hotel)
    assert footprint(hotel, locks) == before


def test_a_stay_that_has_ended_is_refused_every_new_key_in_words(hotel: Hotel, boss: Caller, locks: MockLocks) -> None:
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["101"], status="cancelled"))
    work(hotel)
    (item,) = boss.get(f"/lock/v1/reservations/{stay}/keys").json()["keys"]
    key = item["credential"]
    assert (key["state"], key["failureCode"]) == ("failed", "ABANDONED")
    before = footprint(hotel, locks)
    asked = [
        boss.post(f"/lock/v1/credentials/{key['id']}/retry"),
        boss.post(f"/lock/v1/credentials/{key['id']}/pin", {"pin": "83019264", "reason": "she asked for it"}),
        boss.post("/lock/v1/credentials", issue_body(hotel, reservationId=stay)),
        boss.post("/lock/v1/credentials", {"reservationId": stay}),
    ]
    for answer in asked:
        assert problem(answer) == (409, "STAY_ENDED")
        body = answer.json()
        assert (body["title"], body["detail"]) == ("The stay has ended; it gets no key", "the booking was cancelled")
        assert body["retriable"] is False
    work(hotel)
    assert footprint(hotel, locks) == before
    assert locks.keys_at(hotel.doors["101"]) == []


def test_a_card_waits_for_the_desk_and_its_number_moves_it_on(database: str, locks: MockLocks, web: WebServer) -> None:
    hotel = make_hotel(locks, policy={"kinds": ["rfid_card"]})
    desk = caller(web, hotel.tenant_id, "front_desk")
    answer = desk.post("/lock/v1/credentials", issue_body(hotel))
    key = answer.json()
    if key.get("flow"):
        pytest.fail(f"the mock says that cards need no desk: {key}")
    assert (answer.status_code, key["state"], key["waitingFor"]) == (201, "requested", "desk")
    path = f"/lock/v1/credentials/{key['id']}/encode"
    offline = desk.post(path, {})
    assert problem(offline) == (503, "CARD_ENCODER_OFFLINE")
    assert offline.json()["retriable"] is True
    assert desk.post(path, {"cardNumber": "1234567890"}).status_code == 202
    work(hotel)
    after = desk.get(f"/lock/v1/credentials/{key['id']}").json()
    assert (after["state"], after["card"]["mustBeUpdated"]) == ("active", False)
    assert locks.ask("/try", {"device": hotel.doors["101"], "kind": "rfid_card", "value": "1234567890", "dry": True})["open"]


def test_a_key_waits_for_papers_until_the_desk_has_seen_them(database: str, locks: MockLocks, web: WebServer) -> None:
    hotel = make_hotel(locks, policy={"require_id_verification": True})
    desk = caller(web, hotel.tenant_id, "front_desk")
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    key = desk.get(f"/lock/v1/reservations/{stay}/keys").json()["keys"][0]["credential"]
    assert (key["state"], key["waitingFor"]) == ("requested", "id")
    assert desk.patch(f"/lock/v1/credentials/{key['id']}", {"idVerified": True}).status_code == 202
    work(hotel)
    assert desk.get(f"/lock/v1/credentials/{key['id']}").json()["state"] == "active"


def test_an_issue_that_the_vendor_refuses_fails_inside_the_operation_and_retry_issues_anew(
    database: str, locks: MockLocks, web: WebServer
) -> None:
    hotel = make_hotel(locks, "fail=issue&pct=100&error=KEY_ISSUE_FAILED&retriable=false")
    desk = caller(web, hotel.tenant_id, "front_desk")
    with worker(hotel):
        answer = desk.post("/lock/v1/credentials", issue_body(hotel), headers={"Prefer": "wait=5"})
    body = answer.json()
    assert (answer.status_code, body["status"], body["credential"]["state"]) == (202, "failed", "failed")
    assert body["credential"]["failureCode"]
    anew = desk.post(f"/lock/v1/credentials/{body['credential']['id']}/retry")
    assert (anew.status_code, anew.json()["credential"]["replaces"]) == (202, body["credential"]["id"])


def test_the_timeline_tells_every_move_and_who_made_it(hotel: Hotel, desk: Caller) -> None:
    key = issue_key(hotel, desk)
    desk.post(f"/lock/v1/credentials/{key['id']}/revoke", {"reason": "checkout"})
    items = desk.get(key["links"]["timeline"]).json()["items"]
    assert [item["move"] for item in items] == ["request", "hand_over", "activate", "revoke"]
    assert [item["sequence"] for item in items] == [1, 2, 3, 4]
    assert (items[0]["actor"], items[3]["actor"], items[3]["reason"]) == ("usr_test", "usr_test", "checkout")


def test_no_answer_carries_what_the_vendor_calls_the_key(hotel: Hotel, desk: Caller, locks: MockLocks) -> None:
    key = issue_key(hotel, desk)
    refs = [row.get("ref") for row in locks.keys_at(hotel.doors["101"])]
    assert len(refs) == 1
    text = desk.get(f"/lock/v1/credentials/{key['id']}").text + desk.get("/lock/v1/credentials").text
    assert "vendorRef" not in text
    assert refs[0] is None or refs[0] not in text
