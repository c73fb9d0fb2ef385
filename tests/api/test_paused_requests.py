"""A request whose transaction was paused is answered 503, may be sent again, and nothing was done or buried meanwhile."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import requests
from django.contrib.auth import get_user_model
from django.test import Client

from lockservice.core.tenancy import tenant
from lockservice.embedded.local import LocalDirectory
from sagas.models import DeadLetter
from tests.api.conftest import footprint, issue_body, problem
from tests.api.test_push import ACCOUNT, AUDIENCE, ISSUER, Google, deliver, google
from tests.console.scene import make_scene
from tests.support.hotel import Hotel
from tests.support.mock_locks import MockLocks
from tests.support.paused import WEB_IDLE_S, Pauses, options, paused_line
from tests.support.web_server import WebServer, caller
from vendors.port.ids import new_id

__all__ = ["google"]


@pytest.fixture(scope="module")
def line(database: str, embedded_servers: LocalDirectory, google: Google) -> Iterator[tuple[WebServer, Pauses]]:
    """Give a web server whose statements can be held up."""
    with paused_line(embedded_servers, WEB_IDLE_S) as (proxy, pauses):
        server = WebServer(
            LOCK_DB_HOST="127.0.0.1", LOCK_DB_PORT=str(proxy.port), PGOPTIONS=options(WEB_IDLE_S), LOCK_PUBSUB_PUSH_AUDIENCE=AUDIENCE,
            LOCK_PUBSUB_PUSH_ACCOUNT=ACCOUNT, LOCK_PUBSUB_PUSH_JWKS=google.url, LOCK_PUBSUB_PUSH_ISSUERS=ISSUER,
        )  # fmt: skip
        yield server, pauses
        server.stop()


def test_a_paused_reading_is_503_and_the_next_one_is_answered(line: tuple[WebServer, Pauses], hotel: Hotel) -> None:
    web, pauses = line
    desk = caller(web, hotel.tenant_id, "front_desk")
    pauses.at(b'FROM "credentials_keycredential"')
    answer = desk.get("/lock/v1/credentials")
    assert problem(answer) == (503, "SERVICE_UNAVAILABLE")
    assert answer.json()["retriable"] is True
    assert answer.headers["Retry-After"] == "2"
    assert desk.get("/lock/v1/credentials").status_code == 200


@pytest.mark.parametrize("mark", [b"credentials_keycredential", b"sagas_outboxevent"])
def test_a_paused_issue_is_503_and_sent_again_gives_one_key(
    mark: bytes, line: tuple[WebServer, Pauses], hotel: Hotel, locks: MockLocks
) -> None:
    web, pauses = line
    desk = caller(web, hotel.tenant_id, "front_desk")
    before, body, key = footprint(hotel, locks), issue_body(hotel), uuid.uuid4().hex
    pauses.at(mark)
    assert problem(desk.post("/lock/v1/credentials", body, key=key)) == (503, "SERVICE_UNAVAILABLE")
    assert footprint(hotel, locks) == before
    answers = [desk.post("/lock/v1/credentials", body, key=key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert len({answer.json()["credential"]["id"] for answer in answers}) == 1
    assert footprint(hotel, locks)["KeyCredential"] == before["KeyCredential"] + 1


def test_a_paused_push_is_503_and_is_taken_when_it_is_delivered_again(
    line: tuple[WebServer, Pauses], hotel: Hotel, google: Google
) -> None:
    web, pauses = line
    stay = new_id("rsv")
    event = hotel.event("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    pauses.at(b"sagas_inboxmessage")
    assert problem(deliver(web, google.token(), event)) == (503, "SERVICE_UNAVAILABLE")
    with tenant(hotel.tenant_id):
        assert not DeadLetter.objects.filter(tenant_id=hotel.tenant_id).exists()
    assert deliver(web, google.token(), event).status_code == 204
    desk = caller(web, hotel.tenant_id, "front_desk")
    assert len(desk.get(f"/lock/v1/reservations/{stay}/keys").json()["keys"]) == 1


def test_a_paused_page_of_the_console_is_503_and_the_person_stays_signed_in(
    line: tuple[WebServer, Pauses], locks: MockLocks
) -> None:
    web, pauses = line
    scene = make_scene(locks)
    client = Client()
    client.force_login(get_user_model().objects.get(username=scene.people["front_desk"]))
    session = requests.Session()
    session.cookies.update({name: morsel.value for name, morsel in client.cookies.items()})
    assert session.get(f"{web.url}/console/", timeout=20).status_code == 200
    pauses.at(b'FROM "sagas_alert"')
    answer = session.get(f"{web.url}/console/", timeout=20)
    assert problem(answer) == (503, "SERVICE_UNAVAILABLE")
    assert session.get(f"{web.url}/console/", timeout=20).status_code == 200
