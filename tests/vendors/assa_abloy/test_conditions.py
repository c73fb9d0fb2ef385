"""What Vostio's pushes and door list say of batteries."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from vendors.assa_abloy.vostio_doors import battery_in, device_in
from vendors.assa_abloy.vostio_push import is_genuine, read_conditions
from vendors.port.secrets import Token
from vendors.port.types import DeviceRecord, Reach


def _push(kind: str, data: Any) -> bytes:
    return json.dumps({"eventId": "e1", "type": kind, "environmentId": "x", "data": data}).encode()


def test_a_push_is_signed_over_its_time_a_dot_and_its_bytes() -> None:
    """The signature was computed apart from the product, with `openssl dgst -sha256 -hmac whsec_1`."""
    signature = "sha256=ccd73735783fcafa9244b162a982f96bde85cb786165a87d590374c93aae0898"
    body, now = b'{"type":"grant.active"}', datetime(2026, 1, 1, 14, 30, tzinfo=UTC)
    headers = {"X-Vostio-Timestamp": "1767277800", "X-Vostio-Signature": signature}
    assert is_genuine(headers, body, [Token("whsec_1")], now)
    assert not is_genuine(headers, body + b" ", [Token("whsec_1")], now)
    assert not is_genuine(headers, body, [Token("whsec_2")], now)
    assert is_genuine(headers, body, [Token("whsec_2"), Token("whsec_1")], now + timedelta(seconds=300))
    assert not is_genuine(headers, body, [Token("whsec_1")], now + timedelta(seconds=301))


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
