"""The simulator's control port, as the demo and the replay ask it."""

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

from .settings import Locks

NUMBERS_A_HOUSE = 10_000


class WiegandControl:
    """Implements vendors.port.simulated.SimulatorControl and Breakable.

    A door's number is the house's base times ten thousand and its own, so that it is the only one of its name here.
    """

    def __init__(self, address: str, control_url: str) -> None:
        self._address = address
        self._control = ControlPort(control_url)
        self._trouble = TroublePort(self._control)

    def build(self, house: WantedHouse) -> BuiltHouse:
        """Puts up a house: stand-alone locks where no door is within reach of a gateway, else readers on a controller.

        Its encoder is `desk`, whose hand lays cards by itself; a virtual desk of this house does the work.
        """
        is_wired = any(door.gateway is not None for door in house.doors)
        webhook_secret = _derived(house, "webhook")
        rows = [
            {"number": house.base * NUMBERS_A_HOUSE + door.number, "label": door.label, "shared": door.is_shared}
            for door in house.doors
        ]
        body = {
            "house": house.code,
            "propertyNumber": house.base,
            "propertyKey": _derived(house, "property"),
            "controller": is_wired,
            "doors": rows,
            "encoders": [{"name": "desk"}],
        }
        names = self._control.post("/seed", body)["doors"]
        doors = {door.number: str(names[str(row["number"])]) for door, row in zip(house.doors, rows, strict=True)}
        locks = Locks.CONTROLLER if is_wired else Locks.STANDALONE
        settings: dict[str, object] = {"locks": locks.value, "property_number": house.base}
        return BuiltHouse(doors, {}, settings, {"webhook_secret": webhook_secret})

    def try_door(self, door: str, kind: CredentialKind, value: str, at: datetime | None = None) -> DoorAnswer:
        """See SimulatorControl. A card's value is its UID, its number, or its key's reference."""
        body = {"device": door, "kind": kind.value, "value": value, "at": at.isoformat() if at else None}
        answer = self._control.post("/try", body)
        return DoorAnswer(bool(answer["open"]), str(answer["why"]))

    def try_doors(self, attempts: Sequence[DoorAttempt], at: datetime) -> Sequence[DoorAnswer]:
        """See SimulatorControl."""
        tries = [{"device": one.door, "kind": one.kind.value, "value": one.value, "at": at.isoformat()} for one in attempts]
        answers = self._control.post("/try-many", {"tries": tries})["results"]
        return [DoorAnswer(bool(answer["open"]), str(answer["why"])) for answer in answers]

    def held(self, doors: Iterable[str]) -> Sequence[HeldKey]:
        """See SimulatorControl. What a stand-alone lock holds is what cards about would open it, some time from now on."""
        wanted = set(doors)
        rows = [row for house in self.dump()["houses"] for row in house["doors"] if row["device"] in wanted]
        return [_held(row["device"], key) for row in rows for key in row["keys"]]

    def set_clock(self, now: datetime | None, *, running: bool) -> None:
        """See SimulatorControl."""
        self._control.post("/clock", {"now": now.isoformat() if now else None, "running": running})

    def calls(self, doors: Iterable[str]) -> int:
        """See SimulatorControl. Counts what concerned the doors of a controller; an encoder does not know for which door."""
        wanted = set(doors)
        counts = self._control.get("/counts")["byDoor"]
        return sum(int(count) for name, count in counts.items() if name in wanted)

    def break_calls(self, effect: Effect, times: int | None) -> None:
        """See Breakable. What goes wrong are the cables between desk, encoder and controller."""
        self._trouble.add(effect, times)

    def slow_down(self, latency_ms: int) -> None:
        """See Breakable."""
        self._trouble.slow_down(latency_ms)

    def set_door_clock(self, door: str, ahead_s: float) -> None:
        """See Breakable."""
        self._control.post("/door", {"device": door, "clockSkewS": ahead_s})

    def set_reach(self, door: str, *, is_reachable: bool) -> str:
        """See Breakable. Concerns readers; a stand-alone lock is out of everybody's reach anyway."""
        self._control.post("/door", {"device": door, "reachable": is_reachable})
        return f"the line of door {door} to its controller"

    def lie(self) -> None:
        """See Breakable."""
        raise SimulatorRefused("no list of a door's keys is believed here")

    def wipe(self, door: str) -> None:
        """See Breakable."""
        raise SimulatorRefused(f"{door} holds no keys: cards carry their own")

    def heal(self) -> None:
        """See Breakable."""
        self._trouble.heal()
        for house in self.dump()["houses"]:
            for row in house["encoders"]:
                self._control.post("/encoder", {"house": house["house"], "encoder": row["name"], "online": True})
            for row in house["doors"]:
                if not row["reachable"] or row["clockSkewS"]:
                    body = {"house": house["house"], "device": row["device"], "reachable": True, "clockSkewS": 0}
                    self._control.post("/door", body)

    def status(self) -> SimulatorStatus:
        """See Breakable."""
        dump = self.dump()
        doors = [door for house in dump["houses"] for door in house["doors"]]
        off = [f"the line of door {door['device']} is off" for door in doors if not door["reachable"]]
        wrong = [f"the clock of door {d['device']} is {d['clockSkewS']:+g} s off" for d in doors if d["clockSkewS"]]
        pulled = [
            f"the encoder of {house['house']} is unplugged"
            for house in dump["houses"]
            for row in house["encoders"]
            if not row["online"]
        ]
        keys_count = sum(len(door["keys"]) for door in doors)
        now = datetime.fromisoformat(dump["now"])
        return SimulatorStatus(now, len(doors), keys_count, (*self._trouble.told(), *off, *wrong, *pulled))

    def dump(self) -> dict[str, Any]:
        """See Breakable."""
        return self._control.get("/dump")


def open_control(address: str, control_url: str) -> WiegandControl:
    """Opens the control port; makes no call."""
    return WiegandControl(address, control_url)


def _derived(house: WantedHouse, use: str) -> str:
    return hashlib.sha256(f"{house.secret}\x1f{house.code}\x1f{use}".encode()).hexdigest()


def _held(door: str, key: dict[str, Any]) -> HeldKey:
    return HeldKey(
        door=door,
        kind=CredentialKind(key["kind"]),
        value=str(key["value"]),
        opens_from=datetime.fromisoformat(key["validFrom"]),
        opens_until=datetime.fromisoformat(key["validUntil"]),
        is_resting=bool(key["suspended"]),
    )
