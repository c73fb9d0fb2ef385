"""Callers who send a byte now and then: they keep nobody else out for longer than one request may take to arrive."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import requests

from tests.support.web_server import WebServer

THREADS = 3
PATIENCE_S = 45.0
HEADERS = "Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
SLOW = {
    "a push to nobody's address": f"POST /lock/v1/webhooks/ttlock/vad_x/nobody HTTP/1.1\r\n{HEADERS}Content-Length: 1000\r\n\r\n",
    "a push in chunks": f"POST /lock/v1/webhooks/ttlock/vad_x/nobody HTTP/1.1\r\n{HEADERS}Transfer-Encoding: chunked\r\n\r\n3e8\r\n",
    "a call without a token": f"POST /lock/v1/credentials HTTP/1.1\r\n{HEADERS}Content-Length: 1000\r\n\r\n",
    "headers without end": "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-More: ",
}


@pytest.fixture(scope="module")
def server(database: str) -> Iterator[WebServer]:
    web = WebServer(threads=THREADS, LOCK_REQUEST_WITHIN_S="2")
    yield web
    web.stop()


@pytest.mark.parametrize("start", SLOW.values(), ids=SLOW)
def test_callers_who_drip_are_hung_up_on_and_the_others_are_served(server: WebServer, start: str) -> None:
    address, over = urlsplit(server.url), threading.Event()
    hung_up: list[bool] = []

    def drip() -> None:
        with socket.create_connection((address.hostname or "", address.port or 0), timeout=PATIENCE_S) as line:
            line.sendall(start.encode())
            try:
                while not over.wait(0.3):
                    line.sendall(b"1")
            except OSError:
                hung_up.append(True)

    drippers = [threading.Thread(target=drip) for _ in range(THREADS * 2)]
    for dripper in drippers:
        dripper.start()
    try:
        assert not over.wait(1.0)  # every thread has one
        assert requests.get(f"{server.url}/healthz", timeout=PATIENCE_S).status_code == 200
        for dripper in drippers:
            dripper.join(PATIENCE_S)
        assert len(hung_up) == len(drippers)
    finally:
        over.set()
        for dripper in drippers:
            dripper.join()
