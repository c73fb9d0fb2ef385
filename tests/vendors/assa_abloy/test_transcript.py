"""The transcript tells exactly the published digest and signature, over the bytes it prints."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

from vendors.assa_abloy import transcript


def test_the_login_carries_the_published_md5_and_no_signature() -> None:
    login = transcript.requests()[0]
    assert login.body == b'{"username":"sym","password":"sym"}'
    assert login.headers["Content-MD5"] == "62vvvkRi3TRtURahQ++3Zg=="
    assert "Authorization" not in login.headers


def test_the_list_of_doors_carries_the_published_signature() -> None:
    doors = transcript.requests()[1]
    assert doors.text == "GET\n\n\nx-aah-date:Thu, 01 Jan 2026 14:30:00 GMT\n/api/v1/doors?details=true"
    assert doors.headers["Authorization"] == "AWS s1:eZYw0O91MtJeqVu5UJxA4AZ0Jlo="


def test_the_printed_bytes_are_what_is_signed() -> None:
    printed = "\n".join(transcript.lines())
    for request in transcript.requests()[1:]:
        part = printed[printed.index(request.about) :].partition("\n\n")[0]
        rows = re.findall(r"^       ((?:[0-9a-f]{2})(?: [0-9a-f]{2})*)$", part, flags=re.MULTILINE)
        signed = bytes.fromhex("".join(rows).replace(" ", ""))
        assert len(rows) == 5
        mac = base64.b64encode(hmac.new(b"secretkey", signed, hashlib.sha1).digest()).decode()
        assert f"Authorization: AWS s1:{mac}" in part
