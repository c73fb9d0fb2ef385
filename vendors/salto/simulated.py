"""The SALTO simulator's control port, as the demo and the replay ask it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from vendors.port.simulated import (
    BuiltHouse,
    DoorAnswer,
    DoorAttempt,
    Effect,
    HeldKey,
    SimulatorRefused,
    SimulatorStatus,
    WantedHouse,
)
from vendors.port.types import CredentialKind
from vendors.support.control_port import ControlPort
from vendors.support.trouble_port import TroublePort

from .answers import LIVE

ENCODER = "Front desk"


class SaltoControl:
    """Implements vendors.port.simulated.SimulatorControl and Breakable. A door is named `<house>-<number>`, unique here."""

    def __init__(self, address: str, control_url: str) -> None:
        self._address = address
        self._control = ControlPort(control_url)
        self._trouble = TroublePort(self._control)

    def build(self, house: WantedHouse) -> BuiltHouse:
        """Puts up a property: a door within reach of a gateway number is on-line, one without is stand-alone. Shared doors are
        left out: they go by the number of an authorisation, which every property has."""
        doors = [door for door in house.doors if not door.is_shared]
        names = {door.number: f"{house.code}-{door.number}" for door in doors}
        api_key, webhook_secret = _derived(house, "api"), _derived(house, "webhook")
        body = {
            "property": house.code,
            "timeZone": _zone(house.utc_offset_s),
            "apiKeys": [api_key],
            "webhookSecret": webhook_secret,
            "doors": [{"name": names[door.number], "label": door.label, "online": door.gateway is not None} for door in doors],
            "encoders": [{"name": ENCODER, "automatic": True}],
        }
        self._control.post("/seed", body)
        settings = {"transport": "cloud", "base_url": f"http://{self._address}", "property_ref": house.code, "encoder": ENCODER}
        return BuiltHouse(names, {}, settings, {"api_key": api_key, "webhook_secret": webhook_secret})

    def try_door(self, door: str, kind: CredentialKind, value: str, at: datetime | None = None) -> DoorAnswer:
        """See SimulatorControl. A card's value is its number or its key's reference, a phone's its key or its number."""
        body = {"device": door, "kind": kind.value, "value": value, "at": at.isoformat() if at else None}
        answer = self._control.post("/try", body)
        return DoorAnswer(bool(answer["open"]), str(answer["why"]))

    def try_doors(self, attempts: Sequence[DoorAttempt], at: datetime) -> Sequence[DoorAnswer]:
        """See SimulatorControl."""
        tries = [{"device": one.door, "kind": one.kind.value, "value": one.value, "at": at.isoformat()} for one in attempts]
        answers = self._control.post("/try-many", {"tries": tries})["results"]
        return [DoorAnswer(bool(answer["open"]), str(answer["why"])) for answer in answers]

    def held(self, doors: Iterable[str]) -> Sequence[HeldKey]:
        """See SimulatorControl. A card's value is its number."""
        wanted = set(doors)
        found: list[HeldKey] = []
        for prop in self._control.get("/dump")["properties"]:
            for key in prop["keys"]:
                places = {*key["rooms"], *(f"auth:{number}" for number in key["grants"])}
                if key["status"] in LIVE:
                    found += [_held(place, key) for place in sorted(places & wanted)]
        return found

    def set_clock(self, now: datetime | None, *, running: bool) -> None:
        """See SimulatorControl."""
        self._control.post("/clock", {"now": now.isoformat() if now else None, "running": running})

    def calls(self, doors: Iterable[str]) -> int:
        """See SimulatorControl."""
        wanted = set(doors)
        counts = self._control.get("/counts")["byDoor"]
        return sum(int(count) for name, count in counts.items() if name.rpartition("\x1f")[2] in wanted)

    def break_calls(self, effect: Effect, times: int | None) -> None:
        """See Breakable. Cloud and connector; the PMS port has faults of its own (`POST /faults`)."""
        self._trouble.add(effect, times)

    def slow_down(self, latency_ms: int) -> None:
        """See Breakable."""
        self._trouble.slow_down(latency_ms)

    def set_door_clock(self, door: str, ahead_s: float) -> None:
        """See Breakable."""
        self._control.post("/door", {"device": door, "clockSkewS": ahead_s})

    def set_reach(self, door: str, *, is_reachable: bool) -> str:
        """See Breakable. A door has its own line to the server; without it, it is a stand-alone door."""
        self._control.post("/door", {"device": door, "dead": not is_reachable})
        return f"the line of door {door}"

    def lie(self) -> None:
        """See Breakable."""
        raise SimulatorRefused("no list of a door's keys is believed here")

    def wipe(self, door: str) -> None:
        """See Breakable."""
        raise SimulatorRefused(f"{door} holds no keys: cards carry their own")

    def heal(self) -> None:
        """See Breakable."""
        self._trouble.heal()
        self._control.post("/faults", {})
        for prop in self.dump()["properties"]:
            for row in prop["doors"]:
                if row["dead"] or row["clockSkewS"]:
                    body = {"property": prop["property"], "device": row["device"], "dead": False, "clockSkewS": 0}
                    self._control.post("/door", body)

    def status(self) -> SimulatorStatus:
        """See Breakable."""
        dump = self.dump()
        doors = [door for prop in dump["properties"] for door in prop["doors"]]
        keys = [key for prop in dump["properties"] for key in prop["keys"] if key["status"] in LIVE]
        off = [f"the line of door {door['device']} is off" for door in doors if door["dead"]]
        wrong = [f"the clock of door {d['device']} is {d['clockSkewS']:+g} s off" for d in doors if d["clockSkewS"]]
        now = datetime.fromisoformat(dump["now"])
        return SimulatorStatus(now, len(doors), len(keys), (*self._trouble.told(), *off, *wrong))

    def dump(self) -> dict[str, Any]:
        """See Breakable."""
        return self._control.get("/dump")


def open_control(address: str, control_url: str) -> SaltoControl:
    """Opens the control port; makes no call."""
    return SaltoControl(address, control_url)


def _derived(house: WantedHouse, use: str) -> str:
    return hashlib.sha256(f"{house.secret}\x1f{house.code}\x1f{use}".encode()).hexdigest()


def _zone(offset_s: int) -> str:
    """Names a zone of that offset. `Etc/GMT-5` is five hours ahead; half hours are taken from a city that keeps them."""
    cities = {
        16200: "Asia/Kabul",
        12600: "Asia/Tehran",
        19800: "Asia/Kolkata",
        20700: "Asia/Kathmandu",
        34200: "Australia/Darwin",
    }
    hours, rest = divmod(offset_s, 3600)
    if rest == 0:
        return f"Etc/GMT{-hours:+d}" if hours else "UTC"
    if offset_s not in cities:
        raise ValueError("no zone of this offset is known to the simulator")
    return cities[offset_s]


def _held(place: str, key: dict[str, Any]) -> HeldKey:
    kind = CredentialKind(key["kind"])
    value = {CredentialKind.PIN_CODE: key["pin"], CredentialKind.RFID_CARD: key["carrier"]}.get(kind, "")
    return HeldKey(
        door=place,
        kind=kind,
        value=value,
        opens_from=datetime.fromisoformat(key["validFrom"]),
        opens_until=datetime.fromisoformat(key["validUntil"]),
        is_resting=bool(key["blocked"]),
    )
