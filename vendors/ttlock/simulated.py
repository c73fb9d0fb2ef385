"""The TTLock simulator's control port, as the demo and the replay ask it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from vendors.port.simulated import BuiltHouse, DoorAnswer, HeldKey, WantedHouse
from vendors.port.types import CredentialKind
from vendors.support.control_port import ControlPort

from .simulator.model import KEY_DELETED

NUMBERS_PER_HOUSE = 10_000
GATEWAYS_FROM = 9_000
RESTING = frozenset({"ended", "dead", "frozen"})
SECRET_CHARS = 32
"""An application's secret at the vendor is 32 hex digits."""


class TtlockControl:
    """Implements vendors.port.simulated.SimulatorControl."""

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
