"""What the cloud's pushes say of doors and of the connector."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vendors.port.types import DeviceRecord, Reach
from vendors.salto.pushes import read_conditions


def _push(kind: str, **data: Any) -> bytes:
    return json.dumps({"id": "e1", "type": kind, "occurredAt": "2026-05-01T00:00:00Z", "data": data}).encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (_push("connector.offline"), DeviceRecord(Reach.INSTALLATION, "", "e1", online=False)),
        (_push("connector.online"), DeviceRecord(Reach.INSTALLATION, "", "e1", online=True)),
        (_push("door.battery_low", door="101", battery=12), DeviceRecord(Reach.LOCK, "101", "e1", battery_percent=12)),
        (_push("door.battery_low", door="gate", authorization=7, battery=-1), DeviceRecord(Reach.LOCK, "auth:7", "e1", battery_percent=0)),
        (_push("door.clock_incorrect", door="101", clockSkewSec=-1800.5), DeviceRecord(Reach.LOCK, "101", "e1", clock_skew_ms=-1_800_500)),
    ],
)  # fmt: skip
def test_a_condition_is_read(body: bytes, expected: DeviceRecord) -> None:
    assert read_conditions(body) == (expected,)


@pytest.mark.parametrize("kind", ["access.granted", "key.encoded", "something.new"])
def test_another_push_tells_nothing_of_a_lock(kind: str) -> None:
    assert read_conditions(_push(kind)) == ()


@pytest.mark.parametrize(
    "body",
    [
        b"[]", b"{}", b"{", b'{"type": "door.battery_low", "data": 5}', _push("door.battery_low", door="101"),
        _push("door.battery_low", battery=5), _push("door.battery_low", door="101", battery="much"),
        b'{"id": "e", "type": "door.battery_low", "data": {"door": "1", "battery": Infinity}}',
        b'{"id": "e", "type": "door.clock_incorrect", "data": {"door": "1", "clockSkewSec": NaN}}',
    ],
)  # fmt: skip
def test_what_is_not_of_the_contract_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_conditions(body)
