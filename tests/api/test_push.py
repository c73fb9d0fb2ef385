"""Push deliveries: only the configured sender gets in, and what came is applied or kept."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm

from lockservice.core.tenancy import UNATTRIBUTED, tenant
from sagas.models import DeadLetter
from tests.api.conftest import problem
from tests.support.hotel import Hotel
from tests.support.web_server import Caller, WebServer, caller
from vendors.port.ids import new_id

AUDIENCE, ACCOUNT, ISSUER = "https://lock.example/pubsub/push", "push@project.iam.example", "https://accounts.example"


class Google:
    """The sender's key set over HTTP, and tokens signed with it."""

    def __init__(self) -> None:
        self.key: RSAPrivateKey = generate_private_key(public_exponent=65537, key_size=2048)
        row = RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True) | {"kid": "k1", "use": "sig", "alg": "RS256"}
        body = json.dumps(
            {"keys": [row, {"kty": "RSA", "kid": "short", "n": "AQAB", "e": "AQAB"}, {"kty": "oct", "kid": "k2", "k": "AA"}]}
        ).encode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Keeps quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/certs"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def token(self, **changes: Any) -> str:
        now = int(time.time())
        good = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "1",
            "iat": now,
            "exp": now + 600,
            "email": ACCOUNT,
            "email_verified": True,
        }
        return jwt.encode(good | changes, self.key, algorithm="RS256", headers={"kid": "k1"})

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def google() -> Iterator[Google]:
    """Give the sender."""
    sender = Google()
    yield sender
    sender.stop()


@pytest.fixture(scope="module")
def pushed(database: str, google: Google) -> Iterator[WebServer]:
    """Give a web server that takes pushes of the sender."""
    server = WebServer(
        LOCK_PUBSUB_PUSH_AUDIENCE=AUDIENCE,
        LOCK_PUBSUB_PUSH_ACCOUNT=ACCOUNT,
        LOCK_PUBSUB_PUSH_JWKS=google.url,
        LOCK_PUBSUB_PUSH_ISSUERS=ISSUER,
    )
    yield server
    server.stop()


def deliver(
    server: WebServer, token: str, body: bytes, topic: str = "melmastoon.reservation.booking.confirmed.v1"
) -> requests.Response:
    message = {"data": base64.b64encode(body).decode(), "messageId": "1", "orderingKey": "rsv_1"}
    document = {"message": message, "subscription": f"projects/p/subscriptions/{topic}.lock-integration"}
    return requests.post(f"{server.url}/pubsub/push", json=document, headers={"Authorization": f"Bearer {token}"}, timeout=10)


def test_a_pushed_booking_becomes_a_key_once(hotel: Hotel, pushed: WebServer, google: Google) -> None:
    stay = new_id("rsv")
    event = hotel.event("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    for _ in range(2):
        answer = deliver(pushed, google.token(), event)
        assert (answer.status_code, answer.content) == (204, b"")
    desk = caller(pushed, hotel.tenant_id, "front_desk")
    assert len(desk.get(f"/lock/v1/reservations/{stay}/keys").json()["keys"]) == 1


def test_an_event_that_cannot_be_handled_is_kept_and_acknowledged(hotel: Hotel, pushed: WebServer, google: Google) -> None:
    broken = hotel.event("booking.confirmed", hotel.booking(new_id("rsv"), 1, ["101"]) | {"propertyId": "ppt_none"})
    assert deliver(pushed, google.token(), broken).status_code == 204
    with tenant(hotel.tenant_id):
        row = DeadLetter.objects.get(tenant_id=hotel.tenant_id)
    assert (row.code, row.topic, bytes(row.body)) == ("UNKNOWN_PROPERTY", "melmastoon.reservation.booking.confirmed.v1", broken)
    rubbish = f"rubbish {new_id('evt')}".encode()
    assert deliver(pushed, google.token(), rubbish).status_code == 204
    with tenant(UNATTRIBUTED):
        assert DeadLetter.objects.get(tenant_id=UNATTRIBUTED, body=rubbish).code == "INVALID_JSON"


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "https://other"},
        {"iss": "https://evil"},
        {"email": "someone@else"},
        {"email_verified": False},
        {"email_verified": "true"},
        {"exp": 1000000000},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_another_sender_is_refused(changes: dict[str, Any], hotel: Hotel, pushed: WebServer, google: Google) -> None:
    stay = new_id("rsv")
    event = hotel.event("booking.confirmed", hotel.booking(stay, 1, ["101"]))
    assert problem(deliver(pushed, google.token(**changes), event)) == (401, "UNAUTHENTICATED")
    desk = caller(pushed, hotel.tenant_id, "front_desk")
    assert desk.get(f"/lock/v1/reservations/{stay}/keys").status_code == 404


def test_a_callers_token_is_no_senders_token(hotel: Hotel, pushed: WebServer) -> None:
    token = caller(pushed, hotel.tenant_id, "gm").token
    assert problem(deliver(pushed, token, b"{}")) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"message": 5}', b'{"message": {"data": "***"}}', b'{"message": {"data": "", "orderingKey": 5}}']
)
def test_what_is_no_delivery_is_400(body: bytes, pushed: WebServer, google: Google) -> None:
    answer = requests.post(
        f"{pushed.url}/pubsub/push", data=body, headers={"Authorization": f"Bearer {google.token()}"}, timeout=10
    )
    assert problem(answer) == (400, "VALIDATION_FAILED")


def test_where_no_sender_is_configured_there_is_no_such_address(web: WebServer, google: Google) -> None:
    assert problem(deliver(web, google.token(), b"{}")) == (404, "NOT_FOUND")


def test_the_address_takes_posts_only(pushed: WebServer) -> None:
    answer = Caller(pushed.url).get("/pubsub/push")
    assert (problem(answer), answer.headers["Allow"]) == ((405, "METHOD_NOT_ALLOWED"), "POST")
