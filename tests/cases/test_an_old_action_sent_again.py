"""An action that is sent again under its old id changes nothing and says so, whatever happened in between.

Each action is done, undone by the contrary action, and sent again: by the API under an Idempotency-Key whose answer is no longer
kept, and by the console's form of before.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.stage import House, Stay, World

DOORS = ("101", "lobby")


@pytest.fixture
def stay(world: World, house: Callable[..., House]) -> Stay:
    return house({"101": "ttlock", "102": "ttlock"}, shared={"lobby": "ttlock"}).book(["101"])


def _act(stay: Stay, action: str, body: Any = None, key: str | None = None, method: str = "POST") -> Any:
    path = f"/lock/v1/credentials/{stay.key()['id']}{'/' + action if action else ''}"
    answer = stay.house.caller("front_desk_supervisor").send(method, path, body, key=key or uuid.uuid4().hex)
    stay.house.world.settle()
    return answer


def _suspend(stay: Stay, key: str | None = None) -> Any:
    return _act(stay, "suspend", {"reason": "manual"}, key)


def _resume(stay: Stay, key: str | None = None) -> Any:
    return _act(stay, "unsuspend", None, key)


def _until(stay: Stay, days: int, key: str | None = None) -> Any:
    until = (stay.start + timedelta(days=days)).isoformat()
    return _act(stay, "", {"validUntil": until}, key, method="PATCH")


def _room(stay: Stay, label: str, key: str | None = None) -> Any:
    return _act(stay, "", {"rooms": [stay.house.rooms[label]]}, key, method="PATCH")


def _doors(stay: Stay) -> list[bool]:
    return [stay.opens(door) for door in (*DOORS, "102")]


def test_a_suspension_sent_again_after_the_answer_was_forgotten_shuts_no_door(stay: Stay) -> None:
    assert _suspend(stay, "first").status_code in (200, 202)
    assert _doors(stay) == [False, False, False]
    assert _resume(stay).status_code in (200, 202)
    assert _doors(stay) == [True, True, False]
    stay.house.forget_answers()
    before = stay.house.footprint()
    again = _suspend(stay, "first")
    assert (again.status_code, again.headers.get("Idempotent-Replayed")) in ((200, "true"), (202, "true"))
    assert _doors(stay) == [True, True, False]
    assert (stay.key()["state"], stay.key()["propagation"]) == ("active", "confirmed")
    assert stay.house.footprint() == before


def test_a_resumption_sent_again_opens_no_door_of_a_suspended_key(stay: Stay) -> None:
    _suspend(stay)
    assert _resume(stay, "resume").status_code in (200, 202)
    _suspend(stay)
    stay.house.forget_answers()
    again = _resume(stay, "resume")
    assert again.headers.get("Idempotent-Replayed") == "true"
    assert _doors(stay) == [False, False, False]
    assert stay.key()["state"] == "suspended"


def test_an_extension_sent_again_after_it_was_taken_back_does_not_extend(world: World, stay: Stay) -> None:
    assert _until(stay, 20, "extend").status_code in (200, 202)
    assert _until(stay, 2).status_code in (200, 202)
    stay.house.forget_answers()
    again = _until(stay, 20, "extend")
    assert again.headers.get("Idempotent-Replayed") == "true"
    world.advance(days=3)
    assert _doors(stay) == [False, False, False]
    assert stay.key()["state"] == "revoked"


def test_an_id_with_another_request_is_refused_and_changes_nothing(stay: Stay) -> None:
    assert _until(stay, 20, "extend").status_code in (200, 202)
    stay.house.forget_answers()
    before = stay.house.footprint()
    for answer in (_until(stay, 2, "extend"), _suspend(stay, "extend")):
        assert (answer.status_code, answer.json()["code"]) == (422, "MELMASTOON.LOCK.IDEMPOTENCY_KEY_REUSED")
    assert stay.house.footprint() == before
    assert stay.opens("101", stay.start + timedelta(days=19))


def test_a_room_move_sent_again_moves_nobody_back(stay: Stay) -> None:
    assert _room(stay, "102", "move").status_code in (200, 202)
    assert _doors(stay) == [False, True, True]
    assert _room(stay, "101").status_code in (200, 202)
    stay.house.forget_answers()
    assert _room(stay, "102", "move").headers.get("Idempotent-Replayed") == "true"
    assert _doors(stay) == [True, True, False]


def test_a_key_issued_by_hand_and_revoked_is_not_issued_again(stay: Stay) -> None:
    body = {"reservationId": stay.id}
    desk = stay.house.caller()
    made = desk.post("/lock/v1/credentials", body, key="second-key").json()["credential"]["id"]
    stay.house.world.settle()
    desk.post(f"/lock/v1/credentials/{made}/revoke", {"reason": "checkout"})
    stay.house.world.settle()
    stay.house.forget_answers()
    before = stay.house.footprint()
    again = desk.post("/lock/v1/credentials", body, key="second-key")
    stay.house.world.settle()
    assert again.headers.get("Idempotent-Replayed") == "true"
    assert "pin" not in again.json()
    assert stay.house.footprint() == before


def test_an_old_id_gives_no_caller_another_guests_key(stay: Stay) -> None:
    hotel = stay.house
    hotel.caller().post("/lock/v1/credentials", {"reservationId": stay.id}, key="reused")
    hotel.world.settle()
    other = hotel.book(["102"])
    hotel.forget_answers()
    before = hotel.footprint()
    for caller in (hotel.caller(), hotel.caller(subject="usr_other")):
        answer = caller.post("/lock/v1/credentials", {"reservationId": other.id}, key="reused")
        assert answer.status_code == 422, answer.content
    same_body = hotel.caller(subject="usr_other").post("/lock/v1/credentials", {"reservationId": stay.id}, key="reused")
    assert same_body.status_code == 422
    hotel.world.settle()
    assert hotel.footprint() == before


def test_a_lost_key_reported_again_ends_no_successor(stay: Stay) -> None:
    first = stay.key()["id"]
    path = f"/lock/v1/credentials/{first}/revoke"
    boss = stay.house.caller("front_desk_supervisor")
    boss.post(path, {"reason": "lost"}, key="lost")
    stay.house.world.settle()
    stay.collect()
    stay.house.forget_answers()
    before = stay.house.footprint()
    again = boss.post(path, {"reason": "lost"}, key="lost")
    stay.house.world.settle()
    assert again.headers.get("Idempotent-Replayed") == "true"
    assert _doors(stay) == [True, True, False]
    assert stay.house.footprint() == before


def test_the_consoles_old_form_shuts_no_door_and_says_so(stay: Stay) -> None:
    browser = stay.house.console("front_desk_supervisor")
    page = f"/console/credentials/keycredential/{stay.key()['id']}/"
    form = {"act_id": _hidden_id(browser, page), "reason": "asked at the desk"}
    browser.post(f"{page}act/suspend/", form | {"cause": "manual"})
    stay.house.world.settle()
    assert _doors(stay) == [False, False, False]
    browser.post(f"{page}act/unsuspend/", {"act_id": uuid.uuid4().hex, "reason": "back again"})
    stay.house.world.settle()
    before = stay.house.footprint()
    said = browser.post(f"{page}act/suspend/", form | {"cause": "manual"}, follow=True).content.decode()
    stay.house.world.settle()
    assert "already" in said
    assert _doors(stay) == [True, True, False]
    assert stay.house.footprint() == before


def test_the_consoles_old_form_with_other_dates_is_refused(world: World, stay: Stay) -> None:
    browser = stay.house.console("front_desk_supervisor")
    page = f"/console/credentials/keycredential/{stay.key()['id']}/"
    act_id = _hidden_id(browser, page)
    _console_until(browser, stay, page, act_id, days=20)
    _console_until(browser, stay, page, act_id, days=2)
    assert stay.opens("101", stay.start + timedelta(days=19))
    assert (browser.get(f"{page}change/").status_code, stay.key()["state"]) == (200, "active")


def _console_until(browser: Any, stay: Stay, page: str, act_id: str, *, days: int) -> None:
    text = browser.get(f"{page}change/").content.decode()
    start, end = stay.start, stay.start + timedelta(days=days)
    local = {name: at.astimezone(stay.house.local(2026, 1, 1).tzinfo) for name, at in (("from", start), ("until", end))}
    form = {
        "act_id": act_id, "reason": "longer stay", "seen": _hidden(text, "seen"), "rooms": [stay.house.rooms["101"]],
        "valid_from": local["from"].strftime("%Y-%m-%dT%H:%M"), "valid_until": local["until"].strftime("%Y-%m-%dT%H:%M"),
    }  # fmt: skip
    browser.post(f"{page}act/update/", form)
    stay.house.world.settle()


def _hidden_id(browser: Any, page: str) -> str:
    return _hidden(browser.get(f"{page}change/").content.decode(), "act_id")


def _hidden(page: str, name: str) -> str:
    tags = [tag for tag in re.findall(r"<input[^>]*>", page) if f'name="{name}"' in tag]
    found = re.search(r'value="([0-9a-f]{32})"', tags[0])
    assert found is not None, tags
    return found.group(1)
