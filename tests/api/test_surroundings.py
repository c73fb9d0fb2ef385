"""Probes, documents, schemas, the demo's booking door, and a database that is away."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from lockservice.embedded.local import REPOSITORY_ROOT, free_port
from sagas import bus
from sagas.consumer import Consumer
from sagas.events import registry
from tests.api.conftest import issue_body, problem, work
from tests.support.hotel import Hotel
from tests.support.web_server import Caller, WebServer, caller


@pytest.fixture(scope="module", params=["refuses", "is silent"])
def cut_off(database: str, request: pytest.FixtureRequest) -> Iterator[WebServer]:
    """Give a web server whose database and Redis refuse connections, or take them and never say a word."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        port = silent.getsockname()[1] if request.param == "is silent" else free_port()
        server = WebServer(LOCK_DB_HOST="127.0.0.1", LOCK_DB_PORT=str(port), LOCK_REDIS_URL=f"redis://127.0.0.1:{port}/0")
        yield server
        server.stop()


def test_the_process_is_alive_and_can_work(web: WebServer) -> None:
    assert Caller(web.url).get("/healthz").json() == {"status": "alive"}
    assert Caller(web.url).get("/readyz").json() == {"status": "ready", "database": "up", "redis": "up"}


def test_without_its_database_the_process_is_alive_and_not_ready(cut_off: WebServer) -> None:
    assert Caller(cut_off.url).get("/healthz").status_code == 200
    took = []
    for _ in range(3):
        started = time.monotonic()
        answer = Caller(cut_off.url).get("/readyz")
        took.append(time.monotonic() - started)
        assert (answer.status_code, answer.json()) == (503, {"status": "not ready", "database": "away", "redis": "away"})
    assert min(took) < 1  # of three, for this machine may have stood still once


@pytest.mark.parametrize(("method", "path", "body"), [
    ("GET", "/lock/v1/credentials", None),
    ("GET", "/lock/v1/reservations/rsv_1/keys", None),
    ("POST", "/lock/v1/credentials/key_1/revoke", {"reason": "checkout"}),
    ("POST", "/lock/v1/devices/lck_1/health-check", None),
])  # fmt: skip
def test_without_its_database_every_route_says_so_within_a_second(
    method: str, path: str, body: Any, cut_off: WebServer
) -> None:
    someone = caller(cut_off, "tnt_any", "front_desk")
    took = []
    for _ in range(3):
        started = time.monotonic()
        answer = someone.send(method, path, body)
        took.append(time.monotonic() - started)
        assert (problem(answer), answer.json()["retriable"], answer.headers["Retry-After"]) == (
            (503, "SERVICE_UNAVAILABLE"),
            True,
            "2",
        )
    assert min(took) < 1  # of three, for this machine may have stood still once


def test_a_bad_token_is_told_without_the_database(cut_off: WebServer) -> None:
    assert problem(Caller(cut_off.url, "abc").get("/lock/v1/credentials")) == (401, "UNAUTHENTICATED")


def test_figures_count_requests_by_pattern_and_name_nobody(hotel: Hotel, desk: Caller, web: WebServer) -> None:
    desk.get("/lock/v1/credentials/key_nobody")
    text = Caller(web.url).get("/metrics").text
    assert 'lock_http_requests_total{method="GET",route="lock/v1/credentials/<opaque:credential_id>",status="404"}' in text
    assert hotel.tenant_id not in text
    assert "key_nobody" not in text


def test_every_event_schema_is_served_as_it_is_checked_against(web: WebServer) -> None:
    specs = registry.REGISTRY.all()
    for spec in specs:
        answer = Caller(web.url).get(f"/schemas/{spec.schema_file}")
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/schema+json"), spec.subject
        assert answer.content == registry.schema_file(spec.schema_file)
    assert len(specs) > 30


@pytest.mark.parametrize("path", ["lock/none.v1.json", "../registry.py", "published.json", "lock", "%2e%2e/registry.py"])
def test_nothing_else_is_served_as_a_schema(path: str, web: WebServer) -> None:
    assert requests.get(f"{web.url}/schemas/{path}", timeout=5).status_code == 404


def test_the_document_names_every_route_and_its_page_loads_nothing_from_elsewhere(web: WebServer) -> None:
    document = Caller(web.url).get("/api/schema/").json()
    assert document["openapi"].startswith("3.1")
    assert len(document["paths"]) == 23
    issue = document["paths"]["/lock/v1/credentials"]["post"]
    assert sorted(issue["responses"]) == ["201", "202", "400", "401", "403", "404", "409", "413", "415", "422", "503"]
    assert issue["security"] == [{"bearer": []}]
    page = Caller(web.url).get("/api/docs/")
    assert page.status_code == 200
    assert "://" not in page.text
    assert "<style" not in page.text
    script = page.text.split('src="')[-1].split('"')[0].replace("&amp;", "&")
    assert Caller(web.url).get(script).headers["Content-Type"].startswith("application/javascript")
    assert Caller(web.url).get("/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui.css").status_code == 200


