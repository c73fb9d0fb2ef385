"""A house whose every secret is marked goes through its days: keys given, shown, handed over, taken back, refused, pushed at.

The marks are then searched for in every table and all of Valkey at once, and by the watch in everything else at the end of the run.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator

import pytest
import requests

from credentials.models import KeyCredential
from devices.models import LockDevice
from lockservice.core.tenancy import tenant
from lockservice.embedded.local import LocalDirectory
from tests.api.conftest import issue_body, make_hotel, worker
from tests.flows.conftest import keys, pin_of, settle
from tests.support import leak_search, marked
from tests.support.hotel import Hotel
from tests.support.marked import KEYPAD, MARKS, PIN_LENGTH
from tests.support.mock_locks import MockLocks
from tests.support.web_server import WebServer, caller
from vendors.port.ids import new_id

__all__ = ["settle"]
pytestmark = pytest.mark.timeout(400)  # every row that the whole run has left in the common database is looked at
KEYS = "/lock/v1/credentials"
DRAWN = re.compile(rf"[{KEYPAD}]{{{PIN_LENGTH}}}")


@pytest.fixture(scope="module")
def locks() -> Iterator[MockLocks]:
    mock = MockLocks()
    yield mock
    mock.stop()


@pytest.fixture(scope="module")
def web(database: str) -> Iterator[WebServer]:
    """Give a web process that logs all it can say; its output is the run's."""
    server = WebServer(LOCK_LOG_LEVEL="DEBUG")
    yield server
    server.stop()


def _house(locks: MockLocks, query: str = "") -> Hotel:
    """A hotel that draws marked PINs at marked keypads, on an installation with a marked secret."""
    policy = {"pin_length": PIN_LENGTH, "pin_length_shared": PIN_LENGTH}
    hotel = make_hotel(locks, query, secrets={"webhook_secret": marked.token()}, policy=policy)
    with tenant(hotel.tenant_id):
        LockDevice.objects.filter(tenant_id=hotel.tenant_id).update(digits=KEYPAD)
    return hotel


