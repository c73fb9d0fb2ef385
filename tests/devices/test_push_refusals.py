"""Pushes that are refused, for every vendor in the registry: forged, stale, written anew, too large, for somebody else.

A new vendor's harness brings it in by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlencode

import pytest
import requests

from tests.api.conftest import web
from tests.flows.conftest import alerts
from tests.support.hotel import build_hotel
from tests.support.push_site import Site as Hotel
from tests.support.push_site import assert_refused, own_secrets
from tests.support.web_server import WebServer
from tests.vendors import matrix
from tests.vendors.site import Site
from vendors.port.protocol import Webhook
from vendors.port.secrets import Token

__all__ = ["web"]
ALL = {place.name: (place.manifest, place.harness) for place in matrix.places()}
PUSHING = [name for name, (_, harness) in ALL.items() if Webhook not in harness.lacks]


class House:
    """A hotel on one vendor of the registry, with its simulator, a webhook address and a secret of its own."""

    def __init__(self, web: WebServer, site: Site) -> None:
        self.site = site
        secrets = {**site.secrets(), **own_secrets()}
        rooms = {str(number): door.external_id for number, door in enumerate(site.doors, 101)}
        hotel = build_hotel(vendor=site.code, settings=dict(site.settings()), secrets=secrets, rooms=rooms)
        self.hotel = Hotel(web, hotel, site.code)
        self.secret = Token(secrets["webhook_secret"])
        self.body, self.kind = site.push_body()

    def headers(self, secret: Token | None = None, at: datetime | None = None, body: bytes | None = None) -> dict[str, str]:
        signed = self.site.signed_push(secret or self.secret, body or self.body, at or datetime.now(UTC))
        return {**signed, "Content-Type": self.kind}

    def send(self, headers: Mapping[str, str], body: bytes | None = None, url: str | None = None) -> requests.Response:
        return requests.post(url or self.hotel.url(), data=body or self.body, headers=dict(headers), timeout=20)

    def written_anew(self) -> list[bytes]:
        """The same content in other bytes."""
        if self.kind != "application/json":
            fields = parse_qsl(self.body.decode(), keep_blank_values=True)
            return [urlencode(fields[::-1]).encode(), self.body.replace(b"%22", b'"')]
        content = json.loads(self.body)
        return [
            json.dumps(content, separators=(",", ":")).encode(),
            json.dumps(content, indent=1).encode(),
            self.body + b"\n",
            b"\xef\xbb\xbf" + self.body,
            json.dumps(content).encode("utf-16"),
        ]


@pytest.fixture(scope="module")
def new_site(request: pytest.FixtureRequest) -> Iterator[Callable[[], Site]]:
    with ALL[request.param][1].open() as make:
        yield make


@pytest.fixture
def house(database: str, web: WebServer, new_site: Callable[[], Site]) -> House:
    return House(web, new_site())


def _refused_all(house: House, answers: list[requests.Response]) -> None:
    """Each with the constant text, told once, and nothing else anywhere: no row, no event, no call."""
    for answer in answers:
        assert_refused(answer)
    house.hotel.assert_nothing_changed()
    assert house.site.request_count() == 0


pushing = pytest.mark.parametrize("new_site", PUSHING, indirect=True)


def test_the_registry_has_vendors_that_push() -> None:
    assert len(PUSHING) >= 4


@pushing
def test_a_genuine_push_is_taken_and_a_repetition_changes_nothing(house: House) -> None:
    headers = house.headers()
    answers = [house.send(headers) for _ in range(3)]
    assert [(answer.status_code, answer.text) for answer in answers] == [(200, "success")] * 3
    house.hotel.work()
    assert sorted(row.outcome for row in house.hotel.webhooks()) == ["applied", "duplicate", "duplicate"]
    (attempt,) = house.hotel.attempts()
    assert (attempt.outcome, attempt.device_id) == ("denied", house.hotel.hotel.devices["101"])
    assert alerts(house.hotel.hotel) == []
    assert house.site.request_count() == 0  # signed, and it contradicts nothing: nobody is asked back


@pushing
def test_a_genuine_push_repeated_when_it_is_old_is_refused(house: House) -> None:
    old = house.headers(at=datetime.now(UTC) - timedelta(seconds=301))
    _refused_all(house, [house.send(old), house.send(house.headers(at=datetime.now(UTC) + timedelta(seconds=302)))])


@pushing
def test_a_forged_push_is_refused(house: House) -> None:
    genuine = house.headers()
    signed = [name for name in genuine if name != "Content-Type"]
    tries = [house.headers(Token("whsec_of_nobody")), {"Content-Type": house.kind}]
    for name in signed:
        tries += [
            {**genuine, name: ""},
            {**genuine, name: genuine[name][:-1] + ("0" if genuine[name][-1] != "0" else "1")},
            {**genuine, name: "v1=" + "0" * 64},
            {other: value for other, value in genuine.items() if other != name},
        ]
    _refused_all(house, [house.send(headers) for headers in tries])


@pushing
def test_a_changed_byte_and_the_same_content_written_anew_are_refused(house: House) -> None:
    headers = house.headers()
    changed = house.body[:-2] + bytes([house.body[-2] ^ 1]) + house.body[-1:]
    _refused_all(house, [house.send(headers, body) for body in (changed, *house.written_anew())])


@pushing
def test_another_tenants_push_is_refused_at_every_address(
    database: str, web: WebServer, new_site: Callable[[], Site], house: House
) -> None:
    stranger = House(web, new_site())
    mine, theirs = house.hotel, stranger.hotel
    answers = [
        house.send(stranger.headers(), stranger.body),  # signed by them, sent to us
        house.send(stranger.headers(body=house.body)),
        house.send(house.headers(), url=mine.url(theirs.token)),  # our address with their token
        house.send(house.headers(), url=mine.url(installation=theirs.hotel.installation_id)),
        house.send(house.headers(), url=mine.url("x" * 43)),
        house.send(house.headers(), url=mine.url(vendor="another-vendor")),
    ]
    _refused_all(house, answers)
    theirs.assert_nothing_changed()


@pushing
def test_too_large_a_push_is_refused_before_it_is_looked_at(house: House) -> None:
    huge = house.body + b" " * (256 * 1024)
    answer = house.send(house.headers(body=huge), huge)
    assert (answer.status_code, answer.json()["code"]) == (413, "MELMASTOON.LOCK.PAYLOAD_TOO_LARGE")
    house.hotel.assert_nothing_changed(alerted=0)
    assert_refused(house.send(house.headers(body=huge), huge, house.hotel.url("x" * 43)))
    assert house.site.request_count() == 0


@pushing
@pytest.mark.parametrize("kind", ["text/plain", "application/json; charset=utf-16", "multipart/form-data"])
def test_another_media_type_is_refused(house: House, kind: str) -> None:
    answer = house.send({**house.headers(), "Content-Type": kind})
    assert (answer.status_code, answer.json()["code"]) == (415, "MELMASTOON.LOCK.UNSUPPORTED_MEDIA_TYPE")
    house.hotel.assert_nothing_changed(alerted=0)


def test_a_transport_that_does_not_push_takes_nothing(database: str, web: WebServer) -> None:
    settings = {"transport": "pms", "pms_address": "127.0.0.1:9", "property_ref": "h", "encoder": "desk", "time_zone": "UTC"}
    hotel = Hotel(web, build_hotel(vendor="salto", settings=settings, secrets=own_secrets(), rooms={"101": "101"}), "salto")
    body = json.dumps({"id": "1", "type": "access.granted", "data": {}}).encode()
    assert_refused(hotel.send(body, hotel.signature(body)))
    assert_refused(hotel.send(body, None))
    hotel.assert_nothing_changed()
