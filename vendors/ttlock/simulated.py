"""The TTLock simulator's control port, as the demo and the replay ask it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
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
from vendors.support.trouble_port import tell

from .simulator.model import KEY_DELETED

NUMBERS_PER_HOUSE = 10_000
GATEWAYS_FROM = 9_000
TOO_MANY = 30006
"""The vendor's number for too many requests in a minute."""
FAULTS: Mapping[Effect, Mapping[str, object]] = {
    Effect.DROP: {"effect": "drop_before"},
    Effect.LOST: {"effect": "apply_then_drop"},
    Effect.ERROR: {"effect": "http500"},
    Effect.THROTTLED: {"errcode": TOO_MANY},
}
LISTS = ("lock/listKeyboardPwd", "identityCard/list", "lock/listKey")
RESTING = frozenset({"ended", "dead", "frozen"})
SECRET_CHARS = 32
"""An application's secret at the vendor is 32 hex digits."""


class TtlockControl:
    """Implements vendors.port.simulated.SimulatorControl and Breakable."""

    def __init__(self, address: str, control_url: str) -> None:
        self._address = address
        self._control = ControlPort(control_url)

    def build(self, house: WantedHouse) -> BuiltHouse:
        """Seeds an application and its owner, a gateway for each number, and the locks."""
        first = house.base * NUMBERS_PER_HOUSE
        password = _derived(house, "password")
        account = {
            "clientId": f"app-{house.code}",
            "clientSecret": _derived(house, "client"),
            "username": f"owner@{house.code}.example",
            "password": password,
            "minuteLimit": None,
            "monthLimit": None,
        }
        numbers = sorted({door.gateway for door in house.doors if door.gateway is not None})
        gateways = {number: first + GATEWAYS_FROM + number for number in numbers}
        body = {
            "account": account,
            "gateways": [{"gatewayId": gateways[number], "name": f"Gateway {number}"} for number in numbers],
            "locks": [
                {
                    "lockId": first + door.number,
                    "alias": door.label,
                    "gatewayId": gateways[door.gateway] if door.gateway is not None else None,
                    "timezoneRawOffset": house.utc_offset_s * 1000,
                }
                for door in house.doors
            ],
        }
        self._control.post("/seed", body)
        if house.is_hurried:
            for gateway in gateways.values():
                self._control.post("/latency", {"gatewayId": gateway, "gatewayMs": 0})
        return BuiltHouse(
            doors={door.number: str(first + door.number) for door in house.doors},
            gateways={number: str(gateway) for number, gateway in gateways.items()},
            settings={"base_url": f"http://{self._address}", "client_id": account["clientId"]},
            secrets={
                "client_secret": str(account["clientSecret"]),
                "username": str(account["username"]),
                "password_md5": hashlib.md5(password.encode(), usedforsecurity=False).hexdigest(),
                "webhook_secret": _derived(house, "webhook"),
            },
        )

    def try_door(self, door: str, kind: CredentialKind, value: str, at: datetime | None = None) -> DoorAnswer:
        """See SimulatorControl. A phone's value is its key's reference or the receiver's name."""
        body = {"device": int(door), "kind": kind.value, "value": value, "at": at.isoformat() if at else None}
        answer = self._control.post("/try", body)
        return DoorAnswer(bool(answer["open"]), str(answer["why"]))

    def try_doors(self, attempts: Sequence[DoorAttempt], at: datetime) -> Sequence[DoorAnswer]:
        """See SimulatorControl."""
        tries = [
            {"device": int(one.door), "kind": one.kind.value, "value": one.value, "at": at.isoformat()} for one in attempts
        ]
        answers = self._control.post("/try-many", {"tries": tries})["results"]
        return [DoorAnswer(bool(answer["open"]), str(answer["why"])) for answer in answers]

    def held(self, doors: Iterable[str]) -> Sequence[HeldKey]:
        """See SimulatorControl."""
        wanted = set(doors)
        found: list[HeldKey] = []
        for lock in self._control.get("/dump")["locks"]:
            if str(lock["lockId"]) in wanted:
                found.extend(_keys_of(lock))
        return found

    def set_clock(self, now: datetime | None, *, running: bool) -> None:
        """See SimulatorControl."""
        self._control.post("/clock", {"now": now.isoformat() if now else None, "running": running})

    def calls(self, doors: Iterable[str]) -> int:
        """See SimulatorControl."""
        by_lock = self._control.get("/calls?limit=0")["counts"]["requests"]["byLock"]
        return sum(sum(by_lock.get(door, {}).values()) for door in doors)

    def break_calls(self, effect: Effect, times: int | None) -> None:
        """See Breakable."""
        self._control.post("/faults", {"path": "*", "times": times, **FAULTS[effect]})

    def slow_down(self, latency_ms: int) -> None:
        """See Breakable."""
        self._control.post("/latency", {"cloudMs": latency_ms})

    def set_door_clock(self, door: str, ahead_s: float) -> None:
        """See Breakable."""
        self._control.post("/clock", {"lockId": int(door), "offsetMs": round(ahead_s * 1000), "driftPpm": 0})

    def set_reach(self, door: str, *, is_reachable: bool) -> str:
        """See Breakable. Every door on the same gateway is out of reach with it."""
        lock = next((lock for lock in self.dump()["locks"] if str(lock["lockId"]) == door), None)
        if lock is None or not lock["gatewayIds"]:
            raise SimulatorRefused(f"door {door} hangs on no gateway")
        for gateway_id in lock["gatewayIds"]:
            self._control.post("/gateway", {"gatewayId": gateway_id, "online": is_reachable})
        return f"gateway {', '.join(str(gateway_id) for gateway_id in lock['gatewayIds'])}"

    def lie(self) -> None:
        """See Breakable."""
        for path in LISTS:
            self._control.post("/faults", {"path": path, "times": None, "effect": "empty_list"})

    def wipe(self, door: str) -> None:
        """See Breakable. A phone's key is at the vendor and stays."""
        self._control.post("/door", {"lockId": int(door), "wipe": True})

    def heal(self) -> None:
        """See Breakable. The time that radio takes is left as it was set up."""
        self._control.delete("/faults")
        self._control.post("/latency", {"cloudMs": None})
        dump = self.dump()
        for gateway in dump["gateways"]:
            if not gateway["online"]:
                self._control.post("/gateway", {"gatewayId": gateway["gatewayId"], "online": True})
        for lock in dump["locks"]:
            if lock["door"]["clockOffsetMs"]:
                self.set_door_clock(str(lock["lockId"]), 0)

    def status(self) -> SimulatorStatus:
        """See Breakable."""
        dump, cloud_ms = self.dump(), self._control.get("/latency")["cloudMs"]
        slow = [f"every request takes {cloud_ms:g} ms longer"] if cloud_ms else []
        off = [f"gateway {row['gatewayId']} is off" for row in dump["gateways"] if not row["online"]]
        wrong = [
            f"the clock of door {lock['lockId']} is {lock['door']['clockOffsetMs'] / 1000:+g} s off"
            for lock in dump["locks"]
            if lock["door"]["clockOffsetMs"]
        ]
        keys_count = sum(len(_keys_of(lock)) for lock in dump["locks"])
        now = datetime.fromtimestamp(dump["now"] / 1000, UTC)
        return SimulatorStatus(now, len(dump["locks"]), keys_count, (*self._rules(), *slow, *off, *wrong))

    def dump(self) -> dict[str, Any]:
        """See Breakable."""
        return self._control.get("/dump")

    def _rules(self) -> list[str]:
        told = []
        for rule in self._control.get("/faults")["rules"]:
            left = None if rule["times"] is None else rule["times"] - rule["hits"]
            effect = next((known for known, fault in FAULTS.items() if fault.get("effect", "errcode") == rule["effect"]), None)
            if left != 0:
                told.append(tell(effect, left) if effect else f"{rule['effect']} at {rule['path']}")
        return told


