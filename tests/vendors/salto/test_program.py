"""The simulator as a program, its control port as the demo asks it, and the dates in the README."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import vendors.salto
from tests.vendors.salto.hotel import CARD, PHONE, PIN, Hotel
from tests.vendors.site import Simulator, Site, request_for
from vendors.port.secrets import Token
from vendors.port.simulated import SimulatorRefused, WantedDoor, WantedHouse
from vendors.port.types import CredentialKind, Door
from vendors.salto.simulated import SaltoControl, _zone, open_control
from vendors.salto.simulator import evidence


@pytest.fixture
def control(simulator: Simulator) -> SaltoControl:
    return open_control(urlsplit(simulator.url).netloc, simulator.control)


def house(code: str, offset_s: int = 16200) -> WantedHouse:
    doors = [WantedDoor(101, "101"), WantedDoor(102, "۱۰۲", gateway=None)]
    return WantedHouse(code, 1, doors, offset_s, "a secret", is_hurried=True)


class BuiltSite(Hotel):
    """An installation exactly as the demo would configure it."""

    def __init__(self, settings: dict, secrets: dict) -> None:
        self.built_settings, self.built_secrets = settings, secrets
        Site.__init__(self)

    def settings(self) -> dict:
        return self.built_settings

    def secrets(self) -> dict:
        return self.built_secrets


@pytest.mark.parametrize("kind", [CARD, PHONE, PIN])
def test_a_built_house_gives_keys_that_its_doors_know(control: SaltoControl, kind: CredentialKind) -> None:
    built = control.build(house(f"house-{kind.value.replace('_', '-')}"))
    site = BuiltSite(dict(built.settings), dict(built.secrets))
    door = next(d for d in site.port.list_devices("ppt_1") if d.external_id == built.doors[101])
    assert (door.label, door.capabilities.pin) == ("101", True)
    request = request_for(site, kind, (Door("lck_1", built.doors[101]),))
    site.port.issue_credential(request)
    (held,) = control.held([built.doors[101]])
    assert (held.kind, held.opens_until, held.is_resting) == (kind, request.window.valid_until, False)
    value = request.holder.phone_e164 if kind is PHONE else held.value
    assert control.try_door(built.doors[101], kind, value or "").is_open
    assert not control.try_door(built.doors[102], kind, value or "").is_open
    assert not control.try_door(
        built.doors[101], kind, value or "", at=request.window.valid_until + timedelta(seconds=1)
    ).is_open
    assert control.calls([built.doors[101]]) == 1


def test_building_twice_keeps_keys_and_the_clock_can_be_moved(simulator: Simulator, control: SaltoControl) -> None:
    first, second = control.build(house("twice")), control.build(house("twice"))
    assert (first.doors, dict(first.secrets)) == (second.doors, dict(second.secrets))
    then = datetime(2030, 5, 1, 8, tzinfo=UTC)
    control.set_clock(then, running=False)
    assert simulator.get("/dump")["now"] == then.isoformat()
    control.set_clock(None, running=True)
    assert abs(datetime.fromisoformat(simulator.get("/dump")["now"]) - datetime.now(UTC)) < timedelta(seconds=5)


@pytest.mark.parametrize(
    ("offset_s", "zone"), [(0, "UTC"), (18000, "Etc/GMT-5"), (-10800, "Etc/GMT+3"), (20700, "Asia/Kathmandu")]
)
def test_houses_of_every_offset_keep_their_wall_clock(offset_s: int, zone: str) -> None:
    assert _zone(offset_s) == zone
    with pytest.raises(ValueError):
        _zone(1234)


def test_a_wrong_call_to_the_control_port_is_refused_with_the_reason(control: SaltoControl) -> None:
    with pytest.raises(SimulatorRefused, match="properties have a door of that name"):
        control.try_door("no such door", CARD, "1")


def test_a_fresh_program_says_where_it_listens_and_ends_when_told() -> None:
    simulator = Simulator.start("salto")
    assert {urlsplit(simulator.url).hostname, urlsplit(simulator.control).hostname} == {"127.0.0.1"}
    simulator.post("/seed", {"property": "p", "doors": [{"name": "1"}]})
    simulator.post("/reset", {})
    assert simulator.get("/dump")["properties"] == []
    simulator.stop()
    assert simulator.process.returncode == 0


def test_no_secret_of_an_installation_is_printed(hotel: Hotel) -> None:
    text = repr(hotel.context()) + repr(hotel.port) + str(hotel.context().secrets["api_key"])
    assert hotel.api_key not in text
    assert isinstance(hotel.context().secrets["api_key"], Token)


def test_the_readme_names_the_dates_of_the_last_and_next_comparison() -> None:
    readme = Path(vendors.salto.__file__).with_name("README.md").read_text(encoding="utf-8")
    assert f"Last comparison with the vendor's documentation: **{evidence.LAST_COMPARED}**" in readme
    assert f"Next comparison due: **{evidence.NEXT_COMPARISON}**" in readme
    assert timedelta(days=92) == evidence.NEXT_COMPARISON - evidence.LAST_COMPARED
