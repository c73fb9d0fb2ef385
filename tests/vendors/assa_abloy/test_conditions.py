"""What Vostio's pushes and door list say of batteries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vendors.assa_abloy.vostio_doors import battery_in, device_in
from vendors.assa_abloy.vostio_push import read_conditions
from vendors.port.types import DeviceRecord, Reach


def _push(kind: str, data: Any) -> bytes:
    return json.dumps({"eventId": "e1", "type": kind, "environmentId": "x", "data": data}).encode()


def test_a_weak_battery_is_read() -> None:
    guest = _push("door.low_battery", {"doorId": "101", "batteryPercent": 9})
    common = _push("door.low_battery", {"doorId": "5", "doorKind": "common", "batteryPercent": 20})
    assert read_conditions(guest) == (DeviceRecord(Reach.LOCK, "101", "e1", battery_percent=9),)
    assert read_conditions(common) == (DeviceRecord(Reach.LOCK, "common:5", "e1", battery_percent=20),)


@pytest.mark.parametrize(
    "body",
    [
        _push("access.granted", {}), _push("door.stand_open", {"doorId": "101"}), _push("door.low_battery", {"doorId": "101"}),
        _push("door.low_battery", {"doorId": "101", "batteryPercent": 101}),
        _push("door.low_battery", {"doorId": "101", "batteryPercent": "low"}),
    ],
)  # fmt: skip
def test_one_that_does_not_say_how_weak_tells_nothing(body: bytes) -> None:
    assert read_conditions(body) == ()


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", _push("door.low_battery", None), _push("door.low_battery", {"batteryPercent": 5})]
)
def test_what_is_no_push_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_conditions(body)


def test_the_door_list_gives_the_battery_where_it_knows_it() -> None:
    row = {"pmsId": "101", "doorName": "Room 101", "type": "GuestDoor", "online": True, "batteryPercent": 44}
    assert device_in(row).battery_percent == 44
    assert [battery_in({"batteryPercent": value}) for value in (None, -1, 101, "44", 0, 100)] == [
        None,
        None,
        None,
        None,
        0,
        100,
    ]
