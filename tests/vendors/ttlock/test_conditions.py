"""What TTLock's pushes say of gateways, Wi-Fi locks and batteries, field by field."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from vendors.port.types import DeviceRecord, Reach
from vendors.ttlock.records import read_conditions


def _form(**fields: object) -> bytes:
    return urlencode(fields).encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (_form(notifyType=2, gatewayId=77, isOnline=0), DeviceRecord(Reach.GATEWAY, "77", online=False)),
        (_form(notifyType=2, gatewayId=77, isOnline=1, networkName="lobby"), DeviceRecord(Reach.GATEWAY, "77", online=True)),
        (_form(notifyType=3, lockId=12, isOnline=0, admin="x"), DeviceRecord(Reach.LOCK, "12", online=False)),
    ],
)
def test_coming_and_going_is_read(body: bytes, expected: DeviceRecord) -> None:
    assert read_conditions(body) == (expected,)


@pytest.mark.parametrize(
    "body",
    [
        _form(notifyType=2, isOnline=0), _form(notifyType=2, gatewayId=77), _form(notifyType=2, gatewayId=77, isOnline="maybe"),
        _form(notifyType=4, lockId=12, errcode=-3002), _form(notifyType=7, doorSensorId=1), _form(notifyType=99),
        _form(notifyType=1, lockId=12, records="[]"),
    ],
)  # fmt: skip
def test_a_push_that_tells_nothing_of_a_lock_is_empty(body: bytes) -> None:
    assert read_conditions(body) == ()


def test_of_many_records_the_newest_battery_of_each_lock_counts() -> None:
    records = [
        {"lockId": 12, "electricQuantity": 40, "lockDate": 2000},
        {"lockId": "12", "electricQuantity": "38", "lockDate": "3000"},
        {"lockId": 12, "electricQuantity": 41, "lockDate": 1000},
        {"lockId": 13, "electricQuantity": 101, "lockDate": 1},
        {"electricQuantity": 7},
        {"lockId": 14},
        "no record",
    ]
    body = _form(notifyType=1, lockId=99, records=json.dumps(records))
    assert read_conditions(body) == (
        DeviceRecord(Reach.LOCK, "12", battery_percent=38),
        DeviceRecord(Reach.LOCK, "99", battery_percent=7),
    )


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", _form(lockId=1), b"&".join([b"a=1"] * 100)])
def test_what_is_no_push_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_conditions(body)
