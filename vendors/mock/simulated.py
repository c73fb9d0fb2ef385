"""The mock's control port, as the demo and the replay ask it."""

from __future__ import annotations

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


class MockControl:
    """Implements vendors.port.simulated.SimulatorControl and Breakable."""

    def __init__(self, address: str, control_url: str) -> None:
        self._address = address
        self._control = ControlPort(control_url)
        self._trouble = TroublePort(self._control)

    def build(self, house: WantedHouse) -> BuiltHouse:
        """Puts up the doors; the mock has no gateways and no accounts."""
        doors = {door.number: f"{house.code}-{door.number}" for door in house.doors}
        rows = [{"externalId": doors[door.number], "label": door.label} for door in house.doors]
        self._control.post("/seed", {"doors": rows, "additive": True})
        return BuiltHouse(doors, {}, {"url": f"mock://{self._address}"}, {})

    def try_door(self, door: str, kind: CredentialKind, value: str, at: datetime | None = None) -> DoorAnswer:
        """See SimulatorControl."""
        body = {"device": door, "kind": kind.value, "value": value, "at": at.isoformat() if at else None}
        answer = self._control.post("/try", body)
        return DoorAnswer(bool(answer["open"]), str(answer["why"]))

    def try_doors(self, attempts: Sequence[DoorAttempt], at: datetime) -> Sequence[DoorAnswer]:
        """See SimulatorControl."""
        tries = [{"device": one.door, "kind": one.kind.value, "value": one.value, "at": at.isoformat()} for one in attempts]
        answers = self._control.post("/try-many", {"tries": tries})["results"]
        return [DoorAnswer(bool(answer["open"]), str(answer["why"])) for answer in answers]

    def held(self, doors: Iterable[str]) -> Sequence[HeldKey]:
        """See SimulatorControl."""
        wanted = set(doors)
        rows = [row for row in self._control.get("/dump")["doors"] if row["device"] in wanted]
        return [
            HeldKey(
                door=row["device"],
                kind=CredentialKind(key["kind"]),
                value="" if key["kind"] == CredentialKind.MOBILE_APP else key["value"],
                opens_from=datetime.fromisoformat(key["validFrom"]),
                opens_until=datetime.fromisoformat(key["validUntil"]),
                is_resting=bool(key["suspended"]),
            )
            for row in rows
            for key in row["keys"]
        ]

    def set_clock(self, now: datetime | None, *, running: bool) -> None:
        """See SimulatorControl."""
        self._control.post("/clock", {"now": now.isoformat() if now else None, "running": running})

    def calls(self, doors: Iterable[str]) -> int:
        """See SimulatorControl."""
        counts = self._control.get("/counts")["byDoor"]
        return sum(int(counts.get(door, 0)) for door in doors)

    def break_calls(self, effect: Effect, times: int | None) -> None:
        """See Breakable."""
        self._trouble.add(effect, times)

    def slow_down(self, latency_ms: int) -> None:
        """See Breakable."""
        self._trouble.slow_down(latency_ms)

    def set_door_clock(self, door: str, ahead_s: float) -> None:
        """See Breakable."""
        self._control.post("/door", {"device": door, "clockSkewS": ahead_s})

    def set_reach(self, door: str, *, is_reachable: bool) -> str:
        """See Breakable. The mock has no gateways: the door itself is cut off."""
        self._control.post("/door", {"device": door, "reachable": is_reachable})
        return f"the link of door {door}"

    def lie(self) -> None:
        """See Breakable."""
        raise SimulatorRefused("the mock's lists are its doors' own")

    def wipe(self, door: str) -> None:
        """See Breakable. The mock's lists are the doors' own, so the vendor knows."""
        found = next(row for row in self.dump()["doors"] if row["device"] == door)
        for key in found["keys"]:
            self._control.post("/drop", {"device": door, "ref": key["ref"]})

    def heal(self) -> None:
        """See Breakable."""
        self._trouble.heal()
        self._control.post("/faults", {})
        for door in self.dump()["doors"]:
            if not door["reachable"] or door["clockSkewS"]:
                self._control.post("/door", {"device": door["device"], "reachable": True, "clockSkewS": 0})

    def status(self) -> SimulatorStatus:
        """See Breakable."""
        dump = self.dump()
        doors = dump["doors"]
        off = [f"the link of door {door['device']} is off" for door in doors if not door["reachable"]]
        wrong = [f"the clock of door {d['device']} is {d['clockSkewS']:+g} s off" for d in doors if d["clockSkewS"]]
        keys_count = sum(len(door["keys"]) for door in doors)
        now = datetime.fromisoformat(dump["now"])
        return SimulatorStatus(now, len(doors), keys_count, (*self._trouble.told(), *off, *wrong))

    def dump(self) -> dict[str, Any]:
        """See Breakable."""
        return self._control.get("/dump")


def open_control(address: str, control_url: str) -> MockControl:
    """Opens the control port; makes no call."""
    return MockControl(address, control_url)