def test_the_demos_booking_goes_over_the_bus_and_becomes_a_key(hotel: Hotel, desk: Caller) -> None:
    booking = issue_body(hotel)
    sent = {name: booking[name] for name in ("propertyId", "rooms", "validFrom", "validUntil")}
    answer = desk.post("/demo/v1/bookings", sent)
    assert answer.status_code == 202, answer.text
    stay = answer.json()["reservationId"]
    drain_bus()
    work(hotel)
    body = desk.get(f"/lock/v1/reservations/{stay}/keys").json()
    assert (body["status"], body["keys"][0]["credential"]["state"]) == ("confirmed", "active")
    cancelled = desk.post(
        "/demo/v1/bookings", {**sent, "event": "cancelled", "reservationId": stay, "version": body["version"] + 1}
    )
    assert cancelled.status_code == 202
    drain_bus()
    assert desk.get(f"/lock/v1/reservations/{stay}/keys").json()["keys"][0]["credential"]["state"] == "revoked"


def drain_bus() -> None:
    one = bus.from_settings()
    try:
        Consumer(one).run(until=lambda: False, drain=True)
    finally:
        one.close()


@pytest.mark.parametrize(("changes", "said"), [
    ({"validFrom": "2031-01-01T10:00:00"}, "NO_TIME_ZONE"),
    ({"validUntil": "2001-01-01T10:00:00Z"}, "WINDOW_INVERTED"),
    ({"validUntil": "tomorrow"}, "validUntil"),
])  # fmt: skip
def test_a_demo_booking_that_would_be_a_dead_letter_is_refused_at_once(
    changes: dict[str, str], said: str, hotel: Hotel, desk: Caller
) -> None:
    booking = issue_body(hotel)
    answer = desk.post(
        "/demo/v1/bookings", {name: booking[name] for name in ("propertyId", "rooms", "validFrom", "validUntil")} | changes
    )
    assert problem(answer) == (400, "VALIDATION_FAILED")
    field = next(iter(changes))
    assert said in answer.text or field in answer.text


def test_a_booking_while_the_bus_is_away_is_503(hotel: Hotel, database: str) -> None:
    server = WebServer(LOCK_REDIS_URL=f"redis://127.0.0.1:{free_port()}/0")
    try:
        someone = caller(server, hotel.tenant_id, "front_desk")
        booking = issue_body(hotel)
        started = time.monotonic()
        answer = someone.post(
            "/demo/v1/bookings", {name: booking[name] for name in ("propertyId", "rooms", "validFrom", "validUntil")}
        )
        assert problem(answer) == (503, "SERVICE_UNAVAILABLE")
        assert someone.post("/lock/v1/credentials", booking).status_code == 202  # keys need no broker
        assert time.monotonic() - started < 4
        assert Caller(server.url).get("/readyz").json() == {"status": "ready", "database": "up", "redis": "away"}
    finally:
        server.stop()


def test_outside_embedded_mode_no_demo_address_is_served_and_no_token_is_signed(tmp_path: Path) -> None:
    """Asks a fresh interpreter with the settings of production."""
    (tmp_path / "data.key").write_bytes(b"k" * 32)
    environment = {
        "DJANGO_SETTINGS_MODULE": "lockservice.settings.production", "DJANGO_SECRET_KEY": "s" * 60, "DJANGO_ALLOWED_HOSTS": "x",
        "LOCK_DATA_KEY_FILE": str(tmp_path / "data.key"), "LOCK_DB_NAME": "x", "LOCK_DB_HOST": "127.0.0.1",
        "LOCK_DB_PASSWORD_WEB": "x", "LOCK_DB_LOGIN": "web", "LOCK_REDIS_URL": "redis://127.0.0.1:1/0",
        "LOCK_BROKER_URL": "redis://127.0.0.1:1/1", "LOCK_API_JWKS": "https://id.example/jwks", "LOCK_API_ISSUER": "id",
        "LOCK_API_AUDIENCE": "lock", "LOCK_PUBSUB_PROJECT": "p", "PATH": os.environ["PATH"], "LOCK_KEY_ENCRYPTION": "file",
        "LOCK_KEK_FOLDER": str(tmp_path), "LOCK_SECRET_STORE": "file", "LOCK_SECRET_STORE_FOLDER": str(tmp_path),
    }  # fmt: skip
    code = (
        "import django; django.setup()\n"
        "from django.urls import Resolver404, resolve\n"
        "from lockservice.core.auth import issue_token\n"
        "resolve('/lock/v1/credentials')\n"
        "for path in ('/demo/v1/bookings', '/demo/v1/jwks.json'):\n"
        "    try: resolve(path)\n"
        "    except Resolver404: print('absent')\n"
        "try: issue_token('tnt_1', 'usr_1', ['gm'])\n"
        "except RuntimeError: print('unsigned')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=REPOSITORY_ROOT, capture_output=True, text=True, check=False
    )
    assert (run.stdout.split(), run.returncode) == (["absent", "absent", "unsigned"], 0), run.stderr


def test_a_browser_is_led_to_the_console_and_a_program_is_told_that_nothing_is_there(web: WebServer) -> None:
    led = requests.get(f"{web.url}/", headers={"Accept": "text/html,*/*;q=0.8"}, allow_redirects=False, timeout=10)
    assert (led.status_code, led.headers["Location"]) == (302, "/console/")
    told = requests.get(f"{web.url}/", headers={"Accept": "*/*"}, allow_redirects=False, timeout=10)
    assert (told.status_code, told.json()["code"]) == (404, "MELMASTOON.LOCK.NOT_FOUND")