@pytest.fixture(autouse=True)
def _everything_is_logged() -> Iterator[None]:
    """Let every library say all it has to say."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.DEBUG)
    yield
    root.setLevel(before)


@pytest.fixture
def nothing_leaked(database: str, embedded_servers: LocalDirectory) -> Iterator[None]:
    """Look into the database and Valkey when the test is through."""
    yield
    found, rows = leak_search.in_database(MARKS, embedded_servers, database)
    in_valkey, _ = leak_search.in_valkey(MARKS, marked.planted(), embedded_servers)
    assert leak_search.told([*found, *in_valkey]) == []
    assert rows["credentials_keycredential"] > 0
    assert rows["sagas_outboxevent"] > 0


@pytest.mark.usefixtures("nothing_leaked")
def test_a_pin_is_shown_once_to_who_may_see_it_and_lies_nowhere(
    locks: MockLocks, web: WebServer, settle: Callable[..., int]
) -> None:
    hotel = _house(locks)
    desk = caller(web, hotel.tenant_id, "front_desk", properties=(hotel.property_id,))
    with worker(hotel):
        shown = desk.post(KEYS, issue_body(hotel), headers={"Prefer": "wait=10"})
    assert shown.status_code == 201, shown.text
    (found,) = DRAWN.findall(shown.text)
    assert locks.opens(hotel.doors["101"], found)
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["102"]))
    settle(hotel)
    app = caller(web, hotel.tenant_id, "booking_app", subject="svc_booking")
    told = app.get(f"/lock/v1/reservations/{stay}/keys").json()["keys"][0]["artifact"]
    handed = app.post("/lock/v1/key-exchange", {"opaqueRef": told["opaqueRef"]})
    assert DRAWN.search(handed.text)
    (key,) = keys(hotel, stay)
    assert DRAWN.fullmatch(pin_of(hotel, key))
    hotel.tell("booking.cancelled", hotel.booking(stay, 2, ["102"], status="cancelled"))
    settle(hotel)


@pytest.mark.usefixtures("nothing_leaked")
def test_a_vendor_that_refuses_fails_and_forgets_brings_no_secret_into_alerts_and_steps(
    locks: MockLocks, settle: Callable[..., int]
) -> None:
    for query in (
        "fail=issue&reason=pin_refused",
        "lost=2",
        "fail=revoke,suspend",
        "fail=issue&error=KEY_ISSUE_FAILED&retriable=0",
    ):
        hotel = _house(locks, query)
        stay = new_id("rsv")
        hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101", "103"]))
        settle(hotel, now=True, rounds=3)
        hotel.tell("booking.fraud_flagged", hotel.booking(stay, 2, ["101", "103"], status="fraud_flagged"))
        settle(hotel, now=True, rounds=2)
        hotel.tell("booking.cancelled", hotel.booking(stay, 3, ["101", "103"], status="cancelled"))
        settle(hotel, now=True, rounds=2)
        assert keys(hotel)


@pytest.mark.usefixtures("nothing_leaked")
def test_a_cards_number_goes_to_the_lock_and_into_no_other_record(
    locks: MockLocks, web: WebServer, settle: Callable[..., int]
) -> None:
    hotel = _house(locks)
    stay = new_id("rsv")
    hotel.tell("booking.confirmed", hotel.booking(stay, 1, ["101"], preferredKinds=["rfid_card"]))
    settle(hotel)
    (key,) = keys(hotel)
    desk = caller(web, hotel.tenant_id, "front_desk", properties=(hotel.property_id,))
    number = marked.card_number()
    assert desk.post(f"{KEYS}/{key.id}/encode", {"cardNumber": number}).status_code in {200, 202}
    settle(hotel)
    assert [held["value"] for held in locks.keys_at(hotel.doors["101"])] == [number]
    with tenant(hotel.tenant_id):
        assert KeyCredential.objects.get(tenant_id=hotel.tenant_id, id=key.id).state == "active"
    for wrong in (f"{number}x", f"x{number}", number * 3):
        answer = desk.post(f"{KEYS}/{key.id}/encode", {"cardNumber": wrong})
        assert answer.status_code in {400, 409}
        assert number not in answer.text


@pytest.mark.usefixtures("nothing_leaked")
def test_what_is_refused_at_the_door_of_the_api_is_not_repeated(
    locks: MockLocks, web: WebServer, settle: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    hotel = _house(locks)
    hotel.tell("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]))
    settle(hotel)
    desk = caller(web, hotel.tenant_id, "front_desk", properties=(hotel.property_id,))
    secret = marked.token()
    caplog.set_level(logging.INFO, "urllib3")  # what the caller's own client says at DEBUG is not ours
    answers = [
        requests.get(f"{web.url}{KEYS}", headers={"Authorization": f"Bearer {secret}"}, timeout=20),
        requests.get(f"{web.url}{KEYS}?token={secret}", timeout=20),
        requests.post(f"{web.url}/lock/v1/webhooks/mock/{hotel.installation_id}/{secret}", data=secret, timeout=20),
        desk.post("/lock/v1/key-exchange", {"opaqueRef": f"tk_{secret}"}),
        desk.post(KEYS, issue_body(hotel) | {"pin": marked.pin()}),
        desk.post(KEYS, issue_body(hotel) | {"kind": marked.pin()}),
        desk.post(KEYS, issue_body(hotel), key=f"not a key {secret}"),
    ]
    assert [answer.status_code // 100 for answer in answers] == [4] * len(answers)
    texts = [answer.text for answer in answers]
    assert [text for text in texts if leak_search.in_text(MARKS, frozenset(), text, "answer")] == []
    assert all(json.loads(text)["code"] for text in texts if text.startswith("{"))
