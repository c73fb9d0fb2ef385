"""A person the platform has deactivated does nothing more here: not in her open session, not by signing in, not with her token."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.stage import House, Stay, World

DEACTIVATED, DISABLED = "melmastoon.iam.user.deactivated.v1", "melmastoon.iam.user.disabled.v1"
PASSWORD = uuid.uuid4().hex


@pytest.fixture
def stay(world: World, house: Callable[..., House]) -> Stay:
    return house({"101": "mock"}).book(["101"])


def _end(hotel: House, subject: str, user_id: str, **more: Any) -> None:
    hotel.emit(subject, {"userId": user_id}, **more)


def _reveals(browser: Any, stay: Stay) -> int:
    form = {"act_id": uuid.uuid4().hex, "reason": "asked at the desk"}
    answer = browser.post(f"/console/credentials/keycredential/{stay.key()['id']}/act/reveal/", form)
    shown = stay.artifact().value in answer.content.decode()
    assert shown == (answer.status_code == 200)
    return int(answer.status_code)


@pytest.mark.parametrize("subject", [DEACTIVATED, DISABLED])
def test_an_open_session_shows_no_pin_once_its_person_is_deactivated(stay: Stay, subject: str) -> None:
    user_id = f"usr_{uuid.uuid4().hex[:12]}"
    browser, other = stay.house.console(user_id=user_id), stay.house.console()
    assert _reveals(browser, stay) == 200
    _end(stay.house, subject, user_id)
    assert _reveals(browser, stay) == 302
    assert browser.get("/console/").status_code == 302
    assert _reveals(other, stay) == 200


def test_who_was_deactivated_cannot_sign_in_anew(stay: Stay) -> None:
    user_id, login = f"usr_{uuid.uuid4().hex[:12]}", f"clerk-{uuid.uuid4().hex[:8]}"
    stay.house.console(user_id=user_id, login=login, password=PASSWORD)
    assert stay.house.signs_in(login, PASSWORD)
    _end(stay.house, DEACTIVATED, user_id)
    assert not stay.house.signs_in(login, PASSWORD)


@pytest.mark.parametrize("subject", [DEACTIVATED, DISABLED])
def test_a_token_of_before_is_refused_and_the_door_stays_as_it_is(stay: Stay, subject: str) -> None:
    user_id = f"usr_{uuid.uuid4().hex[:12]}"
    clerk, other = stay.house.caller(subject=user_id), stay.house.caller(subject="usr_other")
    path = f"/lock/v1/credentials/{stay.key()['id']}"
    assert clerk.get(path).status_code == 200
    _end(stay.house, subject, user_id)
    before = stay.house.footprint()
    for answer in (clerk.get(path), clerk.post(f"{path}/revoke", {"reason": "checkout"})):
        assert (answer.status_code, answer.json()["code"]) == (401, "MELMASTOON.LOCK.UNAUTHENTICATED")
    stay.house.world.settle()
    assert stay.house.footprint() == before
    assert other.get(path).status_code == 200
    assert stay.opens("101")


def test_another_hotel_chain_says_nothing_about_our_people(house: Callable[..., House], stay: Stay) -> None:
    user_id = f"usr_{uuid.uuid4().hex[:12]}"
    browser, clerk = stay.house.console(user_id=user_id), stay.house.caller(subject=user_id)
    _end(house({"201": "mock"}), DEACTIVATED, user_id)
    assert _reveals(browser, stay) == 200
    assert clerk.get(f"/lock/v1/credentials/{stay.key()['id']}").status_code == 200


def test_the_same_event_twice_ends_nobody_who_was_let_in_again(stay: Stay) -> None:
    user_id, login, event_id = f"usr_{uuid.uuid4().hex[:12]}", f"clerk-{uuid.uuid4().hex[:8]}", f"evt_{uuid.uuid4().hex[:20]}"
    stay.house.console(user_id=user_id, login=login)
    _end(stay.house, DEACTIVATED, user_id, event_id=event_id)
    again = stay.house.console(user_id=user_id, login=f"{login}-2")
    _end(stay.house, DEACTIVATED, user_id, event_id=event_id)
    assert _reveals(again, stay) == 200
    assert stay.house.caller(subject=user_id).get(f"/lock/v1/credentials/{stay.key()['id']}").status_code == 200
    _end(stay.house, DEACTIVATED, user_id)
    assert again.get("/console/").status_code == 302
