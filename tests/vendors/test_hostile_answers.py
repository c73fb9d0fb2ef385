"""What a vendor's line may send back that is no answer: it ends in a precise word, and never in a guess about what was done."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from vendors.port.clock import FixedClock
from vendors.port.secrets import Token
from vendors.salto.simulator.tls import Authority
from vendors.support.http import LONGEST_WAIT_S, AnswerLost, HttpAnswer, HttpClient, NotSent
from vendors.support.tokens import MAX_LIFETIME_S, Grant, TokenKeeper, lifetime_in

BROKEN_RECORD = b"\x17\x03\x03\x00\x20" + bytes(range(32))
"""A TLS record of application data whose bytes nobody encrypted."""


class SecureServer:
    """Shakes hands with whoever shows a certificate of its authority, reads one request, and then does what it is told."""

    def __init__(self, authority: Authority, then: Callable[[ssl.SSLSocket], None]) -> None:
        self._context = authority.server_context()
        self._then = then
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        self.heard = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # stopped
            connection.settimeout(5)
            with self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False) as secured:
                try:
                    secured.do_handshake()
                    self.heard += bool(secured.recv(65536))
                    self._then(secured)
                except OSError:
                    _hear_out(secured.fileno())

    def stop(self) -> None:
        self._socket.close()


def _hear_out(descriptor: int) -> None:
    """Reads what still comes before hanging up, so that an alert is not overtaken by a reset."""
    os.set_blocking(descriptor, True)
    try:
        while os.read(descriptor, 65536):
            continue
    except OSError:
        return


def client_of(server: SecureServer, trusted: Authority, shown: Authority, folder: Path) -> HttpClient:
    certificate, key = shown.client("hotel")
    file = folder / "client.pem"
    file.write_text(certificate + key)
    context = ssl.create_default_context(cadata=trusted.pem)
    context.load_cert_chain(file)
    return HttpClient(server.url, tls=context)


@pytest.fixture
def new_server() -> Iterator[Callable[[Authority, Callable[[ssl.SSLSocket], None]], SecureServer]]:
    servers: list[SecureServer] = []

    def make(authority: Authority, then: Callable[[ssl.SSLSocket], None]) -> SecureServer:
        servers.append(SecureServer(authority, then))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{"], ids=["before", "in the middle"])
def test_tls_that_breaks_after_the_request_leaves_it_open_what_was_done(
    tmp_path: Path, new_server: Callable[..., SecureServer], first: bytes
) -> None:
    def breaks(line: ssl.SSLSocket) -> None:
        if first:
            line.sendall(first)
        os.write(line.fileno(), BROKEN_RECORD)
        _hear_out(line.fileno())

    authority = Authority()
    server = new_server(authority, breaks)
    with pytest.raises(AnswerLost):
        client_of(server, authority, authority, tmp_path).send("POST", "/", body=b"{}", timeout_s=5)
    assert server.heard == 1


def test_a_client_certificate_that_is_turned_away_carried_no_request(
    tmp_path: Path, new_server: Callable[..., SecureServer]
) -> None:
    """TLS 1.3 tells it only after our side of the handshake, in place of an answer."""
    authority = Authority()
    server = new_server(authority, lambda line: None)
    with pytest.raises(NotSent):
        client_of(server, authority, Authority(), tmp_path).send("POST", "/", body=b"{}", timeout_s=5)
    assert server.heard == 0


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"<!DOCTYPE html><html></html>", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_json_is_a_value_error_however_deep_it_is(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        HttpAnswer(200, "application/json", body).json()


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("7", 7.0),
        (" 2.5 ", 2.5),
        ("0", 0.0),
        ("864000001", LONGEST_WAIT_S),
        ("Thu, 01 Jan 2026 14:31:30 GMT", 90.0),
        ("Thu, 01 Jan 2026 14:00:00 GMT", 0.0),
        ("Fri, 01 Jan 9999 00:00:00 GMT", LONGEST_WAIT_S),
        *((text, None) for text in ("", "nan", "inf", "-5", "1e308", "9" * 40, "²", "٣", "soon", "Thu, 99 Jan 2026")),
    ],
)
def test_the_wait_a_vendor_asks_for_is_seconds_or_a_date_and_never_without_bound(header: str, expected: float | None) -> None:
    headers = {"retry-after": header, "date": "Thu, 01 Jan 2026 14:30:00 GMT"}
    assert HttpAnswer(429, "application/json", b"{}", headers).retry_after_s() == expected


def test_a_date_to_wait_for_says_nothing_without_the_vendors_own() -> None:
    headers = {"retry-after": "Thu, 01 Jan 2026 14:31:30 GMT"}
    assert HttpAnswer(429, "application/json", b"{}", headers).retry_after_s() is None


NO_LIVES: list[object] = [None, 0, "", "soon", [1], {}, True, float("nan"), "nan", float("inf"), "-inf"]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (7200, 7200.0), ("7200", 7200.0), (0.2, 1.0), (-5, 1.0), (1e300, MAX_LIFETIME_S), (10**400, MAX_LIFETIME_S),
        *((value, 3600.0) for value in NO_LIVES),
    ],
)  # fmt: skip
def test_a_tokens_life_is_a_number_of_seconds_or_the_usual(told: object, expected: float) -> None:
    assert lifetime_in(told, 3600.0) == expected


class Told:
    """A token endpoint that says how long a token lives."""

    def __init__(self, life: object) -> None:
        self.life = life

    def login(self, timeout_s: float) -> Grant:
        return Grant(Token("a"), lifetime_in(self.life, 3600.0))

    def refresh(self, refresh_token: Token, timeout_s: float) -> Grant:
        raise AssertionError("nothing to refresh with")


@pytest.mark.parametrize("life", [float("nan"), 1e300, 10**400, -1])
def test_a_token_of_any_life_is_kept(life: object) -> None:
    keeper = TokenKeeper(Told(life), FixedClock(datetime(2026, 1, 1, tzinfo=UTC)))
    assert keeper.current(1.0).reveal() == "a"
