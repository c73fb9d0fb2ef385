"""The Visionline signature: the published vectors, and what really travels."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from datetime import UTC, datetime

import pytest

from tests.vendors.assa_abloy.conftest import NewHouse
from tests.vendors.assa_abloy.harness import VisionlineSite
from tests.vendors.assa_abloy.tap import Tap
from tests.vendors.site import request_for
from vendors import registry
from vendors.assa_abloy.signature import (
    CONTENT_TYPE,
    authorization,
    content_md5,
    http_date,
    resource,
    sign,
    string_to_sign,
)
from vendors.port.clock import FixedClock
from vendors.port.errors import Reason, VendorUnreachable
from vendors.port.secrets import Token
from vendors.port.types import CredentialKind

LOGIN = b'{"username":"sym","password":"sym"}'


def test_the_md5_of_the_login_is_the_published_one() -> None:
    assert content_md5(LOGIN) == "62vvvkRi3TRtURahQ++3Zg=="
    assert content_md5(b"") == ""


def test_the_signature_of_the_doors_list_is_the_published_one() -> None:
    text = string_to_sign(
        "GET",
        "",  # no body, so no Content-MD5
        "",  # and no Content-Type
        "x-aah-date:Thu, 01 Jan 2026 14:30:00 GMT",
        "/api/v1/doors?details=true",
    )
    assert text == "GET\n\n\nx-aah-date:Thu, 01 Jan 2026 14:30:00 GMT\n/api/v1/doors?details=true"
    assert sign(Token("secretkey"), text) == "eZYw0O91MtJeqVu5UJxA4AZ0Jlo="
    assert authorization("s1", Token("secretkey"), text) == "AWS s1:eZYw0O91MtJeqVu5UJxA4AZ0Jlo="


def test_the_text_to_sign_is_these_bytes() -> None:
    text = string_to_sign("POST", content_md5(LOGIN), CONTENT_TYPE, "Thu, 01 Jan 2026 14:30:00 GMT", "/api/v1/cards?a=1")
    assert text.encode() == bytes.fromhex(
        "50 4f 53 54 0a"  # POST LF
        "36 32 76 76 76 6b 52 69 33 54 52 74 55 52 61 68 51 2b 2b 33 5a 67 3d 3d 0a"  # Content-MD5 LF
        "61 70 70 6c 69 63 61 74 69 6f 6e 2f 6a 73 6f 6e 3b 63 68 61 72 73 65 74 3d 75 74 66 2d 38 0a"  # Content-Type LF
        "54 68 75 2c 20 30 31 20 4a 61 6e 20 32 30 32 36 20 31 34 3a 33 30 3a 30 30 20 47 4d 54 0a"  # Date, its bare value, LF
        "2f 61 70 69 2f 76 31 2f 63 61 72 64 73 3f 61 3d 31"  # resource, no LF at the end
    )


def test_parameters_are_sorted_by_name_and_blanks_are_escaped() -> None:
    assert resource("/api/v1/cards", {"override": "true", "action": "encode", "encoder": "desk 1"}) == (
        "/api/v1/cards?action=encode&encoder=desk%201&override=true"
    )
    assert resource("/api/v1/doors") == "/api/v1/doors"


def test_the_date_is_in_gmt_without_parts_of_a_second() -> None:
    assert http_date(datetime(2026, 1, 1, 14, 30, 0, 999_999, UTC)) == "Thu, 01 Jan 2026 14:30:00 GMT"


def test_the_transcript_of_a_visit_has_the_published_md5_and_signature(new_house: NewHouse) -> None:
    site = new_house(VisionlineSite, username="sym", password="sym", accessKey="secretkey")
    site.simulator.post("/clock", {"now": "2026-01-01T14:30:00+00:00", "running": False})
    site.clock = FixedClock(datetime(2026, 1, 1, 14, 30, tzinfo=UTC))
    tap = Tap(site.simulator.url)
    secrets = {"username": Token("sym"), "password": Token("sym")}
    port = registry.build(site.code, site.context(settings={**site.settings(), "base_url": tap.url}, secrets=secrets))
    assert [device.label for device in port.list_devices("ppt_test")] == ["101", "102", "103"]
    (login, login_body), (doors, doors_body) = tap.requests()
    tap.stop()
    assert login[0] == "POST /api/v1/sessions HTTP/1.1"
    assert login_body == LOGIN
    assert _header(login, "Content-MD5") == "62vvvkRi3TRtURahQ++3Zg=="
    assert _header(login, "Content-Type") == "application/json;charset=utf-8"
    assert _header(login, "X-Aah-Date") == "Thu, 01 Jan 2026 14:30:00 GMT"
    assert _header(login, "Authorization") is None  # there is no session yet
    assert doors[0] == "GET /api/v1/doors?details=true HTTP/1.1"
    assert doors_body == b""
    assert _header(doors, "X-Aah-Date") == "Thu, 01 Jan 2026 14:30:00 GMT"
    assert _header(doors, "Content-MD5") is None
    assert re.fullmatch(r"AWS [0-9a-f]{16}:eZYw0O91MtJeqVu5UJxA4AZ0Jlo=", _header(doors, "Authorization") or "")


def _header(lines: list[str], name: str) -> str | None:
    found = [line.partition(":")[2].strip() for line in lines[1:] if line.partition(":")[0].lower() == name.lower()]
    assert len(found) <= 1
    return found[0] if found else None


def test_a_signed_body_travels_with_the_headers_that_were_signed(new_house: NewHouse) -> None:
    site = new_house(VisionlineSite, accessKey="secretkey")
    tap = Tap(site.simulator.url)
    port = registry.build(site.code, site.context(settings={**site.settings(), "base_url": tap.url}))
    port.issue_credential(request_for(site, CredentialKind.RFID_CARD))
    lines, body = tap.requests()[-1]
    tap.stop()
    assert lines[0] == "POST /api/v1/cards?action=encode&encoder=desk-1&override=true HTTP/1.1"
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    assert _header(lines, "Content-MD5") == md5
    text = (
        f"POST\n{md5}\n{_header(lines, 'Content-Type')}\nx-aah-date:{_header(lines, 'X-Aah-Date')}\n"
        "/api/v1/cards?action=encode&encoder=desk-1&override=true"
    )
    expected = base64.b64encode(hmac.new(b"secretkey", text.encode(), hashlib.sha1).digest()).decode()
    assert (_header(lines, "Authorization") or "").endswith(f":{expected}")
    assert json.loads(body)["format"] == "rfid48"


@pytest.mark.parametrize(
    ("header", "line"), [("X-Aah-Date", "x-aah-date"), ("X-Aah-Date", "X-Aah-Date"), ("Date", "x-aah-date")]
)
def test_every_spelling_of_the_date_that_is_signed_as_sent_is_taken(new_house: NewHouse, header: str, line: str) -> None:
    site = new_house(VisionlineSite)
    tap = Tap(site.simulator.url)
    settings = {**site.settings(), "base_url": tap.url, "date_header": header, "date_line": line}
    port = registry.build(site.code, site.context(settings=settings))
    assert [device.label for device in port.list_devices("ppt_test")] == ["101", "102", "103"]
    names = {entry.partition(":")[0] for entry in tap.requests()[-1][0][1:]}
    tap.stop()
    assert names & {"Date", "X-Aah-Date"} == {header}


def test_a_wrong_password_is_a_matter_of_settings_and_asked_once(new_house: NewHouse) -> None:
    site = new_house(VisionlineSite)
    secrets = {"username": Token("nobody"), "password": Token("wrong")}
    port = registry.build(site.code, site.context(secrets=secrets))
    before = len(site.proxy.paths)
    with pytest.raises(VendorUnreachable) as caught:
        port.list_devices("ppt_test")
    assert (caught.value.reason, caught.value.retriable) == (Reason.SETTINGS, False)
    assert len(site.proxy.paths) - before == 1


def test_a_clock_that_is_off_is_corrected_by_the_servers_date(new_house: NewHouse) -> None:
    site = new_house(VisionlineSite)
    site.clock = FixedClock(datetime(2020, 1, 1, tzinfo=UTC))
    site.refresh()
    before = len(site.proxy.paths)
    assert len(site.port.list_devices("ppt_test")) == 3
    assert [path.partition("?")[0] for path in site.proxy.paths[before:]] == [
        "/api/v1/sessions",  # by our clock: refused
        "/api/v1/sessions",  # by the server's
        "/api/v1/doors",
    ]


def test_a_session_the_server_forgot_is_opened_anew_once(new_house: NewHouse) -> None:
    site = new_house(VisionlineSite)
    site.port.list_devices("ppt_test")
    site.simulator.post("/sessions", {})
    before = len(site.proxy.paths)
    assert len(site.port.list_devices("ppt_test")) == 3
    assert [path.partition("?")[0] for path in site.proxy.paths[before:]] == [
        "/api/v1/doors",
        "/api/v1/sessions",
        "/api/v1/doors",
    ]
