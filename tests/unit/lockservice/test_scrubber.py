"""No secret reaches a log line, at whatever depth and under whatever spelling."""

from __future__ import annotations

import json
import logging

import pytest
from django.conf import settings

from lockservice.settings.scrubber import MASK, is_secret_name, scrub, scrub_text


@pytest.mark.parametrize(
    "name",
    [
        "pin",
        "PIN",
        "password",
        "token",
        "secret",
        "authorization",
        "Authorization",
        "vendor_ref",
        "vendorRef",
        "opaque_ref",
        "opaqueRef",
        "contact",
        "keyboardPwd",
        "access_token",
        "webhookSecret",
        "Set-Cookie",
        "phoneE164",
    ],
)
def test_a_telling_name_is_recognised(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["pinned", "tokens_left", "vendor", "code", "keyId", "reservationId", "opinion"])
def test_an_innocent_name_is_left_alone(name: str) -> None:
    assert not is_secret_name(name)


def test_secrets_are_masked_at_every_depth_and_the_input_is_unchanged() -> None:
    given = {"a": [{"keyboardPwd": "481516", "ok": 1}], "guest": {"contact": {"email": "x@example.org"}}}
    assert scrub(given) == {"a": [{"keyboardPwd": MASK, "ok": 1}], "guest": {"contact": MASK}}
    assert given["a"][0]["keyboardPwd"] == "481516"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("POST /lock/v1/webhooks/ttlock/vad_1/s3cr3t", f"POST /lock/v1/webhooks/ttlock/vad_1/{MASK}"),
        ("GET /lock/v1/credentials?contact=me&x=1 200", f"GET /lock/v1/credentials?{MASK} 200"),
        ("Authorization: Bearer abc.def-1", f"Authorization: Bearer {MASK}"),
        ("got eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.sig", f"got {MASK}"),
        ("redis://:hunter2@127.0.0.1:6379/0", f"redis://:{MASK}@127.0.0.1:6379/0"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_texts_lose_what_nobody_may_read(text: str, shown: str) -> None:
    assert scrub_text(text) == shown


def test_a_library_that_knows_nothing_of_it_is_scrubbed_too() -> None:
    formatter = settings.LOGGING["formatters"]["json"]
    made = formatter["()"](foreign_pre_chain=formatter["foreign_pre_chain"], processors=formatter["processors"])
    record = logging.LogRecord("lib", logging.WARNING, "f", 1, "asked %s", ("/x?pin=481516",), None)
    record.password = "hunter2"
    line = json.loads(made.format(record))
    assert line["event"] == f"asked /x?{MASK}"
    assert line["password"] == MASK
    assert line["level"] == "warning"


def test_an_object_is_written_as_its_text_without_secrets() -> None:
    class Request:
        def __repr__(self) -> str:
            return "<Request: POST '/lock/v1/webhooks/ttlock/vad_1/s3cret-token'>"

    assert scrub({"request": Request(), "status": 401, "ratio": 0.5, "ok": True, "none": None}) == {
        "request": f"<Request: POST '/lock/v1/webhooks/ttlock/vad_1/{MASK}'>",
        "status": 401, "ratio": 0.5, "ok": True, "none": None,
    }  # fmt: skip
