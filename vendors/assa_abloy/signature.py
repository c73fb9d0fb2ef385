"""Signs requests to the Visionline web API: an HMAC over the exact bytes and header values that are sent.

One rule: what is signed is what travels; nothing is normalised in between.
Source: public clients of the web API that agree with each other (README, Sources C1, C2; high confidence); the spelling of the
`x-aah-date` line differs between them (medium), so it is an argument.

    POST                                          verb
    62vvvkRi3TRtURahQ++3Zg==                      Content-MD5, empty without a body
    application/json;charset=utf-8                Content-Type, empty without a body
    x-aah-date:Thu, 01 Jan 2026 14:30:00 GMT      or the bare value of Date
    /api/v1/cards?action=encode&encoder=desk-1    path, parameters sorted by name
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import quote, urlencode

from vendors.port.secrets import Token

CONTENT_TYPE = "application/json;charset=utf-8"


def content_md5(body: bytes) -> str:
    """Returns base64 of the MD5 of the body, empty for no body. A checksum the wire asks for, no protection."""
    if not body:
        return ""
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode("ascii")


def http_date(instant: datetime) -> str:
    """Returns an instant as RFC 1123 text in GMT, such as `Thu, 01 Jan 2026 14:30:00 GMT`."""
    return format_datetime(instant.astimezone(UTC).replace(microsecond=0), usegmt=True)


def resource(path: str, parameters: Mapping[str, str] | Sequence[tuple[str, str]] = ()) -> str:
    """Returns path and query as sent and signed: parameters sorted by name, blanks as %20."""
    pairs = sorted(parameters.items() if isinstance(parameters, Mapping) else parameters)
    return f"{path}?{urlencode(pairs, quote_via=quote, safe='')}" if pairs else path


def string_to_sign(verb: str, md5: str, content_type: str, date_line: str, target: str) -> str:
    """Returns the five lines, joined by LF, without one at the end."""
    return f"{verb}\n{md5}\n{content_type}\n{date_line}\n{target}"


def authorization(session_id: str, access_key: Token, text: str) -> str:
    """Returns the Authorization header: `AWS <session>:<base64 of HMAC-SHA1>`."""
    return f"AWS {session_id}:{sign(access_key, text)}"


def sign(access_key: Token, text: str) -> str:
    """Returns base64 of HMAC-SHA1 over the text in UTF-8."""
    mac = hmac.new(access_key.reveal().encode(), text.encode(), hashlib.sha1)
    return base64.b64encode(mac.digest()).decode("ascii")
