"""The simulator as a program and behind the demo's control protocol."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.vendors.assa_abloy.conftest import NewHouse
from tests.vendors.assa_abloy.harness import VostioSite
from tests.vendors.proxy import Proxy
from tests.vendors.site import Simulator, request_for, stay
from vendors import registry
from vendors.assa_abloy.simulated import open_control
from vendors.port.errors import VendorUnreachable
from vendors.port.secrets import Token
from vendors.port.simulated import SimulatorRefused, SimulatorUnreachable, WantedDoor, WantedHouse
from vendors.port.types import CredentialKind, Door

HOUSE = WantedHouse("hotel-demo", 7, (WantedDoor(101, "101"), WantedDoor(102, "102", gateway=None)), 16_200, "a secret")


def started(*more: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
    argv = [sys.executable, "-m", "vendors.simulate", "assa-abloy", "--port", "0", "--control-port", "0", *more]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    return process, json.loads(line) if line else {}


def stopped(process: subprocess.Popen[str]) -> int:
    process.terminate()
    _, error = process.communicate(timeout=10)
    assert "Traceback" not in error
    return process.returncode


def test_it_says_where_it_listens_and_ends_cleanly() -> None:
    process, ready = started()
    assert ready.keys() == {"url", "control"}
    assert urlsplit(ready["url"]).hostname == urlsplit(ready["control"]).hostname == "127.0.0.1"
    assert ready["url"] != ready["control"]
    assert stopped(process) == 0


def test_the_vendors_side_knows_nothing_of_the_control_side(assa: tuple[Simulator, Proxy]) -> None:
    for path in ("/dump", "/try", "/calls"):
        connection = http.client.HTTPConnection(urlsplit(assa[0].url).netloc, timeout=5)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["code"]) == (401, "token_expired")
        connection.close()


def test_a_house_is_put_up_once_and_keeps_its_keys(assa: tuple[Simulator, Proxy]) -> None:
    simulator, _ = assa
    control = open_control(urlsplit(simulator.url).netloc, simulator.control)
    built = control.build(HOUSE)
    assert (built.doors, built.gateways) == ({101: "70101", 102: "70102"}, {})
    site = VostioSite(*assa)
    secrets = {name: Token(value) for name, value in built.secrets.items()}
    port = registry.build("assa-abloy", site.context(settings=built.settings, secrets=secrets))
    assert [(d.external_id, d.label, d.has_remote) for d in port.list_devices("p")] == [
        ("70101", "101", True),
        ("70102", "102", False),
    ]
    doors = tuple(Door(f"lck_{external}", external) for external in built.doors.values())
    card, phone = (request_for(site, kind, doors) for kind in (CredentialKind.RFID_CARD, CredentialKind.MOBILE_APP))
    port.issue_credential(card)
    token = port.issue_credential(phone).artifact.value.reveal()  # type: ignore[union-attr]
    assert control.build(HOUSE) == built
    held = control.held(["70101"])
    assert [(key.kind, key.is_resting) for key in held] == [
        (CredentialKind.RFID_CARD, False),
        (CredentialKind.MOBILE_APP, False),
    ]
    assert (held[0].opens_from, held[0].opens_until) == (card.window.valid_from, card.window.valid_until)
    assert control.try_door("70101", CredentialKind.RFID_CARD, held[0].value).is_open
    opened = control.try_door("70102", CredentialKind.MOBILE_APP, token)
    assert (opened.is_open, opened.why) == (True, "granted")
    assert control.calls(["70101"]) == 2  # the two issues
    assert control.try_door("nowhere", CredentialKind.RFID_CARD, "1").why == "no_such_door"


def test_the_clock_moves_for_vendor_and_doors(assa: tuple[Simulator, Proxy], new_house: NewHouse) -> None:
    site = new_house(VostioSite)
    control = open_control(urlsplit(assa[0].url).netloc, assa[0].control)
    request = request_for(site, CredentialKind.RFID_CARD, window=stay(10, 10))
    value = site.presented(site.port.issue_credential(request), request)
    assert not site.opens(site.doors[0], CredentialKind.RFID_CARD, value)
    control.set_clock(datetime.now(UTC) + timedelta(hours=12), running=True)
    assert site.opens(site.doors[0], CredentialKind.RFID_CARD, value)
    control.set_clock(None, running=True)
    assert not site.opens(site.doors[0], CredentialKind.RFID_CARD, value)


def test_wrong_requests_are_refused_by_name(assa: tuple[Simulator, Proxy]) -> None:
    control = open_control(urlsplit(assa[0].url).netloc, assa[0].control)
    with pytest.raises(SimulatorRefused, match="zone"):
        control._control.post("/clock", {"now": "2026-01-01T00:00:00"})
    with pytest.raises(SimulatorUnreachable):
        open_control("127.0.0.1:1", "http://127.0.0.1:1").held(["1"])


def test_a_restart_keeps_keys_cards_phones_and_what_locks_have_learnt(tmp_path: Path, assa: tuple[Simulator, Proxy]) -> None:
    state = tmp_path / "state.json"
    process, ready = started("--state-file", str(state))
    control = open_control(urlsplit(ready["url"]).netloc, ready["control"])
    built = control.build(HOUSE)
    secrets = {name: Token(value) for name, value in built.secrets.items()}
    port = registry.build("assa-abloy", VostioSite(*assa).context(settings=built.settings, secrets=secrets))
    doors = (Door("lck_2", "70102", has_remote=False),)
    site = VostioSite(*assa)
    values = []
    for _ in range(2):
        port.issue_credential(request_for(site, CredentialKind.RFID_CARD, doors))
        values.append(control.held(["70102"])[-1].value)
    assert [control.try_door("70102", CredentialKind.RFID_CARD, v).why for v in values] == ["granted", "granted"]
    assert stopped(process) == 0
    process, ready = started("--state-file", str(state))
    control = open_control(urlsplit(ready["url"]).netloc, ready["control"])
    assert [control.try_door("70102", CredentialKind.RFID_CARD, v).why for v in values] == ["overridden", "granted"]
    assert stopped(process) == 0


def test_a_state_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text('[{"code": "x"}]')
    process, ready = started("--state-file", str(state))
    assert ready == {}
    assert process.wait(10) == 2
    process.communicate()


def test_no_more_calls_are_answered_than_the_environments_bucket_holds(new_house: NewHouse) -> None:
    site = new_house(VostioSite, rateLimit=30)
    waits: list[float] = []
    for _ in range(70):
        try:
            site.port.health_check(site.doors[0])
        except VendorUnreachable as error:
            waits.append(error.retry_after_s or 0)
    calls = [call for call in site.simulator.get("/calls")["calls"] if call["house"] == site.house]
    assert len(calls) == 70
    took_s = calls[-1]["atS"] - calls[0]["atS"]
    assert 70 - len(waits) <= 30 + 30 * took_s + 1
    assert all(wait >= 1 for wait in waits)
