"""SALTO's doors, cards and phones keep what they know over a restart of the simulator."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from lockservice.embedded.local import REPOSITORY_ROOT
from tests.vendors.salto.hotel import CARD, PHONE, PIN
from vendors.port.simulated import WantedDoor, WantedHouse
from vendors.salto.simulated import SaltoControl, open_control
from vendors.salto.simulator.program import BAD_STATE_FILE
from vendors.support.control_port import ControlPort

HOUSE = WantedHouse("inn", 1, [WantedDoor(101, "101"), WantedDoor(102, "102", gateway=None)], 0, "secret")
ONLINE, ALONE = "inn-101", "inn-102"
NOW = datetime.now(UTC).replace(microsecond=0)
"""One instant for all requests: a repeated one must be the same to the letter."""


@contextmanager
def simulator(state: Path) -> Iterator[tuple[SaltoControl, ControlPort, str]]:
    argv = [sys.executable, "-m", "vendors.simulate", "salto", "--state-file", str(state)]
    running = subprocess.Popen(argv, cwd=REPOSITORY_ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        ready = json.loads(running.stdout.readline())
        yield open_control(urlsplit(ready["url"]).netloc, ready["control"]), ControlPort(ready["control"]), ready["url"]
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=10)


def make(url: str, secrets: Any, **body: Any) -> dict[str, Any]:
    """Asks the cloud for a key."""
    document = {
        "propertyId": "inn", "reservationRef": "c-1", "operator": "gk-1", "mode": "new",
        "validFrom": (NOW - timedelta(hours=1)).isoformat(), "validUntil": (NOW + timedelta(days=1)).isoformat(), **body,
    }  # fmt: skip
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    headers = {
        "Authorization": f"ApiKey {secrets['api_key']}", "X-Property-Id": "inn", "Content-Type": "application/json",
        "X-Idempotency-Key": json.dumps(body, sort_keys=True),
    }  # fmt: skip
    connection.request("POST", "/v1/keys", json.dumps(document), headers)
    answer = connection.getresponse()
    found: dict[str, Any] = json.loads(answer.read())
    connection.close()
    assert answer.status == 201, found
    return found


def test_doors_cards_and_phones_know_after_a_restart_what_they_knew_before(tmp_path: Path) -> None:
    state = tmp_path / "salto.json"
    with simulator(state) as (control, _, url):
        secrets = control.build(HOUSE).secrets
        old = make(url, secrets, kind="rfid_card", rooms=[ALONE], encoderId="Front desk")
        new = make(url, secrets, kind="rfid_card", rooms=[ALONE], encoderId="Front desk", reservationRef="c-2")
        phone = make(url, secrets, kind="mobile_app", rooms=[ONLINE], phone="+999000000001", reservationRef="c-3")
        make(url, secrets, kind="pin_code", rooms=[ONLINE], pin="246813", mode="copy", reservationRef="c-4")
        assert control.try_door(
            ALONE, CARD, old["cardRef"]
        ).is_open  # a door alone does not know yet that the room changed hands
        assert control.try_door(ALONE, CARD, new["cardRef"]).is_open  # now it does
        before = control.held([ONLINE, ALONE]), control.dump()["properties"]
    assert state.stat().st_mode & 0o777 == 0o600
    with simulator(state) as (control, port, url):
        assert (control.held([ONLINE, ALONE]), control.dump()["properties"]) == before
        assert not control.try_door(ALONE, CARD, old["cardRef"]).is_open
        assert control.try_door(ALONE, CARD, new["cardRef"]).is_open
        assert control.try_door(ONLINE, PHONE, "+999000000001").is_open
        assert control.try_door(ONLINE, PIN, "246813").is_open
        again = control.build(HOUSE)
        assert again.secrets == secrets
        repeated = make(url, secrets, kind="mobile_app", rooms=[ONLINE], phone="+999000000001", reservationRef="c-3")
        assert repeated["cardRef"] == phone["cardRef"]
        assert len(port.get("/dump")["properties"][0]["keys"]) == 4


@pytest.mark.parametrize("content", ["", "{}", '{"format": "another", "properties": []}', "not json"])
def test_a_file_that_is_no_state_stops_the_start_and_stays_as_it_is(tmp_path: Path, content: str) -> None:
    state = tmp_path / "salto.json"
    state.write_text(content)
    argv = [sys.executable, "-m", "vendors.simulate", "salto", "--state-file", str(state)]
    done = subprocess.run(argv, cwd=REPOSITORY_ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, "salto simulator:" in done.stderr) == (BAD_STATE_FILE, True)
    assert state.read_text() == content