def open_control(address: str, control_url: str) -> TtlockControl:
    """Opens the control port; makes no call."""
    return TtlockControl(address, control_url)


def _derived(house: WantedHouse, use: str) -> str:
    return hashlib.sha256(f"{house.secret}\x1f{house.code}\x1f{use}".encode()).hexdigest()[:SECRET_CHARS]


def _keys_of(lock: dict[str, Any]) -> list[HeldKey]:
    door, found = str(lock["lockId"]), []
    for name, kind in (("passcodes", CredentialKind.PIN_CODE), ("cards", CredentialKind.RFID_CARD)):
        for row in lock["door"][name]:
            resting = row["state"] in RESTING
            found.append(_held(door, kind, row["value"], (row["opensFrom"], row["opensUntil"]), resting=resting))
    for row in lock["cloud"]["keys"]:
        if row["keyStatus"] != KEY_DELETED:
            period = (row["startDate"], row["endDate"])
            found.append(_held(door, CredentialKind.MOBILE_APP, "", period, resting=row["state"] in RESTING))
    return found


def _held(door: str, kind: CredentialKind, value: str, period_ms: tuple[int, int], *, resting: bool) -> HeldKey:
    start, end = period_ms
    until = datetime.max.replace(tzinfo=UTC) if not end else datetime.fromtimestamp(end / 1000, UTC)
    return HeldKey(door, kind, value, datetime.fromtimestamp(start / 1000, UTC), until, resting)
