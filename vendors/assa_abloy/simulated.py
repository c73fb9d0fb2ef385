"""The simulator's control port, as the demo and the replay ask it. Houses are put up as Vostio environments."""

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
    WantedDoor,
    WantedHouse,
)
from vendors.port.types import CredentialKind
from vendors.support.control_port import ControlPort
from vendors.support.trouble_port import TroublePort

NUMBERS_PER_HOUSE = 10_000
ENCODER = "desk-1"
HELD = frozenset({"active", "suspended"})


class AssaAbloyControl:
    """Implements vendors.port.simulated.SimulatorControl and Breakable. A shared door is named `common:<id>`."""

    def __init__(self, address: str, control_url: str) -> None:
        self._address = address
        self._control = ControlPort(control_url)
        self._trouble = TroublePort(self._control)

    def build(self, house: WantedHouse) -> BuiltHouse:
        """Puts up an environment with its locks. Those within reach of a gateway are on the network; the desk's encoder takes
        cards from a stack."""
        doors = {door.number: _name_of(house, door) for door in house.doors}
        account = {name: _derived(house, name) for name in ("clientSecret", "password", "webhookSecret")}
        body = {
            "code": house.code,
            "clientId": f"api-{house.code}",
            "username": f"operator-{house.code}",
            "timeZone": _zone(house.utc_offset_s),
            "rateLimit": None if house.is_hurried else 30,
            **account,
            "doors": [
                {
                    "doorId": doors[door.number].rpartition(":")[2],
                    "name": door.label,
                    "online": door.gateway is not None,
                    "type": "common" if door.is_shared else "guest",
                }
                for door in house.doors
            ],
            "encoders": [{"name": ENCODER, "feeds": True}],
        }
        self._control.post("/seed", body)
        return BuiltHouse(
            doors=doors,
            gateways={},
            settings={
                "mode": "vostio",
                "base_url": f"http://{self._address}",
                "property_id": house.code,
                "client_id": f"api-{house.code}",
                "encoder": ENCODER,
            },
            secrets={"client_secret": account["clientSecret"], "webhook_secret": account["webhookSecret"]},
        )

    def try_door(self, door: str, kind: CredentialKind, value: str, at: datetime | None = None) -> DoorAnswer:
        """See SimulatorControl. A card's value is its number, a phone's the token its holder was given."""
        body = {"device": door, "kind": kind.value, "value": value, "at": at.isoformat() if at else None}
        answer = self._control.post("/try", body)
        return DoorAnswer(bool(answer["open"]), str(answer["why"]))

    def try_doors(self, attempts: Sequence[DoorAttempt], at: datetime) -> Sequence[DoorAnswer]:
        """See SimulatorControl."""
        tries = [{"device": one.door, "kind": one.kind.value, "value": one.value, "at": at.isoformat()} for one in attempts]
        answers = self._control.post("/try-many", {"tries": tries})["results"]
        return [DoorAnswer(bool(answer["open"]), str(answer["why"])) for answer in answers]

    def held(self, doors: Iterable[str]) -> Sequence[HeldKey]:
        """See SimulatorControl. No lock holds keys: a phone's are at the vendor, and cards carry their own, told by number."""
        wanted = set(doors)
        return [
            _held(door, key)
            for house in self._control.get("/dump")["houses"]
            for key in house["vendor"]
            if key["status"] in HELD
            for door in (*key["guest"], *(f"common:{name}" for name in key["common"]))
            if door in wanted
        ]

    def set_clock(self, now: datetime | None, *, running: bool) -> None:
        """See SimulatorControl."""
        self._control.post("/clock", {"now": now.isoformat() if now else None, "running": running})

    def calls(self, doors: Iterable[str]) -> int:
        """See SimulatorControl."""
        counts = self._control.get("/calls?limit=0")["byDoor"]
        return sum(int(counts.get(door.rpartition(":")[2], 0)) for door in doors)

    def break_calls(self, effect: Effect, times: int | None) -> None:
        """See Breakable."""
        self._trouble.add(effect, times)

    def slow_down(self, latency_ms: int) -> None:
        """See Breakable."""
        self._trouble.slow_down(latency_ms)

    def set_door_clock(self, door: str, ahead_s: float) -> None:
        """See Breakable."""
        self._control.post("/doors", {"device": door, "clockSkewS": ahead_s})

    def set_reach(self, door: str, *, is_reachable: bool) -> str:
        """See Breakable. A lock of this vendor has its own link to the network."""
        self._control.post("/doors", {"device": door, "reachable": is_reachable})
        return f"the link of door {door}"

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
        for lock in self._locks():
            if not lock["reachable"] or lock["clockSkewS"]:
                self._control.post("/doors", {"device": lock["device"], "reachable": True, "clockSkewS": 0})

    def status(self) -> SimulatorStatus:
        """See Breakable."""
        dump = self.dump()
        locks = [lock for house in dump["houses"] for lock in house["locks"]]
        keys = [key for house in dump["houses"] for key in house["vendor"] if key["status"] in HELD]
        off = [f"the link of door {lock['device']} is off" for lock in locks if not lock["reachable"]]
        wrong = [f"the clock of door {k['device']} is {k['clockSkewS']:+g} s off" for k in locks if k["clockSkewS"]]
        now = datetime.fromisoformat(dump["now"])
        return SimulatorStatus(now, len(locks), len(keys), (*self._trouble.told(), *off, *wrong))

    def dump(self) -> dict[str, Any]:
        """See Breakable."""
        return self._control.get("/dump")

    def _locks(self) -> list[dict[str, Any]]:
        return [lock for house in self.dump()["houses"] for lock in house["locks"]]


def open_control(address: str, control_url: str) -> AssaAbloyControl:
    """Opens the control port; makes no call."""
    return AssaAbloyControl(address, control_url)


def _name_of(house: WantedHouse, door: WantedDoor) -> str:
    number = str(house.base * NUMBERS_PER_HOUSE + door.number)
    return f"common:{number}" if door.is_shared else number


def _held(door: str, key: dict[str, Any]) -> HeldKey:
    return HeldKey(
        door=door,
        kind=CredentialKind(key["kind"]),
        value=key["serial"] or "",
        opens_from=datetime.fromisoformat(key["from"]),
        opens_until=datetime.fromisoformat(key["until"]),
        is_resting=key["status"] == "suspended",
    )


def _zone(offset_s: int) -> str:
    sign, minutes = "-" if offset_s < 0 else "+", abs(offset_s) // 60
    return f"UTC{sign}{minutes // 60:02d}:{minutes % 60:02d}"


def _derived(house: WantedHouse, use: str) -> str:
    return hashlib.sha256(f"{house.secret}\x1f{house.code}\x1f{use}".encode()).hexdigest()[:32]
