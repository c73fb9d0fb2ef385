"""Tells the Visionline signature line by line: `python -m vendors.assa_abloy.transcript` prints what each line means.

One rule: everything printed comes from `signature`, the module the client signs with; names and keys are those of the published
vectors, no house's own.
Source: as `signature`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from vendors.port.secrets import Token

from .signature import CONTENT_TYPE, authorization, content_md5, http_date, resource, string_to_sign

_AT = datetime(2026, 1, 1, 14, 30, tzinfo=UTC)
_LOGIN = b'{"username":"sym","password":"sym"}'
_CARD = (
    b'{"startTime":"20260101T1430","expireTime":"20260103T1100","format":"rfid48",'
    b'"doorOperations":[{"operation":"guest","doors":["101"]}]}'
)
_SESSION, _KEY = "s1", Token("secretkey")
_LINES = (
    "verb",
    "Content-MD5: base64 of the MD5 of the body's bytes; empty without a body",
    "Content-Type, with its charset as sent; empty without a body",
    "date: x-aah-date:<value>, or the bare value where the plain Date header is sent",
    "path and query, parameters sorted by name; no LF at the end",
)


@dataclass(frozen=True, slots=True)
class Request:
    """One request: what is sent, and what is signed (empty before there is a session)."""

    about: str
    verb: str
    target: str
    body: bytes = b""
    is_signed: bool = True

    @property
    def headers(self) -> dict[str, str]:
        """The headers that matter to the signature, in the order they are told."""
        found = {"X-Aah-Date": http_date(_AT)}
        if self.body:
            found |= {"Content-MD5": content_md5(self.body), "Content-Type": CONTENT_TYPE}
        if self.is_signed:
            found["Authorization"] = authorization(_SESSION, _KEY, self.text)
        return found

    @property
    def text(self) -> str:
        """The five lines that are signed."""
        kind = CONTENT_TYPE if self.body else ""
        return string_to_sign(self.verb, content_md5(self.body), kind, f"x-aah-date:{http_date(_AT)}", self.target)


def requests() -> tuple[Request, ...]:
    """Returns the requests that are told."""
    return (
        Request("A session is opened; there is no key to sign with yet.", "POST", "/api/v1/sessions", _LOGIN, is_signed=False),
        Request("The doors are listed.", "GET", resource("/api/v1/doors", {"details": "true"})),
        Request(
            "A card is encoded.",
            "POST",
            resource("/api/v1/cards", {"override": "true", "action": "encode", "encoder": "desk 1"}),
            _CARD,
        ),
    )


def lines() -> Iterator[str]:
    """Yields the transcript, without line ends."""
    for request in requests():
        yield request.about
        yield f"  {request.verb} {request.target} HTTP/1.1"
        for name, value in request.headers.items():
            yield f"  {name}: {value}"
        if request.body:
            yield f"  body, {len(request.body)} bytes: {request.body.decode()}"
        if request.is_signed:
            yield "  signed with HMAC-SHA1 under the session's access key, base64:"
            for number, (text, meaning) in enumerate(zip(request.text.split("\n"), _LINES, strict=True), start=1):
                end = "" if number == len(_LINES) else " 0a"
                yield f"    {number}  {text or '(empty)'}"
                yield f"       {(text.encode().hex(' ') + end).strip() or '0a'}"
                yield f"       {meaning}"
        yield ""


def main() -> int:
    """Prints the transcript."""
    sys.stdout.write("".join(f"{line}\n" for line in lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
