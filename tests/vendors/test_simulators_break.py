"""Every simulator can be broken and mended from outside, the same way for all vendors."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from devices import simulated
from devices.simulated import SimulatorPlace
from lockservice.embedded.local import REPOSITORY_ROOT
from vendors import registry
from vendors.port.simulated import Breakable, BuiltHouse, Effect, SimulatorControl, WantedDoor, WantedHouse

HOUSE = WantedHouse("inn", 7, [WantedDoor(101, "101"), WantedDoor(102, "102", 2)], 0, "secret", is_hurried=True)
SIMULATED = sorted(code for code, manifest in registry.manifests().items() if manifest.simulated)


@dataclass
class Running:
    """A simulator with a small house."""

    place: SimulatorPlace
    control: SimulatorControl
    trouble: Breakable
    built: BuiltHouse

    def ask(self) -> int:
        """Asks the vendor's side for nothing in particular; returns the status, 0 when it hangs up."""
        host = urlsplit(f"http://{self.place.address}")
        connection = http.client.HTTPConnection(host.hostname or "", host.port, timeout=10)
        try:
            connection.request("GET", "/v3/anything")
            return connection.getresponse().status
        except (http.client.HTTPException, ConnectionError):
            return 0
        finally:
            connection.close()


@pytest.fixture(scope="module", params=SIMULATED)
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    vendor = request.param
    argv = [sys.executable, "-m", "vendors.simulate", vendor, "--port", "0", "--control-port", "0"]
    process = subprocess.Popen(argv, cwd=REPOSITORY_ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        place = SimulatorPlace(urlsplit(ready["url"]).netloc, ready["control"])
        control = simulated.control_of(vendor, place)
        assert isinstance(control, Breakable)
        yield Running(place, control, control, control.build(HOUSE))
    finally:
        process.terminate()
        process.communicate(timeout=10)


@pytest.fixture(autouse=True)
def _mended(running: Running) -> Iterator[None]:
    yield
    running.trouble.heal()
    assert running.trouble.status().troubles == ()


def test_it_hangs_up_on_so_many_requests_and_then_answers(running: Running) -> None:
    running.trouble.break_calls(Effect.DROP, 2)
    assert running.trouble.status().troubles == ("hangs up: the next 2 requests",)
    assert [running.ask() == 0 for _ in range(3)] == [True, True, False]
    assert running.trouble.status().troubles == ()


def test_it_is_dead_until_it_is_mended(running: Running) -> None:
    running.trouble.break_calls(Effect.DROP, None)
    assert [running.ask() for _ in range(3)] == [0, 0, 0]
    running.trouble.heal()
    assert running.ask() != 0


def test_it_takes_longer(running: Running) -> None:
    running.trouble.slow_down(300)
    started = time.monotonic()
    running.ask()
    assert time.monotonic() - started >= 0.3
    assert running.trouble.status().troubles == ("every request takes 300 ms longer",)


def test_a_door_has_its_clock_wrong_or_is_out_of_reach(running: Running) -> None:
    door = running.built.doors[101]
    running.trouble.set_door_clock(door, 1800)
    (wrong,) = running.trouble.status().troubles
    assert "is +1800 s off" in wrong
    running.trouble.set_door_clock(door, 0)
    what = running.trouble.set_reach(door, is_reachable=False)
    (off,) = running.trouble.status().troubles
    assert off.endswith("is off")
    assert running.trouble.set_reach(door, is_reachable=True) == what
    assert running.trouble.status().troubles == ()


def test_it_tells_what_it_holds(running: Running) -> None:
    status = running.trouble.status()
    assert (status.doors_count, status.keys_count) == (2, 0)
    assert running.trouble.dump()
